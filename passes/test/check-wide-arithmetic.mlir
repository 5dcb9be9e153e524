// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-wide-arithmetic)' -verify-diagnostics | FileCheck %s

// CHECK: xesmith.findings = [
// CHECK-SAME: \22operations\22:2
"tt.func"() <{function_type = (f32, i64) -> (), sym_name = "kernel"}> ({
^bb0(%scale: f32, %n: i64):
  %x = "op.x"() : () -> tensor<128xf32>
  %o = "op.o"() : () -> tensor<128xi32>
  // One finding for the operations of a line.
  // expected-warning @below {{[f64-arithmetic] 2 float64 operations here}}
  // expected-note @below {{why:}}
  // expected-note @below {{mend:}}
  %w = arith.extf %x : tensor<128xf32> to tensor<128xf64> %s = arith.mulf %w, %w : tensor<128xf64>
  // expected-warning @below {{[i64-address-arithmetic] 1 64-bit integer operation on tensors here}}
  // expected-note @below {{why:}}
  // expected-note @below {{mend:}}
  %v = arith.extsi %o : tensor<128xi32> to tensor<128xi64>
  // Single 64-bit integers, float32 and 32-bit integers: nothing is said.
  %m = arith.addi %n, %n : i64
  %y = arith.mulf %x, %x : tensor<128xf32>
  %p = arith.addi %o, %o : tensor<128xi32>
  // expected-warning @below {{[f64-arithmetic] 1 float64 operation here}}
  // expected-note @below {{why:}}
  // expected-note @below {{mend:}}
  %z = arith.extf %scale : f32 to f64
}) : () -> ()
