// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-specialize-args{values=1=4096,2=0.5,3=1})' 2>&1 | FileCheck %s
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-specialize-args)' 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: not xs-opt %s --pass-pipeline='builtin.module(xesmith-specialize-args{values=1=99999999999})' 2>&1 | FileCheck %s --check-prefix=WIDE
// RUN: not xs-opt %s --pass-pipeline='builtin.module(xesmith-specialize-args{values=0=1})' 2>&1 | FileCheck %s --check-prefix=POINTER
// RUN: not xs-opt %s --pass-pipeline='builtin.module(xesmith-specialize-args{values=1})' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-specialize-args{values=n=64})' 2>&1 | FileCheck %s --check-prefix=NAME

// CHECK: remark: 3 specialised arguments
// The signature stays as it was.
// CHECK: function_type = (!tt.ptr<f32>, i32, f32, i1) -> ()
// CHECK: ^bb0(%[[BASE:.*]]: !tt.ptr<f32>, %{{.*}}: i32, %{{.*}}: f32, %{{.*}}: i1):
// CHECK-NOT: tt.splat"(%{{.*}}) : (i32)
// CHECK-DAG: dense<4096> : tensor<1x128xi32>
// CHECK-DAG: dense<5.000000e-01> : tensor<128xf32>
// CHECK-DAG: <{value = 129 : i32}>
// The trip count was cdiv(n, 32), the branch was on the last argument.
// CHECK-DAG: <{value = 128 : i32}>
// CHECK: scf.for
// CHECK-NOT: scf.if
// CHECK: "op.then"
// CHECK-NOT: "op.else"

// SAME: "tt.splat"(%{{.*}}) : (i32) -> tensor<128xi32>
// SAME: "scf.if"
// WIDE: error: argument 'n' of type 'i32' cannot be 99999999999
// POINTER: error: argument 'arg0' of type '!tt.ptr<f32>' cannot be 1
// NONE: error: '1' gives no value: write name=value
// NAME: dense<64> : tensor<1x128xi32>
"tt.func"() <{function_type = (!tt.ptr<f32>, i32, f32, i1) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
^bb0(%base: !tt.ptr<f32>, %n: i32 loc("n"("kernel.py":1:1)), %scale: f32, %flag: i1):
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %c31 = arith.constant 31 : i32
  %c32 = arith.constant 32 : i32
  %s = "tt.splat"(%n) : (i32) -> tensor<128xi32>
  %e = "tt.expand_dims"(%s) <{axis = 0 : i32}> : (tensor<128xi32>) -> tensor<1x128xi32>
  %f = "tt.splat"(%scale) : (f32) -> tensor<128xf32>
  %up = arith.addi %n, %c31 : i32
  %trips = arith.divsi %up, %c32 : i32
  %next = arith.addi %trips, %one : i32
  // Nothing uses this one.
  %dead = "tt.splat"(%base) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
  "op.use"(%e, %f, %next) : (tensor<1x128xi32>, tensor<128xf32>, i32) -> ()
  scf.for %i = %zero to %trips step %one : i32 {
    "op.body"(%i) : (i32) -> ()
  }
  scf.if %flag {
    "op.then"() : () -> ()
  } else {
    "op.else"() : () -> ()
  }
  "tt.return"() : () -> ()
}) : () -> ()
