"""A Store of vectors whose length matters -> the same Store for rows that were divided by one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, check
from kinrank.ranking import Ranking
from kinrank.space import METRICS, Space, check_metric
from kinrank.stores import Store
from kinrank.stores.engine import EngineStore


class ScaledStore:
    """What a Manifold searches where its metric is euclidean: rows, queries and distances in units of the scale."""

    metric = "euclidean"
    in_units = True

    def __init__(self, base: Any, scale: float) -> None:
        self.base, self._scale = base, np.float32(scale)

    def __len__(self) -> int:
        return len(self.base)

    def __repr__(self) -> str:
        return repr(self.base)

    @property
    def exact(self) -> bool:
        """Whether the base finds the nearest items, all of them."""
        return bool(getattr(self.base, "exact", False))

    def renewed(self, vectors: Vectors) -> ScaledStore | None:
        """The same over a base of other vectors, where the base can tell."""
        make = getattr(self.base, "renewed", None)
        fresh = None if make is None else make(vectors * self._scale)
        return None if fresh is None else ScaledStore(fresh, float(self._scale))

    def search(self, queries: ArrayLike, k: int) -> Ranking:
        found = self.base.search(check(queries, "queries") * self._scale, k)
        return Ranking(found.indices, (found.distances / self._scale).astype(np.float32), found.meta)

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return np.asarray(check(self.base.vectors(ids), "vectors of the store") / self._scale)


def metric_of(gallery_or_store: Any, metric: str | None = None) -> str:
    """The metric that was asked for, or else that of the store; a ValueError where the two differ."""
    wanted = None if metric is None else check_metric(metric)
    if not isinstance(gallery_or_store, Store):
        return wanted or METRICS[0]
    own = getattr(gallery_or_store, "metric", None)
    own = own if isinstance(own, str) and own in METRICS else METRICS[0]
    if wanted is not None and wanted != own:
        raise ValueError(f"metric={metric!r} is not that of the store, which searches by {own}; give metric={own!r}")
    return own


def in_space(store: Store | None, space: Space) -> Store | None:
    """The store as a Manifold of this space searches it; a ValueError if it searches by another metric."""
    if store is None:
        return None
    if isinstance(store, EngineStore):
        raise ValueError(
            f"{store!r} knows items by ids of its own, so its neighbours cannot be used here; build with "
            "Manifold.build(store), or give its vectors, store.everything()[1]"
        )
    check_metrics(store, space)
    ready = space.scale is None or getattr(store, "in_units", False)
    return store if ready else ScaledStore(store, float(space.scale or 1.0))


def check_metrics(store: Store, space: Space) -> None:
    """A ValueError if the store searches by another metric than the manifold of this space."""
    if metric_of(store) != space.metric:
        raise ValueError(
            f"the store searches by {metric_of(store)} but the manifold was built by {space.metric}; give one that "
            "searches as the manifold does"
        )
