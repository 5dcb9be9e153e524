"""Specs of the problems at sizes that cost less: of a run's end in the interpreter, a quarter."""

from pathlib import Path

PROBLEMS = Path(__file__).resolve().parents[1] / "bench" / "problems"


def small_spec(problem: str, folder: Path) -> Path:
    """The spec of a problem with 1024 for each 4096 in it: every tile still divides."""
    text = (PROBLEMS / problem / "spec.yaml").read_text()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "small.yaml"
    path.write_text(text.replace("4096", "1024"))
    return path
