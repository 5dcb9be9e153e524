"""The proposer of rules on what a model has added: it goes on from a fused kernel and its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xesmith.cascade.correctness import Case, find_reference
from xesmith.engine.probes import Probes
from xesmith.engine.problem import Problem, load_problem
from xesmith.engine.session import Session
from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import LaunchPlan
from xesmith.stages.draft import Draft
from xesmith.stages.proposers.record import NoProposal, Proposal, Situation
from xesmith.stages.proposers.rules import RulesProposer

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

FUSED = """\
@triton.jit
def linear_gelu_kernel(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid_m = tl.program_id(axis=0)
    pid_n = tl.program_id(axis=1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        k_mask = offs_k < K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & k_mask[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=k_mask[:, None] & (offs_n[None, :] < N), other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0)
    y = accumulator + bias[None, :].to(tl.float32)
    y = 0.5 * y * (1.0 + tl.erf(y * RSQRT_2))
    c_ptrs = c_ptr + stride_cm * offs_m[:, None] + stride_cn * offs_n[None, :]
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptrs, y.to(c_ptr.dtype.element_ty), mask=mask)
"""
ANSWER = {"linear_gelu_kernel": FUSED, "RSQRT_2": "RSQRT_2 = tl.constexpr(0.7071067811865476)"}


def fused_plan(**changes: Any) -> LaunchPlan:
    launch = {
        "kernel": "linear_gelu_kernel",
        "grid": ["cdiv(x.shape[0], BLOCK_M)", "cdiv(weight.shape[1], BLOCK_N)"],
        "args": {
            "a_ptr": "x",
            "b_ptr": "weight",
            "bias_ptr": "bias",
            "c_ptr": "out",
            "M": "x.shape[0]",
            "N": "weight.shape[1]",
            "K": "x.shape[1]",
            "stride_am": "x.stride[0]",
            "stride_ak": "x.stride[1]",
            "stride_bk": "weight.stride[0]",
            "stride_bn": "weight.stride[1]",
            "stride_cm": "out.stride[0]",
            "stride_cn": 1,
        },
        "metas": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32},
        "options": {"num_warps": 16},
        **changes.pop("launch", {}),
    }
    out = {"name": "out", "shape": ["x.shape[0]", "weight.shape[1]"], "dtype": "x.dtype"}
    alternative = {
        "guard": "x.ndim == 2 and bias.is_contiguous",
        "launches": [launch],
        "buffers": [out],
        "returns": ["out"],
        **changes,
    }
    rebinding = {"kind": "function", "name": "linear_gelu", "alternatives": [alternative]}
    return LaunchPlan.from_data({"rebindings": [rebinding]})


class Bench:
    """One problem with what judges it."""

    def __init__(self, session: Session, problem: Problem) -> None:
        self.session = session
        self.problem = problem
        self.draft = Draft(KernelFile.parse(problem.source, problem.path), session.device.kind)
        self.rules = RulesProposer(Probes(session, problem).launches, search_limit=3)

    def situation(self, draft: Draft) -> Situation:
        (examined,) = self.session.examine(self.problem, [draft.text])
        for item in examined.values():
            assert item.first_failure is None, item.first_failure
        return Situation(draft, examined, self.session.device)

    def answers(self, stage: str, situation: Situation) -> list[Proposal | NoProposal]:
        rounds = self.rules.rounds(stage, situation)
        return [answer for ask in rounds for answer in ask(situation)]

    def launched(self, draft: Draft, **dims: int) -> list[dict[str, int]]:
        """What is launched at other sizes, and that the results there are right."""
        assert self.problem.spec is not None
        case = Case.of(self.problem.spec.resized(self.problem.shapes[0], dims))
        checker, baseline = self.session.checker, self.problem.program()
        result = checker.check(
            self.problem.program(draft.text), find_reference(baseline), [case], seeds=(0,)
        )
        assert result.status == "passed", result.messages
        return result.facts["cases"][0]["launches"]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(parallel=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def bench(session: Session, repository: Path) -> Callable[[str], Bench]:
    def of(name: str) -> Bench:
        path = repository / "bench" / "problems" / name / "kernel.py"
        return Bench(session, load_problem(path))

    return of


def proposals(answers: list[Proposal | NoProposal]) -> list[Proposal]:
    found = [answer for answer in answers if isinstance(answer, Proposal)]
    assert found, [str(answer) for answer in answers]
    return found


@pytest.fixture(scope="module")
def linear(bench: Callable[[str], Bench]) -> Bench:
    return bench("gemm_bias_gelu")


@pytest.fixture(scope="module")
def fused(linear: Bench) -> Situation:
    return linear.situation(linear.draft.with_kernels(ANSWER, fused_plan()))


def loads_2d(situation: Situation) -> int:
    (evidence,) = situation.evidence
    assert evidence.native is not None
    return evidence.native.loads_2d


def test_rules_go_on_from_a_fused_kernel(linear: Bench, fused: Situation) -> None:
    assert loads_2d(fused) == 0
    plain, large = proposals(linear.answers("block_pointers", fused))
    first, original = plain.draft.plan.rebindings[0].alternatives
    assert original == fused.draft.plan.rebindings[0].alternatives[0]
    # In the words of the caller; what is asked of the new buffer is known from the plan.
    for part in ("x.shape[1] % 32 == 0", "aligned(weight, 64)", "x.stride[0] % 8 == 0"):
        assert f"({part})" in first.guard
    assert "out" not in first.guard
    assert first.launches[0].args == original.launches[0].args
    assert large.draft.plan.rebindings[0].alternatives[0].launches[0].options.model_dump() == {
        "num_warps": 16,
        "num_stages": None,
        "grf_mode": "256",
    }
    assert "line " not in plain.note
    situation = linear.situation(plain.draft)
    assert loads_2d(situation) > 0
    assert linear.launched(plain.draft, BATCH=128, IN_FEATURES=64, OUT_FEATURES=256) == {
        "linear_gelu_kernel_xs": 1
    }
    # Where the rewrite's guard fails, it is the model's kernel still.
    assert linear.launched(plain.draft, BATCH=100, IN_FEATURES=48, OUT_FEATURES=72) == {
        "linear_gelu_kernel": 1
    }

    search, swizzle = linear.rules.rounds("gpu_specific", situation)
    found = proposals(list(search(situation)))
    assert len(found) == 3
    launches = [p.draft.plan.rebindings[0].alternatives[0].launches[0] for p in found]
    assert len({str((x.metas, x.options)) for x in launches}) == 3
    assert {tuple(x.grid) for x in launches} == {
        ("cdiv(x.shape[0], BLOCK_M)", "cdiv(weight.shape[1], BLOCK_N)")
    }
    best = found[0].draft
    variants = tuple(p.draft.variants["linear_gelu_kernel"] for p in found)
    tiles = variants[0].metas
    assert (
        f"(x.shape[0] % {tiles['BLOCK_M']} == 0)" in best.plan.rebindings[0].alternatives[0].guard
    )
    situation = replace(linear.situation(best), ranked={"linear_gelu_kernel": variants})
    assert loads_2d(situation) > 0

    (grouped,) = proposals(list(swizzle(situation)))
    launch = grouped.draft.plan.rebindings[0].alternatives[0].launches[0]
    assert launch.grid == ["cdiv(x.shape[0], BLOCK_M) * cdiv(weight.shape[1], BLOCK_N)"]
    sizes = {"BATCH": 512, "IN_FEATURES": 64, "OUT_FEATURES": 256}
    assert linear.launched(grouped.draft, **sizes) == {"linear_gelu_kernel_xs": 1}

    (tuned,) = proposals(linear.answers("autotuning", situation))
    launch = tuned.draft.plan.rebindings[0].alternatives[0].launches[0]
    assert launch.metas == {}
    assert launch.options.num_warps is None
    assert tuned.draft.kernels()["linear_gelu_kernel_xs"].count("triton.Config(") == 3
    examined = linear.situation(tuned.draft)
    assert len(examined.launches("linear_gelu_kernel")) == 3
    assert linear.launched(tuned.draft, **sizes) == {"linear_gelu_kernel_xs": 1}


def test_rules_go_on_from_what_a_model_made_of_a_variant(linear: Bench, fused: Situation) -> None:
    """The variant's kernels and alternatives are the model's from then on."""
    made, _ = proposals(linear.answers("block_pointers", fused))
    names = ("linear_gelu_kernel_xs", "linear_gelu_kernel_xs_descriptor")
    sources = {name: made.draft.kernels()[name] for name in names}
    changed = {name: source.replace("0.5 * y", "y * 0.5") for name, source in sources.items()}
    draft = made.draft.with_kernels(changed, None)
    assert draft.variants == {}
    situation = linear.situation(draft)
    search, _ = linear.rules.rounds("gpu_specific", situation)
    for proposal in proposals(list(search(situation))):
        first, second, third = proposal.draft.plan.rebindings[0].alternatives
        assert (second, third) == tuple(draft.plan.rebindings[0].alternatives)
        (launch,) = first.launches
        assert launch.kernel.block_pointer == "linear_gelu_kernel_xs2"
        # The guard was written for tiles of 128: larger ones need to divide the sizes as well.
        for name, size in (("BLOCK_M", "x.shape[0]"), ("BLOCK_N", "weight.shape[1]")):
            if launch.metas[name] > 128:
                assert f"({size} % {launch.metas[name]} == 0)" in first.guard
    assert linear.launched(proposal.draft, BATCH=512, IN_FEATURES=64, OUT_FEATURES=256) == {
        "linear_gelu_kernel_xs2": 1
    }


# -- a kernel that is rebound ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def gemm(bench: Callable[[str], Bench]) -> Bench:
    return bench("gemm")


def columns_first(source: str) -> str:
    """The kernel with the axes of its grid swapped."""
    swapped = source.replace("def matmul_kernel(", "def matmul_columns(")
    swapped = swapped.replace("pid_m = tl.program_id(0)", "pid_m = tl.program_id(1)")
    return swapped.replace("pid_n = tl.program_id(1)", "pid_n = tl.program_id(0)")


def rebound(**changes: Any) -> LaunchPlan:
    launch = {"kernel": "matmul_columns", "grid": ["cdiv(N, BLOCK_N)", "cdiv(M, BLOCK_M)"]}
    alternative = {"launches": [{**launch, **changes}]}
    return LaunchPlan.from_data(
        {"rebindings": [{"name": "matmul_kernel", "alternatives": [alternative]}]}
    )


def test_rules_go_on_from_a_rebound_kernel(gemm: Bench) -> None:
    source = columns_first(gemm.draft.source_of("matmul_kernel"))
    tiles = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32}
    draft = gemm.draft.with_kernels({"matmul_columns": source}, rebound(metas=tiles))
    situation = gemm.situation(draft)
    assert [len(situation.launches(n)) for n in ("matmul_kernel", "matmul_columns")] == [0, 1]
    made, *_ = proposals(gemm.answers("block_pointers", situation))
    first, second = made.draft.plan.rebindings[0].alternatives
    assert second == draft.plan.rebindings[0].alternatives[0]
    # Names that the launch passes on are the caller's; the tiles have the launch's values.
    assert "(M % 64 == 0)" in first.guard
    assert "(stride_ak == 1)" in first.guard
    assert first.launches[0].grid == ["cdiv(N, BLOCK_N)", "cdiv(M, BLOCK_M)"]
    assert loads_2d(gemm.situation(made.draft)) > 0
    assert gemm.launched(made.draft, M=192, N=256, K=64) == {"matmul_columns_xs": 1}
    assert gemm.launched(made.draft, M=100, N=72, K=40) == {"matmul_columns": 1}


def test_rules_go_on_from_their_own_plan_once_a_model_holds_it(gemm: Bench) -> None:
    ready = gemm.situation(gemm.draft)
    made, *_ = proposals(gemm.answers("block_pointers", ready))
    draft = made.draft.with_kernels(made.draft.added, made.draft.plan)
    assert draft.text == made.draft.text
    assert draft.variants == {}
    situation = gemm.situation(draft)
    search, _ = gemm.rules.rounds("gpu_specific", situation)
    for proposal in proposals(list(search(situation))):
        (rebinding,) = proposal.draft.plan.rebindings
        # The caller's grid is compared as before; the new launch has tiles of its own.
        assert rebinding.original_grid == made.draft.plan.rebindings[0].original_grid
        assert (
            rebinding.alternatives[0].launches[0].grid
            == made.draft.plan.rebindings[0].alternatives[0].launches[0].grid
        )
    assert gemm.launched(proposal.draft, M=512, N=512, K=64) == {"matmul_kernel_xs2": 1}


def test_what_a_plan_leaves_to_a_kernel_stays_as_it_is(gemm: Bench) -> None:
    source = columns_first(gemm.draft.source_of("matmul_kernel"))
    draft = gemm.draft.with_kernels({"matmul_columns": source}, rebound())
    never = draft.plan.rebindings[0].alternatives[0].model_copy(update={"guard": "M == 1"})
    plan = draft.plan.rebindings[0].model_copy(update={"alternatives": [never]})
    situation = gemm.situation(draft.with_kernels({}, LaunchPlan(rebindings=[plan])))
    (answer,) = gemm.answers("memory_access", situation)
    assert str(answer).startswith("matmul_kernel: the launch plan rebinds it")


def test_nothing_is_proved_by_a_grid_that_the_arguments_do_not_tell(gemm: Bench) -> None:
    """32 x 32 programs, whatever the sizes: they fit the spec's alone."""
    source = columns_first(gemm.draft.source_of("matmul_kernel"))
    draft = gemm.draft.with_kernels({"matmul_columns": source}, rebound(grid=[32, 32]))
    situation = gemm.situation(draft)
    (refused,) = gemm.answers("memory_access", situation)
    assert "`M` is not shown to bound each tile of `BLOCK_M`" in str(refused)
    made, *_ = proposals(gemm.answers("block_pointers", situation))
    assert "boundary_check=(0, 1)" in made.draft.source_of("matmul_columns")
    search, swizzle = gemm.rules.rounds("gpu_specific", situation)
    assert all(isinstance(answer, NoProposal) for answer in search(situation))
    assert all(isinstance(answer, NoProposal) for answer in swizzle(situation))


PERSISTENT = """\
@triton.jit
def matmul_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PROGRAMS: tl.constexpr,
):
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    for tile in range(tl.program_id(0), tiles, PROGRAMS):
        pid_m = tile // tiles_n
        pid_n = tile % tiles_n
        offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        offs_k = tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            k_left = K - k * BLOCK_K
            a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < k_left), other=0.0)
            b = tl.load(b_ptrs, mask=(offs_k[:, None] < k_left) & (offs_n[None, :] < N), other=0.0)
            acc += tl.dot(a, b)
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
        c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
        c_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        tl.store(c_ptrs, acc.to(tl.float16), mask=c_mask)
"""


def test_rules_go_on_from_a_persistent_kernel(gemm: Bench) -> None:
    """Its grid is a number of programs, from which no tile can be told: its loop places them."""
    metas = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "PROGRAMS": 5}
    plan = rebound(kernel="matmul_persistent", grid=["PROGRAMS"], metas=metas)
    draft = gemm.draft.with_kernels({"matmul_persistent": PERSISTENT}, plan)
    situation = gemm.situation(draft)
    made, *_ = proposals(gemm.answers("block_pointers", situation))
    ready = gemm.situation(made.draft)
    assert loads_2d(situation) == 0
    assert loads_2d(ready) > 0
    # Both ends of the rows of tiles are checked, so that any sizes may come.
    launched = gemm.launched(made.draft, M=136, N=200, K=96)
    assert launched == {"matmul_persistent_xs": 1}
    search, _ = gemm.rules.rounds("gpu_specific", ready)
    found = proposals(list(search(ready)))
    for proposal in found:
        (launch,) = proposal.draft.plan.rebindings[0].alternatives[0].launches
        assert (launch.grid, launch.metas["PROGRAMS"]) == (["PROGRAMS"], 5)
        assert launch.metas["BLOCK_M"] > 64
    assert gemm.launched(found[0].draft, M=136, N=200, K=96) == {"matmul_persistent_xs": 1}


# -- round trips ----------------------------------------------------------------------------------

STAGES = ("discovery", "dtype_fix", "memory_access", "block_pointers", "gpu_specific")


@pytest.mark.parametrize(
    "name", ["batched_gemm", "flash_attention", "gemm", "gemm_bias_gelu", "gemm_bt",
             "layer_norm", "softmax"]
)  # fmt: skip
def test_a_draft_of_the_rules_goes_through_a_models_hands(
    bench: Callable[[str], Bench], name: str
) -> None:
    of = bench(name)
    situation = of.situation(of.draft)
    found = [p for stage in STAGES for p in of.answers(stage, situation)]
    drafts = [answer.draft for answer in found if isinstance(answer, Proposal)]
    assert drafts
    for draft in drafts:
        assert draft.with_kernels(draft.added, draft.plan).text == draft.text
        assert draft.with_kernels(draft.kernels(), draft.plan).text == draft.text
        assert draft.with_kernels(draft.kernels(), None).text == draft.text
