"""Runs a program's Model in Triton's interpreter, once per seed and configuration.

Tasks of the worker role "interpret": `reference` makes inputs, weights and the expected outputs
(in float64 where the Model allows it); `candidate` reads those inputs and weights and writes
what it computed; `probe` tells what a program would launch. Values travel as raw files
(`tensor_files`), never as pickles.
"""

from __future__ import annotations

import contextlib
import copy
import linecache
import sys
import traceback
import types
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch

from xesmith.cascade import tensor_files
from xesmith.cascade.expected import float64_by_default, native_errors, sizes_and_types
from xesmith.cascade.guarded_memory import GuardedMemory, WatchedTorch
from xesmith.cascade.interpreter import Watch, install
from xesmith.ghost.inputs import empty_input, random_input
from xesmith.ghost.launch import Program
from xesmith.ghost.torch_device import GhostTorch

MODULE_NAME = "xesmith_program"

#: what chooses among a launch plan's alternatives (launch_plan/block_runtime.py)
_FIRST_ALTERNATIVE = "_xs_first"

#: ways in which a candidate is run
HOW = ("usual", "reverse", "tuning", "left out")
_TRACEBACK_CHARACTERS = 4000


class ProgramError(Exception):
    """The program failed: `stage` is "import", "model" or "forward"."""

    def __init__(self, stage: str, cause: BaseException, line: int | None) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.stage = stage
        self.line = line
        self.beyond_interpreter = _beyond_interpreter(cause)
        self.detail = "".join(traceback.format_exception(cause))[-_TRACEBACK_CHARACTERS:]

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "message": str(self),
            "line": self.line,
            "beyond_interpreter": self.beyond_interpreter,
            "detail": self.detail,
        }


class _Session:
    """One program, imported once, in a process of its own."""

    def __init__(self, arguments: dict[str, Any], *, computes: bool = True) -> None:
        self._computes = computes
        self.program = Program.from_json(arguments["program"])
        self.backend: str = arguments["backend"]
        given: dict[str, Any] = arguments.get("target") or {}
        self.properties = {"multi_processor_count": given.get("gpu_subslice_count", 1), **given}
        self.notes: list[str] = []
        self.watch = Watch(source_path=self.program.path)
        # -W error, inherited, would turn numpy's remarks inside the interpreter into failures.
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        install(self.watch, self.backend, self.properties)
        with self._guarded("import"):
            self.module = self._load()
        self._watch_alternatives()

    def _load(self) -> types.ModuleType:
        path = self.program.path
        source = self.program.source
        sys.path.insert(0, str(Path(path).resolve().parent))
        sys.argv = [path, *self.program.argv]
        # The interpreter reads a kernel's text through `inspect`: this text, not the file's.
        linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
        module = types.ModuleType(MODULE_NAME)
        module.__file__ = path
        sys.modules[MODULE_NAME] = module
        exec(compile(source, path, "exec"), module.__dict__)
        return module

    def _watch_alternatives(self) -> None:
        """Tells the watch which alternatives of a generated launch plan are taken."""
        first = getattr(self.module, _FIRST_ALTERNATIVE, None)
        if first is None:
            return
        taken = self.watch.alternatives

        def watched(alternative: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                chosen = alternative(*args, **kwargs)
                if chosen is not None:
                    taken.append(alternative.__name__)
                return chosen

            return call

        def call(alternatives: Any, options: Any, arguments: Any) -> Any:
            return first([watched(a) for a in alternatives], options, arguments)

        setattr(self.module, _FIRST_ALTERNATIVE, call)

    @contextlib.contextmanager
    def _guarded(self, stage: str) -> Generator[None]:
        """Torch answers for the device; what the program raises becomes a ProgramError."""
        ghost = GhostTorch(
            self.backend,
            notes=self.notes,
            properties=self.properties,
            computes=self._computes,
        )
        try:
            with ghost, torch.no_grad():
                yield
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            raise ProgramError(stage, _cause(error), _line(error, self.program.path)) from error

    def model(self, seed: int) -> Any:
        with self._guarded("model"):
            _seed(seed)
            inits = self.program.inits
            if inits is None:
                make = getattr(self.module, "get_init_inputs", None)
                inits = () if make is None else tuple(make())
            model = _required(self.module, "Model")(*inits)
            if self.program.dtype and isinstance(model, torch.nn.Module):
                model = model.to(getattr(torch, self.program.dtype))
            return model

    def inputs(self, seed: int, index: int) -> list[Any]:
        with self._guarded("model"):
            _seed(seed)
            if self.program.inputs is None:
                return list(_required(self.module, "get_inputs")())
            return [random_input(spec, index) for spec in self.program.inputs]

    def forward(self, model: Any, inputs: list[Any], seed: int) -> Any:
        with self._guarded("forward"):
            _seed(seed)
            return model(*inputs)


def reference(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Inputs, weights and expected outputs of each seed, written under `folder`.

    Arguments: program, backend, seeds [[index, seed], ...], float64 (whether to compute in
    float64: not when the reference is a Triton kernel, whose types are part of its text), natively
    (whether to compute also in the reference's own types where float64 serves).

    Returns:
        {"failure": ...} or {"seeds": {seed: {...}}, "precision": "float64"|"native",
        "why_native": text|None}.
    """
    try:
        session = _Session(arguments)
        why_native = None if arguments["float64"] else "the reference is a Triton kernel"
        seeds: dict[str, Any] = {}
        for index, seed in arguments["seeds"]:
            result = _reference_seed(
                session,
                index,
                seed,
                folder,
                why_native,
                natively=arguments["natively"] or why_native is not None,
            )
            why_native = result.pop("why_native")
            seeds[str(seed)] = result
    except ProgramError as error:
        return {"failure": error.to_json()}
    return {
        "failure": None,
        "seeds": seeds,
        "precision": "float64" if why_native is None else "native",
        "why_native": why_native,
        "launches": session.watch.launches,
    }


def _reference_seed(
    session: _Session,
    index: int,
    seed: int,
    folder: Path,
    why_native: str | None,
    *,
    natively: bool,
) -> dict[str, Any]:
    model = session.model(seed)
    inputs = session.inputs(seed, index)
    state = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    result: dict[str, Any] = {
        "natively": natively,
        "inputs": tensor_files.write(inputs, folder / f"inputs-{seed}.bin"),
        "state": tensor_files.write(dict(state), folder / f"state-{seed}.bin"),
        **sizes_and_types(
            list(tensor_files.tensors(inputs)), list(tensor_files.tensors(dict(state)))
        ),
    }
    native: Any = None
    native_failure: ProgramError | None = None
    wide_model = copy.deepcopy(model) if why_native is None else None
    wide_inputs = _map(inputs, _to_float64) if why_native is None else None
    result["native"] = None
    try:
        if natively:
            native = session.forward(model, inputs, seed)
            result["native"] = _describe(native)
    except ProgramError as error:
        if why_native is not None:
            raise
        native_failure = error  # e.g. an operator that the CPU lacks in float16
    expected = native
    if wide_model is not None:
        try:
            expected = _forward_float64(session, wide_model, wide_inputs, seed)
        except ProgramError as error:
            if native_failure is not None:
                raise native_failure from error
            why_native = f"the reference does not run in float64: {error}"
            if not natively:
                return _reference_seed(session, index, seed, folder, why_native, natively=True)
    result["expected"] = tensor_files.write(expected, folder / f"expected-{seed}.bin")
    result["native_errors"] = (
        None
        if native is None
        else native_errors(tensor_files.tensors(native), tensor_files.tensors(expected))
    )
    result["why_native"] = why_native
    return result


def _forward_float64(session: _Session, model: Any, inputs: Any, seed: int) -> Any:
    wide = model.double() if isinstance(model, torch.nn.Module) else model
    with float64_by_default():
        return session.forward(wide, inputs, seed)


def candidate(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Runs the candidate on prepared inputs and weights; outputs are written under `folder`.

    Arguments: program, backend, target, prepared (folder of `reference`'s files), seeds
    {seed: its trees}, order [seed, ...], quick (whether to leave out the
    reverse order and the first call).

    Run i has seed i (of n, i modulo n) and configuration i of every autotuned kernel (its last,
    where it has fewer), so that each seed and each configuration is run; then the first
    run again with programs in reverse order; for an autotuned kernel once as the first call, in
    which configurations are timed (both left out where `quick`); then once more with no kernel
    launched.

    Returns:
        {"failure", "failed_run", "runs": [{"seed", "configuration", "how", "outputs", "file",
        "inputs_changed", "broken_guards", "outside"}], "launches", "programs",
        "configurations", "torch_operators", "changed_by_kernels", "weights", "notes", "trace"}.
        "trace" is `Trace.to_json` of all runs. "how" is one of `HOW`.
    """
    prepared = Path(arguments["prepared"])
    order: list[int] = arguments["order"]
    trees: dict[str, Any] = arguments["seeds"]
    runs: list[dict[str, Any]] = []
    report: dict[str, Any] = {"failure": None, "failed_run": None, "runs": runs}
    now: dict[str, Any] = {}
    try:
        session = _Session(arguments)
        runner = _CandidateRunner(session, prepared, folder, trees)
        number = 0
        while number < max(len(order), session.watch.configurations):
            now = {
                "seed": order[number % len(order)],
                # How many there are is known once the first run has come to the kernel.
                "configuration": min(number, session.watch.configurations - 1),
                "how": "usual",
            }
            runs.append(runner.run(number, **now))
            if number == 0:
                report["launches"] = dict(session.watch.launches)
                report["programs"] = session.watch.programs
                report["torch_operators"] = runner.operators
            number += 1
        if not arguments["quick"]:
            now = {"seed": order[0], "configuration": 0, "how": "reverse"}
            runs.append(runner.run(number, **now))
        if session.watch.configurations > 1 and not arguments["quick"]:
            now = {"seed": order[0], "configuration": 0, "how": "tuning"}
            runs.append(runner.run(number + 1, **now))
        now = {"seed": order[0], "configuration": 0, "how": "left out"}
        report["changed_by_kernels"] = runner.changed_by_kernels(order[0])
    except ProgramError as error:
        report["failure"] = error.to_json()
        report["failed_run"] = now
        return report
    report["configurations"] = session.watch.configurations
    report["weights"] = runner.weights
    report["notes"] = session.notes
    report["trace"] = session.watch.trace.to_json()
    return report


def probe(arguments: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """What a program launches in each case; nothing is computed, so sizes cost nothing.

    Arguments: programs (of one source, one a case), backend, target.

    Returns:
        Per case {"failure": text | None, "launches": [{"kernel", "grid", "constexprs",
        "options"}], "alternatives": [name, ...] of its launch plan, as they were taken}.
    """
    programs: list[dict[str, Any]] = arguments["programs"]
    try:
        session = _Session({**arguments, "program": programs[0]}, computes=False)
    except ProgramError as error:
        failed: dict[str, Any] = {"failure": str(error), "launches": [], "alternatives": []}
        return [failed for _ in programs]
    found: list[dict[str, Any]] = []
    for program in programs:
        session.program = Program.from_json(program)
        session.watch.begin(GuardedMemory(), 0)
        session.watch.leave_out = True
        failure: str | None = None
        try:
            model = session.model(0)
            inputs = session.program.inputs
            values = session.inputs(0, 0) if inputs is None else [empty_input(i) for i in inputs]
            session.forward(model, values, 0)
        except ProgramError as error:
            failure = str(error)
        found.append(
            {
                "failure": failure,
                "launches": session.watch.left_out,
                "alternatives": list(session.watch.alternatives),
            }
        )
    return found


class _CandidateRunner:
    def __init__(
        self, session: _Session, prepared: Path, folder: Path, trees: dict[str, Any]
    ) -> None:
        self._session = session
        self._prepared = prepared
        self._folder = folder
        self._trees = trees
        self._first: bytes = b""  # outputs of the first run
        self.weights = "none"
        self.operators: dict[str, int] = {}

    def run(self, number: int, seed: int, configuration: int, how: str) -> dict[str, Any]:
        memory, output, changed = self._forward(seed, configuration, number, how)
        path = self._folder / f"run-{number}.bin"
        try:
            outputs = tensor_files.write(output, path)
        except TypeError as error:
            raise ProgramError(
                "forward", TypeError(f"Model returns {error}, which is no plain tensor"), None
            ) from error
        if number == 0:
            self._first = path.read_bytes()
        return {
            "seed": seed,
            "configuration": configuration,
            "how": how,
            "file": path.name,
            "outputs": outputs,
            "inputs_changed": changed,
            "broken_guards": memory.broken_guards(),
            "outside": [a.to_json() for a in self._session.watch.outside.values()],
        }

    def changed_by_kernels(self, seed: int) -> bool:
        """Whether the outputs are others when no kernel is launched."""
        try:
            _, output, _ = self._forward(seed, 0, 0, "left out")
        except ProgramError:
            return True  # it stumbled over what the kernels should have written
        path = self._folder / "without-kernels.bin"
        tensor_files.write(output, path)
        return path.read_bytes() != self._first

    def _forward(
        self, seed: int, configuration: int, number: int, how: str
    ) -> tuple[GuardedMemory, Any, list[int]]:
        # Two patterns, since an integer has no NaN that would give an unwritten one away.
        memory = GuardedMemory(integer_poison=0xA5 if number % 2 == 0 else 0x5A)
        watch = self._session.watch
        watch.begin(memory, configuration)
        watch.reverse = how == "reverse"
        watch.tuning = how == "tuning"
        watch.leave_out = how == "left out"
        trees = self._trees[str(seed)]
        torch_watch = WatchedTorch(memory)
        with torch_watch:
            model = self._session.model(seed)
        self._load_weights(model, seed, memory)
        inputs = tensor_files.read(
            trees["inputs"], self._prepared / f"inputs-{seed}.bin", memory.adopt
        )
        before = [t.clone() for t in tensor_files.tensors(inputs)]
        torch_watch.operators.clear()
        with torch_watch:
            output = self._session.forward(model, inputs, seed)
        if how != "left out":
            self.operators = dict(torch_watch.operators)
        changed = [
            i
            for i, (was, now) in enumerate(zip(before, tensor_files.tensors(inputs), strict=True))
            if not _same_bits(was, now)
        ]
        return memory, output, changed

    def _load_weights(self, model: Any, seed: int, memory: GuardedMemory) -> None:
        if not isinstance(model, torch.nn.Module):
            return
        own: dict[str, torch.Tensor] = model.state_dict()
        given: dict[str, torch.Tensor] = tensor_files.read(
            self._trees[str(seed)]["state"], self._prepared / f"state-{seed}.bin"
        )
        if own or given:
            same = own.keys() == given.keys() and all(
                own[name].shape == given[name].shape for name in own
            )
            self.weights = "the same state_dict" if same else "the same seed"
            if same:
                model.load_state_dict(given)
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.data = memory.adopt(tensor.data)


def _seed(seed: int) -> None:
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]


def _describe(value: Any) -> list[dict[str, Any]]:
    return [
        {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape)}
        for t in tensor_files.tensors(value)
    ]


def _to_float64(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _map(value: Any, function: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_map(v, function) for v in value)  # type: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {k: _map(v, function) for k, v in value.items()}  # type: ignore[reportUnknownVariableType]
    return value


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal, a NaN equalling the same NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)
    return torch.equal(a, b)


def _required(module: types.ModuleType, name: str) -> Any:
    found = getattr(module, name, None)
    if found is None:
        raise AttributeError(f"the file defines no '{name}'")
    return found


def _cause(error: BaseException) -> BaseException:
    """What the interpreter's own wrapping hides."""
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    return error


def _beyond_interpreter(error: BaseException) -> bool:
    """Whether this Triton's interpreter lacks what the kernel uses: not the kernel's fault."""
    if isinstance(error, AttributeError):
        return "InterpreterBuilder" in str(error)
    if not isinstance(error, NotImplementedError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and "triton" in Path(frames[-1].filename).parts


def _line(error: BaseException, path: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno
    line = None
    for frame in traceback.extract_tb(_cause(error).__traceback__):
        if frame.filename == path:
            line = frame.lineno
    return line
