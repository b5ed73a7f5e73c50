"""Snapshot: everything a search reads, in one object that never changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.manifold.gallery import gallery_over
from kinrank.manifold.names import Names
from kinrank.methods import Method
from kinrank.methods.served import Answer, Gallery, Kept
from kinrank.space import Space
from kinrank.stages.turnover import Turnover
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
        built_over: the store that found the neighbours when it was built, in words, where it may miss some; also of a
            manifold that was loaded without it. None where they were found exactly.
        turnover: who left and who came since the snapshot this one was made from; None where it was built or loaded.
        opened: what the method made of `kept` for its searches.
        space: how vectors that are given become rows like those of the gallery.
    """

    method: Method
    gallery: Gallery
    names: Names
    kept: Kept
    store: Store | None = None
    built_over: str | None = None
    turnover: Turnover | None = field(default=None, repr=False)
    opened: Any = field(default=None, repr=False)
    space: Space = field(default_factory=Space)

    @classmethod
    def of(
        cls,
        method: Method,
        vectors: Vectors,
        names: Names,
        kept: Kept,
        store: Store | None = None,
        checked: bool = True,
        built_over: str | None = None,
        turnover: Turnover | None = None,
        space: Space = Space(),  # noqa: B008 - frozen
    ) -> Snapshot:
        """A snapshot ready to be searched; `checked`: what was kept was made a moment ago, and is no foreign file."""
        if not checked:
            check = stages.checks.check_unit if space.unit else stages.checks.check_finite
            check("vectors", vectors)
        opened = method.opened(vectors, kept, checked=checked)
        return cls(
            method,
            gallery_over(vectors, store, unit=space.unit),
            names,
            kept,
            store,
            built_over,
            turnover,
            opened,
            space,
        )

    def __len__(self) -> int:
        return len(self.gallery)

    @property
    def vectors(self) -> Vectors:
        """(n, d) rows, as `space` makes them."""
        return self.gallery.vectors

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that is saved but for single numbers: the vectors, what the method keeps, the ids if there are."""
        return {"vectors": self.vectors, **self.kept.arrays, **self.names.arrays}

    @property
    def facts(self) -> dict[str, float]:
        """Single numbers that are saved: of the method, such as powers measured from the data, of names and space."""
        return self.kept.facts | self.names.facts | self.space.facts

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
