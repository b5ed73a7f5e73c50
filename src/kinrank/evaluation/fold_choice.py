"""Choice among parameters of a method by nested cross-validation over labelled queries.

Every candidate ranks all queries. They are split into folds; for each fold, the candidate that is best on the others is
scored on it, so that no query has a part in the choice for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinrank.errors import EXPECTED_ERRORS, InputError
from kinrank.evaluation.hits import Values
from kinrank.evaluation.measures import Measure
from kinrank.evaluation.ragged_lists import Integers
from kinrank.evaluation.scores import Scores, make_scores, score_ranking
from kinrank.evaluation.truth import Truth
from kinrank.methods import Method
from kinrank.methods.base import full_repr
from kinrank.parameters import Parameter, list_parameters
from kinrank.ranking import Ranking

Run = Callable[[Method], Ranking]  # raises one of EXPECTED_ERRORS if the method cannot rank these data
DEFAULT_FOLDS = 5
MIN_JUDGED_QUERIES = 10  # fewer labelled queries are not enough to choose
CLEAR_ERRORS = 2.0  # standard errors by which another candidate must be better than the expected one
LPMT_VALUES = {"answers": ("one", "few", "some", "many"), "k2": (8,), "k1": (30, 120), "direct": (0.0, 0.5, 0.9)}
LPMT_GRID = tuple({name: value} for name, values in LPMT_VALUES.items() for value in values)


def choose_candidate(values: Values, expected: int | None = None) -> int:
    """Choose the best candidate; `values` is (candidates, queries). Ties go to the earlier candidate.

    `expected`: the candidate that is chosen unless the best one is better by CLEAR_ERRORS standard errors. Without it,
    the best of many candidates on ten queries is often one that was only lucky.
    """
    best = int(np.argmax(values.mean(axis=1)))
    if expected is None or values.shape[1] < 2:
        return best if expected is None else expected
    ahead = values[best] - values[expected]
    return best if ahead.mean() > CLEAR_ERRORS * ahead.std(ddof=1) / np.sqrt(len(ahead)) else expected


def choose_by_folds(values: Values, folds: int, seed: int, expected: int | None = None) -> tuple[list[int], Integers]:
    """Choose for each fold the candidate that is best on the others; `values` is (candidates, queries), NaN: left out.

    Returns the candidate for each fold, and the one for each query, or -1 if it is left out. Ties go to the earlier
    candidate, so list the simpler ones first. `expected`: as in `choose_candidate`.
    """
    counted = np.flatnonzero(~np.isnan(values[0]))
    fold = np.random.default_rng(seed).permutation(len(counted)) % folds
    by_query, by_fold = np.full(values.shape[1], -1), []
    for number in range(folds):
        best = choose_candidate(values[:, counted[fold != number]], expected)
        by_query[counted[fold == number]] = best
        by_fold.append(best)
    return by_fold, by_query


def score_by_folds(
    run: Run, method: Method, truth: Truth, measures: Sequence[Measure], chance: dict[str, Any], folds: int
) -> dict[str, Any]:
    """Rank with every candidate, and score each query with the one that is best by the first measure on other folds.

    Returns scores, parameters, seconds, tuned and tried, as they are in a Trial.
    Candidates that cannot rank the data are left out, unless it is the method as it was given.
    """
    candidates: list[tuple[Method, Scores, float]] = []
    for candidate in dict.fromkeys([method, *list_variants(method)]):
        try:
            ranking = run(candidate)
        except EXPECTED_ERRORS:
            if not candidates:
                raise
            continue
        scores = score_ranking(ranking, truth, measures, **{**chance, "resamples": 0})
        candidates.append((candidate, scores, float(ranking.meta["seconds"]) / max(1, len(ranking))))
    names = list(map(str, measures))
    values = np.array([[scores[name].per_query for name in names] for _, scores, _ in candidates])
    by_fold, by_query = choose_by_folds(values[:, 0], folds, chance["seed"])
    chosen = np.where(by_query < 0, np.nan, values[by_query, :, np.arange(values.shape[2])].T)
    made = {"scores": make_scores(names, chosen, **chance), "resamples": chance["resamples"]}
    return {
        "scores": dataclasses.replace(candidates[0][1], **made),
        "parameters": full_repr(candidates[int(np.argmax(np.nanmean(values[:, 0], axis=1)))][0]),
        "seconds": float(np.mean([candidates[winner][2] for winner in by_fold])),
        "tuned": tuple(repr(candidates[winner][0]) for winner in by_fold),
        "tried": len(candidates),
    }


def count_right_answers(truth: Truth) -> float | None:
    """Return the geometric mean of the number of relevant items of the labelled queries, the usual number.

    Of ten queries, it is nearer to the number of all of them than the median, and a query with very many counts little.
    """
    counts = truth.positives.counts[truth.positives.counts > 0]
    return round(float(np.exp(np.log(counts).mean())), 6) if counts.size else None


def check_labelled_queries(labelled: int, folds: int) -> None:
    """Refuse a choice by too few queries."""
    needed = max(MIN_JUDGED_QUERIES, 2 * folds)
    if labelled < needed:
        raise InputError(
            f"the truth has relevant items for {labelled} queries, but {folds} folds need at least {needed}",
            remedy="label more queries, or choose without labels",
        )


def list_variants(method: Method) -> list[Method]:
    """List LPMT for each number of right answers and with each main parameter changed; others with other sizes.

    These have half and twice their neighbourhood sizes.
    """
    if method.name == "lpmt":
        return [dataclasses.replace(method, **changes) for changes in LPMT_GRID]
    sizes = {size.name: getattr(method, size.name) for size in list_neighborhood_sizes(method)}
    scaled = []
    for factor in (0.5, 2.0):
        changes = {name: max(1, round(factor * count)) for name, count in sizes.items() if count}
        scaled.append(dataclasses.replace(method, **changes))
    return scaled


def list_neighborhood_sizes(method: Method) -> list[Parameter]:
    """List the parameters of a method that are numbers of neighbours."""
    return [declared for declared in list_parameters(type(method)) if declared.counts and declared.name.startswith("k")]
