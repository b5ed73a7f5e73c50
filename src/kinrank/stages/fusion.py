"""d, d' and the direct comparison of wide states -> d*, the distance a ranking is made of (end of Sec. 4.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.fallback import behind
from kinrank.stages.kernels import fusion as kernels
from kinrank.stages.kernels.fusion import LEAST, START, Mixture, Units
from kinrank.stages.run import THREADS, Output

Floats = NDArray[np.float32]
NOTHING = np.empty((0, 0), np.float32)


def mixture_of(theta: float, gamma: float, k: int, kind: str = "local", direct: float = 0.0) -> Mixture:
    """How d, d' and the direct comparison of wide states (a share of `direct` beside d') are mixed.

    `plain` mixes the two numbers as they are, the paper's equation to the letter. `local`, the default, brings both
    to the scale of the query's own neighbourhood first: d' -> d'^(1/gamma) / its k-th smallest value in the row, and
    d -> 1 - exp(-((d - s) / (its k-th smallest - s))^2) with s = START times the smallest, which tells near items apart
    and is silent about far ones, where the chain knows better; the comparison of states is divided by its k-th smallest
    value, too. With theta = 1 there is nothing to mix, and scales would make far items equal.
    """
    plain = kind == "plain" or theta == 1.0
    return Mixture(float(theta), 1.0 / float(gamma), plain, int(k), 0.0 if plain else float(direct))


def fused(
    distances: Floats, chained: Floats, mixture: Mixture, own: bool = False, apart: Floats = NOTHING
) -> NDArray[Any]:
    """(rows, items) d*, finite; items no chain reaches follow the others in the order of d.

    `own`: each row holds the query itself, at distance 0, which does not count among the k. `apart`: how far apart the
    wide states are, needed where the mixture has a share of it.
    """
    reached = np.isfinite(chained)
    if mixture.theta == 1.0:
        return _finite(distances, reached, distances)
    roots, result = np.empty_like(chained), np.empty(distances.shape, np.float32)
    THREADS(kernels.root_rows, len(distances), (chained, mixture), (Output(roots),), "fusion")
    units = units_of(distances, roots, mixture, own, apart)
    inputs = distances, roots, apart if mixture.direct else NOTHING, mixture, units
    THREADS(kernels.mixed_rows, len(distances), inputs, (Output(result),), "fusion")
    return _finite(result, reached, distances)


def units_of(distances: Floats, roots: Floats, mixture: Mixture, own: bool, apart: Floats = NOTHING) -> Units:
    """What the values of each row are measured in: see `mixture_of`."""
    ones = np.ones(len(distances), np.float32)
    if mixture.plain:
        return Units(np.zeros_like(ones), ones, ones, ones)
    place = min(int(own), distances.shape[1] - 1)
    start = np.float32(START) * np.partition(distances, place, axis=1)[:, place]
    near = kth_smallest(distances, mixture.k, own) - start
    wide = kth_smallest(apart, mixture.k, own) if mixture.direct else ones
    return Units(start, near, kth_smallest(roots, mixture.k, own), wide)


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
