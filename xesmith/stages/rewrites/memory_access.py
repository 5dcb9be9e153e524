"""Needless masks, selections, wraps and 64-bit offsets, each dropped behind a guard."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
from libcst import matchers as m

from xesmith.stages.rewrites.analysis import Analysis, Loop, Selection
from xesmith.stages.rewrites.edits import Edits, drop_dead_assignments
from xesmith.stages.rewrites.poly import ONE
from xesmith.stages.rewrites.proofs import Proofs
from xesmith.stages.rewrites.result import KernelFacts, Refusal, Rewrite, guard_holds
from xesmith.stages.rewrites.symbolic import analyse
from xesmith.stages.rewrites.values import Affine, Mask, Value

#: offsets below this fit in 32 bits
MAX_OFFSET = 1 << 31


def memory_access(source: str, facts: KernelFacts) -> Rewrite | Refusal:
    """Drop masks, `tl.where` and `% M` that divisibility makes needless, and 64-bit offsets.

    A mask goes whole or stays whole. What stays is named in the notes with the reason.
    """
    analysis = analyse(source, facts)
    if isinstance(analysis, Refusal):
        return analysis
    edits = Edits()
    guards: list[str] = []
    notes: list[str] = []
    kept: list[Refusal] = []
    proofs = Proofs(analysis, facts)
    for access in analysis.accesses:
        if access.mask is None:
            continue
        found = _needless_mask(proofs, access.mask, access.loops)
        if isinstance(found, str):
            kept.append(Refusal(f"the mask of the {access.op} stays: {found}", access.line))
            continue
        guards += found
        notes.append(f"line {access.line}: {access.op} without mask")
        edits.replace[access.node] = _without("mask", "other")
    for selection in analysis.selections:
        found = _needless_selection(proofs, selection, facts)
        if isinstance(found, str):
            kept.append(Refusal(f"tl.where stays: {found}", selection.line))
            continue
        guards += found
        notes.append(f"line {selection.line}: tl.where whose condition always holds")
        edits.replace[selection.node] = _second_argument
    for wrap in analysis.wraps:
        guard = proofs.inside(wrap.index.start, wrap.index.length, wrap.modulus, wrap.loops)
        if guard is None:
            bound = wrap.modulus.source()
            kept.append(Refusal(f"`% {bound}` stays: it may wrap in a captured launch", wrap.line))
            continue
        guards += [guard] if guard else []
        notes.append(f"line {wrap.line}: index without `% {wrap.modulus.source()}`")
        edits.replace[wrap.node] = _left_side
    if analysis.wide_casts:
        found = _narrow(analysis, facts)
        if isinstance(found, str):
            kept.append(Refusal(f"64-bit offsets stay: {found}", analysis.wide_casts[0].line))
        else:
            guards += found
            for wide in analysis.wide_casts:
                notes.append(f"line {wide.line}: 32-bit offset")
                edits.replace[wide.node] = _inner_of_cast
    notes += [f"line {refusal.line}: {refusal.reason}" for refusal in kept]
    if not edits.replace:
        if kept:
            reasons = "; ".join(f"line {r.line}: {r.reason}" for r in kept)
            return Refusal(f"nothing could be dropped: {reasons}", kept[0].line)
        return Refusal("no mask, no `%` and no 64-bit offset")
    module = drop_dead_assignments(edits.apply(analysis.module), analysis.module)
    return Rewrite(module.code, tuple(dict.fromkeys(guards)), tuple(notes))


def _needless_selection(
    proofs: Proofs, selection: Selection, facts: KernelFacts
) -> list[str] | str:
    """As `_needless_mask`; besides, shape and type of the result must be those of the value."""
    mask, shape = selection.mask, selection.shape
    if len(shape) != mask.rank or ONE in shape:
        return "it may widen the value"
    if any(shape[c.axis] != c.index.length for c in mask.conditions):
        return "it may widen the value"
    if not m.matches(selection.node.args[2].value, _A_NUMBER):
        return "what it selects instead may widen the type"
    kinds = [kind for launch in facts.launches for kind in launch.signature.values()]
    if any(kind.startswith(("*i", "*u")) for kind in kinds):
        return "integers may become floating-point numbers by it"
    return _needless_mask(proofs, mask, selection.loops)


_INFINITY = m.Call(func=m.Name("float"), args=[m.Arg(m.SimpleString())])
_A_NUMBER = (
    m.Float()
    | m.Integer()
    | _INFINITY
    | m.UnaryOperation(operator=m.Minus(), expression=m.Float() | m.Integer() | _INFINITY)
)


def _needless_mask(proofs: Proofs, mask: Value | None, loops: tuple[Loop, ...]) -> list[str] | str:
    """The guards under which every element of the mask is true, or why there are none."""
    if not isinstance(mask, Mask) or mask.opaque is not None:
        return "it is not a conjunction of bounds of indices"
    guards: list[str] = []
    for condition in mask.conditions:
        index = condition.index
        # the counter may stand on either side of the comparison: i < K - k * BLOCK_K
        moved = [loop.counter for loop in loops if loop.counter in condition.bound.atoms]
        start, bound = index.start.narrow(), condition.bound.narrow()
        for counter in moved:
            ahead, _ = bound.split(lambda monomial, c=counter: c in monomial)
            start, bound = start - ahead, bound - ahead
        guard = proofs.inside(start, index.length, bound, loops)
        if guard is None:
            return (
                f"`{bound.source()}` is not shown to bound each tile of `{index.length.source()}` "
                "at every captured launch"
            )
        guards += [guard] if guard else []
    return guards


def _narrow(analysis: Analysis, facts: KernelFacts) -> list[str] | str:
    """Guards that each offset fits in 32 bits, for every tensor whose address is 64 bits wide."""
    names: list[str] = []
    for access in analysis.accesses:
        pointer = access.pointer
        if not isinstance(pointer, Affine) or pointer.base is None:
            return f"the address at line {access.line} is not understood"
        polys = (pointer.scalar, *(term.index.start for term in pointer.terms))
        wide = any(atom.wide for poly in polys for atom in poly.atoms)
        if wide and pointer.base not in names:
            names.append(pointer.base)
    guards: list[str] = []
    for name in names:
        ranks = {len(tensor.shape) for tensor in facts.tensors(name)}
        if len(ranks) != 1:
            return f"{name} is not one kind of tensor in the captured launches"
        guard = last_offset_guard(name, ranks.pop())
        if not any(guard_holds(guard, launch) for launch in facts.launches):
            shapes = " or ".join(sorted({str(tensor.shape) for tensor in facts.tensors(name)}))
            return f"{name} of shape {shapes} reaches past 2^31 elements"
        guards.append(guard)
    return guards


def last_offset_guard(tensor: str, rank: int) -> str:
    """That the offset of the tensor's last element, in elements, fits in 32 bits."""
    terms = [f"({tensor}.shape[{i}] - 1) * {tensor}.stride[{i}]" for i in range(rank)]
    return f"{tensor}.ndim == {rank} and {' + '.join(terms) or '0'} < {MAX_OFFSET}"


def _without(*names: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """The call without those arguments, given by name or by place."""
    places = {"load": {1: "mask", 2: "other"}, "store": {2: "mask"}}

    def replacement(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        function = cst.ensure_type(call.func, cst.Attribute).attr.value
        kept: list[cst.Arg] = []
        for position, argument in enumerate(call.args):
            name = argument.keyword.value if argument.keyword else places[function].get(position)
            if name not in names:
                kept.append(argument)
        last = kept[-1].with_changes(
            comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace("")
        )
        return call.with_changes(args=[*kept[:-1], last])

    return replacement


def _second_argument(node: cst.CSTNode) -> cst.CSTNode:
    value = cst.ensure_type(node, cst.Call).args[1].value
    if isinstance(value, cst.Name | cst.Call | cst.Attribute | cst.Subscript) or value.lpar:
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _left_side(node: cst.CSTNode) -> cst.CSTNode:
    operation = cst.ensure_type(node, cst.BinaryOperation)
    left = operation.left
    if operation.lpar and not left.lpar and isinstance(left, cst.BinaryOperation):
        return left.with_changes(lpar=operation.lpar, rpar=operation.rpar)
    return left


def _inner_of_cast(node: cst.CSTNode) -> cst.CSTNode:
    call = cst.ensure_type(node, cst.Call)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "to":
        return call.func.value
    return call.args[0].value
