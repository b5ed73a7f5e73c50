"""Methods and a way to run them -> Trials, and the orders of the two that are shown side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.evaluation import Truth, compare, evaluate
from kinrank.evaluation.trials import PLAIN, REFUSALS, Trial, Trials, ranked
from kinrank.manifold import Manifold
from kinrank.methods import Method, resolve
from kinrank.progress import Progress
from kinrank.ranking import Ranking
from kinrank.warmup import warm

Order = NDArray[np.int32]
Run = Callable[[Method], Ranking | str]
CHAINED = "lpmt"  # shown side by side with no re-ranking where it ran: it can say why
SAID = {
    "joint": "queries and gallery in one graph, as in the published tables",
    "candidates": "a small graph per query, over its nearest items only",
    "online": "one query at a time, never in the graph, against a gallery prepared once",
}


@dataclass(frozen=True, eq=False)
class Tried:
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


def runner(
    queries: ArrayLike | None,
    gallery: ArrayLike,
    candidates: int | None,
    online: bool,
    max_memory: int | str | None,
    metric: str | None,
) -> Run:
    """How a method is run: jointly, over candidates, or online; it gives a Ranking, or the sentence of its refusal."""
    if not online:
        limits = {"candidates": candidates, "max_memory": max_memory, "metric": metric}
        return lambda method: ranked(method, queries, gallery, **limits)
    if candidates is not None:
        raise ValueError("candidates= and online= are two ways to rank; give one of them")
    if queries is None:
        raise ValueError("online= is for queries outside the gallery; give queries=, or leave it out")
    asked = queries

    def served(method: Method) -> Ranking | str:
        try:
            if method.name == PLAIN:  # a search needs nothing prepared
                found = ranked(method, asked, gallery, max_memory=max_memory, metric=metric)
                return found if isinstance(found, str) else Ranking(found.indices, found.distances, _online(found.meta))
            warm(method)
            manifold = Manifold.build(gallery, method, max_memory=max_memory, changes=False, metric=metric)
            return manifold.search(asked, k=len(manifold))
        except REFUSALS as error:
            return str(error)

    return served


def _online(meta: dict[str, Any]) -> dict[str, Any]:
    return meta | {"mode": "online"}


def try_methods(
    run: Run,
    methods: Sequence[Method | str],
    truth: Truth,
    measures: Sequence[str],
    items: int,
    progress: Progress,
    stages: int,
) -> Tried:
    """Run every method, no re-ranking first, and score each against it; `stages` more pieces of work will follow."""
    chosen = _labelled(methods)
    total = len(chosen) + 1 + stages
    progress.stage(PLAIN, 0, total)
    first = run(resolve(PLAIN))
    if isinstance(first, str):
        raise ValueError(first)
    plain = _tried(PLAIN, resolve(PLAIN), first, truth, measures, None)
    found, refused, shown = [plain], {}, None
    for number, (label, method) in enumerate(chosen.items(), start=1):
        progress.stage(label, number, total)
        ranking = run(method)
        if isinstance(ranking, str):
            refused[label] = ranking
            continue
        trial = _tried(label, method, ranking, truth, measures, plain)
        found.append(trial)
        worth = label == CHAINED, _worth(trial, measures[0])
        if shown is None or worth > shown[0]:
            shown = worth, label, method, ranking.indices.astype(np.int32)
        del ranking
    if shown is None:
        said = "; ".join(f"{label}: {sentence}" for label, sentence in refused.items())
        raise ValueError(f"no method ran, so there is nothing to compare: {said}")
    best = sorted(found, key=lambda trial: -_worth(trial, measures[0]))
    mode = str(first.meta["mode"]) + (", euclidean" if first.meta["metric"] == "euclidean" else "")
    trials = Trials(best, refused, list(plain.scores), len(truth), items, mode, plain.scores.confidence)
    return Tried(trials, shown[1], shown[2], first.indices.astype(np.int32), shown[3])


def _labelled(methods: Sequence[Method | str]) -> dict[str, Method]:
    resolved = [resolve(method) for method in methods]
    labels = {method.name if method == type(method)() else repr(method): method for method in resolved}
    chosen = {label: method for label, method in labels.items() if label != PLAIN}
    if not chosen:
        raise ValueError("methods has nothing but none; give at least one that re-ranks, such as lpmt")
    return chosen


def _tried(
    label: str, method: Method, ranking: Ranking, truth: Truth, measures: Sequence[str], plain: Trial | None
) -> Trial:
    scores = evaluate(ranking, truth, measures)
    against = scores if plain is None else plain.scores
    gains = {measure: compare(against, scores, measure, resamples=scores.resamples) for measure in scores}
    return Trial(label, method.spelled_out(), scores, gains, float(ranking.meta["seconds"]) / max(1, len(ranking)))


def _worth(trial: Trial, measure: str) -> float:
    mean = trial.scores[measure].mean
    return -math.inf if math.isnan(mean) else mean
