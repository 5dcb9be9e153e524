"""What the hook must do with any Triton. Run with two: test_hook.py, test_triton39.py."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.hook.conftest import Place
from xesmith.passes.plugin import plugin_path

BEGIN = """
import os, sys
import xesmith.hook
from hooked import *
TRACE = os.environ["TRACE"]
"""
MASKS = "xesmith-drop-true-masks{launch},cse"


class Cases:
    """The cases; a subclass gives the fixture `place`."""

    native: str  # the file of the last level that this Triton makes

    def test_a_kernel_leaves_its_levels(self, place: Place):
        place.run(BEGIN + "xesmith.hook.enable(TRACE)\ncompile_scale()\nanswer(0)")
        (event,) = place.events()
        assert place.files(event) == {
            *("kernel.ttir", "kernel.generic.ttir", "kernel.ttgir", "kernel.generic.ttgir"),
            *("kernel.ll", "lowering.json", "functions.json"),
            *self.native.split(),
        }
        folder = place.trace / "kernels" / event["folder"]
        assert '"tt.load"(' in (folder / "kernel.generic.ttir").read_text()
        lowering = json.loads((folder / "lowering.json").read_text())
        launch = lowering["launch"]
        assert (launch["kernel"], launch["constexprs"]["B"]) == ("scale", 64)
        assert launch["options"]["num_warps"] == 4
        assert sorted(launch["divisible_by_16"]) == ["n", "x", "y"]
        assert set(event["seconds"]) >= {"ttir", "ttgir", "llir"}
        functions = json.loads((folder / "functions.json").read_text())
        assert [item["name"] for item in functions] == ["scale", "helper"]
        lines = Path(functions[0]["file"]).read_text().splitlines()
        assert lines[functions[0]["line"] - 1].startswith("def scale(")
        assert functions[0]["text"].startswith("def scale(")

    def test_each_configuration_is_recorded_once(self, place: Place):
        body = """
xesmith.hook.enable(TRACE)
for block in (64, 128, 64):
    compile_scale(block)
scale.device_caches.clear()
compile_scale(64)
answer(0)
"""
        for _ in range(2):  # the second process finds all in Triton's cache
            place.run(BEGIN + body)
        blocks = [
            json.loads((place.trace / "kernels" / e["folder"] / "lowering.json").read_text())[
                "launch"
            ]["constexprs"]["B"]
            for e in place.events()
        ]
        assert blocks == [64, 128]

    def test_what_tritons_cache_has_is_recorded_too_and_compiled_no_more(self, place: Place):
        cold = place.run(BEGIN + "answer(compile_scale().hash)")
        hooked = BEGIN + "xesmith.hook.enable(TRACE)\nanswer(compile_scale().hash)"
        assert place.run(hooked).value == cold.value
        (event,) = place.events()
        assert event["from_cache"] is True
        assert "kernel.generic.ttgir" in place.files(event)

    def test_a_transform_fires_and_is_a_matter_of_the_key(self, place: Place):
        body = """
import transforms
seen = []
def see():
    kernel = compile_scale()
    seen.append([constants(kernel), kernel.hash])
see()
xesmith.hook.enable(TRACE, transform=transforms.other_constant)
see()
xesmith.hook.disable()
see()
xesmith.hook.enable(TRACE, transform="transforms:other_constant")
see()
answer(seen)
"""
        before, during, after, again = place.run(BEGIN + body).value
        assert before[0] == ["2.500000e+00"]
        assert during[0] == ["3.500000e+00"]
        assert after == before
        assert again == during
        (event,) = place.events()
        assert event["transform"]["status"] == "applied"
        folder = place.trace / "kernels" / event["folder"]
        assert "2.500000e+00" in (folder / "before.generic.ttir").read_text()
        assert "3.500000e+00" in (folder / "kernel.generic.ttir").read_text()
        # Neither kind is ever taken for the other, in the next process either.
        assert place.run(BEGIN + "answer(constants(compile_scale()))").value == ["2.500000e+00"]

    def test_a_command_transforms_in_a_process_of_its_own(self, place: Place):
        body = """
command = ["sed", "s/2.500000e+00/3.500000e+00/"]
xesmith.hook.enable(TRACE, transform=command)
answer(constants(compile_scale()))
"""
        assert place.run(BEGIN + body).value == ["3.500000e+00"]

    def test_a_transform_that_changes_nothing(self, place: Place):
        body = """
plain = compile_scale().asm["ttir"]
texts = []
for name in ("identity", "another_spelling"):
    xesmith.hook.enable(TRACE, transform=f"transforms:{name}")
    texts.append(compile_scale().asm["ttir"] == plain)
answer(texts)
"""
        # Rewritten text comes back through the parser to the same module, locations included.
        assert place.run(BEGIN + body).value == [True, True]
        assert [e["transform"]["status"] for e in place.events()] == ["unchanged", "applied"]

    def test_a_transform_that_fails_is_logged_once_and_nothing_of_it_is_kept(self, place: Place):
        body = """
xesmith.hook.enable(TRACE, transform="transforms:" + sys.argv[1] if sys.argv[1:] else NAME)
answer([constants(compile_scale(block)) for block in (64, 128)])
"""
        for name in ("raises", "no_ir", "other_arguments", "nested", "nothing"):
            done = place.run(BEGIN + f'NAME = "transforms:{name}"\n' + body)
            assert done.value == [["2.500000e+00"]] * 2, name
            assert done.stderr.count("the transform fails") == 1, done.stderr
        statuses = [e["transform"]["status"] for e in place.events()]
        assert statuses == ["failed"] * 10
        # Under the same key, a transform that works again is not given what it did not make.
        repeat = place.run(BEGIN + 'NAME = "transforms:raises"\n' + body)
        assert repeat.stderr.count("the transform fails") == 1

    def test_eight_threads(self, place: Place):
        body = """
import sysconfig, threading
sysconfig.get_config_vars()  # Python 3.11's own set-up of it, which Triton needs, is no thread's
xesmith.hook.enable(TRACE, transform="transforms:other_constant")
kernels = {}
def work(number):
    kernels[number] = constants(compile_scale(16 << (number % 4)))
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
answer([kernels[n] for n in range(8)])
"""
        assert place.run(BEGIN + body).value == [["3.500000e+00"]] * 8
        assert len(place.events()) == 4
        assert len({event["hash"] for event in place.events()}) == 4

    def test_forked_children(self, place: Place):
        body = """
xesmith.hook.enable(TRACE, transform="transforms:other_constant")
compile_scale(64)  # the parent holds a context of MLIR when it forks
statuses = []
for block in (64, 128, 256):
    child = os.fork()
    if child == 0:
        os._exit(0 if constants(compile_scale(block)) == ["3.500000e+00"] else 1)
    statuses.append(os.waitpid(child, 0)[1])
answer(statuses)
"""
        assert place.run(BEGIN + body).value == [0, 0, 0]
        assert len(place.events()) == 3
        assert len({event["pid"] for event in place.events()}) == 3

    def test_spawned_children(self, place: Place):
        body = """
import multiprocessing
def work(block):
    from hooked import compile_scale, constants
    return constants(compile_scale(block))
if __name__ == "__main__":
    xesmith.hook.enable(TRACE, transform="transforms:other_constant")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        made = pool.map(work, (64, 128))
    answer(made)
"""
        assert place.run(BEGIN + body).value == [["3.500000e+00"]] * 2
        assert len(place.events()) == 2
        assert os.getpid() not in {event["pid"] for event in place.events()}

    def test_one_variable_of_the_environment(self, place: Place):
        done = place.run(
            "from hooked import *\nanswer(constants(compile_scale()))",
            TRITON_CACHE_MANAGER="xesmith.hook.cache:Cache",
            XESMITH_HOOK="trace",
        )
        assert done.value == ["2.500000e+00"]
        assert len(place.events()) == 1

    def test_a_program_under_the_command(self, place: Place):
        code = "from hooked import *\nanswer([constants(compile_scale()), compile_scale().hash])"
        plain = place.run(code).value
        options = ("-m", "xesmith.hook", "--out", "trace")
        transform = ("--transform", "transforms:other_constant")
        recorded = place.run(code, before=options).value
        assert recorded == plain
        # Its key was computed before the hook was there; still nothing is mixed up.
        for _ in range(2):
            constants, hash_ = place.run(code, before=(*options, *transform)).value
            assert (constants, hash_ != plain[1]) == (["3.500000e+00"], True)
        assert place.run(code).value == plain

    def test_relative_paths_start_from_where_the_hook_was_enabled(self, place: Place):
        (place.folder / "edit.sed").write_text("s/2.500000e+00/3.500000e+00/")
        body = """
import subprocess
xesmith.hook.enable("trace", transform="sed -f edit.sed")
os.mkdir("elsewhere")
os.chdir("elsewhere")
here = constants(compile_scale())
code = "from hooked import *; answer(constants(compile_scale(128)))"
child = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True)
answer([here, child.stdout + child.stderr])
"""
        assert place.run(BEGIN + body).value == [["3.500000e+00"], '["3.500000e+00"]\n']
        assert [event["transform"]["status"] for event in place.events()] == ["applied"] * 2

    @pytest.mark.mlir
    def test_a_plan_and_passes_at_relative_paths(self, place: Place):
        place.plan(
            {"kernel": "scale", "pipeline": MASKS, "grid": [64, 1, 1], "values": {"n": 4096}}
        )
        (place.folder / "plugin.so").symlink_to(plugin_path())
        code = """
import os
from hooked import *
os.mkdir("elsewhere")
os.chdir("elsewhere")
@triton.jit
def own(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B), 1.0)
own.warmup(type("T", (), {"dtype": "float32", "data_ptr": lambda _: 0})(), B=64, grid=(1,))
answer(masks(launch_scale(4096, 64)))
"""
        command = ("-m", "xesmith.hook", "--out", "trace", "--passes", "passes.json")
        # As the user types them: names in the current directory.
        script = place.folder / "script.py"
        script.write_text(code)
        done = subprocess.run(
            [place.python, *command, "script.py"],
            env=place.environment(XESMITH_PASSES="plugin.so"),
            cwd=place.folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
        assert {e["file"] for e in place.events() if e["kernel"] == "own"} == {str(script)}

    def test_the_users_cache_manager_stays(self, place: Place):
        (place.folder / "their_cache.py").write_text(
            "from triton.runtime.cache import FileCacheManager\n"
            "class Theirs(FileCacheManager):\n"
            "    def put_group(self, *args):\n"
            "        print('theirs')\n"
            "        return super().put_group(*args)\n"
        )
        body = "xesmith.hook.enable(TRACE)\nprint('compiling')\ncompile_scale()\nanswer(0)"
        environment = place.environment(TRITON_CACHE_MANAGER="their_cache:Theirs")
        environment["PYTHONPATH"] += os.pathsep + str(place.folder)
        code = (
            BEGIN + "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as o:\n"
        )
        code += "".join(f"    {line}\n" for line in body.splitlines())
        code += "answer('theirs' in o.getvalue())\n"
        assert place.run(code, **environment).value is True
        assert len(place.events()) == 1

    def test_a_folder_that_cannot_be_written(self, place: Place):
        (place.folder / "trace").write_text("a file")
        body = """
xesmith.hook.enable(TRACE, transform="transforms:other_constant")
answer([constants(compile_scale(block)) for block in (64, 128)])
"""
        done = place.run(BEGIN + body)
        assert done.value == [["3.500000e+00"]] * 2  # the transform needs no folder
        assert done.stderr.count("nothing is recorded") == 1

    def test_a_folder_that_goes_away(self, place: Place):
        body = """
import shutil
xesmith.hook.enable(TRACE)
shutil.rmtree(TRACE)
answer([constants(compile_scale(block)) for block in (64, 128)])
"""
        done = place.run(BEGIN + body)
        assert done.value == [["2.500000e+00"]] * 2
        assert done.stderr.count("xesmith hook: ") == 1

    def test_an_error_inside_the_hook(self, place: Place):
        body = """
from xesmith.hook import install
def broken(*_):
    raise RuntimeError("a defect of ours")
install.fill = broken
xesmith.hook.enable(TRACE)
answer([constants(compile_scale(block)) for block in (64, 128)])
"""
        done = place.run(BEGIN + body)
        assert done.value == [["2.500000e+00"]] * 2
        assert done.stderr.count("a defect of ours") == 1
        assert place.events() == []
        assert os.listdir(place.trace / "kernels") == []

    def test_a_full_trace_takes_no_more(self, place: Place):
        body = """
xesmith.hook.enable(TRACE, limit_bytes=1000)
for block in (64, 128, 256):
    compile_scale(block)
answer(0)
"""
        done = place.run(BEGIN + body)
        assert len(place.events()) == 1
        assert len(place.events("full")) == 1
        assert "is full (1000 B)" in done.stderr

    def test_a_compile_that_fails_is_told_and_raises_as_before(self, place: Place):
        body = """
xesmith.hook.enable(TRACE)
class Broken(Exception): ...
def fails(module, metadata, *_): raise Broken("the pass fails")
backend = next(b.compiler for b in triton.backends.backends.values()
               if b.compiler.supports_target(triton.runtime.driver.active.get_current_target()))
backend.make_ttgir = staticmethod(lambda module, metadata, *_: fails(module, metadata))
try:
    compile_scale()
except Broken as error:
    answer(str(error))
"""
        assert place.run(BEGIN + body).value == "the pass fails"
        (event,) = place.events("failed")
        assert (event["kernel"], event["level"]) == ("scale", "ttgir")
        assert event["message"] == "Broken: the pass fails"

    def test_taking_the_hook_out_leaves_no_trace_of_it(self, place: Place):
        body = """
import triton.compiler.compiler as compiler
classes = [b.compiler for b in triton.backends.backends.values()]
def state():
    return [compiler.CompiledKernel.__init__, *(c.add_stages for c in classes),
            getattr(compiler, "triton_key", None), dict(os.environ)]
before = state()
xesmith.hook.enable(TRACE, transform="transforms:identity")
during = state()
xesmith.hook.enable(TRACE)
xesmith.hook.disable()
answer([state() == before, during != before])
"""
        assert place.run(BEGIN + body).value == [True, True]

    @pytest.mark.mlir
    def test_passes_reach_the_launches_that_they_are_for(self, place: Place):
        place.plan(
            {"kernel": "scale", "pipeline": MASKS, "values": {"n": 4096}, "grid": [64, 1, 1]},
            {"kernel": "exponential", "pipeline": "xesmith-exp2", "rounds": True},
            # Made for another kernel of this name.
            {"kernel": "scale", "pipeline": MASKS, "grid": [32, 1, 1], "source": "0" * 32},
        )
        code = """
from hooked import *
answer([masks(launch_scale(n, g)) for n, g in ((4096, 64), (4096, 32), (4080, 64), (4096, 64))]
       + ["math.exp2" in compile_exponential().asm["ttir"]])
"""
        plain, planned = [1, 1, 1, 1, False], [0, 1, 1, 0, True]
        assert place.run(code).value == plain
        command = ("-m", "xesmith.hook", "--out", "trace", "--passes", "passes.json")
        assert place.run(code, before=command).value == planned
        statuses = [(e["kernel"], (e["transform"] or {}).get("status")) for e in place.events()]
        assert sorted(statuses, key=str) == [
            ("exponential", "applied"), ("scale", "applied"), ("scale", None)
        ]  # fmt: skip
        # What is kept on disk is never taken for the other, whoever asks.
        enabled = BEGIN + 'xesmith.hook.enable(TRACE, passes="passes.json")' + code
        assert place.run(enabled).value == planned
        assert place.run(code).value == plain

    @pytest.mark.mlir
    def test_passes_that_fail_or_are_no_plan_leave_the_program_alone(self, place: Place):
        place.plan({"kernel": "scale", "pipeline": "xesmith-none", "values": {"n": 4096}})
        body = """
xesmith.hook.enable(TRACE, passes="passes.json")
answer([masks(launch_scale(4096, 64)), masks(launch_scale(64, 1))])
"""
        done = place.run(BEGIN + body)
        assert done.value == [1, 1]
        assert "unknown pass 'xesmith-none'" in done.stderr
        (place.folder / "passes.json").write_text("{}")
        told = place.run(
            "from hooked import *\nanswer(masks(launch_scale(4096, 64)))",
            TRITON_CACHE_MANAGER="xesmith.hook.cache:Cache",
            XESMITH_HOOK="trace",
            XESMITH_HOOK_PASSES="passes.json",
        )
        assert told.value == 1
        assert "no passes: this is no plan of passes" in told.stderr

    @pytest.mark.mlir
    def test_passes_in_threads_and_forked_children(self, place: Place):
        place.plan({"kernel": "scale", "pipeline": MASKS, "values": {"n": 4096}, "grid": [64, 1, 1],
                    "switches": {"TRITON_INTEL_NONE": "1"}})  # fmt: skip
        body = """
import sysconfig, threading
sysconfig.get_config_vars()
xesmith.hook.enable(TRACE, passes="passes.json")
found = {}
def work(number):
    n = 4096 if number % 2 else 4080
    found[number] = masks(launch_scale(n, 64, num_warps=1 << number // 2))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
child = os.fork()
if child == 0:
    os._exit(masks(launch_scale(4096, 64, num_stages=3)))
left = os.waitpid(child, 0)[1], os.environ.get("TRITON_INTEL_NONE")
answer([*(found[n] for n in range(4)), *left])
"""
        assert place.run(BEGIN + body).value == [1, 0, 1, 0, 0, None]
