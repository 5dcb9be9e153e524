// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-registers{registers=128})' 2>&1 | FileCheck %s
// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-registers{registers=256})' 2>&1 | FileCheck %s --check-prefix=LARGE --implicit-check-not=warning
// RUN: not xs-opt %s --pass-pipeline='builtin.module(xesmith-check-registers{registers=0})' 2>&1 | FileCheck %s --check-prefix=NONE

// 10240 B of one tile: more than 128 registers of 64 B, less than 256.
// CHECK: warning: [register-pressure] an estimated 10240 B of tiles live here in each thread, of 8192 B of registers (128 of them)
// CHECK: note: why: 160x16xf32 of op.make (line 12), 10240 B
// LARGE: "op.make"
// NONE: error: a thread has 1 to 1024 registers
module attributes {"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 16 : i32, triton_intel_gpu.min_sg_size = 16 : i32} {
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    %x = "op.make"() : () -> tensor<160x16xf32, #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [1, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>
    "op.use"(%x) : (tensor<160x16xf32, #triton_intel_gpu.dpas<{threadsPerWarp = 16, warpsPerCTA = [1, 1], A = [8, 16], B = [16, 16], C = [8, 16]}>>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}
