"""What a program's kernels accessed in the interpreter, line by line, and how their loops went.

The interpreter rewrites a kernel's syntax tree before it runs it; here marks are put in first:
one before each statement (which tells the lines that it spans), one around what a `for` loop goes
through, one at each round of a `while` loop. A mark takes its line from the frame that it is called
from.

Runs in worker processes started with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

#: names that no source text can spell, so no kernel can have them for its own
_RAN, _ROUNDS, _ENTERED, _AGAIN = "<ran>", "<rounds>", "<entered>", "<again>"

#: kernel that was launched, first and last line of a statement or of a loop's head
Span = tuple[str, int, int]


@dataclass
class Trace:
    """What was done since the process began. `kernel` is the one that is running."""

    source_path: str
    kernel: str = ""
    #: how often a statement accessed memory in one program, at most; wholly masked counts not
    accessed: dict[Span, int] = field(default_factory=dict[Span, int])
    #: the most rounds that one run of the loop took
    rounds: dict[Span, int] = field(default_factory=dict[Span, int])

    _now: dict[Span, int] = field(default_factory=dict[Span, int])
    _lines: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])

    def begin_program(self) -> None:
        """Tells that another program of the grid begins."""
        self._now.clear()

    def access(self, line: int) -> None:
        """Takes note of an access by the statement at a line."""
        at = (self.kernel, *self._lines.get(line, (line, line)))
        self._now[at] = times = self._now.get(at, 0) + 1
        self.accessed[at] = max(times, self.accessed.get(at, 0))

    def to_json(self) -> dict[str, Any]:
        return {
            "accessed": [[*span, most] for span, most in sorted(self.accessed.items())],
            "rounds": [[*span, most] for span, most in sorted(self.rounds.items())],
        }

    def install(self, rewriter: Any) -> None:
        """Makes `rewriter` (Triton's FunctionRewriter) mark what it rewrites from now on."""
        transform = rewriter.ast_transformer
        rewriter.ast_transformer = _Marking(transform.visit)
        running: dict[Span, int] = {}

        def span(further: int) -> Span | None:
            frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
            if frame.f_code.co_filename != self.source_path:
                return None
            return self.kernel, frame.f_lineno, frame.f_lineno + further

        def ran(further: int) -> None:
            if (at := span(further)) is not None and at[1] not in self._lines:
                _, first, last = at
                self._lines.update(dict.fromkeys(range(first, last + 1), (first, last)))

        def rounds(items: Iterable[Any], further: int) -> Iterable[Any]:
            at = span(further)
            return items if at is None else self._counted(items, at)

        def entered(further: int) -> None:
            if (at := span(further)) is not None:
                running[at] = 0

        def again(further: int) -> None:
            if (at := span(further)) is not None:
                running[at] = round_ = running.get(at, 0) + 1
                self._took(at, round_)

        marks = ((_RAN, ran), (_ROUNDS, rounds), (_ENTERED, entered), (_AGAIN, again))
        for name, mark in marks:
            setattr(builtins, name, mark)

    def _counted(self, items: Iterable[Any], at: Span) -> Iterator[Any]:
        for number, item in enumerate(items, start=1):
            self._took(at, number)
            yield item

    def _took(self, at: Span, number: int) -> None:
        if number > self.rounds.get(at, 0):
            self.rounds[at] = number


class _Marking:
    """Stands for Triton's own transformer, which it calls once a function."""

    def __init__(self, transform: Callable[[ast.AST], Any]) -> None:
        self._transform = transform

    def visit(self, tree: ast.AST) -> Any:
        for node in list(ast.walk(tree)):
            for name in ("body", "orelse"):
                block: Any = getattr(node, name, None)
                if isinstance(block, list) and not isinstance(node, ast.Module):
                    statements = cast("list[ast.stmt]", block)
                    setattr(node, name, [made for item in statements for made in _marked(item)])
        return self._transform(tree)


def _marked(statement: ast.stmt) -> list[ast.stmt]:
    """The statement with its marks, all of them on its first line."""
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    if body := getattr(statement, "body", None):
        last = max(first, body[0].lineno - 1)  # of what stands before the block
    further = last - first
    before = [_mark(_RAN, statement, further)]
    if isinstance(statement, ast.For):
        statement.iter = _call(_ROUNDS, statement, statement.iter, ast.Constant(further))
    elif isinstance(statement, ast.While):
        before.append(_mark(_ENTERED, statement, further))
        statement.body.insert(0, _mark(_AGAIN, statement, further))
    return [*before, statement]


def _mark(name: str, at: ast.stmt, further: int) -> ast.stmt:
    return _located(ast.Expr(_call(name, at, ast.Constant(further))), at)


def _call(name: str, at: ast.stmt, *arguments: ast.expr) -> ast.expr:
    function = _located(ast.Name(name, ast.Load()), at)
    given = [a if hasattr(a, "lineno") else _located(a, at) for a in arguments]
    return _located(ast.Call(function, given, []), at)


def _located(node: Any, at: ast.stmt) -> Any:
    """The node on the first line of `at`."""
    node.lineno = node.end_lineno = at.lineno
    node.col_offset = node.end_col_offset = at.col_offset
    return node
