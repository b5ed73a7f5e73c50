"""Python entries for inner functions of kernels, so that tests can call them."""

from __future__ import annotations

from typing import Any

import numba


def make_callable(part: Any) -> Any:
    """Return the function with a Python entry, compiled on its first call."""

    @numba.njit(error_model="numpy")
    def call(*arguments: Any) -> Any:
        return part(*arguments)

    return call
