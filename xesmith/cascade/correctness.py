"""The level "correctness": a candidate's results, in Triton's interpreter, against PyTorch's.

The reference runs first, in a child of its own, and makes inputs, weights and expected outputs
(in float64). The expected outputs are then held in this process, where no candidate can read
them. The candidate runs in another child with limits of time and memory, and a third compares
(`compare_task` states the tolerance). This process imports no torch and runs nobody's code.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from xesmith.cascade import coverage
from xesmith.cascade.exercise import Need, unmet
from xesmith.cascade.fingerprint import fingerprint
from xesmith.cascade.record import LevelResult
from xesmith.errors import InputKernelError, UsageError
from xesmith.ghost.launch import Program, TensorSpec
from xesmith.scratch import ScratchFolder
from xesmith.spec import Shape, Spec
from xesmith.worker.client import TaskResult, WorkerPool
from xesmith.worker.confinement import Confinement

DEFAULT_SEEDS = (0, 1, 2)
_FAULTS_SHOWN = 6  # of one case
_FURTHER_CASES = 6  # for what no other case has run, at one shape
_REFERENCE_TASK = "xesmith.cascade.interpret_task:reference"
_CANDIDATE_TASK = "xesmith.cascade.interpret_task:candidate"
_PROBE_TASK = "xesmith.cascade.interpret_task:probe"
_COMPARE_TASK = "xesmith.cascade.compare_task:compare"


@dataclass(frozen=True)
class Case:
    """What a program is called with. None: as the program itself says.

    `rtol` and `atol` override the derived tolerance; `reduction_length` its bound of n.
    """

    name: str
    inits: tuple[Any, ...] | None = None
    inputs: tuple[TensorSpec, ...] | None = None
    dtype: str | None = None
    rtol: float | None = None
    atol: float | None = None
    reduction_length: int | None = None

    @classmethod
    def of(cls, shape: Shape) -> Case:
        return cls(shape.label, shape.inits, shape.inputs, shape.dtype, shape.rtol, shape.atol)

    def applied(self, program: Program) -> Program:
        return replace(program, inits=self.inits, inputs=self.inputs, dtype=self.dtype)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Effort:
    """How thoroughly cases are run.

    `quick`: each seed and configuration once, not in reverse order, nor as a first call.
    `natively`: the reference also in its own types, for its dtypes and PyTorch's own error (a
    large product in float16 takes a CPU a minute). `timeout_s`: None for the checker's.
    """

    quick: bool = False
    natively: bool = True
    timeout_s: float | None = None


THOROUGH = Effort()
QUICK = Effort(quick=True)


@dataclass(frozen=True)
class Reference:
    """What is held to be right: a PyTorch file, or the original kernel for want of one."""

    program: Program
    kind: Literal["pytorch", "kernel"]

    def __str__(self) -> str:
        if self.kind == "pytorch":
            return Path(self.program.path).name
        return f"the original kernel ({Path(self.program.path).name}): no reference.py was given"


def find_reference(kernel: Program, given: Path | None = None) -> Reference:
    """The file `given`, else reference.py beside the kernel, else the kernel itself.

    Raises:
        UsageError: `given` cannot be read.
    """
    path = given or Path(kernel.path).parent / "reference.py"
    if given is None and not path.is_file():
        return Reference(kernel, "kernel")
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the reference cannot be read: {error}",
            where=str(path),
            remedy="--reference names a Python file with the same Model in plain PyTorch",
        ) from error
    return Reference(replace(kernel, source=source, path=str(path)), "pytorch")


def interpreter_pool(python: Path, *, parallel: int = 2) -> WorkerPool:
    """The fork server in which the tasks of this level run."""
    return WorkerPool(
        python,
        "interpret",
        preload=(
            "xesmith.cascade.interpret_task",
            "xesmith.cascade.compare_task",
        ),
        parallel=parallel,
        env={"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )


@dataclass(frozen=True)
class _Prepared:
    """The reference's work for one case. `expected` holds its outputs' raw bytes."""

    folder: Path
    seeds: dict[int, dict[str, Any]]
    expected: dict[int, bytes]
    precision: str
    why_native: str | None
    seconds: float


@dataclass(frozen=True)
class _Covered:
    """A shape of the spec, what the candidate launches there, and the cases of the same path."""

    shape: Shape
    real: Mapping[str, Any]
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class _Outcome:
    """What became of one candidate in one case: a failure, or a report and its comparison."""

    failure: _ProgramFailure | None
    report: Any
    compared: Any
    seconds: float


class CorrectnessChecker:
    """Checks candidates; the same program in the same case runs once until it is closed.

    Args:
        pool: of `interpreter_pool`.
        backend: "xpu" or "cuda", what the programs believe to run on.
        target: Triton's dict of device properties, for programs that ask.
        timeout_s: for one program in one case with all seeds and configurations.
        memory_bytes: the same, beyond the preloaded server.
    """

    def __init__(
        self,
        pool: WorkerPool,
        *,
        backend: str = "xpu",
        target: Mapping[str, Any] | None = None,
        timeout_s: float = 120.0,
        memory_bytes: int = 4 << 30,
    ) -> None:
        self._pool = pool
        self._backend = backend
        self._target = dict(target or {})
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._scratch = ScratchFolder("correctness")
        self._root = self._scratch.path
        self._prepared: dict[str, _Prepared] = {}
        self._outcomes: dict[str, _Outcome] = {}
        self._probed: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self._scratch.close()

    def __enter__(self) -> CorrectnessChecker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(
        self,
        candidate: Program,
        reference: Reference,
        cases: Sequence[Case],
        seeds: Sequence[int] = DEFAULT_SEEDS,
        *,
        baseline: LevelResult | None = None,
        spec: Spec | None = None,
        shapes: Sequence[Shape] = (),
        needed: Mapping[str, Collection[Need]] | None = None,
        effort: Effort = THOROUGH,
    ) -> LevelResult:
        """Judges `candidate` in every case, with every seed.

        `spec` and `shapes`: what it is made for. Where none of `cases` takes the path that the
        candidate takes at one of these (see `coverage`), a case that does is added; where there
        is none, the result is "not_read".

        `needed`: by label of one of `shapes`, what must have run in a case that takes its path
        (see `exercise`). Where it has not, further cases are tried, with the first seed; where
        these do not run it either, the result is "not_read".

        `baseline`: the result of the kernel that the candidate came from. What the candidate
        may do that is no error by itself (reads outside a tensor whose values are not used,
        arithmetic in PyTorch, a wrong first call while @triton.autotune times configurations)
        it may do only where the baseline did.

        Raises:
            InputKernelError: the reference fails.
            ToolchainError: the interpreter's worker cannot start.
        """
        if not cases or len(set(seeds)) != len(seeds) or not seeds:
            raise ValueError("cases and distinct seeds are needed")
        uncovered: list[str] = []
        covered: list[_Covered] = []
        if spec is not None:
            cases = [*cases]
            for shape in shapes:
                found = self._covering(candidate, spec, shape, cases)
                if found is None:
                    uncovered.append(
                        f"no shape small enough for the interpreter takes the path of {shape.label}"
                    )
                    continue
                covered.append(found)
                if not any(case in cases for case in found.cases):
                    cases.append(found.cases[0])
        ran = self._ran(candidate, reference, cases, seeds, effort=effort)
        result = _judge(reference, seeds, ran, baseline, uncovered)
        if result.status == "refused" or spec is None:
            return result
        for item in covered:
            wanted = (needed or {}).get(item.shape.label, ())
            more, lacking = self._exercising(candidate, reference, spec, item, wanted, seeds, ran)
            ran = {**ran, **more}
            uncovered += [
                f"{need} at {item.shape.label}, and not at any shape small enough to interpret"
                # What stands in a loop follows from it.
                for need in [n for n in lacking if n.what == "loop"] or lacking
            ]
        return _judge(reference, seeds, ran, baseline, uncovered)

    def _ran(
        self,
        candidate: Program,
        reference: Reference,
        cases: Sequence[Case],
        seeds: Sequence[int],
        *,
        effort: Effort = THOROUGH,
    ) -> dict[Case, tuple[_Prepared, _Outcome]]:
        """What became of the candidate in each case."""
        with self._lock:
            prepared = self._prepare(reference, cases, seeds, effort)
        keys = [self._key(candidate, reference, case, seeds, effort=effort) for case in cases]
        new = [i for i, key in enumerate(keys) if key not in self._outcomes]
        if new:
            folder = Path(tempfile.mkdtemp(dir=self._root, prefix="candidate-"))
            try:
                ran = self._run_candidate(
                    candidate,
                    [cases[i] for i in new],
                    seeds,
                    [prepared[i] for i in new],
                    folder,
                    effort=effort,
                )
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            self._outcomes.update(zip((keys[i] for i in new), ran, strict=True))
        outcomes = [self._outcomes[key] for key in keys]
        return dict(zip(cases, zip(prepared, outcomes, strict=True), strict=True))

    def _covering(
        self, candidate: Program, spec: Spec, shape: Shape, cases: Sequence[Case]
    ) -> _Covered | None:
        """Those of `cases`, else the cheapest other, that take the candidate's path at `shape`."""
        real, *probed = self._probe(candidate, [Case.of(shape), *cases])
        if real["failure"] is not None:
            return _Covered(shape, real, (cases[0],))  # it fails: the check will say so
        if found := coverage.covering(probed, real):
            return _Covered(shape, real, tuple(cases[index] for index in found))
        for shapes in (coverage.smaller_shapes, coverage.wider_shapes):
            others = [Case.of(other) for other in shapes(spec, shape)]
            if found := coverage.covering(self._probe(candidate, others), real):
                return _Covered(shape, real, (others[found[0]],))
        return None

    def _exercising(
        self,
        candidate: Program,
        reference: Reference,
        spec: Spec,
        covered: _Covered,
        wanted: Collection[Need],
        seeds: Sequence[int],
        ran: Mapping[Case, tuple[_Prepared, _Outcome]],
    ) -> tuple[dict[Case, tuple[_Prepared, _Outcome]], tuple[Need, ...]]:
        """Further cases that run what those before have not, and what is lacking even so."""
        traces = [
            outcome.report["trace"]
            for case, (_, outcome) in ran.items()
            if case in covered.cases and outcome.failure is None
        ]
        more: dict[Case, tuple[_Prepared, _Outcome]] = {}
        lacking = unmet(wanted, traces)
        if not lacking:
            return more, lacking
        others = coverage.wider_shapes(spec, covered.shape)
        probed = self._probe(candidate, [Case.of(other) for other in others])
        found = coverage.covering(probed, covered.real)
        # Where the grid has stopped growing, loops go on instead: those shapes first.
        found.sort(key=lambda index: not coverage.same_grids(probed[index], covered.real))
        further = coverage.spread([others[index] for index in found], covered.shape)
        for case in map(Case.of, further):
            if not lacking or len(more) == _FURTHER_CASES:
                break
            if case in ran:
                continue
            try:
                one = self._ran(candidate, reference, [case], seeds[:1])
            except InputKernelError:
                continue  # the reference is not made for this shape
            failure = one[case][1].failure
            if failure is not None and (failure.over_limit or failure.beyond_interpreter):
                continue
            more |= one
            if failure is not None:
                break
            traces.append(one[case][1].report["trace"])
            lacking = unmet(wanted, traces)
        return more, lacking

    def wide_cases(self, candidate: Program, spec: Spec, shape: Shape) -> list[Case]:
        """Cases in which all sizes but one are those of `shape` (see `coverage.wide_shapes`)."""
        cases = [Case.of(other) for other in coverage.wide_shapes(spec, shape)]
        real, *probed = self._probe(candidate, [Case.of(shape), *cases])
        return [cases[index] for index in coverage.wide(probed, real)]

    def programs(
        self, program: Program, shape: Shape, smaller: Sequence[Shape]
    ) -> list[int | None]:
        """Programs of all grids at each of `smaller` (`Spec.scale` asks for it).

        None where other kernels than at `shape` are launched, or one program along an axis that
        has several there.
        """
        real, *probed = self._probe(program, [Case.of(shape), *map(Case.of, smaller)])
        return [
            coverage.programs(small) if coverage.same_kernels(small, real) else None
            for small in probed
        ]

    def _probe(self, candidate: Program, cases: Sequence[Case]) -> list[dict[str, Any]]:
        keys = [json.dumps(case.applied(candidate).to_json(), sort_keys=True) for case in cases]
        new = {key: case for key, case in zip(keys, cases, strict=True) if key not in self._probed}
        if new:
            found = self._probe_anew(candidate, list(new.values()))
            self._probed.update(zip(new, found, strict=True))
        return [self._probed[key] for key in keys]

    def _probe_anew(self, candidate: Program, cases: Sequence[Case]) -> list[dict[str, Any]]:
        folder = Path(tempfile.mkdtemp(dir=self._root, prefix="probe-"))
        arguments = {
            "programs": [case.applied(candidate).to_json() for case in cases],
            "backend": self._backend,
            "target": self._target,
        }
        probing = self._submit(_PROBE_TASK, arguments, folder, readable=[_beside(candidate)])
        (result,) = self._gather([probing])
        shutil.rmtree(folder, ignore_errors=True)
        if result.status == "ok":
            return result.value
        failure = _program_failure(result, self._timeout_s, self._memory_bytes)
        failed: dict[str, Any] = {"failure": str(failure), "launches": [], "alternatives": []}
        return [failed for _ in cases]

    def passing(
        self,
        baseline: Program,
        reference: Reference,
        cases: Sequence[Case],
        seeds: Sequence[int] = DEFAULT_SEEDS,
    ) -> list[Case]:
        """Of `cases`, those in which the baseline itself is right (e.g. an odd shape)."""
        right: list[Case] = []
        for case in cases:
            try:
                result = self.check(baseline, reference, [case], seeds)
            except InputKernelError:
                continue  # the reference itself is not made for this shape
            if result.status == "passed":
                right.append(case)
        return right

    def _prepare(
        self,
        reference: Reference,
        cases: Sequence[Case],
        seeds: Sequence[int],
        effort: Effort,
    ) -> list[_Prepared]:
        keys = [self._key(None, reference, case, seeds, effort=effort) for case in cases]
        futures: dict[str, tuple[Path, Future[TaskResult]]] = {}
        for key, case in zip(keys, cases, strict=True):
            if key in self._prepared or key in futures:
                continue
            folder = Path(tempfile.mkdtemp(dir=self._root, prefix="reference-"))
            futures[key] = (
                folder,
                self._submit(
                    _REFERENCE_TASK,
                    {
                        "program": case.applied(reference.program).to_json(),
                        "backend": self._backend,
                        "target": self._target,
                        "seeds": list(enumerate(seeds)),
                        "float64": reference.kind == "pytorch",
                        "natively": effort.natively,
                    },
                    folder,
                    effort.timeout_s,
                    readable=[_beside(reference.program)],
                ),
            )
        results = self._gather([future for _, future in futures.values()])
        timeout_s = effort.timeout_s or self._timeout_s
        for (key, (folder, _)), result in zip(futures.items(), results, strict=True):
            case = cases[keys.index(key)]
            self._prepared[key] = _read_reference(
                reference, case, seeds, folder, result, timeout_s, self._memory_bytes
            )
        return [self._prepared[key] for key in keys]

    def _key(
        self,
        candidate: Program | None,
        reference: Reference,
        case: Case,
        seeds: Sequence[int],
        *,
        effort: Effort = THOROUGH,
    ) -> str:
        """Names the work for a candidate, or for the reference alone."""
        parts = [
            None if candidate is None else case.applied(candidate).to_json(),
            None
            if candidate is None
            else [case.rtol, case.atol, case.reduction_length, effort.quick],
            case.applied(reference.program).to_json(),
            reference.kind,
            list(seeds),
            effort.natively,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _run_candidate(
        self,
        candidate: Program,
        cases: Sequence[Case],
        seeds: Sequence[int],
        prepared: Sequence[_Prepared],
        folder: Path,
        *,
        effort: Effort,
    ) -> list[_Outcome]:
        """Runs the candidate, then compares, in every case at once."""
        running = [
            self._submit(
                _CANDIDATE_TASK,
                {
                    "program": case.applied(candidate).to_json(),
                    "backend": self._backend,
                    "target": self._target,
                    "prepared": str(ready.folder),
                    "seeds": {
                        str(seed): {k: trees[k] for k in ("inputs", "state")}
                        for seed, trees in ready.seeds.items()
                    },
                    "order": list(seeds),
                    "quick": effort.quick,
                },
                folder / str(index),
                effort.timeout_s,
                readable=[_beside(candidate), ready.folder],
            )
            for index, (case, ready) in enumerate(zip(cases, prepared, strict=True))
        ]
        results = self._gather(running)
        timeout_s = effort.timeout_s or self._timeout_s
        failures = [
            _program_failure(result, timeout_s, self._memory_bytes)
            or _missing_runs(result.value, seeds, effort)
            for result in results
        ]
        comparing = {
            index: self._compare(case, ready, results[index].value, folder / str(index))
            for index, (case, ready) in enumerate(zip(cases, prepared, strict=True))
            if failures[index] is None
        }
        self._gather(list(comparing.values()))
        outcomes: list[_Outcome] = []
        for index, result in enumerate(results):
            compared: Any = None
            if index in comparing:
                comparison = comparing[index].result()
                if comparison.status != "ok":
                    raise RuntimeError(f"the comparison failed: {comparison}")
                compared = comparison.value
            outcomes.append(_Outcome(failures[index], result.value, compared, result.seconds))
        return outcomes

    def _compare(
        self, case: Case, ready: _Prepared, report: dict[str, Any], outputs: Path
    ) -> Future[TaskResult]:
        folder = Path(tempfile.mkdtemp(dir=self._root, prefix="compare-"))
        used = {run["seed"] for run in report["runs"]}
        for seed in used:
            (folder / f"expected-{seed}.bin").write_bytes(ready.expected[seed])
        future = self._submit(
            _COMPARE_TASK,
            {
                "runs": report["runs"],
                "outputs": str(outputs),
                "seeds": {str(seed): ready.seeds[seed] for seed in used},
                "expected_exact": ready.precision == "float64",
                "rtol": case.rtol,
                "atol": case.atol,
                "reduction_length": case.reduction_length,
            },
            folder,
            readable=[outputs],
        )
        future.add_done_callback(lambda _: shutil.rmtree(folder, ignore_errors=True))
        return future

    def _submit(
        self,
        task: str,
        arguments: dict[str, Any],
        folder: Path,
        timeout_s: float | None = None,
        *,
        readable: Sequence[Path],
    ) -> Future[TaskResult]:
        return self._pool.submit(
            task,
            arguments,
            folder=folder,
            timeout_s=timeout_s or self._timeout_s,
            memory_bytes=self._memory_bytes,
            confinement=Confinement(readable=tuple(map(str, readable))),
        )

    def _gather(self, futures: Sequence[Future[TaskResult]]) -> list[TaskResult]:
        try:
            return [future.result() for future in futures]
        except BaseException:  # Ctrl-C above all: nothing may go on running
            for future in futures:
                self._pool.cancel(future)
            raise


@dataclass(frozen=True)
class _ProgramFailure:
    """Why a program gave no outputs."""

    text: str
    line: int | None = None
    beyond_interpreter: bool = False
    run: str = ""
    over_limit: bool = False  # of time or memory: it may be right, and is too much work here

    def __str__(self) -> str:
        at = f"line {self.line}: " if self.line is not None else ""
        return f"{at}{self.text}{self.run}"


def _beside(program: Program) -> Path:
    """The folder that a program may import from."""
    return Path(program.path).resolve().parent


def _judge(
    reference: Reference,
    seeds: Sequence[int],
    ran: Mapping[Case, tuple[_Prepared, _Outcome]],
    baseline: LevelResult | None,
    uncovered: Sequence[str],
) -> LevelResult:
    records: list[dict[str, Any]] = []
    messages: list[str] = []
    not_interpreted: list[str] = []
    over_limit: list[str] = []
    for case, (ready, outcome) in ran.items():
        failure = outcome.failure
        if failure is not None:
            if failure.over_limit:
                over_limit.append(f"{case}: {failure}")
            kind = not_interpreted if failure.beyond_interpreter else messages
            kind.append(f"{case}: {failure}")
            continue
        record = _case_record(case, ready, outcome)
        records.append(record)
        messages += [f"{case}: {t}" for t in _first(_faults(outcome.report, outcome.compared))]
        messages += [f"{case}: {t}" for t in _liberties(record, case, baseline)]
    facts: dict[str, Any] = {
        "reference": str(reference),
        "seeds": list(seeds),
        "cases": records,
        "not_interpreted": not_interpreted,
        "over_limit": over_limit,
        "uncovered": list(uncovered),
        "hashes": fingerprint(reference.program.source, map(vars, ran)),
    }
    if reference.kind == "kernel":
        facts["note"] = f"compared with {reference}"
    if messages:
        return LevelResult("correctness", "refused", tuple(messages), facts)
    if not_interpreted or uncovered:
        unchecked = tuple(f"not checked: {text}" for text in (*not_interpreted, *uncovered))
        return LevelResult("correctness", "not_read", unchecked, facts)
    return LevelResult("correctness", "passed", (), facts)


def _program_failure(
    result: TaskResult, timeout_s: float, memory_bytes: int
) -> _ProgramFailure | None:
    if result.status == "ok":
        failure = result.value["failure"]
        if failure is None:
            return None
        return _ProgramFailure(
            failure["message"],
            failure["line"],
            failure["beyond_interpreter"],
            _run_text(result.value.get("failed_run") or {}),
        )
    if result.status == "timeout":
        text = f"did not end within {timeout_s:g} s in the interpreter"
        return _ProgramFailure(text, over_limit=True)
    if result.status == "memory":
        text = f"used more than {memory_bytes / (1 << 30):g} GiB of memory"
        return _ProgramFailure(text, over_limit=True)
    if result.status == "raised" and result.error is not None:
        return _ProgramFailure(f"{result.error['type']}: {result.error['message']}")
    if result.status == "lost":
        return _ProgramFailure("the server that had started its process ended while it ran")
    if result.status != "crash":  # forged, stuck, unconfined
        return _ProgramFailure(str(result))
    ended = f"signal {result.signal}" if result.signal else f"exit code {result.exit_code}"
    lines = result.stderr_tail.strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return _ProgramFailure(f"ended its process by {ended}{last}")


def _missing_runs(
    report: Mapping[str, Any], seeds: Sequence[int], effort: Effort
) -> _ProgramFailure | None:
    """A report is written where the candidate runs: less than was asked for counts as nothing."""
    done = {(run["seed"], run["how"]) for run in report["runs"]}
    asked = {(seed, "usual") for seed in seeds}
    if not effort.quick:
        asked.add((seeds[0], "reverse"))
    if asked <= done:
        return None
    return _ProgramFailure("its report lacks runs that were asked for")


_HOW_TEXT = {
    "usual": "",
    "reverse": ", programs in reverse order",
    "tuning": ", first call, in which configurations are timed",
    "left out": ", no kernel launched",
}


def _run_text(run: Mapping[str, Any]) -> str:
    if not run:
        return ""
    configuration = f", configuration {run['configuration']}" if run["configuration"] else ""
    return f" (seed {run['seed']}{configuration}{_HOW_TEXT[run['how']]})"


def _read_reference(
    reference: Reference,
    case: Case,
    seeds: Sequence[int],
    folder: Path,
    result: TaskResult,
    timeout_s: float,
    memory_bytes: int,
) -> _Prepared:
    failure = _program_failure(result, timeout_s, memory_bytes)
    if failure is not None:
        slow = result.status in ("timeout", "memory")
        what = "the kernel itself" if reference.kind == "kernel" else "the reference"
        at = f":{failure.line}" if failure.line is not None else ""
        raise InputKernelError(
            f"{what} fails ({case}): {failure.text}",
            where=f"{reference.program.path}{at}",
            remedy="give a spec (--spec), which tells how to make the problem smaller"
            + (", or a longer --timeout" if result.status == "timeout" else "")
            if slow
            else "the file must run by itself at this shape; mend it, or the spec",
        )
    value = result.value
    expected: dict[int, bytes] = {}
    for seed in seeds:
        path = folder / f"expected-{seed}.bin"
        expected[seed] = path.read_bytes()
        path.unlink()  # before any candidate runs
    return _Prepared(
        folder=folder,
        seeds={int(seed): trees for seed, trees in value["seeds"].items()},
        expected=expected,
        precision=value["precision"],
        why_native=value["why_native"],
        seconds=result.seconds,
    )


def _case_record(case: Case, ready: _Prepared, outcome: _Outcome) -> dict[str, Any]:
    report, compared = outcome.report, outcome.compared
    outputs = [
        output
        for run, outputs in zip(report["runs"], compared, strict=True)
        for output in outputs
        if run["how"] != "tuning"
    ]
    ratios = [o["error_over_allowed"] for o in outputs if o.get("error_over_allowed") is not None]
    return {
        "case": str(case),
        "launches": report["launches"],
        "programs": report["programs"],
        "configurations": report["configurations"],
        "runs": len(report["runs"]),
        "loops": {f"{k}:{line}": most for k, line, _, most in report["trace"]["rounds"]},
        "weights": report["weights"],
        "reference_precision": ready.precision,
        "why_native": ready.why_native,
        "torch_operators": report["torch_operators"],
        "outside": [access for run in report["runs"] for access in run["outside"]],
        "wrong_while_tuning": [
            output["fault"]
            for run, outputs in zip(report["runs"], compared, strict=True)
            for output in outputs
            if run["how"] == "tuning" and output["fault"]
        ],
        "error_over_allowed": max(ratios, default=None),
        "outputs": compared[0] if compared else [],
        "notes": report["notes"],
        "seconds": round(outcome.seconds, 3),
        "reference_seconds": round(ready.seconds, 3),
    }


def _first(faults: list[str]) -> list[str]:
    if len(faults) <= _FAULTS_SHOWN:
        return faults
    return [*faults[:_FAULTS_SHOWN], f"and {len(faults) - _FAULTS_SHOWN} more faults"]


def _faults(report: dict[str, Any], compared: list[list[dict[str, Any]]]) -> list[str]:
    faults: list[str] = []
    if not sum(report["launches"].values()):
        faults.append("no kernel is launched")
    elif all(o.get("elements") == 0 for outputs in compared for o in outputs):
        faults.append("its outputs have no elements, so nothing can be compared")
    elif not report["changed_by_kernels"]:
        faults.append("its kernels do not change the output: it is the same without them")
    for run, outputs in zip(report["runs"], compared, strict=True):
        if run["how"] == "tuning":
            continue  # a liberty: the baseline may do the same
        where = _run_text(run)
        wrong = [o for o in outputs if o["fault"]]
        for output in wrong:
            which = f"output {output['output']}" if output["output"] is not None else "outputs"
            faults.append(f"{which}{where}: {output['fault']}")
        for index in run["inputs_changed"]:
            faults.append(f"input {index}{where} was changed")
        for access in run["outside"]:
            if access["op"] != "load" or wrong:
                faults.append(f"{_outside(access)}{where}")
        for before, behind in run["broken_guards"]:
            if not any(access["op"] != "load" for access in run["outside"]):
                faults.append(f"{before + behind} bytes outside a tensor were written{where}")
    return faults


def _outside(access: Mapping[str, Any]) -> str:
    line = f"line {access['line']}: " if access["line"] is not None else ""
    return (
        f"{line}{access['op']} of {access['kernel']} reaches {access['elements']} elements "
        f"outside its tensor, up to {access['farthest_bytes']} bytes"
    )


def _liberties(record: Mapping[str, Any], case: Case, baseline: LevelResult | None) -> list[str]:
    """What the candidate does that its baseline did not, in the same case."""
    if baseline is None:
        return []
    before = next((s for s in baseline.facts["cases"] if s["case"] == case.name), None)
    if before is None:
        return []
    texts: list[str] = []
    loads = [a for a in record["outside"] if a["op"] == "load"]
    if loads and not before["outside"]:
        texts.append(_outside(loads[0]))
    if record["wrong_while_tuning"] and not before["wrong_while_tuning"]:
        texts.append(
            "the first call, in which configurations are timed on the same buffers, is wrong: "
            f"{record['wrong_while_tuning'][0]}; name what the kernel adds to in reset_to_zero"
        )
    added = sorted(set(record["torch_operators"]) - set(before["torch_operators"]))
    if added:
        texts.append(f"computes with PyTorch what was a kernel's work: {', '.join(added)}")
    return texts
