"""Scores of a sample of the queries of a set: for benches that compare many settings on the same queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Truth, evaluate
from kinrank.problem import Items
from kinrank.ranking import Ranking, rank_rows
from kinrank.vector_input import check_vectors, to_unit_rows
from kinrank_bench.datasets.benchmark import Benchmark

MEASURES = ("mAP", "R@1")


def load_items(bench: Benchmark, queries: NDArray[np.int64] | None = None) -> Items:
    """Return the items of a set; `queries` are the only queries of a joint set, by default all."""
    gallery = to_unit_rows(check_vectors(bench.gallery, "gallery"), "gallery")
    if bench.queries is None:
        return Items.from_gallery(gallery)
    rows = bench.queries if queries is None else bench.queries[queries]
    return Items.joint(to_unit_rows(check_vectors(rows, "queries"), "queries"), gallery)


def rank_sample(values: NDArray[Any], sample: NDArray[np.int64], items: Items) -> Ranking:
    """Rank the gallery by the distances of sampled queries, (q, g); an item is not its own result."""
    values = np.array(values)
    if items.self_query:
        values[np.arange(len(sample)), sample] = np.inf
    return Ranking(*rank_rows(values, values.shape[1] - int(items.self_query)))


def score_sample(ranking: Ranking, truths: dict[str, Truth]) -> list[dict[str, Any]]:
    """Return the means of mAP and R@1, one row per truth."""
    rows = []
    for label, truth in truths.items():
        scores = evaluate(ranking, truth, MEASURES, resamples=0)
        rows.append({"truth": label, "mean": scores["mAP"].mean, "first": scores["R@1"].mean})
    return rows
