"""The chain from the query of the page to an item, in rows of the gallery."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from kinrank import stages
from kinrank.chain import Chain, Link
from kinrank.joint_explanation import find_graph_chain
from kinrank.manifold.explanation import find_online_chain
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.vector_input import compute_rms_length
from kinrank.web.collection import Collection
from kinrank.web.page_data.before_after import QUERY_ROW, Comparison

MAX_FLOWS_PER_STEP = 8  # movements of mass shown
NO_CHAIN = Chain(())
QUERY_LINK = Link("query", QUERY_ROW, QUERY_ROW)


class CandidateProblem:
    """The query and its candidates as a small problem of a method, prepared on first use.

    Node 0 is the query; the other nodes are the candidates in their order.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.rows = comparison, [QUERY_ROW, *comparison.candidates.tolist()]

    @cached_property
    def prepared(self) -> Any:
        snapshot = self.comparison.snapshot
        vectors = np.concatenate([self.comparison.query, snapshot.vectors[self.comparison.candidates]])
        if not snapshot.space.unit:
            vectors = vectors / np.float32(compute_rms_length(vectors))
        with stages.kernels.compiler.single_blas_thread():
            return self.comparison.method.prepare(Items.from_gallery(vectors, snapshot.space.unit), SILENT)


def find_chain(comparison: Comparison, row: int, problem: CandidateProblem) -> Chain:
    """Find the chain to the item at a row, by the computation that ranks it; names are rows.

    `NO_CHAIN` if the method has no chains, and for the query item and items that are not re-ranked.
    """
    if row == comparison.own or not comparison.method.can("explain"):
        return NO_CHAIN
    if comparison.online:
        chain = find_online_chain(comparison.snapshot, comparison.query, row, MAX_FLOWS_PER_STEP)
        chain = chain.rename(QUERY_LINK, _describe_row)
    elif row not in problem.rows:
        return NO_CHAIN
    else:
        chain = find_graph_chain(problem.prepared, 0, problem.rows.index(row), MAX_FLOWS_PER_STEP)
        chain = chain.rename(QUERY_LINK, lambda node: _describe_row(problem.rows[node]))
    return _start_at_own_item(chain, comparison.own)


def _describe_row(row: int) -> Link:
    return Link("item", row, row)


def _start_at_own_item(chain: Chain, own: int) -> Chain:
    """Let the chain of a query item start at that item: add the cost of its step to itself to the next step."""
    if own == QUERY_ROW or len(chain.names) < 2 or chain.names[0] != own:
        return chain
    costs = (chain.costs[0] + chain.costs[1], *chain.costs[2:])
    links = (chain.links[0], *chain.links[2:])
    return replace(chain, links=links, costs=costs, moved=chain.moved[1:], flows=chain.flows[1:])


def list_steps(chain: Chain, comparison: Comparison, collection: Collection) -> list[dict[str, Any]]:
    """Return the steps of a chain of rows as JSON."""

    def card(row: int) -> dict[str, Any]:
        return comparison.describe_row(collection, row)

    steps = zip(itertools.pairwise(chain.items), chain.costs, chain.shares, chain.moved, chain.flows, strict=True)
    return [
        {
            "from": card(start),
            "to": card(end),
            "cost": cost,
            "share": share,
            "moved": moved,
            "flows": [{"from": card(a), "to": card(b), "mass": mass, "cost": price} for a, b, mass, price in flows],
        }
        for (start, end), cost, share, moved, flows in steps
    ]
