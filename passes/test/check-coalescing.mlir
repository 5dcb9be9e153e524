// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-coalescing)' -verify-diagnostics -o /dev/null

module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu", "ttg.threads-per-warp" = 16 : i32} {
  "tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "kernel"}> ({
  ^bb0(%base: !tt.ptr<f16>, %n: i32):
    %range = "tt.make_range"() <{end = 1024 : i32, start = 0 : i32}> : () -> tensor<1024xi32, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    %p = "tt.splat"(%base) : (!tt.ptr<f16>) -> tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    // Eight neighbours a lane: nothing is said.
    %q = "tt.addptr"(%p, %range) : (tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>, tensor<1024xi32, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>) -> tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    %x = "tt.load"(%q) : (tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>) -> tensor<1024xf16, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    // A step that is an argument.
    %s = "tt.splat"(%n) : (i32) -> tensor<1024xi32, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    %o = "arith.muli"(%range, %s) : (tensor<1024xi32, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>, tensor<1024xi32, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>) -> tensor<1024xi32, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    %r = "tt.addptr"(%p, %o) : (tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>, tensor<1024xi32, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>) -> tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    // expected-remark @below {{[uncoalesced-access] each lane moves 2 B at a time where 16 B could be}}
    // expected-note @below {{why: along the fastest dimension of its layout the addresses step by `arg1` elements}}
    // expected-note @below {{mend:}}
    %y = "tt.load"(%r) : (tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>) -> tensor<1024xf16, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    // One address for all, and addresses that are not followed: nothing is said.
    %z = "tt.load"(%p) : (tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>) -> tensor<1024xf16, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    %u = "op.pointers"() : () -> tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    %v = "tt.load"(%u) : (tensor<1024x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>) -> tensor<1024xf16, #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>>
    // A layout with fewer parameters than the tensor has dimensions is passed over.
    %w = "op.pointers"() : () -> tensor<32x32x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], order = [0]}>>
    %t = "tt.load"(%w) : (tensor<32x32x!tt.ptr<f16>, #ttg.blocked<{sizePerThread = [8], order = [0]}>>) -> tensor<32x32xf16>
  }) : () -> ()
}
