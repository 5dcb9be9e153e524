"""The floors of the package: a module imports from its own floor and from those below."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "xesmith"

#: from the lowest to the highest; a name is a module or package right under xesmith/
FLOORS: dict[str, tuple[str, ...]] = {
    "nouns": (
        "assets",
        "bench",
        "contract_names",
        "device",
        "errors",
        "ir_bounds",
        "kernel_file",
        "knowledge",
        "launch_plan",
        "ledger",
        "pass_plan",
        "scratch",
        "spec",
        "stage_contract",
        "stage_order",
        "tokens",
    ),
    "sight": ("evidence", "ghost", "lowering", "passes", "toolchain", "worker"),
    "models": ("lm",),
    "judgement": ("cascade", "contracts", "cost", "findings", "timing"),
    "stages": ("stages",),
    "engine": ("engine",),
    "faces": ("cli", "hook", "mcp", "report", "workspace"),
}
LEVEL = {name: level for level, names in enumerate(FLOORS.values()) for name in names}

#: records inside packages of higher floors: standard library only, so anyone may import them
NOUN_MODULES = (
    "xesmith.ghost.launch",
    "xesmith.lowering.record",
    "xesmith.evidence.record",
    "xesmith.findings.record",
    "xesmith.cascade.record",
    "xesmith.toolchain.record",
    "xesmith.lm.record",
)

#: modules that run in worker processes of foreign environments
WORKER_MODULES = (
    "xesmith.worker.server",
    "xesmith.ghost.launch",
    "xesmith.lowering.record",
    "xesmith.pass_plan",
    "xesmith.toolchain.record",
    "xesmith.toolchain.environment",
)
HEAVY = ("pydantic", "libcst", "typer", "rich", "yaml", "jinja2", "mlir", "simpleeval")


def imported(path: Path) -> list[tuple[int, str]]:
    """(line, module) of each import of xesmith in a file, deferred ones included."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            module = node.module or ""
            if module == "xesmith":
                found += [(node.lineno, f"xesmith.{name.name}") for name in node.names]
            else:
                found.append((node.lineno, module))
    return [(line, name) for line, name in found if name.startswith("xesmith.")]


def top(module: str) -> str:
    return module.split(".")[1]


def test_every_module_has_a_floor_and_every_floor_its_modules() -> None:
    present = {
        p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert present - {"__init__", "__main__"} == set(LEVEL)
    for module in (*NOUN_MODULES, *WORKER_MODULES):
        assert PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").is_file(), module


def test_imports_go_down_only() -> None:
    wrong: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] not in LEVEL:
            continue
        for line, module in imported(path):
            if module in NOUN_MODULES or top(module) not in LEVEL:
                continue
            if LEVEL[top(module)] > LEVEL[parts[0]]:
                wrong.append(f"{path.relative_to(PACKAGE)}:{line} imports {module}")
    assert wrong == []


def test_an_upward_import_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "device.py"
    file.write_text("def f():\n    from xesmith import cli\n    import xesmith.cascade.record\n")
    assert imported(file) == [(2, "xesmith.cli"), (3, "xesmith.cascade.record")]


@pytest.mark.parametrize("module", WORKER_MODULES)
def test_what_workers_import_is_light(module: str) -> None:
    script = f"import sys, {module}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
