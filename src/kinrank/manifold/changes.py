"""A Snapshot, items to add or to remove -> the next Snapshot; or the same items built anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, scale_of
from kinrank.manifold.gallery import gallery_over
from kinrank.manifold.names import Names, check_ids
from kinrank.manifold.snapshot import Snapshot
from kinrank.progress import Progress
from kinrank.space import Space
from kinrank.stages.turnover import Turnover
from kinrank.stores import Store
from kinrank.stores.changed import ChangedStore
from kinrank.stores.scaled import ScaledStore
from kinrank.stores.words import in_words


def added(snapshot: Snapshot, vectors: ArrayLike, ids: ArrayLike | None, tolerance: float | None = None) -> Snapshot:
    """The snapshot with more items behind those it has."""
    rows = snapshot.space.rows(vectors, "vectors", snapshot.vectors.shape[1])
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


def upserted(snapshot: Snapshot, vectors: ArrayLike, ids: ArrayLike) -> Snapshot:
    """The snapshot with these items in place of those of the same names, and behind the others: one change."""
    rows = snapshot.space.rows(vectors, "vectors", snapshot.vectors.shape[1])
    before = snapshot.names
    if len(snapshot) and before.kind != "given":
        raise ValueError(
            "this manifold names items by their numbers, and has no ids to replace items by; build it with ids=, or "
            "use remove and add"
        )
    given = check_ids(ids, len(rows))
    if given is None:
        raise ValueError(f"ids= is missing; give the name of each of the {len(rows)} rows, new or there already")
    places = {name: place for place, name in enumerate(before.all.tolist())}
    there = [places[name] for name in given.tolist() if name in places]
    stay = np.setdiff1d(np.arange(len(snapshot)), there)
    names = (before.without(stay) if there else before).and_more(given, len(rows))
    if not len(rows):
        return snapshot
    snapshot.method.check_changes(snapshot.kept, "upsert")
    return _changed(snapshot, stay, rows, names, None)


def refreshed(snapshot: Snapshot, progress: Progress) -> Snapshot:
    """The same items built anew: everything measured again, nothing approximated."""
    method, vectors, store = snapshot.method, snapshot.vectors, snapshot.store
    if isinstance(store, ChangedStore):
        store = store.renewed(vectors)
    vectors, store, space = _rescaled(vectors, store, snapshot.space)
    kept = method.keep(gallery_over(vectors, store, progress, space.unit), progress, _can_change(snapshot))
    return Snapshot.of(method, vectors, snapshot.names, kept, store, built_over=in_words(store), space=space)


def _rescaled(vectors: Vectors, store: Store | None, space: Space) -> tuple[Vectors, Store | None, Space]:
    """The same in units of the present items' scale; as they are where that cannot be, beside a store that stays."""
    if space.scale is None or isinstance(store, ChangedStore):
        return vectors, store, space
    scale = scale_of(vectors)
    space = replace(space, scale=space.scale * scale)
    base = None if store is None else ScaledStore(getattr(store, "base", store), float(space.scale or 1.0))
    return vectors / np.float32(scale), base, space


def _changed(
    snapshot: Snapshot, stay: NDArray[np.int64], rows: Vectors, names: Names, tolerance: float | None
) -> Snapshot:
    """The items `stay`, then new rows."""
    turnover = Turnover(len(snapshot), stay, len(rows))
    vectors = turnover.of(snapshot.vectors)
    vectors = np.concatenate([vectors, rows]) if len(rows) else vectors
    store = _store_after(snapshot, stay, rows)
    kept = snapshot.method.change(
        snapshot.kept, gallery_over(vectors, store, unit=snapshot.space.unit), turnover, tolerance
    )
    over = snapshot.built_over
    return Snapshot.of(
        snapshot.method, vectors, names, kept, store, built_over=over, turnover=turnover, space=snapshot.space
    )


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
