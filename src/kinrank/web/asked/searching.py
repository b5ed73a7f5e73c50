"""Vectors and what is asked for -> a Ranking, by the prepared gallery or by any method over the nearest candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given
from kinrank.features import Vectors
from kinrank.manifold import Manifold
from kinrank.manifold.remembered import items_found
from kinrank.manifold.searching import a_distance, masks_of
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.methods.learned import Learned
from kinrank.parameters import whole_number
from kinrank.ranking import Ranking
from kinrank.rerank import rerank
from kinrank.stores import ArrayStore, Store
from kinrank.web.asked.asking import method_asked

CANDIDATES = 1000  # re-ranked where another method is asked for, and not how many


def searched(
    manifold: Manifold,
    rows: ArrayLike,
    *,
    k: int = 10,
    depth: int | None = None,
    budget: int | None = None,
    max_distance: float | None = None,
    where: Any = None,
    positives: Any = None,
    negatives: Any = None,
    groups: Any = None,
    method: str | None = None,
    parameters: dict[str, Any] | None = None,
    candidates: int | None = None,
) -> Ranking:
    """The best items of every query, nearest first, with the ids of the manifold.

    The prepared gallery answers (`meta["mode"]` "online") where method and parameters are its own and `candidates` is
    not given. Otherwise the nearest items of every query are re-ranked in a graph of their own ("candidates"), and the
    others keep the order of the search.

    Args:
        rows: (q, d) vectors, as `Manifold.search` takes them.
        method: its name in METHODS; the prepared one unless given.
        parameters: those that are to differ from the prepared method, or from what another one declares.
        candidates: how many of the nearest items to re-rank; CANDIDATES, where they are needed, unless given.
        k, depth, budget, max_distance, where, positives, negatives, groups: as in `Manifold.search`; budget and groups
            are for the prepared gallery only.
    """
    chosen, prepared = method_asked(manifold.method, method, parameters), manifold.method
    positives, negatives = _nobody_is_none(positives), _nobody_is_none(negatives)
    if candidates is None and chosen == prepared:
        return manifold.search(
            rows, k, depth, budget, max_distance, where=where, positives=positives, negatives=negatives, groups=groups
        )
    if isinstance(chosen, Learned):
        raise ValueError(
            f"{chosen.name} ranks by weights that belong to the prepared gallery; leave out candidates, or give "
            "another method"
        )
    for name, value in (("budget", budget), ("groups", groups)):
        if value is not None:
            raise ValueError(
                f"{name} is for the prepared gallery, {prepared!r}, and not for candidates; leave it out, or leave out "
                "method, parameters and candidates"
            )
    count = whole_number(CANDIDATES if candidates is None else candidates, "candidates")
    k = whole_number(k, "k")
    depth = k if depth is None else whole_number(depth, "depth")
    farthest, snapshot = a_distance(max_distance), manifold._snapshot
    found = _among_candidates(snapshot, rows, chosen, count, depth, where, positives, negatives)
    near = found.distances <= farthest
    distances = np.where(near, found.distances, np.float32(np.inf))
    return snapshot.names.ranking(np.where(near, found.indices, -1), distances, found.meta)


def _among_candidates(
    snapshot: Snapshot,
    rows: ArrayLike,
    method: Method,
    count: int,
    depth: int,
    where: Any,
    positives: Any,
    negatives: Any,
) -> Ranking:
    """The same by places of items; the gallery's vectors are neither copied nor brought to unit length again."""
    queries = snapshot.space.rows(rows, "vectors", snapshot.vectors.shape[1])
    if not len(snapshot):
        return _nothing(len(queries), {"mode": "candidates", "method": repr(method), "seconds": 0.0})
    allowed = None if where is None else masks_of(snapshot, where).results[snapshot.remembered.items]
    marks = given.marks(positives, negatives, len(queries), snapshot.names.places_of, snapshot.__len__)
    right = None if marks is None else [good.tolist() for good, _ in marks]
    wrong = None if marks is None else [bad.tolist() for _, bad in marks]
    store = store_of(snapshot)
    return rerank(queries, store, method, count, depth, where=allowed, positives=right, negatives=wrong)


def _nobody_is_none(marks: Any) -> Any:
    """Marked items as they were given; None where nobody is marked: any method can do that."""
    lists = marks if isinstance(marks, list | tuple) else [marks]
    return None if all(isinstance(one, list | tuple) and not one for one in lists) else marks


def nearest_items(snapshot: Snapshot, rows: Vectors, depth: int) -> Ranking:
    """(q, <= depth) what the plain search finds for `rows`, which are as the gallery has them; by places of items."""
    if not len(snapshot) or not len(rows):
        return _nothing(len(rows), {})
    remembered, depth = snapshot.remembered, min(depth, len(snapshot))
    found = items_found(rows, snapshot.gallery.search, depth, remembered)
    indices, distances = found.indices.astype(np.int64), found.distances
    if remembered.count:
        no_item = (indices < 0) | remembered.mask[indices]
        order = np.argsort(no_item, axis=1, kind="stable")  # those go behind
        indices = np.take_along_axis(np.where(no_item, -1, remembered.numbers(indices)), order, axis=1)
        distances = np.take_along_axis(np.where(no_item, np.float32(np.inf), distances), order, axis=1)
    return Ranking(indices[:, :depth], distances[:, :depth])


def _nothing(rows: int, meta: dict[str, Any]) -> Ranking:
    return Ranking(np.empty((rows, 0), np.int64), np.empty((rows, 0), np.float32), meta)


def store_of(snapshot: Snapshot) -> Store:
    """The items of a snapshot as a Store, without a copy."""
    if snapshot.store is None and not snapshot.remembered.count:
        return ArrayStore.over(snapshot.vectors, snapshot.space.metric)
    return ItemsOf(snapshot)


class ItemsOf:
    """The items of a snapshot as a Store: found as the snapshot finds them, remembered queries passed over."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.metric = snapshot, snapshot.space.metric

    def __len__(self) -> int:
        return len(self.snapshot)

    def search(self, queries: ArrayLike, k: int) -> Ranking:
        return nearest_items(self.snapshot, np.asarray(queries, np.float32), k)

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return self.snapshot.vectors[self.snapshot.remembered.items[np.asarray(ids, np.int64)]]
