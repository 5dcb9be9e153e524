// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-check-dpas)' -verify-diagnostics -o /dev/null

// float16 with a float32 accumulator: nothing is said. tf32 too, and int8.
"tt.func"() <{function_type = () -> (), sym_name = "good"}> ({
  %a = "op.a"() : () -> tensor<64x32xf16>
  %b = "op.b"() : () -> tensor<32x64xf16>
  %c = "op.c"() : () -> tensor<64x64xf32>
  %d = "tt.dot"(%a, %b, %c) <{inputPrecision = 0 : i32}> : (tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = "op.a"() : () -> tensor<64x32xf32>
  %f = "op.b"() : () -> tensor<32x64xf32>
  %g = "tt.dot"(%e, %f, %c) <{inputPrecision = 0 : i32}> : (tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h = "op.a"() : () -> tensor<64x32xi8>
  %i = "op.b"() : () -> tensor<32x64xi8>
  %j = "op.c"() : () -> tensor<64x64xi32>
  %k = "tt.dot"(%h, %i, %j) <{inputPrecision = 2 : i32}> : (tensor<64x32xi8>, tensor<32x64xi8>, tensor<64x64xi32>) -> tensor<64x64xi32>
}) : () -> ()

// -----

// float32 as it is; and a dot that would qualify, in the same kernel.
"tt.func"() <{function_type = () -> (), sym_name = "ieee"}> ({
  %a = "op.a"() : () -> tensor<64x32xf32>
  %b = "op.b"() : () -> tensor<32x64xf32>
  %c = "op.c"() : () -> tensor<64x64xf32>
  // expected-warning @below {{[dot-not-dpas] the dot of 64x32xf32 to 64x64 is not computed by the matrix engines}}
  // expected-note @below {{why: float32 operands with input_precision 'ieee'}}
  // expected-note @below {{mend:}}
  %d = "tt.dot"(%a, %b, %c) <{inputPrecision = 2 : i32}> : (tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = "op.a"() : () -> tensor<64x32xf16>
  %f = "op.b"() : () -> tensor<32x64xf16>
  // expected-warning @below {{[dot-not-dpas] the dot of 64x32xf16}}
  // expected-note @below {{why: every dot of a kernel must qualify, and the one in line}}
  // expected-note @below {{mend:}}
  %g = "tt.dot"(%e, %f, %c) <{inputPrecision = 0 : i32}> : (tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
}) : () -> ()

// -----

// Too small: K of 8 and N of 8. Edge: exactly 16 of each is enough.
"tt.func"() <{function_type = () -> (), sym_name = "small"}> ({
  %a = "op.a"() : () -> tensor<64x8xf16>
  %b = "op.b"() : () -> tensor<8x64xf16>
  %c = "op.c"() : () -> tensor<64x64xf32>
  // expected-warning @below {{[dot-not-dpas]}}
  // expected-note @below {{why: its K is 8; one DPAS of f16 takes 16}}
  // expected-note @below {{mend:}}
  %d = "tt.dot"(%a, %b, %c) : (tensor<64x8xf16>, tensor<8x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
}) : () -> ()

// -----

"tt.func"() <{function_type = () -> (), sym_name = "edge"}> ({
  %a = "op.a"() : () -> tensor<8x16xbf16>
  %b = "op.b"() : () -> tensor<16x16xbf16>
  %c = "op.c"() : () -> tensor<8x16xf32>
  %d = "tt.dot"(%a, %b, %c) : (tensor<8x16xbf16>, tensor<16x16xbf16>, tensor<8x16xf32>) -> tensor<8x16xf32>
  "tt.dot"(%a) : (tensor<8x16xbf16>) -> ()
}) : () -> ()

// -----

"tt.func"() <{function_type = () -> (), sym_name = "mixed"}> ({
  %a = "op.a"() : () -> tensor<64x32xf16>
  %b = "op.b"() : () -> tensor<32x64xbf16>
  %c = "op.c"() : () -> tensor<64x64xf32>
  // expected-warning @below {{[dot-not-dpas]}}
  // expected-note @below {{why: its operands have different element types, f16 and bf16}}
  // expected-note @below {{mend:}}
  %d = "tt.dot"(%a, %b, %c) : (tensor<64x32xf16>, tensor<32x64xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
}) : () -> ()

// -----

// In TTGIR the layout tells: one dot is on DPAS.
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu", triton_intel_gpu.support_dpas} {
  "tt.func"() <{function_type = () -> (), sym_name = "older"}> ({
    %a = "op.a"() : () -> tensor<64x32xf16>
    %b = "op.b"() : () -> tensor<32x64xf16>
    %c = "op.c"() : () -> tensor<64x64xf32>
    %d = "tt.dot"(%a, %b, %c) : (tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32, #triton_intel_gpu.dpas<{repeatCount = 8}>>
    // expected-warning @below {{[dot-not-dpas]}}
    // expected-note @below {{why: the compiler kept layout blocked; the IR tells no reason}}
    %e = "tt.dot"(%a, %b, %c) : (tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32, #ttg.blocked<{sizePerThread = [1, 4], order = [1, 0]}>>
  }) : () -> ()
}

// -----

module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu", ttig.support_subgroup_matrix_multiply_accumulate} {
  "tt.func"() <{function_type = () -> (), sym_name = "newer"}> ({
    %a = "op.a"() : () -> tensor<64x32xf16>
    %b = "op.b"() : () -> tensor<32x64xf16>
    %c = "op.c"() : () -> tensor<64x64xf32>
    %d = "tt.dot"(%a, %b, %c) : (tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32, #ttig.dpas<{repeatCount = 8}>>
  }) : () -> ()
}
