"""Lowers programs for a device: ghost runs in worker children, native code beside them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from xesmith.device import Device
from xesmith.errors import ToolchainError, UsageError
from xesmith.ghost.launch import Launch, Program
from xesmith.lowering.cache import LoweringCache, cache_key
from xesmith.lowering.native import add_native
from xesmith.lowering.record import LEVEL_FILES, Failure, GhostRun, Lowering
from xesmith.passes.apply import pass_command
from xesmith.passes.plugin import passes_key
from xesmith.scratch import ScratchFolder
from xesmith.toolchain.record import Toolchain
from xesmith.worker.client import TaskResult, WorkerPool
from xesmith.worker.confinement import Confinement

_TASK = "xesmith.lowering.task:lower_program"

#: levels in the order in which a compiler makes them
_DESCENT = ("ttir", "ttgir", "llir", "spirv", "ptx", "cubin")

#: what a worker sees of our environment and its compiler may heed
_KEYED_VARIABLES = ("TRITON_", "MLIR_", "LLVM_", "IGC_")

_LAST_WORDS = re.compile(r"Assertion `.*|LLVM ERROR.*|UNREACHABLE.*|terminate called.*")

_POINTERS_NOTE = (
    "the compiler fails on descriptors lowered as block pointers; here they are tensors of pointers"
)

#: failures that another run or machine may not have
_NOT_CACHED = ("timeout", "memory", "cancelled", "lost", "forged", "stuck", "unconfined")


class Lowerer:
    """Lowers programs with one toolchain for one device. A context manager.

    Args:
        toolchain, device: what compiles, and for what.
        parallel: programs at once, and native builds at once.
        cache: True for the user's cache, False for none (files then live until `close`).
        keep_going: let a program go on after a launch that the device would refuse; False
            raises into the program what the device would raise.
        timeout_s, memory_bytes: of one program.

    Raises:
        UsageError: the toolchain is of another kind than the device.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        device: Device,
        *,
        parallel: int = 2,
        cache: bool | LoweringCache = True,
        keep_going: bool = True,
        timeout_s: float = 120.0,
        memory_bytes: int = 4 << 30,
    ) -> None:
        if toolchain.kind != device.kind:
            raise UsageError(
                f"the toolchain '{toolchain.name}' compiles for {toolchain.kind}, "
                f"the device '{device.name}' is {device.kind}",
                remedy=f"name a toolchain of kind {device.kind}",
            )
        self.toolchain = toolchain
        self.device = device
        self._cache = LoweringCache() if cache is True else (cache or None)
        self._keep_going = keep_going
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._target = target_json(device)
        self._scratch = ScratchFolder("lower") if self._cache is None else None
        self._tasks: set[Future[TaskResult]] = set()
        self._compiler = f"{toolchain.triton_distribution} {toolchain.triton_version}"
        self._parallel = parallel
        self._native = ThreadPoolExecutor(parallel, thread_name_prefix="native")
        self._workers = WorkerPool(
            toolchain.python,
            "lower",
            preload=["torch", "triton", "xesmith.lowering.task"],
            parallel=parallel,
            # Both are read by Triton: ours is the compiler, and native code is made here.
            env={"TRITON_INTERPRET": "0", "TRITON_XPU_GEN_NATIVE_CODE": ""},
        )

    def __enter__(self) -> Lowerer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers; without a cache the level files go too."""
        self._native.shutdown(wait=True, cancel_futures=True)
        self._workers.close()
        if self._scratch is not None:
            self._scratch.close()
        if self._cache is not None:
            self._cache.evict_at_times()

    def run(self, program: Program, *, native: bool = True) -> GhostRun:
        """Runs a program on the ghost device and lowers each of its launches.

        Raises:
            ToolchainError: the compiler cannot be used at all.
        """
        return self.run_many([program], native=native)[0]

    def run_many(self, programs: Sequence[Program], *, native: bool = True) -> list[GhostRun]:
        """`run` for several programs in parallel; equal programs are lowered once."""
        keys = [self._key(program, native) for program in programs]
        unique = dict(zip(keys, programs, strict=True))
        if len(unique) == 1:
            (key, program), *_ = unique.items()
            return [self._lower(program, key, native)] * len(keys)
        # One thread sees one program through, lowering and native code: `parallel` bounds both.
        with ThreadPoolExecutor(self._parallel, thread_name_prefix="lower") as threads:
            futures = {
                key: threads.submit(self._lower, program, key, native)
                for key, program in unique.items()
            }
            try:
                done = {key: future.result() for key, future in futures.items()}
            except BaseException:
                for future in futures.values():
                    future.cancel()
                for task in list(self._tasks):
                    self._workers.cancel(task)
                raise
        return [done[key] for key in keys]

    def _lower(self, program: Program, key: str, native: bool) -> GhostRun:
        if self._cache is not None and (hit := self._cache.get(key)):
            return hit
        folder = self._new_folder()
        try:
            run, dependencies = self._ghost_run(program, folder, "block_pointer")
            if _fails_on_block_pointers(run):
                shutil.rmtree(folder)
                folder.mkdir()
                run, dependencies = self._ghost_run(program, folder, "pointers")
                run = replace(run, notes=(*run.notes, _POINTERS_NOTE))
            if native and self.device.kind == "xpu":
                run = self._with_native(run, program)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if self._cache is None or not _is_lasting(run):
            return run
        return self._cache.put(key, run, folder, dependencies)

    def _ghost_run(
        self, program: Program, folder: Path, descriptors: str
    ) -> tuple[GhostRun, list[str]]:
        work = folder / "levels"
        work.mkdir()
        task = self._workers.submit(
            _TASK,
            {
                "program": program.to_json(),
                "target": self._target,
                "device": self.device.name,
                "distribution": self.toolchain.triton_distribution,
                "keep_going": self._keep_going,
                "pass_command": pass_command(),
                "descriptors": descriptors,
            },
            folder=work,
            timeout_s=self._timeout_s,
            memory_bytes=self._memory_bytes,
            confinement=Confinement(readable=(str(Path(program.path).resolve().parent),)),
        )
        self._tasks.add(task)
        try:
            result = task.result()
        except KeyboardInterrupt:
            self._workers.cancel(task)
            raise
        finally:
            self._tasks.discard(task)
        shutil.rmtree(work / "triton-cache", ignore_errors=True)
        if result.status == "ok":
            return GhostRun.from_json(result.value["run"]), result.value["dependencies"]
        if result.status == "raised":
            assert result.error is not None
            raise ToolchainError(
                f"{result.error['type']}: {result.error['message']}",
                where=f"toolchain '{self.toolchain.name}'",
                remedy="xesmith doctor",
            )
        return self._salvage(result, work), []

    def _salvage(self, result: TaskResult, work: Path) -> GhostRun:
        """What a task that died had made, and what it died of, from its journal."""
        lowerings: list[Lowering] = []
        phase = "import"
        compiling: tuple[int, Launch] | None = None
        level = "ttir"
        notes: list[str] = []
        for event in _events(work / "journal.jsonl"):
            match event["event"]:
                case "phase":
                    phase = event["level"]
                case "begin":
                    compiling = (event["number"], Launch.from_json(event["launch"]))
                    level, notes = "ttir", []
                case "level":
                    level = event["level"]
                case "note":
                    notes.append(event["note"])
                case "end":
                    compiling = None
                case "lowering":
                    lowerings.append(Lowering.from_json(event["lowering"]))
                case _:
                    pass
        line = None if compiling is None else compiling[1].line
        at = phase if compiling is None else level
        failure = _death(result, at, line, self._timeout_s, self._memory_bytes)
        if compiling is not None:
            number, launch = compiling
            lowerings.append(
                Lowering(
                    launch=replace(launch, index=len(lowerings)),
                    device=self.device.name,
                    compiler=self._compiler,
                    native_compiler=None,
                    levels=_levels_before(level, work / str(number)),
                    metadata={},
                    seconds={},
                    failure=failure,
                    notes=tuple(notes),
                )
            )
        return GhostRun(tuple(lowerings), failure, seconds=result.seconds)

    def _with_native(self, run: GhostRun, program: Program) -> GhostRun:
        """`run` with native code for each lowering; launches of one kernel share a build."""
        tools, device = self.toolchain.native, self.device.ocloc_name
        if tools is None or device is None:
            reason = "no ocloc on this machine" if tools is None else "ocloc has no such device"
            missing = dict.fromkeys(("spirv_text", "zebin", "ze_info", "asm"), reason)
            return replace(
                run,
                lowerings=tuple(
                    replace(item, not_read={**item.not_read, **missing}) for item in run.lowerings
                ),
            )
        builds: dict[str, Future[Lowering]] = {}
        for item in run.lowerings:
            spirv = item.levels.get("spirv", "")
            if spirv not in builds:
                builds[spirv] = self._native.submit(
                    add_native,
                    item,
                    tools,
                    ocloc_device=device,
                    larger_grf="512" if device == "cri" else "256",
                    triton_version=self.toolchain.triton_version,
                    source=program.source,
                )
        done = [(item, builds[item.levels.get("spirv", "")].result()) for item in run.lowerings]
        return replace(run, lowerings=tuple(_share_native(item, built) for item, built in done))

    def _new_folder(self) -> Path:
        if self._scratch is not None:
            return Path(tempfile.mkdtemp(dir=self._scratch.path))
        assert self._cache is not None
        return self._cache.new_folder()

    def _key(self, program: Program, native: bool) -> str:
        tools = self.toolchain.native
        return cache_key(
            {
                "program": program.to_json(),
                "target": self._target,
                "device": [self.device.name, self.device.ocloc_name],
                "triton": [self.toolchain.triton_distribution, self.toolchain.triton_version],
                "torch": self.toolchain.torch_version,
                "native": dict(tools.versions) if native and tools else None,
                "keep_going": self._keep_going,
                "passes": passes_key() if program.passes else None,
                "environment": {
                    name: value
                    for name, value in os.environ.items()
                    if name.startswith(_KEYED_VARIABLES)
                },
            }
        )


def target_json(device: Device) -> dict[str, Any]:
    """The ghost driver's Target for a device, as JSON."""
    properties: dict[str, Any] = {}
    if device.kind == "xpu":
        arch: Any = device.target_properties()
        properties = dict(arch)
    else:
        capability = device.fact("compute_capability")
        if capability is None:
            raise UsageError(f"the device '{device.name}' states no compute_capability")
        major, _, minor = str(capability.value).partition(".")
        arch = int(major) * 10 + int(minor)
    memory_bytes = device.memory_bytes
    sub_groups: dict[str, int] = {}
    if device.kind == "xpu":
        for grf in device.grf_modes:
            with contextlib.suppress(UsageError):
                sub_groups[str(grf)] = device.max_sub_groups_per_work_group(grf)
    return {
        "backend": device.kind,
        "arch": arch,
        "warp_size": 32,
        "limits": {
            "shared_bytes": device.slm_bytes_per_work_group,
            "work_group_size": device.max_work_group_size,
            "sub_groups": sub_groups,
        },
        "properties": {
            **properties,
            "name": device.title,
            # What a program written for CUDA divides its work by.
            "multi_processor_count": device.xe_cores or 1,
            **({} if memory_bytes is None else {"total_memory": memory_bytes}),
        },
    }


def _share_native(item: Lowering, built: Lowering) -> Lowering:
    """`item` with the native part of a lowering of the same SPIR-V."""
    if item.levels.get("spirv") is None:
        return replace(item, not_read=built.not_read)
    added = tuple(note for note in built.notes if note not in item.notes)
    return replace(
        built, launch=item.launch, failure=item.failure or built.failure, notes=item.notes + added
    )


def _fails_on_block_pointers(run: GhostRun) -> bool:
    """Whether a kernel whose descriptors became block pointers trips the compiler."""
    return any(
        item.failure is not None
        # An error of the front end is the kernel's own.
        and (item.failure.kind == "crash" or _failed_in_a_pass(item.failure))
        and any("descriptor" in note and "block pointer" in note for note in item.notes)
        for item in run.lowerings
    )


def _failed_in_a_pass(failure: Failure) -> bool:
    return failure.kind == "compile" and failure.level != "ttir"


def _is_lasting(run: GhostRun) -> bool:
    failures = [run.failure, *(item.failure for item in run.lowerings)]
    return not any(f is not None and f.kind in _NOT_CACHED for f in failures)


def _levels_before(level: str, folder: Path) -> dict[str, str]:
    """Levels that were whole when a compiler died making `level`."""
    done = _DESCENT[: _DESCENT.index(level)] if level in _DESCENT else ()
    names = [n for name in done for n in (name, f"{name}_generic") if n in LEVEL_FILES]
    paths = {name: folder / LEVEL_FILES[name] for name in names}
    return {name: str(path) for name, path in paths.items() if path.is_file()}


def _events(journal: Path) -> list[dict[str, Any]]:
    try:
        lines = journal.read_text().splitlines()
    except OSError:
        return []
    events: list[dict[str, Any]] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # the last one may be cut off
            events.append(json.loads(line))
    return events


def _death(
    result: TaskResult, level: str, kernel_line: int | None, timeout_s: float, memory_bytes: int
) -> Failure:
    """What a task died of, making `level` of the kernel at `kernel_line` (None: outside one)."""
    who = "the program" if kernel_line is None else f"the compiler, making {level},"
    if result.status == "timeout":
        message = f"{who} did not end within {timeout_s:g} s"
        numbers = {"limit_seconds": int(timeout_s)}
    elif result.status == "memory":
        message = f"{who} took more than {memory_bytes >> 20} MiB of memory"
        numbers = {"limit_bytes": memory_bytes}
    elif result.status == "cancelled":
        return Failure(kind="cancelled", level=level, message="cancelled")
    elif result.status == "lost":
        message, numbers = f"{result.stderr_tail} while {who} was at work", {}
    elif result.status != "crash":  # forged, stuck, unconfined
        message, numbers = f"{who}: {result}", {}
    else:
        ended = (
            signal.Signals(result.signal).name if result.signal else f"exit code {result.exit_code}"
        )
        cause = _last_words(result.stderr_tail)
        message = f"{who} crashed ({ended})" + (f": {cause}" if cause else "")
        numbers = {}
    return Failure(
        kind=result.status,
        level=level,
        message=message,
        line=kernel_line,
        detail=result.stderr_tail[-4000:],
        numbers=numbers,
    )


def _last_words(stderr: str) -> str | None:
    """The line of a dying compiler that says why."""
    for line in stderr.splitlines():
        if found := re.search(
            r"(Assertion `.*|LLVM ERROR.*|UNREACHABLE.*|.*terminate called.*)", line
        ):
            return found.group(1).strip()[:300]
    return None
