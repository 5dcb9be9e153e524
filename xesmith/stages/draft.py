"""The noun Draft: a kernel file with what the stages have made of its kernels so far.

A rewrite that holds for every input replaces its kernel where it stands. One that assumes
something becomes a variant: a kernel of its own, launched by the launch plan where the guards
hold; any other input takes the original path.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import libcst as cst

from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import (
    Alternative,
    LaunchPlan,
    Options,
    PlannedLaunch,
    PointerChoice,
    Rebinding,
    render,
)
from xesmith.stages.rewrites.autotuning import without_autotune
from xesmith.stages.rewrites.result import Rewrite

#: what a variant's kernels are called: <kernel>_<suffix>
VARIANT_SUFFIX = "xs"
DESCRIPTOR_SUFFIX = "xs_descriptor"


@dataclass(frozen=True)
class Variant:
    """A kernel that stands in for `kernel` where its guards hold.

    source, descriptor_source: a jit function of the kernel's own name and parameters.
    guard: expressions over the kernel's parameters; a name in `metas` has its value there.
    grid, original_grid: of this variant, and what the wrapper is understood to pass.
    metas, options: what the launch passes beside or instead of the caller's.
    tuned: the kernel is autotuned, and its decorator supplies what these would.
    """

    kernel: str
    source: str
    grid: tuple[int | str, ...]
    original_grid: tuple[int | str, ...]
    descriptor_source: str | None = None
    guard: tuple[str, ...] = ()
    metas: dict[str, Any] = field(default_factory=dict[str, Any])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    tuned: bool = False
    inherit_options: bool = True

    def rewritten(self, rewrite: Rewrite) -> Variant:
        return replace(
            self,
            source=rewrite.kernel_source,
            descriptor_source=rewrite.descriptor_source or self.descriptor_source,
            guard=tuple(dict.fromkeys(self.guard + rewrite.guard)),
            metas={**self.metas, **rewrite.metas},
            grid=rewrite.grid or self.grid,
        )

    def planned_guard(self) -> str:
        """One expression over what the caller passes."""
        metas = {} if self.tuned else self.metas
        parts = [_substitute(part, metas) for part in dict.fromkeys(self.guard)]
        return " and ".join(f"({part})" for part in parts) if parts else "True"


@dataclass(frozen=True)
class Draft:
    """A candidate in the making. `text` is the file that is judged.

    `backend` is that of the device it is made for: elsewhere its variants are not launched.
    """

    kernel_file: KernelFile
    backend: Literal["xpu", "cuda"] | None = None
    edits: Mapping[str, str] = field(default_factory=dict[str, str])
    variants: Mapping[str, Variant] = field(default_factory=dict[str, Variant])

    def source_of(self, kernel: str) -> str:
        """The jit function that runs on the fast path."""
        if kernel in self.variants:
            return self.variants[kernel].source
        return self.edits.get(kernel) or self.kernel_file.jit(kernel).source

    def kernel_of(self, launched: str) -> str:
        """The kernel of the file that a launched one is, or is a variant of."""
        for kernel in self.variants:
            if launched in (f"{kernel}_{VARIANT_SUFFIX}", f"{kernel}_{DESCRIPTOR_SUFFIX}"):
                return kernel
        return launched

    def with_edit(self, kernel: str, source: str) -> Draft:
        return replace(self, edits={**self.edits, kernel: source})

    def with_variant(self, variant: Variant) -> Draft:
        return replace(self, variants={**self.variants, variant.kernel: variant})

    def with_rewrite(self, kernel: str, rewrite: Rewrite, base: Variant | None) -> Draft | None:
        """The draft with a rewrite of one kernel's fast path.

        `base`: the variant whose source was rewritten; None where there can be none, and then
        only a rewrite that always holds can be applied (None is returned for another).
        """
        if kernel not in self.variants and rewrite.holds_always:
            return self.with_edit(kernel, rewrite.kernel_source)
        return None if base is None else self.with_variant(base.rewritten(rewrite))

    def plain_variant(
        self,
        kernel: str,
        grid: tuple[int | str, ...],
        configuration: Mapping[str, Any] | None = None,
    ) -> Variant:
        """A variant of `kernel` that is launched as the kernel itself is.

        `configuration`: of the kernel's own autotune decorator, which the variant is without.
        """
        if configuration is None:
            return Variant(kernel, self.source_of(kernel), grid, grid)
        parameters = self.kernel_file.jit(kernel).parameter_names
        return Variant(
            kernel=kernel,
            source=without_autotune(self.source_of(kernel)),
            grid=grid,
            original_grid=grid,
            metas={k: v for k, v in configuration.items() if k in parameters},
            options={k: v for k, v in configuration.items() if k in Options.model_fields},
        )

    @cached_property
    def plan(self) -> LaunchPlan:
        return LaunchPlan(rebindings=[_rebinding(v, self.backend) for v in self.variants.values()])

    @cached_property
    def text(self) -> str:
        """The whole file. Raises PlanError where the plan does not fit the file."""
        added: list[str] = []
        for variant in self.variants.values():
            added.append(renamed(variant.source, variant.kernel, VARIANT_SUFFIX))
            if variant.descriptor_source is not None:
                added.append(renamed(variant.descriptor_source, variant.kernel, DESCRIPTOR_SUFFIX))
        return render(self.kernel_file, self.edits, added, self.plan)


def renamed(source: str, kernel: str, suffix: str) -> str:
    """The jit function `kernel` under the name `<kernel>_<suffix>`."""
    module = cst.parse_module(source)
    body = [
        item.with_changes(name=cst.Name(f"{kernel}_{suffix}"))
        if isinstance(item, cst.FunctionDef) and item.name.value == kernel
        else item
        for item in module.body
    ]
    return module.with_changes(body=body).code


def _rebinding(variant: Variant, backend: Literal["xpu", "cuda"] | None) -> Rebinding:
    name = f"{variant.kernel}_{VARIANT_SUFFIX}"
    kernel: str | PointerChoice = name
    if variant.descriptor_source is not None:
        kernel = PointerChoice(
            block_pointer=name, descriptor=f"{variant.kernel}_{DESCRIPTOR_SUFFIX}"
        )
    return Rebinding(
        kind="kernel",
        name=variant.kernel,
        original_grid=list(variant.original_grid),
        alternatives=[
            Alternative(
                guard=variant.planned_guard(),
                backend=backend,
                launches=[
                    PlannedLaunch(
                        kernel=kernel,
                        grid=list(variant.grid),
                        metas={} if variant.tuned else variant.metas,
                        options=Options(**({} if variant.tuned else variant.options)),
                        inherit_options=variant.inherit_options,
                    )
                ],
            )
        ],
    )


class _Substitute(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.values[node.id]) if node.id in self.values else node


def _substitute(expression: str, values: Mapping[str, Any]) -> str:
    return ast.unparse(_Substitute(values).visit(ast.parse(expression, mode="eval")))
