"""InMemoryIndexStore: base class of the stores over an in-memory index whose items have integer labels.

Such an index has no fields and usually no filters, so `where` lists the items themselves. If a filter allows many
items, the store requests more results than needed and drops the others. If it allows few items, or if too few results
remain, the store compares the query with every allowed item.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError, MissingFileError
from kinrank.filters import SINGLE_OR_UNORDERED, looks_like_mask, parse_mask, refuse_mask_of_numbers
from kinrank.ids import INTEGER_TEXT, to_list, unwrap_masked_array
from kinrank.neighbors import find_nearest
from kinrank.stores.base import drop_incomparable
from kinrank.stores.engine import SCAN_ROWS, EngineStore, Hits
from kinrank.stores.url import StoreUrl
from kinrank.vector_input import Vectors

Labels = NDArray[Any]
# Labels of the results of one query, nearest first, and their Euclidean distances
LabelHits = tuple[Labels, NDArray[Any]]
MAX_COMPARED_VECTORS = 16_384  # vectors that an exact search reads at once
DEPTH_FACTOR = 4  # how much deeper each search is, if too many results had no comparable vector


def to_labels(entries: Any, number: Any) -> Labels:
    """Return integers as ascending, unique labels of the type `number`; omit integers that the type cannot hold."""
    if not isinstance(entries, np.ndarray):
        limits = np.iinfo(number)
        low, high = int(limits.min), int(limits.max)
        return np.unique(np.array([int(entry) for entry in entries if low <= entry <= high], number))
    if entries.dtype.kind == "i" and number is np.uint64:
        entries = entries[entries >= 0]
    elif entries.dtype.kind == "u" and number is np.int64:
        entries = entries[entries <= np.uint64(np.iinfo(np.int64).max)]
    return np.unique(entries.astype(number))


def find_labels(sorted_labels: Labels, labels: Labels) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the positions of labels in an ascending array, and a mask of the labels that it contains."""
    if not len(sorted_labels):
        return np.zeros(len(labels), np.int64), np.zeros(len(labels), np.bool_)
    places = np.minimum(np.searchsorted(sorted_labels, labels), len(sorted_labels) - 1)
    return places, sorted_labels[places] == labels


def labels_from_filter(where: Any, number: Any, count: int, everything: Callable[[], Labels], store: Any) -> Labels:
    """Return the ascending labels of a filter: a list of labels, or a mask over all labels in ascending order.

    `everything()` returns all labels in ascending order, at most `count`. Errors name the store.
    """
    plain = isinstance(where, np.ndarray) and where.ndim == 1 and where.dtype.kind in "biu"
    entries: Any = unwrap_masked_array(where, "where") if plain else to_list(where, "where")
    if not len(entries):
        raise InputError("allows no item", parameter="where", remedy="allow at least one, or leave it out")
    if entries.dtype.kind == "b" if plain else all(isinstance(entry, (bool, np.bool_)) for entry in entries):
        labels = everything()
        return labels[parse_mask(entries, len(labels), lambda *_: np.empty(0, np.int64))]
    ordered = not isinstance(where, SINGLE_OR_UNORDERED)
    if ordered and len(entries) <= count and looks_like_mask(entries, len(entries)):
        refuse_mask_of_numbers(entries, len(everything()))
    if not plain:
        wrong_types = [e for e in entries if not isinstance(e, (int, np.integer)) or isinstance(e, bool)]
        if wrong_types:
            raise InputError(
                f"contains {wrong_types[0]!r:.60}, a {type(wrong_types[0]).__name__}, but {store!r} has no fields and "
                "its ids are integers",
                parameter="where",
                allowed="a list of ids, or a mask of all items in the order of their ids",
            )
    return to_labels(entries, number)


def check_index_file(url: StoreUrl) -> Path:
    """Return the file of a store URL. Raise FileNotFoundError if it does not exist."""
    scheme = url.scheme
    if url.host is not None:
        raise InputError(f"{scheme}://{url.host}/... is a server", remedy=f"give a file, {scheme}:file")
    path = Path(url.require("path", f"a file, {scheme}:file"))
    if not path.is_file():
        raise MissingFileError(f"{path} does not exist or is not a file")
    return path


class InMemoryIndexStore(EngineStore):
    """A Store over an index in memory.

    Filters (`where`): a list of ids, or a mask of all items in the order of their ids. Ids that do not exist are
    ignored.
    """

    _label_dtype: Any = np.uint64  # type of the labels
    _length_range: tuple[float, float] | None = None  # allowed lengths of vectors; None for any length
    _length_reason: str = "compares by inner product"  # why vectors must have length one, for errors

    @abstractmethod
    def _search_index(self, rows: Vectors, k: int) -> list[LabelHits]:
        """Return up to k items per query, nearest first. k is at least 1 and at most `_max_count()`."""

    @abstractmethod
    def _get_vectors(self, labels: Labels) -> tuple[Labels, Vectors]:
        """Return the existing ones of these ascending labels, and their vectors."""

    @abstractmethod
    def _all_labels(self) -> Labels:
        """Return the labels of all items, ascending."""

    @abstractmethod
    def _max_count(self) -> int:
        """Return an upper bound of the number of items, in constant time."""

    def _count(self) -> int:
        return self._max_count()

    def _classify(self, error: Exception) -> type[Exception] | None:
        return InputError if type(error) is RuntimeError else None

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        if where is None:
            return self._search_unfiltered(rows, k, vectors)
        wanted, most = self._parse_filter(where), self._max_count()
        depth = 2 * k * most // max(1, len(wanted))
        if 4 * depth >= most:
            return self._search_exactly(rows, k, wanted, vectors)
        found = [(labels, gaps, find_labels(wanted, labels)[1]) for labels, gaps in self._search_index(rows, depth)]
        inside = [(labels[mask], gaps[mask]) for labels, gaps, mask in found]
        hits = self._build_hits(inside, k, vectors)
        short = [place for place, result in enumerate(hits) if len(result.keys) < k]
        for place, result in zip(short, self._search_exactly(rows[short], k, wanted, vectors), strict=True):
            hits[place] = result
        return hits

    def _search_unfiltered(self, rows: Vectors, k: int, vectors: bool) -> list[Hits]:
        """Search the index, and search deeper if NaN or zero vectors take places in the results."""
        k = depth = min(k, self._max_count())
        if not k:
            return [Hits([], self._no_rows(), np.empty(0))] * len(rows)
        found = self._search_index(rows, depth)
        hits = self._build_hits(found, depth, vectors)
        while depth < self._max_count():
            short = [
                place for place, result in enumerate(hits) if len(result.keys) < k and len(found[place][0]) == depth
            ]
            if not short:
                break
            depth = min(DEPTH_FACTOR * depth, self._max_count())
            deeper = self._search_index(rows[short], depth)
            for place, labels, result in zip(short, deeper, self._build_hits(deeper, depth, vectors), strict=True):
                found[place], hits[place] = labels, result
        return [
            Hits(keys[:k], None if held is None else held[:k], None if gaps is None else gaps[:k])
            for keys, held, gaps in hits
        ]

    def _search_exactly(self, rows: Vectors, k: int, wanted: Labels, vectors: bool) -> list[Hits]:
        """Return the nearest of these items by comparing the queries with all of them."""
        labels, gaps = np.empty((len(rows), 0), wanted.dtype), np.empty((len(rows), 0), np.float32)
        for start in range(0, len(wanted) if len(rows) else 0, MAX_COMPARED_VECTORS):
            held = self._get_checked_vectors(wanted[start : start + MAX_COMPARED_VECTORS])
            names, held_rows = drop_incomparable(*held, self.metric, self.dimensions)
            found = find_nearest(rows, held_rows, k, unit=self.metric == "cosine")
            labels = np.concatenate([labels, names[found.indices]], axis=1)
            gaps = np.concatenate([gaps, found.distances], axis=1)
            order = np.argsort(gaps, axis=1, kind="stable")[:, :k]  # labels ascend, so ties go to the lower one
            labels, gaps = np.take_along_axis(labels, order, axis=1), np.take_along_axis(gaps, order, axis=1)
        return self._build_hits(list(zip(labels, gaps, strict=True)), k, vectors)

    def _build_hits(self, found: Sequence[LabelHits], k: int, vectors: bool) -> list[Hits]:
        """Return the first k comparable results per query, with vectors if `vectors`. Every vector is read once."""
        finite = [np.isfinite(gaps) for _, gaps in found]
        found = [(labels[mask][:k], gaps[mask][:k]) for (labels, gaps), mask in zip(found, finite, strict=True)]
        if not vectors or not found:
            return [Hits(labels.tolist(), None, gaps) for labels, gaps in found]
        names, rows = self._get_checked_vectors(np.unique(np.concatenate([labels for labels, _ in found])))
        good = np.isfinite(rows).all(axis=1)
        if self.metric == "cosine":
            good &= rows.any(axis=1)
        if not good.all():
            names, rows = names[good], rows[good]
        hits = []
        for labels, gaps in found:
            places, exists = find_labels(names, labels)
            hits.append(Hits(labels[exists].tolist(), rows[places[exists]], gaps[exists]))
        return hits

    def _fetch(self, keys: list[Any]) -> Hits:
        numbers = [int(key) for key in keys if isinstance(key, int) or INTEGER_TEXT.fullmatch(key)]
        labels, rows = self._get_checked_vectors(to_labels(numbers, self._label_dtype))
        return Hits(labels.tolist(), rows)

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        labels = self._all_labels()
        if where is not None:
            labels = labels[find_labels(self._parse_filter(where), labels)[1]]
        for start in range(0, len(labels), SCAN_ROWS):
            block, rows = labels[start : start + SCAN_ROWS], None
            if vectors:
                block, rows = self._get_checked_vectors(block)
            yield Hits(block.tolist(), rows)

    def _get_checked_vectors(self, labels: Labels) -> tuple[Labels, Vectors]:
        """Return the existing labels and their vectors. Raise InputError if lengths must be one and are not."""
        held, rows = self._get_vectors(labels)
        if self._length_range is not None and len(rows):
            low, high = self._length_range
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            wrong = np.isfinite(lengths) & (lengths > 0) & ((lengths < low) | (lengths > high))
            if wrong.any():
                place = int(np.flatnonzero(wrong)[0])
                raise InputError(
                    f"{self!r} {self._length_reason}, which needs vectors of length one; that of {held[place]} has "
                    f"length {lengths[place]:.3g}",
                    remedy="normalise the vectors and add them again, or use an index by distance",
                )
        return held, rows

    def _parse_filter(self, where: Any) -> Labels:
        return labels_from_filter(where, self._label_dtype, self._max_count(), self._all_labels, self)
