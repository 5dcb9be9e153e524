"""The level "syntax": a candidate is Python, only its kernels changed, and they are kernels.

What may change are the mutable regions of `xesmith.kernel_file` and the generated block, which
must be what its own plan generates. In what changed, anything that is not for a kernel is
refused: a jit function is Python that runs at import (decorators, defaults) and in the
interpreter, so it must not import, evaluate text, open files, or reach PyTorch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from xesmith.cascade.record import LevelResult
from xesmith.errors import XesmithError
from xesmith.kernel_file import JitFunction, KernelFile
from xesmith.launch_plan import read

#: modules that kernels, their decorators and their constants have no business with
_FORBIDDEN_MODULES = frozenset(
    {"torch", "os", "sys", "subprocess", "shutil", "pathlib", "io", "socket", "ctypes", "gc"}
    | {"inspect", "importlib", "builtins", "pickle", "time", "random", "threading", "numpy", "np"}
)
#: of these, names that Triton itself gives to something else
_ALSO_FUNCTIONS = frozenset({"random"})
_FORBIDDEN_NAMES = frozenset(
    {"eval", "exec", "compile", "open", "input", "breakpoint", "exit", "quit", "globals"}
    | {"locals", "vars", "dir", "getattr", "setattr", "delattr", "memoryview", "id"}
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
}


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
    before = {
        name: baseline.text.encode()[span.start : span.end].decode()
        for name, span in baseline.regions.items()
    }
    changed = [
        (name, text, _line_of(kernel_file, name))
        for name, text in _regions(kernel_file, baseline).items()
        if text != before.get(name)
    ]
    for name, text, line in changed:
        allowed = _uses(before.get(name, ""))
        messages += [
            f"line {line + at - 1}: {use} in '{name}'"
            for use, at in _found(text)
            if use not in allowed
        ]
    for number, source in enumerate(rendered.added_kernels):
        messages += [f"{use} in added kernel {number}, line {at}" for use, at in _found(source)]
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


def _uses(source: str) -> set[str]:
    return {use for use, _ in _found(source)}


def _found(source: str) -> Iterator[tuple[str, int]]:
    """(what a kernel may not have, line in `source`), in order."""
    tree = ast.parse(source)
    own = _bound_names(tree)
    for node in ast.walk(tree):
        line: int = getattr(node, "lineno", 1)
        if type(node) in _FORBIDDEN_NODES:
            yield _FORBIDDEN_NODES[type(node)], line
        elif isinstance(node, ast.Name) and node.id not in own:
            if node.id in _FORBIDDEN_MODULES:
                yield f"module '{node.id}'", line
            elif node.id in _FORBIDDEN_NAMES or _is_dunder(node.id):
                yield f"'{node.id}'", line
        elif isinstance(node, ast.Attribute) and (
            # Through a module's own imports: tl.core.os
            node.attr in _FORBIDDEN_MODULES - _ALSO_FUNCTIONS or _is_dunder(node.attr)
        ):
            yield f"'{node.attr}'", line


def _bound_names(tree: ast.AST) -> set[str]:
    """Parameters and variables: a kernel may call one `id` or `time`."""
    return {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} | {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


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
