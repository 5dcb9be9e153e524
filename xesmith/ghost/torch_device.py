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
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

#: an operation on no more than this is computed
LARGEST_COMPUTED_BYTES = 1 << 20

_BACKENDS = ("xpu", "cuda")

#: what a program asks of values, answered as if every launch had computed the right thing
_COMPARISONS: dict[str, Any] = {"allclose": True, "equal": True}


class GhostTorch:
    """While entered, `backend` ("xpu" or "cuda") is there, and so is the other one's spelling.

    A CUDA program can be given an Intel target: "cuda" answers then too.

    Args:
        backend: what `torch.accelerator` says.
        notes: gets a sentence for each liberty taken that a reader should know.
        computes: everything is really computed, as under Triton's interpreter.
    """

    def __init__(self, backend: str, *, notes: list[str], computes: bool = False) -> None:
        self._backend = backend
        self._computes = computes
        self._notes = notes
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> GhostTorch:
        for name in _BACKENDS:
            self._replace_all(getattr(torch, name), _device_module(name))
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
        return (lambda m: m) if model is None else model

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
        elif name == "numpy":
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
        kwargs = kwargs or {}
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
        is_factory = _bytes((args, kwargs)) == 0
        if not is_factory and _bytes((args, kwargs)) <= LARGEST_COMPUTED_BYTES:
            return func(*args, **kwargs)
        made = _shapes(func, args, kwargs)
        if made is None or (is_factory and _bytes(made) <= LARGEST_COMPUTED_BYTES):
            return func(*args, **kwargs)
        return tree_map_only(
            torch.Tensor, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype), made
        )


#: factories whose result needs no asking: PyTorch's own way to its shape imports sympy (0.4 s)
_FACTORIES = {
    "aten::empty": None,
    "aten::zeros": None,
    "aten::ones": None,
    "aten::rand": None,
    "aten::randn": None,
    "aten::randint": torch.int64,
}


def _shapes(func: Any, args: Any, kwargs: Any) -> Any:
    """The result on the meta device; None where PyTorch cannot tell without computing."""
    if func._schema.name in _FACTORIES:
        names = [argument.name for argument in func._schema.arguments]
        if "size" in names:
            position = names.index("size")
            size = args[position] if position < len(args) else kwargs["size"]
            dtype = kwargs.get("dtype") or _FACTORIES[func._schema.name]
            return torch.empty(size, dtype=dtype, device="meta")
    if torch.Tag.pointwise in func.tags and len(func._schema.returns) == 1:
        return _pointwise_shape(func, args, kwargs)

    def meta(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
        )

    try:
        args, kwargs = tree_map_only(torch.Tensor, meta, (args, kwargs))
        if any(a.name == "device" for a in func._schema.arguments):
            kwargs = {**kwargs, "device": torch.device("meta")}
            kwargs.pop("pin_memory", None)
        if kwargs.get("generator") is not None:
            kwargs = {**kwargs, "generator": None}
        return func(*args, **kwargs)
    except (NotImplementedError, RuntimeError):
        return None


def _pointwise_shape(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of an elementwise operation, asked of one element of each operand.

    PyTorch's own way to many of these shapes imports torch._dynamo (2 s).
    """
    operands: list[torch.Tensor] = []

    def one_element(tensor: torch.Tensor) -> torch.Tensor:
        operands.append(tensor)
        return torch.zeros((1,) * tensor.dim(), dtype=tensor.dtype)

    small_args, small_kwargs = tree_map_only(torch.Tensor, one_element, (args, kwargs))
    dtype = func(*small_args, **small_kwargs).dtype
    shape = torch.broadcast_shapes(*(t.shape for t in operands))
    for tensor in operands:
        if tensor.shape == shape:
            return torch.empty_like(tensor, dtype=dtype, device="meta")
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


def _nothing() -> Callable[..., None]:
    """A function that does nothing; a new one each time, since PyTorch tells them apart."""

    def nothing(*_: Any, **__: Any) -> None:
        return None

    return nothing


def _context() -> Callable[..., Any]:
    @contextlib.contextmanager
    def context(*_: Any, **__: Any) -> Iterator[None]:
        yield

    return context


def _device_module(name: str) -> dict[str, Any]:
    """Stand-ins for `torch.xpu` or `torch.cuda`."""
    properties = types.SimpleNamespace(
        name=f"ghost {name}",
        total_memory=32 << 30,
        multi_processor_count=1,
        max_compute_units=1,
        gpu_eu_count=1,
        gpu_subslice_count=1,
        max_work_group_size=1024,
        max_num_sub_groups=64,
        sub_group_sizes=[16, 32],
        warp_size=32,
        major=9,
        minor=0,
    )
    stream = _Stream()
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_lazy_init": _nothing(),
        "init": _nothing(),
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": _nothing(),
        "synchronize": _nothing(),
        "empty_cache": _nothing(),
        "manual_seed": _nothing(),
        "manual_seed_all": _nothing(),
        "current_stream": lambda *_: stream,
        "default_stream": lambda *_: stream,
        "set_stream": _nothing(),
        "stream": _context(),
        "device": _context(),
        "Stream": _Stream,
        "Event": _Event,
        "get_device_properties": lambda *_: properties,
        "get_device_name": lambda *_: properties.name,
        "get_device_capability": lambda *_: (9, 0) if name == "cuda" else vars(properties),
        "is_bf16_supported": lambda *_, **__: True,
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "memory_reserved": lambda *_: 0,
        "reset_peak_memory_stats": _nothing(),
        "mem_get_info": lambda *_: (properties.total_memory, properties.total_memory),
    }


def _accelerator(backend: str) -> dict[str, Any]:
    stream = _Stream()
    return {
        "is_available": lambda: True,
        "current_accelerator": lambda *_, **__: torch.device(backend),
        "device_count": lambda: 1,
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": _nothing(),
        "set_device_idx": _nothing(),
        "current_stream": lambda *_: stream,
        "set_stream": _nothing(),
        "synchronize": _nothing(),
    }
