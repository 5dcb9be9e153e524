"""Texts of Triton's exceptions as they came, their paths shortened."""

import pytest

from xesmith.ghost.ptxas import ptxas_fault

REGISTERS = """\
PTXASError: PTXAS error: Internal Triton PTX codegen error
`ptxas` stderr:
ptxas fatal   : (C7602) Insufficient registers (64) to compile instruction at line 353 in function \
matmul_kernel_xs. Try to compile with register target of 90 or higher.
ptxas fatal   : Ptx assembly aborted due to errors

Repro command: /venv/triton/backends/nvidia/bin/ptxas -lineinfo -v --gpu-name=sm_90a /tmp/a.ptx \
-o /tmp/a.ptx.o
"""


def test_the_fault_is_told_in_one_line_without_paths():
    assert ptxas_fault(REGISTERS) == (
        "ptxas fatal: (C7602) Insufficient registers (64) to compile instruction at line 353 in "
        "function matmul_kernel_xs. Try to compile with register target of 90 or higher."
    )


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "PTXASError: PTXAS error: `ptxas` failed with error code 1\n`ptxas` stderr:\n"
            "ptxas /tmp/a.ptx, line 21; error   : Arguments mismatch for instruction 'mov'\n"
            "ptxas fatal   : Ptx assembly aborted due to errors\n",
            "ptxas error: PTX line 21: Arguments mismatch for instruction 'mov'",
        ),
        (
            "PTXASError: PTXAS error: `ptxas` failed with error code -11\n`ptxas` stderr:\n\n"
            "Repro command: /venv/ptxas /tmp/a.ptx -o /tmp/a.ptx.o\n",
            "PTXASError: PTXAS error: `ptxas` failed with error code -11 `ptxas` stderr:",
        ),
        ("CompilationError: invalid operands of\ntwo lines", None),
    ],
)
def test_other_faults(message, told):
    assert ptxas_fault(message) == told
