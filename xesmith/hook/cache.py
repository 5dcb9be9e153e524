"""Triton's cache manager while the hook is in place.

TRITON_CACHE_MANAGER names it, so importing this module is how a process learns of the hook.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from xesmith.ghost.foreign import foreign
from xesmith.hook import install
from xesmith.hook.settings import USERS_CACHE_MANAGER

install.bootstrap()


def _base() -> Any:
    """The manager that the user has set, or Triton's own."""
    named = os.environ.get(USERS_CACHE_MANAGER)
    if not named:
        return foreign("triton.runtime.cache").FileCacheManager
    module, _, name = named.partition(":")
    return getattr(importlib.import_module(module), name)


_Base: Any = _base()


class Cache(_Base):
    """Keeps a kernel under the key of its transform, and none whose transform failed."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self._kernels_key = None if override or dump else key
        _Base.__init__(self, key, override=override, dump=dump)

    def get_group(self, filename: str) -> Any:
        # Kernels are kept as groups, and this is asked first; the C modules that Triton builds
        # and keeps here too are single files, which no transform concerns.
        if self._kernels_key is not None:
            key = install.cache_key(self._kernels_key)
            if key != self._kernels_key:
                _Base.__init__(self, key)
        return _Base.get_group(self, filename)

    def put_group(self, filename: str, group: dict[str, str]) -> Any:
        return _Base.put_group(self, filename, group) if install.may_be_kept() else None
