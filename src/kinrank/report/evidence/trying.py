"""Methods and a way to run them -> Trials, and the orders of the two that are shown side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.evaluation import Truth
from kinrank.evaluation.trials import PLAIN, Run, Trials, labelled, runner, summed_up, tried_one_by_one, worth
from kinrank.manifold import Manifold
from kinrank.methods import Method
from kinrank.progress import Progress
from kinrank.ranking import Ranking
from kinrank.warmup import warm

Order = NDArray[np.int32]
CHAINED = "lpmt"  # shown side by side with no re-ranking where it ran: it can say why
CHANCE = {"confidence": 0.95, "resamples": 2000, "seed": 0}
SAID = {
    "joint": "queries and gallery in one graph, as in the published tables",
    "candidates": "a small graph per query, over its {} nearest items; the others follow in the order of the search",
    "online": "one query at a time, never in the graph, against a gallery prepared once",
}


@dataclass(frozen=True, eq=False)
class Shown:
    """What the methods did.

    Attributes:
        trials: the scores of all of them.
        name, method: the one that is shown beside no re-ranking.
        before, after: (queries, depth) item numbers, of no re-ranking and of that method; -1 pads.
    """

    trials: Trials
    name: str
    method: Method
    before: Order
    after: Order


def said_of(mode: str) -> str:
    """A mode of Trials in words."""
    way, _, count = mode.split(",")[0].partition(" ")
    return SAID[way].format(count)


def way_to_run(
    queries: ArrayLike | None,
    gallery: ArrayLike,
    candidates: int | None,
    online: bool,
    max_memory: int | str | None,
    metric: str | None,
) -> Run:
    """How a method is run: jointly, over candidates, or online."""
    if not online:
        return runner(queries, gallery, candidates, None, max_memory, metric)
    if candidates is not None:
        raise ValueError("candidates= and online= are two ways to rank; give one of them")
    if queries is None:
        raise ValueError("online= is for queries outside the gallery; give queries=, or leave it out")
    asked, searched = queries, runner(queries, gallery, max_memory=max_memory, metric=metric)

    def served(method: Method) -> Ranking:
        if method.name == PLAIN:  # a search needs nothing prepared
            found = searched(method)
            return Ranking(found.indices, found.distances, found.meta | {"mode": "online"})
        warm(method)
        manifold = Manifold.build(gallery, method, max_memory=max_memory, changes=False, metric=metric)
        return manifold.search(asked, k=len(manifold))

    return served


def try_methods(
    run: Run,
    methods: Sequence[Method | str] | str,
    truth: Truth,
    measures: list[str],
    items: int,
    progress: Progress,
    stages: int,
) -> Shown:
    """Run every method as `compare_methods` does, and keep two orders; `stages` more pieces of work will follow."""
    chosen = labelled(methods)
    if not chosen:
        raise ValueError("methods has nothing but none; give at least one that re-ranks, such as lpmt")
    names = [PLAIN, *chosen]
    tried, best, before, shown = [], (False, 0.0), None, None
    progress.stage(PLAIN, 0, len(names) + stages)
    for number, one in enumerate(tried_one_by_one(run, chosen, truth, measures, CHANCE), start=1):
        if number < len(names):
            progress.stage(names[number], number, len(names) + stages)
        tried.append(one._replace(ranking=None))
        if one.trial is None or one.ranking is None:
            continue
        mine = one.method.name == CHAINED, worth(one.trial, measures[0])
        if before is None:
            before = one.ranking.indices.astype(np.int32)
        elif shown is None or mine > best:
            best, shown = mine, (one.label, one.method, one.ranking.indices.astype(np.int32))
    if shown is None or before is None:
        said = "; ".join(f"{one.label}: {one.refused}" for one in tried if one.refused)
        raise ValueError(f"no method ran, so there is nothing to compare: {said}")
    trials = summed_up(tried, measures, len(truth), items, CHANCE["confidence"])
    return Shown(trials, shown[0], shown[1], before, shown[2])
