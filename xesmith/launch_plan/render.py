"""Writes an optimised file: the original text, edited regions, and one generated block.

The block holds the plan itself (JSON, in comments), the added kernels word for word, the few
helpers that it needs and one small function for each alternative. It imports nothing of xesmith.
`read` takes a rendered file apart again, and refuses one whose block was edited by hand.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import libcst as cst

from xesmith.errors import InputKernelError, UsageError, nearest
from xesmith.kernel_file import (
    BLOCK_BEGIN,
    BLOCK_END,
    JitFunction,
    KernelFile,
    Parameter,
    newline_of,
)
from xesmith.launch_plan.expression import Expression, PlanError, check_names, parse
from xesmith.launch_plan.plan import (
    Alternative,
    Buffer,
    LaunchPlan,
    PlannedLaunch,
    PointerChoice,
    Rebinding,
)

_WIDTH = 100
_NO_NEWLINE = " (no final newline before)"
_TUNED_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_OPTION_NAMES = frozenset({*_TUNED_OPTIONS, "grf_mode", "threads_per_warp", "warp_size"})
_DTYPES = frozenset(
    {"float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"}
    | {"int64", "int32", "int16", "int8", "uint8", "bool"}
)


@dataclass(frozen=True)
class RenderedFile:
    """A file taken apart: the user's text as it stands, what was added, and the plan."""

    kernel_file: KernelFile
    added_kernels: tuple[str, ...] = ()
    plan: LaunchPlan = field(default_factory=LaunchPlan)


def render(
    kernel_file: KernelFile,
    edits: Mapping[str, str] | None = None,
    added_kernels: Sequence[str] = (),
    plan: LaunchPlan | None = None,
) -> str:
    """The text of the optimised file.

    Args:
        kernel_file: the file as parsed. A block that it had is replaced: pass on what `read`
            gave for it to keep it.
        edits: new source of jit functions and mutable constants, by name. A jit function keeps
            its parameters, in order; more may follow if they have defaults or are tuned.
        added_kernels: sources that the block defines: jit functions and constants for them,
            written with the file's own names for `triton` and `triton.language`.
        plan: what is launched instead. Without a plan and added kernels there is no block.

    Raises:
        PlanError: an edit, a source or the plan cannot be used; it says where and why.
    """
    edits, plan = edits or {}, plan or LaunchPlan()
    sources = [tidy(source) for source in added_kernels]
    text = kernel_file.splice(edits)
    combined = combined_file(kernel_file, text, sources)
    for name, source in edits.items():
        _check_edit(kernel_file, combined, name, source)
    added = _added_names(kernel_file, combined, sources)
    if not plan.rebindings and not sources:
        return text
    block = _Block(combined, added, kernel_file.path).write(plan, sources)
    return _insert(text, block)


def read(text: str, path: str | Path = "<kernel>") -> RenderedFile:
    """Take a file apart: the inverse of `render`. A file without a block has an empty plan.

    Raises:
        PlanError: the block is not what its own plan generates.
        UsageError, InputKernelError: as `KernelFile.parse`.
    """
    kernel_file = KernelFile.parse(text, path)
    if kernel_file.block is None:
        return RenderedFile(kernel_file)
    changed = PlanError(
        "the generated block was edited, or another version of xesmith wrote it",
        where=f"{path}: {BLOCK_BEGIN}",
        remedy="delete the block, or render the plan again",
    )
    try:
        lines = kernel_file.block.replace("\r\n", "\n").split("\n")
        plan_text = "".join(line[2:] for line in lines[1:] if line.startswith("#|"))
        head = json.loads(plan_text)
        plan = LaunchPlan.from_data(head["plan"], f"{path}: launch plan")
        body = kernel_file.block.replace("\r\n", "\n")
        start = body.index(_ADDED_HEADER) + len(_ADDED_HEADER) if head["added"] else 0
        sources: list[str] = []
        for length in head["added"]:
            start += 2  # the blank lines before each
            sources.append(body[start : start + length])
            start += length + 1
        same = render(kernel_file, {}, sources, plan) == text
    except (PlanError, ValueError, KeyError, TypeError, IndexError) as error:
        raise changed from error
    if not same:
        raise changed
    return RenderedFile(kernel_file, tuple(sources), plan)


# -- checking sources ---------------------------------------------------------------------------


def tidy(source: str) -> str:
    return textwrap.dedent(source.replace("\r\n", "\n")).strip("\n")


def combined_file(kernel_file: KernelFile, text: str, sources: Sequence[str]) -> KernelFile:
    """The user's text and the added sources, parsed as one module."""
    for source in sources:
        if BLOCK_BEGIN in source or BLOCK_END in source:
            raise PlanError("a source holds a marker of the block", where="added kernel")
    whole = "\n".join([text.replace("\r\n", "\n"), *sources, ""])
    try:
        return KernelFile.parse(whole, kernel_file.path)
    except (UsageError, InputKernelError) as error:
        raise PlanError(error.what, where=error.where, remedy=error.remedy) from error


def _statements(
    source: str, where: str
) -> list[cst.SimpleStatementLine | cst.BaseCompoundStatement]:
    try:
        return list(cst.parse_module(source).body)
    except (cst.ParserSyntaxError, RecursionError) as error:
        message = getattr(error, "message", "nested too deeply")
        raise PlanError(f"syntax error: {message}", where=where) from error


def _check_definition(
    statement: cst.SimpleStatementLine | cst.BaseCompoundStatement, combined: KernelFile, where: str
) -> str:
    """The name that the statement defines: a jit function or a constant, nothing else."""
    if isinstance(statement, cst.FunctionDef):
        name = statement.name.value
        known = {function.name: function for function in combined.jit_functions}
        if name not in known or len(known[name].decorators) != len(statement.decorators):
            raise PlanError(
                f"'{name}' must carry Triton's jit, autotune and heuristics decorators alone",
                where=where,
                remedy="use the file's own names for triton and triton.language",
            )
        for parameter in known[name].parameters:
            if parameter.default is not None and not _is_plain(parameter.default):
                raise PlanError(
                    f"the default of '{parameter.name}' is no constant", where=f"{where}: {name}"
                )
        return name
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        assign = statement.body[0]
        if isinstance(assign, cst.Assign) and len(assign.targets) == 1:
            target = assign.targets[0].target
            if isinstance(target, cst.Name):
                value = cst.Module([]).code_for_node(assign.value)
                if not _is_plain(value):
                    raise PlanError(f"'{target.value}' is no constant: {value}", where=where)
                return target.value
    raise PlanError(
        "only jit functions and constants may stand here, one definition to a statement",
        where=where,
        remedy="remove imports, wrappers and other statements",
    )


def _is_plain(value: str) -> bool:
    """A literal, a name, or `constexpr(literal)`: running it does nothing."""
    inner = re.fullmatch(r"(?:[A-Za-z_]\w*\.)*constexpr\((.*)\)", value.strip(), re.DOTALL)
    text = inner.group(1) if inner else value
    if text.strip().isidentifier():
        return True
    try:
        literal = cst.parse_expression(text.strip())
    except cst.ParserSyntaxError:
        return False
    allowed = (
        *(cst.Integer, cst.Float, cst.SimpleString, cst.Name, cst.Attribute, cst.Tuple),
        *(cst.List, cst.Dict, cst.UnaryOperation, cst.BinaryOperation),
    )
    return isinstance(literal, allowed) and not _has_call(literal)


def _has_call(node: cst.CSTNode) -> bool:
    calls = (cst.Call, cst.Lambda, cst.ListComp, cst.Await, cst.NamedExpr, cst.FormattedString)
    return isinstance(node, calls) or any(_has_call(child) for child in node.children)


def _check_edit(base: KernelFile, combined: KernelFile, name: str, source: str) -> None:
    where = f"edit of '{name}'"
    statements = _statements(tidy(source) + "\n", where)
    if len(statements) != 1:
        raise PlanError(
            f"{len(statements)} statements where one definition is replaced",
            where=where,
            remedy="new helpers and constants go into the added kernels",
        )
    if _check_definition(statements[0], combined, where) != name:
        raise PlanError(f"the new text defines another name than '{name}'", where=where)
    old = next((function for function in base.jit_functions if function.name == name), None)
    if old is None:
        return
    new = combined.jit(name)
    if new.parameter_names[: len(old.parameters)] != old.parameter_names:
        raise PlanError(
            "its parameters change, but callers stay as they are",
            where=where,
            remedy=f"keep {', '.join(old.parameter_names)}, in this order",
        )
    for parameter in new.parameters[len(old.parameters) :]:
        if parameter.default is None and parameter.name not in new.tuned:
            raise PlanError(f"the new parameter '{parameter.name}' needs a default", where=where)
    _check_tuning(combined, new, where)


def _check_tuning(combined: KernelFile, function: JitFunction, where: str) -> None:
    """Autotune fails on what callers pass as well; grf_mode in a Config needs the block."""
    if "grf_mode" in function.tuned:
        raise PlanError(
            "grf_mode in a Config is spelled differently by versions of the compiler",
            where=where,
            remedy="put the autotuned kernel into the added kernels and launch it from the plan",
        )
    for site in combined.launches:
        if site.kernel != function.name or not function.tuned:
            continue
        passed = {name for name, _ in site.keywords}
        passed |= set(function.parameter_names[: len(site.positional)])
        clash = sorted(passed & set(function.tuned))
        if clash:
            raise PlanError(
                f"autotune would supply {', '.join(clash)}, which the launch in line "
                f"{site.line} passes as well",
                where=where,
                remedy="put the autotuned kernel into the added kernels and launch it from "
                "the plan",
            )


def _added_names(
    base: KernelFile, combined: KernelFile, sources: Sequence[str]
) -> dict[str, JitFunction]:
    """The added jit functions by name; every name that is added is new to the file."""
    names: list[str] = []
    taken = names_taken(base) if sources else frozenset[str]()
    for i, source in enumerate(sources):
        where = f"added kernel {i + 1}"
        for statement in _statements(source + "\n", where):
            name = _check_definition(statement, combined, where)
            if name in taken or name in names or name.startswith("_xs"):
                raise PlanError(
                    f"the name '{name}' is taken in the file", where=where, remedy="rename it"
                )
            names.append(name)
    return {name: combined.jit(name) for name in names if _is_jit(combined, name)}


def names_taken(base: KernelFile) -> frozenset[str]:
    """Names that no added kernel can have: those that the frozen text uses, those of the
    regions, and Python's own, which kernels use. What else a kernel reads is its own, or added:
    an edited one may call a new one."""
    text = base.splice({name: f"{name} = 0" for name in base.regions}).removeprefix("\ufeff")
    names = {*dir(builtins)}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {(alias.asname or alias.name).split(".")[0] for alias in aliases}
            case _:
                pass
    return frozenset(names)


def _is_jit(combined: KernelFile, name: str) -> bool:
    return any(function.name == name for function in combined.jit_functions)


# -- writing the block ----------------------------------------------------------------------------

_ADDED_HEADER = "# -- added kernels " + "-" * 60 + "\n"


@dataclass(frozen=True)
class _Block:
    """Writes the block for one file. `file` is the user's text and the added kernels."""

    file: KernelFile
    added: Mapping[str, JitFunction]
    path: str

    def write(self, plan: LaunchPlan, sources: Sequence[str]) -> str:
        taken = sorted(name for name in self.file.names if name.startswith("_xs"))
        if taken:
            raise PlanError(
                f"the file uses the name '{taken[0]}'",
                where=self.path,
                remedy="names that begin with '_xs' belong to the generated block",
            )
        names = [item.name for item in plan.rebindings]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PlanError(f"'{twice[0]}' is rebound twice", where="launch plan")
        code = "\n\n".join(_Rebinder(self, item).write() for item in plan.rebindings)
        originals = sorted(set(re.findall(r"\b_xs_original_(\w+)", code)))
        aliases = "".join(f"_xs_original_{name} = {name}\n" for name in originals)
        helpers = _helpers(code)
        data = {"plan": json.loads(plan.to_json()), "added": [len(source) for source in sources]}
        parts = [
            self._header(plan),
            _commented(json.dumps(data, separators=(",", ":"))),
            "# fmt: off\n",
        ]
        if sources:
            parts.append(_ADDED_HEADER + "".join(f"\n\n{source}\n" for source in sources))
        if code:
            parts += ["\n\n# -- what the launches share " + "-" * 51 + "\n" + helpers]
            parts += ["\n\n# -- the launches " + "-" * 62 + "\n" + aliases + "\n\n" + code]
        return "".join(parts) + f"# fmt: on\n{BLOCK_END}\n"

    def _header(self, plan: LaunchPlan) -> str:
        lines = [
            "Written by xesmith. The text outside this block is the author's; kernels that were",
            "edited stand in their old places. Remove the block to launch them as written.",
        ]
        for item in plan.rebindings:
            count = len(item.alternatives)
            what = "alternative" if count == 1 else "alternatives"
            lines.append(f"{item.name}: {count} {what}, then the original.")
        lines += textwrap.wrap(self._versions(plan), 96)
        lines.append("The plan, as data:")
        return "".join(f"# {line}\n" for line in lines)

    def _versions(self, plan: LaunchPlan) -> str:
        """One sentence: the Triton versions that the file serves."""
        launches = [
            launch
            for item in plan.rebindings
            for alternative in item.alternatives
            for launch in alternative.launches
        ]
        forms = [self.forms(launch, "launch plan") for launch in launches]
        pointers = [form for form in forms if "plain" not in form]
        text = "Serves Triton 3.2 to 3.9, Intel's and upstream"
        if not pointers:
            return f"{text}."
        both = all({"block_pointer", "descriptor"} <= form.keys() for form in pointers)
        if both:
            return f"{text}: block pointers below 3.8, tensor descriptors from 3.8 on."
        if all("block_pointer" in form for form in pointers):
            return f"{text}; alternatives with block pointers below 3.8, else the original."
        return f"{text}; alternatives with tensor descriptors where Triton has them (3.4 on)."

    def function(self, name: str, where: str) -> JitFunction:
        for function in self.file.jit_functions:
            if function.name == name:
                return function
        known = [function.name for function in self.file.jit_functions]
        raise PlanError(f"no kernel '{name}'", where=where, remedy=nearest(name, known))

    def forms(self, launch: PlannedLaunch, where: str) -> dict[str, JitFunction]:
        """The launched kernel by pointer API: {"plain": f}, or block_pointer and descriptor."""
        kernel = launch.kernel
        if isinstance(kernel, str):
            function = self.function(kernel, where)
            apis = self._pointer_apis(function)
            if len(apis) > 1:
                raise PlanError(
                    f"'{kernel}' uses block pointers and tensor descriptors: no Triton from 3.8 "
                    "on has both",
                    where=where,
                )
            return {next(iter(apis), "plain"): function}
        return self._choice(kernel, where)

    def _choice(self, choice: PointerChoice, where: str) -> dict[str, JitFunction]:
        named = {"block_pointer": choice.block_pointer, "descriptor": choice.descriptor}
        forms = {api: self.function(name, where) for api, name in named.items() if name}
        if not forms:
            raise PlanError("a kernel is named for neither pointer API", where=where)
        for api, function in forms.items():
            other = self._pointer_apis(function) - {api}
            if other:
                raise PlanError(
                    f"'{function.name}' is named as {api} but uses {other.pop()}", where=where
                )
        signatures = {function.parameter_names for function in forms.values()}
        if len(signatures) > 1:
            raise PlanError("the two forms of the kernel have other parameters", where=where)
        return forms

    def _pointer_apis(self, function: JitFunction) -> set[str]:
        """Those that the function uses, itself or in functions that it calls."""
        seen: set[str] = set()
        apis: set[str] = set()
        queue = [function.name]
        while queue:
            name = queue.pop()
            if name not in seen:
                seen.add(name)
                found = self.function(name, "kernel")
                apis |= set(found.pointer_apis)
                queue += found.calls
        return apis


class _Rebinder:
    """Writes one rebinding: a function for each alternative, then the new binding."""

    def __init__(self, block: _Block, rebinding: Rebinding) -> None:
        self.block = block
        self.rebinding = rebinding
        self.is_kernel = rebinding.kind == "kernel"
        self.where = f"launch plan: {rebinding.name}"
        self.parameters = self._parameters()
        self.names = [parameter.name for parameter in self.parameters]
        is_method = "." in rebinding.name
        self.owner = self.names[0] if is_method and self.names else None
        self.slug = rebinding.name.replace(".", "_")

    def _parameters(self) -> tuple[Parameter, ...]:
        file, name = self.block.file, self.rebinding.name
        if self.is_kernel:
            function = self.block.function(name, self.where)
            if name in self.block.added:
                raise PlanError(f"'{name}' is an added kernel", where=self.where)
            if function.called_by:
                raise PlanError(
                    f"'{name}' is also called by the jit function "
                    f"'{function.called_by[0]}', which needs the kernel itself",
                    where=self.where,
                    remedy="rebind the function that launches it",
                )
            return function.parameters
        wrapper = next((item for item in file.wrappers if item.name == name), None)
        if wrapper is None:
            known = [item.name for item in file.wrappers]
            raise PlanError(f"no function '{name}'", where=self.where, remedy=nearest(name, known))
        if wrapper.has_star:
            raise PlanError(f"'{name}' takes *args or **kwargs", where=self.where)
        if "." in name and wrapper.decorators:
            raise PlanError(f"the method '{name}' is decorated", where=self.where)
        if self.rebinding.original_grid is not None:
            raise PlanError("original_grid belongs to a kernel", where=self.where)
        return wrapper.parameters

    def write(self) -> str:
        count = len(self.rebinding.alternatives)
        functions = [f"_xs_{self.slug}_{i + 1}" for i in range(count)]
        texts = [
            self._alternative(alternative, function, f"{self.where}: alternatives[{i}]")
            for i, (alternative, function) in enumerate(
                zip(self.rebinding.alternatives, functions, strict=True)
            )
        ]
        stand_in = "_xs_Kernel" if self.is_kernel else "_xs_function"
        items = [self.rebinding.name, *functions]
        if self.rebinding.original_grid is not None:
            grid = self._original_grid()
            texts.append(grid)
            items.append(f"grid=_xs_{self.slug}_grid")
        binding = _laid_out(f"{self.rebinding.name} = {stand_in}(", items, ")", "")
        return "\n\n".join([*texts, binding])

    def _original_grid(self) -> str:
        where = f"{self.where}: original_grid"
        assert self.rebinding.original_grid is not None
        expressions = [parse(item, where) for item in self.rebinding.original_grid]
        for expression in expressions:
            check_names(expression, self.names, where)
        used = _names_of(expressions)
        head = _laid_out(f"def _xs_{self.slug}_grid(", self._signature(used), "):", "")
        grid = _tuple([expression.code() for expression in expressions])
        return (
            f'{head}    """The grid that the caller is understood to pass."""\n    return {grid}\n'
        )

    def _signature(self, used: set[str]) -> list[str]:
        """The parameters that are used, required; the others vanish into one."""
        return [*(name for name in self.names if name in used), "**_xs_rest"]

    def _alternative(self, alternative: Alternative, function: str, where: str) -> str:
        buffers = self._buffer_names(alternative, where)
        known = {*self.names, *buffers}
        guard = self._expression(alternative.guard, set(self.names), f"{where}.guard")
        used = set(guard.names)
        body: list[str] = []
        for i, buffer in enumerate(alternative.buffers):
            before = {*self.names, *buffers[:i]}
            line, names = self._buffer(buffer, before, f"{where}.buffers[{i}]")
            body.append(line)
            used |= names
        launches: list[str] = []
        for i, launch in enumerate(alternative.launches):
            text, names = self._launch(launch, alternative, known, f"{where}.launches[{i}]")
            launches.append(text)
            used |= names
        returned, names = self._returned(alternative, known, where)
        used |= names
        self._check_dropped(alternative, used, where)
        head = _laid_out(f"def {function}(", ["_xs_given", *self._signature(used)], "):", "") + (
            f"    # {_comment(alternative.reason)}\n" if alternative.reason else ""
        )
        conditions = [part for part in guard.conditions() if part != "True"]
        if alternative.backend is not None:
            conditions.insert(0, f'_xs_backend() in (None, "{alternative.backend}")')
        conditions += self._version_conditions(alternative, where)
        result = "_xs_launches" if returned is None else f"_xs_launches, {returned}"
        return (
            f"{head}"
            f"{_guard(conditions)}"
            f"{''.join(f'    {line}' for line in body)}"
            f"    _xs_launches = [\n{''.join(launches)}    ]\n"
            f"    return {result}\n"
        )

    def _expression(
        self, value: str | int | float | bool | None, known: set[str], where: str
    ) -> Expression:
        expression = parse(value, where, self.owner)
        check_names(expression, known, where)
        return expression

    def _version_conditions(self, alternative: Alternative, where: str) -> list[str]:
        """Where a kernel has one pointer API only, the alternative holds on Tritons with it."""
        conditions: list[str] = []
        for launch in alternative.launches:
            forms = self.block.forms(launch, where).keys()
            if forms == {"block_pointer"}:
                conditions.append("_xs_VERSION < (3, 8)")
            elif forms == {"descriptor"}:
                conditions.append('hasattr(_xs_triton.language, "make_tensor_descriptor")')
        return list(dict.fromkeys(conditions))

    def _buffer_names(self, alternative: Alternative, where: str) -> list[str]:
        names = [buffer.name for buffer in alternative.buffers]
        for name in names:
            if name in self.names or names.count(name) > 1:
                raise PlanError(f"the buffer's name '{name}' is taken", where=where)
        return names

    def _buffer(self, buffer: Buffer, known: set[str], where: str) -> tuple[str, set[str]]:
        shape = [self._expression(size, known, f"{where}.shape") for size in buffer.shape]
        used = _names_of(shape)
        like = buffer.like
        if buffer.dtype in _DTYPES:
            dtype = f"_xs_torch.{buffer.dtype}"
        elif buffer.dtype.endswith(".dtype"):
            source = self._expression(buffer.dtype, known, f"{where}.dtype")
            like = like or buffer.dtype.removesuffix(".dtype")
            used |= source.names
            dtype = f"{buffer.dtype}"
        else:
            raise PlanError(
                f"unknown dtype '{buffer.dtype}'",
                where=f"{where}.dtype",
                remedy=f"{nearest(buffer.dtype, _DTYPES)}; or NAME.dtype",
            )
        if like is None:
            raise PlanError(
                f"the buffer '{buffer.name}' does not say on whose device it lies",
                where=where,
                remedy="add `like` with the name of a tensor",
            )
        used |= self._expression(f"{like}.ndim", known, f"{where}.like").names
        make = "zeros" if buffer.zeroed else "empty"
        sizes = _tuple([expression.code() for expression in shape])
        line = f"{buffer.name} = _xs_torch.{make}({sizes}, dtype={dtype}, device={like}.device)\n"
        return line, used

    def _returned(
        self, alternative: Alternative, known: set[str], where: str
    ) -> tuple[str | None, set[str]]:
        if self.is_kernel:
            if alternative.returns is not None:
                raise PlanError("a kernel returns nothing", where=f"{where}.returns")
            return None, set()
        names = alternative.returns or []
        for name in names:
            check_names(parse(name, where), known, f"{where}.returns")
        code = names[0] if len(names) == 1 else _tuple(names) if names else "None"
        return code, set(names)

    def _check_dropped(self, alternative: Alternative, used: set[str], where: str) -> None:
        dropped = set(alternative.dropped)
        options = _OPTION_NAMES if self.is_kernel else frozenset[str]()
        for name in sorted(dropped - set(self.names) - options):
            raise PlanError(
                f"'{name}' is dropped, but is no parameter of {self.rebinding.name}",
                where=f"{where}.dropped",
                remedy=nearest(name, self.names),
            )
        data = [p.name for p in self.parameters if not p.is_constexpr and p.name != self.owner]
        lost = [name for name in data if name not in used and name not in dropped]
        if lost:
            raise PlanError(
                f"no launch uses the caller's {', '.join(lost)}",
                where=where,
                remedy="pass it on, or name it in `dropped`",
            )

    # -- one launch -------------------------------------------------------------------------

    def _launch(
        self, launch: PlannedLaunch, alternative: Alternative, known: set[str], where: str
    ) -> tuple[str, set[str]]:
        forms = self.block.forms(launch, f"{where}.kernel")
        function = next(iter(forms.values()))
        arguments, tuned, used = self._arguments(launch, function, alternative, known, where)
        grid, grid_names = self._grid(launch, arguments, tuned, known, where)
        values = _laid_out("{", [f'"{k}": {v}' for k, v in arguments.items()], "},", " " * 12)
        options = self._options(launch, forms, alternative)
        return (
            f"        (\n            {self._kernel(forms)},\n            {grid},\n"
            f"{values}            {options},\n        ),\n",
            used | grid_names,
        )

    def _kernel(self, forms: Mapping[str, JitFunction]) -> str:
        codes = {api: self._kernel_name(function) for api, function in forms.items()}
        if set(codes) == {"block_pointer", "descriptor"} or "descriptor" in codes:
            return f"_xs_pointers({', '.join(f'{api}={code}' for api, code in codes.items())})"
        return next(iter(codes.values()))

    def _kernel_name(self, function: JitFunction) -> str:
        added = function.name in self.block.added
        name = function.name if added else f"_xs_original_{function.name}"
        return f"_xs_configs({name})" if added and "grf_mode" in function.tuned else name

    def _arguments(
        self,
        launch: PlannedLaunch,
        function: JitFunction,
        alternative: Alternative,
        known: set[str],
        where: str,
    ) -> tuple[dict[str, str], set[str], set[str]]:
        """Code for each argument, the names left to tuning, and the caller's names used."""
        constexprs = {p.name for p in function.parameters if p.is_constexpr}
        for field_name, given in (("args", launch.args), ("metas", launch.metas)):
            for name in given:
                if name not in function.parameter_names:
                    raise PlanError(
                        f"'{name}' is no parameter of {function.name}",
                        where=f"{where}.{field_name}",
                        remedy=nearest(name, function.parameter_names),
                    )
        not_meta = sorted(set(launch.metas) - constexprs)
        if not_meta:
            raise PlanError(
                f"'{not_meta[0]}' is no constexpr of {function.name}",
                where=f"{where}.metas",
                remedy="put it into `args`",
            )
        twice = sorted(set(launch.args) & set(launch.metas))
        clash = sorted((set(launch.args) | set(launch.metas)) & set(function.tuned))
        if twice or clash:
            name = (twice or clash)[0]
            other = "`args` and `metas`" if twice else f"the plan and {function.name}'s tuning"
            raise PlanError(f"'{name}' is supplied by both {other}", where=where)
        stated = {**launch.args, **launch.metas}
        code: dict[str, str] = {}
        tuned: set[str] = set()
        used: set[str] = set()
        for parameter in function.parameters:
            name = parameter.name
            if name in stated:
                expression = self._expression(stated[name], known, f"{where}: {name}")
                code[name] = expression.code()
                used |= expression.names
            elif name in function.tuned or (not function.tuned_is_exact and name in constexprs):
                tuned.add(name)
            elif name in known and name not in alternative.dropped:
                code[name] = name
                used.add(name)
            elif parameter.default is None:
                raise PlanError(
                    f"{function.name} gets no value for '{name}'",
                    where=where,
                    remedy="state it in `args` or `metas`",
                )
        return code, tuned, used

    def _grid(
        self,
        launch: PlannedLaunch,
        arguments: Mapping[str, str],
        tuned: set[str],
        known: set[str],
        where: str,
    ) -> tuple[str, set[str]]:
        """The grid's code; a function of the meta-parameters where tuning decides some."""
        metas = {name: arguments[name] for name in launch.metas}
        names = {**metas, **{name: f'_xs_meta["{name}"]' for name in tuned}}
        expressions = [
            self._expression(item, known | names.keys(), f"{where}.grid") for item in launch.grid
        ]
        grid = _tuple([expression.code(names) for expression in expressions])
        read = _names_of(expressions)
        used = read - names.keys()
        return (f"lambda _xs_meta: {grid}" if read & tuned else grid), used

    def _options(
        self, launch: PlannedLaunch, forms: Mapping[str, JitFunction], alternative: Alternative
    ) -> str:
        function = next(iter(forms.values()))
        given = launch.options.model_dump(exclude_none=True)
        clash = sorted(set(given) & set(function.tuned))
        if clash:
            raise PlanError(
                f"'{clash[0]}' is supplied by both the options and {function.name}'s tuning",
                where=self.where,
            )
        inherits = self.is_kernel and launch.inherit_options
        dropped = {name for name in alternative.dropped if name not in self.names}
        if "autotune" in function.decorators:
            dropped |= {*_TUNED_OPTIONS, *(function.tuned if function.tuned_is_exact else ())}
            dropped |= {"grf_mode"}
        dropped -= set(function.parameter_names)
        items = [f"{name}={_literal(value)}" for name, value in given.items()]
        if not inherits and "grf_mode" not in given:
            return f"dict({', '.join(items)})" if items else "{}"
        names = _tuple([_literal(name) for name in sorted(dropped)]) if inherits else "()"
        return f"_xs_options({', '.join(['_xs_given' if inherits else '{}', names, *items])})"


# -- text -----------------------------------------------------------------------------------------


def _names_of(expressions: Sequence[Expression]) -> set[str]:
    return {name for expression in expressions for name in expression.names}


def _literal(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _tuple(items: Sequence[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _laid_out(head: str, items: Sequence[str], tail: str, indent: str) -> str:
    """`head items tail` on one line where it fits, else one item to a line; ends in a newline."""
    line = f"{indent}{head}{', '.join(items)}{tail}\n"
    if len(line) <= _WIDTH:
        return line
    # A parameter list may not end in a comma after **rest on the oldest Pythons: none is added.
    lines = ",\n".join(f"{indent}    {item}" for item in items)
    return f"{indent}{head}\n{lines}\n{indent}{tail}\n"


def _guard(conditions: Sequence[str]) -> str:
    if not conditions:
        return ""
    line = f"    if not ({' and '.join(conditions)}):\n"
    if len(line) > _WIDTH:
        parts = "\n        and ".join(conditions)
        line = f"    if not (\n        {parts}\n    ):\n"
    return f"{line}        return None\n"


def _comment(text: str) -> str:
    line = " ".join(text.split())
    return "".join(char for char in line if char.isprintable())[:200]


def _commented(text: str) -> str:
    pieces = [text[i : i + _WIDTH - 2] for i in range(0, len(text), _WIDTH - 2)]
    return "".join(f"#|{piece}\n" for piece in pieces)


@cache
def _sections() -> dict[str, str]:
    """The parts of block_runtime.py, by name."""
    source = Path(__file__).with_name("block_runtime.py").read_text(encoding="utf-8")
    parts = re.split(r"^# section: (\w+)\n", source, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _helpers(code: str) -> str:
    """The helper sections that `code` needs, imports first."""
    sections = _sections()
    defined = {
        name: set(
            re.findall(r"^(?:def |class |from builtins import \w+ as )?(_xs_\w+)", text, re.M)
        )
        for name, text in sections.items()
    }
    needed = {"base"}
    while True:
        text = code + "".join(sections[name] for name in needed)
        used = set(re.findall(r"\b_xs_\w+", text))
        more = {name for name in sections if defined[name] & used and name not in needed}
        if not more:
            break
        needed |= more
    chosen = "\n\n\n".join(sections[name].strip("\n") for name in sections if name in needed)
    lines = chosen.split("\n")
    top = re.compile(r"^(?:import|from) .* as _xs_\w+$")
    imports = sorted({line for line in lines if top.match(line)})
    if "_xs_torch." in code:
        imports = sorted({*imports, "import torch as _xs_torch"})
    body = "\n".join(line for line in lines if not top.match(line))
    return "\n".join(imports) + "\n\n" + re.sub(r"\n{3,}", "\n\n\n", body).strip("\n") + "\n"


def _insert(text: str, block: str) -> str:
    """`text` with the block at its end, or before a last `if __name__ == ...:`."""
    newline = newline_of(text)
    position = main_guard(text)
    before, after = text[:position], text[position:]
    first = BLOCK_BEGIN
    if before and not before.endswith("\n"):
        before += newline
        first += _NO_NEWLINE
    return before + f"{first}\n{block}".replace("\n", newline) + after


def main_guard(text: str) -> int:
    """Where the block goes: names must be bound anew before a script's main part runs."""
    guards = list(re.finditer(r"^if __name__ *== *[\"']__main__[\"'] *:", text, re.MULTILINE))
    return guards[-1].start() if guards else len(text)
