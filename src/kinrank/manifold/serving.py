"""Serving: what a method has to offer to answer queries it has never seen, and which methods do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinrank.explain import Explanation
from kinrank.features import Vectors
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import METHODS, Method
from kinrank.neighbors import Neighbors
from kinrank.progress import Progress


@dataclass(frozen=True, eq=False)
class Answer:
    """(q, depth) item numbers and distances, nearest first, -1 and inf behind them; facts for `Ranking.meta`."""

    indices: NDArray[np.int64]
    distances: NDArray[np.float32]
    facts: dict[str, Any] = field(default_factory=dict)


class Serving(Protocol):
    """The offline and the online half of one method."""

    def check(self, method: Method) -> None:
        """A ValueError if these hyper-parameters cannot be served."""

    def memory(self, method: Method, items: int, dimensions: int) -> int:
        """Bytes `offline` needs at its peak, vectors and neighbour lists included."""

    def offline(
        self, method: Method, vectors: Vectors, lists_of: Callable[[int], Neighbors], progress: Progress
    ) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
        """The arrays and numbers to keep of a gallery; these are saved.

        `lists_of(k)`: (n, min(k, n)) neighbours, each item first in its own list. Whoever calls it holds the only
        reference, and can free them.
        """

    def restore(
        self, method: Method, vectors: Vectors, arrays: dict[str, NDArray[Any]], facts: dict[str, float]
    ) -> Any:
        """What searches use, made of what was kept; a ValueError if the parts do not fit together."""

    def reach(self, method: Method, depth: int) -> int:
        """How many nearest items of a query `online` needs to return `depth` of them."""

    def online(
        self, snapshot: Snapshot, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None
    ) -> Answer:
        """The best items for queries (q, d) that found these neighbours (rows padded with -1)."""

    def explain(self, snapshot: Snapshot, query: Vectors, found: Neighbors, item: int, flows: int) -> Explanation:
        """Why an item stands where it stands for a query (1, d)."""


def serving_of(method: Method) -> Serving:
    """How this method serves, or a ValueError that names those that do."""
    from kinrank.manifold.dfs import ServingDFS
    from kinrank.manifold.eir import ServingEIR
    from kinrank.manifold.expansion import ServingExpansion
    from kinrank.manifold.fsr import ServingFSR
    from kinrank.manifold.lpmt import ServingLPMT
    from kinrank.methods.expansion import Expansion

    servers: dict[str, Serving] = {
        "lpmt": ServingLPMT(),
        "dfs": ServingDFS(),
        "fsr": ServingFSR(),
        "eir": ServingEIR(),
    }
    servers |= {name: ServingExpansion() for name, kind in METHODS.items() if issubclass(kind, Expansion)}
    if method.name not in servers or METHODS.get(method.name) is not type(method):
        raise ValueError(
            f"{type(method).__name__} has no part that can be prepared without the queries, so a Manifold cannot "
            f"serve it; use one of: {', '.join(servers)}, or rerank(queries, store, method, candidates=...)"
        )
    server = servers[method.name]
    server.check(method)
    return server
