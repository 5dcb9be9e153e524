"""The MLIR Python bindings of this process, and the bounds that their parser needs."""

from __future__ import annotations

import functools
import importlib
import threading
from dataclasses import dataclass
from typing import Any

from xesmith.errors import ToolchainError, UnreadableLevelError
from xesmith.ir_bounds import MAX_NESTING, excess

#: the file of operations without a location, at their lines of the parsed text
UNNAMED_TEXT = "-"

#: a context never forgets a type or location, so it is renewed after this much text
_CONTEXT_TEXT_BYTES = 256 * 1024 * 1024


def check_bounds(text: str) -> None:
    """Raises UnreadableLevelError for a text that the parser can't take."""
    if (what := excess(text)) is not None:
        raise UnreadableLevelError(what)


class Bindings:
    """`mlir.ir` and one reused context: a new context costs ten times a parse."""

    def __init__(self) -> None:
        try:
            self.ir: Any = importlib.import_module("mlir.ir")
        except ImportError as error:
            raise ToolchainError(
                f"the MLIR Python bindings do not load: {error}",
                remedy="pip install 'xtc-mlir-python-bindings>=22.1.8,<23'",
            ) from error
        #: held while a module is parsed and worked on: the context itself is for one thread
        self.lock = threading.RLock()
        self._context: Any = None
        self._text_bytes = 0

    def context(self, text_bytes: int) -> Any:
        self._text_bytes += text_bytes
        if self._context is None or self._text_bytes > _CONTEXT_TEXT_BYTES:
            self._context = self.ir.Context()
            if not self._context.is_registered_operation("arith.addi"):
                raise ToolchainError(
                    "the MLIR Python bindings know no dialect: analyses would find nothing",
                    where=str(self.ir.__file__),
                    remedy="pip install --force-reinstall 'xtc-mlir-python-bindings>=22.1.8,<23'",
                )
            self._context.allow_unregistered_dialects = True
            # Threads would not survive a fork, and kernels are small.
            self._context.enable_multithreading(False)
            self._text_bytes = text_bytes
        return self._context


@functools.lru_cache(maxsize=1)
def bindings() -> Bindings:
    """The bindings of this process. Raises ToolchainError where they are not installed."""
    return Bindings()


@dataclass(frozen=True)
class Function:
    """A `tt.func`: its arguments' types by their names, and where it stands."""

    name: str
    is_public: bool
    arguments: dict[str, str]
    file: str | None
    line: int | None


def functions_of(text: str) -> tuple[Function, ...]:
    """The functions of a module in generic form.

    Raises:
        UnreadableLevelError: too large, too deep, or not MLIR.
        ToolchainError: the bindings are not installed.
    """
    check_bounds(text)
    mlir = bindings()
    with mlir.lock:
        try:
            module = mlir.ir.Module.parse(text, mlir.context(len(text)))
        except mlir.ir.MLIRError as error:
            lines = [line for line in str(error).splitlines() if line.startswith("error:")]
            said = lines[0].removeprefix("error:").strip() if lines else str(error)
            raise UnreadableLevelError(f"MLIR can't parse it: {said[:300]}") from error
        found = [op.operation for op in module.body.operations]
        return tuple(_function(op) for op in found if str(op.name) == "tt.func")


def _function(op: Any) -> Function:
    def text_of(name: str) -> str:
        return str(op.attributes[name]).strip('"') if name in op.attributes else ""

    arguments: list[Any] = []
    if len(op.regions) and len(op.regions[0].blocks):
        arguments = list(op.regions[0].blocks[0].arguments)
    file, line = _place(op.location)
    return Function(
        name=text_of("sym_name"),
        is_public=text_of("sym_visibility") == "public",
        arguments={
            str(value.location.name_str) if value.location.is_a_name() else f"arg{index}": str(
                value.type
            ).removeprefix("!tt.")
            for index, value in enumerate(arguments)
        },
        file=file,
        line=line,
    )


def _place(location: Any) -> tuple[str | None, int | None]:
    """File and line in the kernel's own code: a call site counts as its caller."""
    for _ in range(MAX_NESTING):
        if location.is_a_callsite():
            location = location.caller
        elif location.is_a_name():
            location = location.child_loc
        elif location.is_a_fused() and location.locations:
            location = location.locations[0]
        elif location.is_a_file():
            return str(location.filename), int(location.start_line) or None
        else:
            break
    return None, None
