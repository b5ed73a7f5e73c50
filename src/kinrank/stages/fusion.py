"""d and d' -> d*, the distance a ranking is made of (last equation of Sec. 4.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.fallback import behind
from kinrank.stages.kernels import fusion as kernels
from kinrank.stages.kernels.fusion import Mixture
from kinrank.stages.run import THREADS, Output

Floats = NDArray[np.float32]
LEAST = 1e-3  # of the largest: among many duplicates the k-th value is rounding only, and no scale


def mixture_of(theta: float, gamma: float, k: int, kind: str = "local") -> Mixture:
    """How d and d' are mixed.

    `plain` mixes the two numbers as they are, the paper's equation to the letter. `local`, the default, brings both
    to the scale of the query's own neighbourhood first: d' -> d'^(1/gamma) / its k-th smallest value in the row, and
    d -> 1 - exp(-(d / its k-th smallest)^2), which tells near items apart and is silent about far ones, where the
    chain knows better. With theta = 1 there is nothing to mix, and scales would make far items equal.
    """
    return Mixture(float(theta), 1.0 / float(gamma), kind == "plain" or theta == 1.0, int(k))


def fused(direct: Floats, chained: Floats, mixture: Mixture, own: bool = False) -> NDArray[Any]:
    """(rows, items) d* = theta d + (1 - theta) d', finite; items no chain reaches follow the others in the order of d.

    `own`: each row holds the query itself, at distance 0, which does not count among the k.
    """
    reached = np.isfinite(chained)
    if mixture.theta == 1.0:
        return _finite(direct, reached, direct)
    roots, result = np.empty_like(chained), np.empty(direct.shape, np.float32)
    THREADS(kernels.root_rows, len(direct), (chained, mixture), (Output(roots),), "fusion")
    units = np.ones(len(direct), np.float32), np.ones(len(direct), np.float32)
    if not mixture.plain:
        units = kth_smallest(direct, mixture.k, own), kth_smallest(roots, mixture.k, own)
    THREADS(kernels.mixed_rows, len(direct), (direct, roots, mixture, *units), (Output(result),), "fusion")
    return _finite(result, reached, direct)


def _finite(result: Floats, reached: NDArray[np.bool_], direct: Floats) -> NDArray[Any]:
    """Items that no chain reaches behind the others, as kernels/attach.py puts them."""
    last = np.where(reached, result, 0.0).max(axis=1, keepdims=True) + 1.0
    return behind(result, reached, lambda: direct, last)


def kth_smallest(values: Floats, k: int, own: bool) -> Floats:
    """(rows,) the k-th smallest finite value of each row, or its largest where fewer are finite; never near zero."""
    position = min(k - 1 + int(own), values.shape[1] - 1)
    kth = np.partition(values, position, axis=1)[:, position]
    largest = np.where(np.isfinite(values), values, 0.0).max(axis=1, initial=0.0)
    kth = np.maximum(np.where(np.isfinite(kth), kth, largest), LEAST * largest)
    return np.where(kth > 0, kth, 1.0).astype(np.float32)
