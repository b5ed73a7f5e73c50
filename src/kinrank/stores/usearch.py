"""UsearchStore: a Store over a usearch index. Extra `[usearch]`."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.stores.client_utils import parse_flag
from kinrank.stores.in_memory_index import InMemoryIndexStore, LabelHits, Labels, check_index_file
from kinrank.stores.url import StoreUrl
from kinrank.vector_input import Vectors
from kinrank.vector_space import METRICS

METRIC_NAMES = {"cos": METRICS[0], "ip": METRICS[0], "l2sq": METRICS[1]}
EXACT_DTYPES = ("f32", "f64")  # number types that return vectors unchanged
DIRECTION_DTYPES = ("i8",)  # number types that keep only the direction
UNSUPPORTED_DTYPES = ("b1", "u8")  # number types that lose signs
PROBED_ITEMS = 32  # items whose distances are compared with the declared metric of the index


class UsearchStore(InMemoryIndexStore):
    """A Store over a `usearch.index.Index` in memory. The ids are its keys, integers from 0 to 2**64 - 2.

    Filters (`where`): a list of ids, or a mask of all items in the order of their ids. Ids that do not exist are
    ignored.

    Args:
        index: an index with one vector per key (multi=False) and the metric cos, l2sq, or ip over unit vectors.
        exact: compare queries with every vector instead of searching the graph.
    """

    url_examples = ("usearch:index.usearch",)

    def __init__(self, index: Any, *, exact: bool = False) -> None:
        kind = import_extra("usearch.index", "UsearchStore", "usearch").Index
        if not isinstance(index, kind):
            raise InputError(f"must be a usearch.index.Index; got {type(index).__name__}", parameter="index")
        if index.multi:
            raise InputError(
                "has several vectors per key (multi=True)", parameter="index", allowed="one with a key for each vector"
            )
        self._index, self._lock, self._exhaustive = index, Lock(), bool(exact)
        self.dimensions, self._dtype = int(index.ndim), str(index.dtype.name).lower()
        self._metric_name = str(index.metric_kind.name).lower()
        if self._metric_name not in METRIC_NAMES:
            raise InputError(
                f"compares by {self._metric_name!r}", parameter="index", remedy="use cos, l2sq, or ip with unit vectors"
            )
        if self._dtype in UNSUPPORTED_DTYPES or (self._dtype in DIRECTION_DTYPES and self._metric_name != "cos"):
            raise InputError(
                f"stores {self._dtype} numbers and compares by {self._metric_name}, which loses signs or lengths",
                parameter="index",
                remedy="create it with f32, f16 or bf16, or with i8 and cos",
            )
        keys = index.keys[: min(PROBED_ITEMS, len(index))] if len(index) else np.empty(0, np.uint64)
        if len(keys) and not index.contains(keys).all():
            raise InputError(
                "cannot return vectors (enable_key_lookups=False)",
                parameter="index",
                remedy="create it with enable_key_lookups=True",
            )
        names, rows = self._get_vectors(np.sort(keys))
        self._metric_name = self._detect_metric(names, rows)
        self.metric, self.exact = METRIC_NAMES[self._metric_name], self._exhaustive and self._dtype in EXACT_DTYPES
        off = 1e-3 if self._dtype in EXACT_DTYPES else 0.1
        self._length_range = (1 - off, 1 + off) if self._metric_name == "ip" else None
        self._get_checked_vectors(names)

    @classmethod
    def from_url(cls, url: StoreUrl) -> UsearchStore:
        """Open usearch:index.usearch, a file written by `index.save`. exact=true compares every vector."""
        options = url.check_options("exact")
        path, kind = check_index_file(url), import_extra("usearch.index", "UsearchStore", "usearch").Index
        try:
            index = kind.restore(str(path))
        except (ValueError, RuntimeError, MemoryError, KeyError) as error:
            raise InputError(f"{path} is not a usearch index, or is truncated ({error})") from error
        return cls(index, exact=parse_flag(options, "exact"))

    def __repr__(self) -> str:
        return f"UsearchStore({self._metric_name}, {self._dtype})"

    def _search_index(self, rows: Vectors, k: int) -> list[LabelHits]:
        """Search the graph with a beam of max(k, `index.expansion_search`) items."""
        with self._lock:
            found = self._index.search(rows, k, exact=self._exhaustive)
        lists = [found] if len(rows) == 1 else [found[place] for place in range(len(rows))]
        factor = 1.0 if self._metric_name == "l2sq" else 2.0
        return [(hits.keys, np.sqrt(np.maximum(factor * hits.distances, 0.0))) for hits in lists]

    def _get_vectors(self, labels: Labels) -> tuple[Labels, Vectors]:
        # before 2.25, `get` returns arbitrary values for missing keys
        labels = labels[self._index.contains(labels)] if len(labels) else labels
        rows = self._index.get(labels, "f32")
        exists = np.array([row is not None for row in rows], np.bool_)
        found = [row for row in rows if row is not None]
        return labels[exists], np.stack(found) if found else self._no_rows()

    def _all_labels(self) -> Labels:
        count = len(self._index)
        return np.sort(self._index.keys[:count]) if count else np.empty(0, np.uint64)

    def _max_count(self) -> int:
        return len(self._index)

    def _detect_metric(self, names: Labels, rows: Vectors) -> str:
        """Determine the actual metric. An index that was loaded from a file may report the metric of another one."""
        lengths = np.linalg.norm(rows, axis=1)
        good = np.flatnonzero(np.isfinite(lengths) & (lengths > 0))
        if len(good) < 2:
            return self._metric_name
        left, right = good[:-1], good[1:]
        distances = self._index.pairwise_distance(names[left], names[right])
        products, sizes = np.einsum("ij,ij->i", rows[left], rows[right]), lengths[left] * lengths[right]
        expected = {
            "cos": 1.0 - products / sizes,
            "ip": 1.0 - products,
            "l2sq": np.maximum(lengths[left] ** 2 + lengths[right] ** 2 - 2.0 * products, 0.0),
        }
        fits = [name for name, gaps in expected.items() if np.allclose(distances, gaps, 0.02, 0.02)]
        if not fits:
            raise InputError(
                f"declares the metric {self._metric_name}, but its distances do not match", parameter="index"
            )
        return self._metric_name if self._metric_name in fits else fits[0]
