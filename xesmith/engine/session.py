"""A session: a device, a toolchain and the workers that lower and interpret for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence

from xesmith.cascade.correctness import CorrectnessChecker, interpreter_pool
from xesmith.cascade.examine import Examination, examine
from xesmith.cascade.translation import TranslationChecker
from xesmith.device import Device, load_device
from xesmith.engine.measuring import Measurer
from xesmith.engine.problem import Problem
from xesmith.lowering.lowerer import Lowerer
from xesmith.lowering.record import GhostRun
from xesmith.pass_plan import NO_PASSES, PassPlan
from xesmith.toolchain import Toolchain, find_toolchain

DEFAULT_TARGET = "bmg-g31"
DEFAULT_TIMEOUT_S = 120.0


class Session:
    """Opens what judging needs, once. A context manager.

    Args:
        target: name of the device.
        toolchain: name of the compiler; None takes the first that there is.
        parallel: programs at once.
        timeout_s: for lowering one program at one shape, and for interpreting it.

    Raises (from the constructor):
        UsageError: no such device or toolchain.
        ToolchainError: the toolchain is missing or broken.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        toolchain: str | None = None,
        parallel: int = 2,
        cache: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self.device: Device = load_device(target)
        self.toolchain: Toolchain = find_toolchain(
            toolchain, self.device.kind, native=self.device.kind == "xpu"
        )
        self.lowerer = Lowerer(
            self.toolchain, self.device, parallel=parallel, cache=cache, timeout_s=timeout_s
        )
        self._pool = interpreter_pool(self.toolchain.python, parallel=parallel)
        self.checker = CorrectnessChecker(
            self._pool,
            backend=self.device.kind,
            target=self._target_properties(),
            timeout_s=timeout_s,
        )

        self.translation = TranslationChecker(parallel=parallel, timeout_s=timeout_s)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()  # ends what may still write into the checker's folder
        self.checker.close()
        self.translation.close()
        self.lowerer.close()

    @property
    def description(self) -> dict[str, str | None]:
        """What judged, for reports and the ledger."""
        native = self.toolchain.native
        return {
            "device": self.device.name,
            "device_title": self.device.title,
            "kind": self.device.kind,
            "compiler": f"{self.toolchain.triton_distribution} {self.toolchain.triton_version}",
            "native_compiler": None if native is None else native.versions.get("ocloc"),
            "igc": None if native is None else native.versions.get("igc"),
            "torch": self.toolchain.torch_version,
        }

    def examine(
        self, problem: Problem, sources: Sequence[str], plans: Sequence[PassPlan] = ()
    ) -> list[dict[str, Examination]]:
        """For each source of the problem: its examination at every shape, by shape name.

        Args:
            plans: of passes, one for each source; () for none.
        """
        plans = plans or [NO_PASSES] * len(sources)
        pairs = zip(sources, plans, strict=True)
        programs = [problem.programs(source, plan) for source, plan in pairs]
        runs = iter(self.lowerer.run_many([p for shapes in programs for p in shapes.values()]))
        return [
            {name: examine(next(runs), self.device, variant=name) for name in shapes}
            for shapes in programs
        ]

    def runs(self, problem: Problem, source: str, passes: PassPlan) -> dict[str, GhostRun]:
        """What the lowering of a source of the problem left at every shape, by shape name."""
        programs = problem.programs(source, passes)
        lowered = self.lowerer.run_many([*programs.values()])
        return dict(zip(programs, lowered, strict=True))

    @contextlib.contextmanager
    def measuring(self, say: Callable[[str], None]) -> Generator[Measurer | None]:
        """What times candidates on this machine, where it has the device; else None."""
        measurer = Measurer.find(self.toolchain.python, self.device, say)
        try:
            yield measurer
        finally:
            if measurer is not None:
                measurer.close()

    def _target_properties(self) -> dict[str, object]:
        return self.device.target_properties() if self.device.kind == "xpu" else {}
