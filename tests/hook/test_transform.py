"""Transforms by name, and the keys that tell them apart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xesmith.errors import UsageError
from xesmith.hook.transform import make_transform
from xesmith.ir_bounds import MAX_NESTING
from xesmith.lowering.exchange import require_bounded
from xesmith.lowering.text_filter import TransformError


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that writes the module `given_transform` and makes it importable anew."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str) -> None:
        (tmp_path / "given_transform.py").write_text(text)
        sys.modules.pop("given_transform", None)

    yield write
    sys.modules.pop("given_transform", None)


def test_a_function_by_name(module):
    module("def change(text):\n    return text.upper()\n")
    made = make_transform("given_transform:change")
    assert (made.apply("a"), made.spec) == ("A", "given_transform:change")


def test_another_text_of_the_function_is_another_key(module):
    module("def change(text):\n    return text.upper()\n")
    first = make_transform("given_transform:change").key
    assert make_transform("given_transform:change").key == first
    module("def change(text):\n    return text.lower() + '!'\n")
    assert make_transform("given_transform:change").key != first


def test_a_command_filters_the_text():
    made = make_transform(["tr", "a-z", "A-Z"])
    assert made.apply("abc") == "ABC"
    assert make_transform(made.spec or "").key == made.key


def test_a_command_may_read_a_file():
    program = "import sys; print(sys.argv[1][-5:], open(sys.argv[1]).read())"
    assert make_transform([sys.executable, "-c", program, "{file}"]).apply("a b") == ".ttir a b\n"


def test_another_content_of_a_file_that_the_command_names_is_another_key(tmp_path: Path):
    script = tmp_path / "edit.sed"
    script.write_text("s/a/b/")
    command = ["sed", "-f", str(script)]
    made = make_transform(command)
    assert made.apply("a\n") == "b\n"
    script.write_text("s/a/c/")
    assert make_transform(command).key != made.key


def test_names_in_a_command_start_from_where_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "edit.sed").write_text("s/a/b/")
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nexec sed -f edit.sed\n")
    tool.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    commands = ("./tool", "sed -f edit.sed")
    made = [make_transform(command) for command in commands]
    monkeypatch.chdir("/")
    assert [transform.apply("a\n") for transform in made] == ["b\n", "b\n"]
    # A child makes it again, wherever it was started.
    again = [make_transform(item.spec or "", tmp_path) for item in made]
    assert [item.key for item in again] == [item.key for item in made]
    (tmp_path / "edit.sed").write_text("s/a/c/")
    assert make_transform(made[1].spec or "", tmp_path).key != made[1].key


def test_a_command_that_fails_says_why():
    made = make_transform([sys.executable, "-c", "import sys; sys.exit('out of ideas')"])
    with pytest.raises(TransformError, match=r"exit code 1: out of ideas"):
        made.apply("x")


def test_a_command_does_not_inherit_the_hook(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "xesmith.hook.cache:Cache")
    program = "import os; print(os.environ.get('TRITON_CACHE_MANAGER'))"
    assert make_transform([sys.executable, "-c", program]).apply("") == "None\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("no_such_module:change", "there is no transform 'no_such_module:change'"),
        ("json:no_such_function", "there is no transform 'json:no_such_function'"),
        ("no-such-command --flag", "there is no command 'no-such-command'"),
        ("", "there is no command ''"),
        ([], "there is no command ''"),
    ],
)
def test_what_is_not_there_is_named(given, said):
    with pytest.raises(UsageError, match=said):
        make_transform(given)


def test_a_function_whose_text_does_not_tell_what_it_does_is_refused():
    suffix = "!"

    def change(text: str) -> str:
        return text + suffix

    with pytest.raises(UsageError, match="uses variables of the function that made it"):
        make_transform(change)


def test_a_function_of_the_program_itself_is_not_for_children():
    assert make_transform(lambda text: text).spec is None


def test_a_text_that_would_end_the_process_is_refused():
    require_bounded("[" * MAX_NESTING + "]" * MAX_NESTING)
    require_bounded('"' + "[" * 20000 + '"')  # in a string it is no nesting
    with pytest.raises(TransformError, match="nested deeper"):
        require_bounded("[" * 20000)
