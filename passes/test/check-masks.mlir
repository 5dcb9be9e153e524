// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-masks{values=1=4096 grid=32})' 2>&1 | FileCheck %s
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-masks{values=1=4095 grid=32})' 2>&1 | FileCheck %s --check-prefix=TAIL
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-masks{values=1=4096 grid=33})' 2>&1 | FileCheck %s --check-prefix=TAIL
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-masks)' 2>&1 | FileCheck %s --check-prefix=TAIL
// RUN: not xs-opt %s --pass-pipeline='builtin.module(xesmith-check-masks{values=7=1})' 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK: remark: [needless-mask] the mask of this load is true for every element
// CHECK: remark: [needless-mask] the mask of this load is true for every element
// CHECK: remark: [needless-mask] the mask of this store is true for every element
// TAIL: remark: [needless-mask] the mask of this load is true for every element
// TAIL-NOT: needless-mask]
// UNKNOWN: error: '7=1' names no argument of the kernel; it has 2
"tt.func"() <{function_type = (!tt.ptr<f32>, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
^bb0(%base: !tt.ptr<f32>, %n: i32):
  %c128 = arith.constant 128 : i32
  %true = arith.constant dense<true> : tensor<128xi1>
  %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
  %start = arith.muli %pid, %c128 : i32
  %range = "tt.make_range"() <{end = 128 : i32, start = 0 : i32}> : () -> tensor<128xi32>
  %s = "tt.splat"(%start) : (i32) -> tensor<128xi32>
  %o = arith.addi %s, %range : tensor<128xi32>
  %end = "tt.splat"(%n) : (i32) -> tensor<128xi32>
  %m = arith.cmpi slt, %o, %end : tensor<128xi32>
  %p = "tt.splat"(%base) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
  // The first is needless whatever the launch.
  %w = "tt.load"(%p, %true) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<128x!tt.ptr<f32>>, tensor<128xi1>) -> tensor<128xf32>
  %x = "tt.load"(%p, %m) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<128x!tt.ptr<f32>>, tensor<128xi1>) -> tensor<128xf32>
  "tt.store"(%p, %x, %m) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>, tensor<128xi1>) -> ()
  // A stored predicate is no mask.
  %q = "op.p"() : () -> tensor<128x!tt.ptr<i1>>
  "tt.store"(%q, %true) : (tensor<128x!tt.ptr<i1>>, tensor<128xi1>) -> ()
  // What may overflow proves nothing: 2^31-1 + 1 wraps.
  %most = arith.constant dense<2147483647> : tensor<128xi32>
  %wraps = arith.addi %most, %range : tensor<128xi32>
  %zero = arith.constant dense<0> : tensor<128xi32>
  %m2 = arith.cmpi sge, %wraps, %zero : tensor<128xi32>
  %y = "tt.load"(%p, %m2) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<128x!tt.ptr<f32>>, tensor<128xi1>) -> tensor<128xf32>
}) : () -> ()
