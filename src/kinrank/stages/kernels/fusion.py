"""d, d' and how far apart two wide states are -> d*, the one place where they are mixed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.fastmath import exp32, power32

LEAST = 1e-3  # that a unit is: among many duplicates the k-th value is rounding only, and no scale
START = 0.6  # of the nearest item's distance: up to there all are equally near


class Mixture(NamedTuple):
    """How distances are mixed: theta, 1/gamma, whether as they are (plain), which neighbour sets their units, and the
    share of the direct comparison of wide states beside that of chains."""

    theta: float
    power: float
    plain: bool
    k: int
    direct: float


class Units(NamedTuple):
    """What distances of one query are measured in: where d begins to count, and units of d, of roots, of wide states;
    float32 numbers, or one array (m,) of each."""

    start: Any
    near: Any
    root: Any
    apart: Any


@inner
def mixed(distance: Any, root: Any, apart: Any, mixture: Any, start: Any, near_unit: Any, root_unit: Any,
          apart_unit: Any) -> Any:  # fmt: skip
    """theta (1 - exp(-((d - start) / unit)^2)) + (1 - theta) ((1 - direct) root / unit + direct apart / unit).

    plain: theta d + (1 - theta) root.
    """
    near = distance
    if not mixture.plain:
        ratio = max(distance - start, np.float32(0.0)) / near_unit
        near = np.float32(1.0) - exp32(max(-ratio * ratio, np.float32(-80.0)))
    direct = np.float32(mixture.direct)
    if distance <= 0.0:  # copies of the query: their states may lie on different copies
        apart = np.float32(0.0)
    along = (np.float32(1.0) - direct) * root / root_unit + direct * apart / apart_unit
    return np.float32(mixture.theta) * near + np.float32(1.0 - mixture.theta) * along


@inner
def root_of(chained: Any, mixture: Any) -> Any:
    """d'^(1/gamma), on the scale of one step; plain: d' itself."""
    return chained if mixture.plain else power32(chained, np.float32(mixture.power))


@compiled
def mixed_rows(
    start: Any, stop: Any, distances: Any, roots: Any, apart: Any, mixture: Any, units: Any, result: Any
) -> None:
    """`mixed` of rows start..stop: distances, roots, apart (m, n) float32, Units of (m,) -> result (m, n) float32.

    apart may be of length 0 where its share is 0.
    """
    for row in range(start, stop):
        for item in range(distances.shape[1]):
            gap = apart[row, item] if len(apart) > 0 else np.float32(0.0)
            result[row, item] = mixed(
                distances[row, item], roots[row, item], gap, mixture, units.start[row], units.near[row],
                units.root[row], units.apart[row],
            )  # fmt: skip


@compiled
def root_rows(start: Any, stop: Any, chained: Any, mixture: Any, roots: Any) -> None:
    """`root_of` of rows start..stop, inf where no chain leads."""
    for row in range(start, stop):
        for item in range(chained.shape[1]):
            roots[row, item] = root_of(chained[row, item], mixture) if np.isfinite(chained[row, item]) else np.inf
