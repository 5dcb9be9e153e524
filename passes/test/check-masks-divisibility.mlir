// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-masks)' -verify-diagnostics -o /dev/null

// What tt.divisibility proves of a loop over K in steps that divide K, without any value given.
"tt.func"() <{arg_attrs = [{}, {tt.divisibility = 16 : i32}, {}], function_type = (!tt.ptr<f32>, i32, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
^bb0(%base: !tt.ptr<f32>, %k: i32, %odd: i32):
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %c15 = arith.constant 15 : i32
  %c16 = arith.constant 16 : i32
  %c32 = arith.constant 32 : i32
  %r16 = "tt.make_range"() <{end = 16 : i32, start = 0 : i32}> : () -> tensor<16xi32>
  %r17 = "tt.make_range"() <{end = 17 : i32, start = 1 : i32}> : () -> tensor<16xi32>
  %p = "tt.splat"(%base) : (!tt.ptr<f32>) -> tensor<16x!tt.ptr<f32>>
  %up = arith.addi %k, %c15 : i32
  %trips = arith.divsi %up, %c16 : i32
  // range(0, cdiv(K, 16)): 0..15 is below K - 16 i.
  scf.for %i = %zero to %trips step %one : i32 {
    %start = arith.muli %i, %c16 : i32
    %rest = arith.subi %k, %start : i32
    %s = "tt.splat"(%rest) : (i32) -> tensor<16xi32>
    %m = arith.cmpi slt, %r16, %s : tensor<16xi32>
    // expected-remark @below {{[needless-mask] the mask of this load is true for every element}}
    // expected-note @below {{why: it compares with what is known when the kernel is compiled}}
    // expected-note @below {{mend:}}
    %x = "tt.load"(%p, %m) : (tensor<16x!tt.ptr<f32>>, tensor<16xi1>) -> tensor<16xf32>
    // 1..16 is not.
    %n = arith.cmpi slt, %r17, %s : tensor<16xi32>
    %y = "tt.load"(%p, %n) : (tensor<16x!tt.ptr<f32>>, tensor<16xi1>) -> tensor<16xf32>
  }
  // range(0, K, 16).
  scf.for %i = %zero to %k step %c16 : i32 {
    %rest = arith.subi %k, %i : i32
    %s = "tt.splat"(%rest) : (i32) -> tensor<16xi32>
    %m = arith.cmpi slt, %r16, %s : tensor<16xi32>
    // expected-remark @below {{[needless-mask]}}
    // expected-note @below {{why:}}
    // expected-note @below {{mend:}}
    %x = "tt.load"(%p, %m) : (tensor<16x!tt.ptr<f32>>, tensor<16xi1>) -> tensor<16xf32>
  }
  // 16 does not promise that 32 divides, and of the other argument nothing is promised.
  scf.for %i = %zero to %k step %c32 : i32 {
    %rest = arith.subi %k, %i : i32
    %s = "tt.splat"(%rest) : (i32) -> tensor<16xi32>
    %r32 = "tt.make_range"() <{end = 32 : i32, start = 16 : i32}> : () -> tensor<16xi32>
    %m = arith.cmpi slt, %r32, %s : tensor<16xi32>
    %x = "tt.load"(%p, %m) : (tensor<16x!tt.ptr<f32>>, tensor<16xi1>) -> tensor<16xf32>
  }
  scf.for %i = %zero to %odd step %c16 : i32 {
    %rest = arith.subi %odd, %i : i32
    %s = "tt.splat"(%rest) : (i32) -> tensor<16xi32>
    %m = arith.cmpi slt, %r16, %s : tensor<16xi32>
    %x = "tt.load"(%p, %m) : (tensor<16x!tt.ptr<f32>>, tensor<16xi1>) -> tensor<16xf32>
  }
  "tt.return"() : () -> ()
}) : () -> ()
