"""Deterministic rewrites: pure functions from a kernel's text and facts to a new text."""

from xesmith.stages.rewrites.block_pointers import block_pointers
from xesmith.stages.rewrites.result import KernelFacts, Refusal, Rewrite

__all__ = ["KernelFacts", "Refusal", "Rewrite", "block_pointers"]
