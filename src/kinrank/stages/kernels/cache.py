"""Where the machine code of the loops is kept: beside their source if that can be written, else where numba finds room.

`kinrank warmup` compiles everything once, when an image is made or a package installed. Whoever runs it later may not
be allowed to write there, nor have a home to write to: code that is beside the source is still read, and loops that
are not there are compiled for this process only. Either way one line says so, once: processes that this one started
leave it to their parent.
"""

from __future__ import annotations

import logging
import os
from multiprocessing import parent_process
from typing import Any

from numba.core import caching as _numba_caching

caching: Any = _numba_caching  # not typed
log = logging.getLogger("kinrank")
COMPILING = "kinrank: compiling the loops this needs, once per installation; `kinrank warmup` compiles all beforehand"
NOT_KEPT = (
    "kinrank: compiling its loops for this process only, because their machine code cannot be kept; "
    "set NUMBA_CACHE_DIR to a folder that can be written to"
)
_said: set[str] = set()
_IN_TREE: Any = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator


def _say(line: str) -> None:
    """The line, unless it was said before, here or in the process that started this one."""
    if line not in _said and parent_process() is None:
        _said.add(line)
        log.warning(line)


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

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types, if it is there; if not, numba compiles it now."""
        for cache in (self._beside, self._own):
            try:
                found = cache.load_overload(sig, target_context)
            except Exception:  # not readable, or damaged: as if it were not there
                continue
            if found is not None:
                return found
        _say(NOT_KEPT if isinstance(self._own, caching.NullCache) else COMPILING)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            self._own.save_overload(sig, data)
        except Exception:  # a full disk, a folder that was taken away
            self._own = caching.NullCache()
            _say(NOT_KEPT)

    def flush(self) -> None:
        self._own.flush()
