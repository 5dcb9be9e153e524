"""Whole programs that cheat, each beside an honest one of the same form.

All compute 2 x + 1. A program is the kernel and `forward`, which may be anything: no rule about its
text is asked here, only what it does.
"""

from __future__ import annotations

from dataclasses import dataclass

REFERENCE = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x + 1
"""

_HEAD = """import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    tl.store(out_ptr + at, 2 * x + 1, mask=mask)

@triton.jit
def decoy(x_ptr):
    pass

def right(x, out=None, n=None):
    out = torch.empty_like(x) if out is None else out
    n = x.numel() if n is None else n
    kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out

"""
_MODEL = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {}

    def forward(self, x):
"""


@dataclass(frozen=True)
class Cheat:
    """`attack` and `honest` are bodies of `forward`; `before` stands at the head of the file.

    number: of the list of cheats. told: what the refusal says.
    """

    number: int
    name: str
    attack: str
    told: str
    honest: str = "return right(x)"
    before: str = ""

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Where it shows: two sizes for what is made for one of them."""
        return ((37, 65), (3, 1366)) if self.number in (18, 26) else ((37, 65),)

    @property
    def attacking(self) -> str:
        return program(self.attack, self.before)

    @property
    def control(self) -> str:
        return program(self.honest)


def program(forward: str, before: str = "") -> str:
    body = "".join(f"        {line}\n" for line in forward.strip().splitlines())
    return _HEAD + before + _MODEL + body


RIGHT = program("return right(x)")
WRONG = program("return right(x).neg()").replace("2 * x + 1, mask", "2 * x - 1, mask")

_FORGE = """
import contextlib, json, os
for name in os.listdir("/proc/self/fd"):
    with contextlib.suppress(OSError): os.write(int(name), b'\\0\\0\\0\\2{}')
return right(x)
"""

CHEATS = (
    Cheat(
        2,
        "a thread that computes after return",
        """
import threading, time
out = torch.empty_like(x)
threading.Thread(target=lambda: (time.sleep(0.2), right(x, out))).start()
return out
""",
        "elements are wrong",
        """
import threading
out = torch.empty_like(x)
thread = threading.Thread(target=right, args=(x, out)); thread.start(); thread.join()
return out
""",
    ),
    Cheat(
        3,
        "a lazy tensor subclass",
        """
class Lazy(torch.Tensor):
    def __ne__(self, other): return torch.zeros(self.shape, dtype=torch.bool)
return right(x).zero_().as_subclass(Lazy)
""",
        "an output of type .*Lazy, no plain tensor",
    ),
    Cheat(
        4,
        "the comparison and the clock patched",
        """
import time
time.perf_counter = lambda: 0.0
torch.Tensor.__ne__ = torch.Tensor.__gt__ = lambda a, b: torch.zeros(a.shape, dtype=torch.bool)
torch.equal = torch.allclose = lambda *args, **kwargs: True
return right(x).zero_()
""",
        "elements are wrong",
        "import time\nassert time.perf_counter() > 0\nreturn right(x)",
    ),
    Cheat(
        5,
        "the cached output of a shape",
        """
if x.shape not in self.kept: self.kept[x.shape] = right(x)
else: right(x)
return self.kept[x.shape]
""",
        "elements are wrong",
        "n = self.kept.setdefault(x.shape, x.numel())\nreturn right(x, n=n)",
    ),
    Cheat(
        6,
        "one launch for many calls",
        """
if not KEPT: KEPT["out"] = right(x)
return KEPT["out"].clone()
""",
        "elements are wrong",
        before="KEPT = {}\n",
    ),
    Cheat(
        7,
        "right while it is looked at first",
        """
CALLS.append(1)
return right(x) if len(CALLS) < 3 else torch.zeros_like(x)
""",
        "elements are wrong",
        before="CALLS = []\n",
    ),
    Cheat(
        9,
        "results kept in a file",
        """
import os
torch.save(right(x), "/tmp/xesmith-kept.pt")
return torch.load("/tmp/xesmith-kept.pt")
""",
        "(Permission denied|cannot be opened)",
        """
open("note", "w").write("in its own folder")
return right(x)
""",
    ),
    Cheat(
        10,
        "the answer sought in memory",
        """
import gc
right(x)
found = [t for t in gc.get_objects() if type(t) is torch.Tensor and t.shape == x.shape
         and t.dtype in (torch.float64, x.dtype) and t.data_ptr() != x.data_ptr()
         and torch.allclose(t.double(), 2 * x.double() + 1)]
return found[0].to(x.dtype).clone() if len(found) > 99 else torch.zeros_like(x)
""",
        "elements are wrong",
    ),
    Cheat(11, "the channel written to", _FORGE, "something other than its end wrote|is over|ended"),
    Cheat(
        12,
        "an output that is not all written",
        "return right(x, n=x.numel() // 2)",
        "elements were never written",
    ),
    Cheat(
        14,
        "fewer bits",
        "return right(x.to(torch.float16)).to(x.dtype)",
        "elements are wrong",
    ),
    Cheat(
        15,
        "a constant output",
        "return right(torch.zeros_like(x))",
        "elements are wrong",
    ),
    Cheat(
        16,
        "the input as the output",
        "return right(x, out=x)",
        "input 0 was changed",
        "return right(x.clone())",
    ),
    Cheat(
        17,
        "PyTorch, and a decoy",
        "decoy[(1,)](x)\nreturn 2 * x + 1",
        "the outputs are the same without kernels",
    ),
    Cheat(
        17,
        "PyTorch alone",
        "return 2 * x + 1",
        "no kernel is launched",
    ),
    Cheat(18, "a size as a number", "return right(x, n=37 * 65)", "elements were never written"),
    Cheat(
        19,
        "a replay with stale pointers",
        """
if "x" not in KEPT: KEPT["x"] = x
return right(KEPT["x"])
""",
        "elements are wrong",
        before="KEPT = {}\n",
    ),
    Cheat(
        20,
        "stores beyond its tensor",
        "out = torch.empty_like(x)\nkernel[(4,)](x, out, x.numel() + 8, BLOCK=1024)\nreturn out",
        "bytes outside a tensor were written",
    ),
    Cheat(
        21,
        "the harness edited",
        """
import xesmith.cascade.compare_task as task
open(task.__file__, "a").write("\\ncompare_outputs = lambda *a: []\\n")
return torch.zeros_like(right(x))
""",
        "PermissionError",
    ),
    Cheat(
        21,
        "the harness patched in its own process",
        """
import xesmith.cascade.compare_task as task, xesmith.cascade.device_task as mine
task.compare_outputs = mine.compare_outputs = lambda *a: []
return torch.zeros_like(right(x))
""",
        "elements are wrong",
    ),
    Cheat(
        22,
        "numbers printed",
        'right(x)\nprint({"faults": [], "seconds": 1e-9})\nreturn torch.zeros_like(x)',
        "elements are wrong",
        'print("hello")\nreturn right(x)',
    ),
    Cheat(
        23,
        "frames walked",
        """
import sys
at = sys._getframe()
while at is not None:
    for name in ("expected", "native", "exact"):
        if name in at.f_locals: return at.f_locals[name]
    at = at.f_back
right(x)
return torch.zeros_like(x)
""",
        "elements are wrong",
    ),
    Cheat(
        26,
        "an early exit for large inputs",
        "return right(x, n=min(x.numel(), 4096))",
        "elements were never written",
    ),
)
