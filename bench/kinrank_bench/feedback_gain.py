"""Bench of feedback: gain in mAP from a few simulated marks per query, relevant and irrelevant ones."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Truth, compare_scores, evaluate
from kinrank.manifold import Manifold
from kinrank.methods import LPMT
from kinrank.progress import Progress, ProgressOption
from kinrank_bench.datasets.benchmark import load
from kinrank_bench.declaration import Folder, Option, SetNames
from kinrank_bench.measurement import separate_queries
from kinrank_bench.record import Panel, Record, build_panels, gain_entries, make_record
from kinrank_bench.tables import Column, Table

SETS = ("roxford5k", "coil20", "mpeg7", "orl")
MARKS = ((1, 0), (1, 1), (2, 1), (3, 3), (0, 3))  # numbers of relevant and irrelevant marks
MARKED_DEPTH = 20  # marks are among this many first results
Numbers = NDArray[np.int64]
MARK_COLUMNS = (Column("right", "{right}"), Column("wrong", "{wrong}"))
GAIN_PANEL = Panel(
    (
        *MARK_COLUMNS,
        Column("mAP before", "{before:.2p}"),
        Column("after", "{after:.2p}"),
        Column("gain", "{gain:+.2p}"),
        Column("95 % interval", "{low:+.2p} to {high:+.2p}"),
    ),
    "{set}, {truth}: {queries} queries, online",
    by=("set", "truth"),
)
MEAN_PANEL = Panel((*MARK_COLUMNS, Column("mean gain", "{gain:+.2p}")), "all of these", rows="means")


def feedback(
    folder: Folder,
    sets: SetNames = SETS,
    seed: Annotated[int, Option("Seed of the choice of marked results.", least=0)] = 0,
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Mark some right and some wrong ones of the first 20 results, and measure the online mAP before and after.

    \b
    kinrank bench feedback --data DIR
    kinrank bench feedback --data DIR --sets orl --seed 1

    Marked items are removed from both rankings before scoring.

    Queries without a remaining relevant item do not count.

    Returns:
        `results`: dicts with set, truth, right, wrong (numbers of marks), queries, before, after, gain, and low and
        high, the 95 % interval of the gain, paired by query. `means`: the mean gain over sets and truths.
    """
    report, results = Progress(progress), []
    for name in report.each("sets", sets, len(sets)):
        queries, gallery, truths = separate_queries(load(name, folder))
        manifold = Manifold.build(gallery, LPMT())
        first = manifold.search(queries, k=len(gallery))
        for label, truth in truths.items():
            for right, wrong in MARKS:
                marks = [
                    _pick_marks(
                        row[:MARKED_DEPTH], truth.positives[query], truth.junk[query], right, wrong, seed + query
                    )
                    for query, row in enumerate(first.indices)
                ]
                positives, negatives = ([pair[side].tolist() for pair in marks] for side in (0, 1))
                after = manifold.search(queries, k=len(gallery), positives=positives, negatives=negatives)
                rest = _ignore_items(truth, [np.concatenate(pair) for pair in marks], len(gallery))
                found = compare_scores(evaluate(first.indices, rest), evaluate(after.indices, rest))
                about = {"set": name, "truth": label, "right": right, "wrong": wrong}
                results.append({**about, **gain_entries(found)})
    means = [
        {
            "right": right,
            "wrong": wrong,
            "gain": float(np.mean([row["gain"] for row in results if (row["right"], row["wrong"]) == (right, wrong)])),
        }
        for right, wrong in MARKS
    ]
    return make_record("feedback", {"method": "lpmt", "looked_at": MARKED_DEPTH, "results": results, "means": means})


def show_feedback(record: Record) -> list[Table | str]:
    """Return the gains per set, their means, and how marks were chosen."""
    note = f"marked among the first {record['looked_at']}, and taken out before scoring; percent"
    return [*build_panels(record, GAIN_PANEL, MEAN_PANEL), note]


def _pick_marks(
    shown: Numbers, positives: Numbers, junk: Numbers, right: int, wrong: int, seed: int
) -> tuple[Numbers, Numbers]:
    """Pick relevant and irrelevant items at random from the shown results, at most `right` and `wrong`; never junk."""
    order = np.random.default_rng(seed).permutation(shown[shown >= 0])
    good, bad = np.isin(order, positives), ~np.isin(order, np.concatenate([positives, junk]))
    return order[good][:right], order[bad][:wrong]


def _ignore_items(truth: Truth, marked: list[Numbers], size: int) -> Truth:
    """Copy the truth with the marked items as junk, so that they do not count."""
    right = [np.setdiff1d(truth.positives[query], items) for query, items in enumerate(marked)]
    junk = [np.union1d(truth.junk[query], items) for query, items in enumerate(marked)]
    return Truth.from_lists(right, junk, gallery_size=size, average_precision=truth.average_precision)
