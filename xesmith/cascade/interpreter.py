"""Triton's interpreter, watched: launches counted, addresses checked, configurations chosen.

Replaces, for the life of a (disposable) process:
- `GridExecutor.__call__`: launches are counted, may be left out, and may run their programs
  in reverse order, which shows whether programs depend on each other;
- the builder's memory operations: an address in a guard band is a fault with a source line; what
  moves a tile between evenly spaced addresses does so at once (`strided_access`);
- `Autotuner.run`: no benchmark, since that runs every configuration on the same buffers; the
  configuration asked for is launched, as a call after tuning would, or as the first call would,
  in which it has been launched before on the same buffers;
- the rewriting of a kernel, which puts in marks that tell what ran (`traced_kernels`);
- bfloat16 arithmetic and rounding, which the interpreter does on the bits as integers.

Runs in worker processes started with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, cast

import numpy as np
import torch
from torch.utils import _python_dispatch

from xesmith.cascade.guarded_memory import Buffer, GuardedMemory, NoMemoryError
from xesmith.cascade.strided_access import Strided, strided
from xesmith.cascade.traced_kernels import Trace
from xesmith.ghost.driver import GhostDriver, Limits, Target

# Triton has no type stubs, and what is used of it and of PyTorch here is internal.
triton: Any = importlib.import_module("triton")
tl: Any = importlib.import_module("triton.language")
triton_interpreter: Any = importlib.import_module("triton.runtime.interpreter")
_disable_torch_function: Any = torch._C.DisableTorchFunction  # pyright: ignore[reportPrivateUsage]
_disable_dispatch_modes: Any = _python_dispatch._disable_current_modes  # pyright: ignore[reportPrivateUsage]

_MOST_TYPES = 4096


@dataclass
class OutsideAccess:
    """Addresses of one source line that fell into a guard band. Distances in bytes."""

    kernel: str
    op: str  # "load", "store", "atomic"
    line: int | None
    elements: int = 0
    farthest_bytes: int = 0  # beyond the tensor's end, or before its start

    def to_json(self) -> dict[str, Any]:
        return vars(self).copy()


@dataclass
class Watch:
    """What the interpreter is to do next, and what it saw since `begin`."""

    source_path: str
    memory: GuardedMemory = field(default_factory=GuardedMemory)
    configuration: int = 0
    reverse: bool = False
    tuning: bool = False
    leave_out: bool = False
    configurations: int = 1  # the most that any autotuned kernel has
    launches: dict[str, int] = field(default_factory=dict[str, int])
    left_out: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    alternatives: list[str] = field(default_factory=list[str])
    programs: int = 0
    outside: dict[tuple[str, str, int | None], OutsideAccess] = field(
        default_factory=dict[tuple[str, str, "int | None"], OutsideAccess]
    )
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        self.trace = Trace(self.source_path)

    def begin(self, memory: GuardedMemory, configuration: int) -> None:
        self.memory = memory
        self.configuration = configuration
        self.reverse = self.tuning = self.leave_out = False
        self.launches = {}
        self.left_out = []
        self.alternatives.clear()
        self.programs = 0
        self.outside = {}


def install(watch: Watch, backend: str, properties: dict[str, Any]) -> None:
    """Makes `watch` see all that the interpreter does from now on.

    Args:
        backend: "xpu" or "cuda", what `get_current_target` answers.
        properties: of the device, for programs that ask; with "multi_processor_count".
    """
    triton.runtime.driver.set_active(_driver(backend, properties))
    triton.runtime.autotuner.Autotuner.run = _autotuner_run(watch)
    executor = triton_interpreter.GridExecutor
    executor.__call__ = _executor_call(watch, executor.__call__)
    builder: Any = triton_interpreter.interpreter_builder
    watch.trace.install(triton_interpreter.FunctionRewriter)
    _remember_patches()
    _mend_index()
    _remember_types()
    _skip_overflow_checks(builder)
    _replace_grid_index(builder, watch)
    _watch_memory(builder, watch)
    _mend_bfloat16(builder)
    _add_what_is_missing(builder)


def _driver(backend: str, properties: dict[str, Any]) -> GhostDriver:
    def no_benchmark(*_: Any, **__: Any) -> Sequence[float]:
        raise RuntimeError("nothing is timed in the interpreter")

    def no_launcher(*_: Any) -> Callable[..., None]:
        raise RuntimeError("a compiled kernel cannot be launched in the interpreter")

    arch = properties if backend == "xpu" else 90
    target = Target(backend, arch, 32, Limits(None, None), properties)
    return GhostDriver(target, no_launcher, no_benchmark)


def _autotuner_run(watch: Watch) -> Callable[..., Any]:
    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        configs = tuner.configs
        if len(configs) > 1:
            configs = list(tuner.prune_configs(kwargs))
        if not configs:
            raise ValueError("every configuration of @triton.autotune was pruned")
        watch.configurations = max(watch.configurations, len(configs))
        config = configs[min(watch.configuration, len(configs) - 1)]
        twice = kwargs.keys() & config.kwargs.keys()
        if twice:
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(sorted(twice))}."
                " Make sure that you don't re-define auto-tuned symbols."
            )
        tuner.best_config = config
        named = {**tuner.nargs, **kwargs, **config.all_kwargs()}
        if watch.tuning and len(configs) > 1:
            _time_once(tuner, config, named, args, kwargs)
        # As a call after tuning: only the configuration's own hook runs. reset_to_zero and
        # restore_value act while benchmarking, so a result that needs them is wrong later.
        if config.pre_hook is not None:
            config.pre_hook(named)
        result = tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        tuner.nargs = None
        return result

    return run


def _time_once(tuner: Any, config: Any, named: Any, args: Any, kwargs: Any) -> None:
    """Does to the buffers what timing one configuration does to them in the first call."""
    if config.pre_hook is not None:
        config.pre_hook(named)
    tuner.pre_hook(named)
    tuner.fn.run(*args, **kwargs, **config.all_kwargs())
    tuner.post_hook(named, exception=None)
    tuner.pre_hook(named, reset_only=True)


def _executor_call(watch: Watch, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(executor: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("warmup"):
            return original(executor, *args, **kwargs)
        name: str = executor.fn.__name__
        watch.launches[name] = watch.launches.get(name, 0) + 1
        if watch.leave_out:
            watch.left_out.append(_describe(executor, args, kwargs))
            return None
        outer, watch.trace.kernel = watch.trace.kernel, name
        try:
            # The interpreter's own torch calls are neither the program's nor on a device.
            with _disable_torch_function(), _disable_dispatch_modes():
                return original(executor, *args, **kwargs)
        finally:
            watch.trace.kernel = outer

    return call


def _describe(executor: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """A launch as JSON: kernel, grid of three, constexprs and options (num_warps, ...)."""
    names = set(inspect.getfullargspec(executor.fn).args)
    own = {*names, "grid", "warmup"}  # the last two are how Triton itself passes a launch on
    options = {k: v for k, v in kwargs.items() if k not in own}
    bound = inspect.signature(executor.fn).bind(
        *args, **{k: v for k, v in kwargs.items() if k in names}
    )
    bound.apply_defaults()
    values = dict(bound.arguments)
    grid: Any = executor.grid(values) if callable(executor.grid) else executor.grid
    grid = tuple(cast(Any, grid)) if isinstance(grid, (tuple, list)) else (grid,)
    return {
        "kernel": executor.fn.__name__,
        "grid": [int(n) for n in grid] + [1] * (3 - len(grid)),
        "constexprs": {name: str(values[name]) for name in executor.constexprs},
        "options": {name: str(value) for name, value in options.items()},
    }


def _replace_grid_index(builder: Any, watch: Watch) -> None:
    original = builder.set_grid_idx

    def set_grid_idx(x: int, y: int, z: int) -> None:
        watch.programs += 1
        watch.trace.begin_program()
        if watch.reverse:
            nx, ny, nz = builder.grid_dim
            x, y, z = nx - 1 - x, ny - 1 - y, nz - 1 - z
        original(x, y, z)

    builder.set_grid_idx = set_grid_idx


def _remember_patches() -> None:
    """Spares work that the interpreter repeats at each call of a device function.

    It patches `triton.language` each time, by looking through all its names; the patches stay
    in place, so once per function is enough. (Newer versions take them back: then `_patch_lang`
    returns what does so, and is left alone.) The result types are looked up in a table that is
    built anew for each look.
    """
    patch = triton_interpreter._patch_lang
    patched: set[Any] = set()

    def patch_once(function: Any) -> Any:
        if function in patched:
            return None
        scope = patch(function)
        if scope is None:
            patched.add(function)
        return scope

    triton_interpreter._patch_lang = patch_once

    numpy_type = triton_interpreter._get_np_dtype
    types: dict[str, Any] = {}

    def remembered_type(dtype: Any) -> Any:
        name: str = dtype.name
        if name not in types:
            types[name] = numpy_type(dtype)
        return types[name]

    triton_interpreter._get_np_dtype = remembered_type


def _mend_index() -> None:
    """A scalar is an array of one element to the interpreter; since version 2.4, NumPy makes no
    `int` of that."""
    patch = triton_interpreter._patch_lang_tensor

    def index(scalar: Any) -> int:
        return int(np.asarray(scalar.handle.data).item())

    def patch_tensor(tensor: Any, *scope: Any) -> Any:
        result = patch(tensor, *scope)
        tensor.__index__ = index  # the scope of newer versions knows what it will put back
        return result

    triton_interpreter._patch_lang_tensor = patch_tensor


def _remember_types() -> None:
    """Spares describing the same block shape anew for each value: a third of the time of a kernel
    with small tiles. What Triton makes the first time is given to all values of that shape."""
    make_type = tl.block_type.__init__
    types: dict[Any, dict[str, Any]] = {}

    def block_type(made: Any, element: Any, shape: Any) -> None:
        # An element type is kept with what is known of it, so no other can get its id.
        sizes = [getattr(n, "value", n) for n in shape]
        key = (id(element), *sizes, *map(type, sizes))  # 2.0 is no size, and equals one
        attributes: dict[str, Any] = made.__dict__
        if key in types:
            attributes.update(types[key])
            return
        make_type(made, element, shape)
        if len(types) == _MOST_TYPES:
            types.clear()
        types[key] = {**attributes}

    tl.block_type.__init__ = block_type

    make_tensor = tl.tensor.__init__
    shapes: dict[Any, tuple[Any, Any]] = {}

    def tensor(made: Any, handle: Any, kind: Any) -> None:
        shape: tuple[int, ...] = tuple(kind.shape) if kind.is_block() else ()
        if shape in shapes:
            numel, described = shapes[shape]
            made.handle, made.type, made.dtype = handle, kind, kind.scalar
            made.numel, made.shape = numel, described
            return
        make_tensor(made, handle, kind)
        if {*vars(made)} == {"handle", "type", "dtype", "numel", "shape"}:
            shapes[shape] = (made.numel, made.shape)

    tl.tensor.__init__ = tensor


def _skip_overflow_checks(builder: Any) -> None:
    """The checks of each integer operation assert only with `debug`, yet are always computed:
    most of the time of a kernel that recomputes its pointers."""
    options = builder.options
    if getattr(options, "sanitize_overflow", False) and not options.debug:
        builder.options = replace(options, sanitize_overflow=False)


def _watch_memory(builder: Any, watch: Watch) -> None:
    def wrap(name: str, op: str, pointer_index: int, mask_index: int | None) -> None:
        original = getattr(builder, name)

        def checked(*args: Any, **kwargs: Any) -> Any:
            pointers = args[pointer_index]
            mask = None if mask_index is None else args[mask_index]
            if mask is not None and not isinstance(mask, np.ndarray):
                mask = mask.data  # a block pointer's mask is an array itself
            if mask is not None:
                # What `&` makes of two masks may be of bytes, which would be taken for indices.
                mask = None if mask.all() else np.broadcast_to(mask != 0, pointers.data.shape)
            places = strided(pointers.data) if op in ("load", "store") else None
            buffer = _check(watch, op, pointers, mask, places)
            if places is None or buffer is None:
                return original(*args, **kwargs)
            if op == "store":
                done = _store_at_once(places, buffer, args[1].data, mask)
                return None if done else original(*args, **kwargs)
            other = args[2] if len(args) > 2 else kwargs["other"]
            found = _load_at_once(places, buffer, pointers, mask, other)
            return original(*args, **kwargs) if found is None else found

        setattr(builder, name, checked)

    wrap("create_masked_load", "load", 0, 1)
    wrap("create_masked_store", "store", 0, 2)
    wrap("create_atomic_rmw", "atomic", 1, 3)
    wrap("create_atomic_cas", "atomic", 0, None)


def _load_at_once(places: Strided, buffer: Buffer, pointers: Any, mask: Any, other: Any) -> Any:
    """What is loaded, as `create_masked_load` gives it; None where that has to do it."""
    kind: Any = pointers.get_element_ty()
    memory = places.array(buffer, triton_interpreter._get_np_dtype(kind))
    if memory is None:
        return None
    loaded: Any
    if mask is None:
        loaded = memory.copy(order="C")
    else:
        loaded = cast(Any, np).zeros(memory.shape, memory.dtype)
        if other is not None:
            if other.data.dtype != memory.dtype or other.data.shape != memory.shape:
                return None
            loaded[...] = other.data
        np.copyto(loaded, memory, where=mask)
    return triton_interpreter.TensorHandle(loaded, kind)


def _store_at_once(places: Strided, buffer: Buffer, values: Any, mask: Any) -> bool:
    """Stores as `create_masked_store` does; False where that has to do it."""
    if values.shape != places.shape or places.overlaps(values.dtype.itemsize):
        return False
    memory = places.array(buffer, values.dtype)
    if memory is None:
        return False
    np.copyto(memory, values, where=True if mask is None else mask)
    return True


def _check(
    watch: Watch, op: str, pointers: Any, mask: Any, places: Strided | None
) -> Buffer | None:
    """Takes note of an access; its buffer, where it is all in one.

    Args:
        mask: None where nothing is left out.
        places: the addresses, where they are evenly spaced.
    """
    addresses = pointers.data if mask is None else pointers.data[mask]
    if addresses.size and (line := _line(watch.source_path)) is not None:
        watch.trace.access(line)
    if not addresses.size:
        return None
    size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
    if mask is None and places is not None:
        low, high = places.low, places.high
    else:
        low, high = int(addresses.min()), int(addresses.max())
    if (buffer := watch.memory.buffer_of(low, high + size)) is not None:
        return buffer
    try:
        seen, farthest = watch.memory.outside(addresses, size)
    except NoMemoryError as error:
        raise IndexError(
            f"{op} of {watch.trace.kernel} reaches {error.elements} elements outside its tensor, "
            "so far that there is no memory"
        ) from None
    if not seen:
        return None
    key = (watch.trace.kernel, op, _line(watch.source_path))
    access = watch.outside.setdefault(key, OutsideAccess(*key))
    access.elements += seen
    access.farthest_bytes = max(access.farthest_bytes, farthest)
    return None


def _line(path: str) -> int | None:
    """The line of the program that the interpreter is at."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_filename == path:
            return frame.f_lineno
        frame = frame.f_back
    return None


def _add_what_is_missing(builder: Any) -> None:
    """What 3.3.0b1 has not, or under another name only."""
    if not hasattr(builder, "get_int1_ty"):  # for `True & mask`
        builder.get_int1_ty = lambda: tl.int1
    if not hasattr(tl, "make_tensor_descriptor"):
        experimental = getattr(tl, "_experimental_make_tensor_descriptor", None)
        if experimental is not None:
            tl.make_tensor_descriptor = experimental


def _widen(handle: Any) -> Any:
    """A bfloat16 handle's values as float32."""
    data = handle.data.astype(np.uint32) << np.uint32(16)
    return data.view(np.float32)


def _narrow(values: Any) -> Any:
    """float32 values as bfloat16 bits, rounded to nearest even; a NaN stays one."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def _is_bf16(value: Any) -> bool:
    if not isinstance(value, triton_interpreter.TensorHandle):
        return False
    dtype: Any = value.dtype
    return getattr(dtype, "scalar", dtype) == tl.bfloat16


def _mend_bfloat16(builder: Any) -> None:
    handle: Any = triton_interpreter.TensorHandle

    def wide(value: Any) -> Any:
        return handle(_widen(value), tl.float32) if _is_bf16(value) else value

    def wrap(name: str) -> None:
        original = getattr(builder, name)

        def through_float32(*args: Any) -> Any:
            if not any(_is_bf16(a) for a in args):
                return original(*args)
            result = original(*(wide(a) for a in args))
            if result.data.dtype == np.float32:
                return handle(_narrow(result.data), tl.bfloat16)
            return result  # of a comparison

        setattr(builder, name, through_float32)

    for name in ("binary_op", "unary_op", "create_fma", "create_rsqrt", "create_erf"):
        wrap(name)

    ternary = builder.ternary_op

    def ternary_op(first: Any, second: Any, third: Any, op: Any) -> Any:
        if op is np.where:  # moves bits
            return ternary(first, second, third, op)
        if not any(_is_bf16(a) for a in (first, second, third)):
            return ternary(first, second, third, op)
        result = ternary(wide(first), wide(second), wide(third), op)
        return handle(_narrow(result.data), tl.bfloat16)

    builder.ternary_op = ternary_op

    dot = builder.create_dot

    def create_dot(a: Any, b: Any, d: Any, *rest: Any) -> Any:
        if not _is_bf16(d):
            return dot(wide(a), wide(b), d, *rest)
        result = dot(wide(a), wide(b), wide(d), *rest)
        return handle(_narrow(result.data), tl.bfloat16)

    builder.create_dot = create_dot

    cast = builder.cast_impl

    def cast_impl(source: Any, destination: Any) -> Any:
        to_bf16 = destination.scalar == tl.bfloat16
        if _is_bf16(source):
            return source if to_bf16 else cast(wide(source), destination)
        if to_bf16:
            return handle(_narrow(source.data.astype(np.float32)), tl.bfloat16)
        return cast(source, destination)

    builder.cast_impl = cast_impl

    fp_to_fp = builder.create_fp_to_fp

    def create_fp_to_fp(source: Any, destination: Any, rounding: Any) -> Any:
        if source.dtype.scalar == tl.float32 and destination.scalar == tl.bfloat16:
            return cast_impl(source, destination)
        return fp_to_fp(source, destination, rounding)

    builder.create_fp_to_fp = create_fp_to_fp
