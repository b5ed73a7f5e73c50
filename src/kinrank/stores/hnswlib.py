"""HnswlibStore: an index of hnswlib -> a Store. Extra `[hnswlib]`."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.space import METRICS
from kinrank.stores.address import Address
from kinrank.stores.clients import rows_of
from kinrank.stores.labelled import Found, LabelledStore
from kinrank.stores.labels import Labels, file_of, placed

SPACES = {"cosine": METRICS[0], "ip": METRICS[0], "l2": METRICS[1]}
PROBED = 64  # items whose length is looked at when a store is opened
CHEAP = 100  # bytes that are copied in the time in which the index makes a Python number
HEADER = struct.Struct("<6QiI3QdQ")  # how a file begins
DELETED = 2, 1  # the byte of an item that holds its marks, and the mark


class HnswlibStore(LabelledStore):
    """The vectors of an `hnswlib.Index` in memory. Their ids are its labels, whole numbers from 0 to 2**64 - 1.

    In the space "cosine" the index keeps vectors of length one, and gives these back. Labels that were marked as
    deleted are not there.

    Filters (`where`): a list of ids, or a mask of all items in the order of their ids. Ids that are not there match
    nothing.

    Args:
        index: one that has been initialised or loaded; of the space cosine, l2, or ip over vectors of length one.
    """

    def __init__(self, index: Any) -> None:
        if not isinstance(index, needed("hnswlib", "HnswlibStore", "hnswlib").Index):
            raise ValueError(f"index must be an hnswlib.Index; got {type(index).__name__}")
        if not index.max_elements:
            raise ValueError("index has no room for items yet; call its init_index or load_index first")
        if index.space not in SPACES:
            raise ValueError(f"index compares by {index.space!r}; kinrank knows cosine, l2, and ip of unit vectors")
        self._index, self.dimensions, self.metric = index, int(index.dim), SPACES[index.space]
        self._lengths = (0.999, 1.001) if self.metric == METRICS[0] else None
        self._says = "compares by inner product" if index.space == "ip" else "has the space cosine"
        self._checked(np.sort(np.array(index.get_ids_list()[:PROBED], np.uint64)))

    @classmethod
    def at(cls, address: Address) -> HnswlibStore:
        """The store over hnswlib:index.bin?space=cosine, a file that `index.save_index` wrote.

        The file does not tell its space: it must be given. `dimensions` may be given too, and is then checked.
        """
        options = address.only("space", "dimensions")
        path, hnswlib = file_of(address), needed("hnswlib", "HnswlibStore", "hnswlib")
        space = address.needed("space", f"the space of the index, ?space= one of: {', '.join(SPACES)}")
        if space not in SPACES:
            raise ValueError(f"space={space!r} is not allowed; give one of: {', '.join(SPACES)}")
        dimensions, count = _told(path)
        if options.get("dimensions", str(dimensions)) != str(dimensions):
            raise ValueError(f"{path} has {dimensions} dimensions, not {options['dimensions']!r}; leave the option out")
        index = hnswlib.Index(space, dimensions)
        try:
            index.load_index(str(path), max_elements=max(1, count))
        except RuntimeError as error:
            raise ValueError(f"{path} is no index of hnswlib, or is cut off ({error})") from error
        return cls(index)

    def __repr__(self) -> str:
        return f"HnswlibStore({self._index.space})"

    def _near(self, rows: Vectors, k: int) -> list[Found]:
        """The graph keeps as many items in view as are asked for, or `index.ef` where that is more."""
        try:
            return self._found(rows, k)
        except RuntimeError:  # some queries reach fewer than k
            k = min(k, self._count())
            return [self._reached(row, k) for row in rows[:, None]]

    def _found(self, rows: Vectors, k: int) -> list[Found]:
        labels, gaps = self._index.knn_query(rows, k)
        factor = 1.0 if self._index.space == "l2" else 2.0
        return list(zip(labels, np.sqrt(np.maximum(factor * gaps, 0.0)), strict=True))

    def _reached(self, row: Vectors, k: int) -> Found:
        """As many of the k nearest as the graph leads to: it gives all that were asked for, or none."""
        best: Found = np.empty(0, np.uint64), np.empty(0, np.float32)
        low, high, size = 0, k, k
        while low < high:
            try:
                best, low = self._found(row, size)[0], size
            except RuntimeError:
                high = size - 1
            size = (low + high + 1) // 2
        return best

    def _held(self, labels: Labels) -> tuple[Labels, Vectors]:
        item = 4 * self.dimensions + 8 * self._index.M + 16  # bytes
        if item * self._most() > CHEAP * len(labels) * self.dimensions:
            return self._one_by_one(labels)
        names, rows, places = self._copied()
        found, there = placed(names, labels)
        return labels[there], np.ascontiguousarray(rows[places[found[there]]]).view(np.float32)

    def _one_by_one(self, labels: Labels) -> tuple[Labels, Vectors]:
        """The index gives either all of them or none, so that where one is gone, halves are asked for."""
        if not len(labels):
            return labels, self._nothing()
        try:
            return labels, rows_of(self._index.get_items(labels, return_type="list"), self.dimensions)
        except RuntimeError:
            if len(labels) == 1:
                return labels[:0], self._nothing()
        half = len(labels) // 2
        left, right = self._one_by_one(labels[:half]), self._one_by_one(labels[half:])
        return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])

    def _copied(self) -> tuple[Labels, NDArray[np.uint8], NDArray[np.int64]]:
        """All labels that are not deleted, ascending, the vectors of all items in bytes, and where those of the labels
        stand: out of a copy of what the index holds.
        """
        state = self._index.__getstate__()[0]
        items = state["data_level0"].view(np.uint8).reshape(-1, state["size_data_per_element"])
        byte, mark = DELETED
        places = np.flatnonzero(items[:, state["offset_level0"] + byte] & mark == 0)
        start, end = state["offset_data"], state["label_offset"]
        labels = np.ascontiguousarray(items[places, end : end + 8]).view(np.uint64).reshape(-1)
        order = np.argsort(labels)
        return labels[order], items[:, start:end], places[order]

    def _labels(self) -> Labels:
        return self._copied()[0]

    def _most(self) -> int:
        return int(self._index.element_count)

    def _count(self) -> int:
        return len(self._labels())


def _told(path: Path) -> tuple[int, int]:
    """Dimensions and items of a file, if its parts fit together: hnswlib itself does not look."""
    size = os.path.getsize(path)
    with path.open("rb") as file:
        head = file.read(HEADER.size)
    if len(head) == HEADER.size:
        level, room, count, item, label, data, _, entry, links, links_0, half, _, _ = HEADER.unpack(head)
        dimensions = (label - data) // 4
        item_fits = level == 0 and data == 4 + 4 * links_0 and label == data + 4 * dimensions and item == label + 8
        links_fit = links == half and links_0 == 2 * half and (entry < count or not count)
        file_fits = count <= room and HEADER.size + count * (item + 4) <= size
        if dimensions >= 1 and item_fits and links_fit and file_fits:
            return dimensions, count
    raise ValueError(f"{path} is no index of hnswlib, or is cut off (its beginning does not fit to its size)")
