"""Fusion of d, d' and the distance of wide states into d*, the distance that rankings use (Eq. 21)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.kernels.compiler import THREAD_RUNNER, Output, compile_inner, compile_kernel
from kinrank.stages.kernels.fastmath import exp32, power32

MIN_UNIT_SHARE = 1e-3  # smallest unit: among many duplicates the k-th value is only rounding and sets no scale
START_SHARE = 0.6  # share of the nearest item's distance up to which all items are equally near
LEAST_OVERLAP, FULL_OVERLAP = 0.4, 0.6  # of the wide states of a query and its k-th nearest: no share, full share
MIN_DIRECT_SHARE = 0.1  # that remains without overlap
Floats = NDArray[np.float32]
NO_VALUES = np.empty((0, 0), np.float32)


def make_mixture(theta: float, gamma: float, k: int, kind: str = "local", direct: float = 0.0) -> Mixture:
    """Return the settings for mixing d, d' and the distance of wide states, which replaces a share of d'.

    `direct` is the largest share: that of queries whose wide states overlap with those of their nearest items. Where
    they overlap little, they say little, and the share falls to MIN_DIRECT_SHARE (`direct_share`).

    `plain` mixes d and d' unchanged, which is Eq. 21 to the letter. `local`, the default, first scales both to the
    neighbourhood of the query: d' -> d'^(1/gamma) / its k-th smallest value in the row, and d -> 1 -
    exp(-((d - s) / (its k-th smallest - s))^2) with s = START_SHARE times the smallest. This separates near items and
    saturates for far ones, where chains know better. The distance of wide states is divided by its k-th smallest value,
    too. With theta = 1 there is nothing to mix, and scaling would make far items equal.
    """
    plain = kind == "plain" or theta == 1.0
    return Mixture(float(theta), 1.0 / float(gamma), plain, int(k), 0.0 if plain else float(direct))


def fuse_distances(
    distances: Floats, chained: Floats, mixture: Mixture, own: bool = False, apart: Floats = NO_VALUES
) -> NDArray[Any]:
    """Return (rows, items) d*, finite; items that no chain reaches follow the others in the order of d.

    `own`: each row contains the query itself, at distance 0, which does not count among the k. `apart`: distances of
    the wide states, needed if the mixture has a share of them.
    """
    chained, apart = np.ascontiguousarray(chained), np.ascontiguousarray(apart)  # else, other kernels are compiled
    reached = np.isfinite(chained)
    if mixture.theta == 1.0:
        return _append_unreached_items(distances, reached, distances)
    roots, result = np.empty_like(chained), np.empty(distances.shape, np.float32)
    THREAD_RUNNER(write_roots, len(distances), (chained, mixture), (Output(roots),), "fusion")
    units = measure_units(distances, roots, mixture, own, apart)
    parts = DistanceParts(distances, roots, apart if mixture.direct else NO_VALUES)
    THREAD_RUNNER(mix_rows, len(distances), (parts, mixture, units), (Output(result),), "fusion")
    return _append_unreached_items(result, reached, distances)


def measure_units(distances: Floats, roots: Floats, mixture: Mixture, own: bool, apart: Floats = NO_VALUES) -> Units:
    """Return the units of each row: see `make_mixture`."""
    ones = np.ones(len(distances), np.float32)
    if mixture.plain:
        return Units(np.zeros_like(ones), ones, ones, ones)
    place = min(int(own), distances.shape[1] - 1)
    start = np.float32(START_SHARE) * np.partition(distances, place, axis=1)[:, place]
    near = kth_smallest(distances, mixture.k, own) - start
    wide = kth_smallest(apart, mixture.k, own) if mixture.direct else ones
    return Units(start, near, kth_smallest(roots, mixture.k, own), wide)


def measure_direct_share(direct: float, apart: Floats, k: int, own: bool) -> float:
    """Return the share that the distance of wide states has for one query, from its distances (1, g) to all items."""
    return float(direct_share.py_func(np.float32(direct), kth_smallest(apart, k, own)[0]))


def _append_unreached_items(result: Floats, reached: NDArray[np.bool_], direct: Floats) -> NDArray[Any]:
    """Place items that no chain reaches after the others, as chain_search.py does."""
    last = np.where(reached, result, 0.0).max(axis=1, keepdims=True) + 1.0
    return np.where(reached, result, last + direct.astype(np.float64))


def kth_smallest(values: Floats, k: int, own: bool) -> Floats:
    """Return (rows,) the k-th smallest finite value of each row, or the largest if fewer are finite; never near 0."""
    position = min(k - 1 + int(own), values.shape[1] - 1)
    kth = np.partition(values, position, axis=1)[:, position]
    largest = np.where(np.isfinite(values), values, 0.0).max(axis=1, initial=0.0)
    kth = np.maximum(np.where(np.isfinite(kth), kth, largest), MIN_UNIT_SHARE * largest)
    return np.where(kth > 0, kth, 1.0).astype(np.float32)


class Mixture(NamedTuple):
    """Settings for mixing distances.

    Attributes:
        theta: share of d.
        power: 1/gamma.
        plain: mix the distances without scaling them.
        k: rank of the neighbour that sets the units.
        direct: largest share of the distance of wide states within the rest.
    """

    theta: float
    power: float
    plain: bool
    k: int
    direct: float


class Units(NamedTuple):
    """Units of the distances of one query: start of d, and units of d, of roots and of wide distances.

    float32 numbers, or one array (m,) of each.
    """

    start: Any
    near: Any
    root: Any
    apart: Any


class DistanceParts(NamedTuple):
    """The three parts of d*, (m, n) float32: d, d' or its roots, distances of wide states, (0, 0) without a share."""

    distances: NDArray[np.float32]
    chained: NDArray[np.float32]
    apart: NDArray[np.float32]


@compile_inner
def direct_share(direct: Any, unit: Any) -> Any:
    """Return the share of the distance of wide states for one query; `direct` is the largest share, `unit` its unit.

    The share grows with the overlap of the wide states of the query and its k-th nearest item, which is 1 - unit: from
    MIN_DIRECT_SHARE at LEAST_OVERLAP to `direct` at FULL_OVERLAP.
    """
    used = (np.float32(1.0 - LEAST_OVERLAP) - unit) / np.float32(FULL_OVERLAP - LEAST_OVERLAP)
    return max(direct * min(max(used, np.float32(0.0)), np.float32(1.0)), min(direct, np.float32(MIN_DIRECT_SHARE)))


@compile_inner
def mix_distance(distance: Any, root: Any, apart: Any, mixture: Any, units: Any) -> Any:
    """Return theta (1 - exp(-((d - start) / unit)^2)) + (1 - theta) ((1 - direct) root / unit + direct apart / unit).

    plain: theta d + (1 - theta) root. units: Units of one query; `direct` follows from them, see `direct_share`.
    """
    near = distance
    if not mixture.plain:
        ratio = max(distance - units.start, np.float32(0.0)) / units.near
        near = np.float32(1.0) - exp32(max(-ratio * ratio, np.float32(-80.0)))
    direct = direct_share(np.float32(mixture.direct), units.apart)
    if distance <= 0.0:  # copies of the query: their states may have mass on different copies
        apart = np.float32(0.0)
    along = (np.float32(1.0) - direct) * root / units.root + direct * apart / units.apart
    return np.float32(mixture.theta) * near + np.float32(1.0 - mixture.theta) * along


@compile_inner
def root_of_cost(chained: Any, mixture: Any) -> Any:
    """Return d'^(1/gamma), on the scale of one step; plain: d' itself."""
    return chained if mixture.plain else power32(chained, np.float32(mixture.power))


@compile_kernel
def mix_rows(start: Any, stop: Any, parts: Any, mixture: Any, units: Any, result: Any) -> None:
    """Run `mix_distance` on rows start..stop: DistanceParts with roots, Units of (m,) -> result (m, n) float32."""
    distances, roots, apart = parts
    for row in range(start, stop):
        for item in range(distances.shape[1]):
            own = Units(units.start[row], units.near[row], units.root[row], units.apart[row])
            gap = apart[row, item] if len(apart) > 0 else np.float32(0.0)
            result[row, item] = mix_distance(distances[row, item], roots[row, item], gap, mixture, own)


@compile_kernel
def write_roots(start: Any, stop: Any, chained: Any, mixture: Any, roots: Any) -> None:
    """Run `root_of_cost` on rows start..stop; inf without a chain."""
    for row in range(start, stop):
        for item in range(chained.shape[1]):
            roots[row, item] = root_of_cost(chained[row, item], mixture) if np.isfinite(chained[row, item]) else np.inf
