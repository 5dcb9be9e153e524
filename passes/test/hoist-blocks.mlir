// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-hoist-invariant)' 2>/dev/null | FileCheck %s
// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-hoist-invariant)' 2>&1 >/dev/null | FileCheck %s --check-prefix=SAID --implicit-check-not=remark

// SAID: remark: 3 carried block pointers
// SAID: remark: 2 hoisted operations
// SAID: remark: 1 carried block pointer
// SAID: remark: 1 carried block pointer

// CHECK-LABEL: sym_name = "kernel"
// CHECK: ^bb0(%[[BASE:.*]]: !tt.ptr<f16>, %[[N:.*]]: i32, %[[AT:.*]]: i32
// The first at (at, 8), advanced by the step of the loop.
// CHECK: %[[P:.*]] = "tt.make_tensor_ptr"(%[[BASE]], {{.*}}, %[[AT]], %[[EIGHT:.*]]) <{order = array<i32: 1, 0>}>
// The second at 8 * 32 + at, advanced by the step times 32.
// CHECK: %[[F:.*]] = "arith.muli"(%[[EIGHT]], %[[C32:.*]])
// CHECK-NEXT: %[[S:.*]] = "arith.addi"(%[[F]], %[[AT]])
// CHECK-NEXT: %[[G:.*]] = "arith.muli"(%[[STEP:.*]], %[[C32]])
// CHECK: %[[Q:.*]] = "tt.make_tensor_ptr"(%[[BASE]], {{.*}}, %[[S]], %{{.*}})
// The third runs backwards.
// CHECK: %[[B:.*]] = "arith.subi"(%[[AT]], %[[EIGHT]])
// CHECK: %[[D:.*]] = "arith.subi"(%{{.*}}, %[[STEP]])
// CHECK: %[[R:.*]] = "tt.make_tensor_ptr"(%[[BASE]], {{.*}}, %[[B]])
// CHECK: %[[FOR:.*]]:4 = "scf.for"(%[[EIGHT]], %[[N]], %[[STEP]], %{{.*}}, %[[P]], %[[Q]], %[[R]])
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: f32, %[[PA:.*]]: !tt.ptr<{{.*}}>, %[[QA:.*]]: !tt.ptr<{{.*}}>, %[[RA:.*]]: !tt.ptr<{{.*}}>):
// CHECK: "tt.load"(%[[PA]])
// CHECK: "tt.load"(%[[QA]])
// CHECK: "tt.load"(%[[RA]])
// CHECK: "tt.advance"(%[[PA]], %{{.*}}, %[[STEP]])
// CHECK: "tt.advance"(%[[QA]], %[[G]], %{{.*}})
// CHECK: "tt.advance"(%[[RA]], %{{.*}}, %[[D]])
// CHECK: "scf.yield"
// The loop keeps its attributes.
// CHECK-NEXT: {tt.num_stages = 3 : i32}
"tt.func"() <{function_type = (!tt.ptr<f16>, i32, i32) -> (), sym_name = "kernel"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32, %at: i32):
  %eight = arith.constant 8 : i32
  %step = arith.constant 64 : i32
  %c32 = arith.constant 32 : i32
  %size = arith.constant 4096 : i64
  %unit = arith.constant 1 : i64
  %f = arith.constant 0.0 : f32
  %sum = scf.for %i = %eight to %n step %step iter_args(%total = %f) -> (f32) : i32 {
    %p = "tt.make_tensor_ptr"(%base, %size, %size, %size, %unit, %at, %i) <{order = array<i32: 1, 0>}> : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
    %m = arith.muli %i, %c32 : i32
    %s = arith.addi %m, %at : i32
    %q = "tt.make_tensor_ptr"(%base, %size, %size, %size, %unit, %s, %at) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
    %b = arith.subi %at, %i : i32
    %r = "tt.make_tensor_ptr"(%base, %size, %size, %size, %unit, %at, %b) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
    %x = "tt.load"(%p) : (!tt.ptr<tensor<64x32xf16>>) -> tensor<64x32xf16>
    %y = "tt.load"(%q) : (!tt.ptr<tensor<64x32xf16>>) -> tensor<64x32xf16>
    %z = "tt.load"(%r) : (!tt.ptr<tensor<64x32xf16>>) -> tensor<64x32xf16>
    "op.use"(%x, %y, %z) : (tensor<64x32xf16>, tensor<64x32xf16>, tensor<64x32xf16>) -> ()
    scf.yield %total : f32
  } {tt.num_stages = 3 : i32}
  "op.use"(%sum) : (f32) -> ()
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// Out of two loops: carried by the outer one, from where the inner one starts each time.
// CHECK-LABEL: sym_name = "nested"
// CHECK: "scf.for"
// CHECK: %[[P:.*]] = "tt.make_tensor_ptr"
// CHECK-NEXT: "scf.for"({{.*}}, %[[P]])
// CHECK: "tt.advance"
"tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "nested"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32):
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %size = arith.constant 4096 : i64
  %unit = arith.constant 1 : i64
  scf.for %i = %zero to %n step %one : i32 {
    %row = arith.divsi %n, %i : i32
    scf.for %j = %zero to %n step %one : i32 {
      %c = arith.addi %row, %n : i32
      %p = "tt.make_tensor_ptr"(%base, %size, %size, %size, %unit, %c, %j) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
      "op.use"(%p) : (!tt.ptr<tensor<64x32xf16>>) -> ()
    }
  }
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// A block from before the loop that is advanced by the counter is carried alike; one that the loop
// carries already stays as it is.
// CHECK-LABEL: sym_name = "advanced"
// CHECK: ^bb0(%[[P:.*]]: !tt.ptr<tensor<64x32xf16>>
// CHECK: %[[S:.*]] = "tt.advance"(%[[P]], %[[ZERO:.*]], %[[ZERO]])
// CHECK: "scf.for"({{.*}}, %[[P]], %[[S]])
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %[[C:.*]]: !tt.ptr<tensor<64x32xf16>>, %[[A:.*]]: !tt.ptr<tensor<64x32xf16>>):
// CHECK-NEXT: "tt.load"(%[[A]])
// CHECK-NEXT: "tt.load"(%[[C]])
// CHECK: %[[N:.*]] = "tt.advance"(%[[C]], %[[ZERO]], %[[ONE:.*]])
// CHECK: %[[M:.*]] = "tt.advance"(%[[A]], %{{.*}}, %[[ONE]])
// CHECK-NEXT: "scf.yield"(%[[N]], %[[M]])
"tt.func"() <{function_type = (!tt.ptr<tensor<64x32xf16>>, i32) -> (), sym_name = "advanced"}> ({
^bb0(%p: !tt.ptr<tensor<64x32xf16>>, %n: i32):
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %last = scf.for %i = %zero to %n step %one iter_args(%carried = %p) -> (!tt.ptr<tensor<64x32xf16>>) : i32 {
    %a = "tt.advance"(%p, %zero, %i) : (!tt.ptr<tensor<64x32xf16>>, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
    %x = "tt.load"(%a) : (!tt.ptr<tensor<64x32xf16>>) -> tensor<64x32xf16>
    %y = "tt.load"(%carried) : (!tt.ptr<tensor<64x32xf16>>) -> tensor<64x32xf16>
    "op.use"(%x, %y) : (tensor<64x32xf16>, tensor<64x32xf16>) -> ()
    %next = "tt.advance"(%carried, %zero, %one) : (!tt.ptr<tensor<64x32xf16>>, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
    scf.yield %next : !tt.ptr<tensor<64x32xf16>>
  }
  "op.use"(%last) : (!tt.ptr<tensor<64x32xf16>>) -> ()
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// Offsets that grow unevenly, another base in each iteration, a branch, other widths: these stay.
// CHECK-LABEL: sym_name = "stays"
// CHECK-NOT: tt.advance
// CHECK: "tt.return"
"tt.func"() <{function_type = (!tt.ptr<f16>, i32, i64, i1) -> (), sym_name = "stays"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32, %m: i64, %which: i1):
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %wide0 = arith.constant 0 : i64
  %wide1 = arith.constant 1 : i64
  %size = arith.constant 4096 : i64
  %last = scf.for %i = %zero to %n step %one iter_args(%moving = %zero) -> (i32) : i32 {
    %square = arith.muli %i, %i : i32
    %p = "tt.make_tensor_ptr"(%base, %size, %size, %size, %wide1, %zero, %square) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
    %half = arith.divsi %i, %n : i32
    %q = "tt.make_tensor_ptr"(%base, %size, %size, %size, %wide1, %zero, %half) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
    %row = "tt.addptr"(%base, %i) : (!tt.ptr<f16>, i32) -> !tt.ptr<f16>
    %r = "tt.make_tensor_ptr"(%row, %size, %size, %size, %wide1, %zero, %i) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
    %s = "tt.make_tensor_ptr"(%base, %size, %size, %size, %wide1, %zero, %moving) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
    scf.if %which {
      %t = "tt.make_tensor_ptr"(%base, %size, %size, %size, %wide1, %zero, %i) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<64x32xf16>>
      "op.use"(%t) : (!tt.ptr<tensor<64x32xf16>>) -> ()
    }
    // Too few operands for its rank.
    %u = "tt.make_tensor_ptr"(%base, %i) : (!tt.ptr<f16>, i32) -> !tt.ptr<tensor<64x32xf16>>
    "op.use"(%p, %q, %r, %s, %u) : (!tt.ptr<tensor<64x32xf16>>, !tt.ptr<tensor<64x32xf16>>, !tt.ptr<tensor<64x32xf16>>, !tt.ptr<tensor<64x32xf16>>, !tt.ptr<tensor<64x32xf16>>) -> ()
    %next = arith.addi %moving, %i : i32
    scf.yield %next : i32
  }
  scf.for %i = %wide0 to %m step %wide1 : i64 {
    %p = "tt.make_tensor_ptr"(%base, %size, %size, %size, %wide1, %wide0, %i) : (!tt.ptr<f16>, i64, i64, i64, i64, i64, i64) -> !tt.ptr<tensor<64x32xf16>>
    "op.use"(%p) : (!tt.ptr<tensor<64x32xf16>>) -> ()
  }
  "op.use"(%last) : (i32) -> ()
  "tt.return"() : () -> ()
}) : () -> ()
