"""`xesmith doctor`: what it finds, and the command that it names for what it does not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from xesmith.cli import app, doctor
from xesmith.toolchain import debian, discover, layout
from xesmith.toolchain import environment as environments


def by_name(checks: list[doctor.Check]) -> dict[str, doctor.Check]:
    return {check.name: check for check in checks}


@pytest.mark.intel
@pytest.mark.mlir
def test_this_machine_is_ready(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ready"] is True
    states = {check["name"]: check["state"] for check in told["checks"]}
    for name in ("python", "Intel Triton", "ocloc", "spirv-tools", "MLIR bindings", "MLIR passes"):
        assert states[name] == "ok"


def test_passes_that_were_not_built_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XESMITH_PASSES", "/nowhere/XeSmithPasses.so")
    (check,) = doctor._passes()
    assert (check.name, check.state) == ("MLIR passes", "missing")
    assert "XESMITH_PASSES names no file" in check.text
    assert "make passes" in (check.remedy or "")


@pytest.mark.intel
def test_the_table_says_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "✓ ocloc: ocloc " in out
    assert out.rstrip().endswith("without a GPU and without a model")


def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any native tool."""
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("XESMITH_TOOLCHAIN_DIR", str(tmp_path / "toolchains"))


def test_a_bare_machine_is_told_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare(monkeypatch, tmp_path)
    monkeypatch.setattr(debian, "debian_mirrors", lambda: ["http://mirror.example/debian/"])
    assert app.run(["doctor"]) == 3
    out = capsys.readouterr().out
    assert "✗ ocloc: no ocloc" in out
    assert "mend it: xesmith toolchain install xpu" in out
    assert "not ready" in out


def test_another_distribution_is_told_its_own_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare(monkeypatch, tmp_path)
    monkeypatch.setattr(debian, "debian_mirrors", list)
    monkeypatch.setattr(debian, "os_release", lambda: {"ID": "fedora", "PRETTY_NAME": "Fedora"})
    ocloc = by_name(list(doctor._native()))["ocloc"]
    assert ocloc.state == "missing"
    assert str(ocloc.remedy).startswith("sudo dnf install intel-ocloc spirv-tools")


def test_an_ocloc_too_old_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It serves older devices; for the newest one the install is offered."""
    bare(monkeypatch, tmp_path)
    monkeypatch.setattr(debian, "debian_mirrors", lambda: ["http://mirror.example/debian/"])
    old = tmp_path / "bin" / "ocloc"
    old.write_text(
        "#!/bin/sh\n"
        'case "$1" in --version) echo 23.43.27642 ;; ids) exit 226 ;;\n'
        "compile) /bin/mkdir -p out; printf '\\177ELF' > out/probe.bin ;; esac\n"
    )
    old.chmod(0o755)
    discover.forget()
    ocloc = by_name(list(doctor._native()))["ocloc"]
    assert ocloc.state == "warning"
    assert "23.43.27642 is too old to know bmg-g31" in ocloc.text
    assert ocloc.remedy == "xesmith toolchain install xpu"


def test_a_broken_install_is_told_to_be_forced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare(monkeypatch, tmp_path)
    root = tmp_path / "toolchains"
    root.mkdir()
    layout.publish(root, layout.NATIVE, layout.new_folder(root, layout.NATIVE))
    ocloc = by_name(list(doctor._native()))["ocloc"]
    assert ocloc.state == "missing"
    assert ocloc.remedy == "xesmith toolchain install xpu --force"


def test_a_numpy_too_new_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    look = environments.look()
    too_new = environments.Environment(
        python=look.python,
        python_version=look.python_version,
        torch="2.13.0",
        numpy="2.4.1",
        triton=None,
        intel=("triton-xpu", "3.3.0b1"),
        intel_files=True,
    )
    monkeypatch.setattr(environments, "look", lambda: too_new)
    numpy = by_name(list(doctor._toolchains()))["numpy"]
    assert numpy.state == "warning"
    assert str(numpy.remedy).endswith("-m pip install 'numpy<2.3'")


def node(drm: Path, name: str, vendor: str, device: str) -> None:
    folder = drm / name / "device"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "device").write_text(f"{device}\n")


def test_intel_gpus_are_told_by_their_pci_ids(tmp_path: Path) -> None:
    drm, dev = tmp_path / "drm", tmp_path / "dri"
    dev.mkdir()
    (dev / "renderD128").write_text("")
    node(drm, "renderD128", "0x8086", "0xe223")  # Arc Pro B70
    node(drm, "renderD129", "0x10de", "0x2330")  # not Intel's
    node(drm, "renderD130", "0x8086", "0xffff")
    node(drm, "card0", "0x8086", "0xe223")  # the same GPU's display node
    known, unknown = doctor.intel_gpus(drm, dev)
    assert (known.device, known.pci_id, known.accessible) == ("bmg-g31", "0xe223", True)
    assert (unknown.device, unknown.accessible) == (None, False)
    assert "0xffff" in unknown.title


def test_a_gpu_that_this_user_cannot_open(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = doctor.IntelGpu("0xe223", "bmg-g31", "Intel Arc Pro B70 Graphics", accessible=False)
    monkeypatch.setattr(doctor, "intel_gpus", lambda: [gpu])
    check = by_name(list(doctor._gpus()))["Intel GPU"]
    assert check.state == "warning"
    assert "usermod -aG render" in str(check.remedy)


def test_cuda_gpus_are_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA H200'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert by_name(list(doctor._gpus()))["CUDA GPU"].text == "NVIDIA H200"


def test_a_models_settings_are_named_and_its_key_never_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret-value")
    monkeypatch.setenv("XESMITH_LM", "openai/some-model")
    monkeypatch.setenv("XESMITH_LM_API_KEY", "another-secret-value")
    app.run(["doctor", "--json"])
    out, err = capsys.readouterr()
    assert "openai/some-model" in out
    assert "OPENAI_API_KEY" in out
    assert "secret-value" not in out + err


def test_no_model_is_no_fault_and_a_wrong_setting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (check,) = doctor._lm()
    assert (check.state, check.text) == (
        "none",
        "no model is set up: stages work by rules alone",
    )
    monkeypatch.setenv("XESMITH_LM_MODEL", "openai/some-model")
    (check,) = doctor._lm()
    assert check.state == "warning"
    assert "unknown environment variable XESMITH_LM_MODEL" in check.text
    assert "XESMITH_LM" in (check.remedy or "")


@pytest.fixture(autouse=True)
def _no_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("XESMITH_LM") or name in doctor._PROVIDER_KEYS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def broken_bindings(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], None]:
    def answer(code: int, text: str) -> None:
        monkeypatch.setattr(doctor, "_run", lambda _: (code, text))

    return answer


def test_missing_mlir_bindings_are_told(broken_bindings: Callable[[int, str], None]) -> None:
    broken_bindings(1, "Traceback\nModuleNotFoundError: No module named 'mlir'")
    check = by_name(list(doctor._bindings()))["MLIR bindings"]
    assert check.state == "missing"
    assert "No module named 'mlir'" in check.text
    assert "'xtc-mlir-python-bindings>=22.1.8,<23'" in str(check.remedy)


def test_bindings_that_crash_are_told(broken_bindings: Callable[[int, str], None]) -> None:
    broken_bindings(-11, "")
    assert "exit code -11" in by_name(list(doctor._bindings()))["MLIR bindings"].text
