"""A Snapshot, items that leave and items that come -> the next Snapshot: one change, whatever it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.manifold.changes import swapped
from kinrank.manifold.names import Names, check_ids
from kinrank.manifold.snapshot import Snapshot


def exchanged(snapshot: Snapshot, vectors: Any, ids: list[Any] | None, gone: list[Any]) -> Snapshot:
    """The snapshot without the items `gone`, and with these: in place of those of the same names, behind the others.

    Args:
        snapshot: of items with names, or with numbers.
        vectors: (m, d) rows as users give them.
        ids: one name per row, no two alike; None where new items get the next numbers.
        gone: names or numbers of items that leave, also of rows that have just got their number; unknown ones are
            passed over.
    """
    rows = snapshot.space.rows(vectors, "vectors", snapshot.vectors.shape[1])
    before = snapshot.names
    if not len(rows) and not any(place is not None for place in map(before.place_of, gone)):
        return snapshot
    snapshot.method.check_changes(snapshot.kept, "change items")
    if before.kind != "given" and (ids is None or not len(rows)):
        return _numbered(snapshot, rows, gone)
    given = check_ids([] if ids is None else ids, len(rows))
    assert given is not None
    leaving = _places(before, [*gone, *given.tolist()])
    return swapped(snapshot, leaving, rows, before.swapped(leaving, given, len(rows)))


def _numbered(snapshot: Snapshot, rows: Vectors, gone: list[Any]) -> Snapshot:
    """Where items have numbers: every row uses one up, and a row that leaves at once does nothing else."""
    count, names = len(snapshot), snapshot.names.and_more(None, len(rows))
    leaving = _places(names, gone)
    stay = np.setdiff1d(np.arange(count + len(rows)), leaving)
    names = names.without(stay) if len(leaving) else names
    return swapped(snapshot, leaving[leaving < count], rows[stay[stay >= count] - count], names)


def _places(names: Names, wanted: list[Any]) -> NDArray[np.int64]:
    """Places of the names that are there, each once."""
    found = {place for place in map(names.place_of, wanted) if place is not None}
    return np.array(sorted(found), np.int64)
