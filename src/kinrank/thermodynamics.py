"""Thermodynamics of a transport plan between two states: rates, currents and entropy of the flow that carries it out.

Appendix B of the LPMT paper carries a transport plan out as one transfer after the other, each in an equal share dt of
the time. While a mass x moves from item r to item s, the state q_t and the rates T_t are

    q_t[r] falls and q_t[s] rises, both by x / dt per unit of time
    T_t[s, r] = (theta + 1) x / (q_t[r] dt),   T_t[r, s] = theta x / (q_t[s] dt),   theta > 0

so that dq/dt = T q holds. Column r of T describes where the mass of item r goes; every column sums to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages
from kinrank.errors import InputError

__all__ = ["Entropy", "Stage", "force", "from_flows", "split_entropy", "stage", "stage_between"]

Floats = NDArray[np.float64]
Flow = tuple[int, int, float, float]  # from, to, mass, cost of one unit
MAX_SUM_ERROR = 1e-3  # allowed error of sums of float32 masses


class Entropy(NamedTuple):
    """Entropy production in nats: `total` is the sum of the gains of the states (`states`) and of the environment.

    Each is a number, or an array with one number per moment. The total never falls; a part may.
    """

    total: Any
    states: Any
    environment: Any


def force(theta: float = 1.0) -> float:
    """Return log((theta + 1) / theta), the entropy that one unit of moved mass produces; log 2 at theta = 1."""
    _check_positive(theta, "theta")
    return float(np.log1p(1.0 / theta))


def split_entropy(moved: Any, gained: Any, theta: float = 1.0) -> Entropy:
    """Split the entropy produced by `moved` mass into the gain of the states and that of the environment."""
    total = force(theta) * moved
    return Entropy(total, gained, total - gained)


@dataclass(frozen=True, eq=False)
class Stage:
    """The transition from one state to the next as a flow over `duration`. Made by `stage` and `stage_between`.

    Moments `t` are numbers from 0 to `duration`, or arrays of them; results then have the moments as first axes.

    Attributes:
        items: (m,) numbers of the items that hold mass; all arrays below follow their order.
        start, end: (m,) float64, the two states, each with sum 1.
        sources, targets: (f,) positions in `items`: transfer k goes from items[sources[k]] to items[targets[k]].
        masses: (f,) mass of each transfer.
        prices: (f,) cost of one unit of it.
        duration: time of all transfers together.
        theta: mass that moves against the current, as a share of the current.
    """

    items: NDArray[np.int64]
    start: Floats
    end: Floats
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    masses: Floats
    prices: Floats
    duration: float = 1.0
    theta: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self.duration, "duration")
        _check_positive(self.theta, "theta")

    @property
    def flows(self) -> list[Flow]:
        """The transfers in order: (from, to, mass, cost of one unit), by item numbers."""
        ends = self.items[self.sources].tolist(), self.items[self.targets].tolist()
        return list(zip(*ends, self.masses.tolist(), self.prices.tolist(), strict=True))

    @property
    def moved(self) -> float:
        """Share of all mass that moves."""
        return float(self.masses.sum())

    @property
    def force(self) -> float:
        """Force on every transfer, equal for all: log((theta + 1) / theta)."""
        return force(self.theta)

    def done(self, t: ArrayLike) -> Floats:
        """Return (..., f) the completed share of each transfer: all of the earlier ones, none of the later ones."""
        count = len(self.masses)
        return np.clip(self._moments(t)[..., None] / self.duration * count - np.arange(count), 0.0, 1.0)

    def state(self, t: ArrayLike) -> Floats:
        """Return (..., m) q_t, the state at time t."""
        moves, each = np.zeros((len(self.masses), len(self.items))), np.arange(len(self.masses))
        moves[each, self.sources], moves[each, self.targets] = -self.masses, self.masses
        now = self.start + self.done(t) @ moves
        return np.maximum(now, 0.0)  # the plan was rounded to float32: an emptied item may fall below zero

    def rates(self, t: ArrayLike) -> Floats:
        """Return (..., m, m) T_t: the rate from item r to item s is T[s, r]; columns sum to zero.

        At the moment when a receiving item is still empty, or a giving item is already empty, its rate is infinite: the
        equations hold almost everywhere, as the paper says.
        """
        moments = self._moments(t)
        rates = np.zeros((moments.size, len(self.items), len(self.items)))
        if len(self.masses):
            at, r, s, speed = self._running(moments)
            now = self.state(moments.ravel())
            with np.errstate(divide="ignore"):
                forward = (self.theta + 1.0) * speed / now[at, r]
                backward = self.theta * speed / now[at, s]
            rates[at, s, r], rates[at, r, r] = forward, -forward
            rates[at, r, s], rates[at, s, s] = backward, -backward
        return rates.reshape(*moments.shape, *rates.shape[1:])

    def currents(self, t: ArrayLike) -> Floats:
        """Return (..., m, m) J[r, s] = T[r, s] q[s] - T[s, r] q[r]: the gain of item r from item s per unit of time."""
        moments = self._moments(t)
        currents = np.zeros((moments.size, len(self.items), len(self.items)))
        if len(self.masses):
            at, r, s, speed = self._running(moments)
            currents[at, s, r], currents[at, r, s] = speed, -speed
        return currents.reshape(*moments.shape, *currents.shape[1:])

    def cost(self, t: ArrayLike | None = None) -> Any:
        """Integrate sum |J(r, s)| d(r, s) over r < s until t or to the end, where it is W1 for an optimal plan."""
        return self._so_far(self.masses * self.prices, t)

    def entropy_production(self, t: ArrayLike | None = None) -> Entropy:
        """Integrate sum |J| |log(T[r,s] q[s] / (T[s,r] q[r]))| until t or to the end: the entropy produced."""
        now = self.end if t is None else self.state(t)
        return split_entropy(
            self._so_far(self.masses, t), _compute_entropies(now) - _compute_entropies(self.start), self.theta
        )

    def activity(self) -> float:
        """Integrate sum T[r, s] q[s] + T[s, r] q[r]: all mass that moves, with the current or against it."""
        return (2.0 * self.theta + 1.0) * self.moved

    def mobility(self) -> float:
        """Integrate sum |J / log(T[r, s] q[s] / (T[s, r] q[r]))| d^2: how easily mass moves, and how far."""
        return float(self.masses @ self.prices**2) / self.force

    def bound(self) -> float:
        """Return sqrt(entropy produced * mobility), which the cost of no flow exceeds (by Cauchy and Schwarz)."""
        return float(np.sqrt(self.entropy_production().total * self.mobility()))

    def _moments(self, t: ArrayLike) -> Floats:
        moments = np.asarray(t, np.float64)
        if not ((moments >= 0.0) & (moments <= self.duration)).all():
            raise InputError(
                "lies outside the stage", parameter="t", given=t, allowed=f"moments from 0 to {self.duration:g}"
            )
        return moments

    def _running(self, moments: Floats) -> tuple[Any, Any, Any, Floats]:
        """Return for every moment its position, and the source, target and speed of the transfer that runs then."""
        count = len(self.masses)
        running = np.minimum((moments.ravel() / self.duration * count).astype(np.int64), count - 1)
        speed = self.masses[running] * count / self.duration
        return np.arange(moments.size), self.sources[running], self.targets[running], speed

    def _so_far(self, amounts: Floats, t: ArrayLike | None) -> Any:
        if t is None:
            return float(amounts.sum())
        summed = self.done(t) @ amounts
        return summed if summed.ndim else float(summed)


def stage(
    p: ArrayLike,
    q: ArrayLike,
    cost: ArrayLike,
    *,
    plan: ArrayLike | None = None,
    duration: float = 1.0,
    theta: float = 1.0,
) -> Stage:
    """Return the flow from state p to state q over the same n items, under symmetric costs (n, n).

    `plan` (n, n) holds the mass moved between each pair, rows summing to p and columns to q. Without it the cheapest
    plan is computed exactly, in float32; mass that both states share does not move, which for a metric cost is W1.

    Example:
        >>> stage([1.0, 0.0], [0.5, 0.5], [[0.0, 2.0], [2.0, 0.0]]).cost()
        1.0
    """
    start, end, ground = _check_distribution(p, "p"), _check_distribution(q, "q"), np.asarray(cost, np.float64)
    n = len(start)
    if len(end) != n:
        raise InputError(f"p has {n} entries and q has {len(end)}", remedy="give two states over the same items")
    if ground.shape != (n, n) or not np.isfinite(ground).all() or (ground < 0).any():
        raise InputError(
            f"has shape {ground.shape}", parameter="cost", allowed=f"{n} x {n} finite numbers, none below 0"
        )
    if not np.allclose(ground, ground.T, rtol=1e-4, atol=1e-6):
        raise InputError("differs between the two directions", parameter="cost", allowed="a symmetric matrix")
    moves = _cheapest_plan(start, end, ground) if plan is None else _check_plan(np.array(plan, np.float64), start, end)
    np.fill_diagonal(moves, 0.0)
    sources, targets = np.nonzero(moves > 0)
    masses = moves[sources, targets]
    order = np.lexsort((targets, sources, -masses))
    sources, targets = sources[order], targets[order]
    return Stage(np.arange(n), start, end, sources, targets, masses[order], ground[sources, targets], duration, theta)


def stage_between(
    left: stages.transport.State,
    right: stages.transport.State,
    vectors: NDArray[np.float32],
    *,
    rho: float = 1.0,
    unit: bool = True,
    duration: float = 1.0,
    theta: float = 1.0,
) -> Stage:
    """Return the flow between two sparse states (items, masses) at the costs of LPMT, d^rho between the items' vectors.

    `unit`: the vectors have length one. For rho > 1 the cost is not a metric; the flow then is the cheapest way to move
    the difference, see `stages.transport`.

    Example:
        >>> prepared = kinrank.LPMT().prepare(Items.from_gallery(rows), SILENT)
        >>> a, b = (stages.transport.state_of(prepared.states, item) for item in (3, 8))
        >>> stage_between(a, b, rows).entropy_production()
    """
    return from_flows(
        left, right, stages.transport.solve_exact_flows(left, right, vectors, rho, unit), duration=duration, theta=theta
    )


def from_flows(
    left: stages.transport.State,
    right: stages.transport.State,
    flows: Sequence[Flow],
    *,
    duration: float = 1.0,
    theta: float = 1.0,
) -> Stage:
    """Return the flow between two sparse states made of the given transfers (from, to, mass, cost of one unit)."""
    items = np.union1d(left[0], right[0]).astype(np.int64)
    states = []
    for numbers, masses in (left, right):
        dense = np.zeros(len(items))
        dense[np.searchsorted(items, numbers)] = masses
        states.append(_check_distribution(dense, "a state"))
    table = np.array(flows, np.float64).reshape(-1, 4)
    sources, targets = (np.searchsorted(items, table[:, side].astype(np.int64)) for side in (0, 1))
    flow = Stage(items, states[0], states[1], sources, targets, table[:, 2], table[:, 3], duration, theta)
    if abs(flow.state(duration) - flow.end).max() > MAX_SUM_ERROR:
        raise InputError("the flows do not turn the first state into the second", remedy="give all of them")
    return flow


def _check_distribution(given: ArrayLike, name: str) -> Floats:
    masses = np.asarray(given, np.float64)
    if (
        masses.ndim != 1
        or not np.isfinite(masses).all()
        or (masses < 0).any()
        or abs(masses.sum() - 1.0) > MAX_SUM_ERROR
    ):
        raise InputError("is not a distribution", parameter=name, allowed="a row of numbers, none below 0, with sum 1")
    return np.asarray(masses / masses.sum())


def _cheapest_plan(start: Floats, end: Floats, ground: Floats) -> Floats:
    """Return (n, n) the cheapest way to move the difference; nothing if the states are equal up to rounding."""
    gap = start - end
    gap[abs(gap) <= stages.transport.EQUAL_MASS_SHARE * start] = 0.0
    away, towards = np.maximum(gap, 0.0), np.maximum(-gap, 0.0)
    if not away.any() or not towards.any():
        return np.zeros(ground.shape)
    return stages.transport.wasserstein(away, towards, ground)[1].astype(np.float64)


def _check_plan(plan: Floats, start: Floats, end: Floats) -> Floats:
    n = len(start)
    if plan.shape != (n, n) or not np.isfinite(plan).all() or (plan < 0).any():
        raise InputError(f"has shape {plan.shape}", parameter="plan", allowed=f"{n} x {n} masses, none below 0")
    if max(abs(plan.sum(axis=1) - start).max(), abs(plan.sum(axis=0) - end).max()) > MAX_SUM_ERROR:
        raise InputError(
            "does not turn p into q", parameter="plan", allowed="a plan whose rows sum to p and whose columns sum to q"
        )
    return plan


def _check_positive(number: float, name: str) -> None:
    if not 0.0 < number < float("inf"):
        raise InputError(parameter=name, given=number, allowed="a finite number above 0")


def _compute_entropies(states: Floats) -> Any:
    """Return S = - sum p log p of every state (..., m), in nats."""
    entropies = np.apply_along_axis(stages.transport.state_entropy, -1, states)
    return entropies if entropies.ndim else float(entropies)
