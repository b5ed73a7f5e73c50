"""A query and a result -> the chain of items that carried it there, and what each step cost."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank import stages
from kinrank.items import Items
from kinrank.methods import Method, resolve
from kinrank.progress import Progress, Show
from kinrank.stores.rows import gallery_rows


@dataclass(frozen=True)
class Explanation:
    """Why an item stands where it stands.

    Attributes:
        kinds: "query" or "item" for every link of the chain; in a joint graph other queries may be links.
        items: the numbers of the links, queries counted among queries and items among the gallery.
        costs: what each step adds to d', W(p_i, p_j; d^rho)^gamma; one less than links.
        total: their sum, d' of the result.
        distance: the Euclidean distance of the search.
        flows: for each step, (from, to, mass, cost of one unit), largest masses first; numbers as in the joint graph.
        shared: how much the wide states of query and item share, from 0 to 1: what is compared beside the chain.
        direct: how much that counts beside the chain, from 0 to 1.
    """

    kinds: tuple[str, ...]
    items: tuple[int, ...]
    costs: tuple[float, ...]
    total: float
    distance: float
    flows: tuple[tuple[tuple[Any, Any, float, float], ...], ...]
    shared: float = 0.0
    direct: float = 0.0

    @property
    def reached(self) -> bool:
        """Whether any chain leads there at all."""
        return self.total < float("inf")

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which knows no infinity: `total` is None where no chain leads."""
        return {
            "chain": [{"kind": kind, "number": number} for kind, number in zip(self.kinds, self.items, strict=True)],
            "costs": list(self.costs),
            "total": self.total if self.reached else None,
            "distance": self.distance,
            "shared": self.shared,
            "direct": self.direct,
        }

    @property
    def beside(self) -> str:
        """What counts beside the chain, as the end of a sentence; empty where nothing does."""
        if not self.direct:
            return ""
        return (
            f"; wide neighbourhoods have {self.shared:.0%} in common: this counts {self.direct:.0%}, the chain "
            f"{1.0 - self.direct:.0%}"
        )

    def __str__(self) -> str:
        if not self.reached:
            return f"no chain leads there; distance of the search {self.distance:.4f}"
        lines = [f"{self.kinds[0]} {self.items[0]}"]
        for kind, number, cost in zip(self.kinds[1:], self.items[1:], self.costs, strict=True):
            share = cost / self.total if self.total else 0.0
            lines.append(f"  -> {kind} {number}   cost {cost:.4g} ({share:.0%})")
        found = f"d' {self.total:.4g} in {len(self.costs)} steps; distance of the search {self.distance:.4f}"
        lines.append(found + self.beside)
        return "\n".join(lines)


def explain(
    queries: ArrayLike | None,
    gallery: ArrayLike,
    query: int,
    item: int,
    method: Method | str | None = None,
    flows: int = 5,
    progress: Show = None,
    metric: str | None = None,
) -> Explanation:
    """The cheapest chain from a query to a gallery item, from the same computation that ranks it (joint).

    Args:
        queries, gallery: as for `rerank`; None lets `query` be the number of a gallery item.
        query, item: numbers of the query and of the result.
        method: an LPMT, the one method made of chains.
        flows: how many of the largest movements of mass to keep per step.
        metric: "cosine" or "euclidean", as for `rerank`.

    Example:
        >>> print(kinrank.explain(queries, gallery, query=3, item=1041))
    """
    method = resolve(method)
    method.check_explained()
    rows, space = gallery_rows(gallery, metric)
    if queries is None:
        items = Items.everyone(rows, space.unit)
    else:
        items = Items.joint(space.rows(queries, "queries", rows.shape[1]), rows, space.unit)
    _inside(query, len(items.queries), "query")
    _inside(item, len(items.gallery), "item")
    return explain_prepared(method.prepare(items, Progress(progress)), query, item, flows)


def explain_prepared(prepared: Any, query: int, item: int, flows: int = 5) -> Explanation:
    """The same for problems already prepared by LPMT: several explanations for the price of one."""
    items: Items = prepared.items
    states, steps, rho = prepared.states, prepared.steps, prepared.powers.rho
    source, target = int(items.queries[query]), int(items.gallery[item])
    totals, parents = stages.chains.chains_from(np.array([source]), steps, parents=True)
    chain = stages.chains.chain_to(parents[0], target) if np.isfinite(totals[0, target]) else [target]
    costs = tuple(float(totals[0, b] - totals[0, a]) for a, b in itertools.pairwise(chain))
    passed = [stages.transport.state_of(states, node) for node in chain]
    plans = (stages.transport.exact_flows(a, b, items.vectors, rho, items.unit) for a, b in itertools.pairwise(passed))
    moved = tuple(tuple(plan[:flows]) for plan in plans)
    first = 0 if items.self_query else len(items.queries)
    kinds = tuple("query" if node == source or node < first else "item" for node in chain)
    numbers = tuple(node if node < first else node - first for node in chain)
    difference = items.vectors[source] - items.vectors[target]
    total = float(totals[0, target]) if len(chain) > 1 or source == target else float("inf")
    shared, direct = 0.0, prepared.powers.direct
    if direct:
        gap = stages.direct.apart(prepared.wide, np.array([source]), np.array([target]))
        shared = 1.0 - float(gap[0, 0]) if difference.any() else 1.0
    return Explanation(kinds, numbers, costs, total, float(np.sqrt(difference @ difference)), moved, shared, direct)


def _inside(number: int, count: int, name: str) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or not 0 <= number < count:
        raise ValueError(f"{name}={number!r} does not exist; give a whole number from 0 to {count - 1}")
