"""Triton's modules as generic text and back, inside the process that compiles.

Runs in worker and users' processes: standard library and Triton only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xesmith.ghost.foreign import foreign
from xesmith.ir_bounds import excess
from xesmith.lowering.generic import generic_form
from xesmith.lowering.text_filter import TransformError


def transformed(module: Any, transform: Callable[[str], str]) -> tuple[Any, str, str]:
    """`module` after a transform of its generic text: (module, text before, text after).

    The module that was given is neither changed nor spoiled. Where the transform changes
    nothing it comes back itself.

    Raises:
        Exception: whatever the transform, the printer or the parser raises.
    """
    with tempfile.TemporaryDirectory(prefix="xesmith-hook-") as folder:
        before = generic_text(module, Path(folder))
        after = transform(before)
        if after == before:
            return module, before, after
        return _parsed(after, module, Path(folder)), before, after


def generic_text(module: Any, folder: Path) -> str:
    """A live module in generic form, from which Triton makes the same module; `folder` takes files.

    Raises:
        NotGenericError: the form does not hold the whole module.
    """
    path = folder / "module.ttir"
    path.write_text(str(module), "utf-8")
    return generic_form(path, module.context, live=module, checked=True)


def _parsed(text: str, original: Any, folder: Path) -> Any:
    require_bounded(text)
    path = folder / "transformed.ttir"
    path.write_text(text)
    made = foreign("triton._C.libtriton").ir.parse_mlir_module(str(path), original.context)
    made.context = original.context
    if not made.verify():
        raise TransformError("Triton's verifier refuses the module")
    for what in (_entry_name, _signature):
        if what(made) != what(original):
            raise TransformError("the kernel's name or arguments have changed")
    return made


def _entry_name(module: Any) -> str:
    return module.get_entry_func_name()


def _signature(module: Any) -> list[str]:
    function = module.get_function(module.get_entry_func_name())
    return [str(kind) for kind in module.get_function_signature(function)]


def require_bounded(text: str) -> None:
    """Raises TransformError for a text that would end the process in MLIR's parser."""
    if (what := excess(text)) is not None:
        raise TransformError(what)


class GenericPrinter:
    """Prints files of Triton IR in generic form, with one context for all of them.

    A context is not for several threads; each has a printer of its own.
    """

    def __init__(self) -> None:
        self._contexts: dict[str, Any] = {}

    def text(self, path: Path, target: Any) -> str:
        """The module in `path`, compiled for `target` (Triton's GPUTarget)."""
        context = self._contexts.get(target.backend)
        if context is None:
            ir = foreign("triton._C.libtriton").ir
            context = ir.context()
            if hasattr(context, "disable_multithreading"):  # a pool would not survive a fork
                context.disable_multithreading()
            ir.load_dialects(context)
            foreign("triton.compiler.compiler").make_backend(target).load_dialects(context)
            self._contexts[target.backend] = context
        return generic_form(path, context)
