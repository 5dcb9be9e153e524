"""`xesmith lm check | show | serve`, and the options by which other commands are given a model."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xesmith.cli.common import PANEL_MACHINE, JsonFlag, print_json, progress, table
from xesmith.errors import UsageError, nearest

if TYPE_CHECKING:
    from xesmith.lm.stand_in import Fault

MODEL_PANEL = "Model"

LmOption = Annotated[
    str | None,
    typer.Option(
        "--lm", help="Model, as LiteLLM names it: openai/gpt-5.", rich_help_panel=MODEL_PANEL
    ),
]
LmBaseOption = Annotated[
    str | None,
    typer.Option(
        "--lm-base",
        help="Server: http://host:port/v1; default: its own.",
        rich_help_panel=MODEL_PANEL,
    ),
]
LmApiOption = Annotated[
    str | None,
    typer.Option(
        "--lm-api",
        help="Kind of endpoint: chat (default) or responses.",
        rich_help_panel=MODEL_PANEL,
    ),
]
LmTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--lm-timeout", help="Seconds for a whole reply; default: 300.", rich_help_panel=MODEL_PANEL
    ),
]
BudgetTokensOption = Annotated[
    int | None,
    typer.Option(
        "--budget-tokens", help="Tokens that a run may spend.", rich_help_panel=MODEL_PANEL
    ),
]
BudgetUsdOption = Annotated[
    float | None,
    typer.Option(
        "--budget-usd", help="US dollars that a run may spend.", rich_help_panel=MODEL_PANEL
    ),
]
BudgetSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--budget-seconds",
        help="Seconds that a run may wait for the model.",
        rich_help_panel=MODEL_PANEL,
    ),
]

_QUESTION = "request: check\n\nAnswer with one word: ready"


def lm_overrides(
    lm: str | None = None,
    lm_base: str | None = None,
    lm_api: str | None = None,
    lm_timeout: float | None = None,
    budget_tokens: int | None = None,
    budget_usd: float | None = None,
    budget_seconds: float | None = None,
) -> dict[str, Any]:
    """The flags as `xesmith.lm.settings.load_settings` takes them.

    Raises:
        UsageError: `lm_api` is no kind of endpoint.
    """
    kinds = ("chat", "responses")
    if lm_api is not None and lm_api not in kinds:
        raise UsageError(
            f"unknown kind of endpoint '{lm_api}'", where="--lm-api", remedy=nearest(lm_api, kinds)
        )
    return {
        "model": lm,
        "base_url": lm_base,
        "api": lm_api,
        "timeout_s": lm_timeout,
        "budget_tokens": budget_tokens,
        "budget_usd": budget_usd,
        "budget_seconds": budget_seconds,
    }


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="The language model: ask it, see its settings, or serve a stand-in.",
        no_args_is_help=True,
    )
    group.command("check")(check_command)
    group.command("show")(show_command)
    group.command("serve")(serve_command)
    app.add_typer(group, name="lm", rich_help_panel=PANEL_MACHINE)


def check_command(
    lm: LmOption = None,
    lm_base: LmBaseOption = None,
    lm_api: LmApiOption = None,
    lm_timeout: LmTimeoutOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Asks the model one short question: does it answer, how fast, at what price?"""
    from xesmith.lm.endpoint import EndpointChannel
    from xesmith.lm.record import Message, Request
    from xesmith.lm.settings import load_settings

    settings = load_settings(lm_overrides(lm, lm_base, lm_api, lm_timeout))
    with progress(quiet=as_json) as shown:
        shown.say(f"asking {settings.model}")
        channel = EndpointChannel(settings, say=shown.say)
        reply = channel.ask(Request("check", (Message("user", _QUESTION),)))
    usage = reply.usage
    facts: dict[str, Any] = {
        "model": reply.model,
        "base_url": settings.base_url,
        "api": settings.api,
        "seconds": reply.seconds,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "tokens_estimated": usage.estimated,
        "cost_usd": usage.cost_usd,
        "finish": reply.finish,
        "reply": reply.text[:200],
    }
    if as_json:
        print_json(facts)
        return
    counted = "estimated" if usage.estimated else "as the endpoint counts"
    price = "not known" if usage.cost_usd is None else f"{usage.cost_usd:.6f} US dollars"
    rows = [
        ["model", reply.model],
        ["endpoint", f"{settings.base_url or 'of the provider'} ({settings.api})"],
        ["seconds", f"{reply.seconds:.2f}"],
        ["tokens", f"{usage.prompt_tokens} + {usage.completion_tokens} ({counted})"],
        ["price", price],
        ["reply", f"{' '.join(reply.text[:60].split()) or 'empty'} (finish: {reply.finish})"],
    ]
    table(["what", "is"], rows)


def show_command(
    lm: LmOption = None,
    lm_base: LmBaseOption = None,
    lm_api: LmApiOption = None,
    lm_timeout: LmTimeoutOption = None,
    budget_tokens: BudgetTokensOption = None,
    budget_usd: BudgetUsdOption = None,
    budget_seconds: BudgetSecondsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Shows the settings in force and where each came from; never the key."""
    from xesmith.lm.settings import config_path, load_sourced

    found = load_sourced(
        lm_overrides(lm, lm_base, lm_api, lm_timeout, budget_tokens, budget_usd, budget_seconds)
    )
    values = found.settings.shown()
    sources = {name: found.sources.get(name, "default") for name in values}
    if as_json:
        print_json({"settings": values, "sources": sources, "config_file": str(config_path())})
        return
    rows = [
        [name, "-" if value is None else str(value), sources[name]]
        for name, value in values.items()
    ]
    table(["setting", "value", "from"], rows)


def serve_command(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Recordings; the first that holds a reply gives it."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 0,
    faults: Annotated[
        Path | None, typer.Option("--faults", help="A script of faults, in YAML.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="Add a JSON line per request to this file.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Serves recorded replies as a stand-in for a model's server, until Ctrl-C."""
    from xesmith.lm.stand_in import StandIn

    script = [] if faults is None else _faults(faults)
    with StandIn(folders or [], script, port=port, log=log) as server:
        if as_json:
            print_json(
                {"stand_in": True, "url": server.url, "folders": [*map(str, server.folders)]}
            )
        else:
            print(f"stand-in for a model at {server.url}", flush=True)
            hint = (
                f"no model: it serves recorded replies. --lm openai/stand-in --lm-base {server.url}"
            )
            print(hint, file=sys.stderr)
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    print(f"{len(server.requests)} requests served", file=sys.stderr)


def _faults(path: Path) -> list[Fault]:
    import yaml

    from xesmith.lm.stand_in import read_faults

    try:
        data = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the script cannot be read: {error}", where=str(path)) from None
    except yaml.YAMLError as error:
        what = " ".join(str(error).split())
        raise UsageError(f"the script is not YAML: {what}", where=str(path)) from None
    return read_faults(data, str(path))
