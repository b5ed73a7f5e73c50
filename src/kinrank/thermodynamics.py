"""One step between two states as a flow: mass moves from item to item, and entropy is produced.

Appendix B of the LPMT paper carries a transport plan out as one transfer after the other, each in an equal share of the
time, which runs from 0 to 1. Its rates, currents and bounds are in kinrank-bench, `kinrank_bench.paper.thermodynamics`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages
from kinrank.errors import InputError

__all__ = ["FORCE", "Entropy", "Stage", "stage_between"]

Floats = NDArray[np.float64]
Flow = tuple[int, int, float, float]  # from, to, mass, cost of one unit
FORCE = math.log(2.0)  # entropy that one unit of moved mass produces, in nats


class Entropy(NamedTuple):
    """Entropy production in nats: `total` is the sum of the gains of the states (`states`) and of the environment.

    Each is a number, or an array with one number per moment. The total never falls; a part may.
    """

    total: Any
    states: Any
    environment: Any


@dataclass(frozen=True, eq=False)
class Stage:
    """The transition from one state to the next as a flow. Made by `stage_between`.

    Moments `t` are numbers from 0 to 1, or arrays of them; results then have the moments as first axes.

    Attributes:
        items: (m,) numbers of the items that hold mass; all arrays below follow their order.
        start, end: (m,) float64, the two states, each with sum 1.
        sources, targets: (f,) positions in `items`: transfer k goes from items[sources[k]] to items[targets[k]].
        masses: (f,) mass of each transfer.
        prices: (f,) cost of one unit of it.
    """

    items: NDArray[np.int64]
    start: Floats
    end: Floats
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    masses: Floats
    prices: Floats

    @property
    def flows(self) -> list[Flow]:
        """The transfers in order: (from, to, mass, cost of one unit), by item numbers."""
        ends = self.items[self.sources].tolist(), self.items[self.targets].tolist()
        return list(zip(*ends, self.masses.tolist(), self.prices.tolist(), strict=True))

    @property
    def moved(self) -> float:
        """Share of all mass that moves."""
        return float(self.masses.sum())

    def done(self, t: ArrayLike) -> Floats:
        """Return (..., f) the completed share of each transfer: all of the earlier ones, none of the later ones."""
        moments, count = np.asarray(t, np.float64), len(self.masses)
        if not ((moments >= 0.0) & (moments <= 1.0)).all():
            raise InputError("lies outside the stage", parameter="t", given=t, allowed="moments from 0 to 1")
        return np.clip(moments[..., None] * count - np.arange(count), 0.0, 1.0)

    def state(self, t: ArrayLike) -> Floats:
        """Return (..., m) q_t, the state at time t."""
        moves, each = np.zeros((len(self.masses), len(self.items))), np.arange(len(self.masses))
        moves[each, self.sources], moves[each, self.targets] = -self.masses, self.masses
        now = self.start + self.done(t) @ moves
        return np.maximum(now, 0.0)  # the plan was rounded to float32: an emptied item may fall below zero

    def cost(self, t: ArrayLike | None = None) -> Any:
        """Return the cost of the mass moved until t or to the end, where it is W1 for an optimal plan."""
        return self._sum_until(t, self.masses * self.prices)

    def entropy_production(self, t: ArrayLike | None = None) -> Entropy:
        """Return the entropy produced until t or to the end: `FORCE` times the mass moved."""
        now = self.end if t is None else self.state(t)
        total = FORCE * self._sum_until(t, self.masses)
        gained = _compute_entropies(now) - _compute_entropies(self.start)
        return Entropy(total, gained, total - gained)

    def _sum_until(self, t: ArrayLike | None, amounts: Floats) -> Any:
        if t is None:
            return float(amounts.sum())
        summed = self.done(t) @ amounts
        return summed if summed.ndim else float(summed)


def stage_between(
    left: stages.transport.State,
    right: stages.transport.State,
    vectors: NDArray[np.float32],
    *,
    rho: float = 1.0,
    unit: bool = True,
) -> Stage:
    """Return the flow between two sparse states (items, masses) at the costs of LPMT, d^rho between the items' vectors.

    `unit`: the vectors have length one. For rho > 1 the cost is not a metric; the flow then is the cheapest way to move
    the difference, see `stages.transport`.

    Example:
        >>> prepared = kinrank.LPMT().prepare(Items.from_gallery(rows), SILENT)
        >>> a, b = (stages.transport.get_state(prepared.states, item) for item in (3, 8))
        >>> stage_between(a, b, rows).entropy_production()
    """
    items = np.union1d(left[0], right[0]).astype(np.int64)
    start, end = np.zeros((2, len(items)))
    for dense, (numbers, masses) in ((start, left), (end, right)):
        dense[np.searchsorted(items, numbers)] = masses
        dense /= dense.sum()
    flows = stages.transport.solve_exact_flows(left, right, vectors, rho, unit)
    table = np.array(flows, np.float64).reshape(-1, 4)
    sources, targets = (np.searchsorted(items, table[:, side].astype(np.int64)) for side in (0, 1))
    return Stage(items, start, end, sources, targets, table[:, 2], table[:, 3])


def _compute_entropies(states: Floats) -> Any:
    """Return S = - sum p log p of every state (..., m), in nats."""
    entropies = np.apply_along_axis(stages.transport.state_entropy, -1, states)
    return entropies if entropies.ndim else float(entropies)
