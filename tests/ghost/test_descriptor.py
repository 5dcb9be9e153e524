"""Tensor descriptors on a compiler that has none."""

import ast
from pathlib import Path

import pytest

from xesmith.ghost.descriptor import POINTER_FINDINGS, _Translator


def translated(body: str, *, block_pointers: bool = True) -> tuple[str, list[tuple[str, str]]]:
    """The statements of a kernel after translation, and (kind, form) of each access."""
    source = "def k(d, e, m, n, K, BK):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    function = ast.parse(source).body[0]
    translator = _Translator(block_pointers)
    translator.translate(function)
    text = "\n".join(ast.unparse(s) for s in function.body)
    short = text.replace("__xesmith_descriptor.", "").replace("__descriptor_", "p")
    return short, [(access.kind, access.form) for access in translator.accesses]


@pytest.mark.parametrize(
    ("loop", "start", "step"),
    [
        ("for k in range(0, K, BK):\n    x = d.load([m, k])", "[m, 0]", "[0, BK]"),
        ("for k in range(K):\n    x = d.load([m, k * BK])", "[m, 0 * BK]", "[0, 1 * BK]"),
        ("for k in range(2, K):\n    x = d.load([n + k, 5])", "[n + 2, 5]", "[1, 0]"),
        (
            "for k in tl.range(m, K, BK):\n    x = d.load([BK * k, m])",
            "[BK * m, m]",
            "[BK * BK, 0]",
        ),
        (
            "for k in range(K):\n    x = d.load([m, n])\n    n += BK",
            "[m, n]",
            "[0, BK]",
        ),
        (
            "for k in range(K):\n    n += BK\n    x = d.load([m, n])",
            "[m, n + BK]",
            "[0, BK]",
        ),
        ("for k in range(K):\n    x = d.load([m, k - n])", "[m, 0 - n]", "[0, 1]"),
    ],
)
def test_an_offset_that_moves_evenly_is_carried_by_the_loop(loop, start, step):
    text, accesses = translated(loop)
    lines = text.splitlines()
    assert lines[0] == f"p1 = block_pointer(d, {start})"
    assert lines[-1] == f"    p1 = advance(p1, {step})"
    assert "    x = block_load(p1)" in lines
    assert accesses == [("load", "block pointer carried by the loop")]


@pytest.mark.parametrize(
    "loop",
    [
        "for k in range(K):\n    x = d.load([m, k * k])",
        "for k in range(K):\n    n = n * 2\n    x = d.load([m, n])",
        "for k in range(K):\n    d = e\n    x = d.load([m, k])",
        "for k in range(K):\n    if m:\n        x = d.load([m, k])",
        "for k in range(K):\n    n += BK\n    n += k\n    x = d.load([m, n])",
        "while m:\n    for k in tl.static_range(4):\n        x = d.load([m, k])",
        "for k in range(K):\n    n += k\n    x = d.load([m, n])",
    ],
)
def test_any_other_offset_in_a_loop_becomes_pointers(loop):
    text, accesses = translated(loop)
    assert "pointer_load(d," in text
    assert accesses == [("load", "tensor of pointers")]


def test_accesses_outside_of_loops_and_stores_are_block_pointers():
    text, accesses = translated("y = d.load([m, n]) + 1\ne.store([m, n], y)")
    assert text == (
        "y = block_load(block_pointer(d, [m, n])) + 1\nblock_store(block_pointer(e, [m, n]), y)"
    )
    assert [form for _, form in accesses] == ["block pointer"] * 2
    text, _ = translated("for k in range(K):\n    e.store([k * k, n], m)")
    assert "block_store(block_pointer(e, [k * k, n]), m)" in text


def test_without_block_pointers_all_are_pointers():
    body = "for k in range(K):\n    x = d.load([m, k])\ne.store([m, n], x)"
    text, accesses = translated(body, block_pointers=False)
    assert "block" not in text
    assert [form for _, form in accesses] == ["tensor of pointers"] * 2


def test_the_older_spelling_is_served_and_other_loads_left_alone():
    text, accesses = translated(
        "x = tl.load_tensor_descriptor(d, [m, n])\n"
        "tl.store_tensor_descriptor(e, [m, n], x)\n"
        "y = tl.load(m + n, mask=n < K)"
    )
    assert "y = tl.load(m + n, mask=n < K)" in text
    assert [kind for kind, _ in accesses] == ["load", "store"]


@pytest.mark.intel
def test_a_gemm_with_descriptors_gets_2d_block_loads(run_file):
    run = run_file("descriptors.py", native=True)
    assert run.failure is None
    (lowering,) = run.lowerings
    assert lowering.failure is None
    assert lowering.notes == (
        "line 21: descriptor load lowered as a block pointer carried by the loop",
        "line 22: descriptor load lowered as a block pointer carried by the loop",
        "line 8: descriptor store lowered as a block pointer",
    )
    assert lowering.suppress == ()
    assert "load_block2d" in Path(lowering.levels["asm"]).read_text()
    # Statements keep their lines.
    assert 'descriptors.py":21:' in Path(lowering.levels["ttir"]).read_text()


@pytest.mark.intel
def test_descriptors_made_on_the_host_pass_through_the_launch(run_file):
    run = run_file("host_descriptors.py")
    assert run.failure is None
    (lowering,) = run.lowerings
    assert lowering.failure is None
    assert lowering.launch.grid == (32, 1, 1)  # one for each Xe core
    assert lowering.launch.values["a"][0].shape == (4096, 4096)
    assert [note.partition(": ")[2] for note in lowering.notes] == [
        "descriptor load lowered as a block pointer carried by the loop",
        "descriptor load lowered as a block pointer carried by the loop",
        "descriptor store lowered as a block pointer",
    ]


@pytest.mark.intel
def test_a_row_that_is_looked_up_becomes_pointers_and_says_what_to_ignore(run_file):
    run = run_file("looked_up.py")
    assert run.failure is None
    (lowering,) = run.lowerings
    assert lowering.failure is None
    assert lowering.notes[0] == "line 12: descriptor load lowered as a tensor of pointers"
    assert lowering.suppress == POINTER_FINDINGS
    ttir = Path(lowering.levels["ttir"]).read_text()
    assert "tensor<32x64x!tt.ptr<f16>>" in ttir
    assert "arith.cmpi" in ttir  # the bounds of the descriptor, as a mask


def test_suppressed_kinds_exist():
    from xesmith.findings.record import KINDS

    assert set(POINTER_FINDINGS) <= set(KINDS)


@pytest.mark.intel
def test_where_block_pointers_trip_the_compiler_all_become_pointers(run_text):
    text = (Path(__file__).parent / "kernels" / "descriptors.py").read_text()
    trips = "import os\nfrom triton.language import core\n\n"
    trips += "core.make_block_ptr = lambda *a, **k: os.abort()\n"
    run = run_text(trips + text.replace("256, 256, 32, num_warps=32", "128, 128, 32, num_warps=32"))
    assert run.failure is None
    assert run.notes == (
        "the compiler fails on descriptors lowered as block pointers; here they are tensors of "
        "pointers",
    )
    (lowering,) = run.lowerings
    assert lowering.failure is None
    assert len(lowering.notes) == 3
    assert all(note.endswith("lowered as a tensor of pointers") for note in lowering.notes)
    assert lowering.suppress == POINTER_FINDINGS


@pytest.mark.intel
def test_a_configuration_may_set_the_block_of_a_descriptor(run_file):
    run = run_file("tuned_descriptors.py")
    assert run.failure is None
    assert [item.failure for item in run.lowerings] == [None, None]
    assert [item.launch.grid for item in run.lowerings] == [(32, 16, 1), (64, 32, 1)]
    assert [item.launch.values["a"][3] for item in run.lowerings] == [[32, 64], [16, 32]]
