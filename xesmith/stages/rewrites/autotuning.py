"""Writes `@triton.autotune` over a kernel with the configurations that the evidence ranked."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst
from libcst import matchers as m

from xesmith.stages.rewrites.analysis import Analysis
from xesmith.stages.rewrites.edits import Edits
from xesmith.stages.rewrites.gpu_specific import Configuration
from xesmith.stages.rewrites.result import KernelFacts, Refusal, Rewrite, guard_holds
from xesmith.stages.rewrites.roles import roles_of
from xesmith.stages.rewrites.symbolic import analyse


def autotuning(
    source: str,
    facts: KernelFacts,
    configurations: Sequence[Configuration],
    *,
    guards: Sequence[str] = (),
) -> Rewrite | Refusal:
    """The kernel under `@triton.autotune`; the launch no longer passes what a configuration sets.

    guards: of the path so far; those over a tuned constexpr come back once per value that it
        takes, so that every configuration is as safe as the one that was judged.
    """
    if not configurations:
        return Refusal("no configuration to tune over")
    analysis = analyse(source, facts)
    if isinstance(analysis, Refusal):
        return analysis
    if _is_tuned(analysis.function):
        return Refusal(
            "the kernel has an autotune decorator already", analysis.lines[analysis.function]
        )
    names = list(dict.fromkeys(name for c in configurations for name in c.metas))
    unknown = [name for name in names if name not in analysis.constexprs]
    if unknown:
        return Refusal(f"{', '.join(unknown)} is no constexpr of the kernel")
    missing = [c for c in configurations if c.metas.keys() != configurations[0].metas.keys()]
    if missing:
        return Refusal("the configurations set different constexprs")

    key = _key(analysis, facts)
    if not key:
        return Refusal("the kernel has no integer argument that tuning could be keyed by")
    restored = _restored(analysis)
    if isinstance(restored, Refusal):
        return restored
    edits = Edits()
    for parameter in _parameters(analysis.function):
        if parameter.name.value in names and parameter.default is not None:
            edits.replace[parameter] = _without_default
    written = edits.apply(analysis.module)
    function = next(n for n in written.body if isinstance(n, cst.FunctionDef))
    decorator = _decorator(configurations, key, restored)
    decorators = [*cst.ensure_type(decorator, cst.FunctionDef).decorators, *function.decorators]
    body = [
        node.with_changes(decorators=decorators) if node is function else node
        for node in written.body
    ]
    every = [_at(text, c.metas, facts) for c in configurations for text in guards]
    return Rewrite(
        written.with_changes(body=body).code,
        guard=tuple(dict.fromkeys(guard for guard in every if guard is not None)),
        notes=(f"tuned over {len(configurations)} configurations, key {', '.join(key)}",),
    )


def _at(guard: str, metas: dict[str, int], facts: KernelFacts) -> str | None:
    """The guard with a configuration's values; None where that leaves nothing to check."""
    text = re.sub(
        r"\b[A-Za-z_]\w*\b", lambda found: str(metas.get(found.group(), found.group())), guard
    )
    always = not re.search(r"[A-Za-z_]", text) and guard_holds(text, facts.launches[0])
    return None if always else text


def _decorator(
    configurations: Sequence[Configuration],
    key: Sequence[str],
    restored: Sequence[str],
) -> cst.BaseStatement:
    lines = ["@triton.autotune(", "    configs=["]
    for configuration in configurations:
        metas = dict[str, int | str](configuration.metas)
        if configuration.grf_mode is not None:
            metas["grf_mode"] = configuration.grf_mode
        inside = ", ".join(f'"{k}": {_literal(v)}' for k, v in metas.items())
        options = f"num_warps={configuration.num_warps}, num_stages={configuration.num_stages}"
        one = f"        triton.Config({{{inside}}}, {options}),"
        if len(one) > 96:
            lines += ["        triton.Config(", f"            {{{inside}}},"]
            lines += [f"            {options},", "        ),"]
        else:
            lines.append(one)
    lines += ["    ],", f"    key=[{', '.join(_literal(name) for name in key)}],"]
    if restored:
        lines.append(f"    restore_value=[{', '.join(_literal(name) for name in restored)}],")
    lines += [")", "def kernel(): ..."]  # a decorator parses only with a function below it
    return cst.parse_statement("\n".join(lines))


def _literal(value: int | str) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _is_tuned(function: cst.FunctionDef) -> bool:
    return any(m.findall(decorator, m.Name("autotune")) for decorator in function.decorators)


def _key(analysis: Analysis, facts: KernelFacts) -> list[str]:
    """Sizes: the bounds of tiles, else every integer argument that is no stride."""
    bounds = " ".join(t.bound or "" for t in roles_of(analysis, facts).tiles.values())
    integers = [
        name
        for name in analysis.parameters
        if name not in analysis.constexprs
        and all(type(launch.values.get(name)) is int for launch in facts.launches)
    ]
    named = [name for name in integers if re.search(rf"\b{name}\b", bounds)]
    return named or [name for name in integers if "stride" not in name.lower()]


def _restored(analysis: Analysis) -> list[str] | Refusal:
    """Tensors that a run changes and another run reads: accumulated or updated in place."""
    loaded = {touch.base for touch in analysis.touches if touch.op != "store"}
    written = [touch.base for touch in analysis.touches if touch.op != "load"]
    if (None in loaded and written) or None in written:
        return Refusal("an address is not understood, so what tuning must restore is not known")
    return [name for name in dict.fromkeys(written) if name is not None and name in loaded]


def without_autotune(source: str) -> str:
    """The kernel without its autotune decorator: launched with what one configuration says."""
    module = cst.parse_module(source)
    body = [
        node.with_changes(
            decorators=[d for d in node.decorators if not m.findall(d, m.Name("autotune"))]
        )
        if isinstance(node, cst.FunctionDef)
        else node
        for node in module.body
    ]
    return module.with_changes(body=body).code


def _parameters(function: cst.FunctionDef) -> list[cst.Param]:
    parameters = function.params
    return [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]


def _without_default(node: cst.CSTNode) -> cst.CSTNode:
    return cst.ensure_type(node, cst.Param).with_changes(
        default=None, equal=cst.MaybeSentinel.DEFAULT
    )
