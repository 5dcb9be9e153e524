"""One problem timed at its shapes: its kernel against eager, torch.compile, library and baseline.

An *entry* is a problem as data, its shapes worked out (`xesmith.engine.entries` makes it from a
spec), so that it can be timed on a machine that reads no spec.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from xesmith.device import Device
from xesmith.ghost.launch import Program, TensorSpec
from xesmith.timing.physics import Limit, Work, floor, roof
from xesmith.timing.statistics import SMALLEST_EFFECT, StopRule, geometric_mean, median
from xesmith.timing.timer import (
    Contestant,
    Judgement,
    Measurement,
    ReferenceProgram,
    Timer,
    TimingError,
    judge,
)

#: what a kernel can be timed against
AGAINST = ("eager", "compile", "baseline", "library")
KERNEL = "kernel"
AGAIN = "kernel again"  # the same program in a second process: the A/A run


@dataclass(frozen=True)
class EntryShape:
    """A shape of a spec, worked out."""

    name: str  # "bench-gpu[0]"
    label: str
    inputs: tuple[TensorSpec, ...] | None
    inits: tuple[Any, ...] | None
    dtype: str | None
    flop: float | None = None
    mem_bytes: float | None = None
    rtol: float | None = None
    atol: float | None = None
    dims: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EntryShape:
        inputs, inits = data["inputs"], data["inits"]
        fields: dict[str, Any] = {
            **data,
            "inputs": None if inputs is None else tuple(TensorSpec.from_json(i) for i in inputs),
            "inits": None if inits is None else tuple(inits),
        }
        return cls(**fields)


@dataclass(frozen=True)
class Entry:
    """A problem to be timed: `kernel` is the file in question, `baseline` what it came from.

    `executed_flop`: by shape name what the kernel's lowered code computes, where the evidence
    tells: an algorithm may save operations that the spec counts. `lowered`: by shape name the
    digests of the kernel's lowered code, and for which device.
    """

    name: str
    kernel: str
    baseline: str | None
    reference: str | None  # None: the baseline is the reference
    spec: str | None
    shapes: tuple[EntryShape, ...]
    executed_flop: Mapping[str, float] = field(default_factory=dict[str, float])
    lowered: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Entry:
        shapes = tuple(EntryShape.from_json(shape) for shape in data["shapes"])
        fields: dict[str, Any] = {**data, "shapes": shapes}
        return cls(**fields)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that a result depends on: texts, shapes and tolerances."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    @property
    def library(self) -> str | None:
        """The vendor's call that the reference is, from its `LIBRARY = "torch.matmul"`."""
        return None if self.reference is None else library_call(self.reference)


def library_call(reference: str) -> str | None:
    """The value of `LIBRARY` in a reference's text; None without one. Nothing is run."""
    for node in ast.parse(reference).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "LIBRARY" in names and isinstance(node.value.value, str):
                return node.value.value
    return None


@dataclass(frozen=True)
class Options:
    """How a contest is run. `again`: whether the kernel is also timed against itself."""

    against: tuple[str, ...] = AGAINST
    smallest_effect: float = SMALLEST_EFFECT
    rule: StopRule = field(default_factory=StopRule)
    again: bool = True
    seed: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of one shape.

    `judgements` says of each opponent whether the kernel is faster than it; `again` is the verdict
    of the kernel against itself. `fractions`: of each program, of the roof at the measured clock.
    `errors` are faults of the measurement: a time below the floor, a point above the roof.
    """

    problem: str
    digest: str
    shape: EntryShape
    measurement: Measurement | None
    judgements: Mapping[str, Judgement]
    again: Judgement | None
    floor: Limit | None
    roof: Limit | None
    fractions: Mapping[str, float]
    library: str | None
    errors: tuple[str, ...]

    @property
    def noise_floor(self) -> float | None:
        return None if self.again is None or self.again.ratio is None else self.again.ratio.noise

    def to_json(self) -> dict[str, Any]:
        return {
            "problem": self.problem,
            "digest": self.digest,
            "shape": asdict(self.shape),
            "library": self.library,
            "judgements": {name: item.to_json() for name, item in self.judgements.items()},
            "again": None if self.again is None else self.again.to_json(),
            "noise_floor": self.noise_floor,
            "floor": None if self.floor is None else self.floor.to_json(),
            "roof": None if self.roof is None else self.roof.to_json(),
            "fraction_of_roof": dict(self.fractions),
            "errors": list(self.errors),
            "measurement": None if self.measurement is None else self.measurement.to_json(),
        }


def program_at(entry: Entry, shape: EntryShape, text: str, name: str) -> Program:
    """A text as a program of the entry at one shape."""
    return Program(
        text, f"/{entry.name}/{name}.py", inits=shape.inits, inputs=shape.inputs, dtype=shape.dtype
    )


def contestants(entry: Entry, shape: EntryShape, options: Options) -> list[Contestant]:
    """The programs of one shape: the kernel, itself again, and those it is timed against.

    Where the reference is one call of a library, eager is the library and is timed once.
    """

    kernel = program_at(entry, shape, entry.kernel, "kernel")
    found = [Contestant(KERNEL, kernel)]
    if options.again:
        found.append(Contestant(AGAIN, kernel))
    if "baseline" in options.against and entry.baseline not in (None, entry.kernel):
        baseline = program_at(entry, shape, entry.baseline or "", "baseline")
        found.append(Contestant("baseline", baseline))
    if entry.reference is not None:
        reference = program_at(entry, shape, entry.reference, "reference")
        if "eager" in options.against or (entry.library and "library" in options.against):
            found.append(Contestant("eager", reference))
        if "compile" in options.against:
            found.append(Contestant("compile", reference, how="compile"))
    return found


def reference_program(entry: Entry, shape: EntryShape) -> ReferenceProgram:
    """The reference at a shape; the baseline itself where the problem has none."""
    text = entry.reference or entry.baseline or entry.kernel
    program = program_at(entry, shape, text, "reference")
    return ReferenceProgram(program, entry.reference is not None, shape.rtol, shape.atol)


#: of a race that only says whom to judge first
_SHORT = StopRule(goal=0.01, least_rounds=5, most_rounds=8, most_seconds=6)
#: processes at once, each with a context on the device
_MOST_RUNNERS = 8


def race(
    timer: Timer, entry: Entry, texts: Sequence[str], say: Callable[[str], None] | None = None
) -> list[float]:
    """The median time of each text in seconds, all shapes added up, from a short measurement.

    It orders texts and judges none: `inf` is the time of one that failed or was wrong.
    """
    seconds = [0.0] * len(texts)
    for shape in entry.shapes:
        for first in range(0, len(texts), _MOST_RUNNERS):
            group = range(first, min(first + _MOST_RUNNERS, len(texts)))
            if say is not None:
                say(f"racing {len(group)} programs at {shape.name}")
            runners = [
                Contestant(str(i), program_at(entry, shape, texts[i], f"candidate{i}"))
                for i in group
            ]
            try:
                with timer.open(runners, reference_program(entry, shape)) as found:
                    programs = found.run(_SHORT, look=False).programs
            except TimingError:  # of the reference: whoever judges in full will tell it
                programs = {}
            for i in group:
                timed = programs.get(str(i))
                known = timed is not None and timed.rounds and timed.failure is None
                seconds[i] += timed.seconds if timed is not None and known else math.inf
    return seconds


def hold(
    timer: Timer,
    device: Device | None,
    entry: Entry,
    shape: EntryShape,
    options: Options,
    say: Callable[[str], None] | None = None,
) -> Outcome:
    """Times one shape. A failure of the reference or the device is an error of the outcome.

    Args:
        device: whose limits hold; None where no file describes the device at hand.
    """
    try:
        measurement = timer.measure(
            contestants(entry, shape, options),
            reference_program(entry, shape),
            rule=options.rule,
            seed=options.seed,
            say=say,
        )
    except TimingError as error:
        return Outcome(
            entry.name, entry.digest, shape, None, {}, None, None, None, {}, entry.library,
            (f"not timed: {error}",),
        )  # fmt: skip
    return judged(entry, shape, measurement, device, options)


def judged(
    entry: Entry,
    shape: EntryShape,
    measurement: Measurement,
    device: Device | None,
    options: Options,
) -> Outcome:
    """The outcome of a measurement: verdicts, limits and what contradicts them."""
    effect, again, noise = options.smallest_effect, None, 0.0
    if AGAIN in measurement.programs:
        again = judge(measurement, KERNEL, AGAIN, smallest_effect=effect)
        noise = again.ratio.noise if again.ratio is not None else 0.0
    judgements: dict[str, Judgement] = {}
    for name in measurement.programs:
        if name not in (KERNEL, AGAIN):
            judgements[name] = judge(
                measurement, name, KERNEL, smallest_effect=effect, noise_floor=noise
            )
    if entry.library and "eager" in judgements and "library" in options.against:
        judgements["library"] = judgements["eager"]
    lowest = highest = None
    fractions: dict[str, float] = {}
    errors: list[str] = []
    if device is not None and measurement.reference:
        work = _work(shape, measurement.reference)
        highest = roof(work, device, measurement.clocks.get("core_clock_hz"))
        for name, timed in measurement.programs.items():
            if not timed.rounds:
                continue
            lowest = floor(_own_work(work, entry, shape, name), device)
            if lowest.seconds is not None and timed.seconds < lowest.seconds:
                errors.append(
                    f"{name}: {_us(timed.seconds)} is below the {_us(lowest.seconds)} that "
                    f"{device.title} needs at least ({lowest.bound}): the measurement is at fault, "
                    "or the program does less than the spec counts"
                )
            if highest.seconds is not None:
                fractions[name] = highest.seconds / timed.seconds
        lowest = floor(_own_work(work, entry, shape, KERNEL), device)
        errors += [
            f"{name}: {share:.2f} of the roof at the measured clock: above what is possible"
            for name, share in fractions.items()
            if share > 1 and not _saves(entry, shape, name)
        ]
    return Outcome(
        problem=entry.name,
        digest=entry.digest,
        shape=shape,
        measurement=measurement,
        judgements=judgements,
        again=again,
        floor=lowest,
        roof=highest,
        fractions=fractions,
        library=entry.library,
        errors=tuple(errors),
    )


def _work(shape: EntryShape, reference: Mapping[str, Any]) -> Work:
    dtype = shape.dtype or (shape.inputs[0].dtype if shape.inputs else None)
    return Work(
        flop=shape.flop,
        mem_bytes=shape.mem_bytes,
        input_bytes=reference["input_bytes"] + reference["weight_bytes"],
        output_bytes=reference["output_bytes"],
        dtype=dtype,
    )


def _saves(entry: Entry, shape: EntryShape, name: str) -> bool:
    """Whether the program's lowered code is known to compute less than the spec counts."""
    executed = entry.executed_flop.get(shape.name)
    return name in (KERNEL, AGAIN) and executed is not None and executed < (shape.flop or 0.0)


def _own_work(work: Work, entry: Entry, shape: EntryShape, name: str) -> Work:
    if not _saves(entry, shape, name):
        return work
    return replace(work, flop=entry.executed_flop[shape.name])


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Over all shapes: for each opponent the median and geometric mean of the ratios, the worst."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for outcome in outcomes for name in outcome.judgements):
        ratios = [
            (judgement.ratio.value, f"{outcome.problem} {outcome.shape.label}")
            for outcome in outcomes
            if (judgement := outcome.judgements.get(name))
            and judgement.ratio
            and not outcome.errors
        ]
        if not ratios:
            continue
        values = [value for value, _ in ratios]
        worst, where = min(ratios)
        found[name] = {
            "shapes": len(values),
            "median": median(values),
            "geometric_mean": geometric_mean(values),
            "worst": worst,
            "worst_at": where,
        }
    return found
