"""The entry point: queries and a gallery -> a better Ranking, joint or per query over candidates."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from kinrank.items import Items
from kinrank.memory import allowed_bytes, parse_bytes
from kinrank.methods import LPMT, Method, resolve
from kinrank.parameters import whole_number
from kinrank.progress import Progress, Show
from kinrank.ranking import Ranking
from kinrank.rerank.answering import answered
from kinrank.rerank.candidates import per_query
from kinrank.rerank.wanted import Wanted
from kinrank.stores import Store
from kinrank.stores.engine import EngineStore
from kinrank.stores.rows import gallery_with_ids


def rerank(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    method: Method | str | None = LPMT(),  # noqa: B008 - frozen
    candidates: int | None = None,
    depth: int | None = None,
    max_memory: int | str | None = None,
    progress: Show = None,
    metric: str | None = None,
    *,
    where: Any = None,
    positives: Any = None,
    negatives: Any = None,
    expand: int = 0,
) -> Ranking:
    """Re-rank the gallery for every query. Smaller distances are nearer.

    Args:
        queries: (q, d) rows; None lets every gallery item query the others, itself left out by identity.
        gallery_or_store: (n, d) rows, or a Store.
        method: a Method, or its name in METHODS; LPMT() unless given.
        candidates: None puts queries and gallery in one graph (joint). A number c instead takes the c nearest
            items of each query from the store and re-ranks those in a graph of their own; the rest keeps the
            order of the search.
        depth: how many items per query to return; all of them unless given.
        max_memory: bytes, or words such as "2GB", that working arrays and result may take together; four
            fifths of what the machine has free unless given. Checked before anything is allocated.
        progress: True for a bar, or a callable `f(label, done, total)`.
        metric: "cosine" compares directions, whatever the length of vectors; "euclidean" where length matters: all are
            then divided by one number, the root mean square length of the gallery. Cosine unless given, or what a
            Store says of itself.
        where: only these items are results: a mask of booleans over the gallery, or item numbers; over a vector
            database, a filter in its own form. A list of 0 and 1 as long as the gallery is refused, because it could be
            either; so are [0] for one item and [0, 1] for two, where leaving `where` out allows all. The others are in
            the graph all the same; over candidates, the graph holds the c nearest of these and, beside them, the c
            nearest of all. Rows are padded where fewer are left.
        positives: items that are right, by number, or by the ids of a vector database: a list for one query, or a list
            of such lists, one per query; LPMT only. Chains start from them, too. Marked items, right or wrong, are not
            returned.
        negatives: items that are wrong, given likewise; no chain passes through them, and where there are positives,
            what is nearer to a wrong one than to the query and the right ones moves back.
        expand: rounds in which the candidates grow: half of them are the nearest items of the query, the others
            neighbours of the best of these, asked from the store; the same number of vectors is fetched. 0 takes the
            nearest items only. It finds more where right items lie along chains, and less where neighbours are often
            wrong.

    Returns:
        Ranking with `meta["mode"]` "joint" or "candidates", and `meta["metric"]`; over candidates also
        `meta["seconds_in"]`, what searching, fetching and re-ranking took, and `meta["fetched"]`, how many vectors came
        from the store. Over a vector database `ids` are those of the engine. Its distances order the items of one
        query; they are not comparable between queries, and copies of one vector may differ in them (see `Ranking`).

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.LPMT(k2=7))
    """
    method = resolve(method) if candidates is None else resolve(method).over_candidates()
    method.check_ready()
    candidates = None if candidates is None else whole_number(candidates, "candidates")
    depth = None if depth is None else whole_number(depth, "depth")
    budget = allowed_bytes() if max_memory is None else parse_bytes(max_memory)
    report = Progress(progress)
    started = time.perf_counter()
    wanted = Wanted(where, positives, negatives)
    if expand and candidates is None:
        raise ValueError(f"expand={expand!r} grows candidates, and there are none; give candidates=, or leave it out")
    if positives is not None or negatives is not None:
        method.check_marked()
    if candidates is None:
        ranking = _joint(queries, gallery_or_store, method, depth, budget, report, metric, wanted)
    else:
        rounds = whole_number(expand, "expand", low=0)
        ranking = per_query(
            queries, gallery_or_store, method, candidates, depth, budget, report, metric, wanted, rounds
        )
    meta = {**ranking.meta, "method": repr(method), "seconds": time.perf_counter() - started}
    return replace(ranking, meta=meta)


def _joint(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    method: Method,
    depth: int | None,
    budget: int,
    report: Progress,
    metric: str | None,
    wanted: Wanted,
) -> Ranking:
    gallery, space, ids = gallery_with_ids(gallery_or_store, metric)
    if queries is None:
        items = Items.everyone(gallery, space.unit)
        longest = max(len(gallery) - 1, 0)
    else:
        asked = space.rows(queries, "queries", gallery.shape[1])
        items = Items.joint(asked, gallery, space.unit)
        longest = len(gallery)
    if isinstance(gallery_or_store, EngineStore) and ids is not None:
        allowed, marks = wanted.among(ids, gallery_or_store, len(items.queries))
    else:
        allowed, marks = wanted.checked(len(gallery), len(items.queries))
    longest = longest if allowed is None else min(longest, int(allowed.sum()))
    depth = longest if depth is None else min(depth, longest)
    indices, distances = answered(method, items, depth, budget, report, allowed, marks)
    return Ranking(indices, distances, {"mode": "joint", **space.meta}).with_ids(ids)
