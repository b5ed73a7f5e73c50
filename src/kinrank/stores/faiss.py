"""FAISS -> a Store: flat, IVF or HNSW from vectors, or an index that is already there. Extra `[faiss]`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.combine import combination_of
from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.neighbors import Neighbors, nearest_among
from kinrank.parameters import whole_number
from kinrank.ranking import Ranking
from kinrank.space import check_metric, rows_by
from kinrank.stores.numbers import allowed_by, item_numbers

KINDS = ("flat", "ivf", "hnsw")
ROWS = 64  # queries whose distances are summed again at once


class FaissStore:
    """Search by direction (rows are brought to unit length), or by distance as rows are, over a FAISS index.

    `flat` is exact. `ivf` looks into `probes` of `lists` cells. `hnsw` walks a graph of `links` neighbours, looking at
    `effort` of them. The index chooses the items; their distances are summed again from the vectors, so that they are
    exact, duplicates are at 0 and ties go to the lower number. The same vectors give the same index: HNSW graphs are
    built by one thread for that, unless `threads` says otherwise.

    Example:
        >>> store = FaissStore(gallery, kind="hnsw")
        >>> manifold = kinrank.Manifold.build(store)
    """

    def __init__(
        self,
        vectors: ArrayLike,
        kind: str = "flat",
        *,
        lists: int | None = None,
        probes: int | None = None,
        links: int = 32,
        effort: int = 128,
        threads: int = 1,
        metric: str = "cosine",
    ) -> None:
        """An index over (n, d) rows.

        Args:
            vectors: (n, d) rows.
            kind: "flat", "ivf" or "hnsw".
            lists: cells of ivf; 4 sqrt(n), but at least 39 items for each, unless given.
            probes: cells an ivf search looks into; a thirty-second of them, and at least 32, unless given.
            links: neighbours per item in the graph of hnsw.
            effort: items hnsw keeps in view, when it builds and when it searches.
            threads: builders of the graph of hnsw; more than 1 is faster, and no two builds are alike.
            metric: "cosine", or "euclidean" where the length of vectors matters.
        """
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r} is not allowed; give one of: {', '.join(KINDS)}")
        self.metric, self.how = check_metric(metric), combination_of(vectors)
        self._rows = rows_by(self.metric, vectors, "vectors")
        self._settings: dict[str, Any] | None = {
            "kind": kind, "lists": lists, "probes": probes, "links": links, "effort": effort, "threads": threads,
            "metric": metric,
        }  # fmt: skip
        count, dimensions = self._rows.shape
        faiss = _faiss()
        if kind == "ivf" and count:
            cells = max(1, min(round(4 * count**0.5), count // 39))
            cells = cells if lists is None else min(whole_number(lists, "lists"), count)
            index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dimensions), dimensions, cells)
            index.cp.min_points_per_centroid = 1  # fewer items than it likes are no reason to print
            index.train(self._rows)
            index.nprobe = min(cells, max(32, cells // 32) if probes is None else whole_number(probes, "probes"))
        elif kind == "hnsw":
            index = faiss.IndexHNSWFlat(dimensions, whole_number(links, "links"))
            index.hnsw.efConstruction = index.hnsw.efSearch = whole_number(effort, "effort")
        else:
            index = faiss.IndexFlatL2(dimensions)
        with _threads(faiss, whole_number(threads, "threads") if kind == "hnsw" else None):
            index.add(self._rows)
        self._index = index

    @classmethod
    def from_index(cls, index: Any, vectors: ArrayLike, metric: str = "cosine") -> FaissStore:
        """A store over an index that is already there, and the vectors in it, item i in row i.

        The index must hold rows of unit length, by L2 or inner product, or with the metric "euclidean" the rows as they
        are, by L2; it is searched as it is set up.
        """
        faiss = _faiss()
        if not isinstance(index, faiss.Index):
            raise ValueError(f"index must be a faiss.Index; got {type(index).__name__}")
        store = cls.__new__(cls)
        store.metric = check_metric(metric)
        if metric == "euclidean" and index.metric_type != faiss.METRIC_L2:
            raise ValueError("index compares by inner product, not by distance; give an L2 index, or the metric cosine")
        rows = rows_by(metric, vectors, "vectors", int(index.d))
        if int(index.ntotal) != len(rows):
            raise ValueError(f"index holds {int(index.ntotal)} items but there are {len(rows)} vectors; give the same")
        if not index.is_trained:
            raise ValueError("index is not trained; call index.train and index.add first")
        store._rows, store._index, store._settings = rows, index, None
        return store

    def renewed(self, vectors: ArrayLike) -> FaissStore | None:
        """A store of the same kind over other vectors; None where the index was made elsewhere."""
        return None if self._settings is None else FaissStore(vectors, **self._settings)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        kind = type(self._index).__name__ if self._settings is None else self._settings["kind"]
        return f"FaissStore({kind})"

    @property
    def exact(self) -> bool:
        """Whether every search finds the nearest items, all of them."""
        return isinstance(self._index, _faiss().IndexFlat)

    def search(self, queries: ArrayLike, k: int, where: Any = None) -> Ranking:
        """(q, min(k, n)) nearest items as the index finds them; `where`: only of these, a mask or item numbers."""
        rows = rows_by(self.metric, queries, "queries", self._rows.shape[1])
        k = min(whole_number(k, "k"), len(self))
        if where is None:
            indices, distances = self._found(rows, k)
        else:
            allowed = allowed_by(where, len(self))
            k = min(k, int(allowed.sum()))
            found = nearest_among(rows, k, allowed, self.vectors, self._neighbors, self.metric == "cosine")
            indices, distances = found.indices.astype(np.int64), found.distances
        return Ranking(indices, distances, {"mode": "search"})

    def _neighbors(self, rows: Vectors, k: int) -> Neighbors:
        indices, distances = self._found(rows, k)
        return Neighbors(indices.astype(np.int32), distances)

    def _found(self, rows: Vectors, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(q, k) items and distances for checked queries."""
        if not k or not len(rows):
            shape = len(rows), k
            return np.empty(shape, np.int64), np.empty(shape, np.float32)
        params = self._wide_enough(k)
        found = self._index.search(rows, k, params=params)[1] if params else self._index.search(rows, k)[1]
        return self._measured(rows, np.asarray(found, np.int64))

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return self._rows[item_numbers(ids, len(self))]

    def _wide_enough(self, k: int) -> Any:
        """hnsw must keep at least k items in view; asked for per search, because the index may be shared."""
        faiss = _faiss()
        if isinstance(self._index, faiss.IndexHNSW) and self._index.hnsw.efSearch < k:
            return faiss.SearchParametersHNSW(efSearch=k)
        return None

    def _measured(self, rows: Vectors, found: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The items found by their distance, then number; -1 and inf behind them."""
        indices, distances = np.empty_like(found), np.empty(found.shape, np.float32)
        for start in range(0, len(rows), ROWS):
            block = slice(start, start + ROWS)
            differences = self._rows[np.maximum(found[block], 0)] - rows[block, None, :]
            lengths = np.sqrt(np.einsum("qkd,qkd->qk", differences, differences))
            lengths[found[block] < 0] = np.inf
            order = np.lexsort((found[block], lengths), axis=1)
            indices[block] = np.take_along_axis(found[block], order, axis=1)
            distances[block] = np.take_along_axis(lengths, order, axis=1)
        return indices, distances


def _faiss() -> Any:
    return needed("faiss", "FaissStore", "faiss")


@contextmanager
def _threads(faiss: Any, count: int | None) -> Iterator[None]:
    """That many threads inside FAISS for a while; None leaves them as they are."""
    before = faiss.omp_get_max_threads()
    if count is not None:
        faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        if count is not None:
            faiss.omp_set_num_threads(before)
