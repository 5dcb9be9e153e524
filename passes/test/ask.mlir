// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-ask{values=n=37 grid=3,2})' 2>&1 | FileCheck %s
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-ask)' 2>&1 | FileCheck %s --check-prefix=BARE

"tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "kernel"}> ({
^bb0(%p: !tt.ptr<f16>, %n: i32 loc("n"("kernel.py":1:1))):
  // In each program of the grid; without one nothing is known of a program's number.
  // CHECK: remark: {"high":[0,0,0,1,1,1],"low":[0,0,0,1,1,1],"text":"pid1"}
  // BARE: remark: {"text":"pid1"}
  %pid = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
  "xesmith.ask"(%pid) : (i32) -> ()
  // A sum that could wrap is not known; its expression is.
  %most = arith.constant 2147483647 : i32
  %wraps = arith.addi %n, %most : i32
  // CHECK: remark: {"text":"n + 2147483647"}
  "xesmith.ask"(%wraps) : (i32) -> ()
  // true is -1 where it is widened by its sign.
  %true = arith.constant true
  %wide = arith.extsi %true : i1 to i32
  // CHECK: remark: {"high":[-1],"low":[-1]
  "xesmith.ask"(%wide) : (i32) -> ()
  // The rows wrap around n, and step by the expression of a stride.
  %r = "tt.make_range"() <{start = 0 : i32, end = 64 : i32}> : () -> tensor<64xi32>
  %s = "tt.splat"(%n) : (i32) -> tensor<64xi32>
  %w = arith.remsi %r, %s : tensor<64xi32>
  %c = "tt.expand_dims"(%w) <{axis = 1 : i32}> : (tensor<64xi32>) -> tensor<64x1xi32>
  %two = arith.constant dense<2> : tensor<64x1xi32>
  %rows = arith.muli %c, %two : tensor<64x1xi32>
  %all = "tt.broadcast"(%rows) : (tensor<64x1xi32>) -> tensor<64x32xi32>
  %base = "tt.splat"(%p) : (!tt.ptr<f16>) -> tensor<64x32x!tt.ptr<f16>>
  %q = "tt.addptr"(%base, %all) : (tensor<64x32x!tt.ptr<f16>>, tensor<64x32xi32>) -> tensor<64x32x!tt.ptr<f16>>
  // CHECK: remark: {"argument":"arg0","slopes":[{"modulo":"n","step":2},{"step":0}]}
  "xesmith.ask"(%q) : (tensor<64x32x!tt.ptr<f16>>) -> ()
  // A loop that grows a value by its step.
  %c0 = arith.constant 0 : i32
  %c4 = arith.constant 4 : i32
  %end = scf.for %i = %c0 to %n step %c4 iter_args(%a = %n) -> (i32) : i32 {
    // CHECK: remark: {"high":[73],"low":[37]}
    "xesmith.ask"(%a) : (i32) -> ()
    %next = arith.addi %a, %c4 : i32
    scf.yield %next : i32
  }
  // CHECK: remark: {"high":[77],"low":[37]}
  "xesmith.ask"(%end) : (i32) -> ()
  "xesmith.ask"() : () -> ()
  "tt.return"() : () -> ()
}) : () -> ()
