"""Tensors written raw between processes: a JSON tree beside one file of bytes, never pickle.

The tree mirrors the value: tensors by dtype, shape, strides and place in the file, containers
by their items, numbers and strings as themselves. Runs in worker processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

Tree = dict[str, Any]
Allocate = Callable[[torch.Tensor], torch.Tensor]

_PLAIN = (bool, int, float, str, type(None))


def write(value: Any, path: Path) -> Tree:
    """Writes every tensor of `value` to `path` and gives the tree that `read` needs.

    Raises:
        TypeError: it holds something other than strided tensors (exactly torch.Tensor or
            Parameter), lists, tuples, dicts, numbers, strings and None.
    """
    with path.open("wb") as file:
        return _encode(value, file)


def read(tree: Tree, path: Path, allocate: Allocate | None = None) -> Any:
    """The value that was written. `allocate` may move each tensor elsewhere.

    Raises:
        OSError: there is no such file; a link, which another process may have put there, is none.
        KeyError, TypeError, ValueError, RuntimeError: the tree does not fit the file.
    """
    return decode(tree, read_bytes(path), allocate)


def read_bytes(path: Path) -> bytearray:
    """What `decode` takes. Raises OSError as `read` does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        return bytearray(file.read())


def decode(tree: Tree, data: bytearray, allocate: Allocate | None = None) -> Any:
    """The value of a tree whose file holds `data`. Raises as `read` does."""
    return _decode(tree, data, allocate or (lambda tensor: tensor))


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor of nested containers, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:  # type: ignore[reportUnknownVariableType]
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():  # type: ignore[reportUnknownVariableType]
            yield from tensors(item)


def span(tensor: torch.Tensor) -> int:
    """How many elements of storage lie between the first and the last that it can reach."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def _encode(value: Any, file: BinaryIO) -> Tree:
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return _encode_tensor(value.detach(), file)
    if type(value) in (list, tuple):
        return {"kind": type(value).__name__, "items": [_encode(v, file) for v in value]}
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value)
        if not all(isinstance(name, str) for name in items):
            raise TypeError("a dict whose keys are not all strings")
        return {"kind": "dict", "items": {k: _encode(v, file) for k, v in items.items()}}
    if isinstance(value, tuple):  # a named tuple, or torch's return types
        return {"kind": "tuple", "items": [_encode(v, file) for v in tuple(value)]}  # type: ignore[reportUnknownVariableType]
    if type(value) in _PLAIN:
        return {"kind": "value", "value": value}
    raise TypeError(f"a value of type {type(value).__module__}.{type(value).__qualname__}")


def _encode_tensor(tensor: torch.Tensor, file: BinaryIO) -> Tree:
    if tensor.layout is not torch.strided:
        raise TypeError(f"a tensor of layout {tensor.layout}")
    tensor = tensor.resolve_conj().resolve_neg()
    elements = torch.as_strided(tensor, (span(tensor),), (1,), tensor.storage_offset())
    start = file.tell()
    file.write(cast(Any, elements.contiguous().view(torch.uint8)).numpy().tobytes())
    return {
        "kind": "tensor",
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "offset_bytes": start,
        "elements": span(tensor),
    }


def _decode(tree: Tree, data: bytearray, allocate: Allocate) -> Any:
    kind = tree["kind"]
    if kind == "tensor":
        return allocate(_decode_tensor(tree, data))
    if kind == "value":
        return tree["value"]
    if kind == "dict":
        return {name: _decode(item, data, allocate) for name, item in tree["items"].items()}
    items = [_decode(item, data, allocate) for item in tree["items"]]
    return tuple(items) if kind == "tuple" else items


def _decode_tensor(tree: Tree, data: bytearray) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, tree["dtype"])
    if tree["elements"] == 0:
        return torch.empty_strided(tree["shape"], tree["strides"], dtype=dtype)
    raw = torch.frombuffer(
        data,
        dtype=torch.uint8,
        offset=tree["offset_bytes"],
        count=tree["elements"] * dtype.itemsize,
    )
    # A copy, since the bytes in the file need not be aligned for the type.
    return raw.clone().view(dtype).as_strided(tree["shape"], tree["strides"])
