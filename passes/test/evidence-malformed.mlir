// RUN: xs-opt %s -split-input-file --pass-pipeline='builtin.module(xesmith-evidence{kernel=kernel})' -verify-diagnostics

// A dot of vectors, a load without a pointer, and no such kernel: errors, nothing is guessed.
"tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
  %a = "op.a"() : () -> tensor<16xf16>
  // expected-error @below {{malformed tt.dot}}
  %d = "tt.dot"(%a, %a, %a) : (tensor<16xf16>, tensor<16xf16>, tensor<16xf16>) -> tensor<16xf16>
  "tt.return"() : () -> ()
}) : () -> ()

// -----

"tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
  // expected-error @below {{malformed tt.load}}
  "tt.load"() : () -> ()
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// expected-error @below {{no function of the kernel 'kernel' in the module}}
module {
  "tt.func"() <{function_type = () -> (), sym_name = "one"}> ({
    "tt.return"() : () -> ()
  }) : () -> ()
  "tt.func"() <{function_type = () -> (), sym_name = "other"}> ({
    "tt.return"() : () -> ()
  }) : () -> ()
}
