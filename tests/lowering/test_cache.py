"""The cache: keyed by content, whole or absent, bounded, quick."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from xesmith.ghost.launch import Launch
from xesmith.lowering import LoweringCache
from xesmith.lowering.cache import cache_folder, cache_key
from xesmith.lowering.record import GhostRun, Lowering

KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def fill(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 1.0, mask=i < n)


x = torch.empty(1000, device="xpu")
fill[(8,)](x, 1000, 128)
"""


@pytest.fixture
def cache(tmp_path):
    return LoweringCache(tmp_path / "cache")


def store(cache, key, *, dependencies=(), size=10):
    folder = cache.new_folder()
    level = folder / "levels" / "0" / "kernel.ttir"
    level.parent.mkdir(parents=True)
    level.write_text("x" * size)
    (level.parent / "leftover").write_text("not part of the run")
    launch = Launch(
        index=0, kernel="k", file="k.py", line=3, grid=(1, 1, 1), signature={}, values={},
        constexprs={}, divisible_by_16=(), options={},
    )  # fmt: skip
    lowering = Lowering(
        launch=launch, device="d", compiler="c", native_compiler=None,
        levels={"ttir": str(level)}, metadata={}, seconds={},
    )  # fmt: skip
    return cache.put(key, GhostRun((lowering,), None), folder, dependencies)


def test_a_run_comes_back_as_it_was_put_with_its_files_moved(cache):
    put = store(cache, "k1")
    got = cache.get("k1")
    assert got is not None
    assert got.lowerings[0].cached
    assert not put.lowerings[0].cached
    assert replace(got.lowerings[0], cached=False) == put.lowerings[0]
    path = Path(got.lowerings[0].levels["ttir"])
    assert path.read_text() == "x" * 10
    assert not (path.parent / "leftover").exists()
    assert cache.get("k2") is None


@pytest.mark.parametrize("damage", ["cut record", "empty record", "missing level", "cut level"])
def test_a_damaged_entry_is_a_miss_and_can_be_stored_again(cache, damage):
    level = Path(store(cache, "k").lowerings[0].levels["ttir"])
    record = cache.folder / "k" / "run.json"
    match damage:
        case "cut record":
            record.write_bytes(record.read_bytes()[:-20])
        case "empty record":
            record.write_bytes(b"")
        case "missing level":
            level.unlink()
        case "cut level":
            level.write_text("x")
    assert cache.get("k") is None
    store(cache, "k")
    assert cache.get("k") is not None


def test_many_that_store_one_key_at_once_all_succeed(cache):
    with ThreadPoolExecutor(8) as threads:
        puts = list(threads.map(lambda _: store(cache, "k1"), range(40)))
    assert len(puts) == 40
    got = cache.get("k1")
    assert got is not None
    assert Path(got.lowerings[0].levels["ttir"]).read_text() == "x" * 10


def test_a_changed_dependency_is_a_miss(cache, tmp_path):
    helper = tmp_path / "helper.py"
    helper.write_text("a = 1\n")
    store(cache, "k", dependencies=[str(helper)])
    assert cache.get("k") is not None
    helper.write_text("a = 2\n")
    assert cache.get("k") is None
    store(cache, "k", dependencies=[str(helper)])
    assert cache.get("k") is not None


def test_what_was_longest_not_read_goes_first_and_nothing_in_use(tmp_path):
    cache = LoweringCache(tmp_path, bound_bytes=2500)
    now = time.time()
    for age_hours, key in ((5, "old"), (4, "read"), (3, "young"), (0, "fresh")):
        store(cache, key, size=1000)
        os.utime(cache.folder / key / "run.json", (now - age_hours * 3600,) * 2)
    cache.get("read")
    assert cache.evict() > 0
    left = {name for name in os.listdir(cache.folder) if name not in ("work", "evicted")}
    assert "old" not in left
    assert {"read", "fresh"} <= left


def test_eviction_by_the_way_happens_once_an_hour(tmp_path):
    cache = LoweringCache(tmp_path / "cache", bound_bytes=0)
    cache.evict_at_times()  # nothing there yet
    for hours_ago, is_left in ((2.0, False), (0.5, True)):
        store(cache, "k")
        os.utime(cache.folder / "k" / "run.json", (0, 0))
        if (cache.folder / "evicted").exists():
            stamp = time.time() - hours_ago * 3600
            os.utime(cache.folder / "evicted", (stamp, stamp))
        cache.evict_at_times()
        assert (cache.get("k") is not None) == is_left


def test_unfinished_folders_go_after_a_day(cache):
    old, new = cache.new_folder(), cache.new_folder()
    os.utime(old, (0, 0))
    cache.evict()
    assert not old.exists()
    assert new.exists()


def test_within_the_bound_nothing_goes(cache):
    store(cache, "k")
    os.utime(cache.folder / "k" / "run.json", (0, 0))
    assert cache.evict() == 0
    assert cache.get("k") is not None


def test_the_folder_can_be_given(monkeypatch, tmp_path):
    monkeypatch.setenv("XESMITH_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    assert LoweringCache().folder == tmp_path / "lowerings"


def test_a_key_depends_on_each_part():
    keys = {cache_key({"a": 1}), cache_key({"a": 2}), cache_key({"b": 1}), cache_key({"a": 1})}
    assert len(keys) == 3


@pytest.mark.intel
def test_an_unchanged_program_is_answered_within_20_ms(impatient, script):
    text = "import torch\nx = torch.zeros(3, device='xpu')\n"
    first = impatient.run(script(KERNEL))
    assert not first.lowerings[0].cached
    impatient.run(script(KERNEL))
    started = time.perf_counter()
    again = impatient.run(script(KERNEL))
    seconds = time.perf_counter() - started
    assert again.lowerings[0].cached
    assert again.lowerings[0].levels == first.lowerings[0].levels
    assert seconds <= 0.020
    assert not impatient.run(script(KERNEL.replace("128", "256"))).lowerings[0].cached
    assert impatient.run(script(text)) == impatient.run(script(text))


@pytest.mark.intel
def test_a_failure_that_may_pass_is_not_kept(impatient, script):
    program = script("while True: pass")
    for _ in range(2):
        started = time.perf_counter()
        run = impatient.run(program)
        assert run.failure is not None
        assert run.failure.kind == "timeout"
        assert time.perf_counter() - started > 2.5


@pytest.mark.intel
def test_a_module_beside_the_program_is_part_of_the_key(impatient, script, tmp_path):
    helper = tmp_path / "helper_of_script.py"
    program = script("import helper_of_script\nraise SystemExit(helper_of_script.n)")
    messages = []
    for number in (3, 41):
        helper.write_text(f"n = {number}\n")
        os.utime(helper, (number, number))
        failure = impatient.run(program).failure
        assert failure is not None
        messages.append(failure.message)
    assert messages == ["the program exits with 3", "the program exits with 41"]
