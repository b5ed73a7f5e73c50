"""Runs of the methods: scores of all of them, and the rankings of the two that are shown side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.evaluation import Truth
from kinrank.evaluation.fold_choice import Run
from kinrank.evaluation.trials import (
    BASELINE,
    Trials,
    label_methods,
    make_runner,
    run_trials,
    sorting_score,
    summarize_trials,
)
from kinrank.manifold import Manifold
from kinrank.methods import Method
from kinrank.progress import Progress
from kinrank.ranking import Ranking
from kinrank.reranking.candidates import CandidateOption
from kinrank.warmup import warm_up_method

RankOrder = NDArray[np.int32]
EXPLAINED_METHOD = "lpmt"  # preferred for display, because its chains explain the results
BOOTSTRAP = {"confidence": 0.95, "resamples": 2000, "seed": 0}
MODE_TEXTS = {
    "joint": "queries and gallery in one graph, as in the published tables",
    "candidates": "a small graph per query, over its {} nearest items; the others follow in the order of the search",
    "online": "one query at a time, never in the graph, against a gallery prepared once",
}


@dataclass(frozen=True, eq=False)
class MethodResults:
    """Results of the methods.

    Attributes:
        trials: scores of all methods.
        name, method: the one shown next to no re-ranking.
        before, after: (queries, depth) item numbers of no re-ranking and of that method, padded with -1.
    """

    trials: Trials
    name: str
    method: Method
    before: RankOrder
    after: RankOrder


def mode_sentence(mode: str) -> str:
    """Describe a mode of Trials."""
    way, _, count = mode.split(",")[0].partition(" ")
    return MODE_TEXTS[way].format(count)


@dataclass(frozen=True)
class RunOptions:
    """Options of all methods in a report.

    Attributes:
        candidates, max_memory, metric: as in `kinrank.compare`.
        online: one query at a time against a gallery that is prepared once; for queries outside the gallery.
    """

    candidates: CandidateOption = None
    online: bool = False
    max_memory: int | str | None = None
    metric: str | None = None


DEFAULT_RUN = RunOptions()


def choose_runner(queries: ArrayLike | None, gallery: ArrayLike, options: RunOptions) -> Run:
    """Return a function that runs a method: jointly, over candidates, or online."""
    candidates, max_memory, metric = options.candidates, options.max_memory, options.metric
    if not options.online:
        return make_runner(queries, gallery, candidates, None, max_memory, metric)
    if candidates is not None:
        raise InputError("`candidates` and `online` cannot be combined", remedy="give one of them")
    if queries is None:
        raise InputError("`online` is for queries outside the gallery", remedy="give `queries`, or leave it out")
    query_vectors, run_search = queries, make_runner(queries, gallery, max_memory=max_memory, metric=metric)

    def run_online(method: Method) -> Ranking:
        if method.name == BASELINE:  # no preparation needed
            ranking = run_search(method)
            return Ranking(ranking.indices, ranking.distances, ranking.meta | {"mode": "online"})
        warm_up_method(method)
        manifold = Manifold.build(gallery, method, max_memory=max_memory, changes=False, metric=metric)
        return manifold.search(query_vectors, k=len(manifold))

    return run_online


def run_methods(
    run: Run,
    methods: Sequence[Method | str] | str,
    truth: Truth,
    measures: list[str],
    items: int,
    progress: Progress,
    stages: int,
) -> MethodResults:
    """Run every method as `compare` does, and keep two rankings; `stages` more stages will follow."""
    chosen = label_methods(methods)
    if not chosen:
        raise InputError("has only none", parameter="methods", remedy="give at least one that re-ranks, such as lpmt")
    names = [BASELINE, *chosen]
    trial_runs, best, before, displayed = [], (False, 0.0), None, None
    progress.stage(BASELINE, 0, len(names) + stages)
    for number, result in enumerate(run_trials(run, chosen, truth, measures, BOOTSTRAP), start=1):
        if number < len(names):
            progress.stage(names[number], number, len(names) + stages)
        trial_runs.append(result._replace(ranking=None))
        if result.trial is None or result.ranking is None:
            continue
        rating = result.method.name == EXPLAINED_METHOD, sorting_score(result.trial, measures[0])
        if before is None:
            before = result.ranking.indices.astype(np.int32)
        elif displayed is None or rating > best:
            best, displayed = rating, (result.label, result.method, result.ranking.indices.astype(np.int32))
    if displayed is None or before is None:
        errors = [(result.label, result.refused or result.failed) for result in trial_runs]
        reasons = "; ".join(f"{label}: {error}" for label, error in errors if error)
        kind = RuntimeError if any(result.failed for result in trial_runs) else InputError  # a failure is a bug
        raise kind(f"no method ran, so there is nothing to compare: {reasons}")
    trials = summarize_trials(trial_runs, measures, len(truth), items, BOOTSTRAP["confidence"])
    return MethodResults(trials, displayed[0], displayed[1], before, displayed[2])
