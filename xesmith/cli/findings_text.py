"""A finding as the commands print it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xesmith.findings.record import Finding


def show_finding(finding: Finding, lines: Sequence[str], numbers: Sequence[int] = ()) -> None:
    """Prints a finding with its line quoted, its reason and its remedy.

    Args:
        lines: of the file that defines the kernel.
        numbers: of the launches that it is about, where there are several.
    """
    where = finding.kernel + (f" line {finding.line}" if finding.line else "")
    if numbers:
        where += f" ({listed(numbers)})"
    print(f"{finding.severity}[{finding.kind}] {where}: {finding.message}")
    if finding.line and finding.line <= len(lines):
        print(f"    {finding.line} | {lines[finding.line - 1].strip()}")
    if finding.reason:
        print(f"    why: {finding.reason}")
    if finding.remedy:
        print(f"    mend: {finding.remedy}")


def listed(numbers: Sequence[int]) -> str:
    """Launches as "#1, #3"."""
    return ", ".join(f"#{number}" for number in numbers)
