"""d and d' -> d*, the distance a ranking is made of (last equation of Sec. 4.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def fused(
    direct: Floats,
    chained: Floats,
    theta: float,
    gamma: float,
    kind: str = "local",
    k: int = 10,
    own: bool = False,
) -> NDArray[Any]:
    """(rows, items) d* = theta d + (1 - theta) d', finite; items no chain reaches follow the others in the order of d.

    `plain` mixes the two numbers as they are, the paper's equation to the letter. `local`, the default, brings both
    to the scale of the query's own neighbourhood first: d' -> d'^(1/gamma) / its k-th smallest value in the row, and
    d -> 1 - exp(-(d / its k-th smallest)^2), which tells near items apart and is silent about far ones, where the
    chain knows better. `own`: each row holds the query itself, at distance 0, which does not count among the k.
    """
    reached = np.isfinite(chained)
    with np.errstate(invalid="ignore"):  # theta = 1: nothing times inf, set right below
        if kind == "plain" or theta == 1.0:  # one alone needs no scale, which would make far items equal
            mixed = theta * direct.astype(np.float64) + (1.0 - theta) * chained.astype(np.float64)
        else:
            root = chained.astype(np.float64) ** (1.0 / gamma)
            near = 1.0 - np.exp(-((direct / kth_smallest(direct, k, own)) ** 2))
            mixed = theta * near + (1.0 - theta) * (root / kth_smallest(root, k, own))
    return _finite(mixed, reached, direct)


def kth_smallest(values: NDArray[Any], k: int, own: bool) -> NDArray[Any]:
    """(rows, 1) the k-th smallest finite value of each row, or its largest where fewer are finite; never near zero.

    Among many duplicates the k-th is rounding only: a thousandth of the largest is the least that counts as a scale.
    """
    position = min(k - 1 + int(own), values.shape[1] - 1)
    kth = np.partition(values, position, axis=1)[:, position]
    largest = np.where(np.isfinite(values), values, 0.0).max(axis=1, initial=0.0)
    kth = np.maximum(np.where(np.isfinite(kth), kth, largest), 1e-3 * largest)
    return np.asarray(np.where(kth > 0, kth, 1.0)[:, None])


def _finite(mixed: NDArray[Any], reached: NDArray[np.bool_], direct: Floats) -> NDArray[Any]:
    """Unreached items behind the farthest reached one, in the order of d, without inf."""
    if reached.all():
        return mixed
    last = np.where(reached, mixed, 0.0).max(axis=1, keepdims=True)
    return np.where(reached, mixed, last + 1.0 + direct)
