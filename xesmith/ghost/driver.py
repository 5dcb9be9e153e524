"""The ghost driver: what Triton takes for a GPU, and which compiles but runs nothing.

`triton.runtime.driver.set_active` accepts any object with the driver's methods. A launch
reaches `launcher_cls(src, metadata)(grid, ..., arguments)`, where it is captured.

Runs in worker processes: standard library, torch and Triton only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xesmith.ghost.foreign import foreign

#: what Triton's own check of shared memory sees while it loads a kernel: that check raises
#: before the launch (and its grid) could be captured, so it is made at the launch instead
_UNBOUNDED_BYTES = 1 << 40

#: what a loaded kernel says that it uses; no native code was made when a program asks
_REGISTERS = 128


@dataclass(frozen=True)
class Limits:
    """What a launch may ask of the device; None: not known, so not checked."""

    shared_bytes: int | None
    work_group_size: int | None
    sub_groups: dict[str, int] = field(default_factory=dict[str, int])  # by GRF mode: "128": 64


@dataclass(frozen=True)
class Target:
    """The device that is compiled for.

    backend "xpu": `arch` is Triton's dict of device properties. backend "cuda": `arch` is the
    compute capability (90).
    """

    backend: str
    arch: Any
    warp_size: int
    limits: Limits
    properties: dict[str, Any]  # as torch.xpu.get_device_properties gives them

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Target:
        return cls(
            backend=data["backend"],
            arch=data["arch"],
            warp_size=data["warp_size"],
            limits=Limits(**data["limits"]),
            properties=data["properties"],
        )


class GhostUtils:
    """Stands in for the driver's C extension."""

    def __init__(self, target: Target) -> None:
        shared_bytes = target.limits.shared_bytes
        self._properties: dict[str, Any] = {
            **target.properties,
            "max_shared_mem": _UNBOUNDED_BYTES if shared_bytes is None else shared_bytes,
            "multiprocessor_count": target.properties["multi_processor_count"],
            "max_num_regs": 65536,
            "warpSize": target.warp_size,
        }
        self.is_loading = False
        self._loads_thread_limit = _loads_thread_limit()

    def get_device_properties(self, device: int = 0) -> dict[str, Any]:
        if self.is_loading:
            return {**self._properties, "max_shared_mem": _UNBOUNDED_BYTES}
        return dict(self._properties)

    def load_binary(self, *_: Any) -> tuple[Any, ...]:
        """(module, function, registers, spills[, threads]), as this Triton unpacks it."""
        loaded = (object(), 1, _REGISTERS, 0)
        return (*loaded, 1 << 30) if self._loads_thread_limit else loaded

    def unload_module(self, module: Any) -> None:
        """Nothing was loaded."""


class GhostDriver:
    """Given to `triton.runtime.driver.set_active`.

    Args:
        target: the device that is compiled for.
        launcher: called as `launcher(src, metadata)`, gives what a launch calls.
        benchmarker: stands in for `do_bench` under `@triton.autotune`.
    """

    def __init__(
        self,
        target: Target,
        launcher: Callable[[Any, Any], Callable[..., None]],
        benchmarker: Callable[..., Sequence[float]],
    ) -> None:
        self._target = foreign("triton.backends.compiler").GPUTarget(
            target.backend, target.arch, target.warp_size
        )
        self._backend = target.backend
        self._benchmarker = benchmarker
        self.utils = GhostUtils(target)
        self.launcher_cls = launcher

    def is_active(self) -> bool:
        return True

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_capability(self, device: int | None = None) -> Any:
        arch = self._target.arch
        return arch if self._backend == "xpu" else divmod(arch, 10)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device(self._backend, 0)

    def get_device_interface(self) -> Any:
        import torch

        return getattr(torch, self._backend)

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        return self._benchmarker

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(1)

    def clear_cache(self, cache: Any) -> None:
        """There is no cache to clear."""

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args


def make_backend_class(target: Target) -> type:
    """The compiler class that serves `target`, made ready to be built without a device.

    Raises:
        LookupError: this Triton has no backend for it.
    """
    gpu = foreign("triton.backends.compiler").GPUTarget(
        target.backend, target.arch, target.warp_size
    )
    for backend in foreign("triton.backends").backends.values():
        compiler = backend.compiler
        if compiler.supports_target(gpu):
            _skip_architecture_build(compiler)
            return compiler
    raise LookupError(f"this Triton has no backend for '{target.backend}'")


def _skip_architecture_build(compiler: Any) -> None:
    """Answers the architecture's name without the small C++ file that Triton would build.

    The name only serves to ask an `ocloc` on PATH for extensions; ours stand in `arch`, so ""
    (no question) is right. Building would need g++ and SYCL headers, and takes 3 to 5 s.
    """
    names: dict[str, Any] = compiler.__init__.__globals__
    original = names.get("compile_module_from_src")
    if original is None or getattr(original, "is_ghost", False):
        return

    class _NoArchitecture:
        @staticmethod
        def parse_device_arch(number: int) -> str:
            return ""

    def without_architecture(*args: Any, **kwargs: Any) -> Any:
        if "arch_utils" in (*args, *kwargs.values()):
            return _NoArchitecture
        return original(*args, **kwargs)

    without_architecture.is_ghost = True  # type: ignore[attr-defined]
    names["compile_module_from_src"] = without_architecture


def _loads_thread_limit() -> bool:
    """Whether this Triton's loader gives the largest work-group as a fifth value."""
    kernel_class = foreign("triton.compiler.compiler").CompiledKernel
    return "n_max_threads" in inspect.getsource(kernel_class._init_handles)
