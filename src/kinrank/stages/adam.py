"""Gradients, one after the other -> steps that are the longer the steadier they are (Adam)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kinrank.stages.gss import Rows

FIRST, SECOND = 0.9, 0.999  # how much of the running means stays at each step
TINY = 1e-8


class Adam:
    """w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + 1e-8), m and v running means of gradients and their squares.

    The 1e-8 stands beside sqrt(v) as it is. Where it is added after v is corrected for t, as in torch, scores of GSS
    move by 2e-4 in 50 steps, because entries of its gradient are tiny.

    Example:
        >>> Adam([weights], lr=1e-4).step([weights], [gradient])
    """

    def __init__(self, like: Sequence[Rows], lr: float) -> None:
        self._lr, self._steps = lr, 0
        self._means = [(np.zeros_like(array), np.zeros_like(array)) for array in like]

    def step(self, arrays: Sequence[Rows], gradients: Sequence[Rows]) -> None:
        """Move arrays against their gradients, in place; the gradients are lost."""
        self._steps += 1
        rate = self._lr * math.sqrt(1.0 - SECOND**self._steps) / (1.0 - FIRST**self._steps)
        for array, found, (mean, square) in zip(arrays, gradients, self._means, strict=True):
            mean *= FIRST
            mean += (1.0 - FIRST) * found
            found *= found
            found *= 1.0 - SECOND
            square *= SECOND
            square += found
            np.sqrt(square, out=found)
            found += TINY
            np.divide(mean, found, out=found)
            found *= rate
            array -= found
