"""Where the machine code of the loops is kept: beside their source if that can be written, else where numba finds room.

`kinrank warmup` compiles everything once, when an image is made or a package installed. Whoever runs it later may not
be allowed to write there, nor have a home to write to: code that is beside the source is still read, and loops that
are not there are compiled for this process only.
"""

from __future__ import annotations

import os
from typing import Any

from numba.core import caching as _numba_caching

caching: Any = _numba_caching  # not typed
_IN_TREE: Any = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator


class _BesideSource(_IN_TREE):  # type: ignore[misc]
    """Finds code beside the source, whether or not more could be written there."""

    def ensure_cache_path(self) -> None:
        """Nothing is written through this one."""


class _ReadOnlyImpl(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_BesideSource,)


class _ReadOnly(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _ReadOnlyImpl

    def save_overload(self, sig: Any, data: Any) -> None:
        """Not here."""


class MachineCode(caching.NullCache):  # type: ignore[misc]
    """What numba asks for machine code: first what is beside the source, then what it can write itself, if anything."""

    def __init__(self, function: Any) -> None:
        # where NUMBA_CACHE_DIR names a folder, nowhere else is looked
        self._beside = caching.NullCache() if os.environ.get("NUMBA_CACHE_DIR") else _ReadOnly(function)
        try:
            self._own = caching.FunctionCache(function)
        except RuntimeError:  # numba found no folder that it could write to
            self._own = caching.NullCache()

    @property
    def cache_path(self) -> Any:
        return self._own.cache_path or self._beside.cache_path

    @property
    def folders(self) -> list[str]:
        """Where code may lie already."""
        return [path for path in (self._beside.cache_path, self._own.cache_path) if path]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        for cache in (self._beside, self._own):
            found = cache.load_overload(sig, target_context)
            if found is not None:
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        self._own.save_overload(sig, data)

    def flush(self) -> None:
        self._own.flush()
