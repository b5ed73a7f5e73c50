"""Where vectors live and are searched. One small file per store, its library imported late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike, NDArray

from kinrank.ranking import Ranking
from kinrank.stores.array import ArrayStore

__all__ = ["ArrayStore", "Store"]


@runtime_checkable
class Store(Protocol):
    """Two functions: find the nearest item numbers, and give vectors back.

    `len(store)` is asked for too where a whole gallery is needed (joint re-ranking, building a Manifold). A store that
    has `renewed(vectors)` is made anew by it when a Manifold that changed is refreshed. One whose `exact` is True finds
    the nearest items, all of them; others are taken to miss some. One whose `metric` is "euclidean" searches by the
    distance of vectors as they are, and gives them back so; others search by direction ("cosine"). Filters
    (`rerank(..., where=)`) are passed on to a `search` that takes `where`, and are kept from others.
    """

    def search(self, queries: ArrayLike, k: int) -> Ranking:
        """(q, <= k) nearest items by Euclidean distance; rows that found fewer are padded with -1."""
        ...

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
        """(len(ids), d) rows of these item numbers, in this order."""
        ...
