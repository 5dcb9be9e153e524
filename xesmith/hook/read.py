"""Reads a trace folder back: each kernel as a Lowering, with native code made for it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xesmith.device import Device, device_of_target, load_device
from xesmith.errors import UsageError
from xesmith.hook.source import FunctionText
from xesmith.hook.trace import FUNCTIONS, INDEX, KERNELS, LOWERING, events
from xesmith.lowering.native import add_native
from xesmith.lowering.record import LEVEL_FILES, Lowering, without_launch
from xesmith.toolchain.record import NativeTools


@dataclass(frozen=True)
class TracedKernel:
    """One kernel and configuration of a trace. `event` is its line of the index."""

    folder: Path
    event: dict[str, Any]
    lowering: Lowering
    functions: tuple[FunctionText, ...]

    @property
    def hash(self) -> str:
        return str(self.event["hash"])

    @property
    def configuration(self) -> dict[str, Any]:
        launch = self.lowering.launch
        return {**launch.constexprs, **launch.options}

    @property
    def identity(self) -> str:
        """The same for two compiles of the same text, arguments and options: by another Triton,
        or with another transform."""
        launch = self.lowering.launch
        texts = [(item.name, item.text) for item in self.functions]
        parts = (launch.kernel, texts, launch.signature, sorted(launch.divisible_by_16))
        return json.dumps([*parts, self.configuration], sort_keys=True)

    def lines(self, file: str | None = None) -> list[str]:
        """The lines of a file as they were compiled (default: the kernel's own file).

        Where the file on disk is another by now, it is the recorded functions alone, each on
        its lines.
        """
        name = file or self.lowering.launch.file
        recorded: dict[int, str] = {}
        for function in self.functions:
            if function.file == name:
                recorded.update(enumerate(function.text.splitlines(), function.line))
        try:
            lines = Path(name).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        if all(
            number <= len(lines) and lines[number - 1].strip() == text.strip()
            for number, text in recorded.items()
        ):
            return lines
        return [recorded.get(number, "") for number in range(1, max(recorded) + 1)]


@dataclass(frozen=True)
class Trace:
    """A trace folder: kernels in the order of their compilation, and what is to be told of it."""

    path: Path
    kernels: tuple[TracedKernel, ...]
    failures: tuple[dict[str, Any], ...]  # compiles that raised: kernel, level, message
    is_full: bool


def read_trace(path: Path) -> Trace:
    """Reads the index and each kernel that it names.

    Raises:
        UsageError: there is no trace.
    """
    try:
        lines = events((path / INDEX).read_bytes())
    except OSError as error:
        raise UsageError(
            "there is no trace",
            where=str(path),
            remedy="make one: python -m xesmith.hook --out DIR SCRIPT",
        ) from error
    kernels = (
        read_kernel(path, event)
        for event in lines
        if event["event"] == "kernel" and "folder" in event and "hash" in event
    )
    return Trace(
        path=path,
        kernels=tuple(kernel for kernel in kernels if kernel is not None),
        failures=tuple(event for event in lines if event["event"] == "failed"),
        is_full=any(event["event"] == "full" for event in lines),
    )


def read_kernel(path: Path, event: dict[str, Any]) -> TracedKernel | None:
    """The kernel of a line of the index; None where its folder was taken away since."""
    folder = path.absolute() / KERNELS / Path(str(event["folder"])).name
    try:
        lowering = _lowering(folder)
    except FileNotFoundError:
        return None
    return TracedKernel(folder, event, lowering, _functions(folder / FUNCTIONS))


def _functions(file: Path) -> tuple[FunctionText, ...]:
    """() where a file of IR was compiled."""
    if not file.is_file():
        return ()
    try:
        return tuple(FunctionText(**item) for item in json.loads(file.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise UsageError(f"the record is damaged: {error}", where=str(file)) from error


def _lowering(folder: Path) -> Lowering:
    """A lowering whose file names its levels relative to `folder`.

    Raises:
        UsageError: the file is damaged.
    """
    file = folder / LOWERING
    try:
        made = Lowering.from_json(json.loads(file.read_text("utf-8")))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"the record is damaged: {error}", where=str(file)) from error
    levels = {level: str(folder / name) for level, name in made.levels.items()}
    # Earlier traces state a grid of one program, which no compile knows.
    return replace(without_launch(made), levels=levels)


def device_of(kernel: TracedKernel, target: str | None) -> Device:
    """The device that a kernel was compiled for, or the one that is named.

    Raises:
        UsageError: no device file fits; --target is the remedy.
    """
    backend, _, arch = kernel.lowering.device.partition(":")
    if target is not None:
        device = load_device(target)
        if device.kind != backend:
            raise UsageError(
                f"'{device.name}' is {device.kind}, {kernel.lowering.launch.kernel} was compiled "
                f"for {backend}"
            )
        return device
    found = device_of_target(backend, arch)
    if found is not None:
        return found
    raise UsageError(
        f"no device file is for {kernel.lowering.device}",
        where=str(kernel.folder),
        remedy="name the device: --target NAME",
    )


def with_native(kernel: TracedKernel, device: Device, tools: NativeTools | None) -> Lowering:
    """The kernel's lowering for `device`, with native code where that is an Intel GPU.

    Native code is made once and kept in the kernel's folder.
    """
    lowering = replace(kernel.lowering, device=device.name)
    if device.kind != "xpu" or "spirv" not in lowering.levels:
        return lowering
    if tools is None or device.ocloc_name is None:
        reason = "no ocloc on this machine" if tools is None else "ocloc does not know this device"
        return replace(lowering, not_read={**lowering.not_read, "native": reason})
    folder = kernel.folder / f"native-{device.name}"
    if (folder / LOWERING).is_file():
        return _lowering(folder)
    folder.mkdir(exist_ok=True)
    spirv = folder / LEVEL_FILES["spirv"]
    shutil.copyfile(lowering.levels["spirv"], spirv)
    made = add_native(
        replace(lowering, levels={**lowering.levels, "spirv": str(spirv)}),
        tools,
        ocloc_device=device.ocloc_name,
        larger_grf="512" if device.name == "cri" else "256",
        triton_version=lowering.compiler.rpartition(" ")[2],
        source="\n".join(kernel.lines()),
    )
    relative = {level: os.path.relpath(path, folder) for level, path in made.levels.items()}
    partial = folder / f"{LOWERING}.{os.getpid()}"
    partial.write_text(json.dumps(replace(made, levels=relative).to_json()), encoding="utf-8")
    partial.replace(folder / LOWERING)
    return made


def paired(
    before: Sequence[TracedKernel], after: Sequence[TracedKernel]
) -> list[tuple[TracedKernel | None, TracedKernel | None]]:
    """Kernels of two traces that belong together; None where one has no partner.

    First those of the same text, arguments and options, then those of the same name and
    configuration, in their order.
    """
    left, right = list(before), list(after)
    pairs: list[tuple[TracedKernel | None, TracedKernel | None]] = []
    for key in (_identity, _name_and_configuration):
        for one in list(left):
            other = next((k for k in right if key(k) == key(one)), None)
            if other is not None:
                pairs.append((one, other))
                left.remove(one)
                right.remove(other)
    return [*pairs, *((one, None) for one in left), *((None, other) for other in right)]


def _identity(kernel: TracedKernel) -> str:
    return kernel.identity


def _name_and_configuration(kernel: TracedKernel) -> str:
    return json.dumps([kernel.lowering.launch.kernel, kernel.configuration], sort_keys=True)
