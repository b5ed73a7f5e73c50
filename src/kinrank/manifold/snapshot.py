"""Snapshot: everything a search reads, in one object that never changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinrank.features import Vectors
from kinrank.manifold.gallery import gallery_over
from kinrank.manifold.names import Names
from kinrank.methods import Method
from kinrank.methods.served import Answer, Gallery, Kept
from kinrank.stores import Store


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One state of a Manifold. A change makes a new one; searches under way keep the one they started with.

    Attributes:
        method: the hyper-parameters it was prepared with.
        gallery: its vectors, and how their neighbours and those of queries are found.
        names: the names of the items.
        kept: what the method keeps of the gallery; this is what is saved.
        store: searched for neighbours; None for an exact search over the vectors.
        opened: what the method made of `kept` for its searches.
    """

    method: Method
    gallery: Gallery
    names: Names
    kept: Kept
    store: Store | None = None
    opened: Any = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        method: Method,
        vectors: Vectors,
        names: Names,
        kept: Kept,
        store: Store | None = None,
        checked: bool = True,
    ) -> Snapshot:
        """A snapshot ready to be searched; `checked`: what was kept was made a moment ago, and is no foreign file."""
        opened = method.opened(vectors, kept, checked=checked)
        return cls(method, gallery_over(vectors, store), names, kept, store, opened)

    def __len__(self) -> int:
        return len(self.gallery)

    @property
    def vectors(self) -> Vectors:
        """(n, d) unit rows."""
        return self.gallery.vectors

    @property
    def facts(self) -> dict[str, float]:
        """Single numbers that are saved: of the method, such as powers measured from the data, and of the names."""
        return self.kept.facts | self.names.facts

    @property
    def stale(self) -> float:
        """How far changes have moved it from a rebuild, from 0 to 1."""
        return self.method.stale(self.kept, len(self))

    @property
    def size(self) -> int:
        """Bytes kept, the vectors included."""
        kept = sum(array.nbytes for array in self.kept.arrays.values())
        return kept + self.vectors.nbytes + self.names.size

    def search(self, queries: Vectors, k: int, depth: int, budget: int | None) -> Answer:
        """The answer to checked queries (q, d), at most as deep as the gallery."""
        depth = min(depth, len(self))
        if not len(queries) or not depth:
            shape = len(queries), depth
            return Answer(np.empty(shape, np.int64), np.empty(shape, np.float32))
        found = self.gallery.search(queries, self.method.reach(depth))
        return self.method.answer(self.gallery, self.opened, queries, found, k, depth, budget)
