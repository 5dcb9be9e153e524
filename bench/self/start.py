"""How long the command line takes to be ready: python bench/self/start.py (goal <= 0.25 s)."""

from __future__ import annotations

import statistics
import subprocess
import sys

REPEATS = 9
GOAL_SECONDS = 0.25
SCRIPT = """
import time
begin = time.perf_counter()
import xesmith.cli.app as app
app.build()
print(time.perf_counter() - begin)
"""


def main() -> int:
    taken = [
        float(subprocess.check_output([sys.executable, "-c", SCRIPT], text=True))
        for _ in range(REPEATS)
    ]
    median = statistics.median(taken)
    print(f"start: median of {REPEATS} {median:.3f} s, goal <= {GOAL_SECONDS} s")
    return 0 if median <= GOAL_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
