"""The nouns Toolchain and NativeTools: which compiler lowers, and how it is called.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["xpu", "cuda"]
KINDS: tuple[Kind, ...] = ("xpu", "cuda")


@dataclass(frozen=True)
class NativeTools:
    """The native compiler and the SPIR-V tools, each as a command prefix.

    An empty prefix means that the tool is not on this machine (only possible for tools found
    on PATH; an installed set is complete). `versions` maps "ocloc", "igc", "spirv-tools" and
    the like to what the tools or their packages say; a version that cannot be told is absent.
    """

    ocloc: tuple[str, ...]
    spirv_dis: tuple[str, ...] = ()
    spirv_val: tuple[str, ...] = ()
    iga64: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    source: Literal["path", "cache"] = "path"

    def to_json(self) -> dict[str, Any]:
        return {
            "ocloc": list(self.ocloc),
            "spirv_dis": list(self.spirv_dis),
            "spirv_val": list(self.spirv_val),
            "iga64": list(self.iga64),
            "versions": dict(self.versions),
            "source": self.source,
        }


@dataclass(frozen=True)
class Toolchain:
    """A Triton compiler in some Python environment, with the native tools behind it.

    `python` runs in an environment that holds `triton_distribution`, torch and numpy.
    `native` is None for kind "cuda" (Triton brings its own assembler), and for kind "xpu"
    where no ocloc is on this machine: lowering then stops at SPIR-V and says so.
    """

    name: str  # "xpu-3.3.0b1"
    kind: Kind
    python: Path
    triton_version: str
    triton_distribution: str  # "triton-xpu" | "triton" | "pytorch-triton-xpu"
    native: NativeTools | None
    torch_version: str | None = None
    source: Literal["environment", "cache", "given"] = "environment"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "python": str(self.python),
            "triton_version": self.triton_version,
            "triton_distribution": self.triton_distribution,
            "torch_version": self.torch_version,
            "source": self.source,
            "native": None if self.native is None else self.native.to_json(),
        }
