"""The proposer of rules, on situations that the real compiler made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xesmith.cascade.examine import examine
from xesmith.device import load_device
from xesmith.ghost.launch import Launch, Program
from xesmith.kernel_file import KernelFile
from xesmith.stages.draft import Draft, Variant
from xesmith.stages.proposers.record import NoProposal, Proposal, Situation
from xesmith.stages.proposers.rules import RulesProposer

if TYPE_CHECKING:
    from xesmith.device import Device
    from xesmith.lowering import Lowerer

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

#: two kernels, the name of one beginning with the other's, and one that ends as variants do
FILE = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1.0, mask=i < n)


@triton.jit
def add_wide(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n).to(tl.float64)
    v = v * v + v / 7.0
    tl.store(y + i, v.to(tl.float32), mask=i < n)


@triton.jit
def scale_xs(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        for kernel in (add, add_wide, scale_xs):
            kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
        return y


def get_inputs():
    return [torch.randn(4096, device="xpu")]


def get_init_inputs():
    return []
"""


def situation_of(source: str, path: str, lowerer: Lowerer, device: Device) -> Situation:
    examined = examine(lowerer.run(Program(source=source, path=path)), device)
    assert examined.first_failure is None
    draft = Draft(KernelFile.parse(source, path), device.kind)
    return Situation(draft, {"as written": examined}, device)


@pytest.fixture(scope="module")
def several(lowerer: Lowerer, device: Device) -> Situation:
    return situation_of(FILE, "several.py", lowerer, device)


@pytest.fixture(scope="module")
def gemm(lowerer: Lowerer, device: Device, repository: Path) -> Situation:
    path = repository / "bench" / "problems" / "gemm" / "kernel.py"
    return situation_of(path.read_text(), str(path), lowerer, device)


def unprobed(kernel: str, text: str | None = None) -> list[Launch]:
    return []


def probed(situation: Situation, kernel: str):
    """As `Probes`: the kernel's launch at twice each size, so that its grid can be told."""
    (launch,) = situation.launches(kernel)
    found = []
    for name in ("M", "N", "K"):
        size = launch.values[name]
        grid = list(launch.grid)
        if name in "MN":
            grid["MN".index(name)] *= 2
        found.append(replace(launch, values={**launch.values, name: 2 * size}, grid=tuple(grid)))
    return lambda *_: found


def answers(proposer: RulesProposer, stage: str, situation: Situation) -> Iterator:
    for ask in proposer.rounds(stage, situation):
        yield from ask(situation)


def test_a_kernel_has_its_own_launches_and_findings_whatever_others_are_called(several):
    assert [len(several.launches(name)) for name in ("add", "add_wide", "scale_xs")] == [1, 1, 1]
    assert "f64-arithmetic" in {f.kind for f in several.findings_of("add_wide")}
    assert "f64-arithmetic" not in {f.kind for f in several.findings_of("add")}
    assert {f.kernel for f in several.findings_of("scale_xs")} <= {"scale_xs"}


def test_only_the_kernel_in_float64_is_rewritten(several):
    found = list(answers(RulesProposer(unprobed), "dtype_fix", several))
    (proposal,) = [answer for answer in found if isinstance(answer, Proposal)]
    assert proposal.note.startswith("add_wide: ")
    assert set(proposal.draft.edits) | set(proposal.draft.variants) == {"add_wide"}
    assert "float64" not in proposal.draft.source_of("add_wide")
    refused = [str(answer) for answer in found if isinstance(answer, NoProposal)]
    assert len(refused) == 2


def test_several_rewrites_are_proposed_together_and_then_one_by_one(several):
    launches = several.launches("add")

    def probe(kernel: str, text: str | None = None) -> list[Launch]:
        (launch,) = several.launches(kernel)
        return [replace(launch, values={**launch.values, "n": 8192}, grid=(32, 1, 1))]

    found = list(answers(RulesProposer(probe), "memory_access", several))
    proposals = [answer for answer in found if isinstance(answer, Proposal)]
    assert [len(proposal.draft.variants) for proposal in proposals] == [3, 1, 1, 1]
    assert len({proposal.draft.text for proposal in proposals}) == 4
    assert launches[0].grid == (16, 1, 1)


def test_without_a_grid_that_is_understood_no_guard_can_be_set(gemm):
    (launch,) = gemm.launches("matmul_kernel")
    # A grid that is nothing of the arguments.
    odd = replace(launch, grid=(7, 5, 3))
    found = list(answers(RulesProposer(lambda *_: [odd]), "memory_access", gemm))
    assert [type(answer) for answer in found] == [NoProposal]
    assert "grid" in str(found[0])


def test_block_pointers_are_proposed_as_they_are_and_with_256_registers(gemm):
    proposer = RulesProposer(probed(gemm, "matmul_kernel"))
    plain, large = answers(proposer, "block_pointers", gemm)
    assert isinstance(plain, Proposal)
    assert isinstance(large, Proposal)
    assert plain.draft.variants["matmul_kernel"].options == {}
    assert large.draft.variants["matmul_kernel"].options == {"grf_mode": "256"}
    assert "tl.make_block_ptr" in plain.draft.source_of("matmul_kernel")
    assert plain.draft.text.startswith(plain.draft.kernel_file.text.rstrip("\n"))


def test_lines_are_named_only_where_the_users_file_has_them(gemm):
    proposer = RulesProposer(probed(gemm, "matmul_kernel"))
    (first,) = answers(proposer, "memory_access", gemm)
    assert "line 41: load without mask" in first.note
    after = replace(gemm, draft=first.draft)
    second, _ = answers(proposer, "block_pointers", after)
    # The variant stands in the generated block, beyond the end of the user's file.
    assert second.note.startswith("matmul_kernel: load of a_ptr as a block")
    assert "line " not in second.note


def test_more_warps_than_256_registers_allow_are_not_proposed_with_them(gemm, device):
    examined = gemm.examinations["as written"]
    many = tuple(
        e.model_copy(
            update={"launch": {**e.launch, "options": {**e.launch["options"], "num_warps": 64}}}
        )
        for e in examined.evidence
    )
    crowded = replace(gemm, examinations={"as written": replace(examined, evidence=many)})
    proposer = RulesProposer(probed(gemm, "matmul_kernel"))
    found = list(answers(proposer, "block_pointers", crowded))
    options = [a.draft.variants["matmul_kernel"].options for a in found if isinstance(a, Proposal)]
    assert options == [{}]


def test_the_search_stays_within_its_limit_and_the_device(gemm, device):
    proposer = RulesProposer(probed(gemm, "matmul_kernel"), search_limit=5)
    search, _ = proposer.rounds("gpu_specific", gemm)
    found = list(search(gemm))
    assert 0 < len(found) <= 5
    for answer in found:
        assert isinstance(answer, Proposal)
        assert answer.kernel == "matmul_kernel"
        options = answer.draft.variants["matmul_kernel"].options
        if options.get("grf_mode") == "256":
            assert options["num_warps"] <= device.max_sub_groups_per_work_group(256)


def test_nothing_is_tuned_before_a_search_found_two(gemm):
    (answer,) = answers(RulesProposer(unprobed), "autotuning", gemm)
    assert isinstance(answer, NoProposal)
    assert "no two configurations" in str(answer)


@pytest.mark.parametrize(("target", "modes"), [("b70", 2), ("h200", 0)])
def test_what_a_search_found_is_tuned_the_best_first(gemm, target, modes):
    at_work = replace(gemm, device=load_device(target))
    proposer = RulesProposer(probed(at_work, "matmul_kernel"), tuned_configurations=2)
    search, _ = proposer.rounds("gpu_specific", at_work)
    proposals = [answer for answer in search(at_work) if isinstance(answer, Proposal)][:3]
    variants: tuple[Variant, ...] = tuple(p.draft.variants["matmul_kernel"] for p in proposals)
    ready = replace(at_work, draft=proposals[0].draft, ranked={"matmul_kernel": variants})
    # The launches are still the baseline's, under the kernel's own name.
    (answer,) = (a for ask in proposer.rounds("autotuning", ready) for a in ask(ready))
    assert isinstance(answer, Proposal), str(answer)
    tuned = answer.draft.variants["matmul_kernel"]
    assert tuned.tuned
    assert tuned.source.count("triton.Config(") == 2
    assert tuned.source.count('"grf_mode":') == modes


def test_stages_without_a_rewrite_are_not_known():
    proposer = RulesProposer(unprobed)
    assert proposer.knows("block_pointers")
    assert not proposer.knows("fusion")
