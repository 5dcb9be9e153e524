"""The trace folder under many writers."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from xesmith.hook.trace import INDEX, KERNELS, TraceFolder, events, folder_name


def fill(folder: Path) -> dict[str, object]:
    (folder / "kernel.ttir").write_text("module {}\n" * 100)
    return {"kernel": "k", "file": "x" * 3000}


def write_many(path: str, count: int) -> None:
    trace = TraceFolder(Path(path), 1 << 30)
    for number in range(count):
        trace.add("k", f"{number:064x}"[::-1], fill)


def index(path: Path) -> list[dict[str, object]]:
    """Every line must parse."""
    return [json.loads(line) for line in (path / INDEX).read_text().splitlines()]


def test_processes_write_whole_lines_and_each_kernel_once(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(str(tmp_path), 40)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0] * 4
    lines = index(tmp_path)
    assert len(lines) == 40
    assert {line["folder"] for line in lines} == set(os.listdir(tmp_path / KERNELS))


def test_threads_write_each_kernel_once(tmp_path: Path):
    trace = TraceFolder(tmp_path, 1 << 30)
    made: list[bool] = []

    def write() -> None:
        for number in range(20):
            hash_ = f"{number:064x}"[::-1]
            if trace.wants("k", hash_):
                made.append(trace.add("k", hash_, fill))

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [True] * 20
    assert len(index(tmp_path)) == 20


def test_a_kernel_that_another_process_recorded_is_not_wanted(tmp_path: Path):
    TraceFolder(tmp_path, 1 << 30).add("k", "a" * 64, fill)
    assert not TraceFolder(tmp_path, 1 << 30).wants("k", "a" * 64)
    assert TraceFolder(tmp_path, 1 << 30).wants("k", "b" * 64)


def test_the_limit_counts_what_other_processes_wrote(tmp_path: Path):
    trace = TraceFolder(tmp_path, 1500)
    assert trace.has_room()
    TraceFolder(tmp_path, 1500).add("k", "a" * 64, fill)  # 1000 B
    assert trace.has_room()
    TraceFolder(tmp_path, 1500).add("k", "b" * 64, fill)
    assert not trace.has_room()


def test_a_failing_record_leaves_nothing(tmp_path: Path):
    trace = TraceFolder(tmp_path, 1 << 30)

    def fails(folder: Path) -> dict[str, object]:
        (folder / "kernel.ttir").write_text("half")
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        trace.add("k", "a" * 64, fails)
    assert os.listdir(tmp_path / KERNELS) == []
    assert index(tmp_path) == []


def test_a_line_that_was_cut_off_is_left_out():
    data = b'{"event": "kernel", "bytes": 1}\n{"event": "ker\n[1]\n{"event": "full"}\n'
    assert [event["event"] for event in events(data)] == ["kernel", "full"]


def test_a_file_in_the_folders_place_is_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        TraceFolder(tmp_path / "file", 1)


def test_names_of_folders_are_readable_and_safe():
    assert folder_name("triton_poi_fused_add_0", "ab" * 32) == "triton_poi_fused_add_0-" + "ab" * 8
    assert folder_name("../../etc", "ab" * 32) == "etc-" + "ab" * 8
    assert len(folder_name("x" * 400, "ab" * 32)) == 97


def test_the_hook_is_light():
    """It runs in users' processes: no Triton before it is enabled, and nothing of ours at all."""
    heavy = ("pydantic", "libcst", "typer", "rich", "yaml", "jinja2", "mlir", "torch", "triton")
    script = (
        "import sys, xesmith.hook, xesmith.hook.record, xesmith.hook.__main__\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
