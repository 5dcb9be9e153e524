"""What a reference computes, in float64 where it can, and what a comparison with it has to know.

Runs in workers: standard library and torch only.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from xesmith.cascade.compare_task import compare_outputs
from xesmith.timing.programs import tensors


@dataclass(frozen=True)
class Expected:
    """Of one set of inputs: the outputs in the reference's own types, and those that are right.

    `is_exact`: computed in float64. `about` is what `compare_outputs` wants to know beside.
    """

    native: list[torch.Tensor]
    exact: list[torch.Tensor]
    is_exact: bool
    about: dict[str, Any]

    def compare(
        self, got: list[torch.Tensor], rtol: float | None, atol: float | None
    ) -> dict[str, Any]:
        """`faults`, and the worst `error_over_allowed` (None without one), element by element."""
        given = {
            "rtol": rtol,
            "atol": atol,
            "reduction_length": None,
            "expected_exact": self.is_exact,
        }
        records = compare_outputs(got, self.exact, self.about, given)
        ratios = [r["error_over_allowed"] for r in records if "error_over_allowed" in r]
        return {
            "faults": [r["fault"] for r in records if r["fault"]],
            "error_over_allowed": max(ratios, default=None),
        }


class ReferenceModel:
    """A reference's Model, and its twin in float64.

    Args:
        float64: not where the reference is a Triton kernel, whose types are part of its text.
    """

    def __init__(self, model: Any, *, float64: bool) -> None:
        self._model = model
        is_module = isinstance(model, torch.nn.Module)
        self.state: dict[str, torch.Tensor] = dict(model.state_dict()) if is_module else {}
        self.why_native = None if float64 else "the reference is a Triton kernel"
        self._wide: Any = None
        if float64:
            wide = copy.deepcopy(model)
            self._wide = wide.double() if is_module else wide

    def expect(self, inputs: list[Any]) -> Expected:
        """What is right for these inputs. Where float64 fails once, it is not tried again."""
        with torch.no_grad():
            native = list(tensors(self._model(*inputs)))
            exact = native
            if self.why_native is None:
                try:
                    with float64_by_default():
                        exact = list(tensors(self._wide(*map(_widened, inputs))))
                except Exception as error:  # an operator without float64, or no memory for it
                    first = (str(error).strip().splitlines() or [""])[0]
                    self.why_native = f"not in float64: {type(error).__name__}: {first[:400]}"
                    self._wide = None
        about = {
            "natively": True,
            "native": [{"dtype": _name(t)} for t in native],
            "native_errors": native_errors(native, exact),
            **sizes_and_types(list(tensors(inputs)), self.state.values()),
        }
        return Expected(native, exact, self.why_native is None, about)


@contextlib.contextmanager
def float64_by_default() -> Generator[None]:
    """While entered, what a Model makes by itself is float64."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(default)


def sizes_and_types(
    inputs: Sequence[torch.Tensor], state: Iterable[torch.Tensor]
) -> dict[str, Any]:
    """What a derived tolerance is derived from."""
    known = [*inputs, *state]
    return {
        "float_types": sorted({_name(t) for t in known if t.is_floating_point()}),
        "largest_dimension": max((n for t in known for n in t.shape), default=1),
        "largest_input": max((t.numel() for t in inputs), default=1),
    }


def native_errors(
    native: Iterable[torch.Tensor], exact: Iterable[torch.Tensor]
) -> list[float | None]:
    """How far PyTorch itself is from what is right, per output; None where not finite."""
    errors: list[float | None] = []
    for got, want in zip(native, exact, strict=True):
        if got.numel() == 0 or got is want:
            errors.append(0.0)
            continue
        error = (got.to(torch.float64) - want.to(torch.float64)).abs().max().item()
        errors.append(error if error < float("inf") else None)
    return errors


def _widened(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if is_float else value


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
