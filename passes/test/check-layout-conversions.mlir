// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-layout-conversions)' -verify-diagnostics | FileCheck %s

// CHECK: xesmith.findings = [
// CHECK-SAME: \22bytes_per_iteration\22:8192,\22trips\22:4
"tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
  %zero = arith.constant 0 : i32
  %four = arith.constant 4 : i32
  %one = arith.constant 1 : i32
  %a = "op.a"() : () -> tensor<128x32xf16, #ttg.blocked<{sizePerThread = [1, 8], order = [1, 0]}>>
  %s = "op.s"() : () -> tensor<16x16xf16, #triton_intel_gpu.dpas<{repeatCount = 8, warpsPerCTA = [4, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>
  %n = "op.n"() : () -> tensor<16x16xf16, #ttig.dpas<{repeatCount = 8, warpsPerCTA = [4, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>
  // Outside of a loop: nothing is said.
  %out = "ttg.convert_layout"(%a) : (tensor<128x32xf16, #ttg.blocked<{sizePerThread = [1, 8], order = [1, 0]}>>) -> tensor<128x32xf16, #ttg.blocked<{sizePerThread = [8, 1], order = [0, 1]}>>
  scf.for %i = %zero to %four step %one : i32 {
    // expected-warning @below {{[layout-conversion-in-loop] a tile of 128x32xf16 changes its layout in every iteration (8192 B)}}
    // expected-note @below {{why: from blocked to dot operand 0 of dpas, through shared local memory}}
    // expected-note @below {{mend:}}
    %m = "ttg.local_alloc"(%a) : (tensor<128x32xf16, #ttg.blocked<{sizePerThread = [1, 8], order = [1, 0]}>>) -> !ttg.memdesc<128x32xf16, #ttg.swizzled_shared<{vec = 1}>, #ttg.shared_memory>
    %l = "ttg.local_load"(%m) : (!ttg.memdesc<128x32xf16, #ttg.swizzled_shared<{vec = 1}>, #ttg.shared_memory>) -> tensor<128x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{repeatCount = 8, warpsPerCTA = [4, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>, kWidth = 1}>>
    // The first operand of the DPAS that made it stays in registers; the second does not.
    %p = "ttg.convert_layout"(%s) : (tensor<16x16xf16, #triton_intel_gpu.dpas<{repeatCount = 8, warpsPerCTA = [4, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>) -> tensor<16x16xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{repeatCount = 8, warpsPerCTA = [4, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>, kWidth = 1}>>
    %r = "ttg.convert_layout"(%n) : (tensor<16x16xf16, #ttig.dpas<{repeatCount = 8, warpsPerCTA = [4, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>) -> tensor<16x16xf16, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{repeatCount = 8, warpsPerCTA = [4, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>, kWidth = 1}>>
    // A row of 16 is padded by one: 16 x 17 elements of 2 B.
    // expected-warning @below {{a tile of 16x16xf16 changes its layout in every iteration (544 B)}}
    // expected-note @below {{why: from dpas to dot operand 1 of dpas}}
    // expected-note @below {{mend:}}
    %q = "ttg.convert_layout"(%n) : (tensor<16x16xf16, #ttig.dpas<{repeatCount = 8, warpsPerCTA = [4, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>) -> tensor<16x16xf16, #ttg.dot_op<{opIdx = 1, parent = #ttig.dpas<{repeatCount = 8, warpsPerCTA = [4, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>, kWidth = 2}>>
  }
}) : () -> ()
