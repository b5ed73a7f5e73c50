"""A filter and marked items, as users give them -> who may be a result, and who is marked for each query."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import given
from kinrank.stages.marks import Marks
from kinrank.stages.masks import Mask
from kinrank.stores.engine import EngineStore
from kinrank.stores.ids import names_of
from kinrank.stores.numbers import allowed_by, numbers_meant


class Wanted(NamedTuple):
    """A filter and marked items, as users give them."""

    where: Any
    positives: Any
    negatives: Any

    @property
    def nothing(self) -> bool:
        return all(part is None for part in self)

    def checked(self, items: int, queries: int) -> tuple[Mask | None, list[Marks] | None]:
        """(items,) who may be a result, and for every query who is marked; None where nothing was given."""
        allowed = None if self.where is None else allowed_by(self.where, items)
        places = partial(numbers_meant, items)
        return allowed, _marks(given.marks(self.positives, self.negatives, queries, places, lambda: items))

    def by_ids(self, engine: EngineStore, queries: int) -> tuple[Any, list[Marks] | None]:
        """The filter as it is, and for every query who is marked, by the ids of an engine."""

        def ids(entries: Any, parameter: str) -> NDArray[Any]:
            return names_of(given.listed(entries, parameter))

        return self.where, _marks(given.marks(self.positives, self.negatives, queries, ids, engine.__len__))

    def among(self, ids: NDArray[Any], engine: EngineStore, queries: int) -> tuple[Mask | None, list[Marks] | None]:
        """The same as `checked` for the items `ids` of an engine, which knows its filters."""
        places = {name: place for place, name in enumerate(ids.tolist())}

        def meant(entries: Any, parameter: str) -> NDArray[np.int64]:
            names = names_of(given.listed(entries, parameter)).tolist()
            unknown = [name for name in names if name not in places]
            if unknown:
                raise ValueError(f"{parameter} names {unknown[0]!r}, which {engine!r} does not hold")
            return np.array([places[name] for name in names], np.int64)

        allowed = None if self.where is None else np.isin(ids, engine.ids_where(self.where))
        return allowed, _marks(given.marks(self.positives, self.negatives, queries, meant, ids.__len__))


def _marks(found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] | None) -> list[Marks] | None:
    return None if found is None else [Marks(*one) for one in found]
