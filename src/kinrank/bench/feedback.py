"""Published sets -> what a few marks per query gain: right and wrong ones among the first results, simulated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.bench.cells import apart
from kinrank.bench.record import record
from kinrank.datasets.benchmark import load
from kinrank.evaluation import Truth, compare, evaluate
from kinrank.manifold import Manifold
from kinrank.methods import LPMT
from kinrank.progress import Progress, Show

SETS = ("roxford5k", "coil20", "mpeg7", "orl")
MARKS = ((1, 0), (1, 1), (2, 1), (3, 3), (0, 3))  # right and wrong ones
LOOKED_AT = 20  # first results among which somebody marks
Numbers = NDArray[np.int64]


def feedback(
    folder: str | os.PathLike[str], sets: Sequence[str] = SETS, seed: int = 0, progress: Show = None
) -> dict[str, Any]:
    """A record with one result per set, truth and number of marks: mAP without and with them, online.

    Of the first 20 results of every query some right and some wrong ones are marked, at random, as many as there are.
    All marked ones are taken out of both rankings before they are scored. Queries for which nothing is left that is
    right count nowhere.

    Args:
        folder: where the files of the sets are.
        sets: their names.
        seed: of the marks.
        progress: True for a bar, or a callable `f(label, done, total)`.

    Returns:
        `results`: dicts with set, truth, right, wrong (how many are marked), queries, before, after, gain, and low and
        high, the 95 % interval of the gain, paired by query. `means`: the mean gain over sets and truths.
    """
    report, results = Progress(progress), []
    for name in report.each("sets", sets, len(sets)):
        queries, gallery, truths = apart(load(name, folder))
        manifold = Manifold.build(gallery, LPMT())
        first = manifold.search(queries, k=len(gallery))
        for label, truth in truths.items():
            for right, wrong in MARKS:
                marks = [
                    _marked(row[:LOOKED_AT], truth.positives[query], truth.junk[query], right, wrong, seed + query)
                    for query, row in enumerate(first.indices)
                ]
                positives, negatives = ([one[side].tolist() for one in marks] for side in (0, 1))
                after = manifold.search(queries, k=len(gallery), positives=positives, negatives=negatives)
                rest = _without(truth, [np.concatenate(one) for one in marks], len(gallery))
                found = compare(evaluate(first.indices, rest), evaluate(after.indices, rest))
                results.append({
                    "set": name, "truth": label, "right": right, "wrong": wrong, "queries": found.queries,
                    "before": found.mean_a, "after": found.mean_b, "gain": found.difference, "low": found.low,
                    "high": found.high,
                })  # fmt: skip
    means = [
        {
            "right": right,
            "wrong": wrong,
            "gain": float(np.mean([row["gain"] for row in results if (row["right"], row["wrong"]) == (right, wrong)])),
        }
        for right, wrong in MARKS
    ]
    return record("feedback", {"method": "lpmt", "looked_at": LOOKED_AT, "results": results, "means": means})


def _marked(
    shown: Numbers, positives: Numbers, junk: Numbers, right: int, wrong: int, seed: int
) -> tuple[Numbers, Numbers]:
    """Some right and some wrong ones of what is shown, at most so many; nobody marks junk."""
    order = np.random.default_rng(seed).permutation(shown[shown >= 0])
    good, bad = np.isin(order, positives), ~np.isin(order, np.concatenate([positives, junk]))
    return order[good][:right], order[bad][:wrong]


def _without(truth: Truth, marked: list[Numbers], size: int) -> Truth:
    """The truth in which marked items are neither right nor wrong."""
    right = [np.setdiff1d(truth.positives[query], items) for query, items in enumerate(marked)]
    junk = [np.union1d(truth.junk[query], items) for query, items in enumerate(marked)]
    return Truth.from_lists(right, junk, gallery_size=size, average_precision=truth.average_precision)
