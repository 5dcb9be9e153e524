"""What ptxas says of PTX that it does not take, out of the text of Triton's exception.

Standard library only.
"""

from __future__ import annotations

import re

_FAULT = re.compile(
    r"^ptxas\s+(?:.*?, line (?P<line>\d+); )?(?P<kind>fatal|error)\s*:\s*(?P<text>.*\S)", re.M
)
_CONSEQUENCE = "Ptx assembly aborted due to errors"
#: a command line with the paths of one machine, of files that are gone
_COMMAND = re.compile(r"\s*^Repro command:.*", re.M)


def ptxas_fault(message: str) -> str | None:
    """The first fault that ptxas names, in one line; None where ptxas has no part in it."""
    if "ptxas" not in message:
        return None
    for found in _FAULT.finditer(message):
        if found["text"] != _CONSEQUENCE:
            at = f"PTX line {found['line']}: " if found["line"] else ""
            return f"ptxas {found['kind']}: {at}{found['text']}"
    return " ".join(_COMMAND.sub("", message).split())
