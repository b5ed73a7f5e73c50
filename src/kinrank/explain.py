"""A query and a result -> the chain of items that carried it there, and what each step cost."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank import stages, thermodynamics
from kinrank.items import Items
from kinrank.methods import Method, resolve
from kinrank.progress import Progress, Show
from kinrank.stores.rows import gallery_rows


@dataclass(frozen=True)
class Explanation:
    """Why an item stands where it stands.

    A step carries the mass of one neighbourhood over to the next. `kinrank.thermodynamics` tells how such a flow runs
    and what entropy it produces: log 2 times the mass it moves, of which the states gain a part and the environment
    the rest.

    Attributes:
        kinds: "query" or "item" for every link of the chain; in a joint graph other queries may be links.
        items: the numbers of the links, queries counted among queries and items among the gallery.
        costs: what each step adds to d', W(p_i, p_j; d^rho)^gamma; one less than links.
        total: their sum, d' of the result.
        distance: the Euclidean distance of the search.
        flows: for each step, (from, to, mass, cost of one unit), largest masses first; numbers as in the joint graph.
        shared: how much the wide states of query and item share, from 0 to 1: what is compared beside the chain.
        direct: how much that counts beside the chain, from 0 to 1.
        moved: the share of all mass that each step moves.
        entropy: the entropy each step produces.
        entropy_of_states: how much of it the states gain; negative where a step concentrates them.
    """

    kinds: tuple[str, ...]
    items: tuple[int, ...]
    costs: tuple[float, ...]
    total: float
    distance: float
    flows: tuple[tuple[tuple[Any, Any, float, float], ...], ...]
    shared: float = 0.0
    direct: float = 0.0
    moved: tuple[float, ...] = ()
    entropy: tuple[float, ...] = ()
    entropy_of_states: tuple[float, ...] = ()

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
            "moved": list(self.moved),
            "entropy": list(self.entropy),
            "entropy_of_states": list(self.entropy_of_states),
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
    source, target = int(items.queries[query]), int(items.gallery[item])
    chain, totals = _chain(prepared, source, target)
    steps = _transitions(prepared, chain)
    produced = [step.entropy_production() for step in steps]
    first = 0 if items.self_query else len(items.queries)
    difference = items.vectors[source] - items.vectors[target]
    shared, direct = 0.0, prepared.powers.direct
    if direct:
        gap = stages.direct.apart(prepared.wide, np.array([source]), np.array([target]))
        shared = 1.0 - float(gap[0, 0]) if difference.any() else 1.0
    return Explanation(
        kinds=tuple("query" if node == source or node < first else "item" for node in chain),
        items=tuple(node if node < first else node - first for node in chain),
        costs=tuple(b - a for a, b in itertools.pairwise(totals)),
        total=totals[-1],
        distance=float(np.sqrt(difference @ difference)),
        flows=tuple(tuple(step.flows[:flows]) for step in steps),
        shared=shared,
        direct=direct,
        moved=tuple(step.moved for step in steps),
        entropy=tuple(entropy.total for entropy in produced),
        entropy_of_states=tuple(entropy.states for entropy in produced),
    )


def transitions(prepared: Any, query: int, item: int) -> list[thermodynamics.Stage]:
    """The steps of the cheapest chain as flows of mass, for problems already prepared by LPMT; none without a chain.

    Items are numbered as in the joint graph: queries first, then the gallery (`prepared.items` has both).
    """
    items: Items = prepared.items
    return _transitions(prepared, _chain(prepared, int(items.queries[query]), int(items.gallery[item]))[0])


def _chain(prepared: Any, source: int, target: int) -> tuple[list[int], list[float]]:
    """The items of the cheapest chain, and what it costs to get to each; the target alone where no chain leads."""
    totals, parents = stages.chains.chains_from(np.array([source]), prepared.steps, parents=True)
    chain = stages.chains.chain_to(parents[0], target) if np.isfinite(totals[0, target]) else [target]
    return chain, [float(totals[0, node]) for node in chain]


def _transitions(prepared: Any, chain: list[int]) -> list[thermodynamics.Stage]:
    items, rho = prepared.items, prepared.powers.rho
    passed = [stages.transport.state_of(prepared.states, node) for node in chain]
    return [thermodynamics.stage_between(a, b, items.vectors, rho, items.unit) for a, b in itertools.pairwise(passed)]


def _inside(number: int, count: int, name: str) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or not 0 <= number < count:
        raise ValueError(f"{name}={number!r} does not exist; give a whole number from 0 to {count - 1}")
