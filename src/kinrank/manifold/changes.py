"""A Snapshot, items to add or to remove -> the next Snapshot; or the same items built anew."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, check, unit
from kinrank.manifold.gallery import gallery_over
from kinrank.manifold.names import Names
from kinrank.manifold.snapshot import Snapshot
from kinrank.progress import Progress
from kinrank.stages.turnover import Turnover
from kinrank.stores import Store
from kinrank.stores.changed import ChangedStore


def added(snapshot: Snapshot, vectors: ArrayLike, ids: ArrayLike | None, tolerance: float | None = None) -> Snapshot:
    """The snapshot with more items behind those it has."""
    rows = unit(check(vectors, "vectors", snapshot.vectors.shape[1]), "vectors")
    names = snapshot.names.and_more(ids, len(rows))
    if not len(rows):
        return snapshot
    snapshot.method.check_changes(snapshot.kept, "add")
    return _changed(snapshot, np.arange(len(snapshot)), rows, names, tolerance)


def removed(snapshot: Snapshot, ids: Any, tolerance: float | None = None) -> Snapshot:
    """The snapshot without some items; an empty one, if all are named."""
    gone = snapshot.names.numbers_of(ids)
    if not len(gone):
        return snapshot
    snapshot.method.check_changes(snapshot.kept, "remove")
    stay = np.setdiff1d(np.arange(len(snapshot)), gone)
    return _changed(snapshot, stay, snapshot.vectors[:0], snapshot.names.without(stay), tolerance)


def refreshed(snapshot: Snapshot, progress: Progress) -> Snapshot:
    """The same items built anew: everything measured again, nothing approximated."""
    method, vectors, store = snapshot.method, snapshot.vectors, snapshot.store
    if isinstance(store, ChangedStore):
        store = store.renewed(vectors)
    kept = method.keep(gallery_over(vectors, store, progress), progress, _can_change(snapshot))
    return Snapshot.of(method, vectors, snapshot.names, kept, store)


def _changed(
    snapshot: Snapshot, stay: NDArray[np.int64], rows: Vectors, names: Names, tolerance: float | None
) -> Snapshot:
    """The items `stay`, then new rows."""
    turnover = Turnover(len(snapshot), stay, len(rows))
    vectors = turnover.of(snapshot.vectors)
    vectors = np.concatenate([vectors, rows]) if len(rows) else vectors
    store = _store_after(snapshot, stay, rows)
    kept = snapshot.method.change(snapshot.kept, gallery_over(vectors, store), turnover, tolerance)
    return Snapshot.of(snapshot.method, vectors, names, kept, store)


def _store_after(snapshot: Snapshot, stay: NDArray[np.int64], rows: Vectors) -> Store | None:
    """The store, if there is one, over the items that stay and the new rows."""
    if snapshot.store is None:
        return None
    before = snapshot.store
    if not isinstance(before, ChangedStore):
        before = ChangedStore(before, len(snapshot))
    return before.after(stay, rows)


def _can_change(snapshot: Snapshot) -> bool:
    """Whether the method kept what changes need."""
    try:
        snapshot.method.check_changes(snapshot.kept, "change")
    except ValueError:
        return False
    return True
