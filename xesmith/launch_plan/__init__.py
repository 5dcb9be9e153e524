"""Launch plans: how what is launched changes while the harness stays as it is.

`LaunchPlan` is data (`plan`), its conditions and sizes are a small language (`expression`), and
`render` writes the file that carries it out; `read` takes such a file apart again.
"""

from __future__ import annotations

from xesmith.launch_plan.expression import Expression, PlanError, parse
from xesmith.launch_plan.plan import (
    Alternative,
    Buffer,
    LaunchPlan,
    Options,
    PlannedLaunch,
    PointerChoice,
    Rebinding,
)
from xesmith.launch_plan.render import RenderedFile, read, render

__all__ = [
    "Alternative",
    "Buffer",
    "Expression",
    "LaunchPlan",
    "Options",
    "PlanError",
    "PlannedLaunch",
    "PointerChoice",
    "Rebinding",
    "RenderedFile",
    "parse",
    "read",
    "render",
]
