"""`xesmith report`: what a run tried and what became of it, from its ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xesmith.cli.common import EXIT_OK, PANEL_KERNELS, JsonFlag, print_json
from xesmith.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command("report", rich_help_panel=PANEL_KERNELS)(report)


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run, finished or not.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print it as Markdown.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write it as one HTML file.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show a run's stages, trials and verdict."""
    from dataclasses import asdict

    from xesmith.engine.run_folder import LEDGER_FILE
    from xesmith.ledger import Ledger
    from xesmith.report.model import build
    from xesmith.report.terminal import show
    from xesmith.report.write import to_html, to_markdown

    with Ledger.open(run / LEDGER_FILE) as ledger:
        made = build(ledger)
    if html is not None:
        try:
            html.write_text(to_html(made), encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"the report cannot be written: {error.strerror}", where=str(html)
            ) from error
    if as_json:
        print_json(asdict(made))
    elif markdown:
        print(to_markdown(made), end="")
    elif html is None:
        show(made, with_tree=True)
    return EXIT_OK
