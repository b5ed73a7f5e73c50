"""Snapshot: everything a search reads, in one object that never changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.methods import Method
from kinrank.stores import Store


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One state of a Manifold. A change makes a new one; searches under way keep the one they started with.

    Attributes:
        method: the hyper-parameters it was prepared with.
        vectors: (n, d) unit rows.
        ids: (n,) names of the items, text or whole numbers; None where item numbers are the names.
        arrays: what the method keeps of the gallery, by name; this is what is saved.
        facts: single numbers the method keeps, such as powers measured from the data.
        store: searched for the neighbours of a query; None for an exact search over `vectors`.
        prepared: what the method made of `arrays` for its searches.
    """

    method: Method
    vectors: Vectors
    ids: NDArray[Any] | None
    arrays: dict[str, NDArray[Any]]
    facts: dict[str, float]
    store: Store | None = None
    prepared: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def size(self) -> int:
        """Bytes kept, the vectors included."""
        kept = sum(array.nbytes for array in self.arrays.values())
        return kept + self.vectors.nbytes + (0 if self.ids is None else self.ids.nbytes)

    def named(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of item numbers of any shape; padding (-1) stays -1, or an empty text."""
        if self.ids is None:
            return numbers
        names = self.ids[np.maximum(numbers, 0)] if len(self.ids) else np.empty(numbers.shape, self.ids.dtype)
        names[numbers < 0] = -1 if self.ids.dtype.kind == "i" else ""
        return names

    def number_of(self, item: Any) -> int:
        """The item number behind an id, or a ValueError."""
        if self.ids is None:
            if isinstance(item, (int, np.integer)) and not isinstance(item, bool) and 0 <= item < len(self):
                return int(item)
            raise ValueError(f"item={item!r} does not exist; give an item number from 0 to {len(self) - 1}")
        same = isinstance(item, str) if self.ids.dtype.kind == "U" else isinstance(item, (int, np.integer))
        at = np.flatnonzero(self.ids == item) if same else np.empty(0, np.int64)
        if not at.size:
            raise ValueError(f"item={item!r} is not among the ids of this manifold, such as {self.ids[:1].tolist()}")
        return int(at[0])


def check_ids(ids: Any, count: int) -> NDArray[Any] | None:
    """(n,) names as text or int64: one per item, no two alike; None stays None."""
    if ids is None:
        return None
    names = np.asarray(ids)
    if names.dtype.kind == "O" and all(isinstance(name, str) for name in names.ravel()):
        names = names.astype(str)
    if names.size == 0 and names.ndim == 1:
        names = names.astype(np.int64)
    if names.ndim != 1 or names.dtype.kind not in "Uiu":
        raise ValueError(
            f"ids must be a list of texts or of whole numbers; got shape {names.shape} and dtype {names.dtype}"
        )
    if len(names) != count:
        raise ValueError(f"ids has {len(names)} names but there are {count} items; give one for each")
    unique, first = np.unique(names, return_index=True)
    if len(unique) < count:
        again = sorted(set(range(count)) - set(first.tolist()))[0]
        raise ValueError(f"ids must differ; {names[again].item()!r} stands there twice, the second time at {again}")
    return names.astype(np.int64) if names.dtype.kind in "iu" else names
