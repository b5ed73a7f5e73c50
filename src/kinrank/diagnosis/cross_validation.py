"""Choice of a method and its parameters by cross-validation over labelled queries.

The nested score is the value of the choice on queries that had no part in it, see `kinrank.evaluation.fold_choice`. The
score of the chosen candidate on all queries is optimistic, and is reported for comparison.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.diagnosis.diagnose import Diagnosis, diagnose
from kinrank.diagnosis.parameter_choice import resolve_methods
from kinrank.diagnosis.vector_preparation import WAYS, Preparation, fit_preparation
from kinrank.errors import EXPECTED_ERRORS, InputError
from kinrank.evaluation import Truth, evaluate
from kinrank.evaluation.fold_choice import (
    DEFAULT_FOLDS,
    check_labelled_queries,
    choose_by_folds,
    choose_candidate,
    count_right_answers,
    list_variants,
)
from kinrank.evaluation.scores import Scores, parse_measures
from kinrank.evaluation.significance import Comparison, compare_pairs
from kinrank.evaluation.trials import BASELINE, describe_failure, format_points
from kinrank.methods import LPMT, Method, resolve_method
from kinrank.methods.base import full_repr
from kinrank.progress import Progress, ProgressOption
from kinrank.reranking import rerank
from kinrank.stores.gallery import read_gallery
from kinrank.vector_input import Vectors
from kinrank.vector_space import Space

log = logging.getLogger(__name__)

AS_THEY_ARE = "as they are"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A method with parameters, on original or prepared vectors, and its scores.

    Attributes:
        method: method with its parameters; pass it to `rerank`.
        way: preparation of all vectors: "as they are", "centred" or "half-whitened".
        scores: scores of all labelled queries.
    """

    method: Method
    way: str
    scores: Scores

    @property
    def label(self) -> str:
        return _format_label(self.method, self.way)


@dataclass(frozen=True, eq=False)
class Tuned:
    """Result of `tune`. Prints as sentences and a table.

    Attributes:
        method: chosen method with its parameters.
        way: chosen preparation of the vectors: "as they are", "centred" or "half-whitened".
        nested: comparison with no re-ranking on queries that had no part in the choice: the number to trust.
        on_all: the same comparison for the chosen candidate on all queries, which is optimistic.
        candidates: all candidates, best first.
        folds: candidate chosen for each fold; if they differ, the choice depends on a few queries.
        refused: candidate -> reason why it cannot rank these data.
        diagnosis: what the vectors and the number of relevant items per query (the geometric mean) tell.
        measure: the measure that was maximised.
        space: conversion of vectors to comparable rows, before they are prepared.
        preparation: fitted preparation of the rows; None if they stay as they are.
        failed: candidate -> type and message of an exception that is a bug, not a mistake of the caller.
    """

    method: Method
    way: str
    nested: Comparison
    on_all: Comparison
    candidates: list[Candidate]
    folds: list[str]
    refused: dict[str, str]
    diagnosis: Diagnosis
    measure: str
    space: Space
    preparation: Preparation | None = None
    failed: dict[str, str] = field(default_factory=dict)

    def prepared(self, vectors: ArrayLike) -> Vectors:
        """Prepare vectors of the gallery or of queries as chosen, and return float32 rows for `method`."""
        if self.preparation is None:
            return self.space.rows(vectors, "vectors")
        return self.preparation(self.space.rows(vectors, "vectors", len(self.preparation.mean)))

    def __str__(self) -> str:
        chosen = _format_label(self.method, self.way)
        first = self.candidates[0].label
        ahead = "" if chosen == first else f"; {first} is ahead, but not clearly, on so few labels"
        lines = [
            f"Chosen by {self.measure} on {self.nested.queries} labelled queries: {chosen}{ahead}.",
            f"On queries that had no part in the choice: {self.nested}.",
            f"On the queries that chose it: {format_points(self.on_all.difference)} points, which is optimistic.",
        ]
        if self.nested.low <= 0:
            lines.append(
                "That is not clearly better than no re-ranking: label more queries, or keep the search as it is."
            )
        if len(set(self.folds)) > 1:
            lines.append(
                f"{len(set(self.folds))} different candidates won in {len(self.folds)} folds: none is far ahead."
            )
        width = max(len(candidate.label) for candidate in self.candidates)
        lines += ["", f"{'candidate':{width}}  {self.measure}"]
        lines += [f"{entry.label:{width}}  {100 * entry.scores[self.measure].mean:.2f}" for entry in self.candidates]
        lines += [f"{name} refused: {reason}" for name, reason in self.refused.items()]
        lines += [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "method": self.method.name,
            "parameters": full_repr(self.method),
            "vectors": self.way,
            "measure": self.measure,
            "nested": self.nested.to_dict(),
            "on_all": self.on_all.to_dict(),
            "folds": self.folds,
            "tried": [{"candidate": entry.label, "mean": entry.scores[self.measure].mean} for entry in self.candidates],
            "refused": self.refused,
            "failed": self.failed,
            "diagnosis": self.diagnosis.to_dict(),
        }


def tune(
    queries: ArrayLike | None,
    gallery: ArrayLike,
    truth: Truth,
    *,
    methods: Sequence[Method | str] | str = ("lpmt",),
    measure: str = "mAP",
    prepare: bool = True,
    folds: int = DEFAULT_FOLDS,
    seed: int = 0,
    metric: str = "cosine",
    progress: ProgressOption = None,
) -> Tuned:
    """Choose a method and its parameters by cross-validation over a few dozen labelled queries.

    The labels tell the number of right answers of a query, and LPMT with the `answers` that matches it is expected to
    be best. It is chosen unless another candidate is clearly better, by two standard errors: ten labelled queries
    do not tell more.

    Args:
        queries, gallery: as in `rerank`; queries=None: every item is a query for the others.
        truth: relevant items; queries without any are ignored.
        methods: methods to try; "all" for every method. LPMT is tried for each number of right answers and with each of
            its main parameters changed, other methods with their defaults and with neighbourhoods of half and twice the
            size.
        measure: measure to maximise.
        prepare: also try centred and half-whitened vectors; never done for the euclidean metric.
        folds, seed: number of folds, and seed of the random split.
        metric: "cosine" or "euclidean", as in `rerank`.
        progress: True for a bar, or a callable `f(label, done, total)`.

    Candidates that cannot rank the data are listed in `refused`. Candidates that raise an unexpected exception, which
    is a bug, are listed in `failed`, and the traceback is logged.

    Example:
        >>> tuned = kinrank.tune(queries, gallery, truth)
        >>> print(tuned)
        >>> kinrank.rerank(tuned.prepared(queries), tuned.prepared(gallery), tuned.method)
    """
    measure = str(parse_measures([measure], truth)[0])
    if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= 50:
        raise InputError(parameter="folds", given=folds, allowed="a whole number from 2 to 50")
    chosen_methods = resolve_methods(methods)
    held = read_gallery(gallery, metric, report=Progress(progress))
    gallery_rows, space = held.rows, held.space
    query_rows = None if queries is None else held.convert(queries)
    right = count_right_answers(truth)
    diagnosis = diagnose(gallery_rows, queries=query_rows, right=right, metric=metric)
    ways = (AS_THEY_ARE, *(WAYS if prepare and space.unit else ()))
    grid = [(method, way) for way in ways for method in _list_candidates(chosen_methods, diagnosis, way)]
    candidates: list[Candidate] = []
    refused: dict[str, str] = {}
    failed: dict[str, str] = {}
    preparations: dict[str, Preparation] = {}
    rows: dict[str, tuple[Any, Any]] = {AS_THEY_ARE: (query_rows, gallery_rows)}
    for method, way in Progress(progress).each("candidates", grid, len(grid)):
        if way not in rows:
            prepared = preparations[way] = fit_preparation(way, gallery_rows)
            rows[way] = (None if query_rows is None else prepared(query_rows), prepared(gallery_rows))
        try:
            ranking = rerank(*rows[way], method, metric=metric)
        except EXPECTED_ERRORS as error:
            if not candidates:  # no re-ranking comes first: if it cannot rank the data, nothing can
                raise
            refused[_format_label(method, way)] = str(error)
            continue
        except Exception as error:
            if not candidates:
                raise
            log.exception("%s failed", _format_label(method, way))
            failed[_format_label(method, way)] = describe_failure(error)
            continue
        candidates.append(Candidate(method, way, evaluate(ranking, truth, [measure], resamples=0)))
        if len(candidates) == 1:
            check_labelled_queries(int((~np.isnan(candidates[0].scores[measure].per_query)).sum()), folds)
    likely = [(diagnosis.parameters(method), AS_THEY_ARE) for method in chosen_methods if isinstance(method, LPMT)]
    expected = next((place for place, one in enumerate(candidates) if (one.method, one.way) in likely), None)
    tuned = _cross_validate(candidates, refused, diagnosis, measure, folds, seed, space, expected)
    return dataclasses.replace(tuned, preparation=preparations.get(tuned.way), failed=failed)


def _format_label(method: Method, way: str) -> str:
    return repr(method) + ("" if way == AS_THEY_ARE else f", vectors {way}")


def _list_candidates(methods: Sequence[Method], diagnosis: Diagnosis, way: str) -> list[Method]:
    """List no re-ranking, each method with its defaults and as chosen without labels, and variants of it."""
    grid: list[Method] = [resolve_method(BASELINE)]
    for method in methods:
        grid += [method, diagnosis.parameters(method)]
        if way == AS_THEY_ARE:
            grid += list_variants(method)
    return list(dict.fromkeys(grid))


def _cross_validate(
    candidates: list[Candidate],
    refused: dict[str, str],
    diagnosis: Diagnosis,
    measure: str,
    folds: int,
    seed: int,
    space: Space,
    expected: int | None,
) -> Tuned:
    """Choose the expected candidate or a clearly better one, and score the choice by nested cross-validation."""
    values = np.stack([candidate.scores[measure].per_query for candidate in candidates])  # (candidates, queries)
    counted = np.flatnonzero(~np.isnan(values[0]))
    by_fold, by_query = choose_by_folds(values, folds, seed, expected)
    nested = np.where(by_query < 0, np.nan, values[by_query, np.arange(values.shape[1])])
    order = sorted(range(len(candidates)), key=lambda position: -values[position, counted].mean())
    winner = choose_candidate(values[:, counted], expected)
    best = candidates[winner]
    plain = values[0]  # the first candidate is no re-ranking of the original vectors
    return Tuned(
        method=best.method,
        way=best.way,
        nested=compare_pairs(plain, nested, measure),
        on_all=compare_pairs(plain, values[winner], measure),
        candidates=[candidates[position] for position in order],
        folds=[candidates[winner].label for winner in by_fold],
        refused=refused,
        diagnosis=diagnosis,
        measure=measure,
        space=space,
    )
