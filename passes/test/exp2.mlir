// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-exp2)' 2>&1 | FileCheck %s

// CHECK: remark: 5 rewritten exponentials
// 0.125 log2(e), and the multiplication by 0.125 alone is gone.
// CHECK: %[[SCALE:.*]] = "arith.constant"() <{value = dense<0.180336878> : tensor<64xf32>}>
// CHECK-NEXT: %[[PRODUCT:.*]] = "arith.mulf"(%{{.*}}, %[[SCALE]])
// CHECK-NEXT: %[[A:.*]] = "math.exp2"(%[[PRODUCT]])
// CHECK: %[[LOG2E:.*]] = "arith.constant"() <{value = dense<1.44269502> : tensor<64xf32>}>
// CHECK-NEXT: %{{.*}} = "arith.mulf"(%{{.*}}, %[[LOG2E]])
// CHECK-NEXT: %[[B:.*]] = "math.exp2"
// CHECK: <{value = 1.44269502 : f32}>
// CHECK: %[[C:.*]] = "math.exp2"(%{{.*}}) <{{.*}}> : (f32) -> f32
// Another width stays.
// CHECK: %[[D:.*]] = "math.exp"(%{{.*}}) <{{.*}}> : (tensor<64xf16>) -> tensor<64xf16>
// CHECK: "op.use"(%[[A]], %[[B]], %[[C]], %[[D]])
// The constant on the left, negative: -1.702 log2(e).
// CHECK: %[[NEGATIVE:.*]] = "arith.constant"() <{value = -2.45546699 : f32}>
// CHECK-NEXT: "arith.mulf"(%{{.*}}, %[[NEGATIVE]])
// A product of two values keeps its multiplication; float64 and 2^x stay.
// CHECK: %[[P:.*]] = "arith.mulf"(%[[S:.*]], %[[S]])
// CHECK: "arith.mulf"(%[[P]], %{{.*}})
// CHECK-NEXT: "math.exp2"
// CHECK: "math.exp"(%{{.*}}) <{{.*}}> : (f64) -> f64
// CHECK: "math.exp2"(%[[S]])
"tt.func"() <{function_type = (f32) -> (), sym_name = "kernel"}> ({
^bb0(%s: f32):
  %x = "op.x"() : () -> tensor<64xf32>
  %h = "op.h"() : () -> tensor<64xf16>
  %c = arith.constant dense<1.250000e-01> : tensor<64xf32>
  %m = arith.mulf %x, %c : tensor<64xf32>
  %a = math.exp %m : tensor<64xf32>
  %b = math.exp %x : tensor<64xf32>
  %d = math.exp %s : f32
  %e = math.exp %h : tensor<64xf16>
  "op.use"(%a, %b, %d, %e) : (tensor<64xf32>, tensor<64xf32>, f32, tensor<64xf16>) -> ()
  %alpha = arith.constant -1.702 : f32
  %n = arith.mulf %alpha, %s : f32
  %f = math.exp %n : f32
  %p = arith.mulf %s, %s : f32
  %g = math.exp %p : f32
  %w = arith.extf %s : f32 to f64
  %i = math.exp %w : f64
  %j = math.exp2 %s : f32
  "op.use"(%f, %g, %i, %j) : (f32, f32, f64, f32) -> ()
}) : () -> ()
