"""A file name -> a page that shows what re-ranking does, on toys drawn on the spot, in under a minute."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import kinrank
from kinrank.datasets.turntable import NAMES, turntable
from kinrank.progress import Progress, Show
from kinrank.report.evidence.choosing import choose
from kinrank.report.html import write_page
from kinrank.report.page import Chain, Demo, Side, demo_page

if TYPE_CHECKING:
    from kinrank.evaluation import Truth
    from kinrank.report.page import Chain, Demo, Side

MEASURES = ["mAP", "R@1"]


def run_demo(
    output: str | Path,
    progress: Show = None,
    *,
    objects: int = 24,
    views: int = 72,
    seed: int = 0,
) -> dict[str, Any]:
    """Draw the turntable, rank it without and with LPMT, write the page, return what is worth printing.

    Args:
        output: the HTML file to write; index.html in it when it is a folder.
        progress: True for a bar, or a callable `f(label, done, total)`.
        objects, views, seed: of the set, see `kinrank.datasets.turntable`.

    Returns:
        page (path), items, objects, views, dimensions, mode, methods {name: {mAP, R@1: {mean, low, high},
        seconds}}, difference {mean, low, high, better, worse}, seconds (of the whole run).

    Example:
        >>> run_demo("demo.html")["methods"]["lpmt"]["mAP"]["mean"]
    """
    started = time.perf_counter()
    demo = _compute(objects, views, seed, progress)
    page = write_page(Path(output), demo_page(demo))
    return _summary(demo, page, views, time.perf_counter() - started)


def embed(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(n, size, size, 3) -> (n, 3 * (size // 2)^2): raw pixels, averaged two by two, minus their mean.

    Nothing is learned: what these vectors call near is what the pixels call near.
    """
    count, size = images.shape[:2]
    half = size // 2
    even = images[:, : 2 * half, : 2 * half].reshape(count, half, 2, half, 2, 3)
    pixels = even.mean(axis=(2, 4), dtype=np.float32).reshape(count, -1)
    return np.asarray(pixels - pixels.mean(axis=1, keepdims=True), np.float32)


def chain(vectors: NDArray[np.float32], query: int, item: int, method: str = "lpmt") -> Any:
    """The walk from the query to the item that the method's distance is made of."""
    return kinrank.explain(None, vectors, query, item, method)


def _compute(objects: int, views: int, seed: int, progress: Show) -> Demo:
    images, labels, angles = turntable(objects, views, seed=seed, progress=Progress(progress))
    vectors = embed(images)
    truth = kinrank.Truth.from_labels(labels)
    before = _side(vectors, truth, "none", "No re-ranking", progress)
    after = _side(vectors, truth, "lpmt", "LPMT", progress)
    comparison = kinrank.compare(before.scores, after.scores, "mAP")
    values = before.scores["mAP"].per_query, after.scores["mAP"].per_query
    chosen = choose(*values, labels)
    chosen += one_of_each_other(*values, labels, [query for query, _ in chosen])
    walk = _far_side(vectors, labels, angles, before, after, [query for query, _ in chosen])
    return Demo(images, labels, angles, NAMES, vectors.shape[1], before, after, comparison, chosen, walk)


def _side(vectors: NDArray[np.float32], truth: Truth, name: str, title: str, progress: Show) -> Side:
    kinrank.rerank(None, vectors[:64], name)  # compiles the loops, so that the time below is the method's own
    ranking = kinrank.rerank(None, vectors, name, progress=progress)
    return Side(title, ranking, kinrank.evaluate(ranking, truth, MEASURES), float(ranking.meta["seconds"]))


def one_of_each_other(
    before: NDArray[np.float64], after: NDArray[np.float64], labels: NDArray[np.int64], chosen: list[int]
) -> list[tuple[int, str]]:
    """A query of every toy that is not chosen yet: the one whose gain is in the middle of its toy's gains."""
    gain = after - before
    found = []
    for toy in np.setdiff1d(labels, labels[chosen]):
        own = np.flatnonzero(labels == toy)
        order = own[np.argsort(gain[own], kind="stable")]
        found.append((int(order[(len(order) - 1) // 2]), "the middle one of its toy's gains"))
    return found


def _far_side(
    vectors: NDArray[np.float32],
    labels: NDArray[np.int64],
    angles: NDArray[np.float32],
    before: Side,
    after: Side,
    queries: list[int],
) -> Chain:
    """Of the shown queries, the one whose opposite view climbed furthest, and the walk to it."""
    walks = []
    for query in queries:
        turned = np.abs((angles - angles[query] + 180.0) % 360.0 - 180.0)
        item = int(np.argmax(np.where(labels == labels[query], turned, -1.0)))
        ranks = [1 + int(np.flatnonzero(side.ranking.indices[query] == item)[0]) for side in (before, after)]
        walks.append((ranks[1] - ranks[0], query, item, ranks))
    _, query, item, ranks = min(walks, key=lambda walk: walk[:2])
    found = chain(vectors, query, item)
    return Chain([int(step) for step in found.items], [float(cost) for cost in found.costs], ranks[0], ranks[1])


def _summary(demo: Demo, page: Path, views: int, seconds: float) -> dict[str, Any]:
    methods = {}
    for name, side in (("none", demo.before), ("lpmt", demo.after)):
        found = {
            measure: {key: float(getattr(side.scores[measure], key)) for key in ("mean", "low", "high")}
            for measure in MEASURES
        }
        methods[name] = {**found, "seconds": side.seconds, "parameters": str(side.ranking.meta["method"])}
    gain = demo.comparison
    return {
        "page": str(page),
        "items": len(demo.images),
        "objects": len(demo.images) // views,
        "views": views,
        "dimensions": demo.dimensions,
        "mode": str(demo.after.ranking.meta["mode"]),
        "methods": methods,
        "difference": {
            "mean": gain.difference,
            "low": gain.low,
            "high": gain.high,
            "better": gain.better,
            "worse": gain.worse,
        },
        "chain": {"items": list(demo.chain.items), "costs": list(demo.chain.costs)},
        "seconds": seconds,
    }
