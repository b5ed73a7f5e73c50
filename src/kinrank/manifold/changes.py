"""A Snapshot, items to add or to remove, queries to remember -> the next Snapshot; or the same items built anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, scale_of
from kinrank.given import check_new_names
from kinrank.manifold.gallery import gallery_over, local_index
from kinrank.manifold.names import Names, check_new_ids
from kinrank.manifold.remembered import distances_of_tenth, no_copies
from kinrank.manifold.snapshot import Snapshot
from kinrank.progress import Progress
from kinrank.space import Space
from kinrank.stages.turnover import Turnover
from kinrank.stores import Store
from kinrank.stores.changed import ChangedStore
from kinrank.stores.engine import SCANNED, EngineStore
from kinrank.stores.ids import names_of
from kinrank.stores.keyed import Keyed
from kinrank.stores.renumbered import Renumbered
from kinrank.stores.scaled import ScaledStore
from kinrank.stores.words import in_words

SAME = 2e-6  # the most by which an entry of a row may differ, from rounding, that is read twice


def added(snapshot: Snapshot, vectors: ArrayLike, ids: ArrayLike | None, tolerance: float | None = None) -> Snapshot:
    """The snapshot with more items behind those it has."""
    rows = snapshot.space.rows(vectors, "vectors", snapshot.vectors.shape[1])
    names = snapshot.names.and_more(ids, len(rows))
    if not len(rows):
        return snapshot
    if names.ids is not None:
        check_new_names(names.ids[-len(rows) :])
    snapshot.method.check_changes(snapshot.kept, "add items")
    return _changed(snapshot, _everyone(snapshot), rows, names, tolerance)


def removed(snapshot: Snapshot, ids: Any, tolerance: float | None = None) -> Snapshot:
    """The snapshot without some items; an empty one, if all are named."""
    gone = snapshot.names.numbers_of(ids)
    if not len(gone):
        return snapshot
    snapshot.method.check_changes(snapshot.kept, "remove items")
    names = snapshot.names.without(np.setdiff1d(np.arange(len(snapshot)), gone))
    return swapped(snapshot, gone, snapshot.vectors[:0], names, tolerance)


def upserted(snapshot: Snapshot, vectors: ArrayLike, ids: ArrayLike) -> Snapshot:
    """The snapshot with these items in place of those of the same names, and behind the others: one change."""
    rows = snapshot.space.rows(vectors, "vectors", snapshot.vectors.shape[1])
    before = snapshot.names
    if len(snapshot) and before.kind != "given":
        raise ValueError(
            "this manifold names items by their numbers, and has no ids to replace items by; build it with ids=, or "
            "use remove and add"
        )
    places = {name: place for place, name in enumerate(before.all.tolist())}
    given = check_new_ids(ids, len(rows), places)
    if given is None:
        raise ValueError(f"ids= is missing; give the name of each of the {len(rows)} rows, new or there already")
    there = [places[name] for name in given.tolist() if name in places]
    names = before.swapped(there, given, len(rows))
    if not len(rows):
        return snapshot
    snapshot.method.check_changes(snapshot.kept, "upsert items")
    return swapped(snapshot, there, rows, names)


def swapped(
    snapshot: Snapshot,
    leaving: NDArray[np.int64] | list[int],
    rows: Vectors,
    names: Names,
    tolerance: float | None = None,
) -> Snapshot:
    """The snapshot without the items at the places `leaving`, and with rows behind the others: one change.

    Places count items only; remembered queries stay. `names` are those of all items afterwards, see `Names.swapped`.
    """
    stay = np.setdiff1d(_everyone(snapshot), snapshot.remembered.items[leaving])
    return _changed(snapshot, stay, rows, names, tolerance)


class Synced(NamedTuple):
    """How many items came, how many left, and how many have another vector now."""

    added: int
    removed: int
    changed: int


def synced(snapshot: Snapshot, progress: Progress) -> tuple[Snapshot, Synced]:
    """The snapshot with the items that its vector database holds now, and what that changed."""
    engine = snapshot.engine
    if engine is None:
        raise ValueError(
            "this manifold is not searched through a vector database, so there is nothing to bring it up to date with; "
            "build it from such a store, or load it with store="
        )
    current = _differences(snapshot, engine, progress)
    gone = np.flatnonzero(~current.seen)
    if not len(current.ids) and not len(gone):
        return snapshot, Synced(0, 0, 0)
    snapshot.method.check_changes(snapshot.kept, "bring items up to date")
    leaving = np.concatenate([gone, current.replaced])
    names = snapshot.names.swapped(leaving, current.ids, len(current.ids))
    beside = replace(snapshot, store=None)  # all rows are here: what changed is searched here, exactly
    after = swapped(beside, leaving, current.rows, names).over(engine)
    counts = Synced(len(current.ids) - len(current.replaced), len(gone), len(current.replaced))
    return after, counts


class _Differences(NamedTuple):
    """What a database holds, against a snapshot: which items are still there, and who is new or has another vector."""

    seen: NDArray[np.bool_]
    replaced: NDArray[np.int64]
    ids: NDArray[Any]
    rows: Vectors


def _differences(snapshot: Snapshot, engine: EngineStore, progress: Progress) -> _Differences:
    seen = np.zeros(len(snapshot), np.bool_)
    replaced, ids, rows = [], [], [snapshot.vectors[:0]]
    places_of_items = snapshot.remembered.items
    for names, vectors in progress.each("rows", engine.blocks(), len(snapshot) // SCANNED + 1):
        given = snapshot.space.rows(vectors, "vectors of the store", snapshot.vectors.shape[1])
        places = snapshot.names.places_there(names)
        known = np.flatnonzero(places >= 0)
        seen[places[known]] = True
        mine = snapshot.vectors[places_of_items[places[known]]]
        other = np.abs(mine - given[known]).max(axis=1, initial=0.0) > SAME
        fresh = np.concatenate([known[other], np.flatnonzero(places < 0)])
        replaced.append(places[known[other]])
        ids += names[fresh].tolist()
        rows.append(given[fresh])
    texts = snapshot.names.all.dtype.kind == "O" and len(snapshot)
    names = names_of([str(name) for name in ids] if texts else ids)
    return _Differences(seen, np.concatenate(replaced or [np.empty(0, np.int64)]), names, np.concatenate(rows))


def check_observes(snapshot: Snapshot) -> None:
    """A ValueError if queries cannot be remembered here."""
    snapshot.method.check_observed()
    snapshot.method.check_changes(snapshot.kept, "observe queries")


def observed(snapshot: Snapshot, queries: ArrayLike, tolerance: float | None = None) -> Snapshot:
    """The snapshot with queries remembered, near-copies left out; the oldest leave where there are too many."""
    check_observes(snapshot)
    rows = snapshot.space.rows(queries, "queries", snapshot.vectors.shape[1])
    remembered = snapshot.remembered
    lengths = distances_of_tenth(rows, snapshot.gallery.search, remembered)
    rows = rows[no_copies(rows, snapshot.vectors[remembered.queries], lengths, snapshot.space.unit)]
    rows = rows[max(0, len(rows) - remembered.most(len(snapshot))) :]
    if not len(rows):
        return snapshot
    return _changed(snapshot, _everyone(snapshot), rows, snapshot.names, tolerance, asked=True)


def forgotten(snapshot: Snapshot, which: NDArray[np.int64] | None = None) -> Snapshot:
    """The snapshot without remembered queries, or without those of these numbers, the oldest 0."""
    gone = snapshot.remembered.queries if which is None else snapshot.remembered.queries[which]
    if not len(gone):
        return snapshot
    stay = np.setdiff1d(_everyone(snapshot), gone)
    return _changed(snapshot, stay, snapshot.vectors[:0], snapshot.names, None)


def refreshed(snapshot: Snapshot, progress: Progress) -> Snapshot:
    """The same items built anew: everything measured again, nothing approximated."""
    method, vectors, store = snapshot.method, snapshot.vectors, snapshot.store
    if isinstance(store, ChangedStore | Renumbered):
        store = store.renewed(vectors) or store
    vectors, store, space = _rescaled(snapshot, store)
    index = local_index(vectors, store, space.unit)
    kept = method.keep(gallery_over(vectors, index, progress, space.unit), progress, _can_change(snapshot))
    fresh = Snapshot.of(
        method, vectors, snapshot.names, kept, store,
        built_over=in_words(store), remembered=snapshot.remembered, space=space,
    )  # fmt: skip
    return fresh.over(store.engine) if isinstance(store, Keyed) else fresh  # it holds vectors, and their scale


def _rescaled(snapshot: Snapshot, store: Store | None) -> tuple[Vectors, Store | None, Space]:
    """Vectors, store and space in units of the present items' scale; as they are beside a store that stays changed."""
    vectors, space = snapshot.vectors, snapshot.space
    if space.scale is None or isinstance(store, ChangedStore | Renumbered):
        return vectors, store, space
    change = scale_of(snapshot.item_vectors)
    scale = space.scale * change
    base = ScaledStore(store.base, scale) if isinstance(store, ScaledStore) else store
    return vectors / np.float32(change), base, replace(space, scale=scale)


def _everyone(snapshot: Snapshot) -> NDArray[np.int64]:
    """The places of items and remembered queries."""
    return np.arange(len(snapshot.gallery))


def _changed(
    snapshot: Snapshot,
    stay: NDArray[np.int64],
    rows: Vectors,
    names: Names,
    tolerance: float | None,
    asked: bool = False,
) -> Snapshot:
    """What stands at the places `stay`, then new rows: items, or queries to remember (`asked`).

    The oldest remembered queries leave where they are more than the items that are left allow.
    """
    stay = snapshot.remembered.oldest_out(stay, len(rows) if asked else 0, names.count)
    remembered = snapshot.remembered.after(stay, len(rows), asked)
    turnover = Turnover(len(snapshot.gallery), stay, len(rows))
    vectors = turnover.of(snapshot.vectors)
    vectors = np.concatenate([vectors, rows]) if len(rows) else vectors
    store = _store_after(snapshot, stay, rows)
    gallery = gallery_over(vectors, store, unit=snapshot.space.unit)
    kept = snapshot.method.change(snapshot.kept, gallery, turnover, tolerance)
    if names is snapshot.names and "changed" in kept.facts:  # only queries came or went: the items are the same
        kept = replace(kept, facts=kept.facts | {"changed": snapshot.kept.facts.get("changed", 0.0)})
    return Snapshot.of(
        snapshot.method, vectors, names, kept, store,
        built_over=snapshot.built_over, turnover=turnover, remembered=remembered, space=snapshot.space,
    )  # fmt: skip


def _store_after(snapshot: Snapshot, stay: NDArray[np.int64], rows: Vectors) -> Store | None:
    """The store, if there is one, over the items that stay and the new rows."""
    if snapshot.store is None:
        return None
    before = snapshot.store
    if not isinstance(before, ChangedStore):
        before = ChangedStore(before, len(snapshot.gallery))
    return before.after(stay, rows)


def _can_change(snapshot: Snapshot) -> bool:
    """Whether the method kept what changes need."""
    try:
        snapshot.method.check_changes(snapshot.kept, "change items")
    except ValueError:
        return False
    return True
