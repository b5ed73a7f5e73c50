"""LabelledStore: an index in memory, whose items are whole numbers -> a Store with filters.

Such an index keeps no fields, and mostly knows no filters. So `where` names the items themselves. Where it leaves many,
the index is asked for more than needed and the others are dropped; where it leaves few, or too few are found, all that
it leaves are compared.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import given
from kinrank.features import Vectors
from kinrank.neighbors import nearest
from kinrank.stores.engine import REFUSED, SCANNED, EngineStore, Hits
from kinrank.stores.labels import Labels, as_labels, placed, wanted_by
from kinrank.stores.ordered import comparable

Found = tuple[Labels, NDArray[Any]]  # items of one query, nearest first, and their Euclidean distances
COMPARED = 16_384  # vectors of a filter that are read at once
DEEPER = 4  # times as many are asked for, where too many had no vector that can be compared


class LabelledStore(EngineStore):
    """What is the same for all of them.

    Filters (`where`): a list of ids, or a mask of all items in the order of their ids. Ids that are not there match
    nothing.
    """

    _number: Any = np.uint64  # the type of its labels
    _lengths: tuple[float, float] | None = None  # between which vectors must be; None where any length is right
    _says: str = "compares by inner product"  # why lengths must be one

    @abstractmethod
    def _near(self, rows: Vectors, k: int) -> list[Found]:
        """For each query k items or fewer, nearest first; k is at least 1 and at most `_most()`."""

    @abstractmethod
    def _held(self, labels: Labels) -> tuple[Labels, Vectors]:
        """Those of these labels, ascending, that are there, and their vectors."""

    @abstractmethod
    def _labels(self) -> Labels:
        """Those of all items, ascending."""

    @abstractmethod
    def _most(self) -> int:
        """How many items there are, at most; told at once."""

    def _count(self) -> int:
        return self._most()

    def _kind(self, error: Exception) -> str | None:
        return REFUSED if type(error) is RuntimeError else None

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        if where is None:
            return self._nearest(rows, k, vectors)
        wanted, most = self._wanted(where), self._most()
        depth = 2 * k * most // max(1, len(wanted))
        if 4 * depth >= most:
            return self._exactly(rows, k, wanted, vectors)
        found = [(labels, gaps, placed(wanted, labels)[1]) for labels, gaps in self._near(rows, depth)]
        inside = [(labels[some], gaps[some]) for labels, gaps, some in found]
        hits = self._hits(inside, k, vectors)
        short = [place for place, one in enumerate(hits) if len(one.keys) < k]
        for place, one in zip(short, self._exactly(rows[short], k, wanted, vectors), strict=True):
            hits[place] = one
        return hits

    def _nearest(self, rows: Vectors, k: int, vectors: bool) -> list[Hits]:
        """As the index finds them, and deeper where NaN or zero vectors stand in the way."""
        k = depth = min(k, self._most())
        if not k:
            return [Hits([], self._nothing(), np.empty(0))] * len(rows)
        found = self._near(rows, depth)
        hits = self._hits(found, depth, vectors)
        while depth < self._most():
            short = [place for place, one in enumerate(hits) if len(one.keys) < k and len(found[place][0]) == depth]
            if not short:
                break
            depth = min(DEEPER * depth, self._most())
            more = self._near(rows[short], depth)
            for place, one, two in zip(short, more, self._hits(more, depth, vectors), strict=True):
                found[place], hits[place] = one, two
        return [Hits(keys[:k], None if held is None else held[:k], None if gaps is None else gaps[:k])
                for keys, held, gaps in hits]  # fmt: skip

    def _exactly(self, rows: Vectors, k: int, wanted: Labels, vectors: bool) -> list[Hits]:
        """The nearest of these items, all of them compared."""
        labels, gaps = np.empty((len(rows), 0), wanted.dtype), np.empty((len(rows), 0), np.float32)
        for start in range(0, len(wanted) if len(rows) else 0, COMPARED):
            held = self._checked(wanted[start : start + COMPARED])
            names, held_rows = comparable(*held, self.metric, self.dimensions)
            found = nearest(rows, held_rows, k, unit=self.metric == "cosine")
            labels = np.concatenate([labels, names[found.indices]], axis=1)
            gaps = np.concatenate([gaps, found.distances], axis=1)
            order = np.argsort(gaps, axis=1, kind="stable")[:, :k]  # labels ascend: ties go to the lower one
            labels, gaps = np.take_along_axis(labels, order, axis=1), np.take_along_axis(gaps, order, axis=1)
        return self._hits(list(zip(labels, gaps, strict=True)), k, vectors)

    def _hits(self, found: Sequence[Found], k: int, vectors: bool) -> list[Hits]:
        """The first k that can be compared, with their vectors if asked for; every vector is read once."""
        finite = [np.isfinite(gaps) for _, gaps in found]
        found = [(labels[some][:k], gaps[some][:k]) for (labels, gaps), some in zip(found, finite, strict=True)]
        if not vectors or not found:
            return [Hits(labels.tolist(), None, gaps) for labels, gaps in found]
        names, rows = self._checked(np.unique(np.concatenate([labels for labels, _ in found])))
        good = np.isfinite(rows).all(axis=1)
        if self.metric == "cosine":
            good &= rows.any(axis=1)
        if not good.all():
            names, rows = names[good], rows[good]
        hits = []
        for labels, gaps in found:
            places, there = placed(names, labels)
            hits.append(Hits(labels[there].tolist(), rows[places[there]], gaps[there]))
        return hits

    def _fetch(self, keys: list[Any]) -> Hits:
        numbers = [int(key) for key in keys if isinstance(key, int) or given.NUMBER.fullmatch(key)]
        labels, rows = self._checked(as_labels(numbers, self._number))
        return Hits(labels.tolist(), rows)

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        labels = self._labels()
        if where is not None:
            labels = labels[placed(self._wanted(where), labels)[1]]
        for start in range(0, len(labels), SCANNED):
            some, rows = labels[start : start + SCANNED], None
            if vectors:
                some, rows = self._checked(some)
            yield Hits(some.tolist(), rows)

    def _checked(self, labels: Labels) -> tuple[Labels, Vectors]:
        """Labels that are there and their vectors, if these have length one where they must."""
        held, rows = self._held(labels)
        if self._lengths is not None and len(rows):
            low, high = self._lengths
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            wrong = np.isfinite(lengths) & (lengths > 0) & ((lengths < low) | (lengths > high))
            if wrong.any():
                place = int(np.flatnonzero(wrong)[0])
                raise ValueError(
                    f"{self!r} {self._says}, which needs vectors of length one; that of {held[place]} has length "
                    f"{lengths[place]:.3g}: bring them to length one and add them anew, or use an index by distance"
                )
        return held, rows

    def _wanted(self, where: Any) -> Labels:
        return wanted_by(where, self._number, self._most(), self._labels, self)
