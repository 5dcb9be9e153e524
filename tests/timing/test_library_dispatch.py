"""Files that call a library where it was measured faster."""

from __future__ import annotations

import json
import types

import pytest

from xesmith.cli import app
from xesmith.engine.entries import kernel_path, load_entry
from xesmith.ghost.launch import TensorSpec
from xesmith.timing.bundle import FORMAT
from xesmith.timing.contest import Entry, EntryShape
from xesmith.timing.library_dispatch import BEGIN, NoDispatchError, choices_of, with_library

torch = pytest.importorskip("torch")

KERNEL = """import torch

class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(features, features))

    def forward(self, X):
        return "the kernel's"

if __name__ == "__main__":
    raise SystemExit("run as a script")
"""
REFERENCE = """import torch
import torch.nn.functional as F

LIBRARY = "torch.nn.functional.linear"

class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(features, features))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return F.linear(X, self.weight)
"""
MACHINE = {"name": "NVIDIA H200", "torch": "2.11.0", "triton": "3.6.0"}


def shape(rows, features):
    inputs = (TensorSpec("X", (rows, features), "float32"),)
    return EntryShape(f"ci[{rows}]", f"ci[{rows}] ROWS={rows}", inputs, (features,), None)


def entry(kernel=KERNEL, reference=REFERENCE):
    return Entry("linear", kernel, None, reference, None, (shape(4, 8), shape(6, 8)))


def outcomes(of, *verdicts, weights="the same state_dict"):
    ratios = {"SLOWER": 0.5, "FASTER": 2.0, "SAME": 1.0}
    return [
        {
            "digest": of.digest,
            "shape": {"label": one.label},
            "judgements": {
                "library": {
                    "verdict": verdict,
                    "ratio": {"ratio": ratios[verdict], "low": 0.4, "high": 0.6},
                }
            },
            "measurement": {"programs": {"kernel": {"weights": weights}}},
        }
        for one, verdict in zip(of.shapes, verdicts, strict=True)
    ]


def dispatching(of=None, *verdicts, device="NVIDIA H200"):
    of = of or entry()
    choices = choices_of(of, outcomes(of, *(verdicts or ("SLOWER", "FASTER"))))
    text = with_library(of, choices, MACHINE, "2026-12-01T10:00:00+00:00")
    module = types.ModuleType("made")
    exec(text, module.__dict__)
    module._xs_device_name = lambda _: device
    return module, text


def test_the_table_holds_the_shapes_at_which_the_library_is_faster():
    module, text = dispatching()
    assert {((8,), (("float32", (4, 8)),))} == module._xs_LIBRARY_SHAPES
    assert "ci[4] ROWS=4: 0.500x [0.400, 0.600]" in text
    assert "NVIDIA H200, Triton 3.6.0, torch 2.11.0, 2026-12-01" in text
    # Before the script's own part, and nothing of the file is lost.
    before, _, after = text.partition(BEGIN)
    assert before == KERNEL[: KERNEL.index("if __name__")]
    assert text.endswith(KERNEL[KERNEL.index("if __name__") :])
    assert "def forward(self, X):\n        return F.linear(X, self.weight)" in after


def test_a_shape_of_the_table_goes_to_the_library_with_the_models_own_weights():
    module, _ = dispatching()
    x = torch.arange(32.0).reshape(4, 8)
    assert torch.equal(module.Model(8)(x), x.sum(1, keepdim=True).expand(4, 8))  # weights of one


@pytest.mark.parametrize(
    ("inits", "x", "device"),
    [
        (8, torch.ones(6, 8), "NVIDIA H200"),  # where the kernel is faster
        (8, torch.ones(4, 8), "NVIDIA H100"),
        (8, torch.ones(4, 8), None),  # a CPU
        (8, torch.ones(4, 8, dtype=torch.float64), "NVIDIA H200"),
        (9, torch.ones(4, 8), "NVIDIA H200"),
        (8, "no tensor", "NVIDIA H200"),
    ],
)
def test_any_other_call_goes_to_the_kernels(inits, x, device):
    module, _ = dispatching(device=device)
    assert module.Model(inits)(x) == "the kernel's"


def test_a_cpu_has_no_devices_name():
    of = entry()
    text = with_library(of, choices_of(of, outcomes(of, "SLOWER", "SAME")), MACHINE, "2026-12-01")
    module = types.ModuleType("made")
    exec(text, module.__dict__)
    assert module.Model(8)(torch.ones(4, 8)) == "the kernel's"


HELPER = REFERENCE.replace("F.linear(X, self.weight)", "helper(X)") + "\ndef helper(x): return x\n"


@pytest.mark.parametrize(
    ("of", "verdicts", "weights", "why"),
    [
        (entry(), ("SAME", "FASTER"), "none", "measured faster at no shape"),
        (entry(reference=HELPER), ("SLOWER", "SAME"), "none", "uses 'helper' of its own file"),
        (
            entry(kernel=KERNEL.replace("self.weight", "self.w")),
            ("SLOWER", "SAME"),
            "the same seed",
            r"no self\.weight",
        ),
        (entry(), ("SLOWER", "SAME"), "the same seed", "does not take the reference's weights"),
        (
            entry(reference=REFERENCE.replace("LIBRARY", "NAME")),
            ("SLOWER", "SAME"),
            "none",
            "names no library",
        ),
    ],
)
def test_what_cannot_choose_is_refused(of, verdicts, weights, why):
    with pytest.raises(NoDispatchError, match=why):
        with_library(of, choices_of(of, outcomes(of, *verdicts, weights=weights)), MACHINE, "")


def test_a_result_of_another_kernel_says_nothing_of_this_one():
    of, other = entry(), entry(kernel=KERNEL + "# edited\n")
    with pytest.raises(NoDispatchError, match="no measurement of this 'linear'"):
        choices_of(other, outcomes(of, "SLOWER", "SLOWER"))


def test_a_file_chooses_once():
    of = entry()
    choices = choices_of(of, outcomes(of, "SLOWER", "SAME"))
    again = entry(kernel=with_library(of, choices, MACHINE, ""))
    with pytest.raises(NoDispatchError, match="chooses already"):
        with_library(again, choices, MACHINE, "")


def result_of(of, verdict):
    return {
        "format": FORMAT,
        "date": "2026-12-01",
        "machine": MACHINE,
        "bundle_digest": None,
        "harness_digest": "0",
        "device_file": "h200",
        "levels_not_read": [],
        "outcomes": [
            {**item, "problem": of.name} for item in outcomes(of, verdict, weights="none")
        ],
    }


@pytest.mark.parametrize(("verdict", "code"), [("SLOWER", 0), ("FASTER", 1)])
def test_from_the_command_line(capsys, tmp_path, verdict, code):
    of = load_entry(kernel_path("gemm"))
    (tmp_path / "result.json").write_text(json.dumps(result_of(of, verdict)))
    out = tmp_path / "made.py"
    given = ["bench", "dispatch", str(tmp_path / "result.json"), "gemm", "--out", str(out)]
    assert app.run(given) == code
    assert out.exists() == (code == 0)
    said = "torch.matmul; the kernel is 0.500x" if code == 0 else "faster at no shape of 'gemm'"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda result: result.pop("outcomes"), "outcomes: Field required"),
        (lambda result: result.update(machine=None), "machine: "),
        (lambda result: result["outcomes"][0].update(judgements=None), "outcomes.0.judgements: "),
        (
            lambda result: result["outcomes"][0]["judgements"]["library"]["ratio"].pop("low"),
            "outcomes.0.judgements.library.ratio.low: Field required",
        ),
    ],
)
def test_a_damaged_result_is_an_error_with_its_place(capsys, tmp_path, damage, said):
    result = result_of(load_entry(kernel_path("gemm")), "SLOWER")
    damage(result)
    (tmp_path / "result.json").write_text(json.dumps(result))
    out = tmp_path / "made.py"
    given = ["bench", "dispatch", str(tmp_path / "result.json"), "gemm", "--out", str(out)]
    assert app.run(given) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()
