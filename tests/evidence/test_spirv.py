"""SPIR-V text: both forms of 2D block and DPAS operations, wide types, real kernels."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from xesmith.errors import UnreadableLevelError
from xesmith.evidence import Evidence
from xesmith.evidence.record import Spirv
from xesmith.evidence.spirv import block_io_kind, is_dpas, read_spirv

TEXT = """
; SPIR-V
               OpCapability Kernel
               OpCapability Int64
               OpExtension "SPV_INTEL_2d_block_io"
          %1 = OpExtInstImport "OpenCL.std"
          %2 = OpExtInstImport "OpenCL.DebugInfo.100"
               OpMemoryModel Physical64 OpenCL
               OpName %f "__spirv_ocl_exp2"
               OpName %10 "_Z41intel_sub_group_2d_block_read_16b_8r16x1cPU3AS1viiiDv2_iPt"
     %double = OpTypeFloat 64
      %float = OpTypeFloat 32
       %void = OpTypeVoid
      %ulong = OpTypeInt 64 0
       %uint = OpTypeInt 32 0
   %v2double = OpTypeVector %double 2
         %20 = OpExtInst %void %2 DebugScope %1
         %21 = OpFunctionCall %void %10 %p
         %22 = OpFunctionCall %void %_Z52intel_sub_group_2d_block_prefetch_16b_32r16x2c %p
         %23 = OpFunctionCall %void %__spirv_Subgroup2DBlockStoreINTEL %p
               OpSubgroup2DBlockLoadTransformINTEL %uint_2 %uint_16 %p
         %24 = OpSubgroupMatrixMultiplyAccumulateINTEL %v8float %k %a %b %c
         %25 = OpFunctionCall %v8float %_Z38intel_sub_group_f16_f16_matrix_mad_k16 %a %b %c
               OpControlBarrier %uint_2 %uint_2 %uint_272
         %26 = OpFunctionCall %void %_Z22__spirv_ControlBarrieriii %x %y %z
         %27 = OpAtomicIAdd %uint %p %s %m %v
         %30 = OpFMul %double %x %y
         %31 = OpFAdd %v2double %x %y
         %32 = OpFMul %float %x %y
         %33 = OpFConvert %float %30
         %34 = OpIAdd %ulong %x %y
         %35 = OpIAdd %uint %x %y
         %36 = OpSLessThan %bool %34 %34
         %37 = OpFOrdLessThan %bool %30 %30
         %38 = OpExtInst %float %1 exp2 %32
         %39 = OpExtInst %double %1 sqrt %30
         %40 = OpFunctionCall %float %f %32
"""


def test_calls_and_instructions_count_alike() -> None:
    found = read_spirv(TEXT)
    assert (found.loads_2d, found.stores_2d, found.prefetches_2d) == (2, 1, 1)
    assert found.dpas_calls == 2
    assert found.barriers == 2
    assert found.atomics == 1


def test_wide_types() -> None:
    found = read_spirv(TEXT)
    # mul, vector add, conversion from double, comparison, square root
    assert found.f64_operations == 5
    assert found.i64_operations == 2


def test_math_and_header() -> None:
    found = read_spirv(TEXT)
    assert found.math == {"exp2": 2, "sqrt": 1}
    assert found.capabilities == ("Kernel", "Int64")
    assert found.extensions == ("SPV_INTEL_2d_block_io",)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_Z52intel_sub_group_2d_block_read_transform_16b_32r16x2c", "load"),
        ("intel_sub_group_2d_block_write_16b_8r16x1c", "store"),
        ("OpSubgroup2DBlockPrefetchINTEL", "prefetch"),
        ("__spirv_Subgroup2DBlockLoadTransposeINTEL", "load"),
        ("OpSubgroupBlockReadINTEL", None),
    ],
)
def test_names_of_block_operations(name: str, kind: str | None) -> None:
    assert block_io_kind(name) == kind
    assert not is_dpas(name)


def test_other_text_is_refused() -> None:
    with pytest.raises(UnreadableLevelError, match="OpMemoryModel"):
        read_spirv("define void @f() { ret void }")


@pytest.mark.intel
@pytest.mark.mlir
def test_real_kernels(evidence_of: Callable[[str], Evidence]) -> None:
    def spirv(case: str) -> Spirv:
        found = evidence_of(case).spirv
        assert found is not None, evidence_of(case).not_read
        return found

    block, pointer = spirv("block 256x256x32 w32 g256"), spirv("pointer 128x128x32 w32 g256")
    assert (block.loads_2d, block.stores_2d, block.prefetches_2d) == (3, 16, 4)
    assert block.dpas_calls == 32
    assert (pointer.loads_2d, pointer.stores_2d, pointer.prefetches_2d) == (0, 0, 0)
    assert pointer.barriers > 0
    assert pointer.dpas_calls == 16  # two versions of the loop
    assert spirv("attention block").math["exp2"] > 0
    assert spirv("layer norm").f64_operations > 100
    assert "Float64" in spirv("layer norm").capabilities
    assert spirv("histogram").atomics == 9
    # Rank 3: intent, and nothing of it here.
    assert spirv("block rank 3").loads_2d == 0
