"""Parser of the layout encodings that Triton attaches to tensors, and what they imply.

Both spellings of the Intel dialect (`#triton_intel_gpu.dpas`, `#ttig.dpas`) are one kind here:
"dpas". Aliases must have been expanded. Encodings nest: a slice or a dot operand has a parent.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from xesmith.evidence.unreadable import UnreadableLevelError

_TOKEN = re.compile(r"\s*(#[A-Za-z_][\w.]*|-?\d+|[A-Za-z_][\w.]*|\"[^\"]*\"|[<>{}\[\](),=:])")
_MAX_DEPTH = 32
_INTEL_DIALECTS = frozenset({"triton_intel_gpu", "ttig"})


@dataclass(frozen=True)
class Encoding:
    """`dialect` and `kind` of `#dialect.kind<{...}>`, its parameters, and its text."""

    dialect: str
    kind: str
    text: str
    parameters: dict[str, object] = field(default_factory=lambda: {}, hash=False)

    def integer(self, name: str, default: int = 0) -> int:
        value = self.parameters.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(_integers(self.parameters.get(name)))

    @property
    def parent(self) -> Encoding | None:
        value = self.parameters.get("parent")
        return value if isinstance(value, Encoding) else None

    @property
    def is_intel(self) -> bool:
        return self.dialect in _INTEL_DIALECTS

    @property
    def is_dpas(self) -> bool:
        return self.is_intel and self.kind == "dpas"

    @property
    def is_dpas_operand(self) -> bool:
        return self.kind == "dot_op" and self.parent is not None and self.parent.is_dpas

    @property
    def short(self) -> str:
        """For sentences: "blocked", "dot operand 0 of dpas", "slice of blocked"."""
        parent = self.parent
        if self.kind == "dot_op":
            return f"dot operand {self.integer('opIdx')} of {parent.short if parent else '?'}"
        if self.kind == "slice":
            return f"slice of {parent.short if parent else '?'}"
        return self.kind


@functools.lru_cache(maxsize=4096)
def parse_encoding(text: str) -> Encoding:
    """Parses one encoding; bodies of an unknown form are kept as text only.

    Raises:
        UnreadableLevelError: it does not begin as an encoding does.
    """
    tokens = _TOKEN.findall(text)
    if not tokens or not tokens[0].startswith("#"):
        raise UnreadableLevelError(f"not a layout encoding: {text[:80]}")
    parser = _Parser(tokens, text)
    try:
        encoding = parser.encoding(0)
        complete = parser.at_end
    except _UnknownFormError:
        complete, encoding = False, None
    if complete and encoding is not None:
        return Encoding(encoding.dialect, encoding.kind, text, encoding.parameters)
    dialect, _, kind = tokens[0][1:].partition(".")
    return Encoding(dialect, kind or dialect, text)


class _UnknownFormError(Exception):
    pass


class _Parser:
    def __init__(self, tokens: Sequence[str], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, expected: str | None = None) -> str:
        token = self._peek()
        if not token or (expected is not None and token != expected):
            raise _UnknownFormError
        self._at += 1
        return token

    def encoding(self, depth: int) -> Encoding:
        if depth > _MAX_DEPTH:
            raise _UnknownFormError
        first = self._at
        dialect, _, kind = self._take()[1:].partition(".")
        parameters: dict[str, object] = {}
        if self._peek() == "<":
            self._take("<")
            parameters = self._dictionary(depth + 1)
            self._take(">")
        text = " ".join(self._tokens[first : self._at])
        return Encoding(dialect, kind or dialect, text, parameters)

    def _dictionary(self, depth: int) -> dict[str, object]:
        self._take("{")
        result: dict[str, object] = {}
        while self._peek() != "}":
            key = self._take()
            self._take("=")
            result[key] = self._value(depth + 1)
            if self._peek() == ",":
                self._take(",")
        self._take("}")
        return result

    def _value(self, depth: int) -> object:
        if depth > _MAX_DEPTH:
            raise _UnknownFormError
        token = self._peek()
        if token.startswith("#"):
            return self.encoding(depth)
        if token == "{":
            return self._dictionary(depth)
        if token == "[":
            self._take("[")
            items: list[object] = []
            while self._peek() != "]":
                items.append(self._value(depth + 1))
                if self._peek() == ",":
                    self._take(",")
            self._take("]")
            return items
        self._take()
        if token.lstrip("-").isdigit():
            return int(token)
        if token in ("true", "false"):
            return token == "true"
        if token in "<>{}[](),=:":
            raise _UnknownFormError
        return token.strip('"')


#: per part the coordinates that each of its bits adds
Bases = tuple[tuple[tuple[int, ...], ...], ...]


# What layouts imply: the tile that one work-group covers at a time, and the order of dimensions.


def tile(encoding: Encoding, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Elements per dimension that all threads hold in one step; None for unknown kinds."""
    if encoding.kind == "blocked":
        parts = [encoding.integers(n) for n in ("sizePerThread", "threadsPerWarp", "warpsPerCTA")]
        if any(len(part) != len(shape) for part in parts):
            return None
        return tuple(math.prod(sizes) for sizes in zip(*parts, strict=True))
    if encoding.is_dpas:
        block, warps = encoding.integers("C"), encoding.integers("warpsPerCTA")
        if len(block) < 2 or len(warps) != len(shape):
            return None
        leading = (1,) * (len(shape) - 2)
        return tuple(b * w for b, w in zip((*leading, *block[-2:]), warps, strict=True))
    if encoding.kind == "linear":
        return tuple(shape)
    parent = encoding.parent
    if parent is None:
        return None
    if encoding.kind == "slice":
        dim = encoding.integer("dim")
        parent_tile = tile(parent, (*shape[:dim], 1, *shape[dim:]))
        return None if parent_tile is None else parent_tile[:dim] + parent_tile[dim + 1 :]
    if encoding.is_dpas_operand:
        index = encoding.integer("opIdx")
        block = parent.integers("A" if index == 0 else "B")
        warps = parent.integers("warpsPerCTA")
        if len(block) < 2 or len(warps) != len(shape):
            return None
        rows, columns = block[-2:]
        if index == 0:
            return (*warps[:-2], rows * warps[-2], columns)
        return (*warps[:-2], rows, columns * warps[-1])
    return None


def order(encoding: Encoding, rank: int) -> tuple[int, ...]:
    """Dimensions from the fastest to the slowest; row major where the encoding does not say."""
    stated = encoding.integers("order")
    if len(stated) == rank:
        return stated
    parent = encoding.parent
    if encoding.kind == "slice" and parent is not None:
        dim = encoding.integer("dim")
        return tuple(d - (d > dim) for d in order(parent, rank + 1) if d != dim)
    return tuple(reversed(range(rank)))


def contiguous_per_thread(encoding: Encoding, rank: int) -> int | None:
    """Elements along the fastest dimension that one thread holds side by side."""
    if encoding.kind == "blocked":
        sizes = encoding.integers("sizePerThread")
        return sizes[order(encoding, rank)[0]] if len(sizes) == rank else None
    if encoding.kind == "slice" and (parent := encoding.parent) is not None:
        sizes = parent.integers("sizePerThread")
        dim = encoding.integer("dim")
        kept = sizes[:dim] + sizes[dim + 1 :]
        return kept[order(encoding, rank)[0]] if len(kept) == rank else None
    if encoding.is_dpas or encoding.is_dpas_operand:
        return 1
    if encoding.kind == "linear" and (bases := _linear(encoding, rank)) is not None:
        fastest, count = order(encoding, rank)[0], 1
        for base in bases[0]:
            if base != tuple(count if d == fastest else 0 for d in range(rank)):
                break
            count *= 2
        return count
    return None


def conversion_slm_bytes(
    source: Encoding, destination: Encoding, shape: Sequence[int], element_bits: int
) -> int | None:
    """Bytes of shared local memory through which a layout conversion goes.

    0 where every element stays with its thread: equal layouts, the first operand of a DPAS
    that was computed by the same DPAS, and layouts that give equal ownership. Otherwise the
    scratch buffer: the larger of both tiles, its fastest row padded by the wider vector.
    None where a layout's ownership is not known here.
    """
    if _same(source, destination) or _is_dpas_shortcut(source, destination):
        return 0
    owners = [ownership(e, shape) for e in (source, destination)]
    if owners[0] is not None and owners[0] == owners[1]:
        return 0
    rank = len(shape)
    tiles = [tile(e, shape) for e in (source, destination)]
    vectors = [contiguous_per_thread(e, rank) for e in (source, destination)]
    if rank == 0 or tiles[0] is None or tiles[1] is None or None in vectors:
        return None
    extent = [max(min(size, tiles[0][d]), min(size, tiles[1][d])) for d, size in enumerate(shape)]
    fastest = order(destination, rank)[0]
    source_vector = (vectors[0] or 1) if order(source, rank)[0] == fastest else 1
    if rank > 1:
        extent[fastest] += max(source_vector, vectors[1] or 1)
    # Predicates go through memory as bytes.
    return math.prod(extent) * max(element_bits, 8) // 8


def _same(first: Encoding, second: Encoding) -> bool:
    return first.kind == second.kind and first.parameters == second.parameters


def _is_dpas_shortcut(source: Encoding, destination: Encoding) -> bool:
    parent = destination.parent
    return (
        source.is_dpas
        and destination.is_dpas_operand
        and parent is not None
        and destination.integer("opIdx") == 0
        and parent.parameters == source.parameters
        and source.integers("warpsPerCTA")[-1:] == (1,)
    )


def _linear(encoding: Encoding, rank: int) -> Bases | None:
    """The bases that a linear layout states."""
    parts: list[tuple[tuple[int, ...], ...]] = []
    for name in ("register", "lane", "warp"):
        stated = encoding.parameters.get(name)
        if not isinstance(stated, list):
            return None
        rows: list[object] = stated  # pyright: ignore[reportUnknownVariableType]
        bases = [tuple(_integers(row)) for row in rows]
        if any(len(base) != rank for base in bases):
            return None
        kept = bases if name != "register" else [base for base in bases if any(base)]
        parts.append(tuple(kept))
    return (parts[0], parts[1], parts[2])


def _integers(value: object) -> list[int]:
    if not isinstance(value, list):
        return []
    items: list[object] = value  # pyright: ignore[reportUnknownVariableType]
    return [item for item in items if isinstance(item, int)]


def ownership(encoding: Encoding, shape: Sequence[int]) -> Bases | None:
    """(register, lane, warp) bases of a blocked layout or a slice of one, over GF(2).

    Base i of a part is the coordinate that its i-th bit adds; zero bases mean that threads
    hold the same element. Registers compare as a set of coordinates, lanes and warps as is.
    """
    if encoding.kind == "slice" and encoding.parent is not None:
        dim = encoding.integer("dim")
        parent = ownership(encoding.parent, (*shape[:dim], 1, *shape[dim:]))
        if parent is None:
            return None
        cut = [tuple(base[:dim] + base[dim + 1 :] for base in part) for part in parent]
        registers = tuple(sorted({base for base in cut[0] if any(base)}))
        return (registers, cut[1], cut[2])
    rank = len(shape)
    if encoding.kind == "linear":
        bases = _linear(encoding, rank)
        return None if bases is None else (tuple(sorted(bases[0])), bases[1], bases[2])
    if encoding.kind != "blocked":
        return None
    dims = order(encoding, rank)
    per_part = [encoding.integers(n) for n in ("sizePerThread", "threadsPerWarp", "warpsPerCTA")]
    if any(len(part) != rank for part in per_part):
        return None
    reached = [1] * rank
    parts: list[list[tuple[int, ...]]] = [[], [], []]

    def extend(part: int, dim: int, size: int) -> None:
        step = 1
        while step < size:
            base = [0] * rank
            if reached[dim] < shape[dim]:  # beyond the tensor threads hold copies
                base[dim] = reached[dim]
                reached[dim] *= 2
            if part > 0 or any(base):
                parts[part].append(tuple(base))
            step *= 2

    for part in range(3):
        for dim in dims:
            extend(part, dim, per_part[part][dim])
    for dim in dims:
        extend(0, dim, shape[dim] // reached[dim])
    return (tuple(sorted(parts[0])), tuple(parts[1]), tuple(parts[2]))
