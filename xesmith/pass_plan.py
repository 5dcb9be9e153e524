"""The noun PassPlan: passes and switches of the backend for the kernels of a program, as data.

A plan stands beside a kernel file and leaves its source alone: what an entry names is done to
the Triton IR of its kernel between `make_ttir` and `make_ttgir`, or told to the backend by its
environment. `xesmith optimize` writes a plan (passes.json), `xesmith verify --passes` judges it,
`python -m xesmith.hook --passes` applies it.

Standard library only: worker and users' processes import it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from xesmith.errors import UsageError, nearest

#: what `to_text` writes
FILE_NAME = "passes.json"
_VERSION = 1
_VERSION_FIELD = "xesmith_passes"
_BACKENDS = ("xpu", "cuda")

#: in a pipeline, stands for the values and the grid of the launch
LAUNCH = "{launch}"
#: a pass that takes values and no grid
_VALUES_ALONE = f"xesmith-specialize-args{LAUNCH}"

#: switches change what Intel's backend makes, and nothing else of a process
_SWITCH = re.compile(r"TRITON_INTEL_[A-Z0-9_]+")


@dataclass(frozen=True)
class PassEntry:
    """What is done to one kernel.

    kernel: its name as it is launched.
    source: digest of its text (`source_digest`): a kernel of that name with another text gets
        nothing. "" for any.
    pipeline: passes as mlir-opt takes them, run on the TTIR; "" for none. `{launch}` after a
        pass's name gives it `values` and `grid`.
    values, grid: what is taken for granted. The entry is for launches with these values of
        arguments, and this grid, alone; empty and None: for all.
    switches: environment variables of the backend while it compiles the kernel.
    backend: "xpu" or "cuda"; None for both.
    rounds: the results may differ in the last bits, and are held to a tolerance.
    reason: why, for a reader.
    """

    kernel: str
    pipeline: str = ""
    values: Mapping[str, int | float] = field(default_factory=dict[str, "int | float"], hash=False)
    grid: tuple[int, int, int] | None = None
    switches: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    backend: str | None = None
    rounds: bool = False
    reason: str = ""
    source: str = ""

    @property
    def is_for_all_launches(self) -> bool:
        return not self.values and self.grid is None

    @property
    def key(self) -> str:
        """Differs where what is done differs."""
        done = {k: v for k, v in asdict(self).items() if k not in ("reason", "rounds")}
        return hashlib.sha256(json.dumps(done, sort_keys=True).encode()).hexdigest()[:32]

    def applies(
        self,
        kernel: str,
        backend: str,
        values: Mapping[str, Any],
        grid: tuple[int, int, int],
        source: str | None = None,
    ) -> bool:
        """Whether a launch is one of those that the entry is for.

        Args:
            source: the kernel's text; None where it is known to be the right one.
        """
        return (
            self.kernel == kernel
            and (not self.source or source is None or source_digest(source) == self.source)
            and self.backend in (None, backend)
            and self.grid in (None, grid)
            and all(_is_same(values.get(name), value) for name, value in self.values.items())
        )

    def resolved(self, signature: Mapping[str, str]) -> str:
        """The pipeline for a kernel compiled with this signature (parameter -> Triton's type)."""
        return with_values(self.pipeline, signature, self.values, self.grid)


@dataclass(frozen=True)
class PassPlan:
    """Entries in order: a launch gets the first that applies to it."""

    entries: tuple[PassEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def find(
        self,
        kernel: str,
        backend: str,
        values: Mapping[str, Any],
        grid: tuple[int, int, int],
        source: str | None = None,
    ) -> PassEntry | None:
        """The entry for a launch; see `PassEntry.applies`."""
        for entry in self.entries:
            if entry.applies(kernel, backend, values, grid, source):
                return entry
        return None

    def without(self, kernels: Iterable[str]) -> PassPlan:
        """The plan with nothing for these kernels."""
        names = set(kernels)
        if not any(entry.kernel in names for entry in self.entries):
            return self
        return PassPlan(tuple(entry for entry in self.entries if entry.kernel not in names))

    def bound(self, sources: Mapping[str, str]) -> PassPlan:
        """The plan for kernels of these texts alone."""
        return PassPlan(
            tuple(
                replace(entry, source=source_digest(sources[entry.kernel]))
                if entry.kernel in sources
                else entry
                for entry in self.entries
            )
        )

    @property
    def rounds(self) -> bool:
        return any(entry.rounds for entry in self.entries)

    def to_json(self) -> dict[str, Any]:
        return {_VERSION_FIELD: _VERSION, "entries": [asdict(entry) for entry in self.entries]}

    def to_text(self) -> str:
        """The plan's file; "" for an empty plan, so that no plan and an empty one are the same."""
        return json.dumps(self.to_json(), indent=1, sort_keys=True) + "\n" if self else ""

    @classmethod
    def from_json(cls, data: Any, where: str | None = None) -> PassPlan:
        """
        Raises:
            UsageError: it is no plan; names the field.
        """
        if not isinstance(data, dict) or _VERSION_FIELD not in data:
            raise UsageError(
                f"this is no plan of passes: it has no '{_VERSION_FIELD}'",
                where=where,
                remedy=f"xesmith optimize --proposer passes writes one, {FILE_NAME}",
            )
        given = cast("dict[str, Any]", data)
        if given[_VERSION_FIELD] != _VERSION:
            raise UsageError(
                f"the plan has format {given[_VERSION_FIELD]}; this xesmith reads {_VERSION}",
                where=where,
            )
        entries = given.get("entries")
        if not isinstance(entries, list):
            raise UsageError("'entries' is no list", where=where)
        return cls.of_entries(cast("list[Any]", entries), where)

    @classmethod
    def of_entries(cls, items: Iterable[Any], where: str | None = None) -> PassPlan:
        """
        Raises:
            UsageError: one is no entry; names its field.
        """
        return cls(tuple(_entry(item, f"entries[{i}]", where) for i, item in enumerate(items)))

    @classmethod
    def from_text(cls, text: str, where: str | None = None) -> PassPlan:
        """The plan of a file's text; "" is the empty plan.

        Raises:
            UsageError: it is no plan; names the field.
        """
        if not text:
            return NO_PASSES
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the plan of passes is no JSON: {error}", where=where) from error
        return cls.from_json(data, where)


NO_PASSES = PassPlan()


def read_plan(path: str | os.PathLike[str]) -> PassPlan:
    """The plan in a file.

    Raises:
        UsageError: there is none, or it is no plan; names the field.
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the plan of passes can't be read: {error}", where=str(path)) from error
    return PassPlan.from_json({}, str(path)) if not text else PassPlan.from_text(text, str(path))


@functools.lru_cache(maxsize=256)
def source_digest(source: str) -> str:
    """Of a jit function's text, from its `def` on: where it stands and how it is decorated do not
    matter. The text of functions that it calls is no part of it."""
    lines = textwrap.dedent(source).rstrip().splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("def ")), 0)
    text = "\n".join(line.rstrip() for line in lines[start:])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def with_values(
    pipeline: str,
    signature: Mapping[str, str],
    values: Mapping[str, Any],
    grid: tuple[int, int, int] | None,
) -> str:
    """`pipeline` with each `{launch}` replaced by the options that tell values and grid.

    Args:
        signature: parameter -> Triton's type; the compiler has dropped those of type "constexpr".
        values: by parameter; what is no number is left out.
    """
    names = [name for name, kind in signature.items() if kind != "constexpr"]
    told = ",".join(
        f"{index}={_number(values[name])}"
        for index, name in enumerate(names)
        if isinstance(values.get(name), (int, float))
    )
    given = [f"values={told}"] if told else []
    shape = [] if grid is None else ["grid=" + ",".join(str(size) for size in grid)]
    pipeline = pipeline.replace(_VALUES_ALONE, _VALUES_ALONE.replace(LAUNCH, _braced(given)))
    return pipeline.replace(LAUNCH, _braced(given + shape))


def _braced(options: list[str]) -> str:
    return f"{{{' '.join(options)}}}" if options else ""


def _number(value: float) -> str:
    return repr(int(value)) if isinstance(value, (bool, int)) else repr(value)


def _is_same(given: Any, value: float) -> bool:
    """Whether a launch passes this very value: 1 is not 1.0 here, and 0.0 not -0.0."""
    return type(given) in (int, float, bool) and _number(given) == _number(value)


def _entry(item: Any, name: str, where: str | None) -> PassEntry:
    def fault(what: str, remedy: str | None = None) -> UsageError:
        return UsageError(f"{name}: {what}", where=where, remedy=remedy)

    if not isinstance(item, dict):
        raise fault("an entry is an object")
    data = cast("dict[str, Any]", item)
    known = [f.name for f in fields(PassEntry)]
    for key in data:
        if key not in known:
            raise fault(f"unknown field '{key}'", nearest(key, known))
    for key in ("kernel", "pipeline", "reason", "source"):
        if not isinstance(data.get(key, ""), str):
            raise fault(f"'{key}' is no text")
    if not data.get("kernel"):
        raise fault("it names no kernel")
    values: Any = data.get("values") or {}
    switches: Any = data.get("switches") or {}
    if not isinstance(values, dict) or not all(
        isinstance(v, (int, float)) for v in cast("dict[str, Any]", values).values()
    ):
        raise fault("'values' maps arguments to numbers")
    if not isinstance(switches, dict):
        raise fault("'switches' maps variables to texts")
    for variable, value in cast("dict[str, Any]", switches).items():
        if not _SWITCH.fullmatch(variable):
            raise fault(f"'{variable}' is no switch of a backend", "they begin with TRITON_INTEL_")
        if not isinstance(value, str):
            raise fault(f"the switch '{variable}' is no text")
    grid = data.get("grid")
    if grid is not None and (
        not isinstance(grid, (list, tuple))
        or len(cast("list[Any]", grid)) != 3
        or not all(type(size) is int and size > 0 for size in cast("list[Any]", grid))
    ):
        raise fault("'grid' is three positive numbers")
    if data.get("backend") not in (None, *_BACKENDS):
        raise fault(f"unknown backend '{data['backend']}'", nearest(data["backend"], _BACKENDS))
    if not isinstance(data.get("rounds", False), bool):
        raise fault("'rounds' is true or false")
    if not data.get("pipeline") and not switches:
        raise fault("it has neither a pipeline nor switches")
    made: dict[str, Any] = {**data, "values": values, "switches": switches}
    made["grid"] = None if grid is None else tuple(cast("list[int]", grid))
    return PassEntry(**made)
