"""Deterministic rewrites: pure functions from a kernel's text and facts to a new text."""

from xesmith.stages.rewrites.autotuning import autotuning
from xesmith.stages.rewrites.block_pointers import block_pointers
from xesmith.stages.rewrites.dtype_fix import dtype_fix
from xesmith.stages.rewrites.exp2 import exp2
from xesmith.stages.rewrites.gpu_specific import (
    Configuration,
    SearchSpace,
    insert_group,
    search_space,
)
from xesmith.stages.rewrites.memory_access import memory_access
from xesmith.stages.rewrites.result import KernelFacts, Refusal, Rewrite
from xesmith.stages.rewrites.roles import Roles, find_roles, infer_grid

__all__ = [
    "Configuration",
    "KernelFacts",
    "Refusal",
    "Rewrite",
    "Roles",
    "SearchSpace",
    "autotuning",
    "block_pointers",
    "dtype_fix",
    "exp2",
    "find_roles",
    "infer_grid",
    "insert_group",
    "memory_access",
    "search_space",
]
