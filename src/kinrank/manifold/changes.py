"""A Snapshot, items to add or to remove -> the next Snapshot; how stale it is, and the same built anew.

Names: items of a manifold with ids are added with ids and removed by them. Without ids the item numbers are the names,
and they are stable: new items continue behind the highest number ever given, and a removal changes nobody's name. From
the first removal on the names are therefore kept as ids, and `Ranking.indices` are positions in `manifold.ids`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, check, unit
from kinrank.manifold.lists import gallery_lists
from kinrank.manifold.serving import serving_of
from kinrank.manifold.snapshot import Snapshot, check_ids
from kinrank.methods import Method
from kinrank.methods.expansion import Expansion
from kinrank.methods.lpmt import LPMT
from kinrank.progress import SILENT, Progress
from kinrank.stores import Store
from kinrank.stores.changed import ChangedStore

NEXT = "next_number"  # the number the next item gets, in a manifold without ids that lost some


def prepared(
    method: Method, vectors: Vectors, store: Store | None, changes: bool, progress: Progress
) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
    """What a method keeps of a gallery; with `changes`, also what makes later ones quick."""
    from kinrank.manifold.lpmt import ServingLPMT

    server = serving_of(method)

    def lists_of(k: int) -> Any:
        return gallery_lists(vectors, store, k, progress)

    if isinstance(server, ServingLPMT) and changes:
        return server.offline(method, vectors, lists_of, progress, keep=True)
    return server.offline(method, vectors, lists_of, progress)


def record_memory(method: Method, items: int, changes: bool) -> int:
    """Bytes that a build needs on top for later changes: the lists that are not freed, and the graph."""
    from kinrank.manifold.offline import is_small, kept_width_of

    if not changes or not isinstance(method, LPMT) or not is_small(method):
        return 0
    return items * (8 * kept_width_of(method) + 24 * method.k)


def added(snapshot: Snapshot, vectors: ArrayLike, ids: ArrayLike | None, tolerance: float | None = None) -> Snapshot:
    """The snapshot with more items behind those it has."""
    rows = unit(check(vectors, "vectors", snapshot.vectors.shape[1]), "vectors")
    names, facts = _names_after(snapshot, ids, len(rows))
    if not len(rows):
        return snapshot
    _check_possible(snapshot, "add")
    everyone = np.arange(len(snapshot))
    whole = np.concatenate([snapshot.vectors, rows])
    return _next(_searching(snapshot, everyone, rows), whole, names, facts, everyone, tolerance)


def removed(snapshot: Snapshot, ids: Any, tolerance: float | None = None) -> Snapshot:
    """The snapshot without some items; an empty one, if all are named."""
    gone = _numbers(snapshot, ids)
    if not len(gone):
        return snapshot
    _check_possible(snapshot, "remove")
    stay = np.setdiff1d(np.arange(len(snapshot)), gone)
    facts = dict(snapshot.facts)
    names = snapshot.ids
    if names is None:
        names, facts[NEXT] = np.arange(len(snapshot)), float(len(snapshot))
    vectors = snapshot.vectors[stay]
    return _next(_searching(snapshot, stay, vectors[:0]), vectors, names[stay], facts, stay, tolerance)


def refreshed(snapshot: Snapshot, progress: Progress) -> Snapshot:
    """The same items built anew: powers and weights measured again, nothing approximated."""
    method, vectors = snapshot.method, snapshot.vectors
    if isinstance(snapshot.store, ChangedStore):
        snapshot = replace(snapshot, store=snapshot.store.renewed(vectors))
    keeps = "near_items" in snapshot.arrays or len(vectors) < 2
    arrays, facts = prepared(method, vectors, snapshot.store, keeps, progress)
    return _with(snapshot, vectors, snapshot.ids, arrays, facts | _numbering(snapshot.facts))


def stale_of(snapshot: Snapshot) -> float:
    """The largest of: the share of items that came or went, the mean total variation not followed, the contrast's move.

    0 right after a build; in [0, 1].
    """
    facts = snapshot.facts
    if "changed" not in facts:
        return 0.0
    share = facts["changed"] / max(facts["built"], len(snapshot), 1.0)
    drift = float(snapshot.arrays["drift"].sum(axis=1).mean()) / 2.0
    contrast = abs(facts["contrast_now"] / max(facts["contrast"], 1e-3) - 1.0)
    return float(np.clip(max(share, drift, contrast), 0.0, 1.0))


def kind_of_ids(snapshot: Snapshot) -> str:
    """Where the names of the items come from, in words."""
    if snapshot.ids is None:
        return "item numbers"
    return "item numbers, some removed" if NEXT in snapshot.facts else "given"


def _next(
    snapshot: Snapshot,
    vectors: Vectors,
    names: NDArray[Any] | None,
    facts: dict[str, float],
    stay: NDArray[np.int64],
    tolerance: float | None,
) -> Snapshot:
    """The items `stay`, then new ones: repaired, or built where there is nothing to repair yet."""
    if not isinstance(snapshot.method, LPMT) or min(len(snapshot), len(vectors), len(stay)) < 2:
        arrays, measured = prepared(snapshot.method, vectors, snapshot.store, True, SILENT)
        return _with(snapshot, vectors, names, arrays, measured | _numbering(facts))
    arrays, measured = _repair(snapshot, snapshot.method, vectors, stay, tolerance)
    return _with(snapshot, vectors, names, arrays, facts | measured)


def _repair(
    snapshot: Snapshot, method: LPMT, vectors: Vectors, stay: NDArray[np.int64], tolerance: float | None
) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
    from kinrank.manifold.lpmt import attachment, kept_arrays
    from kinrank.manifold.offline import least_width_of
    from kinrank.manifold.record import contrast_of, record_in
    from kinrank.manifold.repair import LARGE, TOLERANCE, Before, repaired
    from kinrank.manifold.turnover import Turnover
    from kinrank.stages.offline import sparse_rows

    n, arrays, facts = len(snapshot), snapshot.arrays, snapshot.facts
    record = record_in(arrays)
    states = sparse_rows(arrays["state_starts"], arrays["state_items"], arrays["state_masses"], n)
    before = Before(record, states, arrays["step_starts"], arrays["step_ends"], arrays["step_costs"])
    turn = Turnover(n, stay, len(vectors) - len(stay))
    came_and_went = n - len(stay) + turn.fresh
    if tolerance is None:
        tolerance = TOLERANCE if came_and_went <= LARGE * len(vectors) else 0.0
    how = attachment(method, facts["rho"], facts["gamma"])
    after = repaired(method, vectors, snapshot.store, before, turn, facts["share"], how, tolerance)
    kept = kept_arrays(after.states, after.steps, after.costs, after.lengths) | after.record.arrays()
    return kept, {
        "changed": facts.get("changed", 0.0) + came_and_went,
        "contrast_now": contrast_of(after.record.near, least_width_of(method)),
    }


def _searching(snapshot: Snapshot, stay: NDArray[np.int64], rows: Vectors) -> Snapshot:
    """The snapshot with its store, if it has one, over the items that stay and the new rows."""
    if snapshot.store is None:
        return snapshot
    before = snapshot.store
    if not isinstance(before, ChangedStore):
        before = ChangedStore(before, len(snapshot))
    return replace(snapshot, store=before.after(stay, rows))


def _with(
    snapshot: Snapshot,
    vectors: Vectors,
    names: NDArray[Any] | None,
    arrays: dict[str, NDArray[Any]],
    facts: dict[str, float],
) -> Snapshot:
    from kinrank.manifold.lpmt import ServingLPMT

    server = serving_of(snapshot.method)
    if isinstance(server, ServingLPMT):
        ready: Any = server.terrain(vectors, arrays)
    else:
        ready = server.restore(snapshot.method, vectors, arrays, facts)
    return replace(snapshot, vectors=vectors, ids=names, arrays=arrays, facts=facts, prepared=ready)


def _check_possible(snapshot: Snapshot, verb: str) -> None:
    """A ValueError if this manifold cannot change."""
    if isinstance(snapshot.method, Expansion):
        return
    if not isinstance(snapshot.method, LPMT):
        raise ValueError(
            f"a manifold of {type(snapshot.method).__name__} cannot {verb} items; change the vectors and build anew"
        )
    if len(snapshot) > 1 and "near_items" not in snapshot.arrays:
        raise ValueError(
            f"this manifold was built without what it takes to {verb} items; build it with "
            "changes=True and LPMT's own similarity, solver, neighbors and scale"
        )


def _numbering(facts: dict[str, float]) -> dict[str, float]:
    return {NEXT: facts[NEXT]} if NEXT in facts else {}


def _names_after(snapshot: Snapshot, ids: ArrayLike | None, count: int) -> tuple[NDArray[Any] | None, dict[str, float]]:
    """The names of all items, and the facts, after `count` more were added."""
    facts, old = dict(snapshot.facts), snapshot.ids
    numbered = NEXT in facts or (old is None and len(snapshot) > 0)
    if ids is None and (numbered or old is None):
        if old is None:
            return None, facts
        first = int(facts[NEXT])
        facts[NEXT] = float(first + count)
        return np.concatenate([old, np.arange(first, first + count)]), facts
    if numbered:
        raise ValueError("this manifold names items by their numbers, and new ones get the next; leave ids= out")
    names = check_ids(ids, count)
    if names is None:
        raise ValueError(f"ids is missing: items of this manifold have names; give one for each of the {count} rows")
    if old is None or not count:
        return (names if old is None else old), facts
    if len(old) and names.dtype.kind != old.dtype.kind:
        kind = "texts" if old.dtype.kind == "U" else "whole numbers"
        raise ValueError(f"ids of this manifold are {kind}, such as {old[0].item()!r}; {names[0].item()!r} is not")
    twice = np.flatnonzero(np.isin(names, old))
    if len(twice):
        raise ValueError(
            f"ids must be new; {names[twice[0]].item()!r} is there already: remove it first, or give another name"
        )
    return (np.concatenate([old, names]) if len(old) else names), facts


def _numbers(snapshot: Snapshot, ids: Any) -> NDArray[np.int64]:
    """Positions of the items named, each once; a ValueError for unknown names and for names given twice."""
    alone = isinstance(ids, (str, int, np.integer))
    given = [ids] if alone else list(ids)
    names = np.arange(len(snapshot)) if snapshot.ids is None else snapshot.ids
    places = {name: place for place, name in enumerate(names.tolist())}
    numbers: dict[int, None] = {}
    for name in given:
        plain = name.item() if isinstance(name, np.generic) else name
        if isinstance(plain, bool) or not isinstance(plain, (str, int)) or plain not in places:
            such = f", such as {names[0].item()!r}" if len(names) else ", which is empty"
            raise ValueError(f"ids names {plain!r}, which is not in this manifold{such}; nothing was removed")
        if places[plain] in numbers:
            raise ValueError(f"ids names {plain!r} twice; name every item once. Nothing was removed")
        numbers[places[plain]] = None
    return np.array(list(numbers), np.int64)
