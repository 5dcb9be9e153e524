// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-report)' 2>&1 | FileCheck %s
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-report{values=K=128})' 2>&1 | FileCheck %s --check-prefix=KNOWN

// CHECK: remark: [report] FLOP cdiv(K, 32) * 65536 + 1024, bytes loaded cdiv(K, 32) * 4096, bytes stored 2048
// CHECK: xesmith.report = "[{
// CHECK-SAME: \22bytes_loaded_per_program\22:\22cdiv(K, 32) * 4096\22
// CHECK-SAME: \22dots\22:[{\22a\22:\2232x32xf16\22,\22b\22:\2232x32xf16\22
// CHECK-SAME: \22loads\22:{\22block_pointer\22:1,\22tensor_of_pointers\22:1}
// CHECK-SAME: \22loops\22:[{\22bytes_per_iteration\22:4096
// CHECK-SAME: \22trips\22:\22cdiv(K, 32)\22
// CHECK-SAME: \22masked_accesses\22:1
// CHECK-SAME: \22operations\22:{\22arith.addf\22:1

// 4 * 65536 + 1024 FLOP; 4 * 4096 + 2048 B.
// KNOWN: \22flop_per_byte\22:14.2
// KNOWN-SAME: \22flop_per_program\22:\22cdiv(K, 32) * 65536 + 1024\22,\22flop_per_program_total\22:263168
// KNOWN-SAME: \22trip_count\22:4
"tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
^bb0(%base: !tt.ptr<f16>, %k: i32 loc("K"("kernel.py":1:1))):
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %q = "op.block"() : () -> !tt.ptr<tensor<32x32xf16>>
  %p = "tt.splat"(%base) : (!tt.ptr<f16>) -> tensor<32x32x!tt.ptr<f16>>
  %m = "op.mask"() : () -> tensor<32x32xi1>
  %c = "op.c"() : () -> tensor<32x32xf32>
  scf.for %i = %c0 to %k step %c32 : i32 {
    %a = "tt.load"(%q) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
    %b = "tt.load"(%p, %m) : (tensor<32x32x!tt.ptr<f16>>, tensor<32x32xi1>) -> tensor<32x32xf16>
    %d = "tt.dot"(%a, %b, %c) : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>) -> tensor<32x32xf32>
  }
  %s = arith.addf %c, %c : tensor<32x32xf32>
  %h = "op.h"() : () -> tensor<32x32xf16>
  "tt.store"(%p, %h) : (tensor<32x32x!tt.ptr<f16>>, tensor<32x32xf16>) -> ()
  "tt.return"() : () -> ()
}) : () -> ()
