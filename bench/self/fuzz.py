"""Mutated Triton IR through bounds, parser, checks, report and transforms.

    python bench/self/fuzz.py [--texts 10000] [--first 0] [--out bench/results/fuzz.json] [--json]
    python bench/self/fuzz.py --show 4711    # the text of a seed

A text is TTIR or TTGIR of a problem with one to four mutations, the same for the same seed and
compiler. It must give a result or an error, with a position where MLIR's parser or a pass refuses
it; never an end of the process, a time-out or another exception. Batches run in child processes, so
that what ends one is a failure with its seed. Exit code 1 where there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xesmith import __version__
from xesmith.bench import load_problem
from xesmith.device import load_device
from xesmith.engine.problem import load_problem as load_kernel
from xesmith.errors import UnreadableLevelError
from xesmith.lowering import Lowerer
from xesmith.passes.dump import with_launch
from xesmith.passes.mlir import check_bounds
from xesmith.passes.pipeline import run_pipeline
from xesmith.toolchain import find_toolchain

#: between them every pass has work to do in these
PROBLEMS = ("gemm", "gemm_rebuilt", "flash_attention", "layer_norm", "swiglu")
CHECKS = "checks,xesmith-report"
TRANSFORMS = (
    "xesmith-hoist-invariant,xesmith-narrow-offsets{launch},xesmith-demote-float64,"
    "xesmith-drop-true-masks{launch},xesmith-exp2"
)
SPECIALIZE = "xesmith-specialize-args{launch}"
BATCH = 100
#: one batch takes about two seconds
BATCH_SECONDS = 120
#: of a child's address space: what asks for more ends it, and counts as a crash
CHILD_BYTES = 8 << 30

_TOKEN = re.compile(r'"[^"\n]*"|%[\w#]+|[#!]?[\w.]+|[^\s\w]')
_NUMBER = re.compile(r"(?<![\w.%#])\d+")
_NUMBERS = (
    "0", "1", "-1", "2", "3", "7", "31", "63", "64", "65535", "2147483647", "2147483648",
    "-2147483648", "4294967296", "9223372036854775807", "-9223372036854775808",
    "18446744073709551616", "1" * 40, "1.5", "0x7F800000",
)  # fmt: skip
_TYPES = ("i1", "i8", "i16", "i32", "i64", "i65", "index", "f16", "bf16", "f32", "f64", "f8E5M2")
_TYPE = re.compile(r"\b(?:i1|i8|i32|i64|f16|f32|f64|index)\b")

Corpus = list[tuple[str, str]]  # a text, and the pipeline of transforms with its launch


def corpus() -> Corpus:
    """TTIR and TTGIR of every launch of the problems, each at its first shape."""
    texts: Corpus = []
    device, toolchain = load_device("bmg-g31"), find_toolchain(None, "xpu")
    with Lowerer(toolchain, device, parallel=1) as lowerer:
        for name in PROBLEMS:
            problem = load_kernel(load_problem(name).kernel)
            run = lowerer.run(next(iter(problem.programs().values())), native=False)
            for lowering in run.lowerings:
                for level in ("ttir_generic", "ttgir_generic"):
                    if level in lowering.levels:
                        text = Path(lowering.levels[level]).read_text("utf-8")
                        texts.append(
                            (text, with_launch(f"{SPECIALIZE},{TRANSFORMS}", lowering.launch))
                        )
    return texts


def _span(text: str, chance: random.Random, most: int = 400) -> tuple[int, int]:
    start = chance.randrange(len(text) + 1)
    return start, min(len(text), start + chance.randint(1, most))


def _bytes(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chr(chance.choice((*range(128), 0x80, 0xE9, 0x2028))) + text[at + 1 :]
    return text


def _lines(text: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
    how = chance.randrange(4)
    if how == 0:
        del lines[a]
    elif how == 1:
        lines.insert(b, lines[a])
    elif how == 2:
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines[a] = lines[b]
    return "".join(lines)


def _replaced(text: str, pattern: re.Pattern[str], chance: random.Random, new: str | None) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    at = chance.choice(found)
    other = chance.choice(found).group() if new is None else new
    return text[: at.start()] + other + text[at.end() :]


def _tokens(text: str, chance: random.Random) -> str:
    return _replaced(text, _TOKEN, chance, None)


def _names(text: str, chance: random.Random) -> str:
    return _replaced(text, re.compile(r'"[a-z_]+\.[\w.]+"'), chance, None)


def _operands(text: str, chance: random.Random) -> str:
    return _replaced(text, re.compile(r"%[\w#]+"), chance, None)


def _everywhere(text: str, pattern: str, chance: random.Random) -> str:
    """One match of the pattern, everywhere, with another number in it: types still agree."""
    found = re.findall(pattern, text)
    if not found:
        return text
    old = chance.choice(found)
    return text.replace(
        old, _replaced(old, re.compile(r"\d+"), chance, chance.choice(_NUMBERS[:12]))
    )


def _shapes(text: str, chance: random.Random) -> str:
    return _everywhere(text, r"<(?:\d+x)+", chance)


def _layouts(text: str, chance: random.Random) -> str:
    return _everywhere(text, r"\w+ = (?:\[[\d, ]+\]|\d+)(?=[,}])", chance)


def _attributes(text: str, chance: random.Random) -> str:
    return _replaced(
        text, re.compile(r"\w+ = [^,<>{}]*(?=[,}])"), chance, chance.choice((None, "x", ""))
    )


def _triton_names(text: str, chance: random.Random) -> str:
    """Operations of Triton take any operands in stock MLIR: readers must too."""
    return _replaced(text, re.compile(r'"ttg?\.[\w.]+"(?=\()'), chance, None)


def _numbers(text: str, chance: random.Random) -> str:
    return _replaced(text, _NUMBER, chance, chance.choice(_NUMBERS))


def _types(text: str, chance: random.Random) -> str:
    """One type, or everywhere one for another: that may still verify."""
    new = chance.choice(_TYPES)
    if chance.random() < 0.5:
        return _replaced(text, _TYPE, chance, new)
    return re.sub(rf"\b{chance.choice(_TYPE.findall(text) or ['i32'])}\b", new, text)


def _brackets(text: str, chance: random.Random) -> str:
    if chance.random() < 0.5:
        return _replaced(
            text, re.compile(r"[<>\[\]{}()]"), chance, chance.choice([*"<>[]{}()", ""])
        )
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice("<[{(") * chance.choice((1, 8, 200, 300, 20_000)) + text[at:]


def _deletion(text: str, chance: random.Random) -> str:
    start, end = _span(text, chance)
    return text[:start] + text[end:]


def _duplication(text: str, chance: random.Random) -> str:
    start, end = _span(text, chance)
    return text[:end] + text[start:end] * chance.choice((1, 1, 1, 30)) + text[end:]


#: those that leave a text which may still parse come more often
MUTATIONS: tuple[Callable[[str, random.Random], str], ...] = (
    _bytes, _lines, _lines, _tokens, _names, _operands, _operands, _operands, _numbers, _numbers,
    _types, _types, _brackets, _deletion, _duplication, *(_shapes, _layouts, _attributes) * 3,
    *(_triton_names,) * 5,
)  # fmt: skip


def mutated(texts: Corpus, seed: int) -> tuple[str, str]:
    """The text of a seed, and the transforms to run on it."""
    chance = random.Random(seed)
    text, transforms = chance.choice(texts)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        text = chance.choice(MUTATIONS)(text, chance) or " "
    if seed % 2:  # as often without the first, whose refusal of a value ends a pipeline
        first, _, rest = transforms.partition("},")
        transforms = f"{first.partition('(')[0]}({rest}"
    return text, transforms


def outcome(text: str, transforms: str) -> str:
    """ "result", "refused" (by bounds), "error" (with a position), or what else became of it."""
    try:
        check_bounds(text)
    except UnreadableLevelError:
        return "refused"
    for pipeline in (CHECKS, transforms):
        try:
            run_pipeline(text, pipeline)
        except UnreadableLevelError as error:
            bounded = "nested deeper" in error.what or "no tile" in error.what
            return "error" if error.where or bounded else f"no position: {error.what}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:300]
    return "result"


def child(path: Path, first: int, count: int) -> None:
    """Writes a line before and after each text: the last one names what ended the process."""
    resource.setrlimit(resource.RLIMIT_AS, (CHILD_BYTES, CHILD_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    texts = [(text, transforms) for text, transforms in json.loads(path.read_text("utf-8"))]
    for seed in range(first, first + count):
        print(seed, flush=True)
        print(json.dumps(outcome(*mutated(texts, seed))), flush=True)


def batch(path: Path, first: int, count: int) -> list[tuple[int, str]]:
    """The outcome of each seed; where the child ends early the rest gets a child of its own."""
    command = [sys.executable, __file__, "--child", str(path), str(first), str(count)]
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONFAULTHANDLER": ""}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=BATCH_SECONDS, env=environment, check=False
        )
        ended, said, why = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        ended, said, why = None, error.stdout or b"", error.stderr or b""
    lines = said.decode("utf-8", "replace").splitlines()
    found = [(int(a), json.loads(b)) for a, b in zip(lines[::2], lines[1::2], strict=False)]
    if len(found) == count and ended == 0:
        return found
    seed = first + len(found)
    tail = why.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
    how = "does not end" if ended is None else f"ends the process ({ended}): {tail[0][:200]}"
    found.append((seed, how))
    return found + (
        batch(path, seed + 1, first + count - seed - 1) if seed + 1 < first + count else []
    )


def fuzz(first: int, texts: int, jobs: int) -> dict[str, Any]:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.json"
        path.write_text(json.dumps(corpus()), "utf-8")
        starts = range(first, first + texts, BATCH)
        sizes = [min(BATCH, first + texts - start) for start in starts]
        with ThreadPoolExecutor(jobs) as pool:
            found = [
                item
                for part in pool.map(batch, [path] * len(sizes), starts, sizes)
                for item in part
            ]
    counts = Counter(
        how if how in ("result", "refused", "error") else "failure" for _, how in found
    )
    return {
        "texts": len(found),
        "first_seed": first,
        "result": counts["result"],
        "error_with_position": counts["error"],
        "refused_by_bounds": counts["refused"],
        "failures": [
            {"seed": seed, "what": how}
            for seed, how in found
            if how not in ("result", "refused", "error")
        ],
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", type=int, metavar="SEED")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(Path(given.child[0]), int(given.child[1]), int(given.child[2]))
        return 0
    if given.show is not None:
        print(mutated(corpus(), given.show)[0])
        return 0
    found = fuzz(given.first, given.texts, given.jobs)
    if given.out:
        toolchain = find_toolchain(None, "xpu")
        provenance = {
            "xesmith": __version__,
            "compiler": f"{toolchain.triton_distribution} {toolchain.triton_version}",
            "python": platform.python_version(),
            "date": time.strftime("%Y-%m-%d"),
        }
        given.out.write_text(json.dumps({"provenance": provenance, **found}, indent=1) + "\n")
    print(json.dumps(found) if given.json else json.dumps(found, indent=1))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
