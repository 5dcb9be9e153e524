"""Puts the hook into Triton, and takes it out again.

These places of Triton are used, the same in every version:

- `add_stages` of each backend is wrapped: its stages are timed, and the transform is applied to
  what the stage "ttir" made;
- `CompiledKernel.__init__` is wrapped: there every compile ends, from the cache or not, with
  the files of all levels;
- `triton_key` is wrapped while there is a transform: it enters the keys of all caches on disk.
  Kernels in memory are forgotten when a transform comes or goes;
- for a plan of passes `JITFunction.run` is wrapped, since only a launch knows values and grid, and
  `ASTSource.make_ir`, which tells what is compiled;
- Triton's cache manager is set by its own variable TRITON_CACHE_MANAGER, which child processes
  inherit: each imports this hook when it first compiles.

`knobs.runtime.add_stages_inspection_hook` of newer versions is left to others: in 3.6 it enters
no key, and in 3.9 setting it lengthens the specialisation, and so the key, of every kernel.
Recording alone thus changes no key: it neither recompiles a kernel nor fills a cache twice.

Runs in users' processes: standard library and Triton only.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from xesmith.errors import UsageError
from xesmith.ghost.foreign import foreign
from xesmith.hook.findings import FindingsReader
from xesmith.hook.planned import PlannedPasses, renew_locks
from xesmith.hook.record import Compile, fill, level_name
from xesmith.hook.settings import (
    DEFAULT_FOLDER,
    DEFAULT_LIMIT_BYTES,
    Settings,
)
from xesmith.hook.trace import TraceFolder
from xesmith.hook.transform import Transform, make_transform
from xesmith.lowering.exchange import GenericPrinter, transformed
from xesmith.pass_plan import PassEntry, PassPlan, read_plan

_logger = logging.getLogger("xesmith.hook")

_TORCH_KEY_TAG = "TORCH_COMPILE_CACHE_KEY_TAG"
#: child processes find xesmith here, and nothing else of ours
_IMPORT_FOLDER = ".import"


class _Thread(threading.local):
    compile: Compile | None = None
    #: whether the key of the compile that comes next holds the transform's
    is_keyed = False
    #: the hash that stands in for the one that Triton computed without the transform
    hash: str | None = None
    printer: GenericPrinter | None = None


class _Hook:
    """The hook as it is in place."""

    def __init__(
        self, settings: Settings, transform: Transform | None, planned: PlannedPasses | None
    ) -> None:
        self.settings = settings
        self.transform = transform
        self.planned = planned
        #: of what is done to every compile; None where nothing is
        self.key = _key(transform, planned)
        self.trace: TraceFolder | None = None
        self.findings: FindingsReader | None = None
        self.undo = contextlib.ExitStack()


def _key(transform: Transform | None, planned: PlannedPasses | None) -> str | None:
    if transform is not None:
        return transform.key
    return None if planned is None else planned.key


_installed: _Hook | None = None
_install_lock = threading.RLock()
_thread = _Thread()
_said: set[str] = set()


def enable(
    folder: str | os.PathLike[str] = DEFAULT_FOLDER,
    *,
    transform: Callable[[str], str] | Sequence[str] | str | None = None,
    passes: str | os.PathLike[str] | None = None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    findings: bool | str = False,
) -> None:
    """Records every kernel that Triton compiles from now on, here and in child processes.

    Imports Triton, so what Triton reads at its import (TRITON_INTERPRET) must be set before.
    Enabling again replaces the earlier settings.

    Args:
        folder: of the trace; several processes may share it.
        transform: applied to the TTIR of each kernel: a function from generic text to generic
            text, "module:function", or a command that filters it. A function that children
            cannot import works in this process alone.
        passes: file of a plan of passes (passes.json), applied to what it is for.
        limit_bytes: a trace of this size takes no further kernel.
        findings: log what is wrong with a kernel (logger "xesmith.hook") soon after it is
            compiled, once in all processes; a string names the Python that has xesmith's
            packages, where this one lacks them.

    Raises:
        UsageError: there is no such transform or plan, or both are given. Nothing else is raised:
            what fails is logged.
    """
    made = None if transform is None else make_transform(transform)
    spec = None if made is None else made.spec
    if made is not None and spec is None:
        _say_once(f"the transform {transform!r} cannot be imported by child processes: they go on"
                  " without it")  # fmt: skip
    if passes is not None and made is not None:
        raise UsageError(
            "a transform and a plan of passes are given",
            remedy="give one of them: a plan's entries may hold any pipeline",
        )
    plan = None if passes is None else read_plan(passes)
    reader = findings if isinstance(findings, str) else "1" * findings
    settings = Settings.given(folder, spec, limit_bytes, reader, passes)
    _guarded(_replace)(settings, made, plan)


def disable() -> None:
    """Takes the hook out. Kernels compiled with a transform are compiled anew when launched."""
    _guarded(_remove)()


def bootstrap() -> None:
    """Enables as the environment says: in a process whose Triton loads our cache manager."""
    if _installed is not None:
        return
    _guarded(_from_environment)()


def _from_environment() -> None:
    settings = Settings.from_environment(os.environ)
    transform = None
    if settings.transform is not None:
        try:
            transform = make_transform(settings.transform, settings.directory)
        except UsageError as error:
            _say_once(f"no transform: {error.what}")
    plan = None
    if settings.passes is not None:
        try:
            plan = read_plan(settings.passes)
        except UsageError as error:
            _say_once(f"no passes: {error.what}")
    _replace(settings, transform, plan)


def _replace(settings: Settings, transform: Transform | None, plan: PassPlan | None) -> None:
    global _installed
    with _install_lock:
        _remove()
        hook = _Hook(settings, transform, PlannedPasses(plan) if plan else None)
        with contextlib.ExitStack() as undo:
            hook.undo = undo
            _patch_triton(hook)
            if hook.planned is not None:
                _patch_for_passes(hook, hook.planned)
            if hook.key is not None:
                _key_caches(hook, hook.key)
            try:
                hook.trace = TraceFolder(settings.folder, settings.limit_bytes)
                _set_environment(hook)
                if settings.findings:
                    hook.findings = FindingsReader(settings.folder, settings.findings)
                    undo.callback(hook.findings.close)
            except OSError as error:
                _say_once(f"nothing is recorded: {error}")
            _installed = hook
            hook.undo = undo.pop_all()


def _remove() -> None:
    global _installed
    with _install_lock:
        hook, _installed = _installed, None
        if hook is not None:
            hook.undo.close()
    _thread.compile, _thread.is_keyed, _thread.hash = None, False, None


# -- into Triton -----------------------------------------------------------------------------


def _patch(hook: _Hook, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    made = functools.wraps(original)(wrap(original))
    setattr(owner, name, made)

    def restore() -> None:
        if getattr(owner, name) is made:  # else another tool has wrapped ours, which lets through
            setattr(owner, name, original)

    hook.undo.callback(restore)


def _patch_triton(hook: _Hook) -> None:
    for backend in foreign("triton.backends").backends.values():
        _patch(hook, backend.compiler, "add_stages", lambda f: _with_stages(hook, f))
    kernel_class = foreign("triton.compiler.compiler").CompiledKernel
    _patch(hook, kernel_class, "__init__", lambda f: _with_record(hook, f))


def _with_stages(hook: _Hook, original: Any) -> Any:
    def add_stages(backend: Any, stages: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        made = original(backend, stages, *args, **kwargs)
        if hook is _installed:
            _thread.compile = Compile()
            for name, make in list(stages.items()):
                stages[name] = _stage(hook, name, make)
        return made

    return add_stages


def _stage(hook: _Hook, name: str, make: Any) -> Any:
    level = level_name(name)

    def staged(module: Any, metadata: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        compile_ = _thread.compile
        # The first level is timed from the front end's start.
        started = time.perf_counter()
        if compile_ is not None and not compile_.seconds:
            started = compile_.started
        entry = _entry(hook, compile_, metadata)
        try:
            with _switching(hook, entry):
                made = make(module, metadata, *args, **kwargs)
        except Exception as error:
            _guarded(_record_failure)(hook, level, module, metadata, error)
            raise
        if compile_ is not None:
            compile_.seconds[level] = time.perf_counter() - started
            if level == "ttir" and (transform := _transform_for(hook, compile_, entry)) is not None:
                made = _transform(transform, made, compile_)
        return made

    return staged


def _entry(hook: _Hook, compile_: Compile | None, metadata: Mapping[str, Any]) -> PassEntry | None:
    """The plan's entry for the compile that this thread is in."""
    if hook.planned is None or compile_ is None or hook is not _installed:
        return None
    return hook.planned.entry(compile_.source, getattr(metadata.get("target"), "backend", ""))


def _switching(hook: _Hook, entry: PassEntry | None) -> AbstractContextManager[None]:
    return contextlib.nullcontext() if hook.planned is None else hook.planned.switching(entry)


def _transform_for(hook: _Hook, compile_: Compile, entry: PassEntry | None) -> Transform | None:
    if hook.planned is None or entry is None:
        return hook.transform
    return hook.planned.transform(entry, compile_.source.signature) if entry.pipeline else None


def _transform(transform: Transform, module: Any, compile_: Compile) -> Any:
    started = time.perf_counter()
    outcome: dict[str, Any] = {"key": transform.key, "spec": transform.spec}
    try:
        module, before, after = transformed(module, transform.apply)
        outcome["status"] = "unchanged" if after == before else "applied"
        compile_.before = before if after != before else None
    except Exception as error:
        outcome.update(status="failed", reason=f"{type(error).__name__}: {error}"[:2000])
        _say_once(f"the transform fails, kernels go on without it: {outcome['reason']}")
    outcome["seconds"] = time.perf_counter() - started
    compile_.transform = outcome
    return module


def _patch_for_passes(hook: _Hook, planned: PlannedPasses) -> None:
    compiler = foreign("triton.compiler.compiler")
    _patch(hook, compiler.ASTSource, "make_ir", _with_source)
    if planned.looks_at_launches:
        function_class = foreign("triton.runtime.jit").JITFunction
        _patch(hook, function_class, "run", lambda f: _with_launches(hook, planned, f))
    if planned.has_switches:
        # What invalidates a key must not be read while another thread's switches are set.
        _patch(hook, compiler, "get_cache_invalidating_env_vars", lambda f: _unswitched(planned, f))


def _with_source(original: Any) -> Any:
    def make_ir(src: Any, *args: Any, **kwargs: Any) -> Any:
        if _thread.compile is not None:
            _thread.compile.source = src
        return original(src, *args, **kwargs)

    return make_ir


def _with_launches(hook: _Hook, planned: PlannedPasses, original: Any) -> Any:
    def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if hook is _installed:
            try:
                function, grid = planned.led(function, args, kwargs, grid)
            except Exception as error:
                _say_once(f"a launch goes without passes: {type(error).__name__}: {error}")
        return original(function, *args, grid=grid, warmup=warmup, **kwargs)

    return run


def _unswitched(planned: PlannedPasses, original: Any) -> Any:
    def read(*args: Any, **kwargs: Any) -> Any:
        with planned.switching(None):
            return original(*args, **kwargs)

    return read


def _with_record(hook: _Hook, original: Any) -> Any:
    def init(kernel: Any, *args: Any, **kwargs: Any) -> None:
        compile_, _thread.compile = _thread.compile, None
        stand_in, _thread.hash = _thread.hash, None
        original(kernel, *args, **kwargs)
        if stand_in is not None:
            kernel.hash = stand_in
        if hook is _installed:
            group = kwargs["metadata_group"] if "metadata_group" in kwargs else args[1]
            _guarded(_record)(hook, kernel, group, compile_)

    return init


# -- keys of caches --------------------------------------------------------------------------


def _key_caches(hook: _Hook, key: str) -> None:
    """Lets nothing that was compiled with a transform pass for what was not, or reversely."""

    def keyed(original: Any) -> Any:
        def triton_key() -> str:
            _thread.is_keyed = True
            return f"{original()}-{key}"

        return triton_key

    for name in ("compiler.compiler", "runtime.cache", "runtime.autotuner"):
        module = foreign(f"triton.{name}")
        if hasattr(module, "triton_key"):
            _patch(hook, module, "triton_key", keyed)
    _forget_kernels()
    hook.undo.callback(_forget_kernels)
    config: Any = getattr(sys.modules.get("torch.compiler"), "config", None)
    if hasattr(config, "cache_key_tag"):
        before: str = config.cache_key_tag
        config.cache_key_tag = _tagged(before, key)
        hook.undo.callback(setattr, config, "cache_key_tag", before)


def _tagged(tag: str, key: str) -> str:
    """torch.compile's own tag in the keys of its caches, with `key` in it."""
    return tag if key in tag else tag + key


def _forget_kernels() -> None:
    """Empties each jit function's kernels in memory, whose key knows nothing of a transform."""
    function_class = foreign("triton.runtime.jit").JITFunction
    for item in gc.get_objects():
        if issubclass(type(item), function_class):
            item.device_caches.clear()


def cache_key(key: str) -> str:
    """The name of a kernel's folder in Triton's cache, for what Triton would name `key`.

    They differ for a compile that computed its key before this hook was there: the first of a
    process that was told by its environment.
    """
    hook = _installed
    is_keyed, _thread.is_keyed = _thread.is_keyed, False
    _thread.hash = _thread.compile = None  # of a compile that failed
    if hook is None or hook.key is None or is_keyed:
        return key
    digest = hashlib.sha256(f"{key}-{hook.key}".encode())
    _thread.hash = digest.hexdigest()
    return base64.b32encode(digest.digest()).decode().rstrip("=")


def may_be_kept() -> bool:
    """Whether the kernel just compiled is what its key says: not where a transform failed."""
    compile_ = _thread.compile
    outcome = None if compile_ is None else compile_.transform
    return outcome is None or outcome["status"] != "failed"


# -- child processes -------------------------------------------------------------------------


def child_environment(settings: Settings, key: str | None) -> dict[str, str]:
    """The environment of a child that shall do as `settings` say, with `key` in its caches' keys.

    The trace folder gets a link to this package, and PYTHONPATH names it: a child finds
    xesmith there and nothing else of ours, whichever Python it runs.

    Raises:
        OSError: the folder cannot be made.
    """
    root = settings.folder / _IMPORT_FOLDER
    root.mkdir(parents=True, exist_ok=True)
    link, package = root / "xesmith", Path(__file__).resolve().parents[1]
    if not link.is_symlink() or link.resolve() != package:
        own = root / f".{os.getpid()}-{threading.get_ident()}"
        own.symlink_to(package)
        own.replace(link)
    path = os.environ.get("PYTHONPATH")
    if str(root) not in (path or "").split(os.pathsep):
        path = f"{path}{os.pathsep}{root}" if path else str(root)
    made = {**os.environ, **settings.to_environment(os.environ), "PYTHONPATH": path or ""}
    if key is not None:
        made[_TORCH_KEY_TAG] = _tagged(made.get(_TORCH_KEY_TAG, ""), key)
    return made


def _set_environment(hook: _Hook) -> None:
    for name, value in child_environment(hook.settings, hook.key).items():
        if os.environ.get(name) != value:
            _set_variable(hook, name, value)


def _set_variable(hook: _Hook, name: str, value: str) -> None:
    before = os.environ.get(name)
    os.environ[name] = value

    def restore() -> None:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    hook.undo.callback(restore)


def _after_fork() -> None:
    """A forked child: locks may be held by threads that are not there."""
    global _install_lock, _thread
    _install_lock = threading.RLock()
    _thread = _Thread()
    renew_locks()
    if _installed is not None and _installed.trace is not None:
        _installed.trace.renew_lock()
        if _installed.findings is not None:
            _installed.findings.forget()


os.register_at_fork(after_in_child=_after_fork)


# -- the record ------------------------------------------------------------------------------


def _record(hook: _Hook, kernel: Any, group: Mapping[str, str], compile_: Compile | None) -> None:
    trace = hook.trace
    name = str(kernel.src.name)
    if trace is None or trace.is_full or not trace.wants(name, kernel.hash):
        return
    if not trace.has_room():
        trace.is_full = True
        limit = hook.settings.limit_bytes
        trace.append({"event": "full", "limit_bytes": limit})
        _say_once(f"the trace {trace.path} is full ({limit} B): no more kernels")
        return
    printer = _thread.printer = _thread.printer or GenericPrinter()
    if trace.add(name, kernel.hash, lambda folder: fill(folder, kernel, group, compile_, printer)):
        _logger.info("recorded %s in %s", name, trace.path)
        if hook.findings is not None:
            hook.findings.wake()


def _record_failure(
    hook: _Hook, level: str, module: Any, metadata: Mapping[str, Any], error: Exception
) -> None:
    if hook.trace is None:
        return
    hook.trace.append(
        {
            "event": "failed",
            "kernel": _entry_name(module),
            "hash": metadata.get("hash"),
            "level": level,
            "message": f"{type(error).__name__}: {error}"[:4000],
        }
    )


def _entry_name(module: Any) -> str | None:
    with contextlib.suppress(Exception):  # text, or a module that a pass has left broken
        return module.get_entry_func_name()
    return None


# -- nothing reaches the program ---------------------------------------------------------------


def _guarded(function: Callable[..., None]) -> Callable[..., None]:
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:
            _say_once(f"{function.__name__.strip('_')}: {type(error).__name__}: {error}")

    return call


def _say_once(sentence: str) -> None:
    if sentence not in _said:
        _said.add(sentence)
        _logger.warning("xesmith hook: %s", sentence)
