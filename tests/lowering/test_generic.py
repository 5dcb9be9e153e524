"""IR in generic form: aliases expanded, locations of the kernel's source, read by stock MLIR."""

from pathlib import Path

import pytest

from xesmith.lowering.generic import expand_aliases

ALIASED = """#blocked = #ttg.blocked<{order = [1, 0]}>
#outer = #ttg.slice<{dim = 0, parent = #blocked}>
#loc = loc("a #blocked file.py":8:0)
"builtin.module"() ({
  %0 = "x"() : () -> tensor<4xi32, #outer> loc(#loc1)
  %1 = "y"() : () -> tensor<4xi32, #ttg.slice<{dim = 1, parent = #blocked}>> loc(#loc)
}) : () -> () loc(#loc)
#loc1 = loc(unknown)
"""


def test_aliases_are_expanded_also_inside_attributes_and_never_in_strings():
    text = expand_aliases(ALIASED)
    blocked = "#ttg.blocked<{order = [1, 0]}>"
    assert f"tensor<4xi32, #ttg.slice<{{dim = 0, parent = {blocked}}}>> loc(#loc1)" in text
    assert f"tensor<4xi32, #ttg.slice<{{dim = 1, parent = {blocked}}}>> loc(#loc)" in text
    assert 'loc("a #blocked file.py":8:0)' in text
    assert "#blocked =" not in text


def test_text_without_aliases_is_left_alone():
    assert expand_aliases('"builtin.module"() : () -> ()\n') == '"builtin.module"() : () -> ()\n'


@pytest.mark.intel
@pytest.mark.mlir
def test_stock_mlir_reads_both_levels_with_the_kernels_lines(uncached, program):
    from mlir import ir

    run = uncached.run(program("gemm_block.py", GRF="256"), native=False)
    (lowering,) = run.lowerings
    context = ir.Context()
    context.allow_unregistered_dialects = True
    source = Path(lowering.launch.file).read_text().splitlines()
    dot_line = next(i for i, line in enumerate(source, 1) if "tl.dot" in line)
    for level in ("ttir_generic", "ttgir_generic"):
        text = Path(lowering.levels[level]).read_text()
        module = ir.Module.parse(text, context)
        dots: list[str] = []

        def visit(op, dots=dots):
            if op.name == "tt.dot":
                dots.append(str(op.location))
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        assert len(dots) == 1
        assert f'gemm_block.py":{dot_line}:' in dots[0]
        # Neither the mark that forces the form, nor places in the file that was parsed.
        assert "xe_force_generic" not in text
        assert str(Path(lowering.levels["ttir"]).parent) not in text
