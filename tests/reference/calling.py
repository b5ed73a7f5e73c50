"""Parts of loops, which have no entry for Python -> functions that tests can call."""

from __future__ import annotations

from typing import Any

import numba


def callable_part(part: Any) -> Any:
    """The same function with an entry for Python, compiled on its first call."""

    @numba.njit(error_model="numpy")
    def call(*arguments: Any) -> Any:
        return part(*arguments)

    return call
