"""Explanation of a result of `rerank`: the chain of items from the query, and the cost of each step."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages, thermodynamics
from kinrank.chain import Chain, Link
from kinrank.errors import InputError
from kinrank.methods import Method, resolve_method
from kinrank.methods.base import for_candidates
from kinrank.parameters import check_whole_number
from kinrank.problem import Items
from kinrank.progress import Progress, ProgressOption
from kinrank.reranking.candidates import CandidateOption, build_candidate_graph, choose_space, resolve_candidates
from kinrank.stores import Store
from kinrank.stores.base import resolve_metric, to_id_array
from kinrank.stores.gallery import read_gallery


def explain(
    queries: ArrayLike | None,
    gallery: ArrayLike | Store,
    *,
    item: int | str,
    query: int | str | None = None,
    method: Method | str | None = None,
    flows: int = 5,
    progress: ProgressOption = None,
    metric: str | None = None,
    candidates: CandidateOption = None,
) -> Chain:
    """Find the cheapest chain from a query to a gallery item, by the computation of `rerank` that ranks it.

    Args:
        queries, gallery, candidates: as for `rerank`; without queries, `query` is an item of the gallery.
        item, query: numbers of the result and of the query; a single query needs none. Items of a vector database are
            given by their ids.
        method: an LPMT, the only method that is made of chains.
        flows: number of the largest movements of mass to keep per step.
        metric: "cosine" or "euclidean", as for `rerank`.

    Example:
        >>> print(kinrank.explain(queries, gallery, query=3, item=1041))
    """
    method = resolve_method(method)
    method.require("explain")
    flows, report, ids = check_whole_number(flows, "flows", low=0), Progress(progress), None
    count = resolve_candidates(candidates, gallery)
    if count is None:
        held = read_gallery(gallery, metric, report=report)
        items, ids = held.items(queries), held.ids
        if queries is None and ids is not None:
            query = _find_place(query, ids, "query")
    else:
        space, row = choose_space(gallery, resolve_metric(gallery, metric)), None
        if queries is not None:
            rows = space.rows(queries, "queries")
            row = rows[[_choose_query(query, len(rows))]]
        items, ids = build_candidate_graph(row, query, gallery, count, space)
        method, query = for_candidates(method), 0
    number = _check_number(item, len(items.gallery), "item") if ids is None else _find_place(item, ids, "item")
    query = _choose_query(query, len(items.queries))
    return explain_in_graph(method.prepare(items, report), query, number, flows, ids)


def explain_in_graph(prepared: Any, query: int, item: int, flows: int = 5, ids: NDArray[Any] | None = None) -> Chain:
    """Explain a result in a graph that LPMT has already prepared, so that several explanations cost one preparation.

    `ids` are those of the items, if they are not numbered.
    """
    items: Items = prepared.items
    source, first = int(items.queries[query]), 0 if items.self_query else len(items.queries)

    def describe(node: int) -> Link:
        kind, number = ("item", node - first) if node >= first else ("query", node)
        if kind == "query" or ids is None:
            return Link(kind, number, f"{kind} {number}")
        name = ids.tolist()[number]
        return Link(kind, name if isinstance(name, int) else number, name)

    return find_graph_chain(prepared, source, int(items.gallery[item]), flows).rename(
        Link("query", source, f"query {source}"), describe
    )


def find_graph_chain(prepared: Any, source: int, target: int, flows: int) -> Chain:
    """Find the cheapest chain between two nodes of a graph that LPMT has prepared; names are numbers of nodes."""
    items: Items = prepared.items
    chain, totals = _find_cheapest_path(prepared, source, target)
    steps = _build_transitions(prepared, chain)
    difference = items.vectors[source] - items.vectors[target]
    shared, direct = 0.0, prepared.powers.direct
    if direct:
        gaps = stages.states.wide_distances(prepared.wide, np.array([source]), np.arange(len(items)))
        shared = 1.0 - float(gaps[0, target]) if difference.any() else 1.0
        in_gallery = gaps[:, items.gallery]
        direct = stages.distance_fusion.measure_direct_share(direct, in_gallery, prepared.k, items.self_query)
    return Chain(
        links=tuple(Link("query" if node == source else "item", node, node) for node in chain),
        costs=tuple(b - a for a, b in itertools.pairwise(totals)),
        total=totals[-1],
        flows=tuple(tuple(step.flows[:flows]) for step in steps),
        moved=tuple(step.moved for step in steps),
        entropy_of_states=tuple(step.entropy_production().states for step in steps),
        shared=shared,
        direct=direct,
        distance=float(np.sqrt(difference @ difference)),
    )


def trace_transitions(prepared: Any, query: int, item: int) -> list[thermodynamics.Stage]:
    """Return the steps of the cheapest chain as flows of mass, in a graph prepared by LPMT; empty without a chain.

    Items are numbered as in the joint graph: queries first, then the gallery (`prepared.items` has both).
    """
    items: Items = prepared.items
    ends = int(items.queries[query]), int(items.gallery[item])
    return _build_transitions(prepared, _find_cheapest_path(prepared, *ends)[0])


def _find_cheapest_path(prepared: Any, source: int, target: int) -> tuple[list[int], list[float]]:
    """Return the items of the cheapest chain and the total cost up to each; only the target if no chain leads to it."""
    totals, parents = stages.step_costs.find_chains(np.array([source]), prepared.steps, parents=True)
    chain = stages.step_costs.trace_chain(parents[0], target) if np.isfinite(totals[0, target]) else [target]
    return chain, [float(totals[0, node]) for node in chain]


def _build_transitions(prepared: Any, chain: list[int]) -> list[thermodynamics.Stage]:
    items, rho = prepared.items, prepared.powers.rho
    passed = [stages.transport.get_state(prepared.states, node) for node in chain]
    return [
        thermodynamics.stage_between(a, b, items.vectors, rho=rho, unit=items.unit)
        for a, b in itertools.pairwise(passed)
    ]


def _choose_query(query: Any, count: int) -> int:
    return 0 if query is None and count == 1 else _check_number(query, count, "query")


def _find_place(name: Any, ids: NDArray[Any], parameter: str) -> int:
    """Return the position of an item among the ids of a graph."""
    places = np.flatnonzero(ids == to_id_array([name])) if name is not None else np.empty(0, np.int64)
    if not len(places):
        raise InputError(
            "is not an item of the graph",
            parameter=parameter,
            given=name,
            remedy="give the id of a result, and the `candidates` of its ranking",
        )
    return int(places[0])


def _check_number(number: Any, count: int, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or not 0 <= number < count:
        raise InputError(
            "does not exist", parameter=name, given=number, allowed=f"a whole number from 0 to {count - 1}"
        )
    return int(number)
