"""What passes there are, from the reference that is made of Passes.td beside the plugin."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from xesmith.errors import UsageError, nearest
from xesmith.passes.plugin import REFERENCE, plugin_folder

_HEAD = "### `-"


@dataclass(frozen=True)
class PassDescription:
    """A pass: its name, its summary, and its description in Markdown."""

    name: str
    summary: str
    text: str


@functools.lru_cache(maxsize=1)
def pass_descriptions() -> tuple[PassDescription, ...]:
    """Every pass of the plugin, by name.

    Raises:
        ToolchainError: the plugin was not built.
    """
    text = (plugin_folder() / REFERENCE).read_text("utf-8")
    found: list[PassDescription] = []
    for section in text.split(f"\n{_HEAD}")[1:]:
        head, _, body = section.partition("\n")
        summary = body.strip().splitlines()[0].strip("_ ")
        found.append(PassDescription(head.rstrip("`"), summary, f"{_HEAD}{section}".rstrip()))
    return tuple(sorted(found, key=lambda item: item.name))


def pass_names() -> list[str]:
    return [item.name for item in pass_descriptions()]


def pass_description(name: str) -> PassDescription:
    """
    Raises:
        UsageError: no such pass.
    """
    for item in pass_descriptions():
        if item.name == name:
            return item
    raise UsageError(f"unknown pass '{name}'", remedy=nearest(name, pass_names()))


def reference_page() -> str:
    """docs/passes-reference.md: the reference with a heading."""
    sections = "\n\n".join(item.text for item in pass_descriptions())
    return (
        "# Passes: reference\n\n"
        "Made of passes/include/XeSmith/Passes.td by `make passes-reference`; do not edit.\n\n"
        f"{sections}\n"
    )
