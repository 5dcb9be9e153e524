// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-invariants)' -verify-diagnostics -o /dev/null

"tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "kernel"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32):
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %stride = arith.constant 1 : i64
  %size = arith.extsi %n : i32 to i64
  %range = "tt.make_range"() <{end = 64 : i32, start = 0 : i32}> : () -> tensor<64xi32>
  // Before the loop: nothing is said.
  %before = "tt.make_tensor_descriptor"(%base, %n, %n, %size, %stride) : (!tt.ptr<f16>, i32, i32, i64, i64) -> !tt.tensordesc<tensor<64x64xf16>>
  scf.for %i = %zero to %n step %one : i32 {
    // expected-warning @below {{[invariant-rebuilt-in-loop] every iteration makes the same descriptor}}
    // expected-note @below {{why:}}
    // expected-note @below {{mend:}}
    %d = "tt.make_tensor_descriptor"(%base, %n, %n, %size, %stride) : (!tt.ptr<f16>, i32, i32, i64, i64) -> !tt.tensordesc<tensor<64x64xf16>>
    // expected-warning @below {{every iteration makes the same block pointer}}
    // expected-note @below {{why:}}
    // expected-note @below {{mend:}}
    %p = "tt.make_tensor_ptr"(%base, %size, %size, %size, %stride, %zero, %zero) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x64xf16>>
    // Its offset is the loop's counter: it is the same block, moved.
    // expected-warning @below {{[block-pointer-rebuilt-in-loop] every iteration makes the block pointer of 64x64xf16 anew, and only its offsets move}}
    // expected-note @below {{why:}}
    // expected-note @below {{mend:}}
    %q = "tt.make_tensor_ptr"(%base, %size, %size, %size, %stride, %zero, %i) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x64xf16>>
    // A base or an uneven offset of its own in each iteration: another block.
    %i2 = arith.muli %i, %i : i32
    %q2 = "tt.make_tensor_ptr"(%base, %size, %size, %size, %stride, %zero, %i2) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x64xf16>>
    %base3 = "tt.addptr"(%base, %i) : (!tt.ptr<f16>, i32) -> !tt.ptr<f16>
    %q3 = "tt.make_tensor_ptr"(%base3, %size, %size, %size, %stride, %zero, %i) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x64xf16>>
    // Of a chain only its end.
    %s = "tt.splat"(%base) : (!tt.ptr<f16>) -> tensor<64x!tt.ptr<f16>>
    %t = "tt.addptr"(%s, %range) : (tensor<64x!tt.ptr<f16>>, tensor<64xi32>) -> tensor<64x!tt.ptr<f16>>
    // expected-warning @below {{every iteration computes the same 64 pointers}}
    // expected-note @below {{why:}}
    // expected-note @below {{mend:}}
    %u = "tt.addptr"(%t, %range) : (tensor<64x!tt.ptr<f16>>, tensor<64xi32>) -> tensor<64x!tt.ptr<f16>>
    %x = "tt.load"(%u) : (tensor<64x!tt.ptr<f16>>) -> tensor<64xf16>
    // What depends on a load is not the same.
    %v = "tt.load"(%s) : (tensor<64x!tt.ptr<f16>>) -> tensor<64xi32>
    %w = "tt.addptr"(%s, %v) : (tensor<64x!tt.ptr<f16>>, tensor<64xi32>) -> tensor<64x!tt.ptr<f16>>
    "op.use"(%d, %p, %q, %w, %x) : (!tt.tensordesc<tensor<64x64xf16>>, !tt.ptr<tensor<64x64xf16>>, !tt.ptr<tensor<64x64xf16>>, tensor<64x!tt.ptr<f16>>, tensor<64xf16>) -> ()
  }
}) : () -> ()
