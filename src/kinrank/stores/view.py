"""StoreView: a store with items removed, added, scaled or renumbered; EngineIdStore: a database searched by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.neighbors import find_nearest, pairwise_distances
from kinrank.parameters import check_whole_number
from kinrank.ranking import Ranking
from kinrank.stores.base import (
    IndicesAndDistances,
    Store,
    check_item_numbers,
    check_same_metric,
    sort_and_dedupe,
    unify_id_types,
)
from kinrank.stores.engine import EXTRA_ITEMS, EngineStore
from kinrank.vector_input import Vectors, check_vectors
from kinrank.vector_space import Space, prepare_rows

MAX_SEARCHES = 4  # per query, if too many results were removed: each four times as deep, the last over all items
DEPTH_FACTOR = 4  # how much deeper the second search is, if the first did not find enough


class StoreView(Store):
    """A store as a Manifold searches it. The base store is not modified.

    Items are the kept ones of the base, then the extra ones, unless `numbering` numbers them otherwise. Extra items are
    searched exactly, which takes time in proportion to their number. If the base grows, its new items are ignored.

    Args:
        base: the store.
        kept: numbers in the base of the items that remain; None for all.
        extra: vectors of added items, divided by `scale`.
        scale: divisor of vectors, queries and distances of the base; None if it returns them as needed.
        numbering: number of each item, the kept ones first; None for 0, 1, 2, ...

    Example:
        >>> StoreView(ArrayStore([[1, 0], [0, 1]]), numbering=np.array([1, 0])).search([[1, 0]], 1).indices
        array([[1]])
    """

    def __init__(
        self,
        base: Store,
        kept: NDArray[np.int64] | None = None,
        extra: Vectors | None = None,
        scale: float | None = None,
        numbering: NDArray[np.int64] | None = None,
    ) -> None:
        self.base, self.scale, self.metric, self.exact = base, scale, base.metric, base.exact
        self.in_units = base.in_units or scale is not None
        self.changed = not (kept is None and extra is None and numbering is None)
        self._factor = np.float32(1.0 if scale is None else scale)
        if not self.changed:
            return
        self._kept: NDArray[np.int64] = np.arange(len(base)) if kept is None else kept
        self._extra = extra
        self._numbering, self._places = numbering, None if numbering is None else np.argsort(numbering)
        # number of every item of the base; -1 for removed items and for the extra last entry
        self._base_count = max(len(base), int(self._kept.max(initial=-1)) + 1)
        self._number_of = np.full(self._base_count + 1, -1, np.int64)
        self._number_of[self._kept] = np.arange(len(self._kept)) if numbering is None else numbering[: len(self._kept)]

    def after(self, kept: NDArray[np.int64], rows: Vectors) -> StoreView:
        """Return a view of the items `kept` (ascending numbers in this view), followed by the vectors `rows`."""
        if not self.changed:
            return StoreView(self.base, kept, rows, self.scale)
        places, size, numbering = self._to_places(kept), len(self._kept), None
        is_extra = places >= size
        extra = rows if self._extra is None else np.concatenate([self._extra[places[is_extra] - size], rows])
        if self._numbering is not None:
            new = np.arange(len(kept), len(kept) + len(rows))
            numbering = np.concatenate([np.flatnonzero(~is_extra), np.flatnonzero(is_extra), new])
        return StoreView(self.base, self._kept[places[~is_extra]], extra, self.scale, numbering)

    def rebuild(self, vectors: Vectors) -> Store | None:
        """Return a store of the base's kind over other vectors; None if the base cannot be rebuilt."""
        fresh = self.base.rebuild(vectors if self.scale is None else vectors * self._factor)
        return fresh if fresh is None or self.scale is None else StoreView(fresh, scale=self.scale)

    def __len__(self) -> int:
        return len(self._kept) + self.added_count if self.changed else len(self.base)

    def __repr__(self) -> str:
        return repr(self.base)

    @property
    def engine(self) -> EngineStore | None:
        return self.base.engine

    @property
    def added_count(self) -> int:
        """Number of extra items."""
        return len(self._extra) if self.changed and self._extra is not None else 0

    def search(self, queries: ArrayLike, k: int) -> Ranking:
        if not self.changed:
            return Ranking(*self._search_base(check_vectors(queries, "queries"), k), {"mode": "search"})
        rows = prepare_rows(self.metric, queries, "queries")
        k = min(check_whole_number(k, "k"), len(self))
        indices, distances = self._search_kept(rows, min(k, len(self._kept)))
        if self._extra is not None and self.added_count and k:
            new = find_nearest(rows, self._extra, min(k, self.added_count), unit=self.metric == "cosine")
            numbers = new.indices.astype(np.int64) + len(self._kept)
            numbers = numbers if self._numbering is None else self._numbering[numbers]
            indices = np.concatenate([indices, numbers], axis=1)
            distances = np.concatenate([distances, new.distances], axis=1)
        order = np.lexsort((np.where(indices < 0, len(self), indices), distances), axis=1)[:, :k]
        ordered = np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)
        return Ranking(*ordered, {"mode": "search"})

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        if not self.changed:
            return self._base_vectors(np.asarray(ids))
        places = self._to_places(check_item_numbers(ids, len(self)))
        old = places < len(self._kept)
        if old.all() or self._extra is None:
            return self._base_vectors(self._kept[places])
        rows = np.empty((len(places), self._extra.shape[1]), self._extra.dtype)
        rows[~old] = self._extra[places[~old] - len(self._kept)]
        if old.any():
            rows[old] = prepare_rows(self.metric, self._base_vectors(self._kept[places[old]]), "vectors of the store")
        return rows

    def _to_places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return positions among the kept items, followed by the extra ones."""
        return numbers if self._places is None else self._places[numbers]

    def _base_vectors(self, numbers: NDArray[Any]) -> Vectors:
        if self.scale is None:
            return np.asarray(self.base.vectors(numbers))
        return np.asarray(check_vectors(self.base.vectors(numbers), "vectors of the store") / self._factor)

    def _search_base(self, rows: Vectors, depth: int) -> IndicesAndDistances:
        """Return the (q, <= depth) results of the base, by its numbers."""
        if self.scale is None:
            found = self.base.search(rows, depth)
            return found.indices, found.distances
        found = self.base.search(rows * self._factor, depth)
        return found.indices, (found.distances / self._factor).astype(np.float32)

    def _search_kept(self, rows: Vectors, k: int) -> IndicesAndDistances:
        """Return the (q, k) nearest kept items of the base; search deeper if too many results were removed."""
        indices, distances = np.full((len(rows), k), -1, np.int64), np.full((len(rows), k), np.inf, np.float32)
        removed_count = self._base_count - len(self._kept)
        open_rows, depth = np.arange(len(rows)), min(self._base_count, k + min(removed_count, k // 4 + 8))
        for attempt in range(MAX_SEARCHES if k else 0):
            depth = self._base_count if attempt == MAX_SEARCHES - 1 else depth
            found, gaps = self._search_base(rows[open_rows], depth)
            inside = (found >= 0) & (found < self._base_count)
            numbers = self._number_of[np.where(inside, found, self._base_count)]
            lengths = np.where(numbers < 0, np.inf, gaps).astype(np.float32)
            order = np.argsort(numbers < 0, axis=1, kind="stable")[:, :k]  # removed items go last
            width = order.shape[1]
            indices[open_rows, :width] = np.take_along_axis(numbers, order, axis=1)
            distances[open_rows, :width] = np.take_along_axis(lengths, order, axis=1)
            enough = (indices[open_rows, k - 1] >= 0) | (found.shape[1] < depth) | (found[:, -1] < 0)
            open_rows = open_rows[~enough]
            if not len(open_rows) or depth >= self._base_count:
                break
            depth = min(self._base_count, 4 * depth)
        return indices, distances


def adapt_to_space(store: Store, space: Space) -> Store:
    """Wrap a store for a Manifold of this space. Raise InputError if the store has another metric."""
    if isinstance(store, EngineStore):
        raise InputError(
            f"{store!r} identifies items by its own ids, so its neighbours cannot be used here",
            remedy="build with Manifold.build(store), or give its vectors, store.everything()[1]",
        )
    check_same_metric(store, space)
    return store if space.scale is None or store.in_units else StoreView(store, scale=float(space.scale))


class EngineIdStore(Store):
    """The store of a Manifold that was built from a database.

    The engine finds the nearest items by its ids; distances are computed from the vectors of the Manifold. Items that
    the Manifold does not contain yet are left out.
    """

    in_units = True

    def __init__(self, engine: EngineStore, ids: NDArray[Any], vectors: Vectors, scale: float | None = None) -> None:
        """Map engine ids to item numbers. `ids` (n,) and `vectors` (n, d) are those of the Manifold, divided by
        `scale` under the Euclidean metric.
        """
        self._engine, self.metric, self.exact = engine, engine.metric, engine.exact
        self._vectors, self._scale = vectors, np.float32(1.0 if scale is None else scale)
        self._texts = ids.dtype.kind == "O"
        ids = ids.astype(object) if ids.dtype.kind == "u" else ids  # numpy compares uint64 and int64 as floats
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return repr(self._engine)

    @property
    def engine(self) -> EngineStore:
        return self._engine

    def search(self, queries: ArrayLike, k: int) -> Ranking:
        rows = check_vectors(queries, "queries")
        k = min(check_whole_number(k, "k"), len(self))
        if not k or not len(rows):
            shape = len(rows), k
            return Ranking(np.empty(shape, np.int64), np.empty(shape, np.float32), {"mode": "search"})
        places = self._search_positions(rows, k + EXTRA_ITEMS)
        short = (places >= 0).sum(axis=1) < k
        if short.any() and bool((places[short] < 0).any()):
            places = np.pad(places, ((0, 0), (0, DEPTH_FACTOR * k + EXTRA_ITEMS - places.shape[1])), constant_values=-1)
            deeper = self._search_positions(rows[short], DEPTH_FACTOR * k + EXTRA_ITEMS)
            places[short, : deeper.shape[1]] = deeper
        distances = np.full(places.shape, np.inf, np.float32)
        for row, (query, numbers) in enumerate(zip(rows, places, strict=True)):
            known = np.flatnonzero(numbers >= 0)
            vectors = self._vectors[numbers[known]]
            distances[row, known] = pairwise_distances(query[None, :], vectors, self.metric == "cosine")[0]
        return Ranking(*sort_and_dedupe(places, distances, k), {"mode": "search"})

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return self._vectors[check_item_numbers(ids, len(self))]

    def places(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the item numbers of ids, an array of any shape; -1 for ids that the Manifold does not contain."""
        texts = ids.dtype.kind == "O" and bool(ids.size) and isinstance(ids.flat[0], str)
        if self._texts and not texts:  # the engine mixes integers and strings, and this result has integers only
            ids = ids.astype(str).astype(object)
        if not len(self) or (texts and not self._texts):
            return np.full(ids.shape, -1, np.int64)
        near = np.minimum(np.searchsorted(self._sorted, ids), len(self) - 1)
        return np.where(self._sorted[near] == ids, self._order[near], -1)

    def _search_positions(self, rows: Vectors, depth: int) -> NDArray[np.int64]:
        """Return the (q, depth) item numbers of the nearest items; -1 for unknown ones and as padding."""
        places = np.full((len(rows), depth), -1, np.int64)
        for row, ids in enumerate(unify_id_types(self._engine.nearest_lists(rows * self._scale, depth))):
            places[row, : len(ids)] = self.places(ids)
        return places
