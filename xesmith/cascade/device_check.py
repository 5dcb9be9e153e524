"""Whether a program computes the same as its reference on a device: cuda, xpu or the CPU.

The rules are those of the level "correctness" (its tolerance, guarded memory and comparison are
the same code), at the spec's own sizes and on the device itself: several seeds and distributions,
inputs that are not contiguous, a repeated call, and one in which no kernel is launched. On a CPU
Triton's interpreter runs the kernels (a pool with TRITON_INTERPRET=1).

Light by rule: standard library here, torch and Triton in the workers.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from xesmith.cascade.fingerprint import fingerprint
from xesmith.ghost.launch import Program
from xesmith.worker.client import Conversation, TaskEndedError, WorkerPool
from xesmith.worker.confinement import Confinement, Measure

Kind = Literal["cuda", "xpu", "cpu"]

#: beside "normal"; each once, with the first seed
DISTRIBUTIONS = ("uniform", "large", "tiny", "zeros", "negative", "special")

_TASK = "xesmith.cascade.device_task:"
PRELOAD = ("torch", "triton", "triton.runtime.interpreter", "xesmith.cascade.device_task")


@dataclass(frozen=True)
class DeviceCase:
    """One shape: the candidate and the reference with its sizes and inputs.

    `float64`: not where the reference is a Triton kernel, whose types are part of its text.
    """

    name: str
    program: Program
    reference: Program
    rtol: float | None = None
    atol: float | None = None
    float64: bool = True


@dataclass(frozen=True)
class Fault:
    """`kind` tells what a baseline may be guilty of too ("layout", "strided", "special",
    "operators"): a candidate may then do the same."""

    kind: str
    text: str  # begins with `where`
    where: str = ""  # the case, and the call in it


#: what is no error by itself: a kernel may be made for contiguous inputs, or return other strides
LIBERTIES = ("layout", "strided", "special", "operators")


@dataclass
class DeviceResult:
    """`faults` empty: right on this device. `liberties`: what a stricter baseline would make
    faults of."""

    kind: Kind
    faults: list[Fault] = field(default_factory=list[Fault])
    liberties: list[Fault] = field(default_factory=list[Fault])
    runs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    measures: tuple[Measure, ...] = ()
    hashes: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_right(self) -> bool:
        return not self.faults

    @property
    def faults_as_used(self) -> list[Fault]:
        """Those with inputs as they mostly are: what no kernel may have that others are held to."""
        odd = tuple(f" ({name}, seed " for name in DISTRIBUTIONS)
        return [f for f in self.faults if not any(text in f.where for text in odd)]


def check_on_device(
    pool: WorkerPool,
    kind: Kind,
    cases: Sequence[DeviceCase],
    folder: Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    baseline: DeviceResult | None = None,
    timeout_s: float = 120.0,
    memory_bytes: int = 16 << 30,
) -> DeviceResult:
    """Judges the candidate in every case.

    Args:
        pool: preloaded with `PRELOAD`; at least two in parallel.
        folder: an empty one.
        baseline: what the kernel that the candidate came from did; liberties that it does not
            take are faults of the candidate, and calls in which it fails itself count for
            nothing. None: liberties are only told.
        timeout_s: for one step (a call, a comparison).

    Raises:
        RuntimeError: the reference fails.
    """
    result = DeviceResult(kind)
    result.hashes = fingerprint(
        cases[0].reference.source, [vars(case) | {"program": None} for case in cases]
    )
    limits: dict[str, Any] = {"timeout_s": 3600.0, "memory_bytes": memory_bytes}
    on_gpu = kind != "cpu"
    reference_folder = folder / "reference"
    arguments = {"kind": kind}
    with pool.converse(
        f"{_TASK}serve_reference",
        arguments,
        folder=reference_folder,
        confinement=Confinement(_beside([c.reference for c in cases]), device=on_gpu),
        **limits,
    ) as reference:
        checks = _Checks(reference, reference_folder / "shared", timeout_s, result)
        for number, case in enumerate(cases):
            state = checks.of_reference(
                "load", program=case.reference.to_json(), seed=seeds[0], float64=case.float64
            )["state"]
            own = folder / f"candidate-{number}"
            confinement = Confinement((str(checks.shared), *_beside([case.program])), device=on_gpu)
            with pool.converse(
                f"{_TASK}serve_candidate", arguments, folder=own, confinement=confinement, **limits
            ) as candidate:
                try:
                    checks.case(candidate, case, own, seeds, state)
                except TaskEndedError as ended:
                    result.faults.append(Fault("process", f"{case.name}: {ended}", case.name))
                    continue
                ended = candidate.finish()
                result.measures = ended.measures
    taken = {fault.kind for fault in baseline.liberties} if baseline else set(LIBERTIES)
    result.faults += [fault for fault in result.liberties if fault.kind not in taken]
    if baseline is not None:
        beyond = {fault.where for fault in baseline.faults}
        result.faults = [fault for fault in result.faults if fault.where not in beyond]
    return result


def _beside(programs: Sequence[Program]) -> tuple[str, ...]:
    return tuple({str(Path(program.path).resolve().parent) for program in programs})


class _Checks:
    def __init__(
        self, reference: Conversation, shared: Path, timeout_s: float, result: DeviceResult
    ) -> None:
        self._reference = reference
        self.shared = shared
        self._timeout_s = timeout_s
        self._result = result

    def of_reference(self, do: str, **message: Any) -> dict[str, Any]:
        answer = self._reference.ask({"do": do, **message}, timeout_s=self._timeout_s)
        if "error" in answer:
            raise RuntimeError(f"the reference fails: {answer['error']}")
        return answer

    def case(
        self,
        candidate: Conversation,
        case: DeviceCase,
        folder: Path,
        seeds: Sequence[int],
        state: Any,
    ) -> None:
        asked = [(seed, "normal", "usual") for seed in seeds]
        asked.append((seeds[0], "normal", "usual"))  # the first once more
        asked += [(seeds[0], name, "usual") for name in DISTRIBUTIONS]
        asked += [(seeds[0], "normal", "strided"), (seeds[0], "normal", "left out")]
        loaded = candidate.ask(
            {
                "do": "load",
                "program": case.program.to_json(),
                "seed": seeds[0],
                "state": state,
                "file": str(self.shared / "state.bin"),
            },
            timeout_s=self._timeout_s,
        )
        if "error" in loaded:
            self._result.faults.append(
                Fault("raised", f"{case.name}: {loaded['error']}", case.name)
            )
            return
        made: dict[str, dict[str, Any]] = {}
        first: bytes | None = None
        for number, (seed, distribution, how) in enumerate(asked):
            key = f"{distribution}-{seed}"
            if key not in made:
                made[key] = self.of_reference("make", key=key, seed=seed, distribution=distribution)
            if not made[key]["finite"] and distribution != "special":
                continue  # the function is not defined there
            where = f"{case.name} ({distribution}, seed {seed}" + (
                ")" if how == "usual" else f", {how})"
            )
            run = candidate.ask(
                {
                    "do": "call",
                    "inputs": made[key]["inputs"],
                    "file": str(self.shared / f"{key}.bin"),
                    "how": how,
                    "number": number,
                },
                timeout_s=self._timeout_s,
            )
            if how == "left out":
                if "error" not in run and self._bytes(folder, number) == first:
                    self._fault("kernels", where, "the outputs are the same without kernels")
                continue
            if "error" in run:
                if how != "strided":  # it may refuse those
                    kind = "special" if distribution == "special" else "raised"
                    self._fault(kind, where, run["error"])
                continue
            compared = self._compare(case, key, run, folder, number)
            self._result.runs.append({"where": where, **_without(run, "outputs"), **compared})
            self._judge(where, distribution, how, run, compared)
            if number == 0:
                first = self._bytes(folder, number)
            elif number == len(seeds):
                self._result.runs[-1]["repeats_bitwise"] = self._bytes(folder, number) == first

    def _compare(
        self, case: DeviceCase, key: str, run: Mapping[str, Any], folder: Path, number: int
    ) -> dict[str, Any]:
        path = folder / f"outputs-{number}.bin"
        # The reference's process may read its own folder alone: what was left is copied there.
        copy = self.shared.parent / path.name
        copy.write_bytes(self._bytes(folder, number))
        answer = self._reference.ask(
            {
                "do": "compare",
                "key": key,
                "outputs": run["outputs"],
                "devices": run["devices"],
                "path": str(copy),
                "rtol": case.rtol,
                "atol": case.atol,
            },
            timeout_s=self._timeout_s,
        )
        copy.unlink()
        if "error" in answer:  # what the candidate says of its outputs does not fit them
            said = f"what it left as its outputs cannot be read: {answer['error']}"
            return {"faults": [said], "layout": [], "error_over_allowed": None}
        return answer

    def _judge(
        self,
        where: str,
        distribution: str,
        how: str,
        run: Mapping[str, Any],
        compared: Mapping[str, Any],
    ) -> None:
        wrong = "special" if distribution == "special" else "strided" if how != "usual" else "wrong"
        for text in compared["faults"]:
            self._fault(wrong, where, text)
        for text in compared["layout"]:
            self._fault("layout", where, text)
        if not run["launches"]:
            self._fault("kernels", where, "no kernel is launched")
        for index in run["inputs_changed"]:
            self._fault("inputs", where, f"input {index} was changed")
        for before, behind in run["broken_guards"]:
            self._fault("outside", where, f"{before + behind} bytes outside a tensor were written")
        if run["operators"]:
            names = ", ".join(sorted(run["operators"]))
            self._fault("operators", where, f"computes with PyTorch: {names}")
        if run["threads_left"]:
            self._fault("threads", where, f"{run['threads_left']} threads are still running")

    def _fault(self, kind: str, where: str, text: str) -> None:
        kept = self._result.liberties if kind in LIBERTIES else self._result.faults
        kept.append(Fault(kind, f"{where}: {text}", where))

    @staticmethod
    def _bytes(folder: Path, number: int) -> bytes:
        """What the candidate left, which is at work still: a link or a pipe counts as nothing."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(folder / f"outputs-{number}.bin", flags)
        except OSError:
            return b""
        with open(descriptor, "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


def _without(run: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key != name}
