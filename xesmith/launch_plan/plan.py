"""The noun LaunchPlan: what is launched instead, and when. Data, never code.

A plan rebinds names of a kernel file. A rebound kernel (`kind: kernel`) is launched as before by
the wrapper, and the first alternative whose guard holds launches something else with the same
arguments; a rebound function (`kind: function`) is called as before, and an alternative launches
kernels of its own and returns buffers. Where no guard holds, or one cannot be evaluated, the
original is called with what the caller passed. The original is the last alternative of every
rebinding, and is never written down.

Values that are text are expressions (see `xesmith.launch_plan.expression`).
"""

from __future__ import annotations

import json
import keyword
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from xesmith.errors import nearest
from xesmith.launch_plan.expression import PlanError

GrfMode = Literal["128", "256", "512", "auto", "default"]


def _name(value: str) -> str:
    if not value.isascii() or not value.isidentifier() or keyword.iskeyword(value):
        raise ValueError(f"'{value}' is no name")
    if value.startswith(("__", "_xs")):
        raise ValueError(f"the name '{value}' is reserved")
    return value


def _dotted(value: str) -> str:
    parts = value.split(".")
    if len(parts) > 2:
        raise ValueError(f"'{value}' is neither a function nor Class.method")
    return ".".join(_name(part) for part in parts)


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError(f"{value} is not a power of two")
    return value


Name = Annotated[str, AfterValidator(_name)]
Value = bool | int | float | str | None


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PointerChoice(_Model):
    """The same kernel written twice: the block takes the form that the Triton at hand has."""

    block_pointer: Name | None = None
    descriptor: Name | None = None


class Options(_Model):
    """Compiler options of a launch. `grf_mode` in the spelling of new compilers, always."""

    num_warps: Annotated[int, Field(ge=1, le=64), AfterValidator(_power_of_two)] | None = None
    num_stages: Annotated[int, Field(ge=0, le=16)] | None = None
    grf_mode: GrfMode | None = None


class PlannedLaunch(_Model):
    """One launch of an alternative.

    Every parameter of the launched kernel gets, in this order: its value in `args` or `metas`;
    nothing where autotune or heuristics supply it; the buffer, else the caller's argument, of the
    same name; its default. `grid` has 1 to 3 expressions over the caller's parameters, buffers
    and the launched kernel's meta-parameters. Options that the caller passed hold where
    `inherit_options` is set and neither `options` nor a tuning decorator states them.
    """

    kernel: Name | PointerChoice
    grid: Annotated[list[int | str], Field(min_length=1, max_length=3)]
    args: dict[Name, Value] = {}
    metas: dict[Name, Value] = {}
    options: Options = Options()
    inherit_options: bool = True


class Buffer(_Model):
    """Memory that an alternative allocates, on the device of the tensor `like`.

    `dtype` is torch's name ("float32") or "NAME.dtype"; `like` defaults to that NAME.
    """

    name: Name
    shape: Annotated[list[int | str], Field(min_length=1, max_length=8)]
    dtype: str
    zeroed: bool = False
    like: str | None = None


class Alternative(_Model):
    """What is launched where `guard` holds.

    `guard` states all that the launches assume of their input. `dropped` names the caller's
    arguments that no launch uses, so that a forgotten one is an error. `returns`, of a rebound
    function: names of buffers or parameters; None returns nothing. `backend` names the one that
    the alternative was judged for: tiles that suit one GPU may not even compile for another.
    """

    guard: str = "True"
    backend: Literal["xpu", "cuda"] | None = None
    reason: str = ""
    launches: Annotated[list[PlannedLaunch], Field(min_length=1, max_length=16)]
    buffers: Annotated[list[Buffer], Field(max_length=16)] = []
    dropped: list[Name] = []
    returns: list[Name] | None = None


class Rebinding(_Model):
    """A kernel, function or method ("Model.forward") whose name the block binds anew.

    `original_grid`, of a kernel: the grid that the wrapper is understood to pass, with the
    caller's own meta-parameters (under autotune: with those of every configuration). Another
    grid takes the original path.
    """

    kind: Literal["kernel", "function"] = "kernel"
    name: Annotated[str, AfterValidator(_dotted)]
    original_grid: Annotated[list[int | str], Field(min_length=1, max_length=3)] | None = None
    alternatives: Annotated[list[Alternative], Field(min_length=1, max_length=32)]


class LaunchPlan(_Model):
    """All rebindings of one file. An empty plan changes nothing."""

    rebindings: list[Rebinding] = []

    @classmethod
    def from_json(cls, text: str, where: str = "launch plan") -> LaunchPlan:
        """The plan in `text`.

        Raises:
            PlanError: not JSON, an unknown field (with the nearest), or a value out of range.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise _first_error(error, where) from error

    @classmethod
    def from_data(cls, data: object, where: str = "launch plan") -> LaunchPlan:
        """The plan in `data` (mappings and lists). Raises PlanError as `from_json` does."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _first_error(error, where) from error

    def to_json(self) -> str:
        """Compact JSON, ASCII, without fields that have their default."""
        return json.dumps(self.model_dump(exclude_defaults=True), separators=(",", ":"))

    def rebinding(self, name: str) -> Rebinding | None:
        """The rebinding of `name`; None where the plan leaves it alone."""
        return next((item for item in self.rebindings if item.name == name), None)

    def with_rebinding(self, new: Rebinding) -> LaunchPlan:
        """The plan with `new` in the place of the rebinding of that name, or at its end."""
        others = [item for item in self.rebindings if item.name != new.name]
        return LaunchPlan(rebindings=[*others, new])


_FIELDS = {
    name
    for model in (LaunchPlan, Rebinding, Alternative, Buffer, PlannedLaunch, Options, PointerChoice)
    for name in model.model_fields
}


def _first_error(error: ValidationError, where: str) -> PlanError:
    # A field that is unknown is often the one that is missed.
    errors = error.errors(include_url=False)
    first = min(errors, key=lambda item: item["type"] != "extra_forbidden")
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]]
    place = "".join(steps).lstrip(".")
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        return PlanError(
            f"unknown field '{place}'", where=where, remedy=nearest(name, _FIELDS - {name})
        )
    message = first["msg"].removeprefix("Value error, ")
    return PlanError(
        message[:1].lower() + message[1:], where=f"{where}: {place}" if place else where
    )
