"""The noun Timer: times programs against each other and says what came of it.

Protocol. Each program has a process of its own, and so has the reference; the timer's process
imports none of them. A round times every program once in a random order and once in its reverse.
For each timed call the timer hands out a seed that nobody has met: the program's process draws
fresh inputs at fresh addresses, a kernel writes over the caches, the device is waited for, and
only then the window opens. Every call's outputs are compared with the reference, after the window
and in the reference's process. See docs/11-bench.md.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Literal, cast

from xesmith.ghost.launch import Program
from xesmith.scratch import ScratchFolder
from xesmith.timing.kinds import LEAST_FLUSH_BYTES, Kind
from xesmith.timing.machine import clocks
from xesmith.timing.statistics import Ratio, StopRule, call, median, ratio_of
from xesmith.worker.client import Conversation, TaskEndedError, WorkerPool
from xesmith.worker.confinement import Confinement

How = Literal["eager", "compile"]

_TIMED_TASK = "xesmith.timing.program_task:serve"
_CHECKER_TASK = "xesmith.timing.checker_task:serve"
_MEMORY_BYTES = 48 << 30
_WARM_ROUNDS = 5
#: of back-to-back calls, by the timer's own clock
_REPEAT_SECONDS = 0.03
_MOST_REPEATS = 2000
_REPEATS = 5
#: as long as a look at the clocks takes
_LOOK_SECONDS = 0.6
_ROUNDS_A_LOOK = 4
#: back-to-back calls may take so much longer than the device says before that is a contradiction
_DEVICE_BOUND = 1.3
#: and those of a candidate: back to back a device runs at a lower clock, and 1.27 is the most that
#: an honest kernel of ours took on an H200
_MOST_BUSY = 1.5
#: of the time of back-to-back calls, that the device is behind at their end where it never waited
_BACKLOG = 0.1
#: what waiting for an idle device takes at most, and the share of the time that may come after it
_WAIT_SECONDS = 30e-6
_WORK_AFTER = 0.02


class TimingError(Exception):
    """A measurement could not be made: the reference or the device failed."""


@dataclass(frozen=True)
class Contestant:
    """A program that is timed. `how`: "compile" puts torch.compile around its Model."""

    name: str
    program: Program
    how: How = "eager"


@dataclass(frozen=True)
class ReferenceProgram:
    """What is right. `float64`: computed in it, unless the program is a Triton kernel itself."""

    program: Program
    float64: bool = True
    rtol: float | None = None
    atol: float | None = None


@dataclass
class Timed:
    """What was seen of one program. All times are seconds.

    `rounds` holds the cold times, two a round; `warm` calls find the caches as a call with the
    same inputs left them. `submit` is what the host took to submit a call: no part of the others.
    `repeat` is the time of a call among many back to back, by the timer's own clock, `backlog`
    the share of it that the device was behind the host at their end. `after` is what the device
    went on for when the window had closed, beyond what asking it takes.
    """

    name: str
    rounds: list[list[float]] = field(default_factory=list[list[float]])
    warm: list[float] = field(default_factory=list[float])
    submit: list[float] = field(default_factory=list[float])
    repeat: list[float] = field(default_factory=list[float])
    backlog: list[float] = field(default_factory=list[float])
    after: list[float] = field(default_factory=list[float])
    starved: int = 0  # calls in which the device may have waited for the host
    checked: int = 0  # calls whose outputs were compared
    error_over_allowed: float | None = None
    build_seconds: float | None = None
    first_call_seconds: float | None = None
    weights: str | None = None
    failure: str | None = None

    @property
    def cold(self) -> list[float]:
        return [seconds for one in self.rounds for seconds in one]

    @property
    def seconds(self) -> float:
        """The median cold time."""
        return median(self.cold)

    @property
    def goes_on(self) -> bool:
        """Whether the device was at work after the window, by more than a wait itself takes."""
        if not self.after or not self.rounds:
            return False
        return median(self.after) > _WAIT_SECONDS + _WORK_AFTER * self.seconds

    @property
    def is_host_bound(self) -> bool:
        """Whether the device waits for the host where calls follow each other."""
        return bool(self.backlog) and median(self.backlog) <= _BACKLOG

    def to_json(self) -> dict[str, Any]:
        def middle(values: Sequence[float]) -> float | None:
            return median(values) if values else None

        return {
            **asdict(self),
            "median_seconds": middle(self.cold),
            "warm_median_seconds": middle(self.warm),
            "submit_median_seconds": middle(self.submit),
            "repeat_median_seconds": middle(self.repeat),
            "after_median_seconds": middle(self.after),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Timed:
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})


@dataclass
class Measurement:
    """All programs of one shape, timed in the same rounds."""

    programs: dict[str, Timed]
    stopped: str
    wall_seconds: float
    seed: int
    flush_bytes: int
    clocks: dict[str, Any]
    reference: dict[str, Any]  # precision, and bytes of inputs, weights and outputs

    def ratio(self, base: str, candidate: str) -> Ratio | None:
        """How many times as fast `candidate` is; None where either failed or few rounds are."""
        one, other = self.programs[base], self.programs[candidate]
        if one.failure or other.failure:
            return None
        try:
            return ratio_of(one.rounds, other.rounds, seed=self.seed)
        except ValueError:
            return None

    def to_json(self) -> dict[str, Any]:
        return {
            **{k: v for k, v in self.__dict__.items() if k != "programs"},
            "programs": {name: timed.to_json() for name, timed in self.programs.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        programs = {name: Timed.from_json(item) for name, item in data["programs"].items()}
        fields: dict[str, Any] = {**data, "programs": programs}
        return cls(**fields)


@dataclass(frozen=True)
class Judgement:
    """A comparison's verdict: `ratio` is base time over candidate time, `reason` says why where
    the interval alone did not decide."""

    verdict: Literal["FASTER", "SLOWER", "SAME", "UNCLEAR", "FAILED"]
    ratio: Ratio | None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        ratio = None if self.ratio is None else self.ratio.to_json()
        return {"verdict": self.verdict, "ratio": ratio, "reason": self.reason}

    def __str__(self) -> str:
        if self.ratio is None:
            return f"{self.verdict}: {self.reason}"
        r = self.ratio
        text = f"{self.verdict} {r.value:.3f}x [{r.low:.3f}, {r.high:.3f}]"
        return f"{text}: {self.reason}" if self.reason else text


def judge(
    measurement: Measurement,
    base: str,
    candidate: str,
    *,
    smallest_effect: float,
    noise_floor: float = 0.0,
) -> Judgement:
    """Whether `candidate` is faster than `base`, from their rounds.

    A FASTER that the timer's own clock contradicts is UNCLEAR: where back-to-back calls of the base
    take what the device says they take, those of the candidate must take less than the base's, and
    not much more than its events say. Where the device waits for the host between the candidate's
    calls, they say nothing of the device; that the host has become slower is told.
    A program whose work goes on when its window has closed has no time.
    """
    one, other = measurement.programs[base], measurement.programs[candidate]
    for timed in (one, other):
        if timed.failure:
            return Judgement("FAILED", None, f"{timed.name}: {timed.failure}")
        if timed.goes_on:
            why = f"its work goes on for {median(timed.after) * 1e6:.1f} us after its window"
            return Judgement("FAILED", None, f"{timed.name}: {why}: on a stream of its own?")
    ratio = measurement.ratio(base, candidate)
    if ratio is None:
        return Judgement("UNCLEAR", None, "too few rounds")
    verdict = call(ratio, smallest_effect=smallest_effect, noise_floor=noise_floor)
    if verdict != "FASTER" or not one.repeat or not other.repeat:
        return Judgement(verdict, ratio)
    base_repeat, repeat = median(one.repeat), median(other.repeat)
    took = f"{repeat * 1e6:.1f} us a call back to back, the base {base_repeat * 1e6:.1f} us"
    if other.is_host_bound:
        slow = f"the host takes {took}" if repeat > base_repeat else None
        return Judgement(verdict, ratio, slow)
    if base_repeat <= _DEVICE_BOUND * one.seconds and repeat >= base_repeat:
        said = "its events say faster, the timer's clock does not"
        return Judgement("UNCLEAR", ratio, f"{said}: {took}")
    if other.backlog and repeat > _MOST_BUSY * other.seconds:
        said = f"its events say {other.seconds * 1e6:.1f} us, the device is at work for longer"
        return Judgement("UNCLEAR", ratio, f"{said}: {took}: outside the window?")
    return Judgement(verdict, ratio)


class Timer:
    """Opens the device's processes, once. A context manager.

    Args:
        python: whose torch and Triton run the programs.
        kind: of the device; None takes the GPU at hand, else the CPU.
        l2_bytes: of the device's last-level cache; at least twice as much is written between calls.
        flush_bytes: written between calls instead, for tests.
        timeout_s: for building a program and its first call.
        off: measures of confinement to leave out, where a driver does not run under them.
    """

    def __init__(
        self,
        python: Path,
        *,
        kind: Kind | None = None,
        l2_bytes: int | None = None,
        flush_bytes: int | None = None,
        timeout_s: float = 120.0,
        off: Sequence[Any] = (),
    ) -> None:
        self._pool = WorkerPool(
            python,
            "time",
            preload=("torch", "triton", _TIMED_TASK.split(":")[0], _CHECKER_TASK.split(":")[0]),
            parallel=16,
            env={"TORCHINDUCTOR_COMPILE_THREADS": "1"},  # else it starts processes of its own
            shared_off=off,
        )
        self._off = tuple(off)
        self._timeout_s = timeout_s
        self._scratch = ScratchFolder("time")
        self._number = 0
        try:
            self.device = self._describe(kind)
        except BaseException:
            self.close()
            raise
        self.kind: Kind = cast(Kind, self.device["kind"])
        self.flush_bytes = flush_bytes or max(LEAST_FLUSH_BYTES, 2 * (l2_bytes or 0))

    def __enter__(self) -> Timer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()
        self._scratch.close()

    def open(
        self,
        contestants: Sequence[Contestant],
        reference: ReferenceProgram,
        *,
        seed: int | None = None,
    ) -> Race:
        """Starts the programs' processes and prepares all at once. A context manager.

        Raises:
            TimingError: the reference fails; a contestant's failure is told in its result.
        """
        names = [contestant.name for contestant in contestants]
        if len(set(names)) != len(names):
            raise ValueError(f"two programs of one name: {names}")
        return Race(self, contestants, reference, secrets.randbits(32) if seed is None else seed)

    def measure(
        self,
        contestants: Sequence[Contestant],
        reference: ReferenceProgram,
        *,
        rule: StopRule | None = None,
        seed: int | None = None,
        say: Callable[[str], None] | None = None,
    ) -> Measurement:
        """`open`, one `Race.run`, and the end of all processes."""
        with self.open(contestants, reference, seed=seed) as race:
            return race.run(rule, say=say)

    def _describe(self, kind: Kind | None) -> dict[str, Any]:
        folder = self.new_folder()
        with self.converse(_TIMED_TASK, folder, ()) as talk:
            return ask(talk, "describe", self._timeout_s, kind=kind)

    def new_folder(self) -> Path:
        self._number += 1
        folder = self._scratch.path / str(self._number)
        folder.mkdir()
        return folder

    def converse(self, task: str, folder: Path, readable: Sequence[Path]) -> Conversation:
        confinement = Confinement(
            readable=tuple(str(path) for path in readable),
            device=getattr(self, "kind", None) != "cpu",
            off=self._off,
        )
        return self._pool.converse(
            task,
            {},
            folder=folder,
            timeout_s=3600.0,
            memory_bytes=_MEMORY_BYTES,
            confinement=confinement,
        )

    @property
    def timeout_s(self) -> float:
        return self._timeout_s


def ask(talk: Conversation, do: str, timeout_s: float, **arguments: Any) -> dict[str, Any]:
    """The answer of a program's process.

    Raises:
        TimingError: it ended, or says that the request failed.
    """
    try:
        reply: Any = talk.ask({"do": do, **arguments}, timeout_s=timeout_s)
    except TaskEndedError as error:
        lines = error.result.stderr_tail.strip().splitlines()
        raise TimingError(f"{error}{': ' + lines[-1] if lines else ''}") from None
    if not isinstance(reply, dict):
        raise TimingError("its process answered with no record")
    answer = cast("dict[str, Any]", reply)
    if "error" in answer:
        raise TimingError(str(answer["error"]))
    return answer


class _Runner:
    """One contestant: its process and what was seen of it."""

    def __init__(self, timer: Timer, contestant: Contestant, folder: Path, shared: Path) -> None:
        self.contestant = contestant
        self.timed = Timed(contestant.name)
        self.file = folder / "outputs.bin"
        self.talk = timer.converse(_TIMED_TASK, folder, (shared,))


class Race:
    """Programs with their processes, ready to be timed; `Timer.open` makes it."""

    def __init__(
        self,
        timer: Timer,
        contestants: Sequence[Contestant],
        reference: ReferenceProgram,
        seed: int,
    ) -> None:
        self._timer = timer
        self._seed = seed
        self._random = Random(seed)
        self._open = contextlib.ExitStack()
        shared = timer.new_folder()
        folders = [timer.new_folder() for _ in contestants]
        try:
            self._checker = self._open.enter_context(timer.converse(_CHECKER_TASK, shared, folders))
            self._runners = [
                _Runner(timer, contestant, folder, shared)
                for contestant, folder in zip(contestants, folders, strict=True)
            ]
            for runner in self._runners:
                self._open.enter_context(runner.talk)
            self._prepare(reference, shared)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Race:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()

    def _prepare(self, reference: ReferenceProgram, shared: Path) -> None:
        seed, file = self._new_seed(), str(shared / "weights.bin")
        about = self.reference = ask(
            self._checker,
            "prepare",
            self._timer.timeout_s,
            kind=self._timer.kind,
            program=reference.program.to_json(),
            seed=seed,
            file=file,
            float64=reference.float64,
            rtol=reference.rtol,
            atol=reference.atol,
        )
        weights, names = about.pop("weights"), about.pop("names")

        def prepare(runner: _Runner) -> None:
            try:
                reply = ask(
                    runner.talk,
                    "prepare",
                    self._timer.timeout_s,
                    kind=self._timer.kind,
                    program=runner.contestant.program.to_json(),
                    how=runner.contestant.how,
                    seed=seed,
                    weights=weights,
                    names=names,
                    file=file,
                    flush_bytes=self._timer.flush_bytes,
                )
            except TimingError as error:
                runner.timed.failure = str(error)
                return
            for name in ("build_seconds", "first_call_seconds", "weights"):
                setattr(runner.timed, name, reply[name])

        with ThreadPoolExecutor(max(1, len(self._runners))) as pool:
            list(pool.map(prepare, self._runners))

    def run(
        self,
        rule: StopRule | None = None,
        *,
        say: Callable[[str], None] | None = None,
        look: bool = True,
    ) -> Measurement:
        """Times all programs until the rule stops it.

        `look`: also at the clocks, while calls run back to back. A second run begins anew.
        """
        rule = rule or StopRule()
        started = time.monotonic()
        for runner in self._runners:
            runner.timed = replace(
                Timed(runner.contestant.name),
                failure=runner.timed.failure,
                build_seconds=runner.timed.build_seconds,
                first_call_seconds=runner.timed.first_call_seconds,
                weights=runner.timed.weights,
            )
        self._round(keep=False)  # the first calls meet cold code, and find how long a lead must be
        self._round(keep=False)
        stopped: str | None = None
        seen: list[float] = []
        count = 0
        while stopped is None and self._running():
            self._round(keep=True)
            count += 1
            if look and count % _ROUNDS_A_LOOK == 1:
                seen += [hz for hz in (clocks(self._timer.kind).get("core_clock_hz"),) if hz]
            rounds = [runner.timed.rounds for runner in self._running()]
            stopped = rule.reason(rounds, time.monotonic() - started)
            if say is not None and rounds and len(rounds[0]) % 10 == 0:
                say(f"{len(rounds[0])} rounds")
        for _ in range(_WARM_ROUNDS):
            for runner in self._shuffled():
                self._call(runner, self._new_seed(), warm=True)
        self._repeat()
        return Measurement(
            programs={runner.timed.name: runner.timed for runner in self._runners},
            stopped=stopped or "no program runs",
            wall_seconds=time.monotonic() - started,
            seed=self._seed,
            flush_bytes=self._timer.flush_bytes,
            clocks=self._look(seen) if look else {},
            reference=self.reference,
        )

    def _new_seed(self) -> int:
        return self._random.getrandbits(31)

    def _running(self) -> list[_Runner]:
        return [runner for runner in self._runners if runner.timed.failure is None]

    def _shuffled(self) -> list[_Runner]:
        running = self._running()
        self._random.shuffle(running)
        return running

    def _round(self, *, keep: bool) -> None:
        """A B C, C B A: each half with inputs of its own, the same for all programs."""
        order = self._shuffled()
        times: dict[str, list[float]] = {}
        for half in (order, order[::-1]):
            seed = self._new_seed()
            for runner in half:
                seconds = self._call(runner, seed, warm=False)
                if seconds is not None:
                    times.setdefault(runner.timed.name, []).append(seconds)
        for runner in self._running():
            if not keep:
                runner.timed.submit.clear()
                runner.timed.after.clear()
                runner.timed.starved = 0
            elif len(times.get(runner.timed.name, ())) == 2:
                runner.timed.rounds.append(times[runner.timed.name])

    def _call(self, runner: _Runner, seed: int, *, warm: bool) -> float | None:
        """One timed call, its outputs compared; None where the program failed, now or before."""
        timed = runner.timed
        if timed.failure is not None:
            return None
        try:
            reply = ask(
                runner.talk,
                "time",
                self._timer.timeout_s,
                seed=seed,
                file=str(runner.file),
                warm=warm,
            )
            seconds = _time(reply, "seconds")
            timed.submit.append(_time(reply, "submit_seconds"))
            timed.after.append(_time(reply, "after_seconds", may_be_zero=True))
            if reply["inputs_changed"]:
                raise TimingError(f"input {reply['inputs_changed'][0]} was changed")
        except TimingError as error:
            timed.failure = str(error)
            return None
        timed.starved += bool(reply["starved"])
        checked = ask(
            self._checker,
            "check",
            self._timer.timeout_s,
            seed=seed,
            file=str(runner.file),
            outputs=reply["outputs"],
        )
        if checked["faults"]:
            timed.failure = f"wrong in a timed call: {checked['faults'][0]}"
            return None
        timed.checked += 1
        worst = checked["error_over_allowed"]
        if worst is not None:
            timed.error_over_allowed = max(worst, timed.error_over_allowed or 0.0)
        if warm:
            timed.warm.append(seconds)
        return seconds

    def _repeat(self) -> None:
        """Back-to-back calls, by this process's clock: what a program says of itself is no part."""
        for number in range(_REPEATS):
            order = self._shuffled()
            for runner in order if number % 2 else order[::-1]:
                timed = runner.timed
                calls = int(_REPEAT_SECONDS / max(timed.seconds, 1e-6)) if timed.rounds else 1
                calls = max(3, min(calls, _MOST_REPEATS))
                begun = time.perf_counter()
                try:
                    reply = ask(
                        runner.talk,
                        "repeat",
                        self._timer.timeout_s,
                        seed=self._new_seed(),
                        calls=calls,
                    )
                    backlog = _time(reply, "backlog", may_be_zero=True)
                except TimingError as error:
                    timed.failure = str(error)
                    continue
                timed.repeat.append((time.perf_counter() - begun) / calls)
                timed.backlog.append(backlog)

    def _look(self, seen: Sequence[float]) -> dict[str, Any]:
        """The device's state while the first program runs back to back, and the highest clock.

        Calls that come one by one run at a higher clock than those: power does not limit them.

        Args:
            seen: clocks between rounds.
        """
        running = [runner for runner in self._running() if runner.timed.rounds]
        if self._timer.kind == "cpu" or not running:
            return {}
        runner = running[0]
        calls = int(_LOOK_SECONDS / max(runner.timed.seconds, 1e-5)) + 1
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(_busy_clocks, self._timer.kind)
            with contextlib.suppress(TimingError):
                ask(
                    runner.talk,
                    "repeat",
                    self._timer.timeout_s,
                    seed=self._new_seed(),
                    calls=calls,
                )
            found = looking.result()
        busy = found.get("core_clock_hz")
        if busy is not None:
            found["busy_core_clock_hz"] = busy
            found["core_clock_hz"] = max([busy, *seen])
        return found


def _busy_clocks(kind: str) -> dict[str, Any]:
    time.sleep(_LOOK_SECONDS / 4)
    return clocks(kind)


def _time(reply: Mapping[str, Any], name: str, *, may_be_zero: bool = False) -> float:
    """A program's process wrote this: it must at least be a time."""
    value = reply.get(name)
    if isinstance(value, (int, float)) and (0 < value < 1e6 or (may_be_zero and value == 0)):
        return float(value)
    raise TimingError(f"its {name} is {value!r}, which is no time")
