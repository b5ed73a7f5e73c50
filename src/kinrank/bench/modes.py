"""Published sets -> the same LPMT joint, alone, over candidates, online, online with queries that are remembered."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinrank.bench.cells import apart
from kinrank.bench.record import record
from kinrank.bench.remembered import remembered
from kinrank.datasets.benchmark import load
from kinrank.evaluation import evaluate
from kinrank.features import evenly
from kinrank.manifold import Manifold
from kinrank.methods import resolve
from kinrank.progress import Progress, Show
from kinrank.ranking import Ranking
from kinrank.rerank import rerank

OTHERS = ("aqe", "dfs", "eir")  # served online at their defaults, to compare with
SETS = ("roxford5k", "coil20", "mpeg7", "orl")
PARTS = ("ways", "remembered")


def modes(
    folder: str | os.PathLike[str],
    sets: Sequence[str] = SETS,
    most: int = 70,
    parts: Sequence[str] = PARTS,
    progress: Show = None,
) -> dict[str, Any]:
    """A record: every way to run LPMT on the sets (`ways`), and online by what is remembered (`remembered`)."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ValueError(f"part {unknown[0]!r} is not known; give some of: {', '.join(PARTS)}")
    found: dict[str, Any] = {"method": "lpmt", "results": []}
    if "ways" in parts:
        found["modes"] = ways(folder, sets, most=most, progress=progress)
    if "remembered" in parts:
        for name in Progress(progress).each("remembered", sets, len(sets)):
            queries, gallery, truths = apart(load(name, folder))
            some = evenly(len(queries), most)
            about = {"set": name, "queries": len(some), "items": len(gallery), "measure": "mAP"}
            found["results"] += [{**about, **row} for row in remembered(queries, gallery, truths, some)]
    return record("modes", found)


def ways(
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
        some = evenly(len(queries), most)
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
