"""UsearchStore: an index of usearch -> a Store. Extra `[usearch]`."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.space import METRICS
from kinrank.stores.address import Address
from kinrank.stores.clients import flag
from kinrank.stores.labelled import Found, LabelledStore
from kinrank.stores.labels import Labels, file_of

METRIC = {"cos": METRICS[0], "ip": METRICS[0], "l2sq": METRICS[1]}
FULL = ("f32", "f64")  # kinds of numbers in which vectors come back as they were added
DIRECTIONS = ("i8",)  # kinds in which only their direction is kept
UNKNOWN = ("b1", "u8")  # kinds that lose signs
PROBED = 32  # items whose distances are compared with what the index says of its metric


class UsearchStore(LabelledStore):
    """The vectors of a `usearch.index.Index` in memory. Their ids are its keys, whole numbers from 0 to 2**64 - 2.

    Filters (`where`): a list of ids, or a mask of all items in the order of their ids. Ids that are not there match
    nothing.

    Args:
        index: one vector per key (multi=False); by cos, by l2sq, or by ip over vectors of length one.
        exact: compare queries with every vector, without the graph.
    """

    def __init__(self, index: Any, *, exact: bool = False) -> None:
        kind = needed("usearch.index", "UsearchStore", "usearch").Index
        if not isinstance(index, kind):
            raise ValueError(f"index must be a usearch.index.Index; got {type(index).__name__}")
        if index.multi:
            raise ValueError("index has several vectors per key (multi=True); give one with a key for each vector")
        self._index, self._lock, self._every = index, Lock(), bool(exact)
        self.dimensions, self._dtype = int(index.ndim), str(index.dtype.name).lower()
        self._compares = str(index.metric_kind.name).lower()
        if self._compares not in METRIC:
            raise ValueError(f"index compares by {self._compares!r}; kinrank knows cos, l2sq, and ip of unit vectors")
        if self._dtype in UNKNOWN or (self._dtype in DIRECTIONS and self._compares != "cos"):
            raise ValueError(
                f"index keeps {self._dtype} numbers and compares by {self._compares}: signs or lengths are lost in it; "
                "make it anew with f32, f16 or bf16, or with i8 and cos"
            )
        keys = index.keys[: min(PROBED, len(index))] if len(index) else np.empty(0, np.uint64)
        if len(keys) and not index.contains(keys).all():
            raise ValueError("index cannot give vectors back (enable_key_lookups=False); make it anew with them")
        names, rows = self._held(np.sort(keys))
        self._compares = self._measured(names, rows)
        self.metric, self.exact = METRIC[self._compares], self._every and self._dtype in FULL
        off = 1e-3 if self._dtype in FULL else 0.1
        self._lengths = (1 - off, 1 + off) if self._compares == "ip" else None
        self._checked(names)

    @classmethod
    def at(cls, address: Address) -> UsearchStore:
        """The store over usearch:index.usearch, a file that `index.save` wrote; exact=true compares every vector."""
        options = address.only("exact")
        path, kind = file_of(address), needed("usearch.index", "UsearchStore", "usearch").Index
        try:
            index = kind.restore(str(path))
        except (ValueError, RuntimeError, MemoryError, KeyError) as error:
            raise ValueError(f"{path} is no index of usearch, or is cut off ({error})") from error
        return cls(index, exact=flag(options, "exact"))

    def __repr__(self) -> str:
        return f"UsearchStore({self._compares}, {self._dtype})"

    def _near(self, rows: Vectors, k: int) -> list[Found]:
        """The graph keeps as many items in view as are asked for, or `index.expansion_search` where that is more."""
        with self._lock:
            found = self._index.search(rows, k, exact=self._every)
        lists = [found] if len(rows) == 1 else [found[place] for place in range(len(rows))]
        factor = 1.0 if self._compares == "l2sq" else 2.0
        return [(one.keys, np.sqrt(np.maximum(factor * one.distances, 0.0))) for one in lists]

    def _held(self, labels: Labels) -> tuple[Labels, Vectors]:
        labels = labels[self._index.contains(labels)] if len(labels) else labels  # before 2.25, `get` gives anything
        rows = self._index.get(labels, "f32")
        there = np.array([row is not None for row in rows], np.bool_)
        found = [row for row in rows if row is not None]
        return labels[there], np.stack(found) if found else self._nothing()

    def _labels(self) -> Labels:
        count = len(self._index)
        return np.sort(self._index.keys[:count]) if count else np.empty(0, np.uint64)

    def _most(self) -> int:
        return len(self._index)

    def _measured(self, names: Labels, rows: Vectors) -> str:
        """How the index really compares: one that was loaded from a file still tells what it was made with."""
        lengths = np.linalg.norm(rows, axis=1)
        good = np.flatnonzero(np.isfinite(lengths) & (lengths > 0))
        if len(good) < 2:
            return self._compares
        left, right = good[:-1], good[1:]
        said = self._index.pairwise_distance(names[left], names[right])
        products, sizes = np.einsum("ij,ij->i", rows[left], rows[right]), lengths[left] * lengths[right]
        ways = {
            "cos": 1.0 - products / sizes,
            "ip": 1.0 - products,
            "l2sq": np.maximum(lengths[left] ** 2 + lengths[right] ** 2 - 2.0 * products, 0.0),
        }
        fits = [name for name, gaps in ways.items() if np.allclose(said, gaps, 0.02, 0.02)]
        if not fits:
            raise ValueError(f"index says that it compares by {self._compares}, but its distances are others")
        return self._compares if self._compares in fits else fits[0]
