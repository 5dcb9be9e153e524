"""The tensors that a TensorSpec asks for: their layout alone, or with random values.

A ghost launch reads no value, so `empty_input` costs nothing at any size; `random_input` makes
what the interpreter computes with. Both give the same shape, type and strides.

Runs in worker processes: standard library and torch only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from xesmith.ghost.launch import TensorSpec

#: rank of the tensors that a memory format of torch is for; others stay as they are
_RANKS = {"channels_last": 4, "channels_last_3d": 5}
_AS_IT_IS = (None, "preserve_format")

#: AI-bench's transforms of values (its docs/problem_spec.md); "transpose" is one of layout
_TRANSFORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "scale": lambda values: values * torch.rand(()),
    "softmax": lambda values: values.softmax(-1),
    "abs": lambda values: values.abs(),
    "normalize": lambda values: torch.nn.functional.normalize(values, dim=-1),
    "symmetric": lambda values: (values + values.mT) / 2,
    "triu": lambda values: values.triu(),
    "tril": lambda values: values.tril(),
    "transpose": lambda values: values.mT,
    "uniform": lambda values: 2 * torch.rand_like(values) - 1,
    "rademacher": lambda values: 2.0 * (torch.rand_like(values) < 0.5) - 1,
}


def empty_input(spec: TensorSpec) -> torch.Tensor:
    """Of the spec's shape, type and strides, with values only where the host may read them."""
    dtype: torch.dtype = getattr(torch, spec.dtype)
    if spec.value_range is not None and not dtype.is_floating_point:
        made = _integers(spec, dtype)  # may be sizes or indices
    else:
        made = torch.empty(spec.shape, dtype=dtype)
    for name in spec.transforms:
        if name == "transpose":
            made = made.mT
    return _formatted(made, spec.memory_format)


def random_input(spec: TensorSpec, index: int = 0) -> torch.Tensor:
    """Normal values, or of the spec's range, after its transforms.

    Without either, every third seed (`index` is its place) has values uniform in [0, 1), since
    sums of these do not cancel. Integers are of [low, high), as torch's are: a range of indices
    into a dim is written [0, DIM]. Without a range they are 0 or 1.
    """
    dtype: torch.dtype = getattr(torch, spec.dtype)
    values = _values(spec, dtype, index)
    if spec.transforms:
        if not (dtype.is_floating_point or dtype.is_complex):
            values = values.to(torch.float64)
        for name in spec.transforms:
            values = _TRANSFORMS[name](values)
    return _formatted(values.to(dtype), spec.memory_format)


def _values(spec: TensorSpec, dtype: torch.dtype, index: int) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.rand(spec.shape) < 0.5
    if dtype.is_complex:
        return torch.randn(spec.shape, dtype=dtype)
    if not dtype.is_floating_point:
        return _integers(spec, dtype)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    if spec.value_range is not None:
        low, high = spec.value_range
        return low + (high - low) * torch.rand(spec.shape, dtype=wide)
    if index % 3 == 1 and not spec.transforms:
        return torch.rand(spec.shape, dtype=wide)
    return torch.randn(spec.shape, dtype=wide)


def _integers(spec: TensorSpec, dtype: torch.dtype) -> torch.Tensor:
    low, high = (int(bound) for bound in spec.value_range or (0, 2))
    made = torch.randint(low, max(high, low + 1), spec.shape, dtype=torch.int64)
    return made.to(dtype)


def _formatted(made: torch.Tensor, memory_format: str | None) -> torch.Tensor:
    if memory_format in _AS_IT_IS or made.dim() != _RANKS.get(memory_format, made.dim()):
        return made
    return made.contiguous(memory_format=getattr(torch, memory_format))
