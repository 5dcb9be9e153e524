"""The noun Launch: one `kernel[grid](...)` as the driver would have received it.

Standard library only: worker processes in foreign environments import it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, cast

#: stands where the grid of a launch is not known: what is proven for it holds for every grid
ANY_GRID = (2**31 - 1, 2**31 - 1, 2**31 - 1)


@dataclass(frozen=True)
class TensorArg:
    """A tensor argument as it was at the launch. Strides are in elements."""

    dtype: str  # torch's name without the module: "float16"
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer_alignment_bytes: int  # largest power of two (at most 4096) dividing data_ptr
    storage_bytes: int
    device: str = "xpu"  # what the program believes it to be on


@dataclass(frozen=True)
class Launch:
    """One captured launch, before it is compiled.

    `signature` maps each parameter to Triton's type ("*fp16", "i32", "constexpr");
    `values` maps each parameter to its value: a number, bool, string, None or TensorArg.
    `divisible_by_16` names the runtime parameters that Triton specialised on.
    `grid` is ANY_GRID where only a compile was seen.
    `config_index` counts the configurations of `@triton.autotune`, from 0; None without it.
    """

    index: int
    kernel: str
    file: str
    line: int
    grid: tuple[int, int, int]
    signature: dict[str, str]
    values: dict[str, Any]
    constexprs: dict[str, Any]
    divisible_by_16: tuple[str, ...]
    options: dict[str, Any]  # num_warps, num_stages, grf_mode, ... normalised
    config_index: int | None = None
    config: dict[str, Any] | None = None
    repeats: int = 1  # how often the program made this same launch

    def to_json(self) -> dict[str, Any]:
        """With null for a grid that is not known."""
        return {**asdict(self), "grid": None if self.grid == ANY_GRID else self.grid}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Launch:
        fields: dict[str, Any] = {
            **data,
            "values": {k: _value(v) for k, v in data["values"].items()},
            "grid": ANY_GRID if data["grid"] is None else tuple(data["grid"]),
            "divisible_by_16": tuple(data["divisible_by_16"]),
        }
        return cls(**fields)


def _value(v: Any) -> Any:
    if isinstance(v, list):  # a tuple of arguments
        return [_value(item) for item in cast("list[Any]", v)]
    if not isinstance(v, dict) or "pointer_alignment_bytes" not in v:
        return cast("Any", v)
    fields = cast("dict[str, Any]", v)
    tuples: dict[str, Any] = {name: tuple(fields[name]) for name in ("shape", "strides")}
    return TensorArg(**{**fields, **tuples})


@dataclass(frozen=True)
class TensorSpec:
    """An input to generate: dtype is torch's name; `value_range` bounds integers and floats.

    `transforms` are AI-bench's, applied in order: "scale", "softmax", "abs", "normalize",
    "symmetric", "triu", "tril", "transpose", "uniform", "rademacher". `memory_format` is
    torch's name ("channels_last").
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    value_range: tuple[float, float] | None = None
    transforms: tuple[str, ...] = ()
    memory_format: str | None = None

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TensorSpec:
        value_range = data.get("value_range")
        fields: dict[str, Any] = {
            **data,
            "shape": tuple(data["shape"]),
            "value_range": None if value_range is None else tuple(value_range),
            "transforms": tuple(data.get("transforms", ())),
        }
        return cls(**fields)


@dataclass(frozen=True)
class Program:
    """What a ghost device or interpreter is asked to run.

    entry "model": build `Model(*inits)` and call it on `inputs` (from `get_init_inputs` /
    `get_inputs` where the spec gives none); entry "script": run the file as `__main__`.
    """

    source: str  # Python text
    path: str  # where it came from: shown in diagnostics, its folder is importable
    entry: str = "model"
    inits: tuple[Any, ...] | None = None
    inputs: tuple[TensorSpec, ...] | None = None
    dtype: str | None = None  # the model's parameters are cast to it
    seed: int = 0
    argv: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Program:
        inputs, inits = data.get("inputs"), data.get("inits")
        fields: dict[str, Any] = {
            **data,
            "inits": None if inits is None else tuple(inits),
            "inputs": None if inputs is None else tuple(TensorSpec.from_json(i) for i in inputs),
            "argv": tuple(data.get("argv", ())),
        }
        return cls(**fields)
