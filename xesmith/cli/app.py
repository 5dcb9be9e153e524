"""The `xesmith` command.

Each command lives in a module of its own with `register(app)`. A command module imports what
is heavy inside its functions, so that `xesmith --help` answers at once.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from xesmith import __version__
from xesmith.cli.common import (
    EXIT_BROKEN_PIPE,
    EXIT_ENVIRONMENT,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    print_error,
)
from xesmith.errors import UsageError, XesmithError, nearest

#: modules of xesmith.cli with a `register(app)`, in the order of the help text
COMMAND_MODULES = (
    *("inspect", "trace", "optimize", "verify", "report", "workspace", "mcp"),
    *("passes", "kb", "bench", "lm", "doctor", "toolchain"),
)

_MACHINE_ERRNOS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOENT}
    | {errno.ENOTDIR, errno.EISDIR, errno.EMFILE, errno.ENAMETOOLONG, errno.ELOOP, errno.EIO}
)

REPORT_TO = "the project's issue tracker"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"xesmith {__version__}")
        raise typer.Exit


def build() -> typer.Typer:
    """The application with all its commands."""
    app = typer.Typer(
        name="xesmith",
        help="Makes Triton kernels faster on Intel GPUs; believes only what the compiler shows.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(  # pyright: ignore[reportUnusedFunction]
        version: Annotated[
            bool,
            typer.Option(
                "--version", help="Print the version.", callback=_print_version, is_eager=True
            ),
        ] = False,
    ) -> None:
        del version

    for name in COMMAND_MODULES:
        importlib.import_module(f"xesmith.cli.{name}").register(app)
    return app


def run(arguments: Sequence[str]) -> int:
    """Runs the command line and returns its exit code; nothing is raised."""
    as_json = "--json" in arguments
    try:
        command = typer.main.get_command(build())
        result: Any = command.main(list(arguments), prog_name="xesmith", standalone_mode=False)
        code = result if isinstance(result, int) else EXIT_OK
        if code == EXIT_INTERRUPTED:  # how Typer hands on Ctrl-C
            print("interrupted", file=sys.stderr)
        return code
    except XesmithError as error:
        print_error(error, as_json=as_json)
        return error.exit_code
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return EXIT_USAGE
        print_error(_usage(error), as_json=as_json)
        return EXIT_USAGE
    except (KeyboardInterrupt, typer.Abort):  # outside of a command
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except SystemExit as ended:
        # Typer ends with 1 when the reader of our output has gone; 1 means something else here.
        return EXIT_BROKEN_PIPE if isinstance(ended.__context__, BrokenPipeError) else _code(ended)
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except (OSError, sqlite3.Error) as error:
        found = _of_this_machine(error) or _internal(error)
        print_error(found, as_json=as_json)
        return found.exit_code
    except Exception as error:
        print_error(_internal(error), as_json=as_json)
        return EXIT_INTERNAL


def main() -> None:
    """Entry point of the `xesmith` script."""
    # As Ctrl-C: workers end, scratch folders go, and a run can be resumed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


def _code(ended: SystemExit) -> int:
    return ended.code if isinstance(ended.code, int) else EXIT_INTERNAL if ended.code else EXIT_OK


def _usage(error: typer.TyperException) -> UsageError:
    """Typer's complaint as one of ours, with the nearest valid name."""
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "xesmith"
    what = error.format_message().rstrip(".")
    remedy = f"see '{path} --help'"
    option = getattr(error, "option_name", None)
    if option is not None and context is not None and type(error).__name__ == "NoSuchOption":
        parameters = context.command.params
        known = {name for p in parameters for name in (*p.opts, *p.secondary_opts)}
        what = f"unknown flag '{option}'"
        remedy = nearest(option, {name for name in known if name.startswith("-")} | {"--help"})
    commands: Any = getattr(context.command, "commands", None) if context is not None else None
    if commands and what.startswith("No such command"):
        name = what.split("'")[1]
        what = f"unknown command '{name}'"
        remedy = nearest(name, commands)
    return UsageError(what, where=path, remedy=remedy)


class MachineError(XesmithError):
    """A file or folder of this machine that cannot be used."""

    exit_code = EXIT_ENVIRONMENT


def _of_this_machine(error: OSError | sqlite3.Error) -> XesmithError | None:
    """What a full disk, a folder without rights or a damaged ledger is; None for anything else."""
    remedy = "give the folder rights and space, or another one: --out DIR for runs, "
    remedy += "XESMITH_CACHE_DIR for the cache, TMPDIR for scratch files"
    if isinstance(error, OSError):
        if error.errno not in _MACHINE_ERRNOS:
            return None
        where = None if error.filename is None else str(error.filename)
        return MachineError(f"a file cannot be used: {error.strerror}", where=where, remedy=remedy)
    if isinstance(error, sqlite3.OperationalError):
        return MachineError(f"the run's ledger cannot be used: {error}", remedy=remedy)
    if isinstance(error, sqlite3.DatabaseError) and "malformed" in str(error):
        return UsageError(
            f"the run's ledger is damaged: {error}", remedy="start a new run in another folder"
        )
    return None


class InternalError(XesmithError):
    """A defect of xesmith itself."""

    exit_code = EXIT_INTERNAL


def _internal(error: Exception) -> InternalError:
    if os.environ.get("XESMITH_DEBUG") == "1":
        traceback.print_exc()
    last = traceback.extract_tb(error.__traceback__)[-1]
    return InternalError(
        f"internal error: {type(error).__name__}: {error}",
        where=f"{last.filename}:{last.lineno}",
        remedy=f"this is a defect of xesmith {__version__}: run again with XESMITH_DEBUG=1 and "
        f"report the output to {REPORT_TO}",
    )


if __name__ == "__main__":
    main()
