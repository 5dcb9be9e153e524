// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-check-slm{slm-bytes=131072})' -verify-diagnostics -o /dev/null
// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-check-slm{slm-bytes=131072})' 2>/dev/null | FileCheck %s

// A store's way out of DPAS: 256 rows of 256 + 8 elements of 2 B.
// CHECK: xesmith.findings = [{{.*}}\22kind\22:\22slm-over-limit\22
// CHECK-SAME: \22numbers\22:{\22estimated\22:true,\22limit_bytes\22:131072,\22slm_bytes\22:135168}
module attributes {"ttg.num-warps" = 32 : i32, "ttg.threads-per-warp" = 16 : i32, ttg.target = "xpu", triton_intel_gpu.support_dpas} {
  "tt.func"() <{function_type = (tensor<256x256xf16, #triton_intel_gpu.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2], A = [32, 16], B = [16, 32], C = [32, 32]}>>) -> (), sym_name = "kernel"}> ({
  ^bb0(%acc: tensor<256x256xf16, #triton_intel_gpu.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2], A = [32, 16], B = [16, 32], C = [32, 32]}>>):
    // expected-warning @below {{[slm-over-limit] an estimated 135168 B of shared local memory, of 131072 B that a work-group can have}}
    // expected-note @below {{why: at once: 256x256xf16 on its way to another layout}}
    // expected-note @below {{mend: a smaller tile}}
    %c = "ttg.convert_layout"(%acc) : (tensor<256x256xf16, #triton_intel_gpu.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2], A = [32, 16], B = [16, 32], C = [32, 32]}>>) -> tensor<256x256xf16, #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [1, 16], warpsPerCTA = [16, 2], order = [1, 0]}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// The newer spelling. Only what both layouts deal out at a time goes through memory: 64 of 256 rows.
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 16 : i32, ttg.target = "xpu", ttig.support_subgroup_matrix_multiply_accumulate} {
  "tt.func"() <{function_type = (tensor<256x32xf16, #ttig.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [4, 1], repCluster = [2, 2], A = [16, 16], B = [16, 32], C = [16, 32]}>>) -> (), sym_name = "kernel"}> ({
  ^bb0(%acc: tensor<256x32xf16, #ttig.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [4, 1], repCluster = [2, 2], A = [16, 16], B = [16, 32], C = [16, 32]}>>):
    // expected-remark @below {{[slm-footprint] an estimated 5120 B of shared local memory}}
    // expected-note @below {{why: at once: 256x32xf16 on its way to another layout}}
    %c = "ttg.convert_layout"(%acc) : (tensor<256x32xf16, #ttig.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [4, 1], repCluster = [2, 2], A = [16, 16], B = [16, 32], C = [16, 32]}>>) -> tensor<256x32xf16, #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 4], warpsPerCTA = [4, 1], order = [1, 0]}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// From a DPAS result to the first operand of the same DPAS: it stays in registers.
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    %acc = "op.make"() : () -> tensor<64x32xf16, #ttig.dpas<{repeatCount = 8, threadsPerWarp = 16, warpsPerCTA = [4, 1], A = [16, 16], B = [16, 32], C = [16, 32]}>>
    %c = "ttg.convert_layout"(%acc) : (tensor<64x32xf16, #ttig.dpas<{repeatCount = 8, threadsPerWarp = 16, warpsPerCTA = [4, 1], A = [16, 16], B = [16, 32], C = [16, 32]}>>) -> tensor<64x32xf16, #ttg.dot_op<{opIdx = 0, parent = #ttig.dpas<{repeatCount = 8, threadsPerWarp = 16, warpsPerCTA = [4, 1], A = [16, 16], B = [16, 32], C = [16, 32]}>, kWidth = 1}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// Two tiles at once in the loop with the one from before it; the third comes when these are read.
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = (tensor<64x64xf16>, i32) -> (), sym_name = "kernel"}> ({
  ^bb0(%tile: tensor<64x64xf16>, %n: i32):
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    // expected-remark @below {{[slm-footprint] an estimated 24576 B of shared local memory}}
    // expected-note @below {{why: at once: 64x64xf16 kept there}}
    %q = "ttg.local_alloc"(%tile) : (tensor<64x64xf16>) -> !ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>
    scf.for %i = %zero to %n step %one : i32 {
      %k = "ttg.local_alloc"(%tile) : (tensor<64x64xf16>) -> !ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>
      %l = "ttg.local_alloc"(%tile) : (tensor<64x64xf16>) -> !ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>
      %x = "ttg.local_load"(%q) : (!ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>) -> tensor<64x64xf16>
      %y = "ttg.local_load"(%k) : (!ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>) -> tensor<64x64xf16>
      %z = "ttg.local_load"(%l) : (!ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>) -> tensor<64x64xf16>
      %v = "ttg.local_alloc"(%z) : (tensor<64x64xf16>) -> !ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>
      %w = "ttg.local_load"(%v) : (!ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>) -> tensor<64x64xf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// A reduction across 8 sub-groups, 8 B each. Along an axis that one sub-group holds: nothing.
module attributes {"ttg.num-warps" = 8 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    %x = "op.make"() : () -> tensor<1024xf64, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [8], order = [0]}>>
    // expected-remark @below {{[slm-footprint] an estimated 64 B of shared local memory}}
    // expected-note @below {{why: at once: 1024xf64 reduced across sub-groups}}
    %s = "tt.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%a: f64, %b: f64):
      %c = arith.addf %a, %b : f64
      "tt.reduce.return"(%c) : (f64) -> ()
    }) : (tensor<1024xf64, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [8], order = [0]}>>) -> f64
    %y = "op.make"() : () -> tensor<64x64xf32, #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [8, 1], order = [1, 0]}>>
    %t = "tt.reduce"(%y) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      "tt.reduce.return"(%c) : (f32) -> ()
    }) : (tensor<64x64xf32, #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [8, 1], order = [1, 0]}>>) -> tensor<64xf32>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// What the compiler allocated counts.
module attributes {"ttg.num-warps" = 4 : i32, ttg.shared = 135168 : i32, triton_intel_gpu.support_dpas} {
  // expected-warning @below {{[slm-over-limit] 135168 B of shared local memory, of 131072 B}}
  // expected-note @below {{mend: }}
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// TTIR has no layouts yet; another vendor's memory is not this one's.
module {
  "tt.func"() <{function_type = (tensor<64x64xf16>) -> (), sym_name = "kernel"}> ({
  ^bb0(%tile: tensor<64x64xf16>):
    %q = "ttg.local_alloc"(%tile) : (tensor<64x64xf16>) -> !ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  "tt.func"() <{function_type = (tensor<64x64xf16>) -> (), sym_name = "kernel"}> ({
  ^bb0(%tile: tensor<64x64xf16>):
    %q = "ttg.local_alloc"(%tile) : (tensor<64x64xf16>) -> !ttg.memdesc<64x64xf16, #ttg.shared, #ttg.shared_memory>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----

// Malformed layouts and axes are not followed.
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu"} {
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    %x = "op.make"() : () -> tensor<64x64xf16, #ttg.blocked<{sizePerThread = [1, 0], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [9, 0]}>>
    %c = "ttg.convert_layout"(%x) : (tensor<64x64xf16, #ttg.blocked<{sizePerThread = [1, 0], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [9, 0]}>>) -> tensor<64x64xf16, #ttg.slice<{dim = 7, parent = #ttg.blocked<{sizePerThread = [1]}>}>>
    %s = "tt.reduce"(%x) <{axis = -1 : i32}> ({
    }) : (tensor<64x64xf16, #ttg.blocked<{sizePerThread = [1, 0], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [9, 0]}>>) -> f16
    "ttg.local_alloc"() : () -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}
