"""The noun Spec: a problem's inputs, constructor arguments and shapes, in AI-bench's YAML.

The format is AI-bench's, unchanged (its docs/problem_spec.md), plus what its specs in the field
use: `default_variant`, `{param: ...}` inits, numbers and expressions as shape entries, and one
dtype per input in a variant. Where a variant names a floating dtype and an input another, the
variant's counts, unless some input of the spec says `inherit`: then the input's own counts, as
in newer AI-bench. Integer and boolean dtypes of inputs always count.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import simpleeval  # pyright: ignore[reportMissingTypeStubs]
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from xesmith.errors import UsageError, nearest
from xesmith.ghost.launch import Program, TensorSpec

DimValue = int | float | bool | str | tuple[int | float, ...]
Dims = dict[str, DimValue]

FLOAT_DTYPES = frozenset(
    {
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
    }
)
DTYPES = FLOAT_DTYPES | frozenset(
    {
        "int64",
        "int32",
        "int16",
        "int8",
        "uint64",
        "uint32",
        "uint16",
        "uint8",
        "bool",
        "complex64",
        "complex128",
    }
)
INHERIT = "inherit"
TRANSFORMS = frozenset(
    {
        "scale",
        "softmax",
        "abs",
        "normalize",
        "symmetric",
        "triu",
        "tril",
        "transpose",
        "uniform",
        "rademacher",
    }
)
_MATRIX_TRANSFORMS = frozenset({"symmetric", "triu", "tril", "transpose"})
MEMORY_FORMATS = frozenset(
    ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int) else value


class _Model(BaseModel):
    """What all models of the YAML share: unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SpecInput(_Model):
    """One entry of `inputs`. `range` bounds values: [low, high], numbers or dim names."""

    shape: Annotated[tuple[int | str, ...], BeforeValidator(_as_list)]
    dtype: str = INHERIT
    range: tuple[float | str, float | str] | None = None
    inits: tuple[str, ...] = ()


class SpecInit(_Model):
    """One constructor argument: the value of a dim, or a literal (`param`)."""

    dim: str | None = None
    param: Any = None


class SpecVariant(_Model):
    """One entry of a variant's list."""

    params: tuple[str, ...]
    dims: dict[str, Any] | list[dict[str, Any]]
    dtype: str | list[str] | dict[str, str] | None = None
    flop: int | float | str | None = None
    mem_bytes: int | float | str | None = None
    rtol: float | None = Field(default=None, ge=0)
    atol: float | None = Field(default=None, ge=0)
    memory_format: str | None = None


_M = TypeVar("_M", bound=_Model)


@dataclass(frozen=True)
class Budget:
    """How much the interpreter is asked for in one run."""

    elements: int = 2**22  # of all inputs together
    flop: float = 3e8
    #: of all grids together: each costs the interpreter some 5 ms, however little it computes
    programs: int = 64


#: tells of each shape how many programs its grids have; None where it takes another path
CountPrograms = Callable[[Sequence["Shape"]], Sequence[int | None]]


@dataclass(frozen=True)
class Shape:
    """One concrete problem: sizes, inputs and constructor arguments.

    `rtol` and `atol` are None where the spec states none. `kept` names, for each dim that was
    scaled down, the power of two up to which its divisibility was kept.
    """

    variant: str
    index: int
    kind: Literal["spec", "scaled", "odd"]
    dims: Dims
    inputs: tuple[TensorSpec, ...]
    inits: tuple[Any, ...]
    dtype: str | None  # the model's parameters are cast to it
    flop: float | None
    mem_bytes: float | None
    rtol: float | None
    atol: float | None
    kept: dict[str, int] = field(default_factory=dict[str, int])
    within_budget: bool = True

    @property
    def label(self) -> str:
        """One line for tables: "bench-gpu[0] M=4096 N=4096 K=4096"."""
        sizes = " ".join(f"{name}={_text(value)}" for name, value in self.dims.items())
        kind = "" if self.kind == "spec" else f" ({self.kind})"
        return f"{self.variant}[{self.index}]{kind} {sizes}"

    @property
    def input_elements(self) -> int:
        return sum(math.prod(item.shape) for item in self.inputs)

    def program(self, source: str, path: str | Path, *, seed: int = 0) -> Program:
        """The program that builds `Model(*inits)` from `source` and calls it on the inputs."""
        return Program(
            source=source,
            path=str(path),
            entry="model",
            inits=self.inits,
            inputs=self.inputs,
            dtype=self.dtype,
            seed=seed,
        )


@dataclass(frozen=True)
class Spec:
    """A problem's spec. `variants` maps each name to its entries, dims lists expanded."""

    path: str
    inputs: Mapping[str, SpecInput]
    inits: tuple[SpecInit, ...]
    variants: Mapping[str, tuple[SpecVariant, ...]]
    default_variant: str
    name: str | None = None
    description: str | None = None

    def shapes(self, variant: str | None = None) -> tuple[Shape, ...]:
        """Every shape of `variant` (the default one when None), in the file's order.

        Raises:
            UsageError: no such variant; a dim, flop or mem_bytes that cannot be evaluated.
        """
        name = self.default_variant if variant is None else variant
        if name not in self.variants:
            raise UsageError(
                f"no variant '{name}'", where=self.path, remedy=nearest(name, self.variants)
            )
        return tuple(self._shape(name, i) for i in range(len(self.variants[name])))

    def program(
        self, variant: str | None, index: int, source: str, path: str | Path, *, seed: int = 0
    ) -> Program:
        """The program of shape `index` of `variant`. Raises UsageError as `shapes` does."""
        shapes = self.shapes(variant)
        if not 0 <= index < len(shapes):
            raise UsageError(
                f"variant '{variant or self.default_variant}' has no shape {index}",
                where=self.path,
                remedy=f"give 0 to {len(shapes) - 1}",
            )
        return shapes[index].program(source, path, seed=seed)

    def scale(
        self,
        shape: Shape,
        tiles: Mapping[str, int] | None = None,
        budget: Budget | None = None,
        fixed: Collection[str] = (),
        programs: CountPrograms | None = None,
    ) -> Shape:
        """A small shape that takes the same paths through a kernel as `shape`.

        The rule. Whole-number dims are scaled, the tensors follow from them, so relations that
        the spec expresses through dims hold. Dims of equal value stay equal. With L the larger
        of 256 and the largest tile (rounded up to a power of two), a dim of size v becomes

            v' = (v mod L) + k * L,  the least k for which v' is at least two of its tiles,

        or stays v where that is less. So v' has v's remainder by every power of two up to L: a
        multiple of 256 stays one, an odd size stays odd, and a size that leaves a tail after
        its last tile leaves the same tail. A dim without an entry in `tiles` counts as tiled
        by L.

        Where this is over the budget, outer dims go down first, to 2 at least: those without a
        tile that lead every input, before its last two dims, and are no constructor argument
        (batches, heads). Then L is halved for the largest dim, again and again until it fits:
        first for dims without a tile (8 at least), then for those with one (the tile at
        least). `kept` tells the L that was left for each dim that changed; `within_budget` is
        False where nothing more could be taken away. Sizes up to 16 that are no outer dim stay.
        Lists (`NORMALIZED_SHAPE: [64, 64]`) scale element by element. Dims in `fixed`, floats,
        text and booleans stay.

        A kernel of one row per program still has hundreds of programs at such a shape. So where
        `programs` counts more than the budget, L goes down further for whichever dim brings the
        count down (its tile at least, or 16, the divisibility that Triton specialises on), as
        long as `programs` knows the shape for one of the same path.

        Args:
            tiles: block size along a dim, by dim name (elements).
            budget: elements, FLOP and programs allowed; `Budget()` when None.
            fixed: names of dims to leave alone (a product of others, say).
            programs: counts a shape's programs; None leaves them out of the budget.

        Raises:
            UsageError: a name in `tiles` or `fixed` that is no dim.
        """
        tiles = tiles or {}
        budget = budget or Budget()
        self._check_names(shape, (*tiles, *fixed))
        unit = max([256, *(_power_of_two_at_least(tile) for tile in tiles.values())])
        outer = self._outer_dims(shape, {*tiles, *fixed})
        outer_sizes = {name: value for name in outer if isinstance(value := shape.dims[name], int)}
        still = {*fixed, *outer}
        tile_of = _tiles_by_size(shape.dims, tiles, still)
        moduli = dict.fromkeys(tile_of, unit)

        def build(moduli: Mapping[int, int]) -> Shape:
            sizes = {v: _scaled(v, moduli[v], tile_of[v]) for v in tile_of}
            dims = {**_with_sizes(shape.dims, sizes, still), **outer_sizes}
            return replace(
                self._shape(shape.variant, shape.index, dims),
                kind="scaled",
                kept=_kept(shape.dims, dims, moduli),
            )

        while not _fits(build(moduli), budget):
            if outer_sizes and max(outer_sizes.values()) > 2:
                widest = max(outer_sizes, key=lambda name: outer_sizes[name])
                outer_sizes[widest] = (outer_sizes[widest] + 1) // 2
                continue
            reducible = [v for v in tile_of if moduli[v] // 2 >= (tile_of[v] or 8) and v > 16]
            if not reducible:
                return replace(build(moduli), within_budget=False)
            sizes = {v: _scaled(v, moduli[v], tile_of[v]) for v in reducible}
            largest = max(reducible, key=lambda v: (tile_of[v] is None, sizes[v], v))
            moduli[largest] //= 2
        if programs is not None:
            moduli = _with_fewer_programs(moduli, tile_of, build, budget.programs, programs)
        return build(moduli)

    def odd_shapes(
        self,
        shape: Shape,
        tiles: Mapping[str, int] | None = None,
        budget: Budget | None = None,
        fixed: Collection[str] = (),
        programs: CountPrograms | None = None,
    ) -> tuple[Shape, ...]:
        """Shapes whose sizes no tile divides, the most general first.

        Starting from `scale(shape)`, each size above 16 becomes a prime: the next one above it,
        another for each different size of `shape`, so that a swapped stride shows. Outer dims
        (see `scale`) and sizes up to 16 stay. A baseline often needs some sizes as they are
        (a head dimension that is a power of two); so the first shape has all sizes odd, and
        each further one leaves one more size as scaled, the smallest first. The caller takes
        the first that the baseline passes.
        """
        small = self.scale(shape, tiles, budget, fixed, programs)
        still = {*fixed, *self._outer_dims(shape, {*(tiles or {}), *fixed})}
        sizes = sorted(_sizes(shape.dims, still))
        scaled = {v: _size_after(shape.dims, small.dims, v, still) for v in sizes}
        outer = {name: small.dims[name] for name in still}
        primes: dict[int, int] = {}
        for v in sizes:
            if scaled[v] > 16:
                primes[v] = _next_prime(scaled[v], primes.values())
        shapes: list[Shape] = []
        odd = list(primes)
        for skipped in range(len(odd)):
            chosen = {v: primes[v] for v in odd[skipped:]}
            dims = {**_with_sizes(shape.dims, {**scaled, **chosen}, still), **outer}
            made = replace(self._shape(shape.variant, shape.index, dims), kind="odd")
            shapes.append(replace(made, within_budget=small.within_budget))
        return tuple(shapes)

    def odd_shape(
        self,
        shape: Shape,
        tiles: Mapping[str, int] | None = None,
        budget: Budget | None = None,
        fixed: Collection[str] = (),
    ) -> Shape | None:
        """The first of `odd_shapes`; None where no dim is above 16."""
        shapes = self.odd_shapes(shape, tiles, budget, fixed)
        return shapes[0] if shapes else None

    def resized(self, shape: Shape, changes: Mapping[str, int]) -> Shape:
        """`shape` with other sizes for some dims; everything that follows from dims follows.

        Raises:
            UsageError: a name that is no dim of the shape.
        """
        self._check_names(shape, tuple(changes))
        dims = {**shape.dims, **changes}
        return replace(self._shape(shape.variant, shape.index, dims), kind="scaled")

    def _outer_dims(self, shape: Shape, excluded: Collection[str]) -> tuple[str, ...]:
        """Dims that lead every input alike, before its last two, and are nothing else."""
        shapes = [self.inputs[item.name].shape for item in shape.inputs]
        if not shapes:
            return ()
        arguments = {init.dim for init in self.inits} | {init.param for init in self.inits}
        names: list[str] = []
        for column in zip(*(parts[: max(0, len(parts) - 2)] for parts in shapes), strict=False):
            name = column[0]
            if any(other != name for other in column) or not isinstance(name, str):
                break
            uses = sum(parts.count(name) for parts in shapes)
            value = shape.dims.get(name)
            if isinstance(value, int) and name not in arguments and uses == len(shapes):
                names.append(name)
        return tuple(name for name in names if name not in excluded)

    # -- from entries to shapes ---------------------------------------------------------------

    def _check_names(self, shape: Shape, names: Collection[str]) -> None:
        for name in names:
            if name not in shape.dims:
                raise UsageError(
                    f"no dim '{name}'", where=self.path, remedy=nearest(name, shape.dims)
                )

    def _shape(self, variant: str, index: int, dims: Dims | None = None) -> Shape:
        entry = self.variants[variant][index]
        place = f"{self.path}: {variant}[{index}]"
        values = _dims(entry, place) if dims is None else dims
        dtypes = self._dtypes(entry, place)
        return Shape(
            variant=variant,
            index=index,
            kind="spec",
            dims=values,
            inputs=tuple(
                self._tensor(param, dtype, values, entry, place)
                for param, dtype in zip(entry.params, dtypes, strict=True)
            ),
            inits=tuple(
                _init(item, values, f"{self.path}: inits[{i}]") for i, item in enumerate(self.inits)
            ),
            dtype=entry.dtype if isinstance(entry.dtype, str) else None,
            flop=_number(entry.flop, values, f"{place}.flop"),
            mem_bytes=_number(entry.mem_bytes, values, f"{place}.mem_bytes"),
            rtol=entry.rtol,
            atol=entry.atol,
        )

    def _dtypes(self, entry: SpecVariant, place: str) -> list[str]:
        """The dtype of each of the entry's params."""
        stated = entry.dtype
        if isinstance(stated, list) and len(stated) != len(entry.params):
            raise UsageError(
                f"{len(stated)} dtypes for {len(entry.params)} params", where=f"{place}.dtype"
            )
        explicit_counts = any(item.dtype == INHERIT for item in self.inputs.values())
        result: list[str] = []
        for i, param in enumerate(entry.params):
            own = self.inputs[param].dtype
            if isinstance(stated, list):
                dtype = stated[i]
            elif isinstance(stated, dict):
                dtype = stated.get(param, own)
            elif own == INHERIT:
                dtype = stated or INHERIT
            elif stated in FLOAT_DTYPES and own in FLOAT_DTYPES and not explicit_counts:
                dtype = stated
            else:
                dtype = own
            if dtype == INHERIT:
                raise UsageError(
                    f"input '{param}' inherits its dtype, but the variant states none",
                    where=f"{place}.dtype",
                    remedy="add `dtype:` to the variant or to the input",
                )
            result.append(dtype)
        return result

    def _tensor(
        self, param: str, dtype: str, dims: Dims, entry: SpecVariant, place: str
    ) -> TensorSpec:
        item = self.inputs[param]
        at = f"{self.path}: inputs.{param}"
        shape: list[int] = []
        for i, part in enumerate(item.shape):
            value = _resolve(part, dims, f"{at}.shape[{i}]", place)
            parts = value if isinstance(value, tuple) else (value,)
            for size in parts:
                whole = size if isinstance(size, int) and not isinstance(size, bool) else -1
                if not 0 <= whole < 2**63:
                    raise UsageError(
                        f"'{part}' is {size!r} in {place}: not a size", where=f"{at}.shape[{i}]"
                    )
                shape.append(whole)
        bounds = item.range and tuple(
            _bound(bound, dims, f"{at}.range[{i}]", place) for i, bound in enumerate(item.range)
        )
        return TensorSpec(
            name=param,
            shape=tuple(shape),
            dtype=dtype,
            value_range=cast("tuple[float, float] | None", bounds),
            transforms=item.inits,
            memory_format=entry.memory_format,
        )


def load_spec(path: str | Path) -> Spec:
    """Read the spec at `path`.

    Raises:
        UsageError: missing or invalid YAML; an unknown field, input, dim, dtype or variant; a
            flop or mem_bytes that cannot be evaluated. It names the field and its place.
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError("no such spec file", where=str(path), remedy="give a YAML file")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the spec cannot be read: {error}", where=str(path)) from error
    return parse_spec(text, path)


def parse_spec(text: str, path: str | Path = "<spec>") -> Spec:
    """The spec in `text`, which came from `path`. Raises as `load_spec` does."""
    where = str(path)
    try:
        data: Any = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{where}:{mark.line + 1}" if mark is not None else where
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise UsageError(f"invalid YAML: {problem}", where=line) from error
    if not isinstance(data, dict):
        raise UsageError("a spec is a mapping with `inputs` and variants", where=where)
    top = cast("dict[Any, Any]", data)
    known = {"inputs", "inits", "default_variant", "name", "description"}
    for key, value in top.items():
        if not isinstance(key, str) or (key not in known and not isinstance(value, list)):
            raise UsageError(
                f"unknown field '{key}'",
                where=where,
                remedy=f"{nearest(str(key), known)}; a variant is a list of entries",
            )
    if "inputs" not in top:
        raise UsageError("no field 'inputs'", where=where, remedy=nearest("inputs", map(str, top)))
    inputs = {
        str(name): _validated(SpecInput, item, f"{where}: inputs.{name}")
        for name, item in _mapping(top["inputs"], f"{where}: inputs").items()
    }
    inits = tuple(
        _validated(SpecInit, item, f"{where}: inits[{i}]")
        for i, item in enumerate(_list(top.get("inits") or [], f"{where}: inits"))
    )
    variants = {
        name: _entries(items, f"{where}: {name}")
        for name, items in top.items()
        if name not in known
    }
    if not variants:
        raise UsageError(
            "no variant", where=where, remedy="add a list such as `ci:` with params and dims"
        )
    default = top.get("default_variant") or ("ci" if "ci" in variants else next(iter(variants)))
    if default not in variants:
        raise UsageError(
            f"no variant '{default}'",
            where=f"{where}: default_variant",
            remedy=nearest(str(default), variants),
        )
    spec = Spec(
        path=where,
        inputs=inputs,
        inits=inits,
        variants=variants,
        default_variant=default,
        name=_optional_text(top.get("name")),
        description=_optional_text(top.get("description")),
    )
    _check(spec)
    return spec


def _check(spec: Spec) -> None:
    """Everything that can be wrong in a spec is found when it is read."""
    for name, item in spec.inputs.items():
        at = f"{spec.path}: inputs.{name}"
        _check_name(item.dtype, DTYPES | {INHERIT}, "dtype", f"{at}.dtype")
        for i, transform in enumerate(item.inits):
            _check_name(transform, TRANSFORMS, "transform", f"{at}.inits[{i}]")
    for i, init in enumerate(spec.inits):
        if len(init.model_fields_set) != 1:
            raise UsageError(
                "an init has one of `dim` and `param`", where=f"{spec.path}: inits[{i}]"
            )
    for variant, entries in spec.variants.items():
        for i, entry in enumerate(entries):
            at = f"{spec.path}: {variant}[{i}]"
            for param in entry.params:
                _check_name(param, spec.inputs, "input", f"{at}.params")
            _check_variant_dtypes(entry, at)
            if entry.memory_format is not None:
                _check_name(
                    entry.memory_format, MEMORY_FORMATS, "memory format", f"{at}.memory_format"
                )
        for shape in spec.shapes(variant):
            for item in shape.inputs:
                _check_transforms(item, f"{spec.path}: inputs.{item.name}.inits", shape)


def _check_transforms(item: TensorSpec, at: str, shape: Shape) -> None:
    """Some transforms are of matrices alone."""
    for name in item.transforms:
        if name in _MATRIX_TRANSFORMS and len(item.shape) != 2:
            raise UsageError(
                f"'{name}' needs two dimensions, and {shape.label} has {len(item.shape)}", where=at
            )
        if name == "symmetric" and len(set(item.shape)) != 1:
            raise UsageError(
                f"'symmetric' needs a square, and {shape.label} has {_text(item.shape)}", where=at
            )


def _check_variant_dtypes(entry: SpecVariant, at: str) -> None:
    stated = entry.dtype
    if isinstance(stated, dict):
        for param in stated:
            _check_name(param, entry.params, "param", f"{at}.dtype")
        names = list(stated.values())
    elif isinstance(stated, list):
        names = stated
    else:
        names = [] if stated is None else [stated]
    for name in names:
        _check_name(name, DTYPES, "dtype", f"{at}.dtype")


def _check_name(name: str, known: Collection[str], what: str, where: str) -> None:
    if name not in known:
        raise UsageError(f"unknown {what} '{name}'", where=where, remedy=nearest(name, known))


def _entries(items: Any, where: str) -> tuple[SpecVariant, ...]:
    """The variant's entries, those with a list of dims expanded."""
    result: list[SpecVariant] = []
    for i, item in enumerate(_list(items, where)):
        entry = _validated(SpecVariant, item, f"{where}[{i}]")
        options = entry.dims if isinstance(entry.dims, list) else [entry.dims]
        result += [entry.model_copy(update={"dims": dims}) for dims in options]
    if not result:
        raise UsageError("the variant has no entry", where=where)
    return tuple(result)


def _validated(model: type[_M], data: Any, where: str) -> _M:
    """`data` as `model`; the first thing that is wrong as one UsageError."""
    try:
        return model.model_validate(_mapping(data, where))
    except ValidationError as error:
        # A field that is unknown is often the one that is missed.
        first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UsageError(
                f"unknown field '{place}'", where=where, remedy=nearest(place, model.model_fields)
            ) from error
        message = first["msg"][:1].lower() + first["msg"][1:]
        raise UsageError(message, where=f"{where}.{place}") from error


def _mapping(data: Any, where: str) -> dict[Any, Any]:
    if not isinstance(data, dict):
        raise UsageError(f"a mapping is needed, not {type(data).__name__}", where=where)
    return cast("dict[Any, Any]", data)


def _list(data: Any, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise UsageError(f"a list is needed, not {type(data).__name__}", where=where)
    return cast("list[Any]", data)


def _optional_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _dims(entry: SpecVariant, place: str) -> Dims:
    assert isinstance(entry.dims, dict)
    return {name: _dim(value, f"{place}.dims.{name}") for name, value in entry.dims.items()}


def _dim(value: Any, where: str) -> DimValue:
    """A dim's value; YAML reads 1e-5 as text, so text that is a number becomes one."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _number_or_text(value)
    if isinstance(value, list):
        items = [_dim(item, where) for item in cast("list[Any]", value)]
        if all(isinstance(item, int | float) for item in items):
            return cast("tuple[int | float, ...]", tuple(items))
    raise UsageError(f"{value!r} is not a number, text or list of numbers", where=where)


def _number_or_text(text: str) -> int | float | str:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _init(item: SpecInit, dims: Dims, where: str) -> Any:
    if item.dim is not None:
        if item.dim not in dims:
            raise UsageError(
                f"unknown dim '{item.dim}'", where=where, remedy=nearest(item.dim, dims)
            )
        return dims[item.dim]
    param = cast("object", item.param)
    if isinstance(param, list):
        return tuple(cast("list[Any]", param))
    if not isinstance(param, str):
        return param
    if param in dims:
        return dims[param]
    if param.isidentifier() and param.isupper():  # dims are written so; a literal is not
        raise UsageError(f"unknown dim '{param}'", where=where, remedy=nearest(param, dims))
    return _number_or_text(param)


def _resolve(part: int | str, dims: Dims, where: str, place: str) -> DimValue:
    if isinstance(part, int):
        return part
    if part in dims:
        return dims[part]
    if part.isidentifier():
        raise UsageError(
            f"unknown dim '{part}' in {place}", where=where, remedy=nearest(part, dims)
        )
    return evaluate_formula(part, dims, where)


def _bound(bound: float | str, dims: Dims, where: str, place: str) -> float:
    value = _resolve(bound, dims, where, place) if isinstance(bound, str) else bound
    if isinstance(value, str | tuple):
        raise UsageError(f"{bound!r} is not a number", where=where)
    return float(value)


def _number(formula: int | float | str | None, dims: Dims, where: str) -> float | None:
    if formula is None or isinstance(formula, int | float):
        return formula
    return float(evaluate_formula(formula, dims, where))


# -- formulas ---------------------------------------------------------------------------------

_MAX_FORMULA_CHARACTERS = 1000
_MAX_VALUE = 1e30  # FLOP and bytes of any problem are far below; bounds the work of integers


def _bounded(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(left: Any, right: Any) -> Any:
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise simpleeval.InvalidExpression("operands must be numbers")
        result = function(left, right)
        if abs(result) > _MAX_VALUE:
            raise simpleeval.InvalidExpression("a value passes 1e30")
        return result

    return call


def _power(base: float, exponent: float) -> float:
    if abs(exponent) > 100 or abs(base) > _MAX_VALUE:
        raise simpleeval.InvalidExpression("a power is too large")
    result = base**exponent
    if isinstance(result, complex):
        raise simpleeval.InvalidExpression("a power is not real")
    return result


def _adjacent_prod_sum(*parts: Any) -> float:
    """AI-bench's helper: all arguments in one row, the sum of products of neighbours."""
    row: list[float] = []
    for part in parts:
        row += part if isinstance(part, tuple | list) else [part]
    return sum(a * b for a, b in pairwise(row))


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _bounded(lambda a, b: a + b),
    ast.Sub: _bounded(lambda a, b: a - b),
    ast.Mult: _bounded(lambda a, b: a * b),
    ast.Div: _bounded(lambda a, b: a / b),
    ast.FloorDiv: _bounded(lambda a, b: a // b),
    ast.Mod: _bounded(lambda a, b: a % b),
    ast.Pow: _bounded(_power),
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "adjacent_prod_sum": _adjacent_prod_sum,
    "min": min,
    "max": max,
}


def evaluate_formula(text: str, dims: Mapping[str, DimValue], where: str) -> int | float:
    """The number that `text` is with the values of `dims`; names are whole names.

    Operators + - * / // % **, indices of list dims, `min`, `max`, `adjacent_prod_sum`.

    Raises:
        UsageError: not a formula, an unknown dim, no finite number, or too much work.
    """
    if len(text) > _MAX_FORMULA_CHARACTERS:
        raise UsageError(f"a formula of {len(text)} characters is too long", where=where)
    evaluator: Any = simpleeval.SimpleEval(
        operators=_OPERATORS, functions=_FUNCTIONS, names=dict(dims)
    )
    del evaluator.nodes[ast.Attribute]  # dims have none
    try:
        value = evaluator.eval(text)
    except simpleeval.NameNotDefined as error:
        name = str(getattr(error, "name", ""))
        raise UsageError(
            f"unknown dim '{name}' in '{text}'", where=where, remedy=nearest(name, dims)
        ) from error
    except Exception as error:  # a formula may fail in any way that Python can
        raise UsageError(
            f"'{text}' cannot be evaluated: {error}",
            where=where,
            remedy="use + - * / // % **, names of dims, min, max and adjacent_prod_sum",
        ) from error
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"'{text}' is {value!r}: not a number", where=where)
    return value


# -- scaling ----------------------------------------------------------------------------------


def _is_size(value: DimValue) -> bool:
    if isinstance(value, tuple):
        return any(_is_size(item) for item in value)
    return isinstance(value, int) and not isinstance(value, bool)


def _sizes(dims: Dims, fixed: Collection[str]) -> set[int]:
    sizes: set[int] = set()
    for name, value in dims.items():
        if name not in fixed:
            items = value if isinstance(value, tuple) else (value,)
            sizes |= {item for item in items if isinstance(item, int) and _is_size(item)}
    return sizes


def _tiles_by_size(
    dims: Dims, tiles: Mapping[str, int], fixed: Collection[str]
) -> dict[int, int | None]:
    """For each size that may change, the largest tile of a dim that has it."""
    result: dict[int, int | None] = dict.fromkeys(sorted(_sizes(dims, fixed)))
    for name, tile in tiles.items():
        value = dims[name]
        if isinstance(value, int) and value in result:
            result[value] = max(tile, result[value] or 0)
    return result


def _scaled(size: int, modulus: int, tile: int | None) -> int:
    least = 2 * (tile or modulus)
    if size <= least:
        return size
    rest = size % modulus
    return min(size, rest + modulus * math.ceil((least - rest) / modulus))


def _kept(before: Dims, after: Dims, moduli: Mapping[int, int]) -> dict[str, int]:
    """For each dim that changed: the power of two up to which its remainders are the same."""
    kept: dict[str, int] = {}
    for name, value in before.items():
        if after[name] == value:
            continue
        items = value if isinstance(value, tuple) else (value,)
        known = [moduli[item] for item in items if isinstance(item, int) and item in moduli]
        kept[name] = min(known, default=1)
    return kept


def _with_sizes(dims: Dims, sizes: Mapping[int, int], fixed: Collection[str]) -> Dims:
    def changed(value: DimValue) -> DimValue:
        if isinstance(value, tuple):
            return tuple(cast("int | float", changed(item)) for item in value)
        return sizes.get(value, value) if isinstance(value, int) and _is_size(value) else value

    return {name: value if name in fixed else changed(value) for name, value in dims.items()}


def _size_after(before: Dims, after: Dims, size: int, still: Collection[str]) -> int:
    for name, value in before.items():
        if name in still:
            continue
        new = after[name]
        if isinstance(value, int) and isinstance(new, int) and value == size and _is_size(value):
            return new
        if isinstance(value, tuple) and size in value:
            return cast("tuple[int, ...]", new)[value.index(size)]
    return size


def _fits(shape: Shape, budget: Budget) -> bool:
    return shape.input_elements <= budget.elements and (shape.flop or 0) <= budget.flop


def _with_fewer_programs(
    moduli: dict[int, int],
    tile_of: Mapping[int, int | None],
    build: Callable[[Mapping[int, int]], Shape],
    budget: int,
    count: CountPrograms,
) -> dict[int, int]:
    """Moduli, smaller where that brings the programs down to `budget`, or nearest to it."""
    (now,) = count([build(moduli)])
    while now is not None and now > budget:
        steps = list(_smaller_moduli(moduli, tile_of))
        counts = count([build(step) for step in steps])
        fewer = [(n, step) for n, step in zip(counts, steps, strict=True) if n and n < now]
        if not fewer:
            break
        # The least change that is enough, else the one that does the most.
        within = [item for item in fewer if item[0] <= budget]
        choose = max if within else min
        now, moduli = choose(within or fewer, key=lambda item: item[0])
    return moduli


def _smaller_moduli(
    moduli: Mapping[int, int], tile_of: Mapping[int, int | None]
) -> Iterator[dict[int, int]]:
    for size, modulus in moduli.items():
        smaller = modulus // 2
        while size > 16 and smaller >= (tile_of[size] or 16):
            yield {**moduli, size: smaller}
            smaller //= 2


def _power_of_two_at_least(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()


def _next_prime(above: int, taken: Collection[int]) -> int:
    number = above + 1
    while number in taken or any(number % d == 0 for d in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def _text(value: DimValue) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
