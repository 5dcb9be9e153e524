"""PyTorch answering as on a machine with an Intel (or CUDA) GPU, on CPU tensors.

Two modes of PyTorch do it. A function mode rewrites device arguments ("xpu" -> "cpu") and
answers the getters (`device`, `is_xpu`). A dispatch mode gives large results without
computing them: no kernel of ours runs here, so values mean nothing, and a tensor of the real
size must cost nothing. Small tensors are computed, since a host may read sizes and offsets
from them.

Runs in worker processes: standard library and torch only.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

#: an operation on no more than this is computed
LARGEST_COMPUTED_BYTES = 1 << 20

_BACKENDS = ("xpu", "cuda")

#: what a program asks of values, answered as if every launch had computed the right thing
_COMPARISONS: dict[str, Any] = {"allclose": True, "equal": True}


#: what a program is told of a device that nothing is known of
_UNKNOWN_DEVICE: dict[str, Any] = {
    "name": "ghost device",
    "total_memory": 16 << 30,
    "multi_processor_count": 1,
    "gpu_eu_count": 8,
    "gpu_subslice_count": 1,
    "max_work_group_size": 1024,
    "max_num_sub_groups": 64,
    "sub_group_sizes": [16, 32],
    "warp_size": 32,
    "major": 9,
    "minor": 0,
}


class GhostTorch:
    """While entered, `backend` ("xpu" or "cuda") is there, and so is the other one's spelling.

    A CUDA program can be given an Intel target: "cuda" answers then too.

    Args:
        backend: what `torch.accelerator` says.
        properties: of the device, as `get_device_properties` gives them.
        notes: gets a sentence for each liberty taken that a reader should know.
        computes: everything is really computed, as under Triton's interpreter.
    """

    def __init__(
        self,
        backend: str,
        *,
        notes: list[str],
        properties: Mapping[str, Any] | None = None,
        computes: bool = False,
    ) -> None:
        self._backend = backend
        self._properties = SimpleNamespace(**{**_UNKNOWN_DEVICE, **(properties or {})})
        self._computes = computes
        self._notes = notes
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> GhostTorch:
        for name in _BACKENDS:
            self._replace_all(getattr(torch, name), _device_module(name, self._properties))
        self._replace_all(torch.accelerator, _accelerator(self._backend))
        if not self._computes:
            self._replace_all(torch, self._comparisons())
            self._replace_all(torch.testing, {"assert_close": self._compared(None)})
        self._replace(torch, "Generator", _Generator)
        self._replace(torch, "compile", self._uncompiled)
        self._replace(torch.amp.autocast_mode.autocast, "__init__", _autocast_init())
        self._stack.enter_context(_Devices(self._backend))
        if not self._computes:
            self._stack.enter_context(_Uncomputed())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _replace_all(self, owner: Any, stand_ins: Mapping[str, Any]) -> None:
        for name, stand_in in stand_ins.items():
            self._replace(owner, name, stand_in)

    def _replace(self, owner: Any, name: str, stand_in: Any) -> None:
        missing = object()
        original = getattr(owner, name, missing)
        setattr(owner, name, stand_in)
        if original is missing:
            self._stack.callback(delattr, owner, name)
        else:
            self._stack.callback(setattr, owner, name, original)

    def _uncompiled(self, model: Any = None, **_: Any) -> Any:
        note = "torch.compile was left out: only kernels that the program launches itself are seen"
        if note not in self._notes:
            self._notes.append(note)
        return self._uncompiled if model is None else model

    def _comparisons(self) -> dict[str, Any]:
        return {name: self._compared(answer) for name, answer in _COMPARISONS.items()}

    def _compared(self, answer: Any) -> Callable[..., Any]:
        def compared(*_: Any, **__: Any) -> Any:
            note = "nothing is computed on the ghost device: comparisons of results were granted"
            if note not in self._notes:
                self._notes.append(note)
            return answer

        return compared


class _Devices(TorchFunctionMode):
    """Every tensor says that it is on the accelerator; in truth all are on the CPU."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self._backend = backend
        tensor = torch.Tensor
        # Compared with ==: each access of a getter makes a new method wrapper.
        self._answers: list[tuple[Any, Callable[[Any], Any]]] = [
            (tensor.device.__get__, lambda _: torch.device(self._backend, 0)),  # type: ignore[attr-defined]
            (tensor.is_xpu.__get__, lambda _: self._backend == "xpu"),  # type: ignore[attr-defined]
            (tensor.is_cuda.__get__, lambda _: self._backend == "cuda"),  # type: ignore[attr-defined]
            (tensor.is_cpu.__get__, lambda _: False),  # type: ignore[attr-defined]
            (tensor.get_device, lambda _: 0),
        ]
        self._moves = [tensor.xpu, tensor.cuda, tensor.cpu, tensor.pin_memory]

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "get_device"):
            for getter, answer in self._answers:
                if func == getter:
                    return answer(args[0])
        elif name in ("xpu", "cuda", "cpu", "pin_memory"):
            if func in self._moves:
                return args[0]
        elif func is torch.device:
            return func(*args, **kwargs)
        args = tuple(_on_cpu(a) for a in args)
        if "device" in kwargs:
            kwargs = {**kwargs, "device": _on_cpu(kwargs["device"])}
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        return func(*args, **kwargs)


class _Uncomputed(TorchDispatchMode):
    """Gives the results of large operations their shape, strides and type, and no values."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operation imports torch._dynamo: 2 s

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        made = self._answered(func, args, dict(kwargs or {}))
        _note_origin(func._schema, args, kwargs or {}, made)
        return made

    @staticmethod
    def _answered(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "device" in kwargs:  # from torch.set_default_device, which acts below our other mode
            kwargs["device"] = _on_cpu(kwargs["device"])
        schema = func._schema
        returns = schema.returns
        if not returns or any(str(r.type) not in ("Tensor", "Tensor[]") for r in returns):
            return func(*args, **kwargs)  # .item(), sizes: the host wants a value
        aliases = [r.alias_info for r in returns]
        if any(a is not None and not a.is_write for a in aliases):
            return func(*args, **kwargs)  # a view costs nothing
        if "resize" in schema.name or schema.name == "aten::set_":
            return func(*args, **kwargs)  # changes a tensor's own shape
        if any(a is not None for a in aliases):
            if _bytes((args, kwargs)) <= LARGEST_COMPUTED_BYTES:
                return func(*args, **kwargs)
            return _written(schema, args, kwargs)
        operand_bytes = _bytes((args, kwargs))
        if 0 < operand_bytes <= LARGEST_COMPUTED_BYTES:
            return func(*args, **kwargs)
        made = _on_nothing(func, args, kwargs)
        if made is None or (operand_bytes == 0 and _bytes(made) <= LARGEST_COMPUTED_BYTES):
            return func(*args, **kwargs)
        return tree_map_only(torch.Tensor, _blank, made)


#: name that the functions which make a tensor of nothing, or of one value, share -> how it is told
_MADE = {"empty": "empty", "zeros": "filled", "ones": "filled", "full": "filled"}


def _note_origin(schema: Any, args: Any, kwargs: Mapping[str, Any], made: Any) -> None:
    """Marks tensors that PyTorch made and gave no values but one; a write takes the mark away."""
    name = schema.name.removeprefix("aten::").removeprefix("new_").removesuffix("_like")
    if isinstance(made, torch.Tensor) and (origin := _MADE.get(name.removesuffix("_strided"))):
        cast(Any, made).xesmith_origin = origin
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        for tensor in tree_leaves(args[i] if i < len(args) else kwargs.get(argument.name)):
            if isinstance(tensor, torch.Tensor):
                cast(Any, _root(tensor)).xesmith_origin = None


def _root(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor._base is None else tensor._base


def made_bytes(returned: Any) -> dict[str, int]:
    """Bytes of the returned tensors that only kernels can have written, by what they were made as:
    "empty", or "filled" with one value. Views with gaps or overlaps count for nothing."""
    most: dict[int, tuple[str, int]] = {}
    for tensor in tree_leaves(returned):
        if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0:
            continue
        origin: str | None = getattr(_root(tensor), "xesmith_origin", None)
        reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        if origin is None or reach + 1 != tensor.numel():
            continue
        held = most.get(id(_root(tensor)), (origin, 0))[1]
        size_bytes = tensor.numel() * tensor.element_size()
        most[id(_root(tensor))] = origin, max(held, size_bytes)
    totals: dict[str, int] = {}
    for origin, size_bytes in most.values():
        totals[origin] = totals.get(origin, 0) + size_bytes
    return totals


#: larger tensors all lie on one piece of memory, since a program may fill a GPU that has more
#: than this machine
LARGEST_OWN_BYTES = 64 << 20

_shared_memory: list[torch.UntypedStorage] = []


def _blank(meta: torch.Tensor) -> torch.Tensor:
    """A tensor like `meta` on memory that is not written; a large one shares it with others."""
    needed_bytes = extent_bytes(meta)
    shared = _shared_memory[0] if _shared_memory else None
    if needed_bytes <= LARGEST_OWN_BYTES or shared is None or shared.nbytes() < needed_bytes:
        made = torch.empty_strided(meta.shape, meta.stride(), dtype=meta.dtype)
        if needed_bytes > LARGEST_OWN_BYTES:
            _shared_memory[:] = [made.untyped_storage()]
        return made
    made = torch.empty(0, dtype=meta.dtype)
    return made.set_(shared, 0, meta.shape, meta.stride())  # type: ignore[call-overload]


def extent_bytes(tensor: torch.Tensor) -> int:
    """From the storage's start to the end of the tensor's last element."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return (int(tensor.storage_offset()) + int(last) + 1) * tensor.element_size()


def _on_nothing(func: Any, args: Any, kwargs: Any) -> Any:
    """Meta tensors like the result; None where PyTorch cannot tell without computing.

    The common cases are answered here. PyTorch's own way to the shape of many of them imports
    sympy (0.5 s) or torch._dynamo (2 s) into each child.
    """
    schema = func._schema
    dtype = kwargs.get("dtype")
    if schema.name.endswith("_like") or schema.name in ("aten::clone", "aten::_to_copy"):
        return _like(args[0], dtype or args[0].dtype, kwargs.get("memory_format"))
    names = [argument.name for argument in schema.arguments]
    if schema.name in _SIZED and "size" in names:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if dtype is None and schema.name in ("aten::full", "aten::randint"):
            dtype = torch.full((1,), given.get("fill_value", 0)).dtype
        if dtype is None and "self" in given:
            dtype = given["self"].dtype
        layout = given.get("memory_format") or torch.contiguous_format
        return torch.empty(given["size"], dtype=dtype, device="meta", memory_format=layout)
    if schema.name in _PRODUCTS:
        left, right = args[_PRODUCTS[schema.name] :][:2]
        shape = (*left.shape[:-1], right.shape[-1])
        return torch.empty(shape, dtype=left.dtype, device="meta")
    if schema.name == "aten::cat" and all(t.dim() == args[0][0].dim() for t in args[0]):
        parts = args[0]
        dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % parts[0].dim()
        extent = sum(t.shape[dim] for t in parts)
        shape = (*parts[0].shape[:dim], extent, *parts[0].shape[dim + 1 :])
        common = functools.reduce(torch.promote_types, (t.dtype for t in parts))
        return torch.empty(shape, dtype=common, device="meta")
    if torch.Tag.pointwise in func.tags and len(schema.returns) == 1:
        return _pointwise(func, args, kwargs)
    return _on_meta(func, args, kwargs)


#: matrix products -> the position of their left factor
_PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}


#: operations whose result has the shape of their argument `size`
_SIZED = tuple(
    f"aten::{name}"
    for name in (
        *("empty", "zeros", "ones", "full", "rand", "randn", "randint"),
        *("new_empty", "new_zeros", "new_ones", "new_full"),
    )
)


def _like(tensor: torch.Tensor, dtype: torch.dtype, layout: Any) -> torch.Tensor:
    """A meta tensor of the same shape; without a layout, of the same strides where dense."""
    if layout in (None, torch.preserve_format):
        expected = 1
        for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
            if size > 1 and step != expected:
                break  # overlapping, or with gaps
            expected *= size
        else:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="meta")
        layout = torch.contiguous_format
    return torch.empty(tensor.shape, dtype=dtype, device="meta", memory_format=layout)


def _on_meta(func: Any, args: Any, kwargs: Any) -> Any:
    def meta(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

    try:
        args, kwargs = tree_map_only(torch.Tensor, meta, (args, kwargs))
        if any(argument.name == "device" for argument in func._schema.arguments):
            kwargs = {**kwargs, "device": torch.device("meta")}
            kwargs.pop("pin_memory", None)
        if kwargs.get("generator") is not None:
            kwargs = {**kwargs, "generator": None}
        return func(*args, **kwargs)
    except (NotImplementedError, RuntimeError):
        return None


def _pointwise(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of an elementwise operation, asked of one element of each operand.

    PyTorch's own way to many of these shapes imports torch._dynamo (2 s).
    """
    operands: list[torch.Tensor] = []

    def one_element(tensor: torch.Tensor) -> torch.Tensor:
        operands.append(tensor)
        return torch.zeros((1,) * tensor.dim(), dtype=tensor.dtype)

    small_args, small_kwargs = tree_map_only(torch.Tensor, one_element, (args, kwargs))
    dtype = func(*small_args, **small_kwargs).dtype
    reversed_shapes = [reversed(t.shape) for t in operands]
    # Not torch.broadcast_shapes, which imports sympy. An extent of 1 gives way, also to 0.
    extents = [
        next((e for e in column if e != 1), 1)
        for column in itertools.zip_longest(*reversed_shapes, fillvalue=1)
    ]
    shape = torch.Size(reversed(extents))
    for tensor in operands:
        if tensor.shape == shape:
            return _like(tensor, dtype, None)
    return torch.empty(shape, dtype=dtype, device="meta")


def _written(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an in-place or out= operation returns: the tensors that it writes to."""
    found = [
        args[i] if i < len(args) else kwargs[argument.name]
        for i, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return found[0] if len(schema.returns) == 1 else tuple(found)


def _bytes(tree: Any) -> int:
    total = 0

    def add(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor

    tree_map_only(torch.Tensor, add, tree)
    return total


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type in _BACKENDS else value
    if isinstance(value, str) and value.partition(":")[0] in _BACKENDS:
        return torch.device("cpu")
    return value


class _Generator(torch.Generator):
    """Generators of the device are generators of the CPU."""

    def __new__(cls, device: Any = None) -> _Generator:
        return super().__new__(cls, device="cpu")  # type: ignore[call-arg]


def _autocast_init() -> Callable[..., None]:
    original = torch.amp.autocast_mode.autocast.__init__

    def init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        original(self, "cpu" if device_type in _BACKENDS else device_type, *args, **kwargs)

    return init


class _Stream:
    """A stream on which everything has already happened."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = torch.device("cpu")
        self.sycl_queue = 0
        self.cuda_stream = 0
        self.stream_id = 0

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def record_event(self, event: Any = None) -> _Event:
        return event or _Event()

    def query(self) -> bool:
        return True

    def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    synchronize = wait_event = wait_stream = record = _nothing


class _Event:
    """An event that took place. Times between events are one millisecond: not measured."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.event_id = 0

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Any) -> float:
        return 1.0

    def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    record = wait = synchronize = _nothing


def _context() -> Callable[..., Any]:
    def context(*_: Any, **__: Any) -> Any:
        return contextlib.nullcontext()

    return context


def _always(answer: Any) -> Callable[..., Any]:
    """A function that gives `answer` to any arguments."""

    def always(*_: Any, **__: Any) -> Any:
        return answer

    return always


def _device_module(name: str, properties: Any) -> dict[str, Any]:
    """Stand-ins for `torch.xpu` or `torch.cuda`."""
    capability = cast("Any", vars(properties) if name == "xpu" else (9, 0))
    memory_bytes = properties.total_memory
    stream = _Stream()
    return {
        "is_available": _always(True),
        "is_initialized": _always(True),
        "_lazy_init": _always(None),
        "init": _always(None),
        "device_count": _always(1),
        "current_device": _always(0),
        "set_device": _always(None),
        "synchronize": _always(None),
        "empty_cache": _always(None),
        "manual_seed": _always(None),
        "manual_seed_all": _always(None),
        "current_stream": _always(stream),
        "default_stream": _always(stream),
        "set_stream": _always(None),
        "stream": _context(),
        "device": _context(),
        "Stream": _Stream,
        "Event": _Event,
        "get_device_properties": _always(properties),
        "get_device_name": _always(properties.name),
        "get_device_capability": _always(capability),
        "is_bf16_supported": _always(True),
        "memory_allocated": _always(0),
        "max_memory_allocated": _always(0),
        "memory_reserved": _always(0),
        "reset_peak_memory_stats": _always(None),
        "mem_get_info": _always((memory_bytes, memory_bytes)),
    }


def _accelerator(backend: str) -> dict[str, Any]:
    stream = _Stream()
    return {
        "is_available": _always(True),
        "current_accelerator": _always(torch.device(backend)),
        "device_count": _always(1),
        "current_device_index": _always(0),
        "current_device_idx": _always(0),
        "set_device_index": _always(None),
        "set_device_idx": _always(None),
        "current_stream": _always(stream),
        "set_stream": _always(None),
        "synchronize": _always(None),
    }
