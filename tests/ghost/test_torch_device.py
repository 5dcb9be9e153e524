"""PyTorch answering as on a machine with the device."""

import pytest
import torch

from xesmith.ghost.torch_device import GhostTorch


@pytest.mark.intel
def test_what_published_programs_ask_is_answered(run_file):
    run = run_file("torch_program.py")
    assert run.failure is None
    assert run.notes == (
        "nothing is computed on the ghost device: comparisons of results were granted",
    )


@pytest.mark.intel
def test_shapes_of_large_results_import_nothing_slow(run_text):
    run = run_text(
        "import sys, torch\n"
        "x = torch.randn(4096, 4096, device='xpu', dtype=torch.float16)\n"
        "y = (torch.empty_like(x) * 0.5 + torch.zeros(4096)).to(torch.float32).clone() > 0\n"
        "z = x @ x\n"
        "slow = {'sympy', 'torch._dynamo'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    assert run.failure is None


def test_everything_is_as_it_was_afterwards():
    before = {
        (module.__name__, name): value
        for module in (torch, torch.xpu, torch.cuda, torch.accelerator)
        for name, value in vars(module).items()
    }
    with GhostTorch("xpu", notes=[]):
        assert torch.xpu.is_available()
        assert torch.zeros(2, device="xpu").is_xpu
    after = {
        (module.__name__, name): value
        for module in (torch, torch.xpu, torch.cuda, torch.accelerator)
        for name, value in vars(module).items()
    }
    changed = [key for key in before if before[key] is not after.get(key)]
    assert not changed
    assert not torch.zeros(2).is_xpu


def test_a_cuda_machine_says_cuda():
    with GhostTorch("cuda", notes=[], properties={"multi_processor_count": 132}):
        x = torch.zeros(2, device="cuda")
        assert x.is_cuda
        assert x.device == torch.device("cuda", 0)
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.cuda.get_device_properties("cuda").multi_processor_count == 132
        assert torch.accelerator.current_accelerator() == torch.device("cuda")


def test_results_can_be_computed_instead():
    notes: list[str] = []
    with GhostTorch("xpu", notes=notes, computes=True):
        x = torch.full((1024, 1024), 2.0, device="xpu")
        assert float((x * x).sum()) == 4.0 * 1024 * 1024
        assert not torch.equal(x, x + 1)
    assert not notes
