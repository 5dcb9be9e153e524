"""Options that several commands share, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SpecOption = Annotated[
    Path | None,
    typer.Option("--spec", help="AI-bench spec; default: spec.yaml beside the kernel."),
]
VariantOption = Annotated[
    str | None, typer.Option("--variant", help="Variant of the spec; default: its own.")
]
ReferenceOption = Annotated[
    Path | None,
    typer.Option("--reference", help="PyTorch reference; default: reference.py beside the kernel."),
]
TargetOption = Annotated[str, typer.Option("--target", help="Device to compile for.")]
ToolchainOption = Annotated[
    str | None, typer.Option("--toolchain", help="Compiler to use; see `toolchain list`.")
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", min=1, help="Seconds for a candidate at one shape and level."),
]

LmOption = Annotated[
    str | None, typer.Option("--lm", help="Model, as LiteLLM names it: openai/gpt-5, ollama/qwen3.")
]
LmBaseOption = Annotated[
    str | None, typer.Option("--lm-base", help="Address of the model's endpoint: http://host/v1.")
]
LmApiOption = Annotated[
    str | None, typer.Option("--lm-api", help="Endpoint: chat (default) or responses.")
]
LmTimeoutOption = Annotated[
    float | None, typer.Option("--lm-timeout", min=1, help="Seconds for one reply; default 300.")
]
BudgetTokensOption = Annotated[
    int | None, typer.Option("--budget-tokens", min=0, help="Most tokens of a run.")
]
BudgetUsdOption = Annotated[
    float | None, typer.Option("--budget-usd", min=0, help="Most money of a run, in US dollars.")
]
BudgetSecondsOption = Annotated[
    float | None,
    typer.Option("--budget-seconds", min=0, help="Most seconds of waiting for the model."),
]
