"""Published sets -> the same LPMT joint, one query at a time, over candidates and online; others online beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinrank.datasets.benchmark import Benchmark, load
from kinrank.evaluation import Truth, evaluate
from kinrank.manifold import Manifold
from kinrank.methods import resolve
from kinrank.progress import Progress, Show
from kinrank.ranking import Ranking
from kinrank.rerank import rerank

OTHERS = ("aqe", "dfs", "eir")  # served online at their defaults, to compare with
FOURTH = 4  # where every item queries the others, every fourth is taken out of the gallery and asks


def modes(
    folder: str | os.PathLike[str],
    sets: Sequence[str],
    method: str = "lpmt",
    most: int = 70,
    candidates: int = 1000,
    progress: Show = None,
) -> list[dict[str, Any]]:
    """Rows with mAP per set, truth and mode, over at most `most` queries, evenly taken.

    joint: all queries of the set in one graph. alone: each query in a graph of its own with the gallery. candidates:
    in a graph of its nearest only. online: never in a graph, the gallery was prepared without it. grown: the same,
    after the last tenth of the gallery was added in ten steps. search: nothing re-ranked. Other methods run online.
    """
    report, rows = Progress(progress), []
    for name in report.each("sets", sets, len(sets)):
        bench = load(name, folder)
        queries, gallery, truths = apart(bench)
        some = np.unique(np.linspace(0, len(queries) - 1, min(most, len(queries))).astype(np.int64))
        asked, depth = queries[some], len(gallery)
        joint = rerank(queries, gallery, method)
        alone = [rerank(row[None, :], gallery, method) for row in asked]
        rankings = {
            ("search", "none"): rerank(asked, gallery, "none"),
            ("candidates", method): rerank(asked, gallery, method, candidates=candidates, depth=depth),
            ("online", method): _online(method, asked, gallery),
            ("grown", method): _grown(method, asked, gallery),
            ("alone", method): Ranking(
                np.concatenate([r.indices for r in alone]), np.concatenate([r.distances for r in alone])
            ),
            ("joint", method): Ranking(joint.indices[some], joint.distances[some]),
        }
        rankings |= {("online", other): _online(other, asked, gallery) for other in OTHERS}
        for label, truth in truths.items():
            about = {"set": name, "truth": label, "queries": len(some), "measure": "mAP"}
            for (mode, ranked_by), ranking in rankings.items():
                score = evaluate(ranking, truth.subset(some), ["mAP"])["mAP"]
                found = {"mean": score.mean, "low": score.low, "high": score.high}
                rows.append({**about, "mode": mode, "method": ranked_by, **found})
    return rows


def _online(method: str, queries: Any, gallery: Any) -> Ranking:
    return Manifold.build(gallery, resolve(method)).search(queries, k=len(gallery))


def _grown(method: str, queries: Any, gallery: Any) -> Ranking:
    most = len(gallery) - len(gallery) // 10
    manifold = Manifold.build(gallery[:most], resolve(method))
    for part in np.array_split(gallery[most:], 10):
        manifold.add(part)
    return manifold.search(queries, k=len(gallery))


def apart(bench: Benchmark) -> tuple[Any, Any, dict[str, Truth]]:
    """Queries that are not in the gallery, the gallery, and what is right."""
    if bench.queries is not None:
        return np.asarray(bench.queries), np.asarray(bench.gallery), bench.truths
    rows = np.asarray(bench.gallery)
    asks = np.arange(len(rows)) % FOURTH == 0
    place = np.cumsum(~asks) - 1  # of an item in the gallery that is left
    apart = {}
    for label, truth in bench.truths.items():
        right = []
        for query in range(0, len(rows), FOURTH):
            positives = truth.positives[query]
            right.append(place[positives[~asks[positives]]])
        apart[label] = Truth.from_lists(right, gallery_size=int((~asks).sum()))
    return rows[asks], rows[~asks], apart
