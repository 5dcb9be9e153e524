"""Findings in the log of the program that compiles."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.hook.cases import BEGIN
from tests.hook.conftest import Place

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

#: compiles a kernel with a finding, and lives until its findings are known or 60 s have passed
LOGS = (
    BEGIN
    + """
import glob, logging, time
logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
def wait(count):
    for _ in range(600):
        if len(glob.glob(TRACE + "/kernels/*/findings-*.json")) >= count:
            time.sleep(0.3)  # they are on their way through the pipe
            return
        time.sleep(0.1)
"""
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, sys.executable)


def told(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if "f64-arithmetic" in line]


def test_a_finding_is_logged_once_for_all_configurations_and_processes(place: Place) -> None:
    body = """
xesmith.hook.enable(TRACE, findings=True)
for block in (64, 128):
    compile_doubled(block)
child = os.fork()
if child == 0:
    compile_doubled(256)  # the parent's reader tells it
    os._exit(0)
os.waitpid(child, 0)
wait(3)
answer(0)
"""
    done = place.run(LOGS + body)
    (line,) = told(done.stderr)
    source = (Path(__file__).parent / "kernels" / "hooked.py").read_text().splitlines()
    number = next(n for n, text in enumerate(source, 1) if "tl.float64" in text)
    assert line.startswith("WARNING warning[f64-arithmetic] doubled (")
    assert f"hooked.py:{number}): " in line
    assert "; mend: accumulate in float32" in line
    # Each kernel's findings were told: not in a later process, nor by `trace show --new`.
    again = place.run(
        LOGS + 'xesmith.hook.enable(TRACE, findings="1")\ncompile_doubled()\nwait(3)\nanswer(0)'
    )
    assert told(again.stderr) == []


def test_the_environment_asks_for_it_and_a_short_program_is_not_held_up(place: Place) -> None:
    code = "from hooked import *\ncompile_doubled()\nanswer(0)"
    done = place.run(
        code,
        TRITON_CACHE_MANAGER="xesmith.hook.cache:Cache",
        XESMITH_HOOK=str(place.trace),
        XESMITH_HOOK_FINDINGS="1",
    )
    assert "ends before the findings of 1 kernels are known" in done.stderr
    assert "trace show" in done.stderr


def test_a_reader_that_cannot_work_is_told_once(place: Place) -> None:
    body = """
xesmith.hook.enable(TRACE, findings={})
for block in (64, 128):
    compile_doubled(block)
time.sleep(0.5)
answer(compile_doubled(256).metadata.name)
"""
    done = place.run(LOGS + body.format(repr("/nonexistent/python")))
    assert done.value == "doubled"
    assert done.stderr.count("xesmith hook: ") == 1
    lacking = place.folder / "python"
    lacking.write_text("#!/bin/sh\necho 'ModuleNotFoundError: pydantic' >&2\nexit 1\n")
    lacking.chmod(0o755)
    # A relative path, too, is the one where the hook was enabled.
    given = os.path.relpath(lacking, place.folder / "other")
    other = Place(place.folder / "other", sys.executable)
    other.folder.mkdir()
    done = other.run(LOGS + body.format(repr(given) + ')\nos.chdir("/"'))
    assert done.value == "doubled"
    (line,) = [line for line in done.stderr.splitlines() if "xesmith hook: " in line]
    assert line.endswith("no findings are logged any more: ModuleNotFoundError: pydantic")


def test_the_reader_ends_with_the_program(place: Place) -> None:
    body = """
xesmith.hook.enable(TRACE, findings=True)
compile_doubled()
answer(xesmith.hook.install._installed.findings._child.pid)
"""
    pid = place.run(LOGS + body).value
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        import time

        time.sleep(0.1)
    pytest.fail("the reader lives on")
