"""What was compiled: the kernel's text with its lines, and the launch as the compiler knows it.

Runs in users' processes: standard library and Triton only.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from xesmith.ghost.launch import ANY_GRID, Launch
from xesmith.ghost.position import function_position
from xesmith.lowering.options import options_of_metadata

#: a kernel calls few functions; more than this are not its own
_LARGEST_FUNCTION_COUNT = 64


@dataclass(frozen=True)
class FunctionText:
    """The text of one jit function and where it stands; `line` is that of its first line."""

    name: str
    file: str
    line: int
    text: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@functools.lru_cache(maxsize=64)
def function_texts(function: Any) -> tuple[FunctionText, ...]:
    """The kernel, then the jit functions that it calls, each once.

    Kept, since a kernel comes in many configurations and finding its lines takes a parse.
    """
    waiting, found, seen = [function], list[FunctionText](), set[int]()
    while waiting and len(found) < _LARGEST_FUNCTION_COUNT:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        file, line = function_position(one)
        found.append(FunctionText(one.__name__, file, line, one.src))
        for name in one.fn.__code__.co_names:
            called = one.fn.__globals__.get(name)
            if type(called) is type(function):
                waiting.append(called)
    return tuple(found)


def launch_of(src: Any, metadata: Mapping[str, Any]) -> Launch:
    """The launch that a compile is for. Grid and values of arguments are not known yet.

    Args:
        src: Triton's ASTSource, or IRSource where a file of IR is compiled.
        metadata: Triton's, of the compiled kernel.
    """
    function = getattr(src, "fn", None)
    if function is None:
        file, line, names = str(getattr(src, "path", "")), 0, list[str]()
    else:
        kernel = function_texts(function)[0]
        file, line = kernel.file, kernel.line
        names = list(function.arg_names)
    constants: Mapping[Any, Any] = getattr(src, "constants", None) or {}
    attributes: Mapping[Any, Any] = getattr(src, "attrs", None) or {}
    return Launch(
        index=0,
        kernel=str(getattr(function, "__name__", src.name)).lstrip("@"),
        file=file,
        line=line,
        grid=ANY_GRID,
        signature={str(k): str(v) for k, v in src.signature.items()},
        values={},
        constexprs={
            name: _plain(value)
            for path, value in constants.items()
            if (name := _argument(path, names)) is not None
        },
        divisible_by_16=tuple(
            name
            for path, found in attributes.items()
            if (name := _argument(path, names)) is not None and _is_divisible_by_16(found)
        ),
        options={k: _plain(v) for k, v in options_of_metadata(metadata).items()},
    )


def _argument(path: Any, names: list[str]) -> str | None:
    """The argument that a key of Triton's `constants` or `attrs` means; None: part of a tuple."""
    if isinstance(path, str):
        return path
    index: Any = path
    if isinstance(path, tuple):
        parts = cast("tuple[Any, ...]", path)
        if len(parts) != 1:
            return None
        index = parts[0]
    return names[index] if isinstance(index, int) and index < len(names) else None


def _is_divisible_by_16(attributes: Any) -> bool:
    return any(a[0] == "tt.divisibility" and a[1] % 16 == 0 for a in attributes)


def _plain(value: Any) -> Any:
    """A JSON value for a constant: jit functions and types by name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in cast("list[Any]", value)]
    inner = getattr(value, "value", value)  # tl.constexpr
    if inner is not value:
        return _plain(inner)
    return getattr(value, "__name__", None) or str(value)
