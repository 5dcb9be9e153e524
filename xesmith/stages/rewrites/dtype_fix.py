"""float64 inside a kernel -> float32, where no argument of it is float64."""

from __future__ import annotations

import libcst as cst
from libcst import matchers as m

from xesmith.stages.rewrites.edits import Edits
from xesmith.stages.rewrites.result import KernelFacts, Refusal, Rewrite
from xesmith.stages.rewrites.symbolic import parse_kernel

#: largest and smallest magnitudes that float32 holds at full precision
FLOAT32_MAX, FLOAT32_MIN = 3.4028234663852886e38, 1.1754943508222875e-38


def dtype_fix(source: str, facts: KernelFacts) -> Rewrite | Refusal:
    """Accumulate and compute in float32 what the kernel computes in float64.

    Refused where an argument is float64: then the precision may be what was asked for. A
    guard on the element types keeps other calls on the original path. The result differs in
    rounding, so the correctness check has the last word.
    """
    parsed = parse_kernel(source)
    if isinstance(parsed, Refusal):
        return parsed
    module, function = parsed
    if not facts.launches:
        return Refusal("no captured launch: the types of the kernel's arguments are not known")
    kinds = [pair for launch in facts.launches for pair in launch.signature.items()]
    tensors = list(dict.fromkeys(name for name, _ in kinds if facts.tensors(name)))
    wide = [n for n in tensors if any(t.dtype == "float64" for t in facts.tensors(n))]
    if wide:
        return Refusal(f"{', '.join(wide)} of the launch is float64: the precision may be meant")
    wide = [name for name, kind in kinds if kind == "fp64"]
    if wide:
        return Refusal(f"the scalar {wide[0]} of the launch is float64")

    literals = [
        cst.ensure_type(node, cst.Float).evaluated_value for node in m.findall(function, m.Float())
    ]
    beyond = [v for v in literals if v != 0.0 and not FLOAT32_MIN <= abs(v) <= FLOAT32_MAX]
    if beyond:
        return Refusal(f"the constant {beyond[0]} does not fit in float32")

    edits = Edits()
    for node in m.findall(function, _FLOAT64):
        edits.replace[node] = _float32
    if not edits.replace:
        return Refusal("no float64 in the kernel's text")
    lines = _lines(module, facts)
    notes = tuple(f"line {line}: float64 -> float32" for line in lines)
    guards: list[str] = []
    for name in tensors:
        seen = sorted({tensor.dtype for tensor in facts.tensors(name)})
        same = f"== '{seen[0]}'" if len(seen) == 1 else f"in {tuple(seen)}"
        guards.append(f"{name}.dtype {same}")
    return Rewrite(edits.apply(module).code, tuple(guards), notes)


_FLOAT64 = m.Attribute(
    value=m.Name("tl") | m.Attribute(value=m.Name("triton"), attr=m.Name("language")),
    attr=m.Name("float64"),
)


def _float32(node: cst.CSTNode) -> cst.CSTNode:
    return cst.ensure_type(node, cst.Attribute).with_changes(attr=cst.Name("float32"))


def _lines(module: cst.Module, facts: KernelFacts) -> list[int]:
    return [
        number + facts.first_line
        for number, text in enumerate(module.code.splitlines())
        if "tl.float64" in text or "triton.language.float64" in text
    ]
