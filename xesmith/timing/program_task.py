"""The process of one timed program: makes inputs, opens the window, closes it, hands out results.

The timer orders every step over the channel and decides what is called when. On a GPU the launches
have to come from the program's own process; its times are the device's, taken with functions that
were at hand before the program was imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch

from xesmith.ghost.launch import Program
from xesmith.timing.accelerator import Accelerator, kind_at_hand, open_accelerator
from xesmith.timing.kinds import Kind
from xesmith.timing.late_inputs import hold_back
from xesmith.timing.machine import describe_device
from xesmith.timing.programs import LoadedProgram, get, load_weights, put, serve_methods, tensors
from xesmith.worker.channel import Channel

_MOST_LEADS = 64


def serve(arguments: dict[str, Any], folder: Path, channel: Channel) -> None:
    """Answers {"do": name, ...} by that method below, until there are no more questions."""
    del arguments, folder
    serve_methods(_Timed(), channel)


class _Timed:
    def __init__(self) -> None:
        self.path = ""

    def describe(self, kind: Kind | None) -> dict[str, Any]:
        """Opens the device of that kind (None: the one at hand) and tells what it is."""
        accelerator = open_accelerator(kind or kind_at_hand())
        return describe_device(accelerator)

    def prepare(
        self,
        kind: Kind,
        program: dict[str, Any],
        how: str,
        seed: int,
        weights: list[dict[str, Any]] | None,
        names: list[str],
        file: str,
        flush_bytes: int,
    ) -> dict[str, Any]:
        """Imports the program, builds its Model and calls it once, with inputs of `seed`.

        `how`: "eager" or "compile" (through torch.compile). `weights`, `names`: the layout of the
        reference's state_dict in `file`; None keeps the program's own.
        """
        accelerator = open_accelerator(kind)
        # All that measures is made before anything of the program runs.
        self._accelerator: Accelerator = accelerator
        self._flush = accelerator.flush_buffer(flush_bytes)
        self._small = torch.ones(1 << 16, device=accelerator.device)
        self._start, self._end = accelerator.mark(), accelerator.mark()
        self._leads = 1 if accelerator.has_queue else 0
        self._value = 0
        self.path = program["path"]
        started = accelerator.clock()
        self._program = LoadedProgram(Program.from_json(program), accelerator)
        model = self._program.model(seed)
        given = [] if weights is None else get(weights, Path(file), accelerator.device)
        how_weights = load_weights(model, dict(zip(names, given, strict=True)))
        if how == "compile":
            model = cast(Any, torch).compile(model)
        self._model: Any = model
        accelerator.synchronize()
        built = accelerator.clock()
        inputs = self._program.inputs(seed)
        accelerator.synchronize()
        before_call = accelerator.clock()
        self._call(inputs)
        accelerator.synchronize()
        return {
            "weights": how_weights,
            "build_seconds": built - started,
            "first_call_seconds": accelerator.clock() - before_call,
        }

    def time(self, seed: int, file: str, warm: bool) -> dict[str, Any]:
        """One timed call with inputs of `seed`; its outputs are written to `file`.

        `warm`: after a call with the same inputs, the caches as that left them.
        """
        accelerator = self._accelerator
        inputs = self._program.inputs(seed)
        before = [x.clone() for x in inputs if isinstance(x, torch.Tensor)]
        if warm:
            self._call(inputs)
        else:
            self._write_flush()
        release = hold_back(inputs)
        accelerator.synchronize()
        for _ in range(self._leads):  # keeps the device at work while the host submits the call
            if warm:
                self._small.expand(1024, -1).sum()  # as long, and leaves the caches alone
            else:
                self._write_flush()
        release()
        del release
        self._start.record()
        begun = accelerator.clock()
        output = self._call(inputs)
        self._end.record()
        submitted = accelerator.clock()
        # Where the device had come to the start before the host was done, it may have waited.
        starved = accelerator.has_queue and self._start.query()
        self._end.synchronize()
        ended = accelerator.clock()
        accelerator.synchronize()  # other queues may be at work still
        done = accelerator.clock()
        accelerator.synchronize()  # what it costs to ask an idle device about all its queues
        went_on = max(0.0, 2 * done - ended - accelerator.clock())
        seconds = self._start.elapsed_time(self._end) / 1e3
        if starved and self._leads < _MOST_LEADS:
            self._leads *= 2
        outputs = list(tensors(output))
        layout = put(outputs, Path(file))
        after = [x for x in inputs if isinstance(x, torch.Tensor)]
        changed = [
            i for i, (a, b) in enumerate(zip(before, after, strict=True)) if not _same_bits(a, b)
        ]
        return {
            "seconds": seconds,
            "submit_seconds": submitted - begun,
            "after_seconds": went_on,
            "starved": starved,
            "outputs": layout,
            "inputs_changed": changed,
        }

    def repeat(self, seed: int, calls: int) -> dict[str, Any]:
        """`calls` calls back to back, then waits for the device: for whoever holds the clock.

        "backlog": the share of that time in which all was submitted and the device still at work.
        """
        inputs = self._program.inputs(seed)
        self._accelerator.synchronize()
        clock = self._accelerator.clock
        begun = clock()
        for _ in range(calls):
            self._call(inputs)
        submitted = clock()
        self._accelerator.synchronize()
        ended = clock()
        return {"backlog": (ended - submitted) / (ended - begun)}

    def _call(self, inputs: list[Any]) -> Any:
        with torch.no_grad():
            return self._model(*inputs)

    def _write_flush(self) -> None:
        # A value unlike the last: a kernel has to write every line. `zero_` may be a copy engine.
        self._value = self._value % 1000 + 1
        self._flush.fill_(self._value)


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal, a NaN equalling the same NaN."""
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
