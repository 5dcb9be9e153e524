// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-check-registers)' -verify-diagnostics -o /dev/null

// 256x256 of float32 in 32 sub-groups are 8192 B each, with A (32x32xf16) 2048 B, with B (32x64xf16)
// 4096 B: in 128 registers of 64 B they have no place, in 256 they have. The accumulator is written
// in place and counts once, the block pointer is a register of its own.
module attributes {"ttg.num-warps" = 32 : i32, "ttg.threads-per-warp" = 16 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = (!tt.ptr<tensor<256x32xf16>>, !tt.ptr<tensor<32x256xf16>>, i32) -> (), sym_name = "kernel"}> ({
  ^bb0(%pa: !tt.ptr<tensor<256x32xf16>>, %pb: !tt.ptr<tensor<32x256xf16>>, %n: i32):
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %init = arith.constant dense<0.0> : tensor<256x256xf32, #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>>
    %sum = scf.for %i = %zero to %n step %one iter_args(%acc = %init) -> (tensor<256x256xf32, #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>>) : i32 {
      %a = "tt.load"(%pa) : (!tt.ptr<tensor<256x32xf16>>) -> tensor<256x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>, kWidth = 1}>>
      %b = "tt.load"(%pb) : (!tt.ptr<tensor<32x256xf16>>) -> tensor<32x256xf16, #ttg.dot_op<{opIdx = 1, parent = #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>, kWidth = 2}>>
      // expected-warning @below {{[register-pressure] an estimated 14336 B of tiles live here in each thread, of 8192 B of registers (128 of them)}}
      // expected-note @below {{256x256xf32 of tt.dot}}
      // expected-note @below {{mend: 256 registers}}
      %d = "tt.dot"(%a, %b, %acc) : (tensor<256x32xf16, #ttg.dot_op<{opIdx = 0, parent = #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>, kWidth = 1}>>, tensor<32x256xf16, #ttg.dot_op<{opIdx = 1, parent = #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>, kWidth = 2}>>, tensor<256x256xf32, #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>>) -> tensor<256x256xf32, #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>>
      scf.yield %d : tensor<256x256xf32, #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>>
    }
    "op.use"(%sum) : (tensor<256x256xf32, #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [8, 4], A = [32, 16], B = [16, 32], C = [32, 32]}>>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// The newer spelling, and the edge: 7680 B beside 8 registers for headers fill 128 registers.
module attributes {"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 16 : i32, ttig.min_sg_size = 16 : i32} {
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    %x = "op.make"() : () -> tensor<120x16xf32, #ttig.dpas<{threadsPerWarp = 16, warpsPerCTA = [1, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>
    "op.other"() : () -> ()
    "op.use"(%x) : (tensor<120x16xf32, #ttig.dpas<{threadsPerWarp = 16, warpsPerCTA = [1, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

module attributes {"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 16 : i32, ttig.min_sg_size = 16 : i32} {
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    // expected-warning @below {{an estimated 8192 B of tiles live here}}
    // expected-note @below {{128x16xf32 of op.make}}
    // expected-note @below {{mend}}
    %x = "op.make"() : () -> tensor<128x16xf32, #ttig.dpas<{threadsPerWarp = 16, warpsPerCTA = [1, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>
    "op.use"(%x) : (tensor<128x16xf32, #ttig.dpas<{threadsPerWarp = 16, warpsPerCTA = [1, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// What is spread from a scalar or a row costs no registers, nor do constants and ranges; of a tensor
// of pointers each vector of 8 has one address.
module attributes {"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 16 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = (f32) -> (), sym_name = "kernel"}> ({
  ^bb0(%f: f32):
    %s = "tt.splat"(%f) : (f32) -> tensor<256x256xf32>
    %z = arith.constant dense<0.0> : tensor<256x256xf32>
    %r = "tt.make_range"() <{end = 65536 : i32, start = 0 : i32}> : () -> tensor<65536xi32>
    %p = "op.make"() : () -> tensor<4x1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [1, 16], warpsPerCTA = [1, 1], order = [1, 0]}>>
    "op.other"() : () -> ()
    "op.use"(%s, %z, %r, %p) : (tensor<256x256xf32>, tensor<256x256xf32>, tensor<65536xi32>, tensor<4x1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [1, 16], warpsPerCTA = [1, 1], order = [1, 0]}>>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// A row that is broadcast lives as long as the tile, and a value from before a loop until its end.
module attributes {"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 16 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = (i32) -> (), sym_name = "kernel"}> ({
  ^bb0(%n: i32):
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %row = "op.make"() : () -> tensor<1024x1xf32>
    %tile = "tt.broadcast"(%row) : (tensor<1024x1xf32>) -> tensor<1024x64xf32>
    scf.for %i = %zero to %n step %one : i32 {
      "op.use"(%tile) : (tensor<1024x64xf32>) -> ()
      // expected-warning @below {{an estimated 8192 B of tiles live here}}
      // expected-note @below {{1024x1xf32 of op.make}}
      // expected-note @below {{mend}}
      %x = "op.make"() : () -> tensor<1024xf32>
      "op.use"(%x) : (tensor<1024xf32>) -> ()
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// Before layouts nothing is said, nor of a launch that no device has.
module {
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    %x = "op.make"() : () -> tensor<1024x1024xf32>
    "op.use"(%x) : (tensor<1024x1024xf32>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

module attributes {"ttg.num-warps" = -1 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    %x = "op.make"() : () -> tensor<1024x1024xf32>
    "op.use"(%x) : (tensor<1024x1024xf32>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}
