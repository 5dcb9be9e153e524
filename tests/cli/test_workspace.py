"""`xesmith workspace`: what an agent finds there, and what is never overwritten."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from xesmith.assets import asset_folder
from xesmith.cli import app
from xesmith.stage_contract import load_stages

Capture = pytest.CaptureFixture[str]
SOFTMAX = asset_folder("bench") / "problems" / "softmax"


def made(folder: Path, *arguments: str, kernel: Path = SOFTMAX / "kernel.py") -> Path:
    assert app.run(["workspace", str(folder), "--kernel", str(kernel), *arguments]) == 0
    return folder


def test_it_holds_copies_skills_and_commands(tmp_path: Path, capsys: Capture) -> None:
    folder = made(tmp_path / "work", "--target", "b70")
    for name in ("kernel.py", "spec.yaml", "reference.py"):
        assert (folder / name).read_bytes() == (SOFTMAX / name).read_bytes()
    skills = {path.parent.name: path.read_text() for path in folder.glob("skills/*/SKILL.md")}
    assert set(skills) == {name.replace("_", "-") for name in load_stages()}
    for name, text in skills.items():
        assert yaml.safe_load(text.split("---\n")[1])["name"] == name
    guide = (folder / "AGENTS.md").read_text()
    assert guide.startswith("# softmax on Intel Arc Pro B70")
    assert "--target bmg-g31" in guide
    for name in skills:
        assert f"`skills/{name}/SKILL.md`" in guide
    assert "$" not in guide
    assert capsys.readouterr().out == f"{folder}: 15 files; begin with AGENTS.md\n"


def test_nothing_in_it_is_absolute(tmp_path: Path) -> None:
    folder = made(tmp_path / "work")
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".py":
            text = path.read_text()
            assert str(tmp_path) not in text
            assert str(SOFTMAX) not in text
            assert not re.search(r"[\s\"'`=]/(?:\w+/)", text), path


def test_the_mcp_server_is_a_command_on_path(tmp_path: Path) -> None:
    folder = made(tmp_path / "work")
    assert json.loads((folder / ".mcp.json").read_text()) == {
        "mcpServers": {"xesmith": {"command": "xesmith", "args": ["mcp"]}}
    }


def test_every_command_of_the_guide_is_one(tmp_path: Path) -> None:
    folder = made(tmp_path / "work", "--variant", "ci")
    guide = (folder / "AGENTS.md").read_text()
    lines = [line.strip() for line in guide.splitlines() if line.strip().startswith("xesmith ")]
    assert {" ".join(line.split()[1:2]) for line in lines} == {
        *("inspect", "kb", "verify", "optimize", "report")
    }
    for line in [*lines, *re.findall(r"`(xesmith [a-z ]+)`", guide)]:
        command: Any = typer.main.get_command(app.build())
        words = shlex.split(line)[1:]
        while getattr(command, "commands", None):
            command = command.commands[words.pop(0)]
        known = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
    assert all("--variant ci" in line for line in lines if line.split()[1] in ("inspect", "verify"))
    stage = re.search(r"--stage (\w+)", guide)
    assert stage is not None
    assert stage[1] in load_stages()


MINE = """\
---
name: split_k
description: Splits a long K.
after: [block_pointers]
triggers: [many-kernels]
---
# Split K
"""


def test_stages_of_a_folder_are_skills_and_the_commands_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    mine = tmp_path / "mine" / "split_k" / "STAGE.md"
    mine.parent.mkdir(parents=True)
    mine.write_text(MINE)
    other = tmp_path / "other" / "warp_roles" / "STAGE.md"
    other.parent.mkdir(parents=True)
    other.write_text(MINE.replace("split_k", "warp_roles").replace("block_pointers", "split_k"))
    folders = [f"--stage-folder={path.parents[1]}" for path in (mine, other)]
    folder = made(tmp_path / "work", *folders)
    assert (folder / "skills" / "split-k" / "SKILL.md").read_text().endswith("---\n# Split K\n")
    assert (folder / "stages" / "split_k" / "STAGE.md").read_text() == MINE
    guide = (folder / "AGENTS.md").read_text()
    row = "| split_k | block_pointers | many-kernels | `skills/split-k/SKILL.md` |"
    assert row in guide
    lines = [line.strip() for line in guide.splitlines() if line.strip().startswith("xesmith ")]
    using = {line.split()[1] for line in lines if "--stage-folder stages" in line}
    assert using == {"verify", "optimize"}
    # The folder stands alone: both stages are found in it, and none is there without it.
    monkeypatch.chdir(folder.rename(tmp_path / "elsewhere"))
    assert list(load_stages(extra=[Path("stages")]))[-2:] == ["split_k", "warp_roles"]
    arguments = ["verify", "kernel.py", "nothing.py", "--stage", "split_k"]
    assert app.run(arguments) == 2
    assert "unknown stage 'split_k'" in capsys.readouterr().err
    assert app.run([*arguments, "--stage-folder", "stages"]) == 2
    assert "nothing.py" in capsys.readouterr().err


def test_without_further_stages_no_command_speaks_of_them(tmp_path: Path) -> None:
    folder = made(tmp_path / "work")
    assert "stages/" not in (folder / "AGENTS.md").read_text()
    assert "--stage-folder" not in (folder / "AGENTS.md").read_text()
    assert not (folder / "stages").exists()


def test_commands_of_the_guide_run_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = made(tmp_path / "work")
    moved = folder.rename(tmp_path / "elsewhere")
    monkeypatch.chdir(moved)
    assert app.run(["kb", "search", "--finding", "load-not-2d-block", "--target", "bmg-g31"]) == 0
    assert "block_pointer.gemm: " in capsys.readouterr().out
    # as inspect, verify and optimize find their files
    from xesmith.cascade.correctness import find_reference
    from xesmith.engine.problem import load_problem

    problem = load_problem(Path("kernel.py"))
    assert problem.spec is not None
    assert str(find_reference(problem.program())) == "reference.py"


def test_files_that_are_there_are_kept_without_force(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("mine")
    arguments = ["workspace", str(folder), "--kernel", str(SOFTMAX / "kernel.py")]
    assert app.run(arguments) == 2
    err = capsys.readouterr().err
    assert f"where: {folder / 'AGENTS.md'}" in err
    assert "--force" in err
    assert [path.name for path in folder.iterdir()] == ["AGENTS.md"]
    assert (folder / "AGENTS.md").read_text() == "mine"
    (folder / "notes.md").write_text("also mine")
    assert app.run([*arguments, "--force"]) == 0
    assert (folder / "AGENTS.md").read_text().startswith("# softmax")
    assert (folder / "notes.md").read_text() == "also mine"
    # The same again changes nothing, so there is nothing to force.
    assert app.run(arguments) == 0


def test_force_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("theirs")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").symlink_to(other)
    made(folder, "--force")
    assert other.read_text() == "theirs"
    assert not (folder / "AGENTS.md").is_symlink()


def test_without_spec_and_reference_there_are_none(tmp_path: Path, capsys: Capture) -> None:
    kernel = tmp_path / "scale.py"
    kernel.write_text((SOFTMAX / "kernel.py").read_text())
    folder = made(tmp_path / "work", "--json", kernel=kernel)
    listed = json.loads(capsys.readouterr().out)
    assert listed["folder"] == str(folder)
    assert not {"spec.yaml", "reference.py"} & {*listed["files"]}
    guide = (folder / "AGENTS.md").read_text()
    assert guide.startswith("# scale on ")
    assert "| `reference.py`" not in guide


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kernel", "nothing.py"], "nothing.py"),
        (["--kernel", str(SOFTMAX / "kernel.py"), "--target", "b71"], "did you mean 'b70'?"),
        (["--kernel", str(SOFTMAX / "kernel.py"), "--variant", "cii"], "did you mean 'ci'?"),
        (["--kernel", str(SOFTMAX / "spec.yaml")], "not a Python file"),
        (["--kernel", str(SOFTMAX / "kernel.py"), "--stage-folder", "no"], "no stage found"),
        ([], "--kernel"),
    ],
)
def test_a_wrong_argument_is_one_clear_error(
    tmp_path: Path, capsys: Capture, arguments: list[str], message: str
) -> None:
    folder = tmp_path / "work"
    assert app.run(["workspace", str(folder), *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert message in err
    assert not folder.exists()


def test_a_file_is_no_folder(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "work"
    path.write_text("x")
    assert app.run(["workspace", str(path), "--kernel", str(SOFTMAX / "kernel.py")]) == 2
    assert "the workspace is no folder" in capsys.readouterr().err
