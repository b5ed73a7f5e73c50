"""A FAISS index of any make -> which ids it holds, and their vectors; nothing in it is changed.

An index may stand in others: ids of its own (IDMap), a transform before it (PreTransform). Each part here reads one.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.stores.labels import placed

Ids = NDArray[np.int64]


class Part(Protocol):
    """One index."""

    exact: bool  # whether a search finds the nearest items, all of them
    full: bool  # whether vectors come back as they were added

    def ids(self) -> Ids:
        """Those of all items, in any order."""
        ...

    def rows(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        """Which of these ids are there, and the vectors of these."""
        ...


def part_of(faiss: Any, index: Any) -> Part:
    """What reads an index."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexIDMap):
        return Named(faiss, index)
    if isinstance(index, faiss.IndexPreTransform):
        return Transformed(faiss, index)
    return Lists(faiss, index) if isinstance(index, faiss.IndexIVF) else Counted(faiss, index)


class Counted:
    """An index whose ids are 0, 1, 2, ..."""

    def __init__(self, faiss: Any, index: Any) -> None:
        self.faiss, self.index = faiss, index
        self.exact = isinstance(index, faiss.IndexFlat)
        flat = (faiss.IndexFlat, faiss.IndexHNSWFlat, faiss.IndexNSGFlat, faiss.IndexRefineFlat)
        self.full = isinstance(index, flat)

    def ids(self) -> Ids:
        return np.arange(self.index.ntotal, dtype=np.int64)

    def rows(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        there = (ids >= 0) & (ids < self.index.ntotal)
        return there, self.index.reconstruct_batch(ids[there])


class Places:
    """Where ids stand, looked up again where an index has changed."""

    def __init__(self, ids: Ids) -> None:
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]
        again = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(again):
            raise ValueError(f"index holds the id {self._sorted[again[0]]} twice; give each item an id of its own")

    def of(self, ids: Ids) -> Ids:
        """(n,) the places of ids, -1 where there is none."""
        places, there = placed(self._sorted, ids)
        return np.where(there, self._order[places] if len(self._order) else 0, -1)


class Named:
    """Another index under ids of its own: IndexIDMap and IndexIDMap2."""

    def __init__(self, faiss: Any, index: Any) -> None:
        self.faiss, self.index, self.inner = faiss, index, part_of(faiss, index.index)
        self.exact, self.full = self.inner.exact, self.inner.full
        self._places = self._looked_up()

    def ids(self) -> Ids:
        return np.array(self._view())

    def rows(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        places = self._places.of(ids)
        if not self._right(ids, places):
            self._places = self._looked_up()
            places = self._places.of(ids)
        there = places >= 0
        inside, rows = self.inner.rows(places[there])
        there[there] = inside
        return there, rows

    def _view(self) -> Ids:
        names = self.index.id_map
        size = names.size()
        view: Ids = self.faiss.rev_swig_ptr(names.data(), size) if size else np.empty(0, np.int64)
        return view

    def _right(self, ids: Ids, places: Ids) -> bool:
        now = self._view()
        fewer = len(now) < self._size  # something was removed
        return not fewer and bool((places >= 0).all() and (places < len(now)).all() and (now[places] == ids).all())

    def _looked_up(self) -> Places:
        inside, size = self.inner.ids(), len(self._view())
        if len(inside) and int(inside.max()) >= size:
            raise ValueError(
                "index is an IDMap over an IVF index from which items were removed; FAISS gives wrong ids then: make "
                "it anew, and give ids to the IVF index itself (index.add_with_ids), without an IDMap"
            )
        self._size = size
        return Places(self.ids())


class Transformed:
    """Another index behind a transform; vectors are transformed back."""

    def __init__(self, faiss: Any, index: Any) -> None:
        self.faiss, self.inner = faiss, part_of(faiss, index.index)
        self.exact, self.full = False, False
        chain = index.chain
        self._chain = [faiss.downcast_VectorTransform(chain.at(place)) for place in range(chain.size())]
        self._whole = index  # the transforms live in it

    def ids(self) -> Ids:
        return self.inner.ids()

    def rows(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        there, rows = self.inner.rows(ids)
        for transform in reversed(self._chain):
            rows = transform.reverse_transform(np.ascontiguousarray(rows))
        return there, rows


class Lists:
    """An IVF index: items in lists, under ids that were given or counted.

    Its own map from ids to lists may be missing, and making it would change what the index can do.
    """

    def __init__(self, faiss: Any, index: Any) -> None:
        self.faiss, self.index = faiss, index
        self.exact, self.full = False, isinstance(index, faiss.IndexIVFFlat)
        self._look_up()

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
        lists, offsets = self._found(ids)
        if not self._right(ids, lists, offsets):
            self._look_up()
            lists, offsets = self._found(ids)
        there = lists >= 0
        rows = np.empty((int(there.sum()), self.index.d), np.float32)
        for number, offset, row in zip(lists[there].tolist(), offsets[there].tolist(), rows, strict=True):
            self.index.reconstruct_from_offset(number, offset, self.faiss.swig_ptr(row))
        return there, rows

    def _look_up(self) -> None:
        lists = self.index.invlists
        sizes = [lists.list_size(number) for number in range(lists.nlist)]
        starts = np.cumsum([0, *sizes])
        self._place = Places(self.ids()), starts

    def _found(self, ids: Ids) -> tuple[Ids, Ids]:
        places, starts = self._place
        found = places.of(ids)
        lists = np.searchsorted(starts, found, side="right") - 1
        return np.where(found < 0, -1, lists), found - starts[lists]

    def _right(self, ids: Ids, lists: Ids, offsets: Ids) -> bool:
        held = self.index.invlists
        return all(
            number >= 0 and offset < held.list_size(number) and held.get_single_id(number, offset) == name
            for name, number, offset in zip(ids.tolist(), lists.tolist(), offsets.tolist(), strict=True)
        )
