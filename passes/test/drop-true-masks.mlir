// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-drop-true-masks{values=1=4096 grid=32})' 2>&1 | FileCheck %s
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-drop-true-masks{values=1=4095 grid=32})' 2>&1 | FileCheck %s --check-prefix=TAIL

// CHECK: remark: 3 needless masks
// What only the masks needed is gone.
// CHECK-NOT: arith.cmpi
// CHECK: "tt.load"(%[[P:.*]]) <{boundaryCheck = array<i32>, cache = 1 : i32, operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<128x!tt.ptr<f32>>) -> tensor<128xf32>
// CHECK: "tt.store"(%[[P]], %{{.*}}) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
// CHECK: "scf.for"
// CHECK: "tt.load"(%[[P]]) <{operandSegmentSizes = array<i32: 1, 0, 0>}>

// At 4095 the launch has a tail; the loop's mask holds by its own bounds.
// TAIL: remark: 1 needless mask
// TAIL: "tt.load"(%{{.*}}, %{{.*}}, %{{.*}}) <{boundaryCheck = array<i32>, cache = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1>}>
// TAIL: "tt.store"(%{{.*}}, %{{.*}}, %{{.*}})
"tt.func"() <{function_type = (!tt.ptr<f32>, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
^bb0(%base: !tt.ptr<f32>, %n: i32):
  %c128 = arith.constant 128 : i32
  %c1024 = arith.constant 1024 : i32
  %c0 = arith.constant 0 : i32
  %zeros = arith.constant dense<0.0> : tensor<128xf32>
  %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
  %start = arith.muli %pid, %c128 : i32
  %range = "tt.make_range"() <{end = 128 : i32, start = 0 : i32}> : () -> tensor<128xi32>
  %s = "tt.splat"(%start) : (i32) -> tensor<128xi32>
  %o = arith.addi %s, %range : tensor<128xi32>
  %end = "tt.splat"(%n) : (i32) -> tensor<128xi32>
  %m = arith.cmpi slt, %o, %end : tensor<128xi32>
  %p = "tt.splat"(%base) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
  %x = "tt.load"(%p, %m, %zeros) <{boundaryCheck = array<i32>, cache = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<128x!tt.ptr<f32>>, tensor<128xi1>, tensor<128xf32>) -> tensor<128xf32>
  "tt.store"(%p, %x, %m) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>, tensor<128xi1>) -> ()
  // range < 1024 - k for k = 0, 128, ..., 896.
  scf.for %k = %c0 to %c1024 step %c128 : i32 {
    %rest = arith.subi %c1024, %k : i32
    %rs = "tt.splat"(%rest) : (i32) -> tensor<128xi32>
    %mk = arith.cmpi slt, %range, %rs : tensor<128xi32>
    %y = "tt.load"(%p, %mk) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<128x!tt.ptr<f32>>, tensor<128xi1>) -> tensor<128xf32>
    "op.use"(%y) : (tensor<128xf32>) -> ()
  }
  "tt.return"() : () -> ()
}) : () -> ()
