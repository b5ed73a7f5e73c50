"""Two states and a plan between them -> the flow that carries one into the other: rates, currents, entropy.

Appendix B of the LPMT paper carries a transport plan out as one transfer after the other, each in an equal share dt of
the time. While a mass x goes from item r to item s, the state q_t and the rates T_t are

    q_t[r] falls and q_t[s] rises, both by x / dt per unit of time
    T_t[s, r] = (theta + 1) x / (q_t[r] dt),   T_t[r, s] = theta x / (q_t[s] dt),   theta > 0

so that dq/dt = T q holds. Column r of T tells where the mass of item r goes; every column sums to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages

__all__ = ["Entropy", "Stage", "force", "from_flows", "produced", "stage", "stage_between"]

Floats = NDArray[np.float64]
Flow = tuple[int, int, float, float]  # from, to, mass, cost of one unit
CLOSE = 1e-3  # how far sums of float32 masses may be from what they should be


class Entropy(NamedTuple):
    """Entropy produced, in nats: `total` is what the states gain (`states`) and what the environment gains.

    Each is a number, or an array with one number per moment asked for. The total never falls; a part may.
    """

    total: Any
    states: Any
    environment: Any


def force(theta: float = 1.0) -> float:
    """log((theta + 1) / theta): the entropy that one unit of mass produces when it moves; log 2 at theta = 1."""
    _positive(theta, "theta")
    return float(np.log1p(1.0 / theta))


def produced(moved: Any, gained: Any, theta: float = 1.0) -> Entropy:
    """The entropy produced by transfers that move so much mass, of which the states gain so much."""
    total = force(theta) * moved
    return Entropy(total, gained, total - gained)


@dataclass(frozen=True, eq=False)
class Stage:
    """The transition from one state to the next, as a flow over `duration`. Made by `stage` and `stage_between`.

    Moments `t` are numbers from 0 to `duration`, or arrays of them: results then have the moments in front.

    Attributes:
        items: (m,) the numbers of the items that hold mass; all arrays below are in their order.
        start, end: (m,) float64, the two states, each with sum 1.
        sources, targets: (f,) places in `items`: transfer k goes from items[sources[k]] to items[targets[k]].
        masses: (f,) what each transfer moves.
        prices: (f,) what one unit of it costs.
        duration: the time of all transfers together.
        theta: how much mass moves against the current, as a share of the current.
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

    @property
    def flows(self) -> list[Flow]:
        """The transfers in their order: (from, to, mass, cost of one unit), by the numbers of items."""
        ends = self.items[self.sources].tolist(), self.items[self.targets].tolist()
        return list(zip(*ends, self.masses.tolist(), self.prices.tolist(), strict=True))

    @property
    def moved(self) -> float:
        """The share of all mass that moves."""
        return float(self.masses.sum())

    @property
    def force(self) -> float:
        """The force on every transfer, the same for all: log((theta + 1) / theta)."""
        return force(self.theta)

    def done(self, t: ArrayLike) -> Floats:
        """(..., f) the share of each transfer that is done by then: all of the earlier ones, none of the later ones."""
        count = len(self.masses)
        return np.clip(self._moments(t)[..., None] / self.duration * count - np.arange(count), 0.0, 1.0)

    def state(self, t: ArrayLike) -> Floats:
        """(..., m) q_t, the state by then."""
        moves, each = np.zeros((len(self.masses), len(self.items))), np.arange(len(self.masses))
        moves[each, self.sources], moves[each, self.targets] = -self.masses, self.masses
        now = self.start + self.done(t) @ moves
        return np.maximum(now, 0.0)  # the plan was rounded to float32: an emptied item may fall below zero

    def rates(self, t: ArrayLike) -> Floats:
        """(..., m, m) T_t: the rate from item r to item s is T[s, r]; columns sum to zero.

        At the very moment when an item that is to receive is still empty, or one that gives is empty already, its rate
        is infinite: the equations hold almost everywhere, as the paper says.
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
        """(..., m, m) J[r, s] = T[r, s] q[s] - T[s, r] q[r]: what item r gains from item s per unit of time."""
        moments = self._moments(t)
        currents = np.zeros((moments.size, len(self.items), len(self.items)))
        if len(self.masses):
            at, r, s, speed = self._running(moments)
            currents[at, s, r], currents[at, r, s] = speed, -speed
        return currents.reshape(*moments.shape, *currents.shape[1:])

    def cost(self, t: ArrayLike | None = None) -> Any:
        """The integral of sum |J(r, s)| d(r, s) over r < s, until t or to the end: then W1 for an optimal plan."""
        return self._so_far(self.masses * self.prices, t)

    def entropy_production(self, t: ArrayLike | None = None) -> Entropy:
        """The entropy produced until t, or to the end: the integral of sum |J| |log(T[r,s] q[s] / (T[s,r] q[r]))|."""
        now = self.end if t is None else self.state(t)
        return produced(self._so_far(self.masses, t), _entropies(now) - _entropies(self.start), self.theta)

    def activity(self) -> float:
        """The integral of sum T[r, s] q[s] + T[s, r] q[r]: all mass that moves, with the current or against it."""
        return (2.0 * self.theta + 1.0) * self.moved

    def mobility(self) -> float:
        """The integral of sum |J / log(T[r, s] q[s] / (T[s, r] q[r]))| d^2: how easily mass moves, and how far."""
        return float(self.masses @ self.prices**2) / self.force

    def bound(self) -> float:
        """sqrt(entropy produced * mobility): the cost is never larger (by Cauchy and Schwarz), for any flow."""
        return float(np.sqrt(self.entropy_production().total * self.mobility()))

    def _moments(self, t: ArrayLike) -> Floats:
        moments = np.asarray(t, np.float64)
        if not ((moments >= 0.0) & (moments <= self.duration)).all():
            raise ValueError(f"t={t!r} lies outside the stage; give moments from 0 to {self.duration:g}")
        return moments

    def _running(self, moments: Floats) -> tuple[Any, Any, Any, Floats]:
        """Of every moment: its place, and the source, target and speed of the transfer that runs then."""
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
    p: ArrayLike, q: ArrayLike, cost: ArrayLike, plan: ArrayLike | None = None, duration: float = 1.0,
    theta: float = 1.0,
) -> Stage:  # fmt: skip
    """The flow from state p to state q over the same n items, under costs (n, n) that are the same both ways.

    `plan` (n, n) says what goes from where to where, rows summing to p and columns to q. Without one the cheapest is
    computed exactly, in float32; mass that both states share stays where it is, which for a metric cost is W1.

    Example:
        >>> stage([1.0, 0.0], [0.5, 0.5], [[0.0, 2.0], [2.0, 0.0]]).cost()
        1.0
    """
    start, end, ground = _distribution(p, "p"), _distribution(q, "q"), np.asarray(cost, np.float64)
    n = len(start)
    if len(end) != n:
        raise ValueError(f"p has {n} entries and q has {len(end)}; give two states over the same items")
    if ground.shape != (n, n) or not np.isfinite(ground).all() or (ground < 0).any():
        raise ValueError(f"cost has shape {ground.shape}; give {n} x {n} finite numbers, none below 0")
    if not np.allclose(ground, ground.T, rtol=1e-4, atol=1e-6):
        raise ValueError("cost differs between the two directions; give a symmetric matrix")
    moves = _cheapest(start, end, ground) if plan is None else _checked(np.array(plan, np.float64), start, end)
    np.fill_diagonal(moves, 0.0)
    sources, targets = np.nonzero(moves > 0)
    masses = moves[sources, targets]
    order = np.lexsort((targets, sources, -masses))
    sources, targets = sources[order], targets[order]
    return _made(np.arange(n), start, end, sources, targets, masses[order], ground[sources, targets], duration, theta)


def stage_between(
    left: stages.transport.State, right: stages.transport.State, vectors: NDArray[np.float32], rho: float = 1.0,
    unit: bool = True, duration: float = 1.0, theta: float = 1.0,
) -> Stage:  # fmt: skip
    """The flow between two sparse states (items, masses), as LPMT prices it: costs d^rho between the items' vectors.

    `unit`: the vectors have length one. For rho > 1 the cost is no metric; what is carried out is the cheapest way to
    move what differs, see `stages.transport`.

    Example:
        >>> prepared = kinrank.LPMT().prepare(Items.everyone(rows), SILENT)
        >>> a, b = (stages.transport.state_of(prepared.states, item) for item in (3, 8))
        >>> stage_between(a, b, rows).entropy_production()
    """
    return from_flows(left, right, stages.transport.exact_flows(left, right, vectors, rho, unit), duration, theta)


def from_flows(
    left: stages.transport.State, right: stages.transport.State, flows: Sequence[Flow], duration: float = 1.0,
    theta: float = 1.0,
) -> Stage:  # fmt: skip
    """The same where the movements (from, to, mass, cost of one unit) are known; all of them, in the order given."""
    items = np.union1d(left[0], right[0]).astype(np.int64)
    states = []
    for numbers, masses in (left, right):
        dense = np.zeros(len(items))
        dense[np.searchsorted(items, numbers)] = masses
        states.append(_distribution(dense, "a state"))
    table = np.array(flows, np.float64).reshape(-1, 4)
    sources, targets = (np.searchsorted(items, table[:, side].astype(np.int64)) for side in (0, 1))
    made = _made(items, states[0], states[1], sources, targets, table[:, 2], table[:, 3], duration, theta)
    if abs(made.state(duration) - made.end).max() > CLOSE:
        raise ValueError("the movements of mass do not carry the first state into the second; give all of them")
    return made


def _made(items: Any, start: Floats, end: Floats, sources: Any, targets: Any, *rest: Any) -> Stage:
    masses, prices, duration, theta = rest
    _positive(duration, "duration")
    _positive(theta, "theta")
    return Stage(items, start, end, sources, targets, masses, prices, float(duration), float(theta))


def _distribution(given: ArrayLike, name: str) -> Floats:
    masses = np.asarray(given, np.float64)
    if masses.ndim != 1 or not np.isfinite(masses).all() or (masses < 0).any() or abs(masses.sum() - 1.0) > CLOSE:
        raise ValueError(f"{name} is not a distribution; give a row of numbers, none below 0, with sum 1")
    return np.asarray(masses / masses.sum())


def _cheapest(start: Floats, end: Floats, ground: Floats) -> Floats:
    """(n, n) the cheapest way to move what differs; nothing where the states are equal but for rounding."""
    gap = start - end
    gap[abs(gap) <= stages.kernels.transport.SAME * start] = 0.0
    away, towards = np.maximum(gap, 0.0), np.maximum(-gap, 0.0)
    if not away.any() or not towards.any():
        return np.zeros(ground.shape)
    return stages.transport.wasserstein(away, towards, ground)[1].astype(np.float64)


def _checked(plan: Floats, start: Floats, end: Floats) -> Floats:
    n = len(start)
    if plan.shape != (n, n) or not np.isfinite(plan).all() or (plan < 0).any():
        raise ValueError(f"plan has shape {plan.shape}; give {n} x {n} masses, none below 0")
    if max(abs(plan.sum(axis=1) - start).max(), abs(plan.sum(axis=0) - end).max()) > CLOSE:
        raise ValueError("plan does not carry p into q; its rows have to sum to p and its columns to q")
    return plan


def _positive(number: float, name: str) -> None:
    if not 0.0 < number < float("inf"):
        raise ValueError(f"{name}={number!r} is not allowed; give a finite number above 0")


def _entropies(states: Floats) -> Any:
    """S = - sum p log p of every state (..., m), in nats."""
    found = np.apply_along_axis(stages.transport.entropy, -1, states)
    return found if found.ndim else float(found)
