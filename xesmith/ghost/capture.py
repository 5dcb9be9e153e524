"""Captures every launch of a program, and every level that the compiler makes of it.

Four places of Triton are replaced while a Recorder is installed: `JITFunction.run` (who is
launched, with what), `compile` (the exact signature), `add_stages` (which level is being
made) and the compiler's file cache (which receives each level).

Runs in worker processes: standard library, torch and Triton only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from xesmith.ghost.driver import GhostDriver, Limits, Target, make_backend_class
from xesmith.ghost.foreign import foreign
from xesmith.ghost.launch import Launch, TensorArg
from xesmith.ghost.position import function_position
from xesmith.ghost.ptxas import ptxas_fault
from xesmith.ghost.torch_device import extent_bytes
from xesmith.lowering.exchange import transformed
from xesmith.lowering.options import OptionError, Options, normalise, reported
from xesmith.lowering.planned import apply_pipeline, entry_of, stand_in, switched
from xesmith.lowering.record import LEVEL_FILES, Failure, Lowering
from xesmith.pass_plan import NO_PASSES, PassEntry, PassPlan

#: names of Triton's stages -> ours
_LEVELS = {"spv": "spirv"}

_DIAGNOSTIC = re.compile(r"^(.+?):(\d+):\d+: error: (.+)$", re.M)
_FAILED_PASS = re.compile(r"Pipeline failed while executing \[`(\w+)`")
_ASSERTION = re.compile(r"Assertion `.*' failed")

#: what the caching allocators of torch.xpu and torch.cuda align a block to
DEVICE_ALLOCATION_ALIGNMENT_BYTES = 512

#: a pass that fails prints the whole module before it says which pass that was
_LARGEST_PRINT_BYTES = 32 << 20

#: more distinct launches than this are taken for a program that does not end
LARGEST_LAUNCH_COUNT = 4096


@dataclass
class Compiled:
    """One kernel on its way through the compiler, and where its levels are written."""

    folder: Path
    launch: Launch
    started: float
    entry: PassEntry | None = None  # of the plan
    level: str = "ttir"
    levels: dict[str, str] = field(default_factory=dict[str, str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    failure: Failure | None = None
    not_read: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    suppress: list[str] = field(default_factory=list[str])


@dataclass
class _Call:
    """The `kernel[grid](...)` that is being served."""

    function: Any
    values: dict[str, Any]
    grid: tuple[int, int, int]
    options: Options
    config_index: int | None
    config: dict[str, Any] | None


class LaunchRefusedError(Exception):
    """Raised into the program where the device would have raised, but for another reason
    than Triton has a class for (an option that would be ignored)."""


class _AbandonedLaunchError(Exception):
    """Ends a launch whose failure is recorded, when the program shall go on."""


class Recorder:
    """Captures while installed (a context manager).

    Args:
        target: the device that is compiled for.
        folder: each compiled kernel gets a numbered folder in it; `journal.jsonl` there
            tells a reader what was under way if the process dies.
        device, compiler: names for the lowerings.
        keep_going: let the program go on after a launch that the device would refuse.
        plan, pass_command: what is done to which kernels' TTIR, and by which command.
        on_level: called with (compiled, level, path, module or text) for each level made.
    """

    def __init__(
        self,
        target: Target,
        folder: Path,
        *,
        device: str,
        compiler: str,
        keep_going: bool,
        plan: PassPlan = NO_PASSES,
        pass_command: Sequence[str] = (),
        on_level: Callable[[Compiled, str, Path, Any], None] | None = None,
    ) -> None:
        self.lowerings: list[Lowering] = []
        self.notes: list[str] = []
        #: of what the program returned (see `torch_device.made_bytes`)
        self.made_bytes: dict[str, int] = {}
        #: the exceptions raised into the program for a failure that is recorded
        self.raised: list[tuple[BaseException, Failure]] = []
        self._target = target
        self._device = device
        self._compiler = compiler
        self._folder = folder
        self._keep_going = keep_going
        self._plan = plan
        self._pass_command = pass_command
        self._on_level = on_level
        self._calls: list[_Call] = []
        self._tuning: list[tuple[Any, Any]] = []  # (autotuner, configuration being tried)
        self._compiling: Compiled | None = None
        self._compiled: dict[int, tuple[Any, Compiled]] = {}  # by id of the ASTSource, kept alive
        self._parsed: dict[str, Any] = {}  # jit functions by their source
        self._positions: dict[str, int] = {}  # of each different launch among the lowerings
        self._count = 0
        self._last_failed = False
        self._journal = os.open(folder / "journal.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._undo = contextlib.ExitStack()
        self._defaults: dict[str, Any] | None = None

    def __enter__(self) -> Recorder:
        triton = foreign("triton")
        compiler_module = foreign("triton.compiler.compiler")
        tuner_class = foreign("triton.runtime.autotuner").Autotuner
        function_class = foreign("triton.runtime.jit").JITFunction
        compiler_class = make_backend_class(self._target)
        self._driver = GhostDriver(self._target, self._make_launcher, self._benchmark)
        triton.runtime.driver.set_active(self._driver)
        self._patch(compiler_module.CompiledKernel, "_init_handles", self._wrap_load)
        self._patch(foreign("triton.testing"), "do_bench", lambda _: self._timed)
        self._patch(foreign("triton.testing"), "do_bench_cudagraph", lambda _: self._timed)
        self._patch(foreign("triton.testing").Mark, "run", lambda _: self._run_report)
        self._patch(function_class, "run", self._wrap_run)
        self._patch(function_class, "parse", self._wrap_parse)
        self._patch(tuner_class, "run", self._wrap_tuner_run)
        self._patch(tuner_class, "_bench", self._wrap_bench)
        self._patch(triton.compiler, "compile", self._wrap_compile)
        self._patch(compiler_class, "add_stages", self._wrap_add_stages)
        self._patch(compiler_module, "get_cache_manager", lambda _: self._make_cache_manager)
        # The key only has to be one per process here: hashing libtriton takes 0.5 s.
        for module in (compiler_module, foreign("triton.runtime.cache")):
            if hasattr(module, "triton_key"):
                self._patch(module, "triton_key", lambda _: lambda: triton.__version__)
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()
        os.close(self._journal)

    def _patch(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        setattr(owner, name, wrap(original))
        self._undo.callback(setattr, owner, name, original)

    # -- the launch ------------------------------------------------------------------------

    def _wrap_run(self, original: Any) -> Any:
        def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            parameters = [p.name for p in function.params]
            given = {k: v for k, v in kwargs.items() if k not in parameters}
            debug = {k: given.pop(k) for k in ("debug",) if k in given}
            values = _bind(function, args, {k: v for k, v in kwargs.items() if k in parameters})
            shape = _evaluate_grid(grid, values)
            self._last_failed = False
            try:
                options = normalise(given, self._option_defaults())
            except OptionError as error:
                failure = Failure(kind="options", level="launch", message=str(error))
                return self._refuse(function, values, shape, given, failure)
            if failure := _illegal_warps(given.get("num_warps", 4)):
                return self._refuse(function, values, shape, given, failure)
            index, config = self._current_config()
            name, backend = function.__name__, self._target.backend
            entry = self._plan.find(name, backend, values, shape, function.src)
            if entry is not None:
                function = stand_in(function, entry)
            call = _Call(function, values, shape, options, index, config)
            self._calls.append(call)
            keywords = {k: v for k, v in kwargs.items() if k in parameters}
            try:
                return original(
                    function,
                    *args,
                    grid=shape if grid is not None else None,
                    warmup=warmup,
                    **keywords,
                    **debug,
                    **options.compiler,
                )
            except _AbandonedLaunchError:
                return None
            finally:
                self._calls.pop()

        return run

    def _option_defaults(self) -> dict[str, Any]:
        if self._defaults is None:
            backend = foreign("triton.compiler.compiler").make_backend(
                self._driver.get_current_target()
            )
            self._defaults = dict(backend.parse_options({}).__dict__)
        return self._defaults

    def _refuse(
        self,
        function: Any,
        values: dict[str, Any],
        grid: tuple[int, int, int],
        given: Mapping[str, Any],
        failure: Failure,
    ) -> None:
        """Records a launch that does not reach the compiler."""
        index, config = self._current_config()
        file, line = function_position(function)
        failure = replace(failure, line=line)
        self._last_failed = True
        self._add(
            Launch(
                index=len(self.lowerings),
                kernel=function.__name__,
                file=file,
                line=line,
                grid=grid,
                signature={},
                values={k: _plain(v) for k, v in values.items()},
                constexprs={
                    p.name: _plain(values.get(p.name)) for p in function.params if p.is_constexpr
                },
                divisible_by_16=(),
                options={k: _plain(v) for k, v in given.items()},
                config_index=index,
                config=config,
            ),
            None,
            failure,
        )
        if not self._keep_going:
            raise self._raising(LaunchRefusedError(failure.message), failure)

    def _raising(self, error: Exception, failure: Failure) -> Exception:
        self.raised.append((error, failure))
        return error

    # -- autotuning ------------------------------------------------------------------------

    def _wrap_tuner_run(self, original: Any) -> Any:
        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            # A tuner made with warmup=, rep= or do_bench= brings its own, which needs a GPU.
            tuner.__dict__["do_bench"] = self._benchmark
            self._tuning.append((tuner, None))
            try:
                return original(tuner, *args, **kwargs)
            finally:
                self._tuning.pop()

        return run

    def _wrap_bench(self, original: Any) -> Any:
        def bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
            self._tuning.append((tuner, config))
            try:
                return original(tuner, *args, config=config, **meta)
            finally:
                self._tuning.pop()

        return bench

    def _benchmark(self, call: Callable[[], Any], *_: Any, **__: Any) -> list[float]:
        """Launches a configuration once. All that the device accepts are equally fast here."""
        self._last_failed = False
        call()
        return [float("inf") if self._last_failed else 1.0] * 3

    def _timed(self, call: Callable[[], Any], *_: Any, **options: Any) -> Any:
        """`triton.testing.do_bench`: one call, and one millisecond."""
        call()
        self.note("nothing is timed on the ghost device: do_bench answers 1 ms")
        quantiles = options.get("quantiles")
        return [1.0] * len(quantiles) if quantiles else 1.0

    @staticmethod
    def _run_report(mark: Any, *_: Any, **__: Any) -> None:
        """`triton.testing.perf_report`: calls each case, and draws nothing."""
        benchmarks: Any = mark.benchmarks
        for benchmark in benchmarks if hasattr(benchmarks, "__iter__") else [benchmarks]:
            for x in benchmark.x_vals:
                values: Any = x if hasattr(x, "__iter__") else [x] * len(benchmark.x_names)
                case = dict(zip(benchmark.x_names, values, strict=True))
                for line in benchmark.line_vals:
                    mark.fn(**case, **{benchmark.line_arg: line}, **benchmark.args)

    def note(self, sentence: str) -> None:
        """Takes note of something that a reader of the run should know; once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _current_config(self) -> tuple[int | None, dict[str, Any] | None]:
        if not self._tuning:
            return None, None
        tuner, config = self._tuning[-1]
        config = config or getattr(tuner, "best_config", None) or tuner.configs[0]
        index = next((i for i, known in enumerate(tuner.configs) if known is config), None)
        return index, {k: _plain(v) for k, v in config.all_kwargs().items()}

    # -- the compiler ----------------------------------------------------------------------

    def _wrap_compile(self, original: Any) -> Any:
        def compile_(src: Any, target: Any = None, options: Any = None, **kwargs: Any) -> Any:
            if not hasattr(src, "fn"):  # a file of IR: not a kernel of the program's
                return original(src, target=target, options=options, **kwargs)
            compiled = self._begin(src, options or {})
            errors_before = _stderr_bytes()
            entry = compiled.entry or PassEntry(compiled.launch.kernel)
            try:
                with switched(entry.switches):
                    kernel = original(src, target=target, options=options, **kwargs)
            except Exception as error:
                compiled.failure = compile_failure(
                    error, compiled, self._parsed, _stderr_since(errors_before)
                )
                self._end(compiled)
                self._last_failed = True
                self._add(compiled.launch, compiled, compiled.failure)
                if self._keep_going:
                    raise _AbandonedLaunchError from error
                self._raising(error, compiled.failure)
                raise
            finally:
                self._compiling = None
            if "ll" in kernel.asm:
                kernel.asm["llir"] = kernel.asm.pop("ll")
            compiled.metadata = _metadata(kernel.metadata)
            if "grf_mode" in compiled.launch.options:
                compiled.metadata["grf_mode"] = compiled.launch.options["grf_mode"]
            self._note_overridden_options(compiled)
            self._end(compiled)
            return kernel

        return compile_

    def _wrap_parse(self, original: Any) -> Any:
        def parse(function: Any) -> Any:
            self._parsed[function.src] = function
            return original(function)

        return parse

    def _begin(self, src: Any, resolved: Mapping[str, Any]) -> Compiled:
        number = self._count
        self._count += 1
        folder = self._folder / str(number)
        folder.mkdir()
        launch = self._launch(src, self._calls[-1] if self._calls else None, resolved)
        compiled = Compiled(folder, launch, time.perf_counter(), entry_of(src.fn))
        self._compiling = compiled
        self._compiled[id(src)] = (src, compiled)
        self._write({"event": "begin", "number": number, "launch": launch.to_json()})
        return compiled

    def _end(self, compiled: Compiled) -> None:
        self._write({"event": "end", "number": int(compiled.folder.name)})

    def translated(self, sentence: str, suppress: tuple[str, ...]) -> None:
        """Takes note of a translation in the kernel that is being compiled."""
        if self._compiling is None or sentence in self._compiling.notes:
            return
        self._compiling.notes.append(sentence)
        number = int(self._compiling.folder.name)
        self._write({"event": "note", "number": number, "note": sentence})
        self._compiling.suppress += [k for k in suppress if k not in self._compiling.suppress]

    def enter_phase(self, level: str) -> None:
        """Journals what the program is doing outside the compiler ("import", "model")."""
        self._write({"event": "phase", "level": level})

    def _write(self, event: Mapping[str, Any]) -> None:
        os.write(self._journal, json.dumps(event).encode() + b"\n")

    def _note_overridden_options(self, compiled: Compiled) -> None:
        for name in ("threads_per_warp", "num_warps"):
            asked = compiled.launch.options.get(name)
            made = compiled.metadata.get(name, asked)
            if asked is not None and asked != made:
                compiled.notes.append(f"the compiler set {name} to {made}; {asked} was asked for")

    def _wrap_add_stages(self, original: Any) -> Any:
        def add_stages(backend: Any, stages: dict[str, Any], *args: Any) -> None:
            original(backend, stages, *args)
            for name, make in list(stages.items()):
                stages[name] = self._timed_stage(name, make)

        return add_stages

    def _timed_stage(self, name: str, make: Any) -> Any:
        level = _LEVELS.get(name, name)

        def timed(module: Any, metadata: dict[str, Any]) -> Any:
            compiled = self._compiling
            if compiled is None:
                return make(module, metadata)
            compiled.level = level
            number = int(compiled.folder.name)
            self._write({"event": "level", "number": number, "level": level})
            # The first level is timed from the front end's start.
            started = time.perf_counter() if compiled.seconds else compiled.started
            made = make(module, metadata)
            if level == "ttir" and compiled.entry is not None and compiled.entry.pipeline:
                made = self._after_passes(compiled, compiled.entry, made)
            compiled.seconds[level] = time.perf_counter() - started
            return made

        return timed

    def _after_passes(self, compiled: Compiled, entry: PassEntry, module: Any) -> Any:
        """The TTIR after the plan's pipeline."""
        signature = compiled.launch.signature
        made, _, _ = transformed(
            module, lambda text: apply_pipeline(self._pass_command, entry, signature, text)
        )
        return made

    def _make_cache_manager(self, *_: Any) -> Any:
        return _LevelWriter(self)

    def put_level(self, data: Any, file_name: str) -> str:
        """Receives what the compiler would have put into its file cache."""
        name = file_name.rpartition(".")[2]
        level = _LEVELS.get(name, name)
        compiled = self._compiling
        folder = compiled.folder if compiled is not None else self._folder
        path = folder / LEVEL_FILES.get(level, f"kernel.{name}")
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            path.write_text(str(data))
        if compiled is not None and level in LEVEL_FILES:
            compiled.levels[level] = str(path)
            if self._on_level is not None:
                self._on_level(compiled, level, path, data)
        return str(path)

    # -- the driver's end --------------------------------------------------------------------

    def _wrap_load(self, original: Any) -> Any:
        def load(kernel: Any) -> None:
            self._driver.utils.is_loading = True
            try:
                original(kernel)
            finally:
                self._driver.utils.is_loading = False

        return load

    def _make_launcher(self, src: Any, metadata: Any) -> Callable[..., None]:
        def launcher(x: Any, y: Any, z: Any, *rest: Any) -> None:
            # stream, function, packed metadata, launch metadata, two hooks, then arguments
            self._launched(src, (int(x), int(y), int(z)), rest[6:])

        return launcher

    def _launched(self, src: Any, grid: tuple[int, int, int], args: Sequence[Any]) -> None:
        known = self._compiled.get(id(src))
        if known is None:
            return
        compiled = known[1]
        call = self._calls[-1] if self._calls else None
        if call is None or call.function is not src.fn:  # kernel = f.warmup(...); kernel[grid]()
            values = dict(zip(src.fn.arg_names, args, strict=False))
            call = _Call(src.fn, values, grid, Options({}, compiled.launch.options), None, None)
        launch = replace(
            compiled.launch,
            grid=grid,
            values={k: _plain(v) for k, v in call.values.items()},
            config_index=call.config_index,
            config=call.config,
        )
        failure = refusal(launch, compiled.metadata, self._target.limits)
        self._add(launch, compiled, failure)
        if failure is None:
            return
        self._last_failed = True
        if not self._keep_going:
            raise self._raising(_out_of_resources(failure), failure)

    def _add(self, launch: Launch, compiled: Compiled | None, failure: Failure | None) -> None:
        same = repr((compiled and compiled.folder, replace(launch, index=0)))
        if (position := self._positions.get(same)) is not None:
            earlier = self.lowerings[position]
            again = replace(earlier.launch, repeats=earlier.launch.repeats + 1)
            self.lowerings[position] = replace(earlier, launch=again)
            return
        self._positions[same] = len(self.lowerings)
        if len(self.lowerings) >= LARGEST_LAUNCH_COUNT:
            raise RuntimeError(f"more than {LARGEST_LAUNCH_COUNT} different launches")
        lowering = Lowering(
            launch=replace(launch, index=len(self.lowerings)),
            device=self._device,
            compiler=self._compiler,
            native_compiler=None,
            levels=dict(compiled.levels) if compiled else {},
            metadata=dict(compiled.metadata) if compiled else {},
            seconds=dict(compiled.seconds) if compiled else {},
            failure=failure,
            not_read=dict(compiled.not_read) if compiled else {},
            notes=tuple(compiled.notes) if compiled else (),
            suppress=tuple(compiled.suppress) if compiled else (),
        )
        self.lowerings.append(lowering)
        self._write({"event": "lowering", "lowering": lowering.to_json()})

    def _launch(self, src: Any, call: _Call | None, resolved: Mapping[str, Any]) -> Launch:
        function = src.fn
        file, line = function_position(function)
        names: list[str] = function.arg_names
        given: dict[str, Any] = call.options.given if call is not None else {}
        return Launch(
            index=len(self.lowerings),
            kernel=function.__name__,
            file=file,
            line=line,
            grid=call.grid if call is not None else (1, 1, 1),
            signature={str(k): str(v) for k, v in src.signature.items()},
            values={} if call is None else {k: _plain(v) for k, v in call.values.items()},
            constexprs={
                names[path[0]]: _plain(value)
                for path, value in src.constants.items()
                if len(path) == 1
            },
            divisible_by_16=tuple(
                names[int(path[0])]
                for path, attributes in src.attrs.items()
                if len(path) == 1
                and any(a[0] == "tt.divisibility" and a[1] % 16 == 0 for a in attributes)
            ),
            options={k: _plain(v) for k, v in reported(given, resolved).items()},
            config_index=call.config_index if call is not None else None,
            config=call.config if call is not None else None,
        )


class _LevelWriter:
    """Stands in for Triton's file cache: never a hit, and each level is written once, by us."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def get_file(self, filename: str) -> None:
        return None

    def get_group(self, filename: str) -> None:
        return None

    def put_group(self, filename: str, group: Any) -> None:
        return None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        return self._recorder.put_level(data, filename)


def refusal(launch: Launch, metadata: Mapping[str, Any], limits: Limits) -> Failure | None:
    """Why the device would not run this launch; None when it would."""
    warps = int(metadata.get("num_warps", 4))
    lanes = int(metadata.get("threads_per_warp") or metadata.get("warp_size") or 32)
    mode = str(launch.options.get("grf_mode", "default"))
    sub_groups = limits.sub_groups.get(mode, max(limits.sub_groups.values(), default=None))
    for what, unit, asked, limit in (
        ("shared local memory", "bytes", int(metadata.get("shared") or 0), limits.shared_bytes),
        ("work-group size", "work_items", warps * lanes, limits.work_group_size),
        ("sub-groups of a work-group", "sub_groups", warps, sub_groups),
    ):
        if limit is not None and asked > limit:
            return Failure(
                kind="out_of_resources",
                level="launch",
                message=f"{what}: {asked} {unit.replace('_', '-')} required, limit {limit}",
                line=launch.line,
                numbers={f"required_{unit}": asked, f"limit_{unit}": limit},
            )
    return None


def compile_failure(
    error: BaseException, compiled: Compiled, functions: Mapping[str, Any], printed: str
) -> Failure:
    """What the compiler's exception says: of the deepest jit function, with its line.

    Args:
        functions: the jit functions that were parsed, by their source.
        printed: what the compiler wrote to standard error; a failing pass says more there
            than its exception does.
    """
    line = compiled.launch.line
    messages: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        node: Any = getattr(cause, "node", None)
        text = getattr(cause, "error_message", None) if node else f"{type(cause).__name__}: {cause}"
        if text:
            messages.append(str(text))
        function = functions.get(getattr(cause, "src", None) or "")
        if function is not None and hasattr(node, "lineno"):
            line = function_position(function)[1] + node.lineno - 1
        cause = cause.__cause__
    if not any(hasattr(e, "node") for e in (error, error.__cause__)):
        line = _line_being_hashed(error) or line
    message = (messages[-1] if messages else str(error)).strip()
    message = ptxas_fault(message) or message
    if failed := _FAILED_PASS.search(printed):
        message = f"the pass {failed.group(1)} fails"
    for file, number, text in _DIAGNOSTIC.findall(printed):
        if "Failures have been detected" in text:
            continue
        message = f"{message}: {text}"
        if file == compiled.launch.file:
            line = int(number)
        break
    if assertion := _ASSERTION.search(printed):
        message = f"{message}: {assertion.group(0)}"
    numbers: dict[str, int] = {}
    if "num_warps > 32" in message:
        warps = int(compiled.launch.options.get("num_warps", 0))
        numbers = {"required_sub_groups": warps, "limit_sub_groups": 32}
    return Failure(
        kind="out_of_resources" if numbers else "compile",
        level=compiled.level,
        message=message,
        line=line,
        detail=f"{error}\n{printed[:4000]}".strip(),
        numbers=numbers,
    )


def _line_being_hashed(error: BaseException) -> int | None:
    """The line of an error that Triton meets before compiling, while it hashes a function.

    Its walk over the syntax tree puts no line into the exception; its frames hold the node.
    """
    function: Any = None
    line: int | None = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "cache_key":
            function = frame.f_locals.get("self")
        node: Any = frame.f_locals.get("node")
        if function is not None and hasattr(node, "lineno"):
            line = function_position(function)[1] + node.lineno - 1
    return line


def _stderr_bytes() -> int:
    """How much was written to standard error, where that is a file; else 0."""
    sys.stderr.flush()
    return os.fstat(2).st_size


def _stderr_since(position: int) -> str:
    """What was written to standard error after `position`, where that is a file."""
    sys.stderr.flush()
    if not stat.S_ISREG(os.fstat(2).st_mode):
        return ""
    with open("/proc/self/fd/2", "rb") as file:
        file.seek(position)
        return file.read(_LARGEST_PRINT_BYTES).decode(errors="replace")


def _bind(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter -> value, defaults filled in. Triton itself refuses what does not bind."""
    try:
        bound = function.signature.bind(*args, **kwargs)
    except TypeError:
        return dict(kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _evaluate_grid(grid: Any, values: dict[str, Any]) -> tuple[int, int, int]:
    if grid is None:  # warmup
        return (1, 1, 1)
    shape: Any = grid(values) if callable(grid) else grid
    if isinstance(shape, int):
        shape = (shape,)
    for extent in shape:
        if not hasattr(extent, "__index__"):
            raise TypeError(f"a grid extent is {type(extent).__name__}, not an integer: {extent}")
    x, y, z = (*(int(extent) for extent in shape), 1, 1)[:3]
    return (x, y, z)


def _illegal_warps(warps: Any) -> Failure | None:
    if isinstance(warps, int) and warps > 0 and warps & (warps - 1) == 0:
        return None
    return Failure(
        kind="out_of_resources",
        level="launch",
        message=f"num_warps is {warps}, not a power of two",
        numbers={"required_sub_groups": warps} if isinstance(warps, int) else {},
    )


def _out_of_resources(failure: Failure) -> Exception:
    required, limit = failure.numbers.values()
    return foreign("triton.runtime.errors").OutOfResources(
        required, limit, failure.message.partition(":")[0]
    )


def _metadata(metadata: Any) -> dict[str, Any]:
    """Triton's metadata, as far as it is plain data."""
    kept: dict[str, Any] = {}
    for name, value in metadata._asdict().items():
        if name in ("target", "extern_libs", "hash"):
            continue
        with contextlib.suppress(TypeError, ValueError):
            kept[name] = json.loads(json.dumps(value))
    return kept


def _plain(value: Any) -> Any:
    """A JSON value for an argument: tensors as TensorArg, jit functions and types by name."""
    import torch

    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        return tensor_arg(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in cast("list[Any]", value)]
    inner = getattr(value, "value", value)  # tl.constexpr
    if inner is not value:
        return _plain(inner)
    base = getattr(value, "base", None)  # triton.reinterpret
    if isinstance(base, torch.Tensor):
        return tensor_arg(base)
    return getattr(value, "__name__", None) or str(value)


def tensor_arg(tensor: Any) -> TensorArg:
    offset_bytes = tensor.storage_offset() * tensor.element_size()
    at = offset_bytes | DEVICE_ALLOCATION_ALIGNMENT_BYTES
    return TensorArg(
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        pointer_alignment_bytes=at & -at,
        storage_bytes=extent_bytes(tensor if tensor._base is None else tensor._base),
        device=tensor.device.type,
    )
