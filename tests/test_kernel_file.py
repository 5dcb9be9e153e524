"""Kernel files: what is mutable, what is launched, and that the rest is kept byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xesmith.errors import InputKernelError, UsageError
from xesmith.kernel_file import BLOCK_BEGIN, BLOCK_END, KernelFile

SOURCE = """# é comment
import torch, triton
import triton.language as tl
from triton import jit as J

EPS = tl.constexpr(1e-5)
BOTH = 32  # the wrapper reads it too
INDIRECT = 7
TILES = [triton.Config({"BM": 32, "grf_mode": "256"}, num_warps=4)]
COUNTED = 0
UNREAD = 5


@J
def helper(x):
    return x * EPS


def cdiv(a, b):
    return (a + b - 1) // b


@triton.autotune(configs=TILES, key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
# between the decorators
@triton.jit
def tuned(x_ptr, n, BM: tl.constexpr, EVEN: "tl.constexpr" = True):
    tl.store(x_ptr, helper(tl.load(x_ptr + BOTH + INDIRECT + COUNTED)))  # tail é


@triton.jit(do_not_specialize=["n"])
def pointers(x_ptr, n):
    tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (16,), (0,))


@triton.jit
def nobody(x_ptr):
    return


def run(x, scale=2.0, *, out=None):
    grid = lambda META: (cdiv(4, META["BM"]), BOTH)
    tuned[grid](x, n=4, **{})
    launch = pointers[(1,)]
    launch(x, 1)
    return x


def count():
    global COUNTED
    COUNTED += 1


def shadowed(pointers):
    return pointers[(1,)](0)


class Model(torch.nn.Module):
    def forward(self, x):
        pointers[(1, 2)](x, 2, num_warps=4)
        return run(x)


if True:

    @triton.jit
    def nested(x):
        y = x
        return y


def get_inputs():
    return []
"""


@pytest.fixture(scope="module")
def parsed() -> KernelFile:
    return KernelFile.parse(SOURCE, "k.py")


def test_jit_functions_and_their_callers(parsed: KernelFile) -> None:
    names = [function.name for function in parsed.jit_functions]
    assert names == ["helper", "tuned", "pointers", "nobody", "nested"]
    assert parsed.jit("tuned").decorators == ("autotune", "heuristics", "jit")
    assert parsed.jit("tuned").calls == ("helper",)
    assert parsed.jit("helper").called_by == ("tuned",)
    launched = {function.name for function in parsed.jit_functions if function.launched}
    assert launched == {"tuned", "pointers"}
    assert parsed.jit("pointers").pointer_apis == ("block_pointer",)


def test_parameters(parsed: KernelFile) -> None:
    parameters = parsed.jit("tuned").parameters
    assert [p.name for p in parameters if p.is_constexpr] == ["BM", "EVEN"]
    assert parameters[-1].default == "True"
    assert [p.keyword_only for p in parsed.wrapper("run").parameters] == [False, False, True]


def test_tuned_names_are_read_where_the_text_shows_them() -> None:
    text = SOURCE.replace("configs=TILES", 'configs=[triton.Config({"BM": b}) for b in (1, 2)]')
    shown = KernelFile.parse(text).jit("tuned")
    assert shown.tuned_is_exact
    assert set(shown.tuned) == {"num_warps", "num_stages", "num_ctas", "BM", "EVEN"}
    hidden = KernelFile.parse(SOURCE).jit("tuned")
    assert not hidden.tuned_is_exact


def test_a_constant_is_mutable_where_kernels_alone_read_it(parsed: KernelFile) -> None:
    mutable = {constant.name for constant in parsed.constants if constant.mutable}
    # BOTH is read by a wrapper, COUNTED is written by one, UNREAD is read by nobody
    assert mutable == {"EPS", "INDIRECT", "TILES"}


def test_a_name_bound_inside_the_reader_is_another_name() -> None:
    text = SOURCE.replace("def run(x, scale=2.0", "def run(x, INDIRECT=3")
    assert "INDIRECT" in KernelFile.parse(text).regions


def test_launch_sites(parsed: KernelFile) -> None:
    tuned, assigned, method = parsed.launches  # `shadowed` launches its parameter
    assert (tuned.kernel, tuned.function, tuned.grid) == ("tuned", "run", "grid")
    assert tuned.keywords == (("n", "4"),)
    assert tuned.has_star
    assert (assigned.kernel, assigned.called) == ("pointers", False)
    assert (method.function, method.grid) == ("Model.forward", "(1, 2)")
    assert method.positional == ("x", "2")
    assert method.keywords == (("num_warps", "4"),)
    assert SOURCE.splitlines()[method.line - 1].strip().startswith("pointers[(1, 2)]")


def test_model_and_inputs(parsed: KernelFile) -> None:
    assert parsed.has_model
    assert parsed.has_get_inputs
    assert not parsed.has_get_init_inputs


def test_regions_are_byte_spans(parsed: KernelFile) -> None:
    data = SOURCE.encode()
    for name, span in parsed.regions.items():
        text = data[span.start : span.end].decode()
        assert name in text
    tuned = parsed.jit("tuned")
    assert data[tuned.span.start : tuned.span.end].decode() == tuned.source
    assert tuned.source.startswith("@triton.autotune")
    assert tuned.source.endswith("# tail é")
    lines = SOURCE.splitlines()
    assert "\n".join(lines[tuned.line - 1 : tuned.end_line]) == tuned.source


def test_splice_indents_and_keeps_the_rest(parsed: KernelFile) -> None:
    new = "@triton.jit\ndef nested(x):\n    return x + 1\n"
    text = parsed.splice({"nested": new, "INDIRECT": "INDIRECT = 8"})
    assert "    @triton.jit\n    def nested(x):\n        return x + 1\n" in text
    old = "    def nested(x):\n        y = x\n        return y\n"
    back = text.replace("    def nested(x):\n        return x + 1\n", old)
    assert back.replace("INDIRECT = 8", "INDIRECT = 7") == SOURCE
    assert KernelFile.parse(text).frozen_digest == parsed.frozen_digest


def test_frozen_text_is_recognised(parsed: KernelFile) -> None:
    # the edited kernel no longer reads EPS, which alone would freeze EPS
    edited = parsed.splice({"helper": "@J\ndef helper(x):\n    return x\n"})
    candidate = KernelFile.parse(edited)
    assert "EPS" not in candidate.regions
    assert candidate.frozen_matches(parsed)
    touched = KernelFile.parse(SOURCE.replace("return run(x)", "return x"))
    assert not touched.frozen_matches(parsed)
    assert touched.frozen_digest != parsed.frozen_digest
    gone = KernelFile.parse(SOURCE.replace("@triton.jit\ndef nobody(x_ptr):\n    return\n", ""))
    assert not gone.frozen_matches(parsed)


def test_splice_refuses_frozen_names(parsed: KernelFile) -> None:
    with pytest.raises(UsageError, match="'run'") as caught:
        parsed.splice({"run": "def run(): pass"})
    assert "known:" in str(caught.value.remedy)


FROZEN = [
    "# comment é 漢\n",
    "def wrapper(x):\n\tk0[(1,)](x)  # tab\n\treturn x\n",
    "\n\n\x0c\n",
    "\n   \n\t\n# after blanks\n",
    "class Model:\n    def forward(self, x):\n        return x\n",
    "x = 1; y = 2\n",
    "z = (1 +\n     2)\n",
]


@settings(max_examples=120, deadline=None)
@given(
    frozen=st.lists(st.sampled_from(FROZEN), min_size=1, max_size=6),
    bom=st.booleans(),
    crlf=st.booleans(),
    final=st.booleans(),
    bodies=st.lists(
        st.sampled_from(["return x", "y = x  # é\n\treturn y", '"""doc\n\t"""\n\treturn x']),
        min_size=1,
        max_size=4,
    ),
)
def test_splice_keeps_every_frozen_byte(
    frozen: list[str], bom: bool, crlf: bool, final: bool, bodies: list[str]
) -> None:
    """Interleaved definitions, tabs, CRLF, a byte order mark, no final newline, non-ASCII."""
    parts: list[str] = ["import triton\n"]
    for i, body in enumerate(bodies):
        parts.append(frozen[i % len(frozen)])
        parts.append(f"@triton.jit\ndef k{i}(x):\n\t{body}\n")
    parts += frozen[len(bodies) :]
    text = "".join(parts)
    text = text if final else text.rstrip("\n")
    text = text.replace("\n", "\r\n") if crlf else text
    text = "\ufeff" + text if bom else text
    kernel_file = KernelFile.parse(text)
    assert kernel_file.splice({}) == text
    assert kernel_file.splice({f.name: f.source for f in kernel_file.jit_functions}) == text

    marker = "@triton.jit\ndef k0(x):\n    return x * 3"
    spliced = kernel_file.splice({"k0": marker})
    span = kernel_file.regions["k0"]
    data = text.encode()
    newline = "\r\n" if crlf else "\n"
    expected = data[: span.start] + marker.replace("\n", newline).encode() + data[span.end :]
    assert spliced.encode() == expected
    again = KernelFile.parse(spliced)
    assert again.frozen_digest == kernel_file.frozen_digest
    assert again.jit("k0").source == marker


def test_a_block_is_set_apart() -> None:
    block = f"{BLOCK_BEGIN}\n# anything\n{BLOCK_END}\n"
    kernel_file = KernelFile.parse(SOURCE + block)
    assert kernel_file.text == SOURCE
    assert kernel_file.block == block
    with pytest.raises(UsageError, match="do not pair up"):
        KernelFile.parse(SOURCE + f"{BLOCK_BEGIN}\n")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("k.py", b"\x7fELF\x00\x01", "NUL bytes"),
        ("k.py", "x = 'é'".encode("latin-1"), "not UTF-8"),
        ("k.txt", b"hello", "not a Python file"),
        ("k.py", b"x = 1\n", "no @triton.jit function"),
        ("k.py", b"a = 1\rb = 2\r", "line endings"),
        ("k.py", b"", "no @triton.jit function"),
        ("k.py", b"import triton\n" + b"@triton.jit\ndef k(): pass\n" * 2, "defined twice"),
    ],
)
def test_files_that_are_no_kernel_files(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UsageError, match=message) as caught:
        KernelFile.load(path)
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value.where)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        KernelFile.load(tmp_path / "none.py")
    with pytest.raises(UsageError, match="not a file"):
        KernelFile.load(tmp_path)


def test_a_syntax_error_is_the_kernels_own_fault(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text("import triton\n\ndef f(:\n    pass\n")
    with pytest.raises(InputKernelError, match="syntax error") as caught:
        KernelFile.load(path)
    assert caught.value.exit_code == 4
    assert caught.value.where == f"{path}:3"


def test_unknown_kernel_names_the_nearest(parsed: KernelFile) -> None:
    with pytest.raises(UsageError, match="no jit function") as caught:
        parsed.jit("tunned")
    assert "did you mean 'tuned'?" in str(caught.value.remedy)


@pytest.mark.parametrize(
    "expression", ["(" * 5000 + "1" + ")" * 5000, "+".join(["1"] * 20_000), "-" * 500 + "1"]
)
def test_what_would_end_the_parser_s_process_is_refused(expression):
    """libcst recurses natively: brackets end the process, a long sum takes minutes."""
    with pytest.raises(InputKernelError, match="nested too deeply to parse"):
        KernelFile.parse(f"import triton\n\n\n@triton.jit\ndef k(x):\n    y = {expression}\n")
