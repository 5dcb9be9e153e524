"""A folder in which a coding agent works on one kernel: files, skills, commands.

Everything in it is relative, so that the folder can be moved and shared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from string import Template

from xesmith.assets import asset_folder
from xesmith.cascade.correctness import Reference
from xesmith.device import Device
from xesmith.engine.problem import Problem
from xesmith.errors import UsageError
from xesmith.stage_contract import Stage

_KERNEL, _SPEC, _REFERENCE = "kernel.py", "spec.yaml", "reference.py"
_STAGES = "stages"

_GUIDE = Template("""\
# $name on $title

Make the Triton kernels of `kernel.py` faster on this GPU, with the same results. Nothing is
believed but what the compiler shows and what PyTorch computes: xesmith judges every candidate by
its syntax, structure, lowering, results and predicted time. No GPU is needed.

## Files

| file | is |
|---|---|
$files
## What may change

Only jit functions, the constants that they need, and what is launched in their place (a launch
plan, which is data). The functions that launch, `Model`, the inputs, the spec and the reference
stay byte for byte. Leave `kernel.py` as it is: it is what candidates are held against.

## How to work

1. See what the compiler makes of it, and what is wrong, by line:

   ```
   xesmith inspect kernel.py --target $target$variant
   ```

2. Choose a stage that a finding calls for, in the order below, and read its skill. Look up what is
   known:

   ```
   xesmith kb search spill --target $target
   xesmith kb search --finding load-not-2d-block --target $target
   ```

3. Propose. Either copy `kernel.py` to `candidate.py`, edit its jit functions and have it judged, by
   the contract of the stage that you chose:

   ```
   xesmith verify kernel.py candidate.py --stage discovery --target $target$variant$folder
   ```

   or, where other tiles, grids, launches or buffers are needed, answer the requests of a run:

   ```
   $optimize
   ```

   The run stops where a reply is missing. Read `exchange/LABEL.request.md`, which also says how an
   answer looks, write the answer to `exchange/LABEL.reply.md`, and go on:

   ```
   $optimize --resume
   ```

4. See what was tried, what refused it, and what came of it:

   ```
   xesmith report run
   ```

   The best accepted file is `run/kernel.optimized.py`.

A refusal says what the compiler did, by line: change that, and do not send the same again. Times
are predicted until a GPU has measured them; never call them measured.

The same tools are there for MCP clients: `.mcp.json` starts the server `xesmith mcp`$mcp.

## Stages

| stage | comes after | called for by | skill |
|---|---|---|---|
$stages
""")


def workspace_files(
    problem: Problem, reference: Reference, device: Device, stages: Mapping[str, Stage]
) -> dict[str, str]:
    """The text of each file, by path in the folder.

    Stages that do not ship with xesmith are copied, and the commands name their folder.

    Raises:
        UsageError: two stages whose skills would have one name.
    """
    made = {_KERNEL: problem.source}
    told = [(_KERNEL, "the kernels as given: correct, to be made faster")]
    if problem.spec is not None:
        made[_SPEC] = Path(problem.spec.path).read_text("utf-8")
        told.append((_SPEC, "the shapes that count"))
    if reference.kind == "pytorch":
        made[_REFERENCE] = reference.program.source
        told.append((_REFERENCE, "the same in plain PyTorch: what is right"))
    told.append(("skills/", "one Agent Skill per stage: what to do, what is never allowed"))
    skills = {stage.name: f"skills/{stage.skill_name}/SKILL.md" for stage in stages.values()}
    for name, path in skills.items():
        if path in made:
            raise UsageError(f"two stages have the skill '{path}'", where=stages[name].path)
        made[path] = stages[name].as_agent_skill()
    shipped = asset_folder("llm_stages")
    added = {n: Path(s.path) for n, s in stages.items() if Path(s.path).parents[1] != shipped}
    for name, path in added.items():
        made[f"{_STAGES}/{name}/{path.name}"] = path.read_text("utf-8")
    folder = f" --stage-folder {_STAGES}" if added else ""
    if added:
        told.append((f"{_STAGES}/", "the contracts of the stages that do not ship with xesmith"))
    variant = ""
    if problem.spec is not None and problem.variant != problem.spec.default_variant:
        variant = f" --variant {problem.variant}"
    run = f"xesmith optimize kernel.py --target {device.name}{variant}{folder}"
    made["AGENTS.md"] = _GUIDE.substitute(
        name=problem.name,
        title=device.title,
        target=device.name,
        variant=variant,
        folder=folder,
        optimize=f"{run} --proposer rules,exchange:exchange --out run",
        mcp=f", which does not know what is in `{_STAGES}/`" if added else "",
        files="".join(f"| `{name}` | {what} |\n" for name, what in told),
        stages="\n".join(
            f"| {stage.name} | {', '.join(stage.after) or '-'} "
            f"| {', '.join(stage.triggers) or 'always'} | `{skills[stage.name]}` |"
            for stage in stages.values()
        ),
    )
    server = {"mcpServers": {"xesmith": {"command": "xesmith", "args": ["mcp"]}}}
    made[".mcp.json"] = json.dumps(server, indent=2) + "\n"
    return made


def write_workspace(folder: Path, files: Mapping[str, str], *, force: bool = False) -> None:
    """Writes the files. One that is there with the same text is left alone.

    Raises:
        UsageError: the folder is a file, or a file of it has another text and `force` is not set;
            then nothing is written.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError("the workspace is no folder", where=str(folder))
    changed = {
        folder / name: text for name, text in files.items() if not _holds(folder / name, text)
    }
    there = [path for path in changed if path.exists() or path.is_symlink()]
    if there and not force:
        others = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise UsageError(
            f"a file is there already{others}",
            where=str(there[0]),
            remedy="choose another folder, or overwrite with --force",
        )
    for path, text in changed.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a link's target is somebody else's
        path.write_bytes(text.encode())


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()
