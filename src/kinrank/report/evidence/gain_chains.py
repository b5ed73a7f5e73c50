"""Chains behind gains and losses: how an item moved into the first results of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.chain import Chain, Link
from kinrank.evaluation.relevance import Relevance
from kinrank.joint_explanation import explain_in_graph, find_graph_chain
from kinrank.manifold import Manifold, export
from kinrank.methods import LPMT, Method
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.report.evidence.method_runs import RankOrder
from kinrank.thermodynamics import Stage, stage_between
from kinrank.vector_input import Vectors, compute_rms_length
from kinrank.vector_space import Space

SHOWN_RESULTS = 10


@dataclass(frozen=True, eq=False)
class GainChain:
    """A chain and its effect.

    Attributes:
        query: number of the query.
        mark: relevance of the item: right or wrong.
        chain: from the query to the item, with the ranks of the item.
        direct: share of the final distance that comes from comparing neighbourhoods directly, from 0 to 1.
    """

    query: int
    mark: str
    chain: Chain
    direct: float

    @property
    def item(self) -> int:
        return self.chain.items[-1]


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a chain in detail: start, end, flow, and the links behind the items of the flow."""

    start: Link
    end: Link
    stage: Stage
    links: tuple[Link, ...]


def search_share(method: Method) -> float:
    """Return the share of the search distance in the final distance."""
    return method.answer_values.theta if isinstance(method, LPMT) else 0.0


def _make_link(kind: str, number: int) -> Link:
    return Link(kind, number, f"{kind} {number}")


class JointChains:
    """Chains of a joint graph of queries and gallery, or of the gallery alone."""

    def __init__(self, method: Method, queries: Vectors | None, gallery: Vectors, unit: bool) -> None:
        items = Items.from_gallery(gallery, unit) if queries is None else Items.joint(queries, gallery, unit)
        self._prepared: Any = method.prepare(items, SILENT)
        self.theta = search_share(method)

    def explain(self, query: int, item: int) -> Chain:
        """Explain the distance between a query and an item."""
        return explain_in_graph(self._prepared, query, item, flows=0)

    def states(self, selection: NDArray[np.int64]) -> Any:
        """Return (some, all) states of some items of the gallery, as a sparse matrix."""
        items: Items = self._prepared.items
        return stages.csr.matrix_from_rows(self._prepared.states, len(items))[items.gallery[selection]]

    def step(self, start: Link, end: Link) -> Step:
        """Return the flow between the states of two links."""
        prepared = self._prepared
        items: Items = prepared.items
        places = {"query": items.queries, "item": items.gallery}
        left, right = (
            stages.transport.get_state(prepared.states, int(places[link.kind][link.number])) for link in (start, end)
        )
        stage = stage_between(left, right, items.vectors, rho=prepared.powers.rho, unit=items.unit)
        first = 0 if items.self_query else len(items.queries)
        nodes = stage.items.tolist()
        links = tuple(_make_link("query", node) if node < first else _make_link("item", node - first) for node in nodes)
        return Step(start, end, stage, links)


class CandidateChains:
    """Chains of a small graph per query, over its nearest items."""

    def __init__(
        self, method: Method, queries: Vectors | None, gallery: Vectors, unit: bool, nearest: RankOrder
    ) -> None:
        self._method, self._unit, self._nearest = method, unit, nearest
        self._queries, self._gallery = queries, gallery
        self.theta = search_share(method)

    def explain(self, query: int, item: int) -> Chain:
        """Explain the distance between a query and an item."""
        pool = np.unique(self._nearest[query][self._nearest[query] >= 0])
        query_rows = self._gallery if self._queries is None else self._queries
        row, rows = query_rows[query : query + 1], self._gallery[pool]
        if not self._unit:
            scale = np.float32(compute_rms_length(np.concatenate([row, rows])))
            row, rows = row / scale, rows / scale
        prepared = self._method.prepare(Items.joint(row, rows, self._unit), SILENT)
        chain = find_graph_chain(prepared, 0, 1 + int(np.searchsorted(pool, item)), flows=0)
        return chain.rename(_make_link("query", query), lambda node: _make_link("item", int(pool[node - 1])))


class OnlineChains:
    """Chains of queries outside a prepared gallery."""

    def __init__(self, method: Method, queries: Vectors, gallery: Vectors, unit: bool) -> None:
        metric = "cosine" if unit else "euclidean"
        self._manifold, self._queries = Manifold.build(gallery, method, metric=metric), queries
        self.theta = search_share(method)

    def explain(self, query: int, item: int) -> Chain:
        """Explain the distance between a query and an item."""
        return self._manifold.explain(self._queries[query], item, flows=0)

    def states(self, selection: NDArray[np.int64]) -> Any:
        """Return (some, all) states of some items of the gallery, as a sparse matrix."""
        return export(self._manifold)["states"][selection]


AnyChains = JointChains | CandidateChains | OnlineChains


def make_chains(
    method: Method, queries: Vectors | None, gallery: Vectors, space: Space, mode: str, nearest: RankOrder
) -> AnyChains | None:
    """Return the chains of a method in a mode; None if it has no chains."""
    if not method.can("explain"):
        return None
    if mode.startswith("candidates"):
        return CandidateChains(method, queries, gallery, space.unit, nearest)
    if mode.startswith("online") and queries is not None:
        return OnlineChains(method, queries, gallery, space.unit)
    return JointChains(method, queries, gallery, space.unit)


def find_gain_chains(
    chains: AnyChains,
    before: RankOrder,
    after: RankOrder,
    relevance: Relevance,
    queries: Sequence[int],
    better: bool,
) -> list[GainChain]:
    """Find, for each query, the item that moved up the most into its first results, and the chain to it.

    The item is relevant for queries that gained (`better`) and irrelevant for those that lost. Queries without such an
    item, or without a chain to it, are left out.
    """
    gain_chains = []
    for query in queries:
        results = after[query][after[query] >= 0]
        reach = max(SHOWN_RESULTS, len(relevance.right(query)))
        items = results[:reach]
        ranks = {int(item): rank for rank, item in enumerate(before[query].tolist(), start=1)}
        verdicts = relevance.judge(("query", query), None, items.tolist()) or []
        moved = []
        for rank, (item, is_right) in enumerate(zip(items.tolist(), verdicts, strict=True), start=1):
            old = ranks.get(item, before.shape[1] + 1)
            if is_right is better and old > rank:
                moved.append((rank > SHOWN_RESULTS, rank - old, rank, item))
        if not moved:
            continue
        _, _, rank, item = min(moved)
        chain = chains.explain(query, item)
        if not chain.reached or len(chain.links) < 2:
            continue
        links = (_make_link("query", query), *chain.links[1:])
        chain = replace(chain, links=links, rank_before=ranks.get(item), rank_after=rank)
        gain_chains.append(GainChain(query, "right" if better else "wrong", chain, (1.0 - chains.theta) * chain.direct))
    return gain_chains
