"""Compares a candidate's outputs with the expected ones, in a process of its own.

The tolerance of an output, element by element: |got - expected| <= atol + rtol * |expected|.
Where the spec gives rtol and atol, those. Else, with u(t) the unit roundoff of type t
(2^-11 for float16, 2^-8 for bfloat16, 2^-24 for float32, 2^-53 for float64):

    rtol = 8 u(output type)
    atol = rms(expected) * (8 u(coarsest of output and input types) + 4 sqrt(n) u(float32))
           (u(float64) where output and inputs are all float64)

n bounds the reduction length: the largest dimension of any input or weight, or the elements of
the largest input per element of the output, whichever is more. The first term of atol allows a
few intermediates in the inputs' type, the second is the random walk of a float32 sum; both are
relative to the output's root mean square, since sums cancel. atol is at least twice the error
that PyTorch itself makes in the reference's own types, and everything doubles where the
reference is not in float64 and so has an error of its own. Other types must be equal.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any, cast

import torch

from xesmith.cascade import tensor_files
from xesmith.cascade.guarded_memory import POISON

_UNIT_ROUNDOFF = {
    "float8_e5m2": 2.0**-3,
    "float8_e4m3fn": 2.0**-4,
    "bfloat16": 2.0**-8,
    "float16": 2.0**-11,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
}

_AT_ONCE = 1 << 16


def compare(arguments: dict[str, Any], folder: Path) -> list[list[dict[str, Any]]]:
    """For each run, one record per output.

    Arguments: runs (of `interpret_task.candidate`), outputs (folder of their files), seeds
    {seed: trees of `interpret_task.reference`}, expected_exact (reference in float64),
    rtol, atol (None: derived), reduction_length (None: bounded from the shapes). Expected
    values lie in `folder` as expected-SEED.bin.

    Returns:
        Per run a list of {"output", "fault": text | None, "wrong", "elements", "unwritten",
        "worst_index", "expected", "got", "error", "allowed", "error_over_allowed"}.
    """
    outputs = Path(arguments["outputs"])
    results: list[list[dict[str, Any]]] = []
    expected: dict[int, Any] = {}
    known: dict[tuple[int, str, bytes], list[dict[str, Any]]] = {}
    for run in arguments["runs"]:
        seed: int = run["seed"]
        trees = arguments["seeds"][str(seed)]
        if seed not in expected:
            expected[seed] = tensor_files.read(trees["expected"], folder / f"expected-{seed}.bin")
        try:
            data = tensor_files.read_bytes(outputs / _plain_name(run["file"]))
            got = tensor_files.decode(run["outputs"], data)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            fault = f"what it left as its outputs cannot be read: {error}"
            results.append([{"output": None, "fault": fault}])
            continue
        # Configurations of one kernel mostly leave the same bits.
        same = (seed, json.dumps(run["outputs"]), hashlib.sha256(data).digest())
        if same not in known:
            known[same] = compare_outputs(got, expected[seed], trees, arguments)
        results.append(known[same])
    return results


def _plain_name(name: str) -> str:
    """The candidate's process wrote this: it must lead nowhere but to its own folder."""
    if name != Path(name).name:
        raise ValueError(f"'{name}' is no name of a file")
    return name


def compare_outputs(
    got: Any, expected: Any, trees: dict[str, Any], arguments: dict[str, Any]
) -> list[dict[str, Any]]:
    """One record per output of one run, as `compare` gives them; on the tensors' own device."""
    got_tensors = list(tensor_files.tensors(got))
    want_tensors = list(tensor_files.tensors(expected))
    if len(got_tensors) != len(want_tensors):
        fault = f"{len(want_tensors)} output tensors expected, {len(got_tensors)} returned"
        return [{"output": None, "fault": fault}]
    records: list[dict[str, Any]] = []
    for index, (have, want) in enumerate(zip(got_tensors, want_tensors, strict=True)):
        native = trees["native"][index] if trees["native"] else None
        native_error = trees["native_errors"][index] if trees["native_errors"] else None
        records.append(
            {"output": index} | _compare_tensor(have, want, native, native_error, trees, arguments)
        )
    return records


def _compare_tensor(
    got: torch.Tensor,
    want: torch.Tensor,
    native: dict[str, Any] | None,
    native_error: float | None,
    trees: dict[str, Any],
    arguments: dict[str, Any],
) -> dict[str, Any]:
    if got.shape != want.shape:
        return {"fault": f"shape {list(want.shape)} expected, {list(got.shape)} returned"}
    got_type = str(got.dtype).removeprefix("torch.")
    want_type = native["dtype"] if native else _likely_type(want, trees)
    if got_type != want_type and trees["natively"]:  # else it has been asked in other cases
        return {"fault": f"dtype {want_type} expected, {got_type} returned"}
    if got.numel() == 0:
        return {"fault": None, "wrong": 0, "elements": 0, "error_over_allowed": 0.0}
    if not got.is_floating_point():
        return _compare_exact(got, want.to(got.dtype))
    exact: bool = arguments["expected_exact"] and want.dtype == torch.float64
    rtol, atol = _tolerance(got_type, want, native_error, exact, trees, arguments)
    return _compare_floats(got, want, rtol, atol)


def _compare_exact(got: torch.Tensor, want: torch.Tensor) -> dict[str, Any]:
    wrong = got != want
    count = int(wrong.count_nonzero())
    record: dict[str, Any] = {"fault": None, "wrong": count, "elements": got.numel()}
    record["error_over_allowed"] = 0.0 if count == 0 else math.inf
    if count:
        index: list[int] = cast(Any, wrong.nonzero()[0]).tolist()
        record |= {
            "worst_index": index,
            "expected": want[tuple(index)].item(),
            "got": got[tuple(index)].item(),
            "allowed": 0.0,
        }
        record["fault"] = _sentence(record)
    return record


def _compare_floats(
    got: torch.Tensor, want: torch.Tensor, rtol: float, atol: float
) -> dict[str, Any]:
    wrong = torch.zeros((), dtype=torch.int64, device=got.device)
    unwritten = torch.zeros((), dtype=torch.int64, device=got.device)
    worst, worst_place = -math.inf, 0
    # A CPU compares some five times as fast what its caches hold; a device gets all at once.
    at_once = _AT_ONCE if got.device.type == "cpu" else got.numel()
    flat_got, flat_want = got.reshape(-1), want.reshape(-1)
    for start in range(0, got.numel(), at_once):
        have, exact = flat_got[start : start + at_once], flat_want[start : start + at_once]
        ratio = _ratios(have, exact, rtol, atol)
        wrong += (ratio > 1).count_nonzero()
        place = int(ratio.argmax())
        if (highest := ratio[place].item()) > worst:
            worst, worst_place = highest, start + place
        poison = have.contiguous().view(torch.uint8).view(-1, got.element_size())
        unwritten += (poison == POISON).all(-1).count_nonzero()
    have, exact = flat_got[worst_place].double(), flat_want[worst_place].double()
    record: dict[str, Any] = {
        "fault": None,
        "wrong": int(wrong),
        "elements": got.numel(),
        "unwritten": int(unwritten),
        "worst_index": list(_unravel(worst_place, got.shape)),
        "expected": exact.item(),
        "got": have.item(),
        "error": (have - exact).abs().item(),
        "allowed": (atol + rtol * exact.abs()).item(),
        "error_over_allowed": worst,
        "rtol": rtol,
        "atol": atol,
    }
    if record["wrong"]:
        record["fault"] = _sentence(record)
    return record


def _ratios(got: torch.Tensor, want: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    """Error over allowed error, element by element."""
    have, exact = got.double(), want.double()
    rounded = exact.to(got.dtype).double()  # to what the output's type can say: infinities
    error = (have - exact).abs()
    allowed = atol + rtol * exact.abs()
    same = (have == rounded) | (have.isnan() & exact.isnan())
    ratio = torch.where(same, torch.zeros(()).double(), error / allowed)
    # A NaN or an infinity on one side only is wrong by any tolerance.
    return torch.where(ratio.isnan(), math.inf, ratio)


def _sentence(record: dict[str, Any]) -> str:
    text = (
        f"{record['wrong']} of {record['elements']} elements are wrong; the worst, at "
        f"{record['worst_index']}, is {record['got']:.6g} where {record['expected']:.6g} is "
        f"expected (error allowed: {record['allowed']:.3g})"
    )
    if record.get("unwritten"):
        text += f"; {record['unwritten']} elements were never written"
    return text


def _tolerance(
    got_type: str,
    want: torch.Tensor,
    native_error: float | None,
    exact: bool,
    trees: dict[str, Any],
    arguments: dict[str, Any],
) -> tuple[float, float]:
    """(rtol, atol) by the formula above."""
    types = {got_type, *trees["float_types"]}
    finite = want if want.isfinite().all() else want[want.isfinite()]
    rms = float(finite.double().square().mean().sqrt()) if finite.numel() else 0.0
    length = arguments["reduction_length"] or max(
        trees["largest_dimension"], trees["largest_input"] // want.numel()
    )
    sums = _UNIT_ROUNDOFF["float64" if types == {"float64"} else "float32"]
    rtol = 8 * _UNIT_ROUNDOFF[got_type]
    coarsest = max(_UNIT_ROUNDOFF[t] for t in types)
    atol = rms * (8 * coarsest + 4 * math.sqrt(length) * sums)
    atol = max(atol, 2 * (native_error or 0.0))
    if not exact:
        rtol, atol = 2 * rtol, 2 * atol
    given_rtol, given_atol = arguments["rtol"], arguments["atol"]
    return (
        rtol if given_rtol is None else given_rtol,
        atol if given_atol is None else given_atol,
    )


def _likely_type(want: torch.Tensor, trees: dict[str, Any]) -> str:
    """The output's type where the reference cannot run in its own types on the CPU."""
    name = str(want.dtype).removeprefix("torch.")
    if not want.is_floating_point() or not trees["float_types"]:
        return name
    # PyTorch promotes to the finest of the inputs' types.
    return min(trees["float_types"], key=lambda t: _UNIT_ROUNDOFF[t])


def _unravel(flat: int, shape: torch.Size) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        index.append(place)
    return tuple(reversed(index))
