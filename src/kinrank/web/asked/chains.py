"""Two compared lists and an item -> the chain that leads from the query to it, by rows of the gallery."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kinrank import stages, thermodynamics
from kinrank.explain import explain_prepared
from kinrank.features import scale_of
from kinrank.items import Items
from kinrank.methods import Method
from kinrank.progress import SILENT
from kinrank.stages.masks import EVERYONE
from kinrank.web.asked.asking import Shown
from kinrank.web.asked.comparing import ASKING, Compared

FLOWS = 8  # movements of mass that are told of a step
ALL = 10**9

Flow = tuple[int, int, float, float]  # from, to, mass, cost of one unit


@dataclass(frozen=True)
class Walk:
    """The cheapest chain from a query to an item; without rows where none leads there.

    Attributes:
        rows: what it leads over, behind the query; the last is the item.
        costs: what each step costs.
        moved: the share of all mass that each step moves.
        flows: the largest movements of mass of each step, by rows.
        shared, direct: as in `Explanation`.
    """

    rows: tuple[int, ...] = ()
    costs: tuple[float, ...] = ()
    moved: tuple[float, ...] = ()
    flows: tuple[tuple[Flow, ...], ...] = ()
    shared: float = 0.0
    direct: float = 0.0

    @property
    def total(self) -> float:
        return sum(self.costs)

    def steps(self, found: Compared, collection: Shown) -> list[dict[str, Any]]:
        """The steps for JSON."""

        def card(row: int) -> dict[str, Any]:
            return found.card_at(collection, row)

        return [
            {
                "from": card(start),
                "to": card(end),
                "cost": cost,
                "share": cost / self.total if self.total else 0.0,
                "moved": moved,
                "entropy": moved * thermodynamics.force(),
                "flows": [{"from": card(a), "to": card(b), "mass": mass, "cost": price} for a, b, mass, price in flows],
            }
            for (start, end), cost, moved, flows in zip(
                itertools.pairwise([ASKING, *self.rows]), self.costs, self.moved, self.flows, strict=True
            )
        ]


class Problem:
    """The query and its candidates as one small problem of a method, prepared when it is first needed.

    Node 0 is the query, the others are the candidates in their order.
    """

    def __init__(self, found: Compared) -> None:
        self.found, self.rows = found, [ASKING, *found.candidates.tolist()]

    @cached_property
    def prepared(self) -> Any:
        snapshot = self.found.snapshot
        vectors = np.concatenate([self.found.query, snapshot.vectors[self.found.candidates]])
        if not snapshot.space.unit:
            vectors = vectors / np.float32(scale_of(vectors))
        with stages.kernels.compiled.one_blas_thread():
            return self.found.method.prepare(Items.everyone(vectors, snapshot.space.unit), SILENT)


def has_chains(method: Method) -> bool:
    try:
        method.check_explained()
    except ValueError:
        return False
    return True


def walked(found: Compared, row: int, problem: Problem) -> Walk:
    """The chain to the item at a row, from the same computation that ranks it; none to the item that asks."""
    if row == found.own or not has_chains(found.method):
        return Walk()
    walk = _online(found, row) if found.online else _among_candidates(problem, row)
    return _from_itself(walk, found.own)


def _online(found: Compared, row: int) -> Walk:
    snapshot = found.snapshot
    near, masks = snapshot.found(found.query, 1), snapshot.masks()
    more = () if masks is EVERYONE else (masks,)
    chain = snapshot.method.explain_answer(snapshot.gallery, snapshot.opened, found.query, near, row, FLOWS, *more)
    costs = tuple(b - a for a, b in itertools.pairwise([0.0, *chain.totals]))
    return Walk(chain.items, costs, chain.moved, chain.flows, chain.shared, chain.direct)


def _among_candidates(problem: Problem, row: int) -> Walk:
    if row not in problem.rows:
        return Walk()
    found = explain_prepared(problem.prepared, 0, problem.rows.index(row), ALL)
    if not found.reached:
        return Walk(shared=found.shared, direct=found.direct)
    rows, plans = problem.rows, found.flows
    flows = tuple(tuple((rows[a], rows[b], mass, cost) for a, b, mass, cost in plan[:FLOWS]) for plan in plans)
    reached = tuple(rows[node] for node in found.items[1:])
    return Walk(reached, found.costs, found.moved, flows, found.shared, found.direct)


def _from_itself(walk: Walk, own: int) -> Walk:
    """The chain of an item that asks starts at that item: its step to its own place counts with the next one."""
    if own == ASKING or len(walk.rows) < 2 or walk.rows[0] != own:
        return walk
    costs = (walk.costs[0] + walk.costs[1], *walk.costs[2:])
    return replace(walk, rows=walk.rows[1:], costs=costs, moved=walk.moved[1:], flows=walk.flows[1:])
