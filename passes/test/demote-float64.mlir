// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-demote-float64)' 2>/dev/null | FileCheck %s
// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-demote-float64)' 2>&1 >/dev/null | FileCheck %s --check-prefix=SAID --implicit-check-not=remark

// SAID: remark: 9 demoted operations
// SAID: remark: 1 demoted operation

// From a float16 load through a loop, a reduction and a branch to a float16 store.
// CHECK-LABEL: sym_name = "whole"
// CHECK-NOT: f64
// CHECK: dense<0.000000e+00> : tensor<128xf32, #ttg.blocked>
// CHECK: "scf.for"
// CHECK: "arith.extf"({{.*}}) {{.*}}: (tensor<128xf16, #ttg.blocked>) -> tensor<128xf32, #ttg.blocked>
// CHECK: "arith.addf"({{.*}}) {{.*}}: (tensor<128xf32, #ttg.blocked>, tensor<128xf32, #ttg.blocked>)
// CHECK: "tt.reduce"
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32):
// CHECK: "arith.sitofp"({{.*}}) : (i32) -> f32
// The argument is float32 already.
// CHECK: "arith.addf"(%{{.*}}, %[[EPS:.*]]) {{.*}}: (f32, f32) -> f32
// CHECK: "math.sqrt"({{.*}}) {{.*}}: (f32) -> f32
// CHECK: "scf.if"
// CHECK: "arith.cmpf"({{.*}}) {{.*}}: (f32, f32) -> i1
// CHECK: "arith.truncf"({{.*}}) {{.*}}: (tensor<128xf32, #ttg.blocked>) -> tensor<128xf16, #ttg.blocked>
// CHECK-NOT: f64
// CHECK: "tt.return"
"tt.func"() <{function_type = (tensor<128x!tt.ptr<f16>, #ttg.blocked>, i32, f32, i1) -> (), sym_name = "whole"}> ({
^bb0(%p: tensor<128x!tt.ptr<f16>, #ttg.blocked>, %n: i32, %eps: f32, %which: i1):
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %init = arith.constant dense<0.0> : tensor<128xf64, #ttg.blocked>
  %half = arith.constant 0.5 : f64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%total = %init) -> (tensor<128xf64, #ttg.blocked>) : i32 {
    %x = "tt.load"(%p) : (tensor<128x!tt.ptr<f16>, #ttg.blocked>) -> tensor<128xf16, #ttg.blocked>
    %w = arith.extf %x : tensor<128xf16, #ttg.blocked> to tensor<128xf64, #ttg.blocked>
    %t = arith.addf %total, %w : tensor<128xf64, #ttg.blocked>
    scf.yield %t : tensor<128xf64, #ttg.blocked>
  }
  %s = "tt.reduce"(%sum) <{axis = 0 : i32}> ({
  ^bb0(%a: f64, %b: f64):
    %ab = arith.addf %a, %b : f64
    "tt.reduce.return"(%ab) : (f64) -> ()
  }) : (tensor<128xf64, #ttg.blocked>) -> f64
  %count = arith.sitofp %n : i32 to f64
  %mean = arith.divf %s, %count : f64
  %wide = arith.extf %eps : f32 to f64
  %safe = arith.addf %mean, %wide : f64
  %root = math.sqrt %safe : f64
  %chosen = scf.if %which -> (f64) {
    %h = arith.mulf %root, %half : f64
    scf.yield %h : f64
  } else {
    scf.yield %root : f64
  }
  %positive = arith.cmpf ogt, %chosen, %half : f64
  %one = arith.select %positive, %chosen, %half : f64
  %all = "tt.splat"(%one) : (f64) -> tensor<128xf64, #ttg.blocked>
  %y = arith.mulf %all, %sum : tensor<128xf64, #ttg.blocked>
  %out = arith.truncf %y : tensor<128xf64, #ttg.blocked> to tensor<128xf16, #ttg.blocked>
  "tt.store"(%p, %out) : (tensor<128x!tt.ptr<f16>, #ttg.blocked>, tensor<128xf16, #ttg.blocked>) -> ()
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// Conversions between float32 and float64 go.
// CHECK-LABEL: sym_name = "folded"
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32
// CHECK-NEXT: %[[Y:.*]] = "arith.mulf"(%[[X]], %[[X]]) {{.*}}: (f32, f32) -> f32
// CHECK-NEXT: "op.use"(%[[Y]])
"tt.func"() <{function_type = (f32) -> (), sym_name = "folded"}> ({
^bb0(%x: f32):
  %w = arith.extf %x : f32 to f64
  %m = arith.mulf %w, %w : f64
  %y = arith.truncf %m : f64 to f32
  "op.use"(%y) : (f32) -> ()
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// Each of these has its type from elsewhere: nothing of its chain changes.
// CHECK-LABEL: sym_name = "stays"
// CHECK-COUNT-11: {{.*}}f64
"tt.func"() <{function_type = (!tt.ptr<f64>, f64, f32) -> (), sym_name = "stays"}> ({
^bb0(%p: !tt.ptr<f64>, %argument: f64, %x: f32):
  // Memory.
  %l = "tt.load"(%p) : (!tt.ptr<f64>) -> f64
  %w = arith.extf %x : f32 to f64
  %a = arith.addf %l, %w : f64
  %t = arith.truncf %a : f64 to f32
  %w2 = arith.extf %x : f32 to f64
  %b = arith.mulf %w2, %w2 : f64
  "tt.store"(%p, %b) : (!tt.ptr<f64>, f64) -> ()
  // The signature.
  %c = arith.addf %argument, %argument : f64
  %ct = arith.truncf %c : f64 to f32
  // An index: float32 counts to 2^24 only.
  %w3 = arith.extf %x : f32 to f64
  %d = arith.mulf %w3, %w3 : f64
  %index = arith.fptosi %d : f64 to i32
  // Bits.
  %w4 = arith.extf %x : f32 to f64
  %e = arith.mulf %w4, %w4 : f64
  %bits = arith.bitcast %e : f64 to i64
  // A constant that float32 does not hold: too small, too large.
  %w5 = arith.extf %x : f32 to f64
  %tiny = arith.constant 1.0e-300 : f64
  %f = arith.addf %w5, %tiny : f64
  %ft = arith.truncf %f : f64 to f32
  %w6 = arith.extf %x : f32 to f64
  %huge = arith.constant 1.0e+300 : f64
  %g = arith.mulf %w6, %huge : f64
  %gt = arith.truncf %g : f64 to f32
  // Calls and assembly.
  %w7 = arith.extf %x : f32 to f64
  %h = arith.mulf %w7, %w7 : f64
  %called = "tt.extern_elementwise"(%h) <{symbol = "__nv_exp"}> : (f64) -> f64
  // A while loop is left alone.
  %w8 = arith.extf %x : f32 to f64
  %last = scf.while (%v = %w8) : (f64) -> f64 {
    %go = arith.cmpf olt, %v, %v : f64
    scf.condition(%go) %v : f64
  } do {
  ^bb0(%v: f64):
    %next = arith.addf %v, %v : f64
    scf.yield %next : f64
  }
  // A reduction whose body is not understood.
  %r = "tt.reduce"(%w8) <{axis = 0 : i32}> ({
  ^bb0(%v: f64):
    "tt.reduce.return"(%v) : (f64) -> ()
  }) : (f64) -> f64
  "op.use"(%t, %ct, %index, %bits, %ft, %gt, %called, %last, %r) : (f32, f32, i32, i64, f32, f32, f64, f64, f64) -> ()
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// A constant alone is no arithmetic.
// CHECK-LABEL: sym_name = "alone"
// CHECK: 5.000000e-01 : f64
// CHECK: "arith.truncf"
"tt.func"() <{function_type = () -> (), sym_name = "alone"}> ({
  %half = arith.constant 0.5 : f64
  %t = arith.truncf %half : f64 to f32
  "op.use"(%t) : (f32) -> ()
  "tt.return"() : () -> ()
}) : () -> ()
