"""Store: base class of everything that holds and searches vectors; order and ids of its results."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.feature_combination import Combination
from kinrank.filters import parse_mask
from kinrank.ids import to_list
from kinrank.neighbors import find_nearest
from kinrank.ranking import Ranking
from kinrank.vector_input import Vectors, to_unit_rows
from kinrank.vector_space import METRICS, Space, check_metric

if TYPE_CHECKING:
    from kinrank.stores.engine import EngineStore

IndicesAndDistances = tuple[NDArray[np.int64], NDArray[np.float32]]


class Store(ABC):
    """A collection of vectors that can be searched. Items are numbered 0, 1, 2, ...

    A subclass implements `search`, `vectors` and `__len__`, and overrides attributes that differ from their defaults.

    Attributes:
        metric: "cosine", or "euclidean" if vectors are compared and returned without being normalised.
        exact: True if a search always returns the nearest items.
        filters: True if `search` accepts `where`, a mask or item numbers. Otherwise kinrank filters the results.
        in_units: True if vectors and distances are divided by the scale of a Manifold.
        joint_by_default: True if its vectors are in memory, so that `rerank` puts all of them in one graph unless
            `candidates` is given. Otherwise it reads the nearest items of each query only.
        how: the features that the vectors were combined from, see `combine`; None for a single feature.
    """

    metric: str = "cosine"
    exact: bool = False
    filters: bool = False
    in_units: bool = False
    joint_by_default: bool = False
    how: Combination | None = None

    @abstractmethod
    def search(self, queries: ArrayLike, k: int) -> Ranking:
        """Return the (q, <= k) nearest items by Euclidean distance. Shorter rows are padded with -1."""

    @abstractmethod
    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
        """Return the (len(ids), d) vectors of these item numbers, in this order."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of items."""

    def rebuild(self, vectors: Vectors) -> Store | None:
        """Return a store of the same kind over other vectors; None if this is impossible. `refresh` calls it."""
        return None

    @property
    def engine(self) -> EngineStore | None:
        """The vector database that is searched; None if there is none."""
        return None


def resolve_metric(gallery: Any, metric: str | None = None) -> str:
    """Return `metric`, or that of the store if it is None. Raise InputError if the two differ."""
    wanted = None if metric is None else check_metric(metric)
    if not isinstance(gallery, Store):
        if callable(getattr(gallery, "search", None)) and callable(getattr(gallery, "vectors", None)):
            raise InputError(f"{type(gallery).__name__} is not a Store", remedy="let its class extend kinrank.Store")
        return wanted or METRICS[0]
    own = gallery.metric
    if wanted is not None and wanted != own:
        raise InputError(
            f"differs from the metric of the store, {own!r}",
            parameter="metric",
            given=metric,
            remedy=f"give `metric={own!r}` or leave it out",
        )
    return own


def check_same_metric(store: Store, space: Space) -> None:
    """Raise InputError if the metric of the store differs from that of the manifold."""
    if store.metric != space.metric:
        raise InputError(
            f"the store searches by {store.metric}, but the manifold was built with {space.metric}",
            remedy="give a store with the metric of the manifold",
        )


def describe_if_approximate(store: Store | None) -> str | None:
    """Describe an approximate store, for example "FaissStore(hnsw)"; return None for an exact store and for None."""
    if store is None or store.exact:
        return None
    words = " ".join(repr(store).split())[:100]
    if " object at 0x" not in words:
        return words
    plain = re.match(r"<(?:[\w.<>]*\.)?(\w+) object at 0x", words)  # leave out the memory address
    return plain[1] if plain else type(store).__name__


def sort_and_dedupe(
    indices: NDArray[np.int64], distances: NDArray[np.float32], k: int, own: NDArray[np.int64] | None = None
) -> IndicesAndDistances:
    """Return (q, k) item numbers and distances, sorted by distance, then by number, padded with -1 and inf.

    Approximate indexes pad with -1 and may list an item twice, out of order, or not at all. `own` (q,) is put first in
    its row, at distance 0, even if the index did not return it.
    """
    if own is None and _is_tidy(indices, distances, k):
        return indices, distances
    numbers = indices.astype(np.int64)
    lengths = np.maximum(distances.astype(np.float32), 0.0)  # a copy; rounding may produce small negative distances
    lengths[(numbers < 0) | ~np.isfinite(lengths)] = np.inf
    if own is not None:
        lengths[numbers == own[:, None]] = np.inf
        numbers = np.concatenate([own[:, None], numbers], axis=1)
        lengths = np.concatenate([np.full((len(own), 1), -1.0, np.float32), lengths], axis=1)
    numbers, lengths = _take_in_order(numbers, lengths, np.lexsort((numbers, lengths), axis=1))
    by_number = np.argsort(numbers, axis=1, kind="stable")  # stable: of equal numbers the nearest comes first
    ordered = np.take_along_axis(numbers, by_number, axis=1)
    repeated = np.zeros(numbers.shape, np.bool_)
    np.put_along_axis(repeated, by_number[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    lengths[repeated] = np.inf
    numbers[np.isinf(lengths)] = -1
    numbers, lengths = _take_in_order(numbers, lengths, np.argsort(lengths, axis=1, kind="stable")[:, :k])
    missing = k - numbers.shape[1]
    if missing > 0:
        numbers = np.pad(numbers, ((0, 0), (0, missing)), constant_values=-1)
        lengths = np.pad(lengths, ((0, 0), (0, missing)), constant_values=np.inf)
    return numbers, np.maximum(lengths, 0.0)


def _is_tidy(indices: NDArray[Any], distances: NDArray[Any], k: int) -> bool:
    """Return True if every row has k items, ascending by distance, then by number, and no duplicates."""
    if indices.shape[1] != k or not k or int(indices.min(initial=0)) < 0 or float(distances[:, 0].min(initial=0)) < 0:
        return False
    step, ahead = np.diff(distances, axis=1), np.diff(indices, axis=1)
    ascending = bool(((step > 0) | ((step == 0) & (ahead > 0))).all())
    return ascending and bool(np.isfinite(distances[:, -1]).all()) and not bool((np.diff(np.sort(indices)) == 0).any())


def _take_in_order(
    numbers: NDArray[np.int64], lengths: NDArray[np.float32], order: NDArray[np.int64]
) -> IndicesAndDistances:
    return np.take_along_axis(numbers, order, axis=1), np.take_along_axis(lengths, order, axis=1)


class QueryHits(NamedTuple):
    """Results of one query, nearest first: (n,) ids, (n,) distances, (n, d) vectors."""

    ids: NDArray[Any]
    distances: NDArray[np.float32]
    rows: Vectors


def rank_by_distance(
    query: Vectors, ids: NDArray[Any], rows: NDArray[Any], k: int, metric: str, dimensions: int
) -> QueryHits:
    """Return the k nearest of the items `ids` with the vectors `rows` (n, d), which may be unsorted and repeated.

    Items without a comparable vector are left out, see `drop_incomparable`.
    """
    ids, first = np.unique(ids, return_index=True)  # ascending: ties go to the lower id
    ids, rows = drop_incomparable(ids, rows[first], metric, dimensions)
    found = find_nearest(query[None, :], rows, k, unit=metric == "cosine")
    order = found.indices[0]
    return QueryHits(ids[order], found.distances[0], rows[order])


def drop_incomparable(
    ids: NDArray[Any], rows: NDArray[Any], metric: str, dimensions: int | None
) -> tuple[NDArray[Any], Vectors]:
    """Return the items with comparable vectors, and these vectors, normalised if the metric is cosine.

    A vector is not comparable if it is missing (NaN), not finite, or zero under cosine.
    """
    if rows.ndim != 2 or (dimensions and len(rows) and rows.shape[1] != dimensions):
        raise InputError(
            f"the store returned vectors of shape {rows.shape}, but they must have {dimensions} dimensions"
        )
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(rows, np.float32)
    good = np.isfinite(rows).all(axis=1)
    if metric == "cosine":
        good &= rows.any(axis=1)
    if not good.all():
        ids, rows = ids[good], rows[good]
    return ids, to_unit_rows(rows) if metric == "cosine" else rows


def to_id_array(keys: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """Return the ids of an engine as an (n,) array: int64, uint64 if a number requires it, or str (dtype object).

    UUIDs become strings. If an engine mixes integers and strings, all become strings. -1 and "" are refused because
    they mean "no item".
    """
    entries = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    if all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in set(map(type, entries))):
        try:
            found = np.array(entries, np.int64)
        except OverflowError:
            found = np.array(entries, np.uint64)
        nothing: Any = -1
        wrong = bool((found == -1).any()) if found.dtype == np.int64 else False
    else:
        wrong_types = [entry for entry in entries if not isinstance(entry, (int, str, UUID)) or isinstance(entry, bool)]
        if wrong_types:
            kind = type(wrong_types[0]).__name__
            raise InputError(
                f"the store has the id {wrong_types[0]!r}, a {kind}", remedy="use ids that are integers, texts or UUIDs"
            )
        found = np.empty(len(entries), object)
        found[:] = list(map(str, entries))
        nothing, wrong = "", "" in entries
    if wrong:
        raise InputError(
            f"an item of the store has the id {nothing!r}, which means that there is no item",
            remedy="give it another id",
        )
    return found


def unify_id_types(lists: Sequence[QueryHits]) -> list[NDArray[Any]]:
    """Return the ids of every list in one type: int64, or objects if there are texts or integers beyond int64."""
    texts = any(hits.ids.dtype.kind == "O" for hits in lists)
    if texts:
        return [hits.ids if hits.ids.dtype.kind == "O" else hits.ids.astype(str).astype(object) for hits in lists]
    large = any(hits.ids.dtype.kind == "u" for hits in lists)
    return [hits.ids.astype(object) if large else hits.ids for hits in lists]


def ranking_from_lists(
    lists: Sequence[QueryHits], meta: dict[str, Any], width: int = 0, has_ids: bool = True
) -> Ranking:
    """Build a Ranking from one list per query, padded to the longest list or to `width`.

    `indices` equals `ids` if these are integers >= 0. Otherwise `indices` numbers the ids of this ranking in ascending
    order and is meaningful within this ranking only. Without `has_ids` the lists hold item numbers.
    """
    width = max([width, *(len(hits.ids) for hits in lists)])
    texts = any(hits.ids.dtype.kind == "O" for hits in lists)
    unified = unify_id_types(lists)
    kind = object if any(entries.dtype == object for entries in unified) else np.int64
    ids: NDArray[Any] = np.full((len(lists), width), "" if texts else -1, kind)
    distances = np.full(ids.shape, np.inf, np.float32)
    filled = np.zeros(ids.shape, np.bool_)
    for row, (entries, hits) in enumerate(zip(unified, lists, strict=True)):
        size = len(entries)
        ids[row, :size], distances[row, :size], filled[row, :size] = entries, hits.distances, True
    if ids.dtype == np.int64 and int(ids.min(initial=0, where=filled)) >= 0:
        return Ranking(ids, distances, meta, ids=ids.copy() if has_ids else ids)
    indices = np.full(ids.shape, -1, np.int64)
    indices[filled] = np.unique(ids[filled], return_inverse=True)[1]
    return Ranking(indices, distances, meta, ids=ids)


def check_item_numbers(ids: Sequence[int] | NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return ids as int64. Raise InputError if one of them is not in 0 to count - 1."""
    numbers = np.asarray(ids, dtype=np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise InputError(
            f"must be item numbers from 0 to {count - 1}; got {numbers.min()}..{numbers.max()}", parameter="ids"
        )
    return numbers


def parse_item_numbers(count: int, entries: Any, parameter: str) -> NDArray[np.int64]:
    """Return the item numbers of `parameter`, one or several. Raise InputError for an entry that is not an item."""
    entries = to_list(entries, parameter)
    for entry in entries:
        whole = isinstance(entry, (int, np.integer)) and not isinstance(entry, bool)
        if not whole or not 0 <= entry < count:
            raise InputError(
                f"contains {entry!r}, which is not an item",
                parameter=parameter,
                allowed=f"numbers from 0 to {count - 1}",
            )
    return np.array(entries, np.int64)


def mask_from_filter(where: Any, count: int) -> NDArray[np.bool_]:
    """Return a (count,) mask of the items that a filter allows. The filter is a mask or a list of item numbers."""
    return parse_mask(where, count, partial(parse_item_numbers, count))
