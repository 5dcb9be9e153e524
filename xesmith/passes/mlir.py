"""The MLIR Python bindings of this process, and the bounds that their parser needs."""

from __future__ import annotations

import functools
import importlib
import threading
from typing import Any

from xesmith.errors import ToolchainError, UnreadableLevelError
from xesmith.ir_bounds import excess

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
            self._context.allow_unregistered_dialects = True
            # Threads would not survive a fork, and kernels are small.
            self._context.enable_multithreading(False)
            self._text_bytes = text_bytes
        return self._context


@functools.lru_cache(maxsize=1)
def bindings() -> Bindings:
    """The bindings of this process. Raises ToolchainError where they are not installed."""
    return Bindings()
