// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-hoist-invariant)' 2>&1 | FileCheck %s

// CHECK: remark: 5 hoisted operations
// Out of both loops, in their order.
// CHECK: %[[P:.*]] = "tt.splat"
// CHECK-NEXT: %[[Q:.*]] = "tt.addptr"(%[[P]]
// CHECK-NEXT: %[[D:.*]] = "tt.make_tensor_descriptor"
// CHECK-NEXT: "scf.for"
// What hangs on the outer counter leaves the inner loop only.
// CHECK: "arith.muli"
// CHECK-NEXT: "arith.addi"
// CHECK-NEXT: "scf.for"
// A load may read what the loop stores; a division by an argument may trap.
// CHECK: "tt.load"
// CHECK: "arith.divsi"
// CHECK: "tt.addptr"
"tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "kernel"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32):
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %pitch = arith.constant 4096 : i64
  %stride = arith.constant 1 : i64
  %range = "tt.make_range"() <{end = 64 : i32, start = 0 : i32}> : () -> tensor<64xi32>
  scf.for %i = %zero to %n step %one : i32 {
    scf.for %j = %zero to %n step %one : i32 {
      %p = "tt.splat"(%base) : (!tt.ptr<f16>) -> tensor<64x!tt.ptr<f16>>
      %q = "tt.addptr"(%p, %range) : (tensor<64x!tt.ptr<f16>>, tensor<64xi32>) -> tensor<64x!tt.ptr<f16>>
      %d = "tt.make_tensor_descriptor"(%base, %n, %n, %pitch, %stride) : (!tt.ptr<f16>, i32, i32, i64, i64) -> !tt.tensordesc<tensor<64x64xf16>>
      %m = arith.muli %i, %n : i32
      %k = arith.addi %m, %one : i32
      %x = "tt.load"(%q) : (tensor<64x!tt.ptr<f16>>) -> tensor<64xf16>
      %v = arith.divsi %i, %n : i32
      %l = arith.addi %k, %j : i32
      %r = "tt.addptr"(%base, %l) : (!tt.ptr<f16>, i32) -> !tt.ptr<f16>
      "op.use"(%x, %v, %r, %d) : (tensor<64xf16>, i32, !tt.ptr<f16>, !tt.tensordesc<tensor<64x64xf16>>) -> ()
    }
  }
  "tt.return"() : () -> ()
}) : () -> ()
