"""Whole lowerings: every level or its reason, the schema, the hash of what was lowered."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xesmith.errors import ToolchainError
from xesmith.evidence import Evidence, lowered_content, lowered_hash, read, schema
from xesmith.lowering.record import Failure
from xesmith.passes.plugin import load_plugin

if TYPE_CHECKING:
    from xesmith.lowering.record import Lowering

CASES = [
    "block 256x256x32 w32 g256",
    "pointer 128x128x32 w32 g256",
    "attention block",
    "layer norm",
    "histogram",
    "softmax block",
]


def test_schema_in_the_documentation_is_current(repository: Path) -> None:
    text = (repository / "docs/schema/evidence.schema.json").read_text()
    assert json.loads(text) == schema(), (
        "run: python -m xesmith.evidence > docs/schema/evidence.schema.json"
    )


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.intel
@pytest.mark.mlir
@pytest.mark.parametrize("case", CASES)
def test_real_evidence_is_whole_and_valid(
    case: str, evidence_of: Callable[[str], Evidence]
) -> None:
    evidence = evidence_of(case)
    assert evidence.not_read == {}
    assert None not in (evidence.ttir, evidence.ttgir, evidence.spirv, evidence.native)
    text = evidence.model_dump_json()
    jsonschema.validate(json.loads(text), schema())
    assert Evidence.model_validate_json(text) == evidence


@pytest.mark.intel
@pytest.mark.mlir
def test_reading_a_gemm_takes_at_most_60_ms_of_work(
    lowering_of: Callable[[str], Lowering],
) -> None:
    lowering = lowering_of("block 256x256x32 w32 g256")
    read(lowering)
    taken: list[float] = []
    for _ in range(5):
        start = time.process_time()
        read(lowering)
        taken.append(time.process_time() - start)
    assert min(taken) <= 0.060


@pytest.mark.intel
@pytest.mark.mlir
def test_level_that_is_missing_or_damaged_is_named(
    lowering_of: Callable[[str], Lowering], tmp_path: Path
) -> None:
    lowering = lowering_of("softmax pointer")
    damaged = tmp_path / "kernel.spvasm"
    damaged.write_text("not SPIR-V")
    levels = {**lowering.levels, "spirv_text": str(damaged), "ttir_generic": str(tmp_path / "no")}
    del levels["asm"]
    found = read(replace(lowering, levels=levels, not_read={"asm": "no ocloc on this machine"}))
    assert (found.ttir, found.spirv, found.native) == (None, None, None)
    assert found.ttgir is not None
    assert "can't be read" in found.not_read["ttir"]
    assert "OpMemoryModel" in found.not_read["spirv"]
    assert found.not_read["native"] == "no ocloc on this machine"


@pytest.mark.intel
@pytest.mark.mlir
def test_failure_is_the_reason_for_what_comes_after_it(
    lowering_of: Callable[[str], Lowering],
) -> None:
    lowering = lowering_of("softmax pointer")
    failure = Failure(kind="crash", level="ttgir", message="the compiler ended by SIGSEGV")
    levels = {"ttir_generic": lowering.levels["ttir_generic"]}
    found = read(replace(lowering, levels=levels, failure=failure))
    assert found.ttir is not None
    assert found.not_read["native"] == "lowering failed at ttgir: the compiler ended by SIGSEGV"
    assert found.failure is not None
    assert found.failure["kind"] == "crash"


@pytest.mark.mlir
def test_ir_that_no_reader_knows_is_named(cuda_lowering: Lowering, tmp_path: Path) -> None:
    """A dot without operands, say of a later dialect, is not understood and not guessed."""
    text = Path(cuda_lowering.levels["ttir_generic"]).read_text()
    strange = tmp_path / "kernel.ttir"
    mark = '"tt.return"() : () -> ()'
    strange.write_text(text.replace(mark, '"tt.dot"() : () -> () ' + mark))
    levels = {**cuda_lowering.levels, "ttir_generic": str(strange)}
    found = read(replace(cuda_lowering, levels=levels))
    assert found.ttir is None
    assert "malformed tt.dot" in found.not_read["ttir"]
    assert found.ttgir is not None


@pytest.mark.mlir
def test_without_the_passes_nothing_is_read(
    cuda_lowering: Lowering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One error with a remedy: a level that is not read would look like a fault of the kernel."""
    monkeypatch.setenv("XESMITH_PASSES", "/nowhere/XeSmithPasses.so")
    monkeypatch.setattr("xesmith.passes.pipeline.load_plugin", load_plugin.__wrapped__)
    with pytest.raises(ToolchainError, match="XESMITH_PASSES names no file"):
        read(cuda_lowering)


@pytest.mark.mlir
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files_never_raise(
    data: st.DataObject, cuda_lowering: Lowering, tmp_path: Path
) -> None:
    """A few bytes lost or doubled anywhere: each level is read or named, never an exception."""
    level = data.draw(st.sampled_from(["ttir_generic", "ptx"]))
    text = Path(cuda_lowering.levels[level]).read_text()
    at = data.draw(st.integers(0, len(text) - 1))
    size = data.draw(st.integers(1, 40))
    lost = data.draw(st.booleans())
    damaged = text[:at] + ("" if lost else text[at : at + size] * 2) + text[at + size :]
    path = tmp_path / "damaged"
    path.write_text(damaged)
    found = read(replace(cuda_lowering, levels={level: str(path)}))
    name = level.removesuffix("_generic")
    assert (getattr(found, name) is None) == (name in found.not_read)


@pytest.mark.mlir
def test_cuda_has_ir_and_names_what_it_has_not(cuda_lowering: Lowering) -> None:
    found = read(cuda_lowering)
    assert found.ttir is not None
    assert found.ttgir is not None
    assert found.not_read["spirv"] == found.not_read["native"] == "this compiler lowers to PTX"
    assert found.ttir.flop_per_program == 2 * 128 * 128 * 4096
    assert found.ptx is not None
    assert found.ptx.bytes_per_load == 16
    jsonschema.validate(json.loads(found.model_dump_json()), schema())


@pytest.mark.intel
@pytest.mark.mlir
class TestHash:
    def test_other_code_has_another_hash(self, lowering_of: Callable[[str], Lowering]) -> None:
        hashes = {lowered_hash(lowering_of(case)) for case in CASES}
        assert len(hashes) == len(CASES)
        assert None not in hashes

    def test_grf_mode_alone_changes_it(self, lowering_of: Callable[[str], Lowering]) -> None:
        small, large = (lowering_of(f"block 256x256x32 w32 g{grf}") for grf in (128, 256))
        assert lowered_hash(small) != lowered_hash(large)

    def test_names_lines_and_numbering_do_not(
        self, lowering_of: Callable[[str], Lowering], tmp_path: Path
    ) -> None:
        lowering = lowering_of("softmax pointer")
        text = Path(lowering.levels["spirv_text"]).read_text()
        moved = text.replace("kernels.py", "elsewhere.py")
        lines = [
            line.replace("OpLine %", "OpLine %9") if "OpLine" in line else line
            for line in moved.splitlines()
            if "DebugNoScope" not in line
        ]
        other = tmp_path / "kernel.spvasm"
        other.write_text("\n".join(lines))
        levels = {**lowering.levels, "spirv_text": str(other)}
        assert lowered_hash(replace(lowering, levels=levels)) == lowered_hash(lowering)

    def test_without_a_disassembler_it_is_of_the_binary(
        self, lowering_of: Callable[[str], Lowering]
    ) -> None:
        lowering = lowering_of("softmax pointer")
        binary = replace(lowering, levels={"spirv": lowering.levels["spirv"]})
        content = lowered_content(binary)
        assert content is not None
        assert content.endswith(Path(lowering.levels["spirv"]).read_bytes())

    def test_a_changed_constant_does(
        self, lowering_of: Callable[[str], Lowering], tmp_path: Path
    ) -> None:
        lowering = lowering_of("softmax pointer")
        text = Path(lowering.levels["spirv_text"]).read_text()
        other = tmp_path / "kernel.spvasm"
        other.write_text(text.replace("OpConstant %uint 4", "OpConstant %uint 5", 1))
        assert other.read_text() != text
        levels = {**lowering.levels, "spirv_text": str(other)}
        assert lowered_hash(replace(lowering, levels=levels)) != lowered_hash(lowering)


def test_lowering_without_code_has_no_hash(cuda_lowering: Lowering) -> None:
    assert lowered_hash(replace(cuda_lowering, levels={})) is None
    assert lowered_content(replace(cuda_lowering, levels={})) is None


def test_ptx_hash_ignores_lines(cuda_lowering: Lowering, tmp_path: Path) -> None:
    text = Path(cuda_lowering.levels["ptx"]).read_text()
    other = tmp_path / "kernel.ptx"
    other.write_text(
        "\n".join(line for line in text.splitlines() if not line.strip().startswith(".loc"))
    )
    assert other.read_text() != text
    moved = replace(cuda_lowering, levels={"ptx": str(other)})
    assert lowered_hash(moved) == lowered_hash(cuda_lowering)
