"""What a model may answer: kernels and a launch plan, and nothing else by construction."""

import pytest

from tests.stages.cover.conftest import KERNEL, SOURCE, answer
from xesmith.stages.cover.reply import MAX_CHARACTERS, ReplyFault, parse_reply

PLAN = """```json
{"rebindings": [{"name": "double_kernel", "original_grid": ["cdiv(n, BLOCK)"], "alternatives": [
  {"guard": "n % 512 == 0", "launches": [{"kernel": "fast", "grid": ["n // 512"],
   "metas": {"BLOCK": 512}}]}]}]}
```"""


def fault(text, kernel_file, finish="stop"):
    with pytest.raises(ReplyFault) as caught:
        parse_reply(text, kernel_file, finish)
    return str(caught.value)


def test_a_kernel_and_its_note_are_taken_and_the_prose_is_not(kernel_file):
    reply = parse_reply(answer(), kernel_file)
    assert reply.note == "x + x"
    assert reply.sources == {"double_kernel": KERNEL}
    assert reply.plan is None


def test_constants_imports_of_the_file_and_several_blocks(kernel_file):
    code = (
        "import triton\nimport triton.language as tl\n\nSCALE: tl.constexpr = 2\n"
        "LOG2E = 1.4426950408889634\n"
    )
    text = f"NOTE: **n**\n```python\n{code}```\n```py\n{KERNEL}\n```\n{PLAN}"
    reply = parse_reply(text, kernel_file)
    assert list(reply.sources) == ["SCALE", "LOG2E", "double_kernel"]
    assert reply.sources["LOG2E"] == "LOG2E = 1.4426950408889634"
    assert reply.plan is not None
    assert reply.plan.rebindings[0].alternatives[0].launches[0].kernel == "fast"


def test_a_plan_alone_changes_launches(kernel_file):
    reply = parse_reply(f"NOTE: larger\n{PLAN}", kernel_file)
    assert reply.sources == {}
    assert reply.plan is not None


def test_what_was_understood_can_be_shown_again(kernel_file):
    reply = parse_reply(answer() + PLAN, kernel_file)
    assert parse_reply(reply.text, kernel_file) == reply


def test_a_whole_file_counts_for_its_kernels_where_the_rest_is_untouched(kernel_file):
    old = SOURCE[SOURCE.index("@triton.jit") : SOURCE.index("\n\n\ndef double")]
    changed = SOURCE.replace(old, KERNEL)
    reply = parse_reply(f"NOTE: n\n```python\n{changed}```", kernel_file)
    assert reply.sources == {"double_kernel": KERNEL}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "the reply is empty", id="empty"),
        pytest.param(" \n\n", "the reply is empty", id="blank"),
        pytest.param("I would use block pointers here.", "no code block", id="prose"),
        pytest.param("NOTE: n\n```python\n" + KERNEL, "ends inside a code block", id="no end"),
        pytest.param("x" * (MAX_CHARACTERS + 1), "more than 100000", id="too long"),
        pytest.param(f"```python\n{KERNEL[:-2]}\n```", "syntax error", id="syntax error"),
        pytest.param("```python\ndef f(:\n```", "line 1 of the code", id="line of the error"),
        pytest.param("```python\n" + "(" * 5000 + "\n```", "syntax error", id="nested"),
        pytest.param("```python\nx = 1\0\n```", "syntax error", id="nul"),
        pytest.param("```json\n{nonsense}\n```", "launch plan", id="no JSON"),
        pytest.param('```json\n{"rebindngs": []}\n```', "rebindings", id="unknown field"),
        pytest.param(PLAN + "\n" + PLAN, "2 launch plans", id="two plans"),
    ],
)
def test_a_reply_without_a_candidate_is_told_why(text, told, kernel_file):
    assert told in fault(text, kernel_file)


@pytest.mark.parametrize("finish", ["length", "size", "time"])
def test_a_cut_reply_is_refused_even_where_it_parses(finish, kernel_file):
    assert "was cut by" in fault(answer(), kernel_file, finish)


@pytest.mark.parametrize(
    ("code", "named"),
    [
        pytest.param("def double(x):\n    return x + x", "function 'double'", id="wrapper"),
        pytest.param("import os", "'import os'", id="import"),
        pytest.param("from torch import compile", "'from torch import compile'", id="from"),
        pytest.param("print('fast')", "print('fast')", id="statement"),
        pytest.param("double = lambda x: x", None, id="rebound name"),
        pytest.param("torch.randn = None", "'torch.randn = None'", id="patched module"),
        pytest.param("if True:\n    x = 1", "'if True:'", id="branch"),
        pytest.param("x, y = 1, 2", "'x, y = (1, 2)'", id="two names"),
        pytest.param("async def f():\n    pass", "function 'f'", id="coroutine"),
    ],
)
def test_what_is_no_kernel_is_refused_by_name(code, named, kernel_file):
    text = f"NOTE: n\n```python\n{KERNEL}\n{code}\n```"
    if named is None:  # a constant by its form; what it holds is judged with the file
        assert "double" in parse_reply(text, kernel_file).sources
        return
    told = fault(text, kernel_file)
    assert named in told
    assert "only kernels and plain constants" in told


def test_a_whole_file_with_an_edited_harness_is_refused(kernel_file):
    edited = SOURCE.replace("return double(x)", "return x + x")
    told = fault(f"```python\n{edited}```", kernel_file)
    assert "text outside the kernels is not the original's" in told


def test_one_name_twice_is_refused(kernel_file):
    other = KERNEL.replace("x + x", "x * 2")
    assert "'double_kernel' is defined twice" in fault(
        f"```python\n{KERNEL}\n\n{other}\n```", kernel_file
    )


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("**NOTE:** wider loads\n", "wider loads"),
        ("> NOTE: `x`\n", "x`"),
        ("NOTE:\n", "no note"),
        ("Well. NOTE: not at the line's begin\n", "no note"),
    ],
)
def test_the_note_is_the_line_that_says_so(text, note, kernel_file):
    code = f"{KERNEL}\n    # NOTE: masks stay\n# NOTE: of the code"
    assert parse_reply(f"{text}```python\n{code}\n```", kernel_file).note == note


def test_a_long_answer_is_read_in_one_pass(kernel_file):
    # Quadratic in its lines, this took a minute.
    assert "no code block" in fault("-\n" * 49_000, kernel_file)


def test_pythons_warnings_about_an_answer_are_not_ours(kernel_file):
    odd = KERNEL.replace("x + x", "x + (2if n is 3 else 4)")
    assert "double_kernel" in parse_reply(f"```python\n{odd}\n```", kernel_file).sources


def test_notes_are_one_short_line(kernel_file):
    text = answer(note="a\x1b[31mb " + "c" * 500)
    note = parse_reply(text, kernel_file).note
    assert len(note) <= 160
    assert "\x1b" not in note
    assert parse_reply(f"```python\n{KERNEL}\n```", kernel_file).note == "no note"
