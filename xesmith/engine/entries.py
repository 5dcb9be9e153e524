"""From kernel files and specs to entries that can be timed where no spec is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from xesmith.bench import load_problem as load_bench_problem
from xesmith.bench import problem_names
from xesmith.engine.problem import AS_WRITTEN, Problem, load_problem, shape_name
from xesmith.errors import UsageError
from xesmith.kernel_file import read_source
from xesmith.spec import Budget, Shape
from xesmith.timing.contest import Entry, EntryShape
from xesmith.timing.problem_checks import ProblemCheck, check_problem
from xesmith.worker.client import WorkerPool


def kernel_path(given: str) -> Path:
    """A kernel file: a path, or the baseline of a problem of bench/problems by its name."""
    path = Path(given)
    if path.suffix == ".py" or path.exists():
        return path / "kernel.py" if path.is_dir() else path
    if given in problem_names():
        return load_bench_problem(given).kernel
    raise UsageError(
        f"neither a file nor a problem: '{given}'",
        remedy=f"give a kernel file, or one of {', '.join(problem_names())}",
    )


def load_entry(
    path: Path,
    spec: Path | None = None,
    variant: str | None = None,
    reference: Path | None = None,
    baseline: Path | None = None,
) -> Entry:
    """A kernel file with all its shapes.

    Without `reference` reference.py beside it serves; without `baseline` kernel.py beside it, for
    a file of another name.

    Raises:
        UsageError, InputKernelError: a file that is missing or wrong, or that has no Model.
    """
    problem = load_problem(path, spec, variant)
    problem.require_model()
    beside = path.parent / "reference.py"
    if reference is None and beside.is_file():
        reference = beside
    first = path.parent / "kernel.py"
    if baseline is None and first.is_file():
        baseline = first
    return entry_of(
        problem,
        baseline=None if baseline is None else read_source(baseline),
        reference=None if reference is None else read_source(reference),
    )


#: of a reference that is run some thirty times on a CPU
_CHECK_BUDGET = Budget(elements=2**18, flop=2e7)


def check(
    pool: WorkerPool,
    path: Path,
    spec: Path | None = None,
    variant: str | None = None,
    reference: Path | None = None,
) -> ProblemCheck:
    """Asks whether a problem's output is worth computing, at its shapes scaled down.

    Raises:
        UsageError: no reference. InputKernelError: it does not run.
    """
    problem = load_problem(path, spec, variant)
    file = reference or path.parent / "reference.py"
    if not file.is_file():
        raise UsageError(
            "the problem has no reference",
            where=str(path),
            remedy="give --reference, or a reference.py beside the kernel",
        )
    names: list[str] = []
    shapes = [EntryShape(AS_WRITTEN, AS_WRITTEN, None, None, None)]
    if problem.spec is not None:
        names = [init.dim or str(init.param) for init in problem.spec.inits]
        small = [problem.spec.scale(shape, budget=_CHECK_BUDGET) for shape in problem.shapes]
        shapes = [entry_shape(shape) for shape in small]
    return check_problem(pool, read_source(file), str(file), shapes, names)


def entry_of(
    problem: Problem,
    *,
    kernel: str | None = None,
    baseline: str | None = None,
    reference: str | None = None,
    executed_flop: Mapping[str, float] | None = None,
) -> Entry:
    """An entry for `kernel`, the problem's own text when None."""
    shapes = [entry_shape(shape) for shape in problem.shapes]
    as_written = EntryShape(AS_WRITTEN, AS_WRITTEN, None, None, None)
    return Entry(
        name=problem.name,
        kernel=problem.source if kernel is None else kernel,
        baseline=baseline,
        reference=reference,
        spec=None if problem.spec is None else Path(problem.spec.path).read_text("utf-8"),
        shapes=tuple(shapes) or (as_written,),
        executed_flop=dict(executed_flop or {}),
    )


def entry_shape(shape: Shape) -> EntryShape:
    """A shape as what is timed needs it."""
    return EntryShape(
        name=shape_name(shape),
        label=shape.label,
        inputs=shape.inputs,
        inits=shape.inits,
        dtype=shape.dtype,
        flop=shape.flop,
        mem_bytes=shape.mem_bytes,
        rtol=shape.rtol,
        atol=shape.atol,
        dims=shape.dims,
    )


def with_evidence(
    paths: Sequence[Path],
    entries: Sequence[Entry],
    variant: str | None,
    target: str,
    toolchain: str | None,
    say: Callable[[str], None],
) -> tuple[list[Entry], str]:
    """The entries with digests of what their kernels lower to, and which compiler made it."""
    from xesmith.engine.session import Session

    found: list[Entry] = []
    with Session(target, toolchain=toolchain) as session:
        for path, entry in zip(paths, entries, strict=True):
            say(f"lowering {path}")
            problem = load_problem(path, variant=variant)
            (examinations,) = session.examine(problem, [problem.source])
            lowered = {
                name: [
                    item.derived.lowered_hash if item.derived else None
                    for item in examination.evidence
                ]
                for name, examination in examinations.items()
            }
            found.append(replace(entry, lowered={"target": target, "digests": lowered}))
        about = session.description
    return found, f"{about['compiler']} for {target}"
