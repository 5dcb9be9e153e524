"""What every command shares: output, errors, exit codes, progress.

Results go to stdout, everything else to stderr. Under `--json` stdout holds one JSON value
and errors are one JSON object on stderr.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xesmith.errors import XesmithError

if TYPE_CHECKING:
    from rich.table import Table

EXIT_OK = 0
EXIT_NO_IMPROVEMENT = 1  # no improvement, a candidate refused, findings at or above --fail-on
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 3
EXIT_INPUT_KERNEL = 4
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141  # as a process that SIGPIPE ended

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON value on stdout, errors as JSON on stderr.")
]

# Panels under which `xesmith --help` lists the commands.
PANEL_KERNELS = "Kernels"
PANEL_PROJECT = "Knowledge and benchmarks"
PANEL_MACHINE = "This machine"


def print_json(value: Any) -> None:
    """Prints one JSON value on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_error(error: XesmithError, *, as_json: bool) -> None:
    """Prints an error on stderr: its cause, where, and the remedy."""
    if as_json:
        print(json.dumps(error.to_json(), ensure_ascii=False), file=sys.stderr)
        return
    print(f"error: {error.what}", file=sys.stderr)
    if error.where:
        print(f"  where: {error.where}", file=sys.stderr)
    if error.remedy:
        print(f"  remedy: {error.remedy}", file=sys.stderr)


class Progress:
    """Steps of long work, on stderr: one line each, with the seconds since the start.

    On a terminal the current step also shows a spinner.
    """

    def __init__(self, *, quiet: bool = False, spinner: Any = None) -> None:
        self._quiet = quiet
        self._start = time.perf_counter()
        self._spinner = spinner  # rich's Status, whose stubs the faces need not load

    def say(self, step: str) -> None:
        """Says that `step` begins."""
        if self._quiet:
            return
        line = f"[{time.perf_counter() - self._start:5.1f} s] {step}"
        if self._spinner is not None:
            self._spinner.console.print(line, highlight=False, markup=False)
            self._spinner.update(step)
        else:
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(*, quiet: bool = False) -> Generator[Progress, None, None]:
    """A Progress for the time of the `with` block; `quiet` where the caller wants JSON."""
    if quiet or not sys.stderr.isatty():
        yield Progress(quiet=quiet)
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as spinner:
        yield Progress(spinner=spinner)


def table(columns: list[str], rows: list[list[str]], *, title: str | None = None) -> None:
    """Prints a table on stdout; plain columns when stdout is no terminal.

    A terminal that is too narrow for a row gets the columns as rows instead; nothing is cut off.
    """
    from rich.console import Console

    console, unbounded = Console(), Console(width=10_000)
    if not console.is_terminal:
        console = unbounded
    shown = _laid_out(columns, rows, title)
    if len(rows) < len(columns) and unbounded.measure(shown).maximum > console.width:
        first, *others = zip(columns, *rows, strict=True)
        shown = _laid_out([*first], [[*other] for other in others], title)
    with console.capture() as captured:
        console.print(shown, highlight=False, markup=False)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _laid_out(columns: list[str], rows: list[list[str]], title: str | None) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made
