"""Plans and rendering: what is written, read back, and refused."""

from __future__ import annotations

import copy
import json
import types
from pathlib import Path
from typing import Any

import pytest

from xesmith.kernel_file import BLOCK_BEGIN, KernelFile
from xesmith.launch_plan import LaunchPlan, PlanError, RenderedFile, block_runtime, read, render

KERNELS = Path(__file__).parent / "kernels"
SCALE = (KERNELS / "scale.py").read_text("utf-8")
WIDE = json.loads((KERNELS / "wide.json").read_text("utf-8"))
ADDED: list[str] = WIDE["added"]


@pytest.fixture(scope="module")
def scale() -> KernelFile:
    return KernelFile.parse(SCALE, "scale.py")


def changed(**changes: Any) -> dict[str, Any]:
    """The plan with fields of its only launch, alternative or rebinding replaced."""
    plan = copy.deepcopy(WIDE["plan"])
    rebinding = plan["rebindings"][0]
    alternative = rebinding["alternatives"][0]
    launch = alternative["launches"][0]
    for key, value in changes.items():
        for place in (launch, alternative, rebinding):
            if key in place or (key in ("args", "inherit_options") and place is launch):
                place[key] = value
                break
        else:
            (rebinding if key == "kind" else alternative)[key] = value
    return plan


def test_without_a_plan_there_is_no_block(scale: KernelFile) -> None:
    assert render(scale) == SCALE
    assert read(SCALE) == RenderedFile(KernelFile.parse(SCALE))


def test_the_plan_is_read_back_and_stages_chain(scale: KernelFile) -> None:
    plan = LaunchPlan.from_data(WIDE["plan"])
    first = render(scale, {}, ADDED, plan)
    assert first.startswith(SCALE)
    again = read(first, "scale.py")
    assert again.kernel_file.text == SCALE
    assert again.kernel_file.frozen_digest == scale.frozen_digest
    assert again.plan == plan
    assert list(again.added_kernels) == [source.strip() for source in ADDED]
    # the next stage edits the original, adds a kernel and another alternative
    edit = scale.jit("scale_kernel").source.replace("mask=at < n", "mask=(at < n)")
    old = again.plan.rebindings[0]
    more = old.alternatives[0].model_copy(update={"guard": "n % 32 == 0", "reason": 'a "b"\n#'})
    second = render(
        again.kernel_file,
        {"scale_kernel": edit},
        [*again.added_kernels, ADDED[0].replace("wide_kernel", "third_kernel")],
        again.plan.with_rebinding(
            old.model_copy(update={"alternatives": [more, *old.alternatives]})
        ),
    )
    final = read(second, "scale.py")
    assert len(final.added_kernels) == 2
    assert len(final.plan.rebindings[0].alternatives) == 2
    assert "mask=(at < n)" in final.kernel_file.text
    assert final.kernel_file.frozen_matches(scale)
    assert render(final.kernel_file, {}, final.added_kernels, final.plan) == second
    assert second.count(BLOCK_BEGIN) == 1
    compile(second, "second", "exec")


def test_a_block_that_was_edited_is_refused(scale: KernelFile) -> None:
    text = render(scale, {}, ADDED, LaunchPlan.from_data(WIDE["plan"]))
    for old, new in [
        ("if not (n % 128", "if not (n % 64"),
        ("def _xs_run(", "import os\ndef _xs_run("),
        ('{"plan":', '{"plam":'),
        ("* scale)", "* scale * 2)"),
    ]:
        assert text.count(old) >= 1
        with pytest.raises(PlanError, match="was edited"):
            read(text.replace(old, new, 1))


def test_the_block_needs_nothing_of_xesmith_and_tells_its_versions(scale: KernelFile) -> None:
    text = render(scale, {}, ADDED, LaunchPlan.from_data(WIDE["plan"]))
    block = text[len(SCALE) :]
    assert "import xesmith" not in block
    assert "Serves Triton 3.2 to 3.9, Intel's and upstream." in block
    assert "scale_kernel: 1 alternative, then the original." in block
    assert "_xs_pointers" not in block  # only what is needed is copied
    assert "_xs_function" not in block


POINTERS = """
@triton.jit
def {name}(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    x = {make}(x_ptr, (n,), (1,), {rest})
"""
BLOCK_POINTER = POINTERS.format(name="bp", make="tl.make_block_ptr", rest="(0,), (BLOCK,), (0,)")
DESCRIPTOR = POINTERS.format(name="desc", make="tl.make_tensor_descriptor", rest="(BLOCK,)")


@pytest.mark.parametrize(
    ("kernel", "code", "header"),
    [
        ("bp", "_xs_VERSION < (3, 8)", "block pointers below 3.8, else"),
        ("desc", 'hasattr(_xs_triton.language, "make_tensor_descriptor")', "where Triton has them"),
        (
            {"block_pointer": "bp", "descriptor": "desc"},
            "_xs_pointers(block_pointer=bp, descriptor=desc)",
            "block pointers below 3.8, tensor descriptors from 3.8 on",
        ),
    ],
)
def test_the_pointer_api_is_chosen_by_version(
    scale: KernelFile, kernel: Any, code: str, header: str
) -> None:
    plan = LaunchPlan.from_data(changed(kernel=kernel))
    text = render(scale, {}, [BLOCK_POINTER, DESCRIPTOR], plan)
    assert code in text
    assert header in " ".join(text.replace("\n# ", " ").split())


def test_pointer_choice_by_version(monkeypatch: pytest.MonkeyPatch) -> None:
    bp, desc = object(), object()
    language = types.SimpleNamespace(make_tensor_descriptor=None)
    set_to: list[Any] = []
    allocation = types.SimpleNamespace(_allocator=type("NullAllocator", (), {})())
    fake = types.SimpleNamespace(language=language, set_allocator=set_to.append)
    monkeypatch.setattr(block_runtime, "_xs_triton", fake)
    monkeypatch.setattr("triton.runtime._allocation", allocation)

    monkeypatch.setattr(block_runtime, "_xs_VERSION", (3, 7))
    assert block_runtime._xs_pointers(block_pointer=bp, descriptor=desc) is bp
    assert not set_to
    monkeypatch.setattr(block_runtime, "_xs_VERSION", (3, 8))
    assert block_runtime._xs_pointers(block_pointer=bp, descriptor=desc) is desc
    assert len(set_to) == 1
    allocation._allocator = lambda *_: None  # the user's own
    assert block_runtime._xs_pointers(descriptor=desc) is desc
    assert len(set_to) == 1
    with pytest.raises(RuntimeError, match="no form"):
        block_runtime._xs_pointers(block_pointer=bp)


@pytest.mark.parametrize(
    ("version", "backend", "mode", "expected"),
    [
        ((3, 3), "xpu", "256", "large"),
        ((3, 3), "xpu", "128", "small"),
        ((3, 3), "xpu", "auto", "auto"),
        ((3, 5), "xpu", "512", "large"),
        ((3, 6), "xpu", "256", "256"),
        ((3, 8), "xpu", "512", "512"),
        ((3, 8), "xpu", "default", "default"),
        ((3, 6), "cuda", "256", None),
    ],
)
def test_grf_mode_is_spelled_for_the_compiler(
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, int],
    backend: str,
    mode: str,
    expected: str | None,
) -> None:
    target = types.SimpleNamespace(backend=backend)
    active = types.SimpleNamespace(get_current_target=lambda: target)
    runtime = types.SimpleNamespace(driver=types.SimpleNamespace(active=active))
    monkeypatch.setattr(block_runtime, "_xs_triton", types.SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(block_runtime, "_xs_VERSION", version)
    options = block_runtime._xs_options({"num_warps": 4, "x": 1}, ("x",), grf_mode=mode)
    assert options == {"num_warps": 4} | ({} if expected is None else {"grf_mode": expected})
    config = types.SimpleNamespace(kwargs={"BM": 1, "grf_mode": mode})
    kernel = types.SimpleNamespace(configs=[config])
    block_runtime._xs_configs(block_runtime._xs_configs(kernel))  # twice is as once
    assert config.kwargs.get("grf_mode") == expected


@pytest.mark.parametrize(
    ("at_hand", "wanted", "launched"),
    [
        ("xpu", "xpu", True),
        ("cuda", "xpu", False),  # tiles made for one GPU may not compile for another
        (None, "xpu", True),  # the interpreter has no device
        ("cuda", None, True),
    ],
)
def test_an_alternative_is_for_the_backend_that_it_was_judged_for(
    scale: KernelFile,
    monkeypatch: pytest.MonkeyPatch,
    at_hand: str | None,
    wanted: str | None,
    launched: bool,
) -> None:
    changes = changed() if wanted is None else changed(backend=wanted)
    text = render(scale, {}, ADDED, LaunchPlan.from_data(changes))
    condition = f'_xs_backend() in (None, "{wanted}")'
    assert (condition in text) == (wanted is not None)

    def target() -> types.SimpleNamespace:
        if at_hand is None:
            raise RuntimeError("0 active drivers")
        return types.SimpleNamespace(backend=at_hand)

    active = types.SimpleNamespace(get_current_target=target)
    runtime = types.SimpleNamespace(driver=types.SimpleNamespace(active=active))
    monkeypatch.setattr(block_runtime, "_xs_triton", types.SimpleNamespace(runtime=runtime))
    assert (wanted is None or block_runtime._xs_backend() in (None, wanted)) == launched


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "scale_kernal"}, "no kernel 'scale_kernal'"),
        ({"name": "wide_kernel"}, "is an added kernel"),
        ({"name": "by_position", "kind": "function"}, "original_grid belongs to a kernel"),
        ({"kernel": "narrow_kernel"}, "no kernel 'narrow_kernel'"),
        ({"kernel": {}}, "neither pointer API"),
        ({"guard": "m % 2 == 0"}, "unknown name 'm'"),
        ({"guard": "wide_kernel"}, "unknown name 'wide_kernel'"),
        ({"grid": ["n // WIDTH"]}, "unknown name 'WIDTH'"),
        ({"grid": ["__import__('os')"]}, "expression language|known functions"),
        ({"original_grid": ["cdiv(m, BLOCK)"]}, "unknown name 'm'"),
        ({"metas": {"WIDTH": 1}}, "'WIDTH' is no parameter of wide_kernel"),
        ({"metas": {"n": 1}}, "'n' is no constexpr"),
        ({"args": {"scale": "n"}, "metas": {"BLOCK": 1}, "dropped": ["scal"]}, "is dropped, but"),
        ({"args": {"scale": "n"}}, "no launch uses the caller's scale"),
        ({"dropped": ["scale"]}, "gets no value for 'scale'"),
        ({"returns": ["n"]}, "a kernel returns nothing"),
        ({"buffers": [{"name": "n", "shape": [1], "dtype": "float32"}]}, "name 'n' is taken"),
        ({"buffers": [{"name": "t", "shape": [1], "dtype": "float32"}]}, "on whose device"),
        ({"buffers": [{"name": "t", "shape": [1], "dtype": "half"}]}, "unknown dtype 'half'"),
        ({"buffers": [{"name": "t", "shape": ["q"], "dtype": "x_ptr.dtype"}]}, "unknown name 'q'"),
    ],
)
def test_plans_that_do_not_fit_the_file(
    scale: KernelFile, changes: dict[str, Any], message: str
) -> None:
    plan = LaunchPlan.from_data(changed(**changes))
    with pytest.raises(PlanError, match=message) as caught:
        render(scale, {}, ADDED, plan)
    assert caught.value.where


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"guards": "True"}, "unknown field"),
        ({"launches": []}, "at least 1 item"),
        ({"grid": []}, "at least 1 item"),
        ({"grid": [1, 1, 1, 1]}, "at most 3 items"),
        ({"options": {"num_warps": 3}}, "not a power of two"),
        ({"options": {"num_warps": 128}}, "less than or equal to 64"),
        ({"options": {"grf_mode": "large"}}, "'128', '256', '512', 'auto' or 'default'"),
        ({"options": {"warps": 4}}, "unknown field"),
        ({"name": "a.b.c"}, "neither a function nor"),
        ({"name": "import"}, "no name"),
        ({"metas": {"x y": 1}}, "no name"),
        ({"kernel": "_xs_run"}, "reserved"),
        ({"guard": 1}, "valid string"),
    ],
)
def test_plans_that_are_no_plans(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        LaunchPlan.from_json(json.dumps(changed(**changes)), "answer.json")
    assert str(caught.value.where).startswith("answer.json")
    with pytest.raises(PlanError):
        LaunchPlan.from_json("{")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import os\n" + ADDED[0], "only jit functions and constants"),
        ("def helper():\n    return 1\n", "must carry Triton's"),
        ("@torch.no_grad()\n" + ADDED[0], "must carry Triton's"),
        ("X = open('/etc/passwd')\n", "no constant"),
        ("X = [print(1) for _ in (1,)]\n", "no constant"),
        ("X = 1; print(2)\n", "only jit functions and constants"),
        (ADDED[0].replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr = print(1)"), "no constant"),
        (ADDED[0].replace("wide_kernel", "by_position"), "is taken"),
        (ADDED[0].replace("wide_kernel", "_xs_wide"), "is taken"),
        (ADDED[0] + ADDED[0], "defined twice"),
        ("def f(:\n", "syntax error"),
        (ADDED[0] + f"{BLOCK_BEGIN}\n", "marker"),
    ],
)
def test_added_sources_that_are_refused(scale: KernelFile, source: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        render(scale, {}, [source], LaunchPlan())


SIGNATURE = "(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr = 16, FLIP: tl.constexpr = False)"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (f"@triton.jit\ndef other{SIGNATURE}:\n    return\n", "another name"),
        (f"def scale_kernel{SIGNATURE}:\n    return\n", "must carry|no @triton.jit"),
        ("@triton.jit\ndef scale_kernel(x_ptr, n):\n    return\n", "its parameters change"),
        (f"@triton.jit\ndef scale_kernel{SIGNATURE}:\n    return\nX = 1\n", "2 statements"),
        (
            '@triton.autotune(configs=[triton.Config({"BLOCK": 16})], key=[])\n'
            f"@triton.jit\ndef scale_kernel{SIGNATURE}:\n    return\n",
            "autotune would supply BLOCK, num_warps, which the launch in line",
        ),
        (
            '@triton.autotune(configs=[triton.Config({"grf_mode": "256"})], key=[])\n'
            f"@triton.jit\ndef scale_kernel{SIGNATURE}:\n    return\n",
            "grf_mode in a Config",
        ),
        (f"@triton.jit\ndef scale_kernel{SIGNATURE}:\n  return (\n", "syntax error"),
    ],
)
def test_edits_that_are_refused(scale: KernelFile, source: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        render(scale, {"scale_kernel": source})


def test_an_edit_may_add_parameters_with_defaults(scale: KernelFile) -> None:
    source = (
        f"@triton.jit\ndef scale_kernel{SIGNATURE[:-1]}, MORE: tl.constexpr = 1):\n    return\n"
    )
    text = render(scale, {"scale_kernel": source})
    assert "MORE" in text
    assert BLOCK_BEGIN not in text
    plain = SCALE.replace(": tl.constexpr = 16", "").replace(": tl.constexpr = False", "")
    bare = source.replace(": tl.constexpr = 16", "").replace(": tl.constexpr = False", "")
    with pytest.raises(PlanError, match="'MORE' needs a default"):
        render(KernelFile.parse(plain), {"scale_kernel": bare.replace(" = 1", "")})


def test_a_kernel_that_other_kernels_call_is_not_rebound() -> None:
    text = (
        f"{SCALE}\n\n@triton.jit\ndef caller(x_ptr, n):\n    scale_kernel(x_ptr, x_ptr, n, 1.0)\n"
    )
    with pytest.raises(PlanError, match="also called by the jit function 'caller'"):
        render(KernelFile.parse(text), {}, ADDED, LaunchPlan.from_data(WIDE["plan"]))


def test_names_of_the_block_belong_to_the_block() -> None:
    kernel_file = KernelFile.parse(SCALE + "\n_xs_mine = 1\n")
    with pytest.raises(PlanError, match="uses the name '_xs_mine'"):
        render(kernel_file, {}, ADDED, LaunchPlan.from_data(WIDE["plan"]))
