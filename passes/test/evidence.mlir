// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-evidence{kernel=kernel names=x,n values=n=1000 alignments=x=64 grid=8,1,1})' | FileCheck %s

// A masked load in programs of 128 elements each: the last program has 104 of them, so the mask is
// not always true; the branch is never taken with n = 1000.
// CHECK: xesmith.evidence = "{
// CHECK-SAME: \22bytes_expression\22:\22512\22
// CHECK-SAME: \22program_groups\22:[{\22bytes_moved\22:512,\22iterations\22:[],\22programs\22:8}]
// CHECK-SAME: \22argument\22:\22x\22
// CHECK-SAME: \22mask_always_true\22:null,\22masked\22:true
// CHECK-SAME: \22reached\22:true
// CHECK-SAME: \22mask_always_true\22:null,\22masked\22:false
// CHECK-SAME: \22reached\22:false
// CHECK-SAME: \22dialect\22:\22none\22
"tt.func"() <{function_type = (!tt.ptr<f32>, i32) -> (), sym_name = "kernel"}> ({
^bb0(%p: !tt.ptr<f32>, %n: i32):
  %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
  %size = arith.constant 128 : i32
  %start = arith.muli %pid, %size : i32
  %r = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
  %s = "tt.splat"(%start) : (i32) -> tensor<128xi32>
  %o = arith.addi %s, %r : tensor<128xi32>
  %limit = "tt.splat"(%n) : (i32) -> tensor<128xi32>
  %m = arith.cmpi slt, %o, %limit : tensor<128xi32>
  %ps = "tt.splat"(%p) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
  %q = "tt.addptr"(%ps, %o) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
  %x = "tt.load"(%q, %m) : (tensor<128x!tt.ptr<f32>>, tensor<128xi1>) -> tensor<128xf32>
  %zero = arith.constant 0 : i32
  %never = arith.cmpi slt, %n, %zero : i32
  scf.if %never {
    %y = "tt.load"(%q) : (tensor<128x!tt.ptr<f32>>) -> tensor<128xf32>
  }
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// TTGIR in both spellings: a mark of intent and no reason; a dot that is not on DPAS, and why.
// CHECK: xesmith.evidence = "{
// CHECK-SAME: \22block_io\22:\22row_major\22
// CHECK-SAME: \22why_not_dpas\22:\22DPAS has no float64\22
// CHECK-SAME: \22dialect\22:\22ttig\22
// CHECK-SAME: \22dpas\22:[{\22execution_size\22:16
// CHECK-SAME: \22layout_conversions\22:[{
// CHECK-SAME: \22slm_bytes\22:0
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 16 : i32, ttig.support_subgroup_matrix_multiply_accumulate} {
  "tt.func"() <{function_type = (!tt.ptr<tensor<8x16xf16>>) -> (), sym_name = "kernel"}> ({
  ^bb0(%p: !tt.ptr<tensor<8x16xf16, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{executionSize = 16, warpsPerCTA = [4, 1]}>}>>>):
    %x = "tt.load"(%p) {ttig.block_io = "row_major"} : (!tt.ptr<tensor<8x16xf16, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{executionSize = 16, warpsPerCTA = [4, 1]}>}>>>) -> tensor<8x16xf16, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{executionSize = 16, warpsPerCTA = [4, 1]}>}>>
    %a = "op.a"() : () -> tensor<16x16xf64>
    %d = "tt.dot"(%a, %a, %a) : (tensor<16x16xf64>, tensor<16x16xf64>, tensor<16x16xf64>) -> tensor<16x16xf64>
    // Two names of one layout: nothing moves.
    %b = "op.b"() : () -> tensor<64xf32, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    %c = "ttg.convert_layout"(%b) : (tensor<64xf32, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>) -> tensor<64xf32, #ttg.slice<{dim = 0, parent = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [1, 4], order = [1, 0]}>}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// The older spelling, and a device that the compiler takes for one without DPAS.
// CHECK: xesmith.evidence = "{
// CHECK-SAME: \22why_not_dpas\22:\22the compiler takes this device for one without DPAS\22
// CHECK-SAME: \22dialect\22:\22triton_intel_gpu\22
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 16 : i32, triton_intel_gpu.min_sg_size = 16 : i32} {
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    %a = "op.a"() : () -> tensor<16x16xf16>
    %d = "tt.dot"(%a, %a, %a) : (tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16>
    "tt.return"() : () -> ()
  }) : () -> ()
}
