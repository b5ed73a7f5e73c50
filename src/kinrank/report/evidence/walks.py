"""Queries that gained or lost -> the chains that carried an item into their first results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.explain import Explanation, explain_prepared
from kinrank.features import Vectors, scale_of
from kinrank.items import Items
from kinrank.manifold import Manifold, export
from kinrank.methods import Method
from kinrank.progress import SILENT
from kinrank.report.evidence.judged import JUNK, RIGHT, Judged
from kinrank.report.evidence.trying import Order
from kinrank.space import Space
from kinrank.thermodynamics import Stage, stage_between

FIRST = 10  # results that are shown
ALL = 10**9  # movements of mass of a step

Link = tuple[str, int]  # "query" or "item", and its number


@dataclass(frozen=True, eq=False)
class Walk:
    """A chain and what it did.

    Attributes:
        query, item: where it leads from and to.
        mark: whether the item is right or wrong.
        links: the chain, the query first.
        costs, moved: what each step costs, and the share of all mass it moves.
        before, after: the item's ranks, from 1; None for one that is not listed.
        direct: share of the final distance that comes from comparing neighbourhoods directly, from 0 to 1.
    """

    query: int
    item: int
    mark: str
    links: tuple[Link, ...]
    costs: tuple[float, ...]
    moved: tuple[float, ...]
    before: int | None
    after: int | None
    direct: float


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a chain, for a closer look: from which link to which, its flow, and what the flow's items are."""

    start: Link
    end: Link
    stage: Stage
    links: tuple[Link, ...]


def theta_of(method: Method) -> float:
    """The share of the search's own distance in the final one."""
    return float(getattr(method, "theta", 0.0))


class Chains:
    """The chains of a joint graph: queries and gallery, or everyone."""

    def __init__(self, method: Method, queries: Vectors | None, gallery: Vectors, unit: bool) -> None:
        items = Items.everyone(gallery, unit) if queries is None else Items.joint(queries, gallery, unit)
        self._prepared: Any = method.prepare(items, SILENT)
        self.theta = theta_of(method)

    def explained(self, query: int, item: int) -> Explanation:
        return explain_prepared(self._prepared, query, item, ALL)

    def states(self, some: NDArray[np.int64]) -> Any:
        """(some, all) the states of some items of the gallery, as a sparse matrix."""
        items: Items = self._prepared.items
        return stages.csr.matrix_of(self._prepared.states, len(items))[items.gallery[some]]

    def step(self, start: Link, end: Link) -> Step:
        """The flow between the states of two links."""
        prepared = self._prepared
        items: Items = prepared.items
        places = {"query": items.queries, "item": items.gallery}
        left, right = (
            stages.transport.state_of(prepared.states, int(places[kind][number])) for kind, number in (start, end)
        )
        stage = stage_between(left, right, items.vectors, prepared.powers.rho, items.unit)
        first = 0 if items.self_query else len(items.queries)
        links = [("query", node) if node < first else ("item", node - first) for node in stage.items.tolist()]
        return Step(start, end, stage, tuple(links))


class CandidateChains:
    """The chains of a small graph per query, over its nearest items."""

    def __init__(self, method: Method, queries: Vectors | None, gallery: Vectors, unit: bool, nearest: Order) -> None:
        self._method, self._unit, self._nearest = method, unit, nearest
        self._queries, self._gallery = queries, gallery
        self.theta = theta_of(method)

    def explained(self, query: int, item: int) -> Explanation:
        pool = np.unique(self._nearest[query][self._nearest[query] >= 0])
        asking = self._gallery if self._queries is None else self._queries
        row, rows = asking[query : query + 1], self._gallery[pool]
        if not self._unit:
            scale = np.float32(scale_of(np.concatenate([row, rows])))
            row, rows = row / scale, rows / scale
        prepared = self._method.prepare(Items.joint(row, rows, self._unit), SILENT)
        found = explain_prepared(prepared, 0, int(np.searchsorted(pool, item)), ALL)
        numbers = [query if kind == "query" else int(pool[n]) for kind, n in zip(found.kinds, found.items, strict=True)]
        return Explanation(
            found.kinds, tuple(numbers), found.costs, found.total, found.distance, found.flows, found.shared,
            found.direct,
        )  # fmt: skip


class OnlineChains:
    """The chains of queries outside a prepared gallery."""

    def __init__(self, method: Method, queries: Vectors, gallery: Vectors, unit: bool) -> None:
        metric = "cosine" if unit else "euclidean"
        self._manifold, self._queries = Manifold.build(gallery, method, metric=metric), queries
        self.theta = theta_of(method)

    def explained(self, query: int, item: int) -> Explanation:
        return self._manifold.explain(self._queries[query], item, ALL)

    def states(self, some: NDArray[np.int64]) -> Any:
        """(some, all) the states of some items of the gallery, as a sparse matrix."""
        return export(self._manifold)["states"][some]


AnyChains = Chains | CandidateChains | OnlineChains


def chains_of(
    method: Method, queries: Vectors | None, gallery: Vectors, space: Space, mode: str, nearest: Order
) -> AnyChains | None:
    """What explains the results of a method; None where it has no chains."""
    try:
        method.check_explained()
    except ValueError:
        return None
    if mode.startswith("candidates"):
        return CandidateChains(method, queries, gallery, space.unit, nearest)
    if mode.startswith("online") and queries is not None:
        return OnlineChains(method, queries, gallery, space.unit)
    return Chains(method, queries, gallery, space.unit)


def walks_of(
    chains: AnyChains, before: Order, after: Order, judged: Judged, queries: Sequence[int], better: bool
) -> list[Walk]:
    """For each query the item that came furthest into its first results, and the chain to it.

    A right one where the query gained (`better`), a wrong one where it lost. Queries without such an item, or to whose
    item no chain leads, have no walk.
    """
    found = []
    for query in queries:
        listed = after[query][after[query] >= 0]
        reach = max(FIRST, len(judged.right(query)))
        items = listed[:reach]
        ranks = {int(item): place for place, item in enumerate(before[query].tolist(), start=1)}
        marks = judged.marks(query, items)
        moved = []
        for place, (item, mark) in enumerate(zip(items.tolist(), marks, strict=True), start=1):
            old = ranks.get(item, before.shape[1] + 1)
            if (mark == RIGHT) == better and mark != JUNK and old > place:
                moved.append((place > FIRST, place - old, place, item, mark))
        if not moved:
            continue
        _, _, place, item, mark = min(moved)
        told = chains.explained(query, item)
        if not told.reached or len(told.items) < 2:
            continue
        links = tuple((kind, int(number)) for kind, number in zip(told.kinds, told.items, strict=True))
        links = (("query", query), *links[1:])
        direct = (1.0 - chains.theta) * told.direct
        mass = tuple(float(sum(flow[2] for flow in plan)) for plan in told.flows)
        found.append(Walk(query, item, mark, links, told.costs, mass, ranks.get(item), place, direct))
    return found
