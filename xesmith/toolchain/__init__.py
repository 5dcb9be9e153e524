"""Toolchains: found on the machine, or installed under the user's cache folder."""

from xesmith.toolchain.discover import find_toolchain, list_toolchains
from xesmith.toolchain.record import KINDS, Kind, NativeTools, Toolchain

__all__ = ["KINDS", "Kind", "NativeTools", "Toolchain", "find_toolchain", "list_toolchains"]
