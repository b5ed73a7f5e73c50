"""Thermodynamics of a transport plan between two states: rates, currents and bounds of the flow that carries it out.

Appendix B of the LPMT paper carries a transport plan out as one transfer after the other, each in an equal share dt of
the time. While a mass x moves from item r to item s, the state q_t and the rates T_t are

    q_t[r] falls and q_t[s] rises, both by x / dt per unit of time
    T_t[s, r] = (theta + 1) x / (q_t[r] dt),   T_t[r, s] = theta x / (q_t[s] dt),   theta > 0

so that dq/dt = T q holds. Column r of T describes where the mass of item r goes; every column sums to zero. The flow
itself, without rates, is `kinrank.thermodynamics.Stage`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages
from kinrank.errors import InputError
from kinrank.thermodynamics import FORCE, Entropy, Stage

Floats = NDArray[np.float64]
MAX_SUM_ERROR = 1e-3  # allowed error of sums of float32 masses


@dataclass(frozen=True, eq=False)
class RatedStage(Stage):
    """A stage with the rates of Appendix B. Made by `stage` and `add_rates`.

    Attributes:
        theta: mass that moves against the current, as a share of the current.
    """

    theta: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.theta < float("inf"):
            raise InputError(parameter="theta", given=self.theta, allowed="a finite number above 0")

    @property
    def force(self) -> float:
        """Force on every transfer, equal for all: log((theta + 1) / theta), which is `FORCE` at theta = 1."""
        return float(np.log1p(1.0 / self.theta))

    def rates(self, t: ArrayLike) -> Floats:
        """Return (..., m, m) T_t of Eq. 17: the rate from item r to item s is T[s, r]; columns sum to zero.

        At the moment when a receiving item is still empty, or a giving item is already empty, its rate is infinite: the
        equations hold almost everywhere, as the paper says.
        """
        moments = np.asarray(t, np.float64)
        rates = np.zeros((moments.size, len(self.items), len(self.items)))
        if len(self.masses):
            now = self.state(moments.ravel())
            at, r, s, speed = self._running(moments)
            with np.errstate(divide="ignore"):
                forward = (self.theta + 1.0) * speed / now[at, r]
                backward = self.theta * speed / now[at, s]
            rates[at, s, r], rates[at, r, r] = forward, -forward
            rates[at, r, s], rates[at, s, s] = backward, -backward
        return rates.reshape(*moments.shape, *rates.shape[1:])

    def currents(self, t: ArrayLike) -> Floats:
        """Return (..., m, m) J[r, s] = T[r, s] q[s] - T[s, r] q[r], Eq. 19: the gain of r from s per unit of time."""
        moments = np.asarray(t, np.float64)
        currents = np.zeros((moments.size, len(self.items), len(self.items)))
        if len(self.masses):
            at, r, s, speed = self._running(moments)
            currents[at, s, r], currents[at, r, s] = speed, -speed
        return currents.reshape(*moments.shape, *currents.shape[1:])

    def entropy_production(self, t: ArrayLike | None = None) -> Entropy:
        """Integrate sum |J| |log(T[r,s] q[s] / (T[s,r] q[r]))| until t or to the end: the entropy produced."""
        produced = super().entropy_production(t)
        total = produced.total * (self.force / FORCE)
        return Entropy(total, produced.states, total - produced.states)

    def activity(self) -> float:
        """Integrate sum T[r, s] q[s] + T[s, r] q[r]: all mass that moves, with the current or against it."""
        return (2.0 * self.theta + 1.0) * self.moved

    def mobility(self) -> float:
        """Integrate sum |J / log(T[r, s] q[s] / (T[s, r] q[r]))| d^2: how easily mass moves, and how far."""
        return float(self.masses @ self.prices**2) / self.force

    def bound(self) -> float:
        """Return sqrt(entropy produced * mobility), which the cost of no flow exceeds (by Cauchy and Schwarz)."""
        return float(np.sqrt(self.entropy_production().total * self.mobility()))

    def _running(self, moments: Floats) -> tuple[Any, Any, Any, Floats]:
        """Return for every moment its position, and the source, target and speed of the transfer that runs then."""
        count = len(self.masses)
        running = np.minimum((moments.ravel() * count).astype(np.int64), count - 1)
        return np.arange(moments.size), self.sources[running], self.targets[running], self.masses[running] * count


def add_rates(flow: Stage, theta: float = 1.0) -> RatedStage:
    """Return a flow of `kinrank.thermodynamics`, such as that of a step of a chain, with its rates."""
    return RatedStage(**vars(flow), theta=theta)


def stage(
    p: ArrayLike, q: ArrayLike, cost: ArrayLike, *, plan: ArrayLike | None = None, theta: float = 1.0
) -> RatedStage:
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
    return RatedStage(np.arange(n), start, end, sources, targets, masses[order], ground[sources, targets], theta)


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
