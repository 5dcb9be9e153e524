// RUN: xs-opt %s --pass-pipeline='builtin.module(xesmith-check-offsets{values=n=4096 grid=524289})' -verify-diagnostics -o /dev/null

"tt.func"() <{function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "kernel"}> ({
^bb0(%p: !tt.ptr<f16>, %n: i32 loc("n"("kernel.py":1:1))):
  %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
  // expected-warning @below {{[offset-wraps] this 32-bit product is 2147483648 or more in a program of the grid}}
  // expected-note @below {{why: 32 bits reach 2^31 - 1}}
  // expected-note @below {{mend: compute it in 64 bits}}
  %o = arith.muli %pid, %n : i32
  %q = "tt.addptr"(%p, %o) : (!tt.ptr<f16>, i32) -> !tt.ptr<f16>
  // In 64 bits it fits; and what is no offset may wrap.
  %wide = arith.extsi %pid : i32 to i64
  %nwide = arith.extsi %n : i32 to i64
  %o2 = arith.muli %wide, %nwide : i64
  %q2 = "tt.addptr"(%p, %o2) : (!tt.ptr<f16>, i64) -> !tt.ptr<f16>
  %hash = arith.muli %n, %pid : i32
  "op.use"(%hash, %q, %q2) : (i32, !tt.ptr<f16>, !tt.ptr<f16>) -> ()
  "tt.return"() : () -> ()
}) : () -> ()
