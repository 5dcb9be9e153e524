"""What a model is shown: the stage, the device, the problem, the kernels, and the compiler's facts.

All of it is text that depends on nothing but the run's inputs, so that the same run asks the same
questions again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xesmith.cascade.examine import Examination
from xesmith.cascade.record import Verdict
from xesmith.contract_names import NAMES
from xesmith.contracts import Number, ProgramEvidence
from xesmith.device import FACTS, Device
from xesmith.evidence.record import Evidence
from xesmith.findings.record import Finding
from xesmith.knowledge import Chosen
from xesmith.spec import Shape
from xesmith.stage_contract import Stage
from xesmith.stages.draft import Draft
from xesmith.stages.proposers.record import Situation

_MESSAGES_PER_LEVEL = 12
_MESSAGE_CHARACTERS = 600

#: shown in every table, beside what the stage's promises speak of
_SHOWN: dict[str, tuple[str, ...]] = {
    "any": (
        *("program.launches", "program.work_groups", "ttir.flop", "ttir.bytes", "ttir.dots"),
        *("ttir.f64_operations", "ttir.i64_address_operations", "ttir.masked_accesses"),
        *("ttir.pointer_loads", "ttgir.num_warps", "ttgir.shared_bytes"),
    ),
    "xpu": (
        *("ttgir.dots_on_dpas", "ttgir.loads_block_io", "ttgir.slm_conversions_in_loop"),
        *("ttgir.prefetches", "native.grf_count", "native.spill_bytes_per_thread"),
        *("native.instructions", "native.loads_2d", "native.stores_2d", "native.slm_messages"),
        *("native.main.instructions", "native.main.dpas", "native.main.loads_2d"),
        *("native.main.global_loads", "native.main.slm_messages", "native.main.scratch_messages"),
        *("derived.threads_per_xve", "derived.seconds"),
    ),
    "cuda": (
        *("ptx.instructions", "ptx.matrix_instructions", "ptx.bytes_per_load", "ptx.bulk_copies"),
        *("ptx.async_copies", "ptx.shared_messages", "ptx.int64_instructions", "derived.seconds"),
    ),
}


@dataclass(frozen=True)
class Brief:
    """The parts of a first request that the whole stage shares. Empty text is left out.

    `withheld`: the compiler's facts are kept from the model, to learn what they are worth.
    """

    stage: str
    device: str
    problem: str
    original: str
    current: str
    findings: str
    evidence: str
    knowledge: str
    withheld: bool = False


def make_brief(
    stage: Stage,
    situation: Situation,
    shapes: Sequence[Shape],
    knowledge: Chosen,
    *,
    withheld: bool = False,
) -> Brief:
    """Everything that a model is told about this stage of this problem."""
    device, draft = situation.device, situation.draft
    names = shown_names(stage, device)
    return Brief(
        stage=_stage(stage, device),
        device=_device(device),
        problem=_problem(shapes, device),
        original=f"```python\n{draft.kernel_file.text.rstrip()}\n```",
        current=_current(draft),
        findings="" if withheld else _findings(situation.findings, draft.text),
        evidence="" if withheld else _evidence(situation.examinations, names),
        knowledge="\n\n".join(entry.text() for entry in knowledge.entries),
        withheld=withheld,
    )


def shown_names(stage: Stage, device: Device) -> list[str]:
    """Contract names whose values are shown: the usual ones and those of the promises."""
    promises = " ".join(stage.conditions(device.kind))
    promised = re.findall(r"\b(?:before|after)\.([\w.]+)", promises)
    wanted = {*_SHOWN["any"], *_SHOWN[device.kind], *promised}
    return [name for name in NAMES if name in wanted]


def told_verdict(verdict: Verdict, text: str, *, withheld: bool = False) -> str:
    """What each level said of a candidate, for the model; `text` is the candidate's file, whose
    lines are quoted."""
    source = text.splitlines()

    def quoted(match: re.Match[str]) -> str:
        if "in added kernel" in match.string:  # counts within that kernel
            return match[0]
        number = int(match[1])
        return (
            f"{match[0]} `{source[number - 1].strip()}`" if 0 < number <= len(source) else match[0]
        )

    lines: list[str] = []
    for level in verdict.levels:
        lines.append(f"- {level.level}: {level.status.replace('_', ' ')}")
        if withheld:
            continue
        shown = [
            re.sub(r"\bline (\d+)\b", quoted, _short(message), count=1)
            for message in level.messages[:_MESSAGES_PER_LEVEL]
        ]
        if (more := len(level.messages) - len(shown)) > 0:
            shown.append(f"and {more} more")
        lines += [f"  - {message}" for message in shown]
    return "\n".join(lines)


def told_change(
    before: Mapping[str, Examination], after: Mapping[str, Examination], names: Sequence[str]
) -> str:
    """Values before and after, by shape; only those that the change concerns."""
    lines: list[str] = []
    for shape, item in after.items():
        lines.append(f"{shape}:")
        lines += [f"  {_launch(evidence)}" for evidence in _launches(item)]
        old, new = _values(before[shape]), _values(item)
        for name in names:
            change = _number(old.get(name)), _number(new.get(name))
            same = " (as before)" if change[0] == change[1] else ""
            lines.append(f"  {name}: {change[0]} -> {change[1]}{same}")
    return "\n".join(lines)


def _short(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= _MESSAGE_CHARACTERS else f"{text[: _MESSAGE_CHARACTERS - 3]}..."


def _stage(stage: Stage, device: Device) -> str:
    parts = [f"{stage.name}: {stage.description}", stage.body.strip()]
    promises = stage.conditions(device.kind)
    if promises:
        told = "\n".join(f"- `{promise}`" for promise in promises)
        parts.append(
            "At every shape where the candidate's code differs from the program's, all of these "
            f"must hold of what the compiler makes of it (before: the program now):\n{told}"
        )
    asked = "must be lower" if stage.improves else "must not be higher"
    parts.append(f"The predicted time {asked} than now; results must equal PyTorch's.")
    return "\n\n".join(parts)


def _device(device: Device) -> str:
    known = [
        f"- {name}: {_fact(fact.value)} ({FACTS[name][1]})"
        for name in FACTS
        if name not in ("device_ids", "ip_version") and (fact := device.fact(name)) is not None
    ]
    wanted = ("clock_hz", "memory_bytes_per_second", "l2_bytes", "xe_cores")
    unknown = [name for name in wanted if device.fact(name) is None]
    title = f"{device.title} ({device.name}), Triton backend {device.kind}"
    if unknown:
        known.append(f"- not known: {', '.join(unknown)}")
    return "\n".join([title, *known])


def _fact(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _problem(shapes: Sequence[Shape], device: Device) -> str:
    if not shapes:
        return "No spec: the file's own get_inputs says what it runs on. Any size must stay right."
    peak, bandwidth = device.peak_fp16_flop_per_second, device.memory_bytes_per_second
    lines: list[str] = []
    for shape in shapes:
        inputs = ", ".join(
            f"{item.name} {'x'.join(str(n) for n in item.shape)} {item.dtype}"
            for item in shape.inputs
        )
        lines.append(f"- {shape.label}: inputs {inputs}")
        if shape.inits:
            lines.append(f"  Model is built with {', '.join(repr(value) for value in shape.inits)}")
        size = shape.mem_bytes or _input_bytes(shape)
        if shape.flop and size:
            least = "" if shape.mem_bytes else " (inputs alone)"
            lines.append(
                f"  {shape.flop:.4g} FLOP, {size:.4g} bytes{least}: at most "
                f"{shape.flop / size:.4g} FLOP per byte"
            )
    if peak and bandwidth:
        lines.append(f"- the device's ridge (fp16): {peak / bandwidth:.4g} FLOP per byte")
    lines.append(
        "- these shapes are what counts for speed; results are also checked at other sizes, odd "
        "and prime ones among them, which may take the original path through a guard"
    )
    return "\n".join(lines)


_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}


def _input_bytes(shape: Shape) -> int:
    return sum(math.prod(item.shape) * _BYTES.get(item.dtype, 1) for item in shape.inputs)


def _current(draft: Draft) -> str:
    """What earlier stages have made of the kernels; "" where that is nothing."""
    changed = draft.changed_kernels()
    if not changed and not draft.plan.rebindings:
        return ""
    parts: list[str] = []
    if changed:
        parts.append("```python\n" + "\n\n\n".join(changed.values()) + "\n```")
    if draft.plan.rebindings:
        parts.append(f"The launch plan in force:\n```json\n{draft.plan.to_json()}\n```")
    return "\n".join(parts)


def _findings(findings: Iterable[Finding], text: str) -> str:
    lines = text.splitlines()
    told: dict[str, list[str]] = {}
    for finding in findings:
        at = f" line {finding.line}" if finding.line else ""
        parts = [f"- {finding.severity} {finding.kind}, {finding.kernel}{at}: {finding.message}"]
        if finding.line and finding.line <= len(lines):
            parts.append(f"  `{lines[finding.line - 1].strip()}`")
        if finding.reason:
            parts.append(f"  why: {finding.reason}")
        if finding.remedy:
            parts.append(f"  mend: {finding.remedy}")
        shapes = told.setdefault("\n".join(parts), [])
        if finding.variant and finding.variant not in shapes:
            shapes.append(finding.variant)
    several = len({shape for shapes in told.values() for shape in shapes}) > 1
    return "\n".join(
        f"{part}\n  at {', '.join(shapes)}" if several and shapes else part
        for part, shapes in told.items()
    )


def _evidence(examinations: Mapping[str, Examination], names: Sequence[str]) -> str:
    lines: list[str] = []
    for shape, item in examinations.items():
        lines.append(f"{shape}:")
        lines += [f"  {_launch(evidence)}" for evidence in _launches(item)]
        values = _values(item)
        lines += [f"  {name}: {_number(values.get(name))}" for name in names]
    return "\n".join(lines)


def _launches(item: Examination) -> tuple[Evidence, ...]:
    return ProgramEvidence.of(item.evidence).launches if item.evidence else ()


def _values(item: Examination) -> Mapping[str, Number | None]:
    return ProgramEvidence.of(item.evidence).values if item.evidence else {}


def _number(value: Number | None) -> str:
    return "not read" if value is None else f"{value:.6g}"


def _launch(evidence: Evidence) -> str:
    """One launch in a line: kernel, grid, configuration, predicted time and what bounds it."""
    launch = evidence.launch
    grid = "x".join(str(n) for n in launch["grid"])
    repeats = launch.get("repeats", 1)
    times = f" {repeats} times" if repeats > 1 else ""
    chosen = {**launch["constexprs"], **launch["options"]}
    values = " ".join(f"{k}={v}" for k, v in chosen.items() if isinstance(v, int | str | bool))
    prediction = evidence.derived.prediction if evidence.derived else None
    if prediction is None or prediction.seconds is None:
        told = "time not predicted"
    else:
        told = f"predicted {prediction.seconds * 1e6:.1f} us, bound by {prediction.bound_by}"
    return f"launch of {evidence.kernel}{times}, grid {grid}, {values}: {told}"
