"""IR for the tests of the passes, in generic form."""

from __future__ import annotations

import pytest

#: one small kernel in which every pass finds something; TTGIR of the older dialect
EVERYTHING = """
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {}], function_type = (!tt.ptr<f32>, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
  ^bb0(%base: !tt.ptr<f32>, %n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %step = "arith.constant"() <{value = 64 : i32}> : () -> i32
    %wide = "arith.constant"() <{value = 4096 : i64}> : () -> i64
    %acc = "arith.constant"() <{value = dense<0.0> : tensor<64x64xf32>}> : () -> tensor<64x64xf32>
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %pid64 = "arith.extsi"(%pid) : (i32) -> i64
    %start = "arith.muli"(%pid64, %wide) : (i64, i64) -> i64
    %p = "tt.addptr"(%base, %start) : (!tt.ptr<f32>, i64) -> !tt.ptr<f32>
    %r = "tt.make_range"() <{end = 64 : i32, start = 0 : i32}> : () -> tensor<64xi32>
    %e = "tt.expand_dims"(%r) <{axis = 1 : i32}> : (tensor<64xi32>) -> tensor<64x1xi32>
    %b = "tt.broadcast"(%e) : (tensor<64x1xi32>) -> tensor<64x64xi32>
    %s = "tt.splat"(%n) : (i32) -> tensor<64x64xi32>
    %m = "arith.cmpi"(%b, %s) <{predicate = 2 : i64}> : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %d = "scf.for"(%zero, %n, %step, %acc) ({
    ^bb1(%i: i32, %sum: tensor<64x64xf32>):
      %q = "tt.splat"(%p) : (!tt.ptr<f32>) -> tensor<64x64x!tt.ptr<f32>, #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [0, 1]}>>
      %o = "tt.addptr"(%q, %b) : (tensor<64x64x!tt.ptr<f32>, #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [0, 1]}>>, tensor<64x64xi32>) -> tensor<64x64x!tt.ptr<f32>, #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [0, 1]}>>
      %x = "tt.load"(%o, %m) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<64x64x!tt.ptr<f32>, #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [0, 1]}>>, tensor<64x64xi1>) -> tensor<64x64xf32>
      %c = "ttg.convert_layout"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32, #ttg.blocked<{sizePerThread = [4, 1], order = [0, 1]}>>
      %t = "tt.dot"(%x, %x, %sum) <{inputPrecision = 2 : i32}> : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %w = "arith.extf"(%t) : (tensor<64x64xf32>) -> tensor<64x64xf64>
      %ww = "arith.mulf"(%w, %w) : (tensor<64x64xf64>, tensor<64x64xf64>) -> tensor<64x64xf64>
      %v = "arith.truncf"(%ww) : (tensor<64x64xf64>) -> tensor<64x64xf32>
      %f = "math.exp"(%v) : (tensor<64x64xf32>) -> tensor<64x64xf32>
      "scf.yield"(%f) : (tensor<64x64xf32>) -> ()
    }) : (i32, i32, i32, tensor<64x64xf32>) -> tensor<64x64xf32>
    "op.use"(%d) : (tensor<64x64xf32>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) {"ttg.num-warps" = 4 : i32, ttg.target = "xpu", "ttg.threads-per-warp" = 16 : i32, triton_intel_gpu.support_sg_2d_block, triton_intel_gpu.support_dpas} : () -> ()
"""  # noqa: E501


@pytest.fixture
def everything() -> str:
    return EVERYTHING
