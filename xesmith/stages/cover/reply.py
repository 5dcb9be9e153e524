"""What a model may answer: kernels, and a launch plan as data. Nothing else gets through.

    NOTE: one line, what was done
    ```python
    <jit functions, and plain constants that they need>
    ```
    ```json
    <a launch plan, where one is needed>
    ```

The wrappers, Model and inputs cannot be answered with: only these two blocks are read, and of the
first only kernels and constants are taken.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from dataclasses import dataclass

from xesmith.errors import XesmithError
from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import LaunchPlan
from xesmith.lm.record import Finish

#: longer answers are not kernels
MAX_CHARACTERS = 100_000
_NOTE_CHARACTERS = 160

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*$", re.MULTILINE)
#: marks that models put around a word: emphasis, headings, quotes, lists
_MARKS = r"[ \t*_#>`-]{0,8}"
_NOTE = re.compile(rf"^{_MARKS}NOTE{_MARKS}:{_MARKS}([^\n]*)$", re.MULTILINE)
_NOTHING = re.compile(rf"^{_MARKS}NOTHING{_MARKS}(?::{_MARKS}([^\n]*))?$", re.MULTILINE)
_CUT: dict[Finish, str] = {
    "length": "the endpoint's limit of tokens",
    "size": "the limit of characters",
    "time": "the limit of time",
}


class ReplyFault(Exception):  # noqa: N818 (a fault of the model, told to it, and no error of ours)
    """The reply holds no proposal. The text says why, to the model."""


class Declined(ReplyFault):
    """The model sees nothing to improve in this stage, and says why."""


@dataclass(frozen=True)
class KernelReply:
    """A proposal as it was answered. `sources`: by name, in the order in which they stand.

    plan: None where the reply has none, and the launches stay as they are.
    """

    note: str
    sources: dict[str, str]
    plan: LaunchPlan | None

    @property
    def text(self) -> str:
        """The reply as it was understood, for the next request."""
        parts = [f"NOTE: {self.note}"]
        if self.sources:
            parts.append("```python\n" + "\n\n\n".join(self.sources.values()) + "\n```")
        if self.plan is not None:
            parts.append(f"```json\n{self.plan.to_json()}\n```")
        return "\n".join(parts)


def parse_reply(text: str, kernel_file: KernelFile, finish: Finish = "stop") -> KernelReply:
    """Takes a reply apart.

    Args:
        kernel_file: the file that was given to the model; a whole file that has its harness
            byte for byte is taken for its kernels.
        finish: why the reply ended; a cut one is refused even where it parses.

    Raises:
        ReplyFault: it is empty, cut, too long, without a block, or holds more than kernels.
        Declined: it says that there is nothing to improve.
    """
    if finish != "stop":
        raise ReplyFault(f"the reply was cut by {_CUT[finish]}: answer with less text")
    if not text.strip():
        raise ReplyFault("the reply is empty")
    if len(text) > MAX_CHARACTERS:
        raise ReplyFault(f"the reply has {len(text)} characters, more than {MAX_CHARACTERS}")
    code: list[str] = []
    plans: list[str] = []
    blocks, prose = _taken_apart(text)
    for language, block in blocks:
        is_data = language == "json" or (not language and block.lstrip().startswith("{"))
        (plans if is_data else code).append(block)
    if not code and not plans:
        if (declined := _NOTHING.search(prose)) is not None:
            raise Declined(_line(declined[1] or "") or "no reason given")
        raise ReplyFault(
            "the reply has no code block: kernels stand between ```python and ```, a launch plan "
            "between ```json and ```"
        )
    if len(plans) > 1:
        raise ReplyFault(f"the reply has {len(plans)} launch plans: give one, the whole one")
    sources: dict[str, str] = {}
    for block in code:
        for name, source in _kernels(textwrap.dedent(block), kernel_file).items():
            if sources.get(name, source) != source:
                raise ReplyFault(f"'{name}' is defined twice")
            sources[name] = source
    return KernelReply(_note(prose), sources, _plan(plans[0]) if plans else None)


def _taken_apart(text: str) -> tuple[list[tuple[str, str]], str]:
    """(language, text) of each fenced block, and what stands outside of them."""
    found: list[tuple[str, str]] = []
    outside: list[str] = []
    end = 0
    opened: tuple[str, str, int] | None = None  # fence, language, start of the text
    for match in _FENCE.finditer(text):
        fence, language = match[1], match[2].lower()
        if opened is None:
            opened = fence, language, match.end() + 1
            outside.append(text[end : match.start()])
        elif fence.startswith(opened[0]) and not language:
            found.append((opened[1], text[opened[2] : match.start()]))
            opened, end = None, match.end()
    if opened is not None:
        raise ReplyFault("the reply ends inside a code block: it was cut, or its end is missing")
    return found, "".join([*outside, text[end:]])


def _note(text: str) -> str:
    match = _NOTE.search(text)
    if match is None:
        return "no note"
    return _line(match[1]) or "no note"


def _line(text: str) -> str:
    """One short line of what may be printed."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _NOTE_CHARACTERS else f"{line[: _NOTE_CHARACTERS - 3].rstrip()}..."


def _plan(text: str) -> LaunchPlan:
    try:
        return LaunchPlan.from_json(text)
    except XesmithError as error:
        raise ReplyFault(told(error)) from error


def told(error: XesmithError) -> str:
    """An error of ours in one line, for the model."""
    where = f"{error.where}: " if error.where else ""
    return f"{where}{error.what}" + (f" ({error.remedy})" if error.remedy else "")


def _kernels(code: str, kernel_file: KernelFile) -> dict[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of a text that is not ours
            body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        at = f"line {line} of the code: " if line else ""
        what = error.msg if isinstance(error, SyntaxError) else "it cannot be parsed"
        raise ReplyFault(f"{at}syntax error: {what}") from error
    known = _imports(ast.parse(kernel_file.text).body)
    if known <= _imports(body) and any(isinstance(item, ast.ClassDef) for item in body):
        return _of_whole_file(code, kernel_file)
    lines = code.split("\n")
    found: dict[str, str] = {}
    refused: list[str] = []
    for item in body:
        if isinstance(item, ast.FunctionDef) and item.decorator_list:
            first = min(node.lineno for node in item.decorator_list)
            name, source = item.name, "\n".join(lines[first - 1 : item.end_lineno])
        elif isinstance(item, ast.Assign | ast.AnnAssign) and (target := _target(item)):
            name, source = target, "\n".join(lines[item.lineno - 1 : item.end_lineno])
        elif isinstance(item, ast.Import | ast.ImportFrom) and _imports([item]) <= known:
            continue  # the file has it
        elif isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
            continue  # a remark
        else:
            refused.append(f"{_named(item)} (line {item.lineno} of the code)")
            continue
        if found.get(name, source) != source:
            raise ReplyFault(f"'{name}' is defined twice")
        found[name] = source
    if refused:
        raise ReplyFault(
            f"only kernels and plain constants are taken, not {', '.join(refused)}: what launches "
            "them cannot be changed by code, only by the launch plan"
        )
    return found


def _of_whole_file(code: str, kernel_file: KernelFile) -> dict[str, str]:
    """The kernels of a whole file, where nothing else of it differs from the one given."""
    ending = kernel_file.text[len(kernel_file.text.rstrip()) :]
    try:
        whole = KernelFile.parse(code.strip("\n") + ending, "reply")
    except XesmithError as error:
        raise ReplyFault(told(error)) from error
    if not whole.frozen_matches(kernel_file):
        raise ReplyFault(
            "the reply is a whole file whose text outside the kernels is not the original's: "
            "answer with the kernels alone; what launches them cannot be changed by code"
        )
    spans = {function.name: function.span for function in whole.jit_functions}
    spans |= {constant.name: constant.span for constant in whole.constants}
    data = whole.text.encode()
    return {
        name: textwrap.dedent(data[spans[name].start : spans[name].end].decode())
        for name in kernel_file.regions
    }


def _target(item: ast.Assign | ast.AnnAssign) -> str | None:
    targets = item.targets if isinstance(item, ast.Assign) else [item.target]
    if len(targets) == 1 and isinstance(targets[0], ast.Name):
        return targets[0].id
    return None


def _imports(body: list[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for item in body:
        if isinstance(item, ast.Import):
            found |= {ast.dump(alias) for alias in item.names}
        elif isinstance(item, ast.ImportFrom):
            found |= {f"{item.module} {ast.dump(alias)}" for alias in item.names}
    return found


def _named(item: ast.stmt) -> str:
    if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"function '{item.name}'"
    if isinstance(item, ast.ClassDef):
        return f"class '{item.name}'"
    text = ast.unparse(item).split("\n")[0]
    return f"'{text if len(text) <= 60 else text[:57] + '...'}'"
