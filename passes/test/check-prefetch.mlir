// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-check-prefetch)' -verify-diagnostics -o /dev/null

module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = (i32) -> (), sym_name = "kernel"}> ({
  ^bb0(%n: i32):
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %p = "op.p"() : () -> !tt.ptr<tensor<32x32xf16>>
    %c = "op.c"() : () -> tensor<32x32xf32>
    // expected-warning @below {{[missing-prefetch] a loop with 1 dots loads 2 tiles and prefetches none}}
    // expected-note @below {{why:}}
    // expected-note @below {{mend:}}
    scf.for %i = %zero to %n step %one : i32 {
      %a = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
      %b = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
      %d = "tt.dot"(%a, %b, %c) : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>) -> tensor<32x32xf32>
    }
    // A loop without a dot, and one without loads: nothing is said.
    scf.for %i = %zero to %n step %one : i32 {
      %a = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
    }
  }) : () -> ()
}

// -----

// Both tiles are announced, in the older spelling; one of two, in the newer, two iterations ahead.
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = (i32) -> (), sym_name = "kernel"}> ({
  ^bb0(%n: i32):
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %p = "op.p"() : () -> !tt.ptr<tensor<32x32xf16>>
    %c = "op.c"() : () -> tensor<32x32xf32>
    scf.for %i = %zero to %n step %one : i32 {
      "triton_intel_gpu.prefetch"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> ()
      "triton_intel_gpu.prefetch"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> ()
      %a = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
      %b = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
      %d = "tt.dot"(%a, %b, %c) : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>) -> tensor<32x32xf32>
    }
    "ttig.prefetch"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> ()
    "ttig.prefetch"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> ()
    // expected-remark @below {{1 of the loop's 2 tiles are prefetched, 2 iterations ahead}}
    // expected-note @below {{why:}}
    scf.for %i = %zero to %n step %one : i32 {
      "ttig.prefetch"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> ()
      %a = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
      %b = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
      %d = "tt.dot"(%a, %b, %c) : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>) -> tensor<32x32xf32>
    }
  }) : () -> ()
}

// -----

// TTIR has no prefetches yet: nothing is said.
"tt.func"() <{function_type = (i32) -> (), sym_name = "ttir"}> ({
^bb0(%n: i32):
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %p = "op.p"() : () -> !tt.ptr<tensor<32x32xf16>>
  %c = "op.c"() : () -> tensor<32x32xf32>
  scf.for %i = %zero to %n step %one : i32 {
    %a = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
    %d = "tt.dot"(%a, %a, %c) : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>) -> tensor<32x32xf32>
  }
}) : () -> ()
