"""What is used of DSPy, behind types: it is untyped in parts, and slow to import (0.8 s)."""

from __future__ import annotations

import os
from typing import Any

from xesmith.errors import ToolchainError

# DSPy imports litellm lazily, which fetches a list of prices unless it is told not to.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

try:
    import dspy as _dspy  # pyright: ignore[reportMissingTypeStubs]
    from dspy import lm15 as _lm15  # pyright: ignore[reportMissingTypeStubs]
except ImportError as _error:
    raise ToolchainError(
        f"DSPy is not installed ({_error})",
        where="--proposer",
        remedy='pip install "xesmith[llm]"',
    ) from _error

dspy: Any = _dspy
lm15: Any = _lm15
Module: Any = dspy.Module
Signature: Any = dspy.Signature
Adapter: Any = dspy.Adapter
Predict: Any = dspy.Predict
Prediction: Any = dspy.Prediction


def input_field(description: str) -> Any:
    return dspy.InputField(desc=description, default="")


def output_field(description: str) -> Any:
    return dspy.OutputField(desc=description)
