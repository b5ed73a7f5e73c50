"""FAISS: FaissStore builds an index over vectors; FaissIndexStore opens an index that holds its vectors. `[faiss]`"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.neighbors import Neighbors, find_nearest_among
from kinrank.parameters import check_whole_number
from kinrank.ranking import Ranking
from kinrank.stores.base import IndicesAndDistances, Store, check_item_numbers, mask_from_filter
from kinrank.stores.in_memory_index import InMemoryIndexStore, LabelHits, Labels, check_index_file, find_labels
from kinrank.stores.url import StoreUrl
from kinrank.vector_input import Vectors
from kinrank.vector_space import METRICS, check_metric, find_combination, prepare_rows

INDEX_KINDS = ("flat", "ivf", "hnsw")
BLOCK_QUERIES = 64  # queries whose distances are recomputed at once
PROBED_ITEMS = 64  # items whose vectors are checked when a store is opened
# Allowed lengths of unit vectors
EXACT_LENGTHS, APPROXIMATE_LENGTHS = ((0.999, 1.001), (0.3, 1.5))
BYTE_LIMIT_SETTING = "deserialization_vector_byte_limit"
MAX_TABLE_BYTES = 2**31  # that FAISS may allocate for tables that are not in the file
_read_lock = Lock()
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class IndexOptions:
    """Options of an index that `FaissStore` builds.

    Attributes:
        lists: number of ivf cells; by default 4 sqrt(n), but with at least 39 items per cell.
        probes: number of cells that an ivf search visits; by default 1/32 of them, but at least 32.
        links: neighbours per item in an hnsw graph.
        effort: beam width of hnsw, for building and searching.
        threads: threads that build an hnsw graph. More than 1 is faster, but builds differ from each other.
    """

    lists: int | None = None
    probes: int | None = None
    links: int = 32
    effort: int = 128
    threads: int = 1

    def build(self, kind: str, rows: Vectors) -> Any:
        """Build a FAISS index of this kind over the rows."""
        faiss, (count, dimensions) = _import_faiss(), rows.shape
        if kind == "ivf" and count:
            cells = max(1, min(round(4 * count**0.5), count // 39))
            cells = cells if self.lists is None else min(check_whole_number(self.lists, "lists"), count)
            index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dimensions), dimensions, cells)
            index.cp.min_points_per_centroid = 1  # suppresses a printed warning for few items
            index.train(rows)
            probes = max(32, cells // 32) if self.probes is None else check_whole_number(self.probes, "probes")
            index.nprobe = min(cells, probes)
        elif kind == "hnsw":
            index = faiss.IndexHNSWFlat(dimensions, check_whole_number(self.links, "links"))
            index.hnsw.efConstruction = index.hnsw.efSearch = check_whole_number(self.effort, "effort")
        else:
            index = faiss.IndexFlatL2(dimensions)
        with _limit_threads(faiss, check_whole_number(self.threads, "threads") if kind == "hnsw" else None):
            index.add(rows)
        return index


class FaissStore(Store):
    """Search with a FAISS index, by cosine (vectors are normalised) or by Euclidean distance.

    `flat` is exact. `ivf` searches some of its cells. `hnsw` searches a graph. The index selects the items. Their
    distances are recomputed from the vectors, so that they are exact, duplicates have distance 0 and ties go to the
    lower number. Equal vectors give an equal index: by default one thread builds an HNSW graph.

    Example:
        >>> store = FaissStore(gallery, "hnsw", options=IndexOptions(effort=256))
        >>> manifold = kinrank.Manifold.build(store)
    """

    filters = joint_by_default = True

    def __init__(
        self,
        vectors: ArrayLike,
        kind: str = "flat",
        *,
        metric: str = "cosine",
        options: IndexOptions = IndexOptions(),
    ) -> None:
        """Build an index.

        Args:
            vectors: (n, d) vectors.
            kind: "flat", "ivf" or "hnsw".
            metric: "cosine", or "euclidean" if the length of vectors matters.
            options: cells of ivf, graph of hnsw.
        """
        if kind not in INDEX_KINDS:
            raise InputError(parameter="kind", given=kind, allowed=f"one of: {', '.join(INDEX_KINDS)}")
        self._kind: str | None = kind
        self.metric, self.how, self._options = check_metric(metric), find_combination(vectors), options
        self._rows = prepare_rows(self.metric, vectors, "vectors")
        self._set_index(options.build(kind, self._rows))

    def _set_index(self, index: Any) -> None:
        self._index, self.exact = index, isinstance(index, _import_faiss().IndexFlat)

    @classmethod
    def from_index(cls, index: Any, vectors: ArrayLike, metric: str = "cosine") -> FaissStore:
        """Create a store over an existing index and its vectors; item i is row i.

        Under cosine the index must contain unit vectors, with L2 or inner product; under "euclidean" the vectors
        themselves, with L2. The store uses the search settings of the index.
        """
        faiss = _import_faiss()
        if not isinstance(index, faiss.Index):
            raise InputError(f"must be a faiss.Index; got {type(index).__name__}", parameter="index")
        store = cls.__new__(cls)
        store.metric = check_metric(metric)
        if metric == "euclidean" and index.metric_type != faiss.METRIC_L2:
            raise InputError(
                "compares by inner product, not by distance",
                parameter="index",
                allowed="an L2 index, or `metric='cosine'`",
            )
        rows = prepare_rows(metric, vectors, "vectors", int(index.d))
        if int(index.ntotal) != len(rows):
            raise InputError(f"has {int(index.ntotal)} items, but there are {len(rows)} vectors", parameter="index")
        if not index.is_trained:
            raise InputError("is not trained", parameter="index", remedy="call index.train and index.add first")
        store._rows, store._kind = rows, None
        store._set_index(index)
        return store

    def rebuild(self, vectors: ArrayLike) -> FaissStore | None:
        """Return a store of the same kind over other vectors; None if the index was passed in."""
        if self._kind is None:
            return None
        return FaissStore(vectors, self._kind, metric=self.metric, options=self._options)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"FaissStore({self._kind or type(self._index).__name__})"

    def search(self, queries: ArrayLike, k: int, where: Any = None) -> Ranking:
        """Return the (q, min(k, n)) items that the index finds. `where` is a mask or item numbers of allowed items."""
        rows = prepare_rows(self.metric, queries, "queries", self._rows.shape[1])
        k = min(check_whole_number(k, "k"), len(self))
        if where is None:
            indices, distances = self._search_items(rows, k)
        else:
            allowed = mask_from_filter(where, len(self))
            k = min(k, int(allowed.sum()))
            found = find_nearest_among(rows, k, allowed, self.vectors, self._neighbors, self.metric == "cosine")
            indices, distances = found.indices.astype(np.int64), found.distances
        return Ranking(indices, distances, {"mode": "search"})

    def _neighbors(self, rows: Vectors, k: int) -> Neighbors:
        indices, distances = self._search_items(rows, k)
        return Neighbors(indices.astype(np.int32), distances)

    def _search_items(self, rows: Vectors, k: int) -> IndicesAndDistances:
        """Return (q, k) items and distances for validated queries."""
        if not k or not len(rows):
            shape = len(rows), k
            return np.empty(shape, np.int64), np.empty(shape, np.float32)
        wide = _beam_parameters(_import_faiss(), self._index, k)  # the index may be shared, so it is not changed
        found = self._index.search(rows, k, params=wide)[1] if wide else self._index.search(rows, k)[1]
        return self._sort_by_distance(rows, np.asarray(found, np.int64))

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return self._rows[check_item_numbers(ids, len(self))]

    def _sort_by_distance(self, rows: Vectors, found: NDArray[np.int64]) -> IndicesAndDistances:
        """Sort results by exact distance, then by number; -1 and inf as padding."""
        indices, distances = np.empty_like(found), np.empty(found.shape, np.float32)
        for start in range(0, len(rows), BLOCK_QUERIES):
            block = slice(start, start + BLOCK_QUERIES)
            differences = self._rows[np.maximum(found[block], 0)] - rows[block, None, :]
            lengths = np.sqrt(np.einsum("qkd,qkd->qk", differences, differences))
            lengths[found[block] < 0] = np.inf
            order = np.lexsort((found[block], lengths), axis=1)
            indices[block] = np.take_along_axis(found[block], order, axis=1)
            distances[block] = np.take_along_axis(lengths, order, axis=1)
        return indices, distances


def _import_faiss() -> Any:
    return import_extra("faiss", "FaissStore", "faiss")


def _beam_parameters(faiss: Any, index: Any, k: int) -> Any:
    """Return parameters with a beam of at least k items for an HNSW index; None if those of the index suffice."""
    if isinstance(index, faiss.IndexHNSW) and index.hnsw.efSearch < k:
        return faiss.SearchParametersHNSW(efSearch=k)
    return None


@contextmanager
def _limit_threads(faiss: Any, count: int | None) -> Iterator[None]:
    """Set the number of FAISS threads in this block; None leaves it unchanged."""
    before = faiss.omp_get_max_threads()
    if count is not None:
        faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        if count is not None:
            faiss.omp_set_num_threads(before)


class FaissIndexStore(InMemoryIndexStore):
    """A Store over a `faiss.Index`: flat, IVF, HNSW, PQ, SQ and others, also inside an IDMap or a PreTransform.

    Vectors are read from the index. If it stores codes (PQ, SQ) or fewer dimensions, they are approximations of the
    added vectors. For an index that cannot return vectors use `FaissStore.from_index`.

    Filters (`where`): a list of ids, or a mask of all items in the order of their ids. Ids that do not exist are
    ignored.

    Args:
        index: an index with L2, or with inner product over vectors of length one. It is not changed.
        metric: "cosine" for an L2 index over vectors of length one. Default: "euclidean" for L2, "cosine" for inner
            product.
    """

    _label_dtype = np.int64

    def __init__(self, index: Any, *, metric: str | None = None) -> None:
        faiss = import_extra("faiss", "FaissIndexStore", "faiss")
        if isinstance(index, faiss.IndexBinary):
            raise InputError(
                f"is an {type(index).__name__}, which compares bits", parameter="index", allowed="one of float vectors"
            )
        if not isinstance(index, faiss.Index):
            raise InputError(f"must be a faiss.Index; got {type(index).__name__}", parameter="index")
        if not index.is_trained:
            raise InputError("is not trained", parameter="index", remedy="call index.train and index.add first")
        self._faiss, self._index = faiss, faiss.downcast_index(index)
        self._outer_index = index  # keeps the outer object alive, which owns the memory
        self._inner = index.metric_type == faiss.METRIC_INNER_PRODUCT
        if not self._inner and index.metric_type != faiss.METRIC_L2:
            raise InputError(
                f"has the FAISS metric {index.metric_type}", parameter="index", allowed="one with L2 or inner product"
            )
        self.dimensions = int(index.d)
        self.metric = METRICS[0 if self._inner else 1] if metric is None else check_metric(metric)
        if self._inner and self.metric == METRICS[1]:
            raise InputError(
                "compares by inner product, not by distance",
                parameter="index",
                allowed="an L2 index, or `metric='cosine'`",
            )
        self._reader = make_reader(faiss, self._index)
        self.exact = self._reader.exact
        self._length_range = (
            None if self.metric == METRICS[1] else EXACT_LENGTHS if self._reader.full else APPROXIMATE_LENGTHS
        )
        self._length_reason = "compares by inner product" if self._inner else "was opened with metric='cosine'"
        try:
            self._get_checked_vectors(np.sort(self._reader.ids()[:PROBED_ITEMS]))
        except RuntimeError as error:
            raise InputError(
                f"is an {type(self._index).__name__}, which cannot return vectors",
                parameter="index",
                remedy="pass the vectors as well: FaissStore.from_index(index, vectors)",
            ) from error

    url_examples = ("faiss:index.faiss",)

    @classmethod
    def from_url(cls, url: StoreUrl) -> FaissIndexStore:
        """Open faiss:index.faiss, a file written by `faiss.write_index`. metric=cosine is for unit vectors."""
        options = url.check_options("metric")
        path, faiss = check_index_file(url), import_extra("faiss", "FaissIndexStore", "faiss")
        limit = getattr(faiss, f"get_{BYTE_LIMIT_SETTING}", None)
        with _read_lock:
            before = None if limit is None else limit()
            try:
                if before is not None:  # a damaged file may request any amount of memory
                    getattr(faiss, f"set_{BYTE_LIMIT_SETTING}")(min(before, path.stat().st_size + MAX_TABLE_BYTES))
                index = faiss.read_index(str(path))
            except (RuntimeError, MemoryError) as error:
                message = " ".join(str(error).split()).split("Error: ")[-1][:200]
                raise InputError(f"{path} is not a FAISS index, or is truncated ({message})") from error
            finally:
                if before is not None:
                    getattr(faiss, f"set_{BYTE_LIMIT_SETTING}")(before)
        return cls(index, metric=options.get("metric"))

    def __repr__(self) -> str:
        return f"FaissIndexStore({type(self._index).__name__})"

    def _search_index(self, rows: Vectors, k: int) -> list[LabelHits]:
        wide = _search_parameters(self._faiss, self._index, k)
        gaps, labels = self._index.search(rows, k) if wide is None else self._index.search(rows, k, params=wide)
        exists = labels != -1  # FAISS pads with -1
        gaps[~exists] = 0.0
        lengths = 2.0 - 2.0 * gaps if self._inner else gaps
        lengths = np.sqrt(np.maximum(lengths, 0.0))
        return [(names[mask], far[mask]) for names, far, mask in zip(labels, lengths, exists, strict=True)]

    def _get_vectors(self, labels: Labels) -> tuple[Labels, Vectors]:
        exists, rows = self._reader.rows(labels)
        return labels[exists], rows

    def _all_labels(self) -> Labels:
        return np.sort(self._reader.ids())

    def _max_count(self) -> int:
        return int(self._index.ntotal)


def _search_parameters(faiss: Any, index: Any, k: int) -> Any:
    """Return parameters with which a search can find k items; None if those of the index suffice."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexIDMap):
        return _search_parameters(faiss, index.index, k)
    if isinstance(index, faiss.IndexPreTransform):
        inner = _search_parameters(faiss, index.index, k)
        return None if inner is None else faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexRefine):
        inner = _search_parameters(faiss, index.base_index, math.ceil(k * index.k_factor))
        wide = {"k_factor": index.k_factor, "base_index_params": inner}
        return None if inner is None else faiss.IndexRefineSearchParameters(**wide)
    if isinstance(index, faiss.IndexIVF):  # enough lists to contain about 2 k items
        probes = min(index.nlist, math.ceil(2 * k * index.nlist / max(1, index.ntotal)))
        if index.nprobe < probes:
            return faiss.SearchParametersIVF(nprobe=probes, max_codes=index.max_codes)
    return _beam_parameters(faiss, index, k)


def make_reader(faiss: Any, index: Any) -> IndexReader:
    """Create the reader for an index."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexIDMap):
        return IdMapReader(faiss, index)
    if isinstance(index, faiss.IndexPreTransform):
        return TransformReader(faiss, index)
    return IvfReader(faiss, index) if isinstance(index, faiss.IndexIVF) else IndexReader(faiss, index)


class IndexReader:
    """Reader of the ids and vectors of a FAISS index. It does not change the index.

    This class reads an index with the ids 0, 1, 2, ... An index may contain another one, with its own ids (IDMap) or
    after a transform (PreTransform): there is one subclass per type of index.

    Attributes:
        exact: True if a search always returns the nearest items.
        full: True if the index returns vectors as they were added.
    """

    def __init__(self, faiss: Any, index: Any) -> None:
        self.faiss, self.index = faiss, index
        self.exact = isinstance(index, faiss.IndexFlat)
        flat = (faiss.IndexFlat, faiss.IndexHNSWFlat, faiss.IndexNSGFlat, faiss.IndexRefineFlat)
        self.full = isinstance(index, flat)

    def ids(self) -> Ids:
        """Return the ids of all items, in any order."""
        return np.arange(self.index.ntotal, dtype=np.int64)

    def rows(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        """Return a mask of the ids that exist, and the vectors of these."""
        exists = (ids >= 0) & (ids < self.index.ntotal)
        return exists, self.index.reconstruct_batch(ids[exists])


class IdPositions:
    """Lookup of the positions of ids."""

    def __init__(self, ids: Ids) -> None:
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]
        again = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(again):
            raise InputError(
                f"contains the id {self._sorted[again[0]]} twice", parameter="index", remedy="give each item its own id"
            )

    def find(self, ids: Ids) -> Ids:
        """Return the (n,) positions of ids, -1 for ids that do not exist."""
        places, exists = find_labels(self._sorted, ids)
        return np.where(exists, self._order[places] if len(self._order) else 0, -1)


class IdMapReader(IndexReader):
    """Reader of an index with explicit ids: IndexIDMap and IndexIDMap2."""

    def __init__(self, faiss: Any, index: Any) -> None:
        self.faiss, self.index, self.inner = faiss, index, make_reader(faiss, index.index)
        self.exact, self.full = self.inner.exact, self.inner.full
        self._places = self._build_positions()

    def ids(self) -> Ids:
        return np.array(self._id_view())

    def rows(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        places = self._places.find(ids)
        if not self._is_current(ids, places):
            self._places = self._build_positions()
            places = self._places.find(ids)
        exists = places >= 0
        inside, rows = self.inner.rows(places[exists])
        exists[exists] = inside
        return exists, rows

    def _id_view(self) -> Ids:
        names = self.index.id_map
        size = names.size()
        view: Ids = self.faiss.rev_swig_ptr(names.data(), size) if size else np.empty(0, np.int64)
        return view

    def _is_current(self, ids: Ids, places: Ids) -> bool:
        now = self._id_view()
        fewer = len(now) < self._size  # items were removed
        return not fewer and bool((places >= 0).all() and (places < len(now)).all() and (now[places] == ids).all())

    def _build_positions(self) -> IdPositions:
        inside, size = self.inner.ids(), len(self._id_view())
        if len(inside) and int(inside.max()) >= size:
            raise InputError(
                "is an IDMap over an IVF index from which items were removed, for which FAISS returns wrong ids",
                parameter="index",
                remedy="build it again without an IDMap, and give the ids to the IVF index itself (index.add_with_ids)",
            )
        self._size = size
        return IdPositions(self.ids())


class TransformReader(IndexReader):
    """Reader of an index after a transform. Vectors are transformed back."""

    def __init__(self, faiss: Any, index: Any) -> None:
        self.faiss, self.inner = faiss, make_reader(faiss, index.index)
        self.exact, self.full = False, False
        chain = index.chain
        self._chain = [faiss.downcast_VectorTransform(chain.at(place)) for place in range(chain.size())]
        self._whole = index  # owns the transforms

    def ids(self) -> Ids:
        return self.inner.ids()

    def rows(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        exists, rows = self.inner.rows(ids)
        for transform in reversed(self._chain):
            rows = transform.reverse_transform(np.ascontiguousarray(rows))
        return exists, rows


class IvfReader(IndexReader):
    """Reader of an IVF index, which stores items with ids in lists.

    The index may lack a map from ids to lists, and creating one would change its behaviour.
    """

    def __init__(self, faiss: Any, index: Any) -> None:
        self.faiss, self.index = faiss, index
        self.exact, self.full = False, isinstance(index, faiss.IndexIVFFlat)
        self._update_positions()

    def ids(self) -> Ids:
        lists = self.index.invlists
        parts = []
        for number in range(lists.nlist):
            size, names = lists.list_size(number), lists.get_ids(number)
            if size:
                parts.append(self.faiss.rev_swig_ptr(names, size).copy())
            lists.release_ids(number, names)
        found: Ids = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return found

    def rows(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        lists, offsets = self._locate(ids)
        if not self._is_current(ids, lists, offsets):
            self._update_positions()
            lists, offsets = self._locate(ids)
        exists = lists >= 0
        rows = np.empty((int(exists.sum()), self.index.d), np.float32)
        for number, offset, row in zip(lists[exists].tolist(), offsets[exists].tolist(), rows, strict=True):
            self.index.reconstruct_from_offset(number, offset, self.faiss.swig_ptr(row))
        return exists, rows

    def _update_positions(self) -> None:
        lists = self.index.invlists
        sizes = [lists.list_size(number) for number in range(lists.nlist)]
        starts = np.cumsum([0, *sizes])
        self._place = IdPositions(self.ids()), starts

    def _locate(self, ids: Ids) -> tuple[Ids, Ids]:
        places, starts = self._place
        found = places.find(ids)
        lists = np.searchsorted(starts, found, side="right") - 1
        return np.where(found < 0, -1, lists), found - starts[lists]

    def _is_current(self, ids: Ids, lists: Ids, offsets: Ids) -> bool:
        held = self.index.invlists
        return all(
            number >= 0 and offset < held.list_size(number) and held.get_single_id(number, offset) == name
            for name, number, offset in zip(ids.tolist(), lists.tolist(), offsets.tolist(), strict=True)
        )
