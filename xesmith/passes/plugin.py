"""Finds XeSmithPasses.so and loads it into the process of the MLIR Python bindings.

The plugin holds no MLIR of its own: it takes that of the bindings, so their versions must be
the same.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import os
from pathlib import Path
from typing import Any

from xesmith.errors import ToolchainError

#: a plugin elsewhere, as for one that was built by hand
VARIABLE = "XESMITH_PASSES"
PLUGIN = "XeSmithPasses.so"
REFERENCE = "XeSmithPasses.md"

_HERE = Path(__file__).resolve().parent
_BUILD = _HERE.parents[1] / "build" / "passes"
REMEDY = (
    "in a checkout: make passes (it takes g++: apt-get install g++); elsewhere install xesmith "
    "again, its wheel holds them"
)


def plugin_folder() -> Path:
    """The folder that holds the plugin and its reference.

    A checkout's build folder comes before the package's own; XESMITH_PASSES before both.

    Raises:
        ToolchainError: the plugin was not built.
    """
    given = os.environ.get(VARIABLE)
    if given:
        if not Path(given).is_file():
            raise ToolchainError(
                f"{VARIABLE} names no file: {given}", remedy=f"unset {VARIABLE}, or build it there"
            )
        return Path(given).resolve().parent
    for folder in (_BUILD, _HERE):
        if (folder / PLUGIN).is_file():
            return folder
    raise ToolchainError("the MLIR passes are not built", where=str(_BUILD), remedy=REMEDY)


def plugin_path() -> Path:
    """The plugin's file.

    Raises:
        ToolchainError: the plugin was not built.
    """
    given = os.environ.get(VARIABLE)
    folder = plugin_folder()
    return Path(given).resolve() if given else folder / PLUGIN


@functools.lru_cache(maxsize=1)
def load_plugin() -> Any:
    """Loads the bindings and the plugin, registers its passes, and returns the module `mlir`.

    Once per process. A process that holds Triton's own MLIR must not call it.

    Raises:
        ToolchainError: bindings or plugin are missing, or of different versions.
    """
    path = plugin_path()
    try:
        mlir = importlib.import_module("mlir")
        importlib.import_module("mlir.ir")
        importlib.import_module("mlir.passmanager")
        libraries: Any = importlib.import_module("mlir._mlir_libs")
    except ImportError as error:
        raise ToolchainError(
            f"the MLIR Python bindings do not load: {error}",
            remedy="pip install 'xtc-mlir-python-bindings>=22.1.8,<23'",
        ) from error
    library = Path(next(iter(libraries.__path__))) / "libMLIRPythonCAPI.so"
    try:
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)  # the plugin takes its symbols from here
        plugin = ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolchainError(
            f"the MLIR passes do not load: {error}", where=str(path), remedy=REMEDY
        ) from error
    plugin.xesmithLLVMVersion.restype = ctypes.c_char_p
    built_for = plugin.xesmithLLVMVersion().decode()
    found = importlib.metadata.version("xtc-mlir-python-bindings")
    if found.split(".")[:3] != built_for.split(".")[:3]:
        raise ToolchainError(
            f"the MLIR passes were built for MLIR {built_for}, the bindings are {found}",
            where=str(path),
            remedy=f"build the passes again, or pip install xtc-mlir-python-bindings=={built_for}",
        )
    plugin.xesmithRegisterPasses()
    return mlir
