"""The compile hook: what Triton makes inside a user's own program, recorded and transformed.

    import xesmith.hook
    xesmith.hook.enable("trace")

From then on every kernel that Triton compiles in this process, its threads and its children
(the compile workers of torch.compile too) leaves a folder under "trace"; `xesmith trace show`
reads it. A transform of the Triton IR can be put between Triton's own stages.

Nothing that goes wrong in here reaches the program: it is logged once, and Triton goes on with
what it had. Runs in users' processes: standard library and Triton only.
"""

from __future__ import annotations

from xesmith.hook.install import disable, enable

__all__ = ["disable", "enable"]
