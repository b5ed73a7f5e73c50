"""d and d' of one item -> d*, the one place where they are mixed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.fastmath import exp32, power32


class Mixture(NamedTuple):
    """How d and d' are mixed: theta, 1/gamma, whether as they are (plain), and which neighbour sets their units."""

    theta: float
    power: float
    plain: bool
    k: int


@inner
def mixed(direct: Any, root: Any, mixture: Any, direct_unit: Any, root_unit: Any) -> Any:
    """theta (1 - exp(-(d / unit)^2)) + (1 - theta) root / unit; plain: theta d + (1 - theta) root."""
    near = direct
    if not mixture.plain:
        ratio = direct / direct_unit
        near = np.float32(1.0) - exp32(max(-ratio * ratio, np.float32(-80.0)))
    return np.float32(mixture.theta) * near + np.float32(1.0 - mixture.theta) * root / root_unit


@inner
def root_of(chained: Any, mixture: Any) -> Any:
    """d'^(1/gamma), on the scale of one step; plain: d' itself."""
    return chained if mixture.plain else power32(chained, np.float32(mixture.power))


@compiled
def mixed_rows(
    start: Any, stop: Any, direct: Any, roots: Any, mixture: Any, direct_units: Any, root_units: Any, result: Any
) -> None:
    """`mixed` of rows start..stop: direct, roots (m, n) float32, units (m,) float32 -> result (m, n) float32."""
    for row in range(start, stop):
        for item in range(direct.shape[1]):
            result[row, item] = mixed(direct[row, item], roots[row, item], mixture, direct_units[row], root_units[row])


@compiled
def root_rows(start: Any, stop: Any, chained: Any, mixture: Any, roots: Any) -> None:
    """`root_of` of rows start..stop, inf where no chain leads."""
    for row in range(start, stop):
        for item in range(chained.shape[1]):
            roots[row, item] = root_of(chained[row, item], mixture) if np.isfinite(chained[row, item]) else np.inf
