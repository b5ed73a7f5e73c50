"""Search with the prepared gallery, or with any method over the nearest candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.filters import parse_marks
from kinrank.manifold import Manifold
from kinrank.manifold.snapshot import Snapshot, make_masks, parse_max_distance, search_items
from kinrank.methods import Method
from kinrank.methods.learned_method import LearnedMethod
from kinrank.parameters import check_whole_number
from kinrank.ranking import Ranking
from kinrank.reranking import rerank
from kinrank.stores import ArrayStore, Store
from kinrank.vector_input import Vectors
from kinrank.web.page_data.question import Question, resolve_method


def run_search(manifold: Manifold, rows: ArrayLike, question: Question) -> Ranking:
    """Return the best items of each query (q, d), nearest first, with the ids of the manifold.

    The prepared gallery answers (`meta["mode"]` is "online") if method and parameters are its own and `candidates` is
    not given. Otherwise the nearest items of each query are re-ranked in a graph of their own ("candidates"), and the
    other items keep the order of the search.
    """
    chosen, prepared = resolve_method(manifold.method, question.method, question.parameters), manifold.method
    positives, negatives = _drop_empty_marks(question.positives), _drop_empty_marks(question.negatives)
    question = replace(question, positives=positives, negatives=negatives)
    if question.candidates is None and chosen == prepared:
        return manifold.search(
            rows,
            question.k,
            depth=question.depth,
            budget=question.budget,
            max_distance=question.max_distance,
            where=question.where,
            positives=positives,
            negatives=negatives,
            groups=question.groups,
        )
    if isinstance(chosen, LearnedMethod):
        raise InputError(
            f"{chosen.name} needs the weights of the prepared gallery",
            remedy="leave out `candidates`, or give another method",
        )
    for name in ("budget", "groups"):
        if getattr(question, name) is not None:
            raise InputError(
                f"is only for the prepared gallery, {prepared!r}, not for candidates",
                parameter=name,
                remedy="leave it out, or leave out `method`, `parameters` and `candidates`",
            )
    farthest, snapshot = parse_max_distance(question.max_distance), manifold.snapshot
    ranking = _rerank_candidates(snapshot, rows, chosen, question)
    is_near = ranking.distances <= farthest
    distances = np.where(is_near, ranking.distances, np.float32(np.inf))
    return snapshot.to_ranking(np.where(is_near, ranking.indices, -1), distances, ranking.meta)


def _rerank_candidates(snapshot: Snapshot, rows: ArrayLike, method: Method, question: Question) -> Ranking:
    """Re-rank the nearest items, by item positions; the vectors of the gallery are neither copied nor normalised."""
    count, where = question.candidate_count, question.where
    k = check_whole_number(question.k, "k")
    depth = k if question.depth is None else check_whole_number(question.depth, "depth")
    queries = snapshot.space.rows(rows, "vectors", snapshot.vectors.shape[1])
    if not len(snapshot):
        return _make_empty_ranking(len(queries), {"mode": "candidates", "method": repr(method), "seconds": 0.0})
    allowed = None if where is None else make_masks(snapshot, where).results[snapshot.remembered.items]
    find_places, count_items = snapshot.names.places_of, snapshot.__len__
    marks = parse_marks(question.positives, question.negatives, len(queries), find_places, count_items)
    right = None if marks is None else [good.tolist() for good, _ in marks]
    wrong = None if marks is None else [bad.tolist() for _, bad in marks]
    store = make_item_store(snapshot)
    return rerank(queries, store, method, candidates=count, k=depth, where=allowed, positives=right, negatives=wrong)


def _drop_empty_marks(marks: Any) -> Any:
    """Return the marked items, or None if there are none, because every method supports that."""
    lists = marks if isinstance(marks, list | tuple) else [marks]
    return None if all(isinstance(items, list | tuple) and not items for items in lists) else marks


def find_nearest_items(snapshot: Snapshot, rows: Vectors, depth: int) -> Ranking:
    """Return (q, <= depth) item positions of the plain search for `rows` in the vector space of the gallery."""
    if not len(snapshot) or not len(rows):
        return _make_empty_ranking(len(rows), {})
    remembered, depth = snapshot.remembered, min(depth, len(snapshot))
    found = search_items(rows, snapshot.gallery.search, depth, remembered)
    indices, distances = found.indices.astype(np.int64), found.distances
    if remembered.count:
        is_no_item = (indices < 0) | remembered.mask[indices]
        order = np.argsort(is_no_item, axis=1, kind="stable")  # moves these to the end
        indices = np.take_along_axis(np.where(is_no_item, -1, remembered.numbers(indices)), order, axis=1)
        distances = np.take_along_axis(np.where(is_no_item, np.float32(np.inf), distances), order, axis=1)
    return Ranking(indices[:, :depth], distances[:, :depth])


def _make_empty_ranking(rows: int, meta: dict[str, Any]) -> Ranking:
    return Ranking(np.empty((rows, 0), np.int64), np.empty((rows, 0), np.float32), meta)


def make_item_store(snapshot: Snapshot) -> Store:
    """Return the items of a snapshot as a Store, without a copy."""
    if snapshot.store is None and not snapshot.remembered.count:
        return ArrayStore.over(snapshot.vectors, snapshot.space.metric)
    return SnapshotStore(snapshot)


class SnapshotStore(Store):
    """Items of a snapshot as a Store: it searches as the snapshot does and skips remembered queries."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.metric = snapshot, snapshot.space.metric

    def __len__(self) -> int:
        return len(self.snapshot)

    def search(self, queries: ArrayLike, k: int) -> Ranking:
        return find_nearest_items(self.snapshot, np.asarray(queries, np.float32), k)

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return self.snapshot.vectors[self.snapshot.remembered.items[np.asarray(ids, np.int64)]]
