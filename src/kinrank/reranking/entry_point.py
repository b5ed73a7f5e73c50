"""Entry point `rerank`: joint, or per query over candidates."""

from __future__ import annotations

import time
from typing import Any

from numpy.typing import ArrayLike

from kinrank.errors import InputError
from kinrank.ids import parse_ids, pick_ids
from kinrank.memory_limit import default_limit_bytes, parse_bytes
from kinrank.methods import LPMT, Method, resolve_method
from kinrank.methods.base import for_candidates, rank_in_blocks
from kinrank.parameters import check_whole_number
from kinrank.progress import Progress, ProgressOption
from kinrank.ranking import Ranking
from kinrank.reranking.candidates import (
    CandidateOption,
    RerankInput,
    ResultFilter,
    rerank_candidates,
    resolve_candidates,
)
from kinrank.stores import Store
from kinrank.stores.gallery import read_gallery


def rerank(
    queries: ArrayLike | None,
    gallery: ArrayLike | Store,
    method: Method | str | None = LPMT(),  # noqa: B008 - frozen
    *,
    candidates: CandidateOption = None,
    k: int | None = None,
    max_memory: int | str | None = None,
    progress: ProgressOption = None,
    metric: str | None = None,
    where: Any = None,
    positives: Any = None,
    negatives: Any = None,
    expand: int = 0,
) -> Ranking:
    """Re-rank the gallery for every query. Smaller distances are nearer.

    Args:
        queries: (q, d) rows; None lets every gallery item query the others, without itself. That reads all vectors of a
            vector database, so it needs `candidates` there.
        gallery: (n, d) rows, or a Store.
        method: a Method, or its name in METHODS; default LPMT().
        candidates: a number c takes the c nearest items of each query from the store and re-ranks those in a graph of
            their own; the rest keeps the order of the search. "all" puts queries and gallery in one graph (joint), for
            which a vector database is read as a whole; the log and the progress say first how much that is. Default:
            500 for a vector database or a store of your own, "all" for arrays, ArrayStore and FaissStore.
        k: number of items to return per query; all by default.
        max_memory: limit for working arrays and result together, in bytes or as text such as "2GB"; by default four
            fifths of the free memory. Checked before anything is allocated.
        progress: True for a bar, or a callable `f(label, done, total)`.
        metric: "cosine" compares directions, independent of the length of vectors; "euclidean" is for vectors whose
            length matters: all are then divided by one number, the root mean square length of the gallery. Default: the
            metric that a Store declares, else cosine.
        where: restricts the results to these items: a mask of booleans over the gallery, or item numbers; over a vector
            database, a filter in its own form. A list of 0 and 1 as long as the gallery is refused, because it could be
            either; so are [0] for one item and [0, 1] for two, where leaving `where` out allows all. The other items
            remain in the graph; over candidates, the graph holds the c nearest allowed items and, in addition, the c
            nearest of all. Rows with fewer results are padded.
        positives: items that are right, by number, or by the ids of a vector database: a list for one query, or a list
            of such lists, one per query; LPMT only. Chains also start from them. Marked items, right or wrong, are not
            returned.
        negatives: items that are wrong, in the same form; no chain passes through them, and if there are positives,
            items that are nearer to a wrong item than to the query and the right items move back.
        expand: number of rounds that expand the candidates: half of them are the nearest items of the query, the others
            neighbours of the best of these, found by the store; the number of fetched vectors is the same. 0 uses the
            nearest items only. Expansion finds more if right items lie along chains, and less if neighbours are often
            wrong.

    Returns:
        Ranking with `meta["mode"]` "joint" or "candidates", and `meta["metric"]`; over candidates also
        `meta["seconds_in"]`, the seconds of searching, fetching and re-ranking, and `meta["fetched"]`, the number of
        vectors fetched from the store. Over a vector database `ids` are those of the engine. The distances order the
        items of one query; they cannot be compared between queries, and copies of one vector may have different
        distances (see `Ranking`).

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.LPMT(k2=7))
    """
    count = resolve_candidates(candidates, gallery, queries is None)
    method = resolve_method(method) if count is None else for_candidates(resolve_method(method))
    method.load_weights()
    k = None if k is None else check_whole_number(k, "k")
    budget = default_limit_bytes() if max_memory is None else parse_bytes(max_memory)
    unfiltered = where is None and positives is None and negatives is None
    result_filter = None if unfiltered else ResultFilter(where, positives, negatives)
    started = time.perf_counter()
    given = RerankInput(queries, gallery, method, k, budget, Progress(progress), metric, result_filter, started)
    if expand and count is None:
        raise InputError(
            "expands candidates, and there are none",
            parameter="expand",
            given=expand,
            remedy="give `candidates`, a number, or leave it out",
        )
    if positives is not None or negatives is not None:
        method.require("feedback")
    if count is None:
        return _rerank_joint(given)
    return rerank_candidates(given, count, check_whole_number(expand, "expand", low=0))


def _rerank_joint(given: RerankInput) -> Ranking:
    gallery = read_gallery(given.gallery, given.metric, max_memory=given.budget, report=given.report)
    items = gallery.items(given.queries)
    longest = len(gallery) if given.queries is not None else max(len(gallery) - 1, 0)
    allowed, marks = None, None
    if given.result_filter is not None:
        allowed, marks = given.result_filter.parse(gallery, len(items.queries))
    longest = longest if allowed is None else min(longest, int(allowed.sum()))
    depth = longest if given.k is None else min(given.k, longest)
    indices, distances = rank_in_blocks(given.method, items, depth, given.budget, given.report, allowed, marks)
    ids: Any = None if gallery.ids is None else pick_ids(parse_ids(gallery.ids, "ids"), indices)
    return Ranking(indices, distances, given.complete({"mode": "joint", **gallery.space.meta}), ids=ids)
