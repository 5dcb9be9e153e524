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


def generic_form(module_path: Path, context: Any) -> str:
    """The module in `module_path` (as Triton prints it) in generic form.

    Aliases of attributes and types are expanded, also inside attributes of Triton's dialects,
    which stock MLIR keeps as opaque text. Locations are those of the kernel's source; an
    operation that had none has none.

    Raises:
        NotGenericError: the printer did not fall back to generic form.
    """
    ir = foreign("triton._C.libtriton").ir
    copy = ir.parse_mlir_module(str(module_path), context)
    copy.context = context  # keeps it alive
    copy.set_attr(_MARK, ir.builder(context).get_unit_attr())
    text = str(copy)
    if '"builtin.module"(' not in text:
        raise NotGenericError("Triton's printer did not fall back to generic form")
    return expand_aliases(_without_parser_locations(_unmarked(text), module_path))


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
