"""The pins of third_party/toolchains.yaml."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from xesmith.assets import asset_folder
from xesmith.errors import UsageError, nearest
from xesmith.toolchain.record import Kind


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CompilerPin(_Strict):
    """A Triton release that can be installed in an environment of its own."""

    kind: Kind
    distribution: str
    version: str
    pythons: tuple[str, ...]  # "3.11": the minor versions that its wheels serve
    requirements: tuple[str, ...]  # pip requirements, exact


class DebianPin(_Strict):
    """Packages of a suite of Debian's archive."""

    suite: str
    component: str
    architecture: str
    keyring: str
    packages: tuple[str, ...]


class NativePin(DebianPin):
    """The Debian packages that carry ocloc, IGC, iga64 and the SPIR-V tools."""

    newest_device: str


class DistributionPackage(_Strict):
    """What another distribution calls its own ocloc."""

    package: str
    install: str


class Pins(_Strict):
    compilers: dict[str, CompilerPin]
    native: NativePin
    triton_plugin: DebianPin
    distribution_packages: dict[str, DistributionPackage]

    def compiler(self, name: str) -> tuple[str, CompilerPin]:
        """The pin called `name`, or the default of the kind `name`.

        Raises:
            UsageError: no such pin; the nearest is named.
        """
        if name in self.compilers:
            return name, self.compilers[name]
        for pin_name, pin in self.compilers.items():
            if pin.kind == name:
                return pin_name, pin
        kinds = {pin.kind for pin in self.compilers.values()}
        raise UsageError(
            f"no toolchain '{name}' can be installed",
            remedy=nearest(name, {*self.compilers, *kinds}),
        )


@lru_cache(maxsize=1)
def load_pins() -> Pins:
    text = (asset_folder("third_party") / "toolchains.yaml").read_text(encoding="utf-8")
    data: Any = yaml.safe_load(text)
    return Pins.model_validate(data)
