"""Triton IR in MLIR's generic form, which stock MLIR can read.

No option of Triton prints it. A module that fails its verifier is printed in generic form,
and an attribute outside any dialect's name space makes it fail. That spoils the module, so a
copy is printed. Seen to work on Triton 3.3, 3.6, 3.8 and 3.9; the tests hold each to it.

Runs in worker processes: standard library and Triton only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from xesmith.ghost.foreign import foreign

_MARK = "xe_force_generic"

_ALIAS = re.compile(r"^([#!][A-Za-z_]\w*) = (.*)\n", re.M)
#: a string literal (left alone), or a use of an alias
_USE = re.compile(r'"(?:[^"\\]|\\.)*"|[#!][A-Za-z_]\w*(?![\w.<$])')


class NotGenericError(Exception):
    """This Triton printed the marked module in another form."""


def generic_form(
    module_path: Path, context: Any, *, live: Any = None, checked: bool = False
) -> str:
    """The module in `module_path` (as Triton prints it) in generic form.

    Aliases of attributes and types are expanded, also inside attributes of Triton's dialects,
    which stock MLIR keeps as opaque text. Locations are those of the kernel's source; an
    operation that had none has none.

    `live` is the module whose text lies there. Triton's text has no place for the locations of
    loops' arguments, by which 3.9 names them when it prints: they come from there.

    `checked` gives it to Triton's parser again, for texts whose way goes back to Triton. It costs
    another parse and two prints.

    Raises:
        NotGenericError: the printer did not fall back to generic form; or, `checked`, Triton
            reads another module in it.
    """
    ir = foreign("triton._C.libtriton").ir
    copy = ir.parse_mlir_module(str(module_path), context)
    copy.context = context  # keeps it alive
    if live is not None and hasattr(ir.value, "get_loc"):
        for argument, original in zip(_arguments(copy), _arguments(live), strict=True):
            argument.set_loc(original.get_loc())
    plain = str(copy) if checked else ""
    copy.set_attr(_MARK, ir.builder(context).get_unit_attr())
    text = str(copy)
    if '"builtin.module"(' not in text:
        raise NotGenericError("Triton's printer did not fall back to generic form")
    text = expand_aliases(_unmarked(text))
    if checked:
        _require_same(text, plain, module_path, context)
    return _without_parser_locations(text, module_path)


def _arguments(module: Any) -> list[Any]:
    """The arguments of every block; each block has an operation, if only its terminator."""
    blocks: dict[int, Any] = {}

    def visit(operation: Any) -> None:
        if operation.get_name() != "builtin.module":
            block = operation.get_block()
            blocks.setdefault(block.id(), block)

    module.walk(visit)
    return [block.arg(i) for block in blocks.values() for i in range(block.get_num_arguments())]


def _require_same(text: str, plain: str, module_path: Path, context: Any) -> None:
    path = module_path.with_name(f"again.{module_path.name}")
    path.write_text(text, "utf-8")
    try:
        again = foreign("triton._C.libtriton").ir.parse_mlir_module(str(path), context)
    except RuntimeError as error:
        raise NotGenericError(f"Triton does not read its generic form: {error}") from error
    again.context = context
    for line, other in zip(plain.splitlines(), str(again).splitlines(), strict=False):
        if line != other:
            raise NotGenericError(f"in generic form this would become another: {line.strip()}")
    if plain.count("\n") != str(again).count("\n"):
        raise NotGenericError("in generic form the module would lose its end")


def expand_aliases(text: str) -> str:
    """`text` without aliases of attributes and types. Those of locations stay."""
    aliases = {n: v for n, v in _ALIAS.findall(text) if not v.startswith("loc(")}
    if not aliases:
        return text
    for _ in aliases:  # an alias may use others, which are defined before it
        expanded = {name: _expanded(value, aliases) for name, value in aliases.items()}
        if expanded == aliases:
            break
        aliases = expanded
    body = _ALIAS.sub(lambda m: "" if m.group(1) in aliases else m.group(0), text)
    return _expanded(body, aliases)


def _expanded(text: str, aliases: dict[str, str]) -> str:
    return _USE.sub(lambda m: aliases.get(m.group(0), m.group(0)), text)


def _unmarked(text: str) -> str:
    for marked, unmarked in ((f", {_MARK}", ""), (f"{_MARK}, ", ""), (f" {{{_MARK}}}", "")):
        if marked in text:
            return text.replace(marked, unmarked, 1)
    return text


def _without_parser_locations(text: str, module_path: Path) -> str:
    """The parser gives operations without a location their place in the file it read."""
    return re.sub(rf'"{re.escape(str(module_path))}":\d+:\d+', "unknown", text)
