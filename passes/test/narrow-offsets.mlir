// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-narrow-offsets{grid=32})' 2>&1 | FileCheck %s
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-narrow-offsets)' 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK: remark: 2 narrowed offsets
// CHECK: remark: 2 narrowed comparisons
// CHECK: %[[PID:.*]] = "tt.get_program_id"
// CHECK: %[[OFFSET:.*]] = "arith.muli"(%[[PID]], %{{.*}}) <{{.*}}> : (i32, i32) -> i32
// CHECK: "tt.addptr"(%{{.*}}, %[[OFFSET]]) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
// The narrow sum goes through the shapes that the wide one went through.
// CHECK: %[[WIDE:.*]] = "tt.broadcast"(%{{.*}}) : (tensor<1x128xi32>) -> tensor<4x128xi32>
// CHECK: %[[SUM:.*]] = "arith.addi"(%[[WIDE]], %{{.*}}) <{{.*}}> : (tensor<4x128xi32>, tensor<4x128xi32>) -> tensor<4x128xi32>
// CHECK: "tt.addptr"(%{{.*}}, %[[SUM]])
// An argument times 4096 is not known to fit, a loaded offset neither.
// CHECK: "tt.addptr"(%{{.*}}, %{{.*}}) : (!tt.ptr<f32>, i64)
// CHECK: "tt.addptr"(%{{.*}}, %{{.*}}) : (!tt.ptr<f32>, i64)
// Signed comparisons of what fits; an unsigned one would take a negative number for a large one, and
// one side that may not fit keeps both wide.
// CHECK: "arith.cmpi"(%{{.*}}, %{{.*}}) <{predicate = 2 : i64}> : (tensor<4x128xi32>, tensor<4x128xi32>)
// CHECK: "arith.cmpi"(%[[OFFSET]], %{{.*}}) <{predicate = 0 : i64}> : (i32, i32)
// CHECK: "arith.cmpi"(%{{.*}}, %{{.*}}) <{predicate = 6 : i64}> : (i64, i64)
// CHECK: "arith.cmpi"(%{{.*}}, %{{.*}}) <{predicate = 2 : i64}> : (i64, i64)

// Without the grid a program number times 4096 may not fit; the tensor's offsets still do.
// UNKNOWN: remark: 1 narrowed offset
// UNKNOWN: remark: 1 narrowed comparison
// UNKNOWN: "tt.addptr"(%{{.*}}, %{{.*}}) : (!tt.ptr<f32>, i64)
"tt.func"() <{function_type = (!tt.ptr<f32>, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
^bb0(%base: !tt.ptr<f32>, %n: i32):
  %c4096 = arith.constant 4096 : i64
  %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
  %wide = arith.extsi %pid : i32 to i64
  %o = arith.muli %wide, %c4096 : i64
  %p = "tt.addptr"(%base, %o) : (!tt.ptr<f32>, i64) -> !tt.ptr<f32>
  %range = "tt.make_range"() <{end = 128 : i32, start = 0 : i32}> : () -> tensor<128xi32>
  %wr = arith.extsi %range : tensor<128xi32> to tensor<128xi64>
  %e = "tt.expand_dims"(%wr) <{axis = 0 : i32}> : (tensor<128xi64>) -> tensor<1x128xi64>
  %b = "tt.broadcast"(%e) : (tensor<1x128xi64>) -> tensor<4x128xi64>
  %c = arith.constant dense<1024> : tensor<4x128xi64>
  %t = arith.addi %b, %c : tensor<4x128xi64>
  %ps = "tt.splat"(%p) : (!tt.ptr<f32>) -> tensor<4x128x!tt.ptr<f32>>
  %q = "tt.addptr"(%ps, %t) : (tensor<4x128x!tt.ptr<f32>>, tensor<4x128xi64>) -> tensor<4x128x!tt.ptr<f32>>
  %wn = arith.extsi %n : i32 to i64
  %on = arith.muli %wn, %c4096 : i64
  %r = "tt.addptr"(%base, %on) : (!tt.ptr<f32>, i64) -> !tt.ptr<f32>
  %loaded = "tt.load"(%base) : (!tt.ptr<f32>) -> i64
  %s = "tt.addptr"(%base, %loaded) : (!tt.ptr<f32>, i64) -> !tt.ptr<f32>
  %m = arith.cmpi slt, %t, %c : tensor<4x128xi64>
  %eq = arith.cmpi eq, %o, %c4096 : i64
  %u = arith.cmpi ult, %o, %c4096 : i64
  %v = arith.cmpi slt, %on, %c4096 : i64
  "op.use"(%q, %r, %s, %m, %eq, %u, %v) : (tensor<4x128x!tt.ptr<f32>>, !tt.ptr<f32>, !tt.ptr<f32>, tensor<4x128xi1>, i1, i1, i1) -> ()
  "tt.return"() : () -> ()
}) : () -> ()
