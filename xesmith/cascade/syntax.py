"""The level "syntax": a candidate is Python, only its kernels changed, and they are kernels.

What may change are the mutable regions of `xesmith.kernel_file` and the generated block, which
must be what its own plan generates. In what changed, anything that is not for a kernel is
refused: a jit function is Python that runs at import (decorators, defaults, annotations) and in
the interpreter. So it may name only its own variables, Triton, the file's kernels and plain
constants, and a few builtins; and of Triton only the language and what declares a kernel, since
Triton's other modules lead to the whole of Python. What the baseline already does is allowed.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from xesmith.cascade.record import LevelResult
from xesmith.errors import XesmithError
from xesmith.kernel_file import JitFunction, KernelFile
from xesmith.launch_plan import read

#: what a kernel, its decorators and its constants may use of `triton` itself
_OF_TRITON = frozenset({"jit", "autotune", "heuristics", "Config", "cdiv", "next_power_of_2"})
_DECORATORS = frozenset({"triton.jit", "triton.autotune", "triton.heuristics"})
#: modules under triton.language whose functions are for kernels
_LANGUAGE_MODULES = frozenset(
    {"math", "extra", "libdevice", "intel", "xpu", "cuda", "hip", "random"}
)
_BUILTINS = frozenset(
    {"range", "min", "max", "abs", "len", "sum", "any", "all", "round", "divmod", "zip"}
    | {"enumerate", "reversed", "sorted", "int", "float", "bool", "tuple", "list", "dict", "set"}
    | {"str", "slice", "isinstance", "print"}
)
#: attributes that lead from a value or a module to what is not for kernels
_FORBIDDEN_ATTRIBUTES = frozenset(
    {"torch", "os", "sys", "subprocess", "shutil", "pathlib", "io", "socket", "ctypes", "gc"}
    | {"inspect", "importlib", "builtins", "pickle", "time", "threading", "numpy", "np"}
    | {"core", "semantic", "standard", "tl", "ir", "triton", "runtime", "wraps"}
    # format reads attributes by text; handle is the interpreter's, where no compiler is
    | {"format", "format_map", "handle"}
)
_FORBIDDEN_NODES: dict[type[ast.AST], str] = {
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.Global: "a global statement",
    ast.Nonlocal: "a nonlocal statement",
    ast.ClassDef: "a class",
    ast.AsyncFunctionDef: "an async function",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Try: "try",
    ast.With: "with",
    ast.Raise: "raise",
    ast.Delete: "del",
    ast.NamedExpr: "an assignment inside an expression",
}


@dataclass(frozen=True)
class _Surroundings:
    """What a kernel finds in its file.

    modules: name -> dotted name, of every import (None: several meanings).
    names: kernels of the file, and constants that are plain values.
    """

    modules: Mapping[str, str | None]
    names: frozenset[str]

    @classmethod
    def of(cls, baseline: KernelFile, added: Collection[str]) -> _Surroundings:
        modules: dict[str, str | None] = {}
        for node in ast.walk(ast.parse(baseline.text)):
            for name, dotted in _imported(node):
                modules[name] = dotted if modules.get(name, dotted) == dotted else None
        names = {*baseline.regions, *(f.name for f in baseline.jit_functions)}
        names |= {c.name for c in baseline.constants if _is_plain(c.value)}
        for node in (node for source in added for node in ast.parse(source).body):
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign) and _is_plain(ast.unparse(node.value)):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        return cls(modules, frozenset(names))


def check(candidate: str, baseline: KernelFile) -> LevelResult:
    """Judges the text of a candidate for the kernel file `baseline`."""
    try:
        rendered = read(candidate, baseline.path)
    except XesmithError as error:
        return _refused([f"{error.where}: {error.what}" if error.where else error.what])
    kernel_file = rendered.kernel_file
    messages: list[str] = []
    if not kernel_file.frozen_matches(baseline):
        messages.append(
            f"text outside the kernels was changed{_first_difference(kernel_file, baseline)}; "
            f"only these may change: {', '.join(baseline.regions)}"
        )
    around = _Surroundings.of(baseline, rendered.added_kernels)
    before = {
        name: baseline.text.encode()[span.start : span.end].decode()
        for name, span in baseline.regions.items()
    }
    usual = {name: _uses(text, around) for name, text in before.items()}
    changed = [
        (name, text, _line_of(kernel_file, name))
        for name, text in _regions(kernel_file, baseline).items()
        if text != before.get(name)
    ]
    for name, text, line in changed:
        messages += [
            f"line {line + at - 1}: {use} in '{name}'"
            for use, at in _found(text, around)
            if use not in usual.get(name, ())
        ]
    known = {use for uses in usual.values() for use in uses}
    for number, source in enumerate(rendered.added_kernels):
        messages += [
            f"{use} in added kernel {number}, line {at}"
            for use, at in _found(source, around)
            if use not in known
        ]
    for function in baseline.jit_functions:
        messages += _signature_faults(function, kernel_file)
    facts = {"changed": [name for name, *_ in changed], "added": len(rendered.added_kernels)}
    if messages:
        return LevelResult("syntax", "refused", tuple(messages), facts)
    return LevelResult("syntax", "passed", (), facts)


def _refused(messages: list[str]) -> LevelResult:
    return LevelResult("syntax", "refused", tuple(messages))


def _regions(kernel_file: KernelFile, baseline: KernelFile) -> dict[str, str]:
    """The text of each region of `baseline` as it is in `kernel_file`."""
    data = kernel_file.text.encode()
    spans = {function.name: function.span for function in kernel_file.jit_functions}
    spans |= {constant.name: constant.span for constant in kernel_file.constants}
    return {
        name: data[spans[name].start : spans[name].end].decode()
        for name in baseline.regions
        if name in spans
    }


def _line_of(kernel_file: KernelFile, name: str) -> int:
    for item in (*kernel_file.jit_functions, *kernel_file.constants):
        if item.name == name:
            return item.line
    return 1


def _first_difference(kernel_file: KernelFile, baseline: KernelFile) -> str:
    """Where the frozen text first differs, as " (line 12: '...')"."""
    frozen = _frozen_lines(baseline)
    for (number, line), (_, original) in zip(_frozen_lines(kernel_file), frozen, strict=False):
        if line != original:
            return f" (line {number}: {line.strip()!r})"
    return ""


def _frozen_lines(kernel_file: KernelFile) -> list[tuple[int, str]]:
    data = kernel_file.text.encode()
    inside: set[int] = set()
    for span in kernel_file.regions.values():
        first = data.count(b"\n", 0, span.start) + 1
        inside |= set(range(first, first + data.count(b"\n", span.start, span.end) + 1))
    lines = enumerate(kernel_file.text.splitlines(), start=1)
    return [(number, line) for number, line in lines if number not in inside]


def _uses(source: str, around: _Surroundings) -> set[str]:
    return {use for use, _ in _found(source, around)}


def _found(source: str, around: _Surroundings) -> Iterator[tuple[str, int]]:
    """(what a kernel may not have, line in `source`), in order."""
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.FunctionDef):
            yield from _found_in(statement, around, _bound_names(statement))
            continue
        for decorator in statement.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if _dotted(target, around.modules) not in _DECORATORS:
                yield f"the decorator '{ast.unparse(decorator)}'", decorator.lineno
        # Outside the body, its variables are not bound yet: names there are the module's.
        arguments = statement.args
        outside = [*statement.decorator_list, *arguments.defaults, statement.returns]
        outside += arguments.kw_defaults
        outside += [node.annotation for node in ast.walk(arguments) if isinstance(node, ast.arg)]
        for node in outside:
            if node is not None:
                yield from _found_in(node, around, _bound_names(node))
        own = {node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg)}
        own |= {name for item in statement.body for name in _bound_names(item)}
        for item in statement.body:
            yield from _found_in(item, around, own)


def _found_in(
    tree: ast.AST, around: _Surroundings, own: Collection[str]
) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        line: int = getattr(node, "lineno", 1)
        if type(node) in _FORBIDDEN_NODES:
            yield _FORBIDDEN_NODES[type(node)], line
        elif isinstance(node, ast.FunctionDef):
            yield f"the function '{node.name}'", line
        elif isinstance(node, ast.Name) and node.id not in own:
            dotted = around.modules.get(node.id)
            if dotted is not None and dotted.split(".")[0] == "triton":
                if not _is_for_kernels(dotted):
                    yield f"'{node.id}' ({dotted})", line
            elif node.id in around.modules:
                yield f"module '{node.id}'", line
            elif node.id not in around.names and node.id not in _BUILTINS:
                yield f"'{node.id}'", line
        elif isinstance(node, ast.Attribute):
            dotted = _dotted(node, {k: v for k, v in around.modules.items() if k not in own})
            if node.attr in _FORBIDDEN_ATTRIBUTES or node.attr.startswith("_"):
                yield f"'{node.attr}'", line
            elif dotted is not None and dotted.startswith("triton."):
                if not _is_for_kernels(dotted):
                    yield f"'{ast.unparse(node)}'", line
            elif node.attr.endswith("_") and node.attr != "zero_":
                yield f"'{node.attr}', which changes a tensor,", line
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield f"an assignment to '{ast.unparse(node)}'", line


def _is_for_kernels(dotted: str) -> bool:
    """Whether a name under `triton` is the language's, or declares or tunes a kernel."""
    first, *parts = dotted.split(".")
    if first != "triton" or not parts:
        return first == "triton"
    if parts[0] != "language":
        return parts[0] in _OF_TRITON and len(parts) == 1
    parts = parts[1:]
    while parts and parts[0] in _LANGUAGE_MODULES:
        parts = parts[1:]
    return not _FORBIDDEN_ATTRIBUTES.intersection(parts)


def _dotted(node: ast.expr, modules: Mapping[str, str | None]) -> str | None:
    """The dotted name of what an expression names, through the file's imports."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, modules)
        return None if base is None else f"{base}.{node.attr}"
    return None


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for item in node.names:
            first = item.name.split(".")[0]
            yield (item.asname, item.name) if item.asname else (first, first)
    elif isinstance(node, ast.ImportFrom):
        for item in node.names:
            dots = "." * node.level
            yield item.asname or item.name, f"{dots}{node.module or ''}.{item.name}"


def _is_plain(value: str) -> bool:
    """Whether a constant's text is a literal, or one in `tl.constexpr(...)`."""
    tree = ast.parse(value.strip(), mode="eval").body
    if isinstance(tree, ast.Call) and ast.unparse(tree.func).split(".")[-1] == "constexpr":
        tree = tree.args[0] if len(tree.args) == 1 and not tree.keywords else tree
    try:
        ast.literal_eval(tree)
    except ValueError:
        return False
    return True


def _bound_names(tree: ast.AST) -> set[str]:
    """Parameters and variables: a kernel may call one `id` or `time`."""
    return {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} | {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _signature_faults(function: JitFunction, kernel_file: KernelFile) -> list[str]:
    """A kernel is launched by text that cannot change: what it passes must stay right."""
    now = next((f for f in kernel_file.jit_functions if f.name == function.name), None)
    if now is None:
        return [f"kernel '{function.name}' is gone"]
    before, after = function.parameters, now.parameters
    kept = after[: len(before)]
    if [p.name for p in kept] != [p.name for p in before]:
        return [
            f"line {now.line}: the parameters of '{function.name}' were "
            f"({', '.join(p.name for p in before)}) and must stay so; further ones may follow"
        ]
    faults = [
        f"line {now.line}: parameter '{new.name}' of '{function.name}' "
        f"{'is no longer' if old.is_constexpr else 'became'} a constexpr"
        for old, new in zip(before, kept, strict=True)
        if old.is_constexpr != new.is_constexpr
    ]
    return faults + [
        f"line {now.line}: new parameter '{p.name}' of '{function.name}' has no value: "
        "it needs a default, @triton.heuristics or @triton.autotune"
        for p in after[len(before) :]
        if p.default is None and now.tuned_is_exact and p.name not in now.tuned
    ]
