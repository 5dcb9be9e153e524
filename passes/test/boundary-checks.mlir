// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-drop-true-masks{values=1=4096 grid=32})' 2>&1 | FileCheck %s
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-drop-true-masks{values=1=4095 grid=32})' 2>&1 | FileCheck %s --check-prefix=TAIL
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-drop-true-masks{values=1=4096 grid=33})' 2>&1 | FileCheck %s --check-prefix=GRID
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-drop-true-masks)' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-masks{values=1=4096 grid=32})' 2>&1 | FileCheck %s --check-prefix=FOUND

// 32 programs of 128 rows, 128 steps of 32 columns: both end with the tensor of 4096x4096. One step
// more than the loop ends beyond it, as does a block that starts before it.
// CHECK: remark: 4 needless boundary checks
// CHECK: "tt.load"(%{{.*}}) <{boundaryCheck = array<i32>, padding = 1 : i32}> {name = "carried"}
// CHECK: "tt.load"(%{{.*}}) <{boundaryCheck = array<i32>}> {name = "made"}
// CHECK: "tt.load"(%{{.*}}) <{boundaryCheck = array<i32: 1>}> {name = "ahead"}
// CHECK: "tt.store"(%{{.*}}) <{boundaryCheck = array<i32: 1>}> {name = "after"}
// CHECK: "tt.load"(%{{.*}}) <{boundaryCheck = array<i32: 0>}> {name = "before"}
// CHECK: "tt.load"(%{{.*}}) <{boundaryCheck = array<i32: 0, 7>}> {name = "malformed"}

// A tensor of 4095 rows and columns: neither ends with the tiles.
// TAIL-NOT: remark

// A program more: its rows lie outside, the columns still inside.
// GRID: remark: 2 needless boundary checks
// GRID: array<i32: 0>, padding = 1 : i32}> {name = "carried"}
// GRID: array<i32: 0>}> {name = "made"}
// GRID: array<i32: 0, 1>}> {name = "ahead"}

// UNKNOWN-NOT: remark

// FOUND: remark: [needless-mask] the boundary check of this load is true for every element
// FOUND: remark: [needless-mask] the boundary check of this load is true for every element
// FOUND: remark: [needless-mask] the boundary check along dimension 0 of this load is true
// FOUND: remark: [needless-mask] the boundary check along dimension 0 of this store is true
// FOUND: \22dimensions\22:[0,1]
"tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32):
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c128 = arith.constant 128 : i32
  %minus = arith.constant -1 : i32
  %unit = arith.constant 1 : i64
  %size = arith.extsi %n : i32 to i64
  %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
  %row = arith.muli %pid, %c128 : i32
  %start = "tt.make_tensor_ptr"(%base, %size, %size, %size, %unit, %row, %c0) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<128x32xf16>>
  %end = scf.for %k = %c0 to %n step %c32 iter_args(%p = %start) -> (!tt.ptr<tensor<128x32xf16>>) : i32 {
    %a = "tt.load"(%p) <{boundaryCheck = array<i32: 0, 1>, padding = 1 : i32}> {name = "carried"} : (!tt.ptr<tensor<128x32xf16>>) -> tensor<128x32xf16>
    %q = "tt.make_tensor_ptr"(%base, %size, %size, %size, %unit, %row, %k) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<128x32xf16>>
    %b = "tt.load"(%q) <{boundaryCheck = array<i32: 0, 1>}> {name = "made"} : (!tt.ptr<tensor<128x32xf16>>) -> tensor<128x32xf16>
    %next = "tt.advance"(%p, %c0, %c32) : (!tt.ptr<tensor<128x32xf16>>, i32, i32) -> !tt.ptr<tensor<128x32xf16>>
    %c = "tt.load"(%next) <{boundaryCheck = array<i32: 0, 1>}> {name = "ahead"} : (!tt.ptr<tensor<128x32xf16>>) -> tensor<128x32xf16>
    "op.use"(%a, %b, %c) : (tensor<128x32xf16>, tensor<128x32xf16>, tensor<128x32xf16>) -> ()
    scf.yield %next : !tt.ptr<tensor<128x32xf16>>
  }
  %x = "op.make"() : () -> tensor<128x32xf16>
  "tt.store"(%end, %x) <{boundaryCheck = array<i32: 0, 1>}> {name = "after"} : (!tt.ptr<tensor<128x32xf16>>, tensor<128x32xf16>) -> ()
  %outside = "tt.advance"(%start, %minus, %c0) : (!tt.ptr<tensor<128x32xf16>>, i32, i32) -> !tt.ptr<tensor<128x32xf16>>
  %y = "tt.load"(%outside) <{boundaryCheck = array<i32: 0>}> {name = "before"} : (!tt.ptr<tensor<128x32xf16>>) -> tensor<128x32xf16>
  %z = "tt.load"(%outside) <{boundaryCheck = array<i32: 0, 7>}> {name = "malformed"} : (!tt.ptr<tensor<128x32xf16>>) -> tensor<128x32xf16>
  "op.use"(%y, %z) : (tensor<128x32xf16>, tensor<128x32xf16>) -> ()
  "tt.return"() : () -> ()
}) : () -> ()
