"""Probes: the baseline captured with one size doubled at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xesmith.engine.probes import Probes
from xesmith.engine.problem import load_problem
from xesmith.engine.session import Session

pytestmark = pytest.mark.intel


@pytest.fixture(scope="module")
def session():
    with Session(parallel=1) as opened:
        yield opened


def gemm(repository: Path):
    return load_problem(repository / "bench" / "problems" / "gemm" / "kernel.py")


def test_each_size_is_doubled_alone_so_that_the_grid_tells_which_it_follows(session, repository):
    launches = Probes(session, gemm(repository)).launches("matmul_kernel")
    seen = {tuple(e.values[name] for name in "MNK"): e.grid for e in launches}
    assert seen == {
        (8192, 4096, 4096): (64, 32, 1),
        (4096, 8192, 4096): (32, 64, 1),
        (4096, 4096, 8192): (32, 32, 1),
    }


def test_other_kernels_and_files_without_a_spec_have_none(session, repository):
    problem = gemm(repository)
    assert Probes(session, problem).launches("no_such_kernel") == []
    assert Probes(session, replace(problem, spec=None, shapes=())).launches("matmul_kernel") == []


def test_a_probe_that_fails_counts_for_nothing(session, repository):
    problem = gemm(repository)
    picky = problem.source.replace(
        "    M, K = a.shape\n", "    M, K = a.shape\n    assert M == 4096, M\n"
    )
    assert picky != problem.source
    launches = Probes(session, replace(problem, source=picky)).launches("matmul_kernel")
    assert {launch.values["M"] for launch in launches} == {4096}
    assert len(launches) == 2


def test_another_text_is_captured_once_and_beside_the_baseline(session, repository, monkeypatch):
    problem = gemm(repository)
    probes = Probes(session, problem)
    halved = problem.source.replace("triton.cdiv(M, 128)", "triton.cdiv(M, 64)")
    halved = halved.replace("BLOCK_M=128", "BLOCK_M=64")
    assert halved != problem.source
    assert {e.grid[0] for e in probes.launches("matmul_kernel", halved)} == {64, 128}
    assert {e.grid[0] for e in probes.launches("matmul_kernel")} == {32, 64}
    monkeypatch.setattr(session.lowerer, "run_many", None)
    assert len(probes.launches("matmul_kernel", halved)) == 3
    assert probes.launches("no_such_kernel", halved) == []
