"""The noun Draft: a kernel file with what the stages have made of its kernels so far.

A rewrite that holds for every input replaces its kernel where it stands. One that assumes
something becomes a variant: a kernel of its own, launched by the launch plan where the guards
hold; any other input takes the original path.

A model answers with kernels and a launch plan of its own. They are what is `given`: rules go on
from them as from the file's kernels, and a variant of an added kernel is launched by an
alternative before the one that launches the kernel itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import libcst as cst

from xesmith.kernel_file import JitFunction, KernelFile
from xesmith.launch_plan import (
    Alternative,
    LaunchPlan,
    Options,
    PlanError,
    PlannedLaunch,
    PointerChoice,
    Rebinding,
    read,
    render,
)
from xesmith.launch_plan.render import combined_file, names_taken, tidy
from xesmith.pass_plan import NO_PASSES, PassPlan
from xesmith.stages.rewrites.autotuning import without_autotune
from xesmith.stages.rewrites.result import Rewrite
from xesmith.stages.translation import Translation, guard_of, names_in, parts_of, substituted

#: what a variant's kernels are called: <kernel>_<suffix>, and a number where that is taken
VARIANT_SUFFIX = "xs"
DESCRIPTOR_SUFFIX = "descriptor"

_JIT = "write the decorator triton.jit, with the file's own name for triton"

Backend = Literal["xpu", "cuda"]


@dataclass(frozen=True)
class Variant:
    """A kernel that stands in for `kernel` where its guards hold.

    source, descriptor_source: a jit function of the kernel's own name and parameters.
    guard: expressions over the kernel's parameters; a name in `metas` has its value there.
    grid, original_grid: of this variant, and what is understood to be passed, over the kernel's
        parameters. None, of a kernel that the given plan launches: as the plan says.
    metas, options: what the launch passes beside or instead of the caller's.
    tuned: the kernel is autotuned, and its decorator supplies what these would.
    """

    kernel: str
    source: str
    grid: tuple[int | str, ...] | None
    original_grid: tuple[int | str, ...] | None
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
        return guard_of(substituted(part, metas) for part in dict.fromkeys(self.guard))


@dataclass(frozen=True)
class Draft:
    """A candidate in the making. `text` is the file that is judged.

    `backend` is that of the device it is made for: elsewhere its variants are not launched.
    edits: new sources, in the place where they stand, by name: of the file's regions and of what
        is given.
    given, given_plan: jit functions and constants that a model has added, by name, and its plan.
    variants: by the kernel that they stand in for, of the file or given.
    passes: what is done to the TTIR of launched kernels; no part of the text.
    """

    kernel_file: KernelFile
    backend: Backend | None = None
    edits: Mapping[str, str] = field(default_factory=dict[str, str])
    variants: Mapping[str, Variant] = field(default_factory=dict[str, Variant])
    given: Mapping[str, str] = field(default_factory=dict[str, str])
    given_plan: LaunchPlan = field(default_factory=LaunchPlan)
    passes: PassPlan = NO_PASSES

    @classmethod
    def of_file(cls, kernel_file: KernelFile, text: str, backend: Backend | None) -> Draft:
        """The draft of a file as it was given. What an earlier run has added to it is `given`;
        a block that is not what its own plan generates is left out, as it can't be taken apart.
        """
        try:
            rendered = read(text, kernel_file.path)
        except PlanError:
            return cls(kernel_file, backend)
        names = ((_defined(ast.parse(source).body[0]), source) for source in rendered.added_kernels)
        given = {name: source for name, source in names if name is not None}
        return cls(kernel_file, backend, given=given, given_plan=rendered.plan)

    # -- kernels --------------------------------------------------------------------------------

    def kernels(self) -> dict[str, str]:
        """Source of all that may change, as it stands in the file: the file's own jit functions
        and mutable constants, then what was added, by the names there."""
        regions = {name: self._original(name) for name in self.kernel_file.regions}
        return {**regions, **self.changed_kernels()}

    def changed_kernels(self) -> dict[str, str]:
        """Of these, what is not the author's: edits in their places, and what was added."""
        return {**self._file_edits, **self.added}

    @cached_property
    def added(self) -> dict[str, str]:
        """What the block defines: of the given, what is launched or called, then the variants."""
        given = {name: self.edits.get(name, source) for name, source in self.given.items()}
        sources = {**given, **self._variant_sources}
        roots = {name for launch in _launches(self.plan) for name in _forms(launch.kernel)}
        roots |= {name for source in self._file_edits.values() for name in _names_read(source)}
        reached: set[str] = set()
        while roots:
            name = roots.pop()
            if name in sources and name not in reached:
                reached.add(name)
                roots |= _names_read(sources[name])
        return {name: source for name, source in sources.items() if name in reached}

    @cached_property
    def jit_functions(self) -> tuple[JitFunction, ...]:
        """Those of the file and the given ones, as they were before the rules changed them."""
        file, given = self.kernel_file, [*self.given.values()]
        return (combined_file(file, file.text, given) if given else file).jit_functions

    def jit(self, kernel: str) -> JitFunction:
        """The jit function of that name, of the file or given. Raises UsageError without one."""
        known = {function.name: function for function in self.jit_functions}
        return known[kernel] if kernel in known else self.kernel_file.jit(kernel)

    def source_of(self, kernel: str) -> str:
        """The jit function that runs on the fast path."""
        if kernel in self.variants:
            return self.variants[kernel].source
        return self.edits.get(kernel) or self.jit(kernel).source

    def launched_name(self, kernel: str) -> str:
        """What the kernel's fast path is called in the file."""
        return self._variant_names.get(kernel, kernel)

    def kernel_of(self, launched: str) -> str:
        """The kernel, of the file or given, that a launched one is, or is a variant of."""
        for kernel, name in self._variant_names.items():
            if launched in (name, f"{name}_{DESCRIPTOR_SUFFIX}"):
                return kernel
        for launch in _launches(self.given_plan):
            forms = _forms(launch.kernel)
            if launched in forms:
                return forms[0]
        return launched

    def launched_forms(self, kernel: str) -> list[str]:
        """The names under which the given plan launches a kernel itself."""
        forms = (_forms(launch.kernel) for _, launch in self.planned(kernel))
        return list(dict.fromkeys(name for names in forms for name in names))

    def is_planned(self, kernel: str) -> bool:
        """Whether the given plan launches the kernel."""
        return any(_forms(launch.kernel)[0] == kernel for launch in _launches(self.given_plan))

    def planned(self, kernel: str) -> list[tuple[Alternative, PlannedLaunch]]:
        """Where the given plan launches the kernel on this draft's device."""
        return [
            (alternative, launch)
            for rebinding in self.given_plan.rebindings
            for alternative in rebinding.alternatives
            if self._is_for_us(alternative)
            for launch in alternative.launches
            if _forms(launch.kernel)[0] == kernel
        ]

    # -- changes --------------------------------------------------------------------------------

    def with_edit(self, kernel: str, source: str) -> Draft:
        """With another source for a kernel in the place where it stands."""
        return replace(self, edits={**self.edits, kernel: source})

    def with_variant(self, variant: Variant) -> Draft:
        """With a variant of a kernel, whose passes are dropped: they were for its launches as
        they had been, which get another name or grid."""
        name = self.launched_name(variant.kernel)
        old = (variant.kernel, name, f"{name}_{DESCRIPTOR_SUFFIX}")
        variants = {**self.variants, variant.kernel: variant}
        return replace(self, variants=variants, passes=self.passes.without(old))

    def with_passes(self, passes: PassPlan) -> Draft:
        return replace(self, passes=passes)

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
        grid: tuple[int | str, ...] | None,
        configuration: Mapping[str, Any] | None = None,
    ) -> Variant:
        """A variant of `kernel` that is launched as the kernel itself is.

        `configuration`: of the kernel's own autotune decorator, which the variant is without.
        """
        variant = Variant(
            kernel, self.source_of(kernel), grid, grid, descriptor_source=self._descriptor(kernel)
        )
        if configuration is None:
            return variant
        parameters = self.jit(kernel).parameter_names
        descriptor = variant.descriptor_source
        return replace(
            variant,
            source=without_autotune(variant.source),
            descriptor_source=None if descriptor is None else without_autotune(descriptor),
            metas={k: v for k, v in configuration.items() if k in parameters},
            options={k: v for k, v in configuration.items() if k in Options.model_fields},
        )

    def with_kernels(self, sources: Mapping[str, str], plan: LaunchPlan | None) -> Draft:
        """The draft with a model's answer. No passes are kept: its launches are others.

        Args:
            sources: definitions by name. A jit function or mutable constant of the file is
                replaced in place; any other name is added to the block, or replaces what was
                added under it.
            plan: the whole launch plan; None keeps the one that there is. An alternative that
                names no backend gets the draft's. Of a kernel in two pointer forms of which only
                one is new, the other is left out.

        Raises:
            PlanError: a source or the plan cannot be used, or nothing launches or calls a kernel
                that was added; it says where and why.
        """
        edits, changed = self._file_edits, dict[str, str]()
        for name, source in sources.items():
            text = tidy(source)
            _check_defines(name, text)
            self._check_fits(name, text)
            if name not in self.kernel_file.regions:
                if text != self.added.get(name):
                    changed[name] = text
            elif text == tidy(self._original(name)):
                edits.pop(name, None)
            else:
                edits[name] = text
        if plan is None and not changed.keys() & self._variant_sources.keys():
            kept = {k: v for k, v in self.edits.items() if k in self.given and k not in changed}
            given = _constants_first({**self.given, **changed})
            made = replace(self, edits={**edits, **kept}, given=given, passes=NO_PASSES)
        else:
            plan = self.plan if plan is None else self._with_backend(plan)
            plan = _without_old_forms(plan, changed, self.added)
            given = _constants_first({**self.added, **changed})
            made = replace(
                self, edits=edits, variants={}, given=given, given_plan=plan, passes=NO_PASSES
            )
        made._check_use_of(changed)
        read(made.text, self.kernel_file.path)
        if made.variants:  # one may stand in for a kernel that is not launched itself
            return made
        return replace(made, given={k: v for k, v in made.given.items() if k in made.added})

    # -- the file -------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> LaunchPlan:
        """The launch plan as rendered.

        Raises:
            PlanError: a variant's guard or grid cannot be said where the given plan launches it.
        """
        rebindings = [self._with_variants(rebinding) for rebinding in self.given_plan.rebindings]
        rebindings += [
            self._rebinding(variant)
            for variant in self.variants.values()
            if not self.is_planned(variant.kernel)
        ]
        return LaunchPlan(rebindings=rebindings)

    @cached_property
    def text(self) -> str:
        """The whole file. Raises PlanError where the plan does not fit the file."""
        return render(self.kernel_file, self._file_edits, [*self.added.values()], self.plan)

    @cached_property
    def given_text(self) -> str:
        """The file without variants: what a given plan launches by itself."""
        return replace(self, variants={}).text

    @property
    def _file_edits(self) -> dict[str, str]:
        regions = self.kernel_file.regions
        return {name: source for name, source in self.edits.items() if name in regions}

    def _original(self, name: str) -> str:
        span, file = self.kernel_file.regions[name], self.kernel_file
        for function in file.jit_functions:
            if function.name == name:
                return function.source
        return file.text.encode()[span.start : span.end].decode()

    def _check_use_of(self, sources: Mapping[str, str]) -> None:
        """Raises PlanError where one of the given functions is no kernel, or of no use."""
        jit = {function.name for function in self.jit_functions}
        for name in (name for name, source in sources.items() if not _is_constant(source)):
            if name not in jit:
                raise PlanError(
                    f"'{name}' is no jit function", where=f"source of '{name}'", remedy=_JIT
                )
            if name not in self.added:
                raise PlanError(
                    f"nothing launches or calls '{name}'",
                    where=f"added kernel '{name}'",
                    remedy="launch it from the launch plan, or give it the name of the kernel of "
                    "the file that it is to replace in place",
                )

    def _check_fits(self, name: str, source: str) -> None:
        if name in self.kernel_file.regions:
            was_constant = all(f.name != name for f in self.kernel_file.jit_functions)
            if was_constant != _is_constant(source):
                kind = "constant" if was_constant else "jit function"
                raise PlanError(f"'{name}' is a {kind} of the file", where=f"source of '{name}'")
        elif name in names_taken(self.kernel_file):
            raise PlanError(
                f"the name '{name}' is taken in the file",
                where=f"added kernel '{name}'",
                remedy="rename it; these can be replaced in place: "
                + ", ".join(self.kernel_file.regions),
            )

    def _is_for_us(self, alternative: Alternative) -> bool:
        return self.backend is None or alternative.backend in (None, self.backend)

    def _with_backend(self, plan: LaunchPlan) -> LaunchPlan:
        def of(alternative: Alternative) -> Alternative:
            backend = alternative.backend or self.backend
            return alternative.model_copy(update={"backend": backend})

        return LaunchPlan(
            rebindings=[
                item.model_copy(update={"alternatives": [of(a) for a in item.alternatives]})
                for item in plan.rebindings
            ]
        )

    # -- variants -------------------------------------------------------------------------------

    @cached_property
    def _variant_names(self) -> dict[str, str]:
        """By kernel, what its variant is called in the file."""
        taken = {*self.kernel_file.names, *self.given}
        names: dict[str, str] = {}
        for kernel in self.variants:
            stem = re.sub(rf"_{VARIANT_SUFFIX}\d*$", "", kernel) if kernel in self.given else kernel
            name, number = f"{stem}_{VARIANT_SUFFIX}", 2
            while name in taken:
                name, number = f"{stem}_{VARIANT_SUFFIX}{number}", number + 1
            taken |= {name, f"{name}_{DESCRIPTOR_SUFFIX}"}
            names[kernel] = name
        return names

    @cached_property
    def _variant_sources(self) -> dict[str, str]:
        """What the variants are rendered to, by name."""
        sources: dict[str, str] = {}
        for kernel, variant in self.variants.items():
            name = self._variant_names[kernel]
            sources[name] = tidy(renamed(variant.source, kernel, name))
            if variant.descriptor_source is not None:
                name = f"{name}_{DESCRIPTOR_SUFFIX}"
                sources[name] = tidy(renamed(variant.descriptor_source, kernel, name))
        return sources

    def _descriptor(self, kernel: str) -> str | None:
        """The other form of a kernel that the given plan launches in two, under its name."""
        for _, launch in self.planned(kernel):
            forms = _forms(launch.kernel)
            if len(forms) == 2:
                return renamed(self.source_of(forms[1]), forms[1], kernel)
        return None

    def _choice(self, variant: Variant) -> str | PointerChoice:
        name = self._variant_names[variant.kernel]
        if variant.descriptor_source is None:
            return name
        return PointerChoice(block_pointer=name, descriptor=f"{name}_{DESCRIPTOR_SUFFIX}")

    def _rebinding(self, variant: Variant) -> Rebinding:
        """Of a kernel of the file that wrappers launch."""
        assert variant.grid is not None
        assert variant.original_grid is not None
        return Rebinding(
            kind="kernel",
            name=variant.kernel,
            original_grid=list(variant.original_grid),
            alternatives=[
                Alternative(
                    guard=variant.planned_guard(),
                    backend=self.backend,
                    launches=[
                        PlannedLaunch(
                            kernel=self._choice(variant),
                            grid=list(variant.grid),
                            metas={} if variant.tuned else variant.metas,
                            options=Options(**({} if variant.tuned else variant.options)),
                            inherit_options=variant.inherit_options,
                        )
                    ],
                )
            ],
        )

    def _with_variants(self, rebinding: Rebinding) -> Rebinding:
        """A given rebinding, with alternatives that launch the variants of what it launches."""
        alternatives: list[Alternative] = []
        for alternative in rebinding.alternatives:
            variants = [self.variants.get(_forms(x.kernel)[0]) for x in alternative.launches]
            if not any(variants) or not self._is_for_us(alternative):
                alternatives.append(alternative)
                continue
            better = self._with_stand_ins(rebinding, alternative, variants)
            alternatives.append(better)
            if better.guard != guard_of(parts_of(alternative.guard)) or any(
                _pointer_apis(variant.source) != _pointer_apis(self.jit(variant.kernel).source)
                for variant in variants
                if variant is not None
            ):
                alternatives.append(alternative)
        return rebinding.model_copy(update={"alternatives": alternatives})

    def _with_stand_ins(
        self, rebinding: Rebinding, old: Alternative, variants: Sequence[Variant | None]
    ) -> Alternative:
        """The alternative with variants instead of what it launches, and their guards."""
        if rebinding.kind == "kernel":
            caller, owner = self.kernel_file.jit(rebinding.name).parameter_names, None
        else:
            wrapper = self.kernel_file.wrapper(rebinding.name)
            caller = tuple(parameter.name for parameter in wrapper.parameters)
            owner = caller[0] if "." in rebinding.name and caller else None
        launches: list[PlannedLaunch] = []
        parts = parts_of(old.guard)
        for launch, variant in zip(old.launches, variants, strict=True):
            if variant is None:
                launches.append(launch)
                continue
            translation = Translation.of(self.jit(variant.kernel), launch, old, caller, owner)
            new, conditions = _stand_in(launch, variant, self._choice(variant), translation)
            launches.append(new)
            parts += conditions
        before, after = (self._used(xs, caller) for xs in (old.launches, launches))
        return old.model_copy(
            update={
                "guard": guard_of(parts),
                "launches": launches,
                "dropped": [*old.dropped, *(n for n in caller if n in before - after)],
            }
        )

    def _used(self, launches: Sequence[PlannedLaunch], caller: Sequence[str]) -> set[str]:
        """The caller's names that the launches use, in expressions or by name."""
        used: set[str] = set()
        for launch in launches:
            stated = {**launch.args, **launch.metas}
            used |= names_in(stated.values()) | (names_in(launch.grid) - launch.metas.keys())
            kernel = self.kernel_of(_forms(launch.kernel)[0])
            used |= set(self.jit(kernel).parameter_names) - stated.keys()
        return used & set(caller)


def renamed(source: str, kernel: str, name: str) -> str:
    """The jit function `kernel` under another name."""
    module = cst.parse_module(source)
    body = [
        item.with_changes(name=cst.Name(name))
        if isinstance(item, cst.FunctionDef) and item.name.value == kernel
        else item
        for item in module.body
    ]
    return module.with_changes(body=body).code


def _stand_in(
    launch: PlannedLaunch,
    variant: Variant,
    kernel: str | PointerChoice,
    translation: Translation,
) -> tuple[PlannedLaunch, list[str]]:
    """A given launch with a variant instead of its kernel, and what must hold for it."""
    grid, conditions = list(launch.grid), list[str]()
    if variant.original_grid is not None:
        conditions = translation.grid_conditions(grid, variant.original_grid, launch.metas)
    translation = (
        translation.without(variant.metas) if variant.tuned else translation.at(variant.metas)
    )
    for part in variant.guard:
        conditions += translation.conditions(part)
    if variant.grid is not None:
        metas = {*launch.metas, *variant.metas}
        grid = [translation.size(size, metas) for size in variant.grid]
    stated = {} if variant.tuned else variant.metas
    options = {} if variant.tuned else variant.options
    own = launch.options.model_dump(exclude_none=True)
    new = PlannedLaunch(
        kernel=kernel,
        grid=list(grid),
        args={k: v for k, v in launch.args.items() if k not in variant.metas},
        metas={**{k: v for k, v in launch.metas.items() if k not in variant.metas}, **stated},
        options=Options(**{**({} if variant.tuned else own), **options}),
        inherit_options=launch.inherit_options and variant.inherit_options,
    )
    return new, conditions


def _launches(plan: LaunchPlan) -> list[PlannedLaunch]:
    return [x for item in plan.rebindings for a in item.alternatives for x in a.launches]


def _forms(kernel: str | PointerChoice) -> list[str]:
    """The names of a launched kernel; the block pointer form first."""
    if isinstance(kernel, str):
        return [kernel]
    return [name for name in (kernel.block_pointer, kernel.descriptor) if name is not None] or [""]


def _pointer_apis(source: str) -> set[str]:
    return {name for name in ("make_block_ptr", "make_tensor_descriptor") if name in source}


def _without_old_forms(
    plan: LaunchPlan, changed: Mapping[str, str], before: Mapping[str, str]
) -> LaunchPlan:
    """The plan without the form of a kernel that stayed as it was where the other is new: only
    one of them is compiled and judged, and they need to compute the same."""

    def of(launch: PlannedLaunch) -> PlannedLaunch:
        old = [name for name in _forms(launch.kernel) if name in before and name not in changed]
        if isinstance(launch.kernel, str) or len(old) != 1:
            return launch
        kernel = {k: v for k, v in launch.kernel.model_dump().items() if v not in old}
        if not any(kernel.values()):
            return launch
        return launch.model_copy(update={"kernel": PointerChoice(**kernel)})

    def with_launches(alternative: Alternative) -> Alternative:
        return alternative.model_copy(update={"launches": [of(x) for x in alternative.launches]})

    return LaunchPlan(
        rebindings=[
            item.model_copy(update={"alternatives": [with_launches(a) for a in item.alternatives]})
            for item in plan.rebindings
        ]
    )


def _check_defines(name: str, source: str) -> None:
    """Raises PlanError where the source is anything but the one definition of `name`."""
    where = f"source of '{name}'"
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = error.msg if isinstance(error, SyntaxError) else "it cannot be parsed"
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise PlanError(f"syntax error: {message}", where=f"{where}{line}") from error
    found = _defined(body[0]) if len(body) == 1 else None
    if found != name:
        raise PlanError(
            f"it must be the definition of '{name}' alone",
            where=where,
            remedy="give each jit function and each constant under its own name",
        )
    if isinstance(body[0], ast.FunctionDef) and not body[0].decorator_list:
        raise PlanError(
            f"'{name}' is no jit function",
            where=where,
            remedy=_JIT,
        )


def _defined(statement: ast.stmt) -> str | None:
    match statement:
        case (
            ast.FunctionDef(name=name)
            | ast.Assign(targets=[ast.Name(id=name)])
            | ast.AnnAssign(target=ast.Name(id=name))
        ):
            return name
        case _:
            return None


def _is_constant(source: str) -> bool:
    return not isinstance(ast.parse(source).body[0], ast.FunctionDef)


def _constants_first(sources: Mapping[str, str]) -> dict[str, str]:
    """In an order in which decorators and defaults find the constants that they read."""
    return dict(sorted(sources.items(), key=lambda item: not _is_constant(item[1])))


def _names_read(source: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
