"""The noun KernelFile: a Triton source file, split into what may change and what may not.

Mutable are the jit functions, with their decorators, and the module constants that only jit
functions read. Everything else (imports, wrappers, `Model`, inputs, comments between
definitions, a constant that a wrapper reads as well) is frozen: `splice` gives it back byte for
byte, and `frozen_digest` names it.

A file that xesmith has written ends in one generated block (see `xesmith.launch_plan`). The
block is set apart before anything else is read, so a rendered file parses to the KernelFile that
it was rendered from.
"""

# libcst calls visitor methods by the names of its node classes.
# ruff: noqa: N802
from __future__ import annotations

import ast
import hashlib
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import cast

import libcst as cst
import libcst.matchers as m
from libcst.metadata import (
    ByteSpanPositionProvider,
    CodeRange,
    CodeSpan,
    GlobalScope,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameProvider,
    Scope,
    ScopeProvider,
)

from xesmith.errors import InputKernelError, UsageError, nearest

BLOCK_BEGIN = "# >>> xesmith launch plan >>>"
BLOCK_END = "# <<< xesmith launch plan <<<"

#: levels of a syntax tree; CPython's own limit for brackets is 200
_MAX_DEPTH = 400

_BOM = "\ufeff"
_DECORATORS = {
    "triton.jit": "jit",
    "triton.runtime.jit": "jit",
    "triton.runtime.jit.jit": "jit",
    "triton.autotune": "autotune",
    "triton.runtime.autotuner.autotune": "autotune",
    "triton.heuristics": "heuristics",
    "triton.runtime.autotuner.heuristics": "heuristics",
}
_CONFIGS = ("triton.Config", "triton.runtime.Config", "triton.runtime.autotuner.Config")
_POINTER_CALLS = {
    "block_pointer": {"make_block_ptr", "advance"},
    "descriptor": {"make_tensor_descriptor", "_experimental_make_tensor_descriptor"},
}


@dataclass(frozen=True)
class Span:
    """A half-open range of bytes of the file's UTF-8 text."""

    start: int
    end: int


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function. `default` and `annotation` are source text."""

    name: str
    is_constexpr: bool = False
    default: str | None = None
    annotation: str | None = None
    keyword_only: bool = False


@dataclass(frozen=True)
class JitFunction:
    """A `@triton.jit` function at module level, from its first decorator to its last line."""

    name: str
    span: Span
    line: int  # of the first decorator, 1-based
    end_line: int
    source: str  # at column 0, newlines "\n"
    parameters: tuple[Parameter, ...]
    decorators: tuple[str, ...]  # "autotune", "heuristics", "jit", from the outside in
    #: constexpr names and options that autotune or heuristics supply at the launch
    tuned: tuple[str, ...]
    #: False where `tuned` cannot be read from the text (configurations made by a function)
    tuned_is_exact: bool
    calls: tuple[str, ...]  # other jit functions of the file that it calls
    called_by: tuple[str, ...]
    launched: bool  # code outside jit functions refers to it
    pointer_apis: tuple[str, ...]  # "block_pointer", "descriptor": those that it uses itself

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def is_tuned(self) -> bool:
        return "autotune" in self.decorators or "heuristics" in self.decorators


@dataclass(frozen=True)
class Constant:
    """A module-level `NAME = value`. Mutable where jit functions alone read it."""

    name: str
    span: Span
    line: int
    source: str
    value: str
    mutable: bool
    read_by: tuple[str, ...]  # functions and constants that read it


@dataclass(frozen=True)
class LaunchSite:
    """One `kernel[grid]`, with its arguments as source text where it is called on the spot."""

    kernel: str
    line: int
    function: str  # "matmul", "Model.forward" or "<module>"
    grid: str
    called: bool  # False: `launch = kernel[grid]`, arguments not known here
    positional: tuple[str, ...] = ()
    keywords: tuple[tuple[str, str], ...] = ()
    has_star: bool = False  # *args or **kwargs: more may be passed than the text shows


@dataclass(frozen=True)
class Wrapper:
    """A function or method outside the jit functions ("matmul", "Model.forward"): frozen."""

    name: str
    span: Span
    line: int
    parameters: tuple[Parameter, ...]
    has_star: bool  # *args or **kwargs
    decorators: tuple[str, ...]  # source text
    launches: tuple[str, ...]  # kernels that it refers to


@dataclass(frozen=True)
class KernelFile:
    """A kernel file as parsed. `text` is the user's part; `block` what xesmith added to it."""

    path: str
    text: str
    block: str | None
    jit_functions: tuple[JitFunction, ...]
    constants: tuple[Constant, ...]
    launches: tuple[LaunchSite, ...]
    wrappers: tuple[Wrapper, ...]
    names: frozenset[str]  # every name bound at module level, or used anywhere as a global
    has_model: bool
    has_get_inputs: bool
    has_get_init_inputs: bool

    @classmethod
    def load(cls, path: str | Path) -> KernelFile:
        """Read and parse the file at `path`.

        Raises:
            UsageError: it is missing, not Python, not UTF-8, or has no jit function.
            InputKernelError: it is Python with a syntax error.
        """
        return cls.parse(read_source(path), path)

    @classmethod
    def parse(cls, text: str, path: str | Path = "<kernel>") -> KernelFile:
        """Parse `text`, which came from `path`. Raises as `load` does."""
        user_text, block = split_block(text)
        kernel_file = replace(_parse(user_text, str(path)), block=block)
        if not kernel_file.jit_functions:
            raise UsageError(
                "no @triton.jit function at module level",
                where=str(path),
                remedy="give a file that defines its Triton kernels at module level",
            )
        return kernel_file

    @cached_property
    def regions(self) -> dict[str, Span]:
        """What `splice` may replace: jit functions and mutable constants, by name."""
        spans = {function.name: function.span for function in self.jit_functions}
        spans |= {constant.name: constant.span for constant in self.constants if constant.mutable}
        return dict(sorted(spans.items(), key=lambda item: item[1].start))

    @cached_property
    def frozen_digest(self) -> str:
        """SHA-256 over the frozen text and the names of the regions between its pieces."""
        digest = hashlib.sha256()
        for name, piece in _frozen_pieces(self.text, self.regions):
            digest.update(f"{len(piece)}:{name}:".encode() + piece)
        return digest.hexdigest()

    def frozen_matches(self, base: KernelFile) -> bool:
        """Whether this file differs from `base` only inside the mutable regions of `base`.

        A region of `base` counts here under its name whether or not it would be mutable by
        itself: an edited kernel may no longer read a constant.
        """
        spans = {function.name: function.span for function in self.jit_functions}
        spans |= {constant.name: constant.span for constant in self.constants}
        known = {name: spans[name] for name in base.regions if name in spans}
        return _frozen_pieces(self.text, known) == _frozen_pieces(base.text, base.regions)

    def jit(self, name: str) -> JitFunction:
        """The jit function called `name`. Raises UsageError with the nearest name."""
        for function in self.jit_functions:
            if function.name == name:
                return function
        raise UsageError(
            f"no jit function '{name}'",
            where=self.path,
            remedy=nearest(name, (function.name for function in self.jit_functions)),
        )

    def wrapper(self, name: str) -> Wrapper:
        """The function or method called `name`. Raises UsageError with the nearest name."""
        for wrapper in self.wrappers:
            if wrapper.name == name:
                return wrapper
        raise UsageError(
            f"no function '{name}'",
            where=self.path,
            remedy=nearest(name, (wrapper.name for wrapper in self.wrappers)),
        )

    def splice(self, replacements: Mapping[str, str]) -> str:
        """The user's text with regions replaced, all else byte for byte.

        A replacement is written at column 0 with newlines "\\n"; it takes the indentation and
        the newline of the place where it goes. An unchanged region given back is unchanged.

        Raises:
            UsageError: a name that is no mutable region.
        """
        for name in replacements:
            if name not in self.regions:
                raise UsageError(
                    f"'{name}' is not a jit function or a constant that only kernels read",
                    where=self.path,
                    remedy=nearest(name, self.regions),
                )
        data = self.text.encode()
        newline = newline_of(self.text)
        pieces: list[bytes] = []
        position = 0
        for name, span in self.regions.items():
            pieces.append(data[position : span.start])
            old = data[span.start : span.end]
            indent = _indent_before(data, span.start)
            new = replacements.get(name)
            if new is None or new == _dedented(old.decode(), indent):
                pieces.append(old)
            else:
                pieces.append(_fit(new, indent, newline).encode())
            position = span.end
        pieces.append(data[position:])
        return b"".join(pieces).decode()


def read_source(path: str | Path) -> str:
    """The text of a Python file, newlines as they are.

    Raises:
        UsageError: it is missing, a folder, not named *.py, not UTF-8, or holds NUL bytes.
    """
    file = Path(path)
    remedy = "give a Python file (*.py) that defines Triton kernels"
    if not file.exists():
        raise UsageError("no such file", where=str(path), remedy=remedy)
    if not file.is_file():
        raise UsageError("not a file", where=str(path), remedy=remedy)
    if file.suffix != ".py":
        raise UsageError("not a Python file", where=str(path), remedy=remedy)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if b"\0" in data:
        raise UsageError("not a Python file: it holds NUL bytes", where=str(path), remedy=remedy)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}",
            where=str(path),
            remedy="save the file as UTF-8",
        ) from error


def newline_of(text: str) -> str:
    """The newline that `text` uses: "\\r\\n" where its first line ends so, else "\\n"."""
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def split_block(text: str) -> tuple[str, str | None]:
    """`text` without xesmith's block, and the block from its first marker to its last newline.

    Raises:
        UsageError: a marker without its partner, or more than one block.
    """
    lines = text.splitlines(keepends=True)
    begins = [i for i, line in enumerate(lines) if line.rstrip("\r\n").startswith(BLOCK_BEGIN)]
    ends = [i for i, line in enumerate(lines) if line.rstrip("\r\n") == BLOCK_END]
    if not begins and not ends:
        return text, None
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise UsageError(
            "the markers of the generated launch plan do not pair up",
            remedy=f"restore the one pair of lines '{BLOCK_BEGIN}' and '{BLOCK_END}'",
        )
    begin, end = begins[0], ends[0] + 1
    before = "".join(lines[:begin])
    if lines[begin].rstrip("\r\n").endswith("(no final newline before)"):
        before = before.removesuffix("\n").removesuffix("\r")
    return before + "".join(lines[end:]), "".join(lines[begin:end])


def _frozen_pieces(text: str, regions: Mapping[str, Span]) -> list[tuple[str, bytes]]:
    """(name of the region that follows, frozen bytes before it), the tail under ""."""
    data = text.encode()
    pieces: list[tuple[str, bytes]] = []
    position = 0
    for name, span in sorted(regions.items(), key=lambda item: item[1].start):
        pieces.append((name, data[position : span.start]))
        position = span.end
    return [*pieces, ("", data[position:])]


def _indent_before(data: bytes, start: int) -> str:
    line_start = max(data.rfind(b"\n", 0, start), data.rfind(b"\r", 0, start)) + 1
    lead = data[line_start:start].decode()
    return lead if not lead.strip() else ""


def _dedented(source: str, indent: str) -> str:
    """A region as `source` shows it: at column 0, newlines "\\n"."""
    lines = source.replace("\r\n", "\n").split("\n")
    return "\n".join([lines[0], *(line.removeprefix(indent) for line in lines[1:])])


def _fit(source: str, indent: str, newline: str) -> str:
    body = textwrap.indent(source.strip("\r\n").replace("\r\n", "\n"), indent)
    return body[len(indent) :].replace("\n", newline)


# A search judges many launch plans over one text, which takes libcst some tenths of a second.
@lru_cache(maxsize=32)
def _parse(text: str, path: str) -> KernelFile:
    body = text.removeprefix(_BOM)
    offset = len(text.encode()) - len(body.encode())
    # libcst loses form feeds and some lines of white space. A comment of the same length in
    # their place moves no byte, and texts are taken from `body`.
    parsed = re.sub(r"^[ \t\f]+(?=\r?$)", lambda m: "#" * len(m[0]), body, flags=re.MULTILINE)
    parsed = parsed.replace("\f", " ")
    _check_depth(body, path)
    try:
        module = cst.parse_module(parsed)
    except cst.ParserSyntaxError as error:
        message, line = _syntax_error(body) or (error.message, error.raw_line)
        raise InputKernelError(
            f"syntax error: {message}",
            where=f"{path}:{line}",
            remedy="make the file importable by Python first",
        ) from error
    except RecursionError as error:
        raise InputKernelError("nested too deeply to parse", where=path) from error
    if module.code != parsed or re.search(r"\r(?!\n)", body):
        raise UsageError(
            "the file has line endings that cannot be kept (a lone carriage return)",
            where=path,
            remedy="convert the file to one kind of line ending",
        )
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    reader = _Reader(module, body, offset, path, text)
    try:
        wrapper.visit(reader)
    except RecursionError as error:
        raise InputKernelError("nested too deeply to parse", where=path) from error
    assert reader.result is not None
    return reader.result


def _check_depth(text: str, path: str) -> None:
    """Refuses what libcst takes minutes for, or ends the process at: it recurses natively."""
    too_deep = InputKernelError(
        "nested too deeply to parse",
        where=path,
        remedy="split long expressions into statements",
    )
    try:
        level: list[ast.AST] = [ast.parse(text)]
    except (RecursionError, MemoryError) as error:
        raise too_deep from error
    except SyntaxError as error:
        if "nested" in error.msg or "too many" in error.msg:
            raise too_deep from error
        return  # libcst says where
    except ValueError:
        return
    for _ in range(_MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise too_deep


def _syntax_error(text: str) -> tuple[str, int] | None:
    """Python's own message and line, which are better than libcst's."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        return error.msg, error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return None
    return None


class _Reader(cst.CSTVisitor):
    """Collects definitions and references of one module.

    An owner is what a reference stands in: "=NAME" (the value of a module constant), the name of
    a function, "Class.method", or "<module>".
    """

    METADATA_DEPENDENCIES = (
        ByteSpanPositionProvider,
        ParentNodeProvider,
        PositionProvider,
        QualifiedNameProvider,
        ScopeProvider,
    )

    def __init__(
        self,
        module: cst.Module,
        body: str,
        offset: int,
        path: str,
        text: str,
    ) -> None:
        super().__init__()
        self.module = module
        self.path = path
        self.text = text
        self.result: KernelFile | None = None
        self.offset = offset
        self.data = body.encode()
        self.owners: list[str] = []
        self.owner_of: dict[cst.CSTNode, str] = {}
        self.jit_nodes: dict[str, cst.FunctionDef] = {}
        self.wrapper_nodes: dict[str, cst.FunctionDef] = {}
        self.class_names: list[str] = []
        self.constant_nodes: dict[str, list[cst.SimpleStatementLine]] = {}
        self.subscripts: list[tuple[str, cst.Subscript, str]] = []  # name, node, owner
        self.used_names: set[str] = set()
        self.global_scope: GlobalScope | None = None

    # -- collecting ---------------------------------------------------------------------------

    def visit_Module(self, node: cst.Module) -> None:
        scope = self.get_metadata(ScopeProvider, node)
        self.global_scope = scope if isinstance(scope, GlobalScope) else None

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.class_names.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self.class_names.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        name = ".".join([*self.class_names, node.name.value])
        if not self.owners or self.owners[-1] == "<class>":
            if self._kinds(node) and "jit" in self._kinds(node) and not self.class_names:
                if name in self.jit_nodes:
                    raise UsageError(
                        f"jit function '{name}' is defined twice",
                        where=f"{self.path}:{self._line(node)}",
                        remedy="keep one definition",
                    )
                self.jit_nodes[name] = node
            else:
                self.wrapper_nodes[name] = node
            self.owners.append(name)
        else:
            self.owners.append(self.owners[-1])

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self.owners.pop()

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        name = None if self.owners or self.class_names else _assigned_name(node)
        if name is not None:
            self.constant_nodes.setdefault(name, []).append(node)
            self.owners.append(f"={name}")

    def leave_SimpleStatementLine(self, original_node: cst.SimpleStatementLine) -> None:
        if self.owners and self.owners[-1].startswith("="):
            self.owners.pop()

    def visit_Name(self, node: cst.Name) -> None:
        self.used_names.add(node.value)
        self.owner_of[node] = self.owners[-1] if self.owners else "<module>"

    def visit_Subscript(self, node: cst.Subscript) -> None:
        if isinstance(node.value, cst.Name):
            owner = self.owners[-1] if self.owners else "<module>"
            self.subscripts.append((node.value.value, node, owner))

    # -- reading ------------------------------------------------------------------------------

    def leave_Module(self, original_node: cst.Module) -> None:
        # Metadata can be asked for during the visit only.
        self.result = self._read()

    def _read(self) -> KernelFile:
        readers = self._readers()
        jit_names = self.jit_nodes.keys()
        mutable = _mutable_constants(self.constant_nodes, readers, set(jit_names), self._rebound())
        constants = tuple(
            self._constant(name, nodes[0], name in mutable, readers.get(name, set()))
            for name, nodes in self.constant_nodes.items()
            if len(nodes) == 1
        )
        wrappers = tuple(self._wrapper(name, readers) for name in self.wrapper_nodes)
        top_level = readers.keys()
        return KernelFile(
            path=self.path,
            text=self.text,
            block=None,
            jit_functions=tuple(self._jit(name, readers) for name in jit_names),
            constants=constants,
            launches=self._launches(),
            wrappers=wrappers,
            names=frozenset(self.used_names),
            has_model="Model" in top_level,
            has_get_inputs="get_inputs" in top_level,
            has_get_init_inputs="get_init_inputs" in top_level,
        )

    def _readers(self) -> dict[str, set[str]]:
        """For each name bound at module level, the owners of the references to it."""
        readers: dict[str, set[str]] = {}
        assert self.global_scope is not None
        for assignment in self.global_scope.assignments:
            owners = readers.setdefault(assignment.name, set())
            for access in assignment.references:
                root = access.node
                while isinstance(root, cst.Attribute):
                    root = root.value
                owners.add(self.owner_of.get(root, "<module>"))
        return readers

    def _rebound(self) -> set[str]:
        """Names with more than one assignment, `global` statements in functions included."""
        assert self.global_scope is not None
        names = [assignment.name for assignment in self.global_scope.assignments]
        return {name for name in names if names.count(name) > 1}

    def _line(self, node: cst.CSTNode) -> int:
        return cast("CodeRange", self.get_metadata(PositionProvider, node)).start.line

    def _bytes(self, node: cst.CSTNode) -> tuple[int, int]:
        span = cast("CodeSpan", self.get_metadata(ByteSpanPositionProvider, node))
        return span.start, span.start + span.length

    def _span(self, first: cst.CSTNode, last: cst.CSTNode) -> Span:
        start, _ = self._bytes(first)
        _, end = self._bytes(last)
        # A comment that trails the last line belongs to the region.
        line_end = self.data.find(b"\n", end)
        line_end = len(self.data) if line_end < 0 else line_end
        tail = self.data[end:line_end]
        if tail.strip().startswith(b"#"):
            end = line_end - (1 if tail.endswith(b"\r") else 0)
        return Span(start + self.offset, end + self.offset)

    def _source(self, span: Span) -> str:
        start, end = span.start - self.offset, span.end - self.offset
        return _dedented(self.data[start:end].decode(), _indent_before(self.data, start))

    def _qualified(self, node: cst.CSTNode) -> set[str]:
        return {item.name for item in self.get_metadata(QualifiedNameProvider, node, set())}

    def _kinds(self, node: cst.FunctionDef) -> tuple[str, ...]:
        """The function's Triton decorators, from the outside in; others are left out."""
        kinds: list[str] = []
        for decorator in node.decorators:
            expression = decorator.decorator
            target = expression.func if isinstance(expression, cst.Call) else expression
            found = [_DECORATORS[name] for name in self._qualified(target) if name in _DECORATORS]
            kinds += found[:1]
        return tuple(kinds)

    def _parameters(self, node: cst.FunctionDef) -> tuple[Parameter, ...]:
        listed = [(p, False) for p in (*node.params.posonly_params, *node.params.params)]
        listed += [(p, True) for p in node.params.kwonly_params]
        return tuple(self._parameter(p, keyword_only) for p, keyword_only in listed)

    def _parameter(self, node: cst.Param, keyword_only: bool) -> Parameter:
        annotation = node.annotation and self.module.code_for_node(node.annotation.annotation)
        return Parameter(
            name=node.name.value,
            is_constexpr=annotation is not None and annotation.strip("\"'").endswith("constexpr"),
            default=node.default and self.module.code_for_node(node.default),
            annotation=annotation,
            keyword_only=keyword_only,
        )

    def _jit(self, name: str, readers: Mapping[str, set[str]]) -> JitFunction:
        node = self.jit_nodes[name]
        span = self._span(node.decorators[0], node.body)
        kinds = self._kinds(node)
        tuned, exact = self._tuned(node)
        users = readers.get(name, set()) - {name}
        source = self._source(span)
        line = self._line(node.decorators[0])
        called = {
            found.attr.value
            for found in m.findall(node, m.Attribute())
            if isinstance(found, cst.Attribute)
        }
        return JitFunction(
            name=name,
            span=span,
            line=line,
            end_line=line + source.count("\n"),
            source=source,
            parameters=self._parameters(node),
            decorators=kinds,
            tuned=tuned,
            tuned_is_exact=exact,
            calls=tuple(
                other for other in self.jit_nodes if other != name and name in readers[other]
            ),
            called_by=tuple(other for other in self.jit_nodes if other in users),
            launched=any(user not in self.jit_nodes for user in users),
            pointer_apis=tuple(api for api, names in _POINTER_CALLS.items() if called & names),
        )

    def _tuned(self, node: cst.FunctionDef) -> tuple[tuple[str, ...], bool]:
        """Names that the tuning decorators supply, and whether all could be read."""
        names: list[str] = []
        exact = True
        for decorator in node.decorators:
            call = decorator.decorator
            if not isinstance(call, cst.Call):
                continue
            kind = {_DECORATORS.get(name) for name in self._qualified(call.func)}
            if "autotune" in kind:
                found = self._config_names(call)
            elif "heuristics" in kind:
                found = _dict_keys(_argument(call, 0, "values"))
            else:
                continue
            exact = exact and found is not None
            names += found or ()
        return tuple(dict.fromkeys(names)), exact

    def _config_names(self, autotune: cst.Call) -> list[str] | None:
        """Keys of every `triton.Config` in the decorator; None where some are out of sight."""
        configs = _argument(autotune, 0, "configs")
        if isinstance(configs, cst.List):
            elements = [element.value for element in configs.elements]
        elif isinstance(configs, cst.ListComp):
            elements = [configs.elt]
        else:
            return None
        names: list[str] = ["num_warps", "num_stages", "num_ctas"] if elements else []
        for element in elements:
            if not isinstance(element, cst.Call) or not self._is_config(element):
                return None
            keys = _dict_keys(_argument(element, 0, "kwargs"))
            if keys is None:
                return None
            names += keys
        return names

    def _is_config(self, call: cst.Call) -> bool:
        return bool(self._qualified(call.func) & set(_CONFIGS))

    def _constant(
        self, name: str, node: cst.SimpleStatementLine, mutable: bool, readers: set[str]
    ) -> Constant:
        span = self._span(node, node)
        assign = node.body[0]
        assert isinstance(assign, cst.Assign | cst.AnnAssign)
        return Constant(
            name=name,
            span=span,
            line=self._line(node),
            source=self._source(span),
            value=self.module.code_for_node(assign.value) if assign.value else "",
            mutable=mutable,
            read_by=tuple(sorted(reader.lstrip("=") for reader in readers)),
        )

    def _wrapper(self, name: str, readers: Mapping[str, set[str]]) -> Wrapper:
        node = self.wrapper_nodes[name]
        first = node.decorators[0] if node.decorators else node
        star = node.params.star_arg
        return Wrapper(
            name=name,
            span=self._span(first, node.body),
            line=self._line(node),
            parameters=self._parameters(node),
            has_star=isinstance(star, cst.Param) or node.params.star_kwarg is not None,
            decorators=tuple(self.module.code_for_node(d.decorator) for d in node.decorators),
            launches=tuple(kernel for kernel in self.jit_nodes if name in readers[kernel]),
        )

    def _launches(self) -> tuple[LaunchSite, ...]:
        sites: list[LaunchSite] = []
        for name, node, owner in self.subscripts:
            if name not in self.jit_nodes or owner in self.jit_nodes or self._shadowed(node):
                continue
            sites.append(self._launch(name, node, owner.lstrip("=")))
        return tuple(sites)

    def _shadowed(self, node: cst.Subscript) -> bool:
        """Whether the subscripted name is bound inside a function, not at module level."""
        scope = cast("Scope | None", self.get_metadata(ScopeProvider, node.value))
        assert isinstance(node.value, cst.Name)
        if scope is None:
            return False
        return any(item.scope is not self.global_scope for item in scope[node.value.value])

    def _launch(self, name: str, node: cst.Subscript, owner: str) -> LaunchSite:
        grid = ", ".join(self.module.code_for_node(element.slice).strip() for element in node.slice)
        parent = self.get_metadata(ParentNodeProvider, node)
        if not isinstance(parent, cst.Call) or parent.func is not node:
            return LaunchSite(name, self._line(node), owner, grid, called=False)
        positional: list[str] = []
        keywords: list[tuple[str, str]] = []
        for argument in parent.args:
            value = self.module.code_for_node(argument.value)
            if argument.keyword is not None:
                keywords.append((argument.keyword.value, value))
            elif not argument.star:
                positional.append(value)
        return LaunchSite(
            kernel=name,
            line=self._line(node),
            function=owner,
            grid=grid,
            called=True,
            positional=tuple(positional),
            keywords=tuple(keywords),
            has_star=any(argument.star for argument in parent.args),
        )


def _assigned_name(node: cst.SimpleStatementLine) -> str | None:
    """The one name that the statement binds, where that is all it does."""
    if len(node.body) != 1:
        return None
    statement = node.body[0]
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
    elif isinstance(statement, cst.AnnAssign) and statement.value is not None:
        target = statement.target
    else:
        return None
    return target.value if isinstance(target, cst.Name) else None


def _mutable_constants(
    constants: Mapping[str, Sequence[cst.CSTNode]],
    readers: Mapping[str, set[str]],
    jit_names: set[str],
    rebound: set[str],
) -> set[str]:
    """Names not in `rebound` whose readers are all jit functions or mutable constants."""
    candidates = {name for name, nodes in constants.items() if len(nodes) == 1 and readers[name]}
    candidates -= rebound
    while True:
        allowed = jit_names | {f"={name}" for name in candidates}
        kept = {name for name in candidates if readers[name] <= allowed}
        if kept == candidates:
            return kept
        candidates = kept


def _argument(call: cst.Call, position: int, keyword: str) -> cst.BaseExpression | None:
    for index, argument in enumerate(call.args):
        if argument.star:
            return None
        if argument.keyword is None and index == position:
            return argument.value
        if argument.keyword is not None and argument.keyword.value == keyword:
            return argument.value
    return None


def _dict_keys(node: cst.BaseExpression | None) -> list[str] | None:
    if not isinstance(node, cst.Dict):
        return None
    keys: list[str] = []
    for element in node.elements:
        if not isinstance(element, cst.DictElement):
            return None
        if not isinstance(element.key, cst.SimpleString):
            return None
        value = element.key.evaluated_value
        keys.append(value if isinstance(value, str) else value.decode())
    return keys


def parameter_names(parameters: Iterable[Parameter]) -> tuple[str, ...]:
    return tuple(parameter.name for parameter in parameters)
