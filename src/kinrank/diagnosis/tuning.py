"""Vectors and some labelled queries -> the method and parameters that cross-validation chooses, and an honest number.

Every candidate ranks all queries; labels only choose. The queries are dealt into folds; for each fold the candidate
that is best on the other folds is scored on this one. Put together, that is the nested score: what choosing like this
is worth on queries that had no part in the choice. The score of the chosen candidate on all queries is higher, by luck,
and is told beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.diagnosis.choosing import chosen, named, sizes_of
from kinrank.diagnosis.diagnose import Diagnosis, diagnose, space_of
from kinrank.diagnosis.preparing import WAYS, Preparation, preparation
from kinrank.evaluation import Truth, evaluate
from kinrank.evaluation.compare import Comparison, paired
from kinrank.evaluation.evaluate import Scores
from kinrank.evaluation.measures import Measure
from kinrank.evaluation.trials import PLAIN, REFUSALS, points
from kinrank.features import Vectors
from kinrank.methods import Method, resolve
from kinrank.progress import Progress, Show
from kinrank.rerank import rerank
from kinrank.space import Space

FOLDS = 5
FEW = 10  # judged queries below which nothing can be chosen
AS_THEY_ARE = "as they are"
LPMT_GRID: tuple[dict[str, Any], ...] = (
    {"k2": 3},
    {"k2": 8},
    {"k1": 30},
    {"k1": 120},
    {"theta": 0.2},
    {"theta": 0.6},
    {"direct": 0.0},
    {"direct": 0.5},
    {"direct": 0.9},
    {"direct_k": 320, "direct_support": 256},
)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One thing that was tried: a method with parameters, on vectors as they are or prepared.

    Attributes:
        method: with its parameters; call `rerank` with it.
        way: "as they are", "centred" or "half-whitened": what is done to all vectors before.
        scores: of every query that counts.
    """

    method: Method
    way: str
    scores: Scores

    @property
    def label(self) -> str:
        return _label(self.method, self.way)


@dataclass(frozen=True, eq=False)
class Tuned:
    """What `tune` found; prints as sentences and a table.

    Attributes:
        method: the method to use, with its parameters.
        way: what to do with the vectors before: "as they are", "centred" or "half-whitened".
        nested: the comparison with no re-ranking on queries that had no part in the choice: the number to believe.
        on_all: the same of the chosen candidate on all queries, which flatters it.
        candidates: all that were tried, best first.
        folds: the candidate chosen for each fold; when they differ, the choice hangs on a few queries.
        refused: candidate -> why it could not run.
        diagnosis: what is known without labels.
        measure: what was maximised.
        space: how vectors become rows that can be compared, before they are prepared.
        preparation: what prepares rows that way; None where they stay as they are.
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

    def prepared(self, vectors: ArrayLike) -> Vectors:
        """Vectors of the gallery or of queries, as `method` ranked them: float32 rows, prepared where that was best."""
        if self.preparation is None:
            return self.space.rows(vectors, "vectors")
        return self.preparation(self.space.rows(vectors, "vectors", len(self.preparation.mean)))

    def __str__(self) -> str:
        best = self.candidates[0].label
        lines = [
            f"Best by {self.measure} on {self.nested.queries} judged queries: {best}.",
            f"Choosing like this, on queries that had no part in it: {self.nested}.",
            f"On the queries it was chosen by: {points(self.on_all.difference)} points, which flatters it.",
        ]
        if self.nested.low <= 0:
            lines.append(
                "That is not clearly better than no re-ranking: judge more queries, or leave the search as it is."
            )
        if len(set(self.folds)) > 1:
            lines.append(
                f"{len(set(self.folds))} different candidates won in {len(self.folds)} folds: none is far ahead."
            )
        width = max(len(one.label) for one in self.candidates)
        lines += ["", f"{'tried':{width}}  {self.measure}"]
        lines += [f"{one.label:{width}}  {100 * one.scores[self.measure].mean:.2f}" for one in self.candidates]
        return "\n".join(lines + [f"{name} refused: {why}" for name, why in self.refused.items()])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "method": self.method.name,
            "parameters": self.method.spelled_out(),
            "vectors": self.way,
            "measure": self.measure,
            "nested": self.nested.to_dict(),
            "on_all": self.on_all.to_dict(),
            "folds": self.folds,
            "tried": [{"candidate": one.label, "mean": one.scores[self.measure].mean} for one in self.candidates],
            "refused": self.refused,
            "diagnosis": self.diagnosis.to_dict(),
        }


def tune(
    queries: ArrayLike | None,
    gallery: ArrayLike,
    truth: Truth,
    methods: Sequence[Method | str] | str = ("lpmt",),
    measure: str = "mAP",
    *,
    prepare: bool = True,
    folds: int = FOLDS,
    seed: int = 0,
    metric: str = "cosine",
    progress: Show = None,
) -> Tuned:
    """Choose a method and its parameters by cross-validation over a few dozen judged queries.

    Args:
        queries, gallery: as in `rerank`; queries=None: every item queries the others.
        truth: what is right; queries without a right item do not count.
        methods: whose parameters are tried; "all" for every method. LPMT is tried with each of its main parameters
            changed, others as they come and with neighbourhoods of half and of twice the size.
        measure: what to maximise.
        prepare: whether centred and half-whitened vectors are tried, too; never where lengths matter (euclidean).
        folds, seed: how the queries are dealt.
        metric: "cosine" or "euclidean", as in `rerank`.
        progress: True for a bar, or a callable `f(label, done, total)`.

    Example:
        >>> tuned = kinrank.tune(queries, gallery, truth)
        >>> print(tuned)
        >>> kinrank.rerank(tuned.prepared(queries), tuned.prepared(gallery), tuned.method)
    """
    measure = str(Measure.parse(measure))
    _check_folds(folds)
    others = named(methods)
    space = space_of(gallery, metric, "gallery")
    rows = space.rows(gallery, "gallery")
    asked = None if queries is None else space.rows(queries, "queries", rows.shape[1])
    seen = diagnose(rows, queries=asked, metric=metric)
    ways = (AS_THEY_ARE, *(WAYS if prepare and space.unit else ()))
    tried = [(method, way) for way in ways for method in _grid(others, seen, way)]
    found: list[Candidate] = []
    refused: dict[str, str] = {}
    fitted: dict[str, Preparation] = {}
    made: dict[str, tuple[Any, Any]] = {AS_THEY_ARE: (asked, rows)}
    for method, way in Progress(progress).each("candidates", tried, len(tried)):
        if way not in made:
            prepared = fitted[way] = preparation(way, rows)
            made[way] = (None if asked is None else prepared(asked), prepared(rows))
        try:
            ranking = rerank(*made[way], method, metric=metric)
        except REFUSALS as error:
            if not found:  # no re-ranking comes first: what it refuses is nothing to choose by
                raise
            refused[_label(method, way)] = str(error)
            continue
        found.append(Candidate(method, way, evaluate(ranking, truth, [measure], resamples=0)))
        if len(found) == 1:
            _check_enough(found[0].scores, measure, folds)
    tuned = _judged(found, refused, seen, measure, folds, seed, space)
    return dataclasses.replace(tuned, preparation=fitted.get(tuned.way))


def _label(method: Method, way: str) -> str:
    return repr(method) + ("" if way == AS_THEY_ARE else f", vectors {way}")


def _check_folds(folds: int) -> None:
    if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= 50:
        raise ValueError(f"folds={folds!r} is not allowed; give a whole number from 2 to 50")


def _check_enough(scores: Scores, measure: str, folds: int) -> None:
    judged, needed = int((~np.isnan(scores[measure].per_query)).sum()), max(FEW, 2 * folds)
    if judged < needed:
        raise ValueError(
            f"the truth has right items for {judged} queries; choosing in {folds} folds needs {needed} or more. Judge "
            "more of them, or choose without labels"
        )


def _grid(methods: Sequence[Method], seen: Diagnosis, way: str) -> list[Method]:
    """What is tried: no re-ranking, each method as it comes and as chosen without labels, and variants of it."""
    grid: list[Method] = [resolve(PLAIN)]
    for method in methods:
        grid += [method, chosen(method, seen.facts)]
        if way == AS_THEY_ARE:
            grid += _variants(method)
    return list(dict.fromkeys(grid))


def _variants(method: Method) -> list[Method]:
    if method.name == "lpmt":
        return [dataclasses.replace(method, **changes) for changes in LPMT_GRID]
    sizes = {size.name: getattr(method, size.name) for size in sizes_of(method)}
    scaled = []
    for factor in (0.5, 2.0):
        changes = {name: max(1, round(factor * count)) for name, count in sizes.items() if count}
        scaled.append(dataclasses.replace(method, **changes))
    return scaled


def _judged(
    found: list[Candidate],
    refused: dict[str, str],
    seen: Diagnosis,
    measure: str,
    folds: int,
    seed: int,
    space: Space,
) -> Tuned:
    """Nested cross-validation over what was found."""
    values = np.stack([one.scores[measure].per_query for one in found])  # (candidates, queries)
    counted = np.flatnonzero(~np.isnan(values[0]))
    fold = np.random.default_rng(seed).permutation(len(counted)) % folds
    nested = np.full(values.shape[1], np.nan)
    winners = []
    for number in range(folds):
        others, here = counted[fold != number], counted[fold == number]
        winner = int(np.argmax(values[:, others].mean(axis=1)))  # ties go to the earlier: the plainer
        nested[here] = values[winner, here]
        winners.append(found[winner].label)
    order = sorted(range(len(found)), key=lambda place: -values[place, counted].mean())
    best = found[order[0]]
    plain = values[0]  # no re-ranking of vectors as they are is tried first
    return Tuned(
        method=best.method,
        way=best.way,
        nested=paired(plain, nested, measure),
        on_all=paired(plain, values[order[0]], measure),
        candidates=[found[place] for place in order],
        folds=winners,
        refused=refused,
        diagnosis=seen,
        measure=measure,
        space=space,
    )
