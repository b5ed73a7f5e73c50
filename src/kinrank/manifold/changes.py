"""Changes of a gallery: a Change turns a Snapshot into the next one."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.ids import Ids, refuse_control_characters
from kinrank.manifold.service_log import Change, ChangeLog, Rule
from kinrank.manifold.snapshot import (
    Snapshot,
    find_new_queries,
    make_gallery,
    make_local_index,
    measure_tenth_distances,
)
from kinrank.progress import Progress
from kinrank.stages.item_change import ItemChange
from kinrank.stores import Store
from kinrank.stores.base import describe_if_approximate, to_id_array
from kinrank.stores.engine import SCAN_ROWS, EngineStore
from kinrank.stores.view import EngineIdStore, StoreView
from kinrank.vector_input import Vectors, compute_rms_length
from kinrank.vector_space import Space

ROUNDING_TOLERANCE = 2e-6  # largest difference between two readings of the same vector entry, from rounding


def merge_changes(changes: Sequence[Change], columns: int, following: int | None) -> Change:
    """Merge changes into one: for every id only its last change counts; items are in the order of their last put.

    Queries are observed after all puts and removals, so that a query never misses items that came before it and a mixed
    batch costs two changes of the gallery, however often the kinds alternate.

    Args:
        changes: in order.
        columns: dimensions of the vectors.
        following: number that the next new item gets; None if items have ids.
    """
    if any(change.rows is not None and change.rows.shape[1] != columns for change in changes):
        raise InputError(f"the vectors of a change do not have {columns} columns, as those of the gallery do")
    none = np.empty((0, columns), np.float32)
    rows = np.concatenate([none, *(change.vectors for change in changes if change.vectors is not None)])
    queries = np.concatenate([none, *(change.queries for change in changes if change.queries is not None)])
    observed = queries if len(queries) else None
    if following is not None:
        return Change(_find_removed_numbers(changes, following), rows, None, observed)
    last: dict[Any, int] = {}  # the last row of an id; -1 if it was removed
    row = 0
    for change in changes:
        for name in change.removed:
            last.pop(name, None)  # move it to the end
            last[name] = -1
        for name in change.ids or []:
            last.pop(name, None)
            last[name] = row
            row += 1
    came = {name: place for name, place in last.items() if place >= 0}
    gone = [name for name, place in last.items() if place < 0]
    return Change(gone, rows[list(came.values())], list(came), observed)


def _find_removed_numbers(changes: Sequence[Change], following: int) -> list[int]:
    """Return the numbers to remove.

    A new item whose number was taken in the meantime gets another number, and is removed by that one.
    """
    gone, taken = [], dict[int, int]()
    for change in changes:
        gone += [taken.get(number, number) for number in change.removed]
        if change.vectors is None:
            continue
        if change.first is None:
            raise InputError("the items of a change have ids, but those of the gallery have numbers")
        if change.first != following:
            taken |= {change.first + place: following + place for place in range(len(change.vectors))}
        following += len(change.vectors)
    return gone


def apply_change(snapshot: Snapshot, change: Change, tolerance: float | None = None) -> Snapshot:
    """Return the snapshot after a change, or the same one if nothing changes.

    `tolerance`: see `Method.change`.
    """
    states = [snapshot]
    for step in (_exchange_items, _forget_queries, _observe_queries):
        states.append(step(states[-1], change, tolerance))
    changed = [after.turnover for before, after in itertools.pairwise(states) if after is not before]
    turnovers = [turnover for turnover in changed if turnover is not None]
    return replace(states[-1], turnover=functools.reduce(ItemChange.then, turnovers)) if turnovers else snapshot


def _exchange_items(snapshot: Snapshot, change: Change, tolerance: float | None) -> Snapshot:
    """Remove items, then put items: replace those with the same ids, unless they must be new, and append the others."""
    before, rule, rows = snapshot.names, change.rule, snapshot.vectors[:0]
    has_rows = change.vectors is not None or rule in (Rule.ADD, Rule.UPSERT)
    if has_rows:
        rows = snapshot.space.rows(change.vectors, "vectors", snapshot.vectors.shape[1])
    count = len(rows)
    if rule is Rule.LOGGED and before.kind != "given" and (change.ids is None or not count):
        # every row uses up a number, even if it is removed at once
        names = before.append(None, count)
        leaving = names.find_existing(change.removed)
        stay = np.setdiff1d(np.arange(names.count), leaving)
        names = names.without(stay) if len(leaving) else names
        leaving, rows = leaving[leaving < before.count], rows[stay[stay >= before.count] - before.count]
    else:
        find = before.find_items_to_remove if rule is Rule.REMOVE else before.find_existing
        leaving, ids = find(change.removed), change.ids
        if rule is Rule.UPSERT:
            ids = before.check_replacements(ids, count)
        if rule is not Rule.ADD and ids is not None:
            leaving = np.union1d(leaving, before.find_existing(ids))
        names = before.without(np.setdiff1d(np.arange(before.count), leaving)) if len(leaving) else before
        names = names.append(ids, count) if has_rows else names
    if not count and not len(leaving):
        return snapshot
    if rule is Rule.ADD and names.stored is not None:
        refuse_control_characters(names.stored[-count:])
    snapshot.require_changes(rule.value)
    stay = np.setdiff1d(_all_places(snapshot), snapshot.remembered.items[leaving])
    return _replace_rows(snapshot, stay, rows, names, tolerance)


class SyncCounts(NamedTuple):
    """Numbers of items that were added, removed, and changed because their vector differs."""

    added: int
    removed: int
    changed: int


def sync_with_database(snapshot: Snapshot, progress: Progress) -> tuple[Snapshot, SyncCounts]:
    """Update the items to the current content of the vector database; also return the numbers of changes."""
    engine = snapshot.engine
    if engine is None:
        raise InputError(
            "this manifold does not search a vector database, so there is nothing to synchronise with",
            remedy="build it from such a store, or load it with `store`",
        )
    change, replaced = _compare_with_database(snapshot, engine, progress)
    if not len(change.ids) and not len(change.removed):
        return snapshot, SyncCounts(0, 0, 0)
    local = replace(snapshot, store=None)  # all rows are in memory, so the changed ones are searched exactly
    after = apply_change(local, change).over(engine)
    return after, SyncCounts(len(change.ids) - replaced, len(change.removed), replaced)


def _compare_with_database(snapshot: Snapshot, engine: EngineStore, progress: Progress) -> tuple[Change, int]:
    """Return the change that makes the items equal to those of the database, and how many existing ones it replaces."""
    seen = np.zeros(len(snapshot), np.bool_)
    replaced, ids, rows = 0, list[Any](), [np.empty((0, snapshot.vectors.shape[1]), np.float32)]
    places_of_items = snapshot.remembered.items
    for names, vectors in progress.each("rows", engine.blocks(), len(snapshot) // SCAN_ROWS + 1):
        given = snapshot.space.rows(vectors, "vectors of the store", snapshot.vectors.shape[1])
        places = snapshot.names.find_known_places(names)
        known = np.flatnonzero(places >= 0)
        seen[places[known]] = True
        current = snapshot.vectors[places_of_items[places[known]]]
        differs = np.abs(current - given[known]).max(axis=1, initial=0.0) > ROUNDING_TOLERANCE
        fresh = np.concatenate([known[differs], np.flatnonzero(places < 0)])
        replaced += int(differs.sum())
        ids += names[fresh].tolist()
        rows.append(vectors[fresh])
    texts = snapshot.names.all.dtype.kind == "O" and len(snapshot)
    fresh_ids = to_id_array([str(name) for name in ids] if texts else ids)
    gone = snapshot.names.all[~seen].tolist()
    return Change(gone, np.concatenate(rows), fresh_ids, rule=Rule.SYNC), replaced


def check_can_observe(snapshot: Snapshot) -> None:
    """Raise an InputError if the method or the snapshot does not support observed queries."""
    snapshot.method.require("observe")
    snapshot.require_changes("observe queries")


def _observe_queries(snapshot: Snapshot, change: Change, tolerance: float | None) -> Snapshot:
    """Append queries to the graph, without near-copies; drop the oldest if there are too many."""
    if change.queries is None and change.rule is not Rule.OBSERVE:
        return snapshot
    check_can_observe(snapshot)
    rows = snapshot.space.rows(change.queries, "queries", snapshot.vectors.shape[1])
    remembered = snapshot.remembered
    lengths = measure_tenth_distances(rows, snapshot.gallery.search, remembered)
    rows = rows[find_new_queries(rows, snapshot.vectors[remembered.queries], lengths, snapshot.space.unit)]
    rows = rows[max(0, len(rows) - remembered.most(len(snapshot))) :]
    if not len(rows):
        return snapshot
    return _replace_rows(snapshot, _all_places(snapshot), rows, snapshot.names, tolerance, are_queries=True)


def _forget_queries(snapshot: Snapshot, change: Change, tolerance: float | None) -> Snapshot:
    """Remove observed queries."""
    leaving = () if change.forgotten is None else snapshot.remembered.queries[change.forgotten]
    if not len(leaving):
        return snapshot
    stay = np.setdiff1d(_all_places(snapshot), leaving)
    return _replace_rows(snapshot, stay, snapshot.vectors[:0], snapshot.names, tolerance)


def rebuild_snapshot(snapshot: Snapshot, progress: Progress) -> Snapshot:
    """Build the same items again: everything is measured again, nothing is approximated."""
    method, vectors, store = snapshot.method, snapshot.vectors, snapshot.store
    if isinstance(store, StoreView) and store.changed:
        rebuilt = store.rebuild(vectors)
        store = store if rebuilt is None else rebuilt
    vectors, store, space = _rescale_vectors(snapshot, store)
    index = make_local_index(vectors, store, space.unit)
    state = method.prepare_gallery(make_gallery(vectors, index, progress, space.unit), progress, snapshot.can_change)
    gallery, over = make_gallery(vectors, store, unit=space.unit), describe_if_approximate(store)
    fresh = replace(snapshot, gallery=gallery, state=state, store=store, built_over=over, turnover=None, space=space)
    # an EngineIdStore contains vectors in the old scale
    return fresh.over(store.engine) if isinstance(store, EngineIdStore) else fresh


def _rescale_vectors(snapshot: Snapshot, store: Store | None) -> tuple[Vectors, Store | None, Space]:
    """Return vectors, store and space in units of the current scale; unchanged if the store keeps its overlay."""
    vectors, space = snapshot.vectors, snapshot.space
    if space.scale is None or (isinstance(store, StoreView) and store.changed):
        return vectors, store, space
    change = compute_rms_length(snapshot.item_vectors)
    scale = space.scale * change
    base = StoreView(store.base, scale=scale) if isinstance(store, StoreView) else store
    return vectors / np.float32(change), base, replace(space, scale=scale)


def _all_places(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the positions of all items and observed queries."""
    return np.arange(len(snapshot.vectors))


def _replace_rows(
    snapshot: Snapshot,
    stay: NDArray[np.int64],
    rows: Vectors,
    names: Ids,
    tolerance: float | None,
    are_queries: bool = False,
) -> Snapshot:
    """Keep the rows at the positions `stay` and append rows: items, or observed queries if `are_queries`.

    Drops the oldest observed queries if there are more than the remaining items allow.
    """
    stay = snapshot.remembered.drop_oldest(stay, len(rows) if are_queries else 0, names.count)
    remembered = snapshot.remembered.after(stay, len(rows), are_queries)
    turnover = ItemChange(len(snapshot.vectors), stay, len(rows))
    vectors = turnover.of(snapshot.vectors)
    vectors = np.concatenate([vectors, rows]) if len(rows) else vectors
    store = snapshot.store
    if store is not None:
        store = (store if isinstance(store, StoreView) else StoreView(store)).after(stay, rows)
    gallery = make_gallery(vectors, store, unit=snapshot.space.unit)
    state = snapshot.method.change(snapshot.state, gallery, turnover, tolerance)
    if names is snapshot.names and "changed" in state.facts:  # only observed queries changed, the items are the same
        state = replace(state, facts=state.facts | {"changed": snapshot.state.facts.get("changed", 0.0)})
    return replace(
        snapshot, gallery=gallery, names=names, remembered=remembered, state=state, store=store, turnover=turnover
    )


def replay_changes(snapshot: Snapshot, changes: list[Change]) -> Snapshot:
    """Apply changes as one. Queries are observed after all items."""
    following = _next_number(snapshot.names, changes)
    return apply_change(snapshot, merge_changes(changes, snapshot.vectors.shape[1], following))


def _next_number(names: Ids, changes: list[Change]) -> int | None:
    """Return the number of the next item; None if items have ids. The first changes decide for an empty gallery."""
    if names.stored is not None:
        return names.following
    numbered = any(change.vectors is not None and change.ids is None for change in changes)
    return names.count if names.count or numbered else None


def replay_log(snapshot: Snapshot, log: ChangeLog, folder: Path) -> Snapshot:
    """Apply all changes that the log contains and the folder lacks. Raises an InputError if they do not fit."""
    try:
        return replay_changes(snapshot, log.left)
    except InputError as error:
        raise InputError(
            f"the changes in {log.path} cannot be applied to {folder} ({error}); the log belongs to another gallery",
            remedy="move it away, which discards its changes",
        ) from error
