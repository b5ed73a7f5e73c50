"""Snapshot: everything a search reads, in one object that never changes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.manifold.gallery import gallery_over
from kinrank.manifold.names import Names
from kinrank.manifold.remembered import Remembered, items_found
from kinrank.methods import Method
from kinrank.methods.served import Answer, Gallery, Kept, filled_up
from kinrank.neighbors import Neighbors
from kinrank.space import Space
from kinrank.stages.marks import Marks
from kinrank.stages.masks import EVERYONE, Mask, Masks
from kinrank.stages.turnover import Turnover
from kinrank.stores import Store
from kinrank.stores.changed import ChangedStore
from kinrank.stores.engine import EngineStore
from kinrank.stores.keyed import Keyed
from kinrank.stores.renumbered import Renumbered
from kinrank.stores.scaled import check_metrics, in_space


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One state of a Manifold. A change makes a new one; searches under way keep the one they started with.

    Attributes:
        method: the hyper-parameters it was prepared with.
        gallery: vectors of items and remembered queries, and how their neighbours and those of queries are found.
        names: the names of the items.
        remembered: which rows of the gallery are remembered queries, and no items.
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
    remembered: Remembered
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
        remembered: Remembered | None = None,
        space: Space = Space(),  # noqa: B008 - frozen
    ) -> Snapshot:
        """A snapshot ready to be searched; `checked`: what was kept was made a moment ago, and is no foreign file."""
        if not checked:
            check = stages.checks.check_unit if space.unit else stages.checks.check_finite
            check("vectors", vectors)
        opened = method.opened(vectors, kept, checked=checked)
        marks = Remembered.none(len(vectors)) if remembered is None else remembered
        gallery = gallery_over(vectors, store, unit=space.unit)
        return cls(method, gallery, names, marks, kept, store, built_over, turnover, opened, space)

    def over(self, store: Store) -> Snapshot:
        """The same, searched by a store that holds the items; remembered queries are searched exactly beside it."""
        marks, beside = self.remembered, self._in_space(store)
        if marks.count:
            every = np.concatenate([marks.items, marks.queries])
            beside = ChangedStore(beside, len(self)).after(np.arange(len(self)), self.vectors[marks.queries])
            beside = Renumbered(beside, every)
        return replace(self, gallery=gallery_over(self.vectors, beside, unit=self.space.unit), store=beside)

    def _in_space(self, store: Store) -> Store | None:
        """The store as this snapshot searches it; a vector database by the ids of the items."""
        if not isinstance(store, EngineStore):
            return in_space(store, self.space)
        check_metrics(store, self.space)
        return Keyed(store, self.names.all, self.item_vectors, self.space.scale)

    @property
    def engine(self) -> EngineStore | None:
        """The vector database that is searched; None where there is none."""
        return getattr(self.store, "engine", None)

    def __len__(self) -> int:
        """How many items there are; remembered queries do not count."""
        return self.names.count

    @property
    def vectors(self) -> Vectors:
        """(n, d) rows of items and of remembered queries, as `space` makes them."""
        return self.gallery.vectors

    @property
    def item_vectors(self) -> Vectors:
        """The rows of the items only."""
        return self.vectors[self.remembered.items] if self.remembered.count else self.vectors

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that is saved but for single numbers: the vectors, what the method keeps, the ids if there are."""
        return {"vectors": self.vectors, **self.kept.arrays, **self.names.arrays, **self.remembered.arrays}

    @property
    def facts(self) -> dict[str, float]:
        """Single numbers that are saved: of the method, as powers measured from the data, of names, limits, space."""
        return self.kept.facts | self.names.facts | self.remembered.facts | self.space.facts

    @property
    def stale(self) -> float:
        """How far changes have moved it from a rebuild, from 0 to 1."""
        return self.method.stale(self.kept, len(self.gallery))

    @property
    def size(self) -> int:
        """Bytes kept, the vectors included."""
        kept = sum(array.nbytes for array in self.kept.arrays.values())
        return kept + self.vectors.nbytes + self.names.size

    def masks(self, allowed: Mask | None = None) -> Masks:
        """Who may be a result: the items, or those of them that are `allowed`, a mask in the order of the items."""
        if allowed is None:
            return self._items
        if not self.remembered.count:
            return Masks.of(allowed)
        return Masks.of(self.remembered.over_places(allowed), ~self.remembered.mask)

    @cached_property
    def _items(self) -> Masks:
        """All items, and no remembered query."""
        return Masks.of(counted=~self.remembered.mask) if self.remembered.count else EVERYONE

    def found(self, queries: Vectors, depth: int) -> Neighbors:
        """What stands nearest to queries (q, d): as many items as the method needs, and remembered queries between."""
        return items_found(queries, self.gallery.search, self.method.reach(depth), self.remembered)

    def search(self, queries: Vectors, k: int, depth: int, budget: int | None, masks: Masks = EVERYONE) -> Answer:
        """The answer to checked queries (q, d), by item numbers, at most as deep as there are items to return.

        `masks` says which these are, as `self.masks` makes it; all items, unless given.
        """
        masks = self.masks() if masks is EVERYONE else masks
        depth = masks.at_most(min(depth, len(self)))
        if not len(queries) or not depth:
            shape = len(queries), depth
            return Answer(np.empty(shape, np.int64), np.empty(shape, np.float32))
        found = self.found(queries, depth)
        if masks is EVERYONE:
            return self.method.answer(self.gallery, self.opened, queries, found, k, depth, budget)
        if "masks" not in inspect.signature(self.method.answer).parameters:
            raise ValueError(f"{type(self.method).__name__} cannot leave out items: its `answer` takes no masks")
        answer = self.method.answer(self.gallery, self.opened, queries, found, k, depth, budget, masks)
        answer = filled_up(answer, self.gallery, queries, masks.results)
        return replace(answer, indices=self.remembered.numbers(answer.indices))

    def search_marked(
        self, queries: Vectors, marks: list[Marks], k: int, depth: int, budget: int | None, masks: Masks = EVERYONE
    ) -> Answer:
        """The same where items are marked for every query, by item numbers: they are no results of that query."""
        masks, places = self.masks() if masks is EVERYONE else masks, self.remembered.items
        width = masks.at_most(min(depth, len(self)))
        indices = np.full((len(queries), width), -1, np.int64)
        distances = np.full(indices.shape, np.inf, np.float32)
        certain = np.ones(len(queries), np.bool_)
        if not len(queries) or not width:
            return Answer(indices, distances)
        found = self.found(queries, width + max(len(one.all) for one in marks))
        facts: dict[int, dict[str, Any]] = {}

        def answer(start: int, stop: int) -> None:
            for row in range(start, stop):
                marked = Marks(places[marks[row].positives], places[marks[row].negatives])
                query, mine = queries[row : row + 1], masks.without(marked.all, len(self.gallery))
                near = Neighbors(found.indices[row : row + 1], found.distances[row : row + 1])
                most = mine.at_most(width)
                one = self.method.answer_marked(
                    self.gallery, self.opened, query, near, marked, k, most, budget, mine
                )  # fmt: skip
                one = filled_up(one, self.gallery, query, mine.results)
                indices[row, :most] = self.remembered.numbers(one.indices[0])
                distances[row, :most] = one.distances[0]
                certain[row] = one.certain is None or one.certain[0]
                facts[row] = one.facts

        compiled = stages.kernels.compiled
        compiled.over_threads(answer, compiled.chunks(len(queries), 1))
        settled = float(np.median([one["settled"] for one in facts.values()]))
        shared = facts[0] | {"certain": float(certain.mean()), "settled": settled}
        return Answer(indices, distances, shared, certain)
