// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-check-block-io)' -verify-diagnostics -o /dev/null

// A block with a constant last stride and a pitch that 16 divides: nothing is said.
"tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}], function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "good"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32):
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i32
  %size = arith.extsi %n : i32 to i64
  %p = "tt.make_tensor_ptr"(%base, %size, %size, %size, %one, %zero, %zero) <{order = array<i32: 1, 0>}> : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x32xf16>>
  %x = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// No promise on the pitch, for a load and for a store.
"tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {}], function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "pitch"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32):
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i32
  %size = arith.extsi %n : i32 to i64
  %p = "tt.make_tensor_ptr"(%base, %size, %size, %size, %one, %zero, %zero) <{order = array<i32: 1, 0>}> : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x32xf16>>
  // expected-warning @below {{[load-not-2d-block] this load of 32x32xf16 cannot be a 2D block message}}
  // expected-note @below {{why: the pitch is the argument `arg1` times 2 B, not known to be a multiple of 16 B}}
  // expected-note @below {{mend: pass a stride that 16 divides}}
  %x = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
  // expected-remark @below {{[store-not-2d-block]}}
  // expected-note @below {{why: the pitch is the argument `arg1` times 2 B}}
  // expected-note @below {{a card may refuse}}
  "tt.store"(%p, %x) : (!tt.ptr<tensor<32x32xf16>>, tensor<32x32xf16>) -> ()
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// A product keeps the divisibility of a factor: a pitch of 8 n elements of 2 B.
"tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "product"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32):
  %one = arith.constant 1 : i64
  %eight = arith.constant 8 : i64
  %zero = arith.constant 0 : i32
  %size = arith.extsi %n : i32 to i64
  %pitch = arith.muli %size, %eight : i64
  %p = "tt.make_tensor_ptr"(%base, %size, %pitch, %pitch, %one, %zero, %zero) <{order = array<i32: 1, 0>}> : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x32xf16>>
  %x = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// Constant pitches: 4095 elements of 2 B; 16 elements of 2 B; and a width of 16 elements.
"tt.func"() <{function_type = (!tt.ptr<f16>) -> (), sym_name = "constants"}> ({
^bb0(%base: !tt.ptr<f16>):
  %one = arith.constant 1 : i64
  %odd = arith.constant 4095 : i64
  %small = arith.constant 16 : i64
  %wide = arith.constant 4096 : i64
  %zero = arith.constant 0 : i32
  %p = "tt.make_tensor_ptr"(%base, %wide, %odd, %odd, %one, %zero, %zero) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x32xf16>>
  // expected-warning @below {{[load-not-2d-block]}}
  // expected-note @below {{why: the pitch is 4095 elements of 2 B, not a multiple of 16 B}}
  // expected-note @below {{mend: pad the rows}}
  %x = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
  %q = "tt.make_tensor_ptr"(%base, %wide, %wide, %small, %one, %zero, %zero) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x16xf16>>
  // expected-warning @below {{[load-not-2d-block]}}
  // expected-note @below {{why: the pitch is 32 B; the least is 64 B}}
  %y = "tt.load"(%q) : (!tt.ptr<tensor<32x16xf16>>) -> tensor<32x16xf16>
  %r = "tt.make_tensor_ptr"(%base, %wide, %small, %wide, %one, %zero, %zero) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x16xf16>>
  // expected-warning @below {{[load-not-2d-block]}}
  // expected-note @below {{why: the surface is 16 elements of 2 B wide}}
  %z = "tt.load"(%r) : (!tt.ptr<tensor<32x16xf16>>) -> tensor<32x16xf16>
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// Neither stride is the constant 1; three dimensions; one dimension; a base off 64 B.
"tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}], function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "shapes"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32):
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i32
  %seven = arith.constant 7 : i32
  %size = arith.extsi %n : i32 to i64
  %p = "tt.make_tensor_ptr"(%base, %size, %size, %size, %size, %zero, %zero) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x32xf16>>
  // expected-warning @below {{[load-not-2d-block]}}
  // expected-note @below {{why: stride of the last dimension is the argument `arg1`, not known to be 1}}
  // expected-note @below {{mend:}}
  %x = "tt.load"(%p) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
  %q = "tt.make_tensor_ptr"(%base, %size, %size, %size, %size, %size, %one, %zero, %zero, %zero) : (!tt.ptr<f16>, i64, i64, i64, i64, i64, i64, i32, i32, i32) -> !tt.ptr<tensor<1x32x32xf16>>
  // expected-warning @below {{[load-not-2d-block]}}
  // expected-note @below {{why: the block has 3 dimensions}}
  // expected-note @below {{mend:}}
  %y = "tt.load"(%q) : (!tt.ptr<tensor<1x32x32xf16>>) -> tensor<1x32x32xf16>
  %r = "tt.splat"(%base) : (!tt.ptr<f16>) -> tensor<64x!tt.ptr<f16>>
  // expected-remark @below {{[load-not-2d-block] this load of 64xf16}}
  // expected-note @below {{why: it moves one dimension}}
  %z = "tt.load"(%r) : (tensor<64x!tt.ptr<f16>>) -> tensor<64xf16>
  %moved = "tt.addptr"(%base, %seven) : (!tt.ptr<f16>, i32) -> !tt.ptr<f16>
  %s = "tt.make_tensor_ptr"(%moved, %size, %size, %size, %one, %zero, %zero) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x32xf16>>
  // expected-warning @below {{[load-not-2d-block]}}
  // expected-note @below {{why: the base stands 7 elements of 2 B into the tensor}}
  // expected-note @below {{mend:}}
  %w = "tt.load"(%s) : (!tt.ptr<tensor<32x32xf16>>) -> tensor<32x32xf16>
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// Through a loop that advances the block, in a descriptor, in both spellings of the dialect.
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu", "ttg.threads-per-warp" = 16 : i32, triton_intel_gpu.support_sg_2d_block} {
  "tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "advanced"}> ({
  ^bb0(%base: !tt.ptr<f16>, %n: i32):
    %one = arith.constant 1 : i64
    %zero = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %size = arith.extsi %n : i32 to i64
    %p = "tt.make_tensor_ptr"(%base, %size, %size, %size, %one, %zero, %zero) : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{repeatCount = 8}>, kWidth = 1}>>>
    %last = scf.for %i = %zero to %n step %step iter_args(%q = %p) -> (!tt.ptr<tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{repeatCount = 8}>, kWidth = 1}>>>) : i32 {
      // expected-warning @below {{[load-not-2d-block]}}
      // expected-note @below {{why: the pitch is the argument `arg1` times 2 B}}
      // expected-note @below {{mend:}}
      %x = "tt.load"(%q) : (!tt.ptr<tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{repeatCount = 8}>, kWidth = 1}>>>) -> tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{repeatCount = 8}>, kWidth = 1}>>
      %next = "tt.advance"(%q, %zero, %step) : (!tt.ptr<tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{repeatCount = 8}>, kWidth = 1}>>>, i32, i32) -> !tt.ptr<tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{repeatCount = 8}>, kWidth = 1}>>>
      scf.yield %next : !tt.ptr<tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{repeatCount = 8}>, kWidth = 1}>>>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// The newer spelling: the compiler raised one tensor of pointers by itself, and not the other.
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu", "ttg.threads-per-warp" = 16 : i32, ttig.support_2d_block_io} {
  "tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "newer"}> ({
  ^bb0(%base: !tt.ptr<f16>, %n: i32):
    %p = "tt.splat"(%base) : (!tt.ptr<f16>) -> tensor<32x32x!tt.ptr<f16>, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{repeatCount = 8}>, kWidth = 1}>>
    %x = "tt.load"(%p) {ttig.block_io = "row_major"} : (tensor<32x32x!tt.ptr<f16>, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{repeatCount = 8}>, kWidth = 1}>>) -> tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{repeatCount = 8}>, kWidth = 1}>>
    // expected-warning @below {{[load-not-2d-block]}}
    // expected-note @below {{why: tensor of pointers}}
    // expected-note @below {{mend:}}
    %y = "tt.load"(%p) : (tensor<32x32x!tt.ptr<f16>, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{repeatCount = 8}>, kWidth = 1}>>) -> tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{repeatCount = 8}>, kWidth = 1}>>
    %one = arith.constant 1 : i64
    %pitch = arith.constant 4096 : i64
    %d = "tt.make_tensor_descriptor"(%base, %n, %n, %pitch, %one) : (!tt.ptr<f16>, i32, i32, i64, i64) -> !tt.tensordesc<tensor<32x32xf16>>
    %zero = arith.constant 0 : i32
    // A descriptor in a layout that is not of DPAS.
    // expected-warning @below {{[load-not-2d-block]}}
    // expected-note @below {{why: its layout is blocked, neither an operand nor a result of DPAS}}
    // expected-note @below {{mend:}}
    %z = "tt.descriptor_load"(%d, %zero, %zero) : (!tt.tensordesc<tensor<32x32xf16>>, i32, i32) -> tensor<32x32xf16, #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 8], warpsPerCTA = [4, 1], order = [1, 0]}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// A device without 2D block messages: nothing is said.
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu", "ttg.threads-per-warp" = 16 : i32} {
  "tt.func"() <{function_type = (!tt.ptr<f16>) -> (), sym_name = "none"}> ({
  ^bb0(%base: !tt.ptr<f16>):
    %p = "tt.splat"(%base) : (!tt.ptr<f16>) -> tensor<32x32x!tt.ptr<f16>>
    %x = "tt.load"(%p) : (tensor<32x32x!tt.ptr<f16>>) -> tensor<32x32xf16>
    // Malformed operations are passed over.
    "tt.load"() : () -> ()
    "tt.store"(%x) : (tensor<32x32xf16>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// Rows that wrap: the offset of the rows is taken modulo an argument; and a stride that was loaded.
"tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "wraps"}> ({
^bb0(%base: !tt.ptr<f16>, %n: i32):
  %range = "tt.make_range"() <{end = 32 : i32, start = 0 : i32}> : () -> tensor<32xi32>
  %size = "tt.splat"(%n) : (i32) -> tensor<32xi32>
  %wrapped = arith.remsi %range, %size : tensor<32xi32>
  %rows = "tt.expand_dims"(%wrapped) <{axis = 1 : i32}> : (tensor<32xi32>) -> tensor<32x1xi32>
  %pitch = arith.constant dense<4096> : tensor<32x1xi32>
  %offsets = arith.muli %rows, %pitch : tensor<32x1xi32>
  %columns = "tt.expand_dims"(%range) <{axis = 0 : i32}> : (tensor<32xi32>) -> tensor<1x32xi32>
  %a = "tt.broadcast"(%offsets) : (tensor<32x1xi32>) -> tensor<32x32xi32>
  %b = "tt.broadcast"(%columns) : (tensor<1x32xi32>) -> tensor<32x32xi32>
  %c = arith.addi %a, %b : tensor<32x32xi32>
  %p = "tt.splat"(%base) : (!tt.ptr<f16>) -> tensor<32x32x!tt.ptr<f16>>
  %q = "tt.addptr"(%p, %c) : (tensor<32x32x!tt.ptr<f16>>, tensor<32x32xi32>) -> tensor<32x32x!tt.ptr<f16>>
  // expected-warning @below {{[load-not-2d-block]}}
  // expected-note @below {{why: tensor of pointers with row stride 4096; nothing states width and pitch, as a block pointer would; the offset along dimension 0 is taken modulo `arg1`}}
  // expected-note @below {{mend:}}
  %x = "tt.load"(%q) : (tensor<32x32x!tt.ptr<f16>>) -> tensor<32x32xf16>
  %loaded = "op.offsets"() : () -> tensor<32x32xi32>
  %r = "tt.addptr"(%p, %loaded) : (tensor<32x32x!tt.ptr<f16>>, tensor<32x32xi32>) -> tensor<32x32x!tt.ptr<f16>>
  // expected-warning @below {{[load-not-2d-block]}}
  // expected-note @below {{why: tensor of pointers whose addresses are not a plain sum of row and column}}
  // expected-note @below {{mend:}}
  %y = "tt.load"(%r) : (tensor<32x32x!tt.ptr<f16>>) -> tensor<32x32xf16>
  "tt.return"() : () -> ()
}) : () -> ()
