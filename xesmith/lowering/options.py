"""Launch options, spelled as the compiler at hand wants them.

Intel's Triton changed its spelling between versions, and ignores a value that it does not
know: `grf_mode='256'` on 3.3.0b1 compiles with 128 registers and exit code 0. Here an option
is translated, or it is an error.

Runs in worker processes: standard library only.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: our names of the GRF modes (those of newer compilers) -> those of older ones
_OLD_GRF_NAMES = {"128": "small", "256": "large", "auto": "auto", "default": "default"}
_GRF_NAMES = {old: new for new, old in _OLD_GRF_NAMES.items()} | {
    name: name for name in ("128", "256", "512", "auto", "default")
}
_SAME_OPTION = {"warp_size": "threads_per_warp", "threads_per_warp": "warp_size"}

#: what every launch reports, whether it was given or not
_ALWAYS_REPORTED = ("num_warps", "num_stages", "num_ctas")


class OptionError(Exception):
    """An option that the compiler would refuse or ignore. Its text is one sentence."""


@dataclass(frozen=True)
class Options:
    """`compiler`: what to hand to this compiler. `given`: the same in our spelling."""

    compiler: dict[str, Any]
    given: dict[str, Any]


def normalise(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Options:
    """Translates `options` of a launch for a compiler whose options are `defaults`.

    Args:
        options: keyword arguments of the launch that are no kernel parameters.
        defaults: every option that the compiler knows, with its default.

    Raises:
        OptionError: the compiler does not know the option, or would ignore its value.
    """
    compiler: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for name, value in options.items():
        known = _known_name(name, defaults)
        if known == "grf_mode":
            given["grf_mode"] = grf_mode(value)
            compiler["grf_mode"] = _spelled(given["grf_mode"], defaults["grf_mode"])
            continue
        if known in compiler and compiler[known] != value:
            raise OptionError(f"options '{name}' and '{_SAME_OPTION[name]}' contradict each other")
        compiler[known] = value
        given["threads_per_warp" if known in _SAME_OPTION else known] = value
    return Options(compiler=compiler, given=given)


def reported(given: Mapping[str, Any], resolved: Mapping[str, Any]) -> dict[str, Any]:
    """What a Launch tells: the options given, and the main ones that were left to default."""
    always = {name: resolved[name] for name in _ALWAYS_REPORTED if name in resolved}
    if "grf_mode" in resolved:
        always["grf_mode"] = "default"
    return {**always, **given}


def options_of_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What a Launch tells of a compile of which only Triton's metadata is known."""
    given: dict[str, Any] = {}
    mode: Any = metadata.get("grf_mode")
    if isinstance(mode, str):
        try:
            given["grf_mode"] = grf_mode(mode)
        except OptionError:
            given["grf_mode"] = mode
    return reported(given, metadata)


def grf_mode(value: Any) -> str:
    """Our name of a GRF mode: '128', '256', '512', 'auto' or 'default'."""
    name = _GRF_NAMES.get(str(value))
    if name is None:
        raise OptionError(f"grf_mode '{value}' does not exist; known: {', '.join(_GRF_NAMES)}")
    return name


def build_flags(mode: str) -> str:
    """The flag of the native compiler that Triton passes for a GRF mode of ours."""
    if mode in ("128", "256", "512"):
        return f"-cl-intel-{mode}-GRF-per-thread"
    return "-cl-intel-enable-auto-large-GRF-mode" if mode == "auto" else ""


def _known_name(name: str, defaults: Mapping[str, Any]) -> str:
    if name in defaults:
        return name
    other = _SAME_OPTION.get(name)
    if other in defaults:
        return str(other)
    close = difflib.get_close_matches(name, defaults, n=1, cutoff=0.6)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    raise OptionError(f"this compiler has no launch option '{name}'{hint}")


def _spelled(mode: str, default: Any) -> str:
    """`mode` as this compiler spells it; its default tells which spelling that is."""
    if not isinstance(default, (tuple, list)) or "small" not in default:
        return mode
    if mode not in _OLD_GRF_NAMES:
        raise OptionError(
            f"this compiler would ignore grf_mode '{mode}'; it knows 128, 256, auto and default"
        )
    return _OLD_GRF_NAMES[mode]
