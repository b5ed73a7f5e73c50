"""Scores of a ranking: mean, value per query and confidence interval of every measure."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError, TruncatedRankingWarning
from kinrank.evaluation.hits import Values, find_hits
from kinrank.evaluation.measures import Measure
from kinrank.evaluation.truncation import Truncation, find_truncation
from kinrank.evaluation.truth import Truth
from kinrank.ranking import Ranking

JSON_FIELDS = ("queries", "left_out", "missing", "unknown", "confidence", "resamples", "seed")  # of Scores, for JSON
MAX_DRAWS_IN_MEMORY = 2_000_000  # query numbers that are drawn at once


@dataclass(frozen=True, eq=False)
class Score:
    """One measure: its mean over the queries with positives, the interval of the mean, and the value of every query.

    `per_query` is in the order of the truth, with NaN for queries without positives. All values are between 0 and 1.
    """

    measure: str
    mean: float
    low: float
    high: float
    per_query: Values

    def __float__(self) -> float:
        return self.mean

    def __repr__(self) -> str:
        return f"{self.measure} {100 * self.mean:.2f} [{100 * self.low:.2f}, {100 * self.high:.2f}]"


@dataclass(frozen=True, eq=False)
class Scores(Mapping[str, Score]):
    """Result of `evaluate`: `scores["mAP"].mean`. Prints as a table in percent; `to_dict()` for JSON.

    Attributes:
        scores: measure -> Score.
        queries: number of queries of the ranking and the truth together.
        left_out: number of queries without positives, which do not count.
        confidence, resamples, seed: settings of the intervals.
        missing: number of queries of the truth that the ranking does not have; they count as not found.
        unknown: number of listed items that the judgements do not have; they count as not relevant.
        query_ids: ids of the queries, in the order of `per_query`; None if they are numbered by row.
        truncated: measures that are too low because the ranking stops early; None if all are complete.
    """

    scores: dict[str, Score]
    queries: int
    left_out: int
    confidence: float
    resamples: int
    seed: int
    missing: int = 0
    unknown: int = 0
    query_ids: NDArray[Any] | None = None
    truncated: Truncation | None = None

    def __getitem__(self, measure: str) -> Score:
        name = str(Measure.parse(measure))
        if name not in self.scores:
            raise KeyError(f"{name} was not evaluated; available are: {', '.join(self.scores)}")
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __contains__(self, measure: object) -> bool:
        return measure in self.scores

    def __str__(self) -> str:
        width = max([len("measure"), *map(len, self.scores)])
        size = max([5, *(len(f"{100 * score.mean:.2f}") for score in self.scores.values())])
        lines = [f"{'measure':<{width}}  {'mean':>{size}}   {100 * self.confidence:g} % interval"]
        for name, score in self.scores.items():
            mean, low, high = 100 * score.mean, 100 * score.low, 100 * score.high
            lines.append(f"{name:<{width}}  {mean:{size}.2f}   {low:5.2f} to {high:5.2f}")
        lines.append(f"percent, {self.queries - self.left_out} queries, {self.left_out} without positives left out")
        if self.missing:
            lines.append(f"{self.missing} queries are not in the ranking: they count as not found")
        if self.unknown:
            lines.append(f"{self.unknown} of the listed items are not in the judgements: they count as not relevant")
        if self.truncated is not None:
            lines.append(self.truncated.describe())
        return "\n".join(lines)

    def __repr__(self) -> str:
        scores = ", ".join(map(repr, self.scores.values()))
        return f"Scores({scores}; {self.left_out} of {self.queries} left out)"

    def to_dict(self, per_query: bool = False) -> dict[str, Any]:
        """Return plain numbers between 0 and 1 for JSON, or None. `per_query` adds the value of each query."""
        measures: dict[str, Any] = {}
        for name, score in self.scores.items():
            measures[name] = {key: _to_json(getattr(score, key)) for key in ("mean", "low", "high")}
            if per_query:
                measures[name]["per_query"] = [_to_json(value) for value in score.per_query]
        facts = {key: getattr(self, key) for key in JSON_FIELDS}
        facts["truncated"] = None if self.truncated is None else asdict(self.truncated)
        if per_query and self.query_ids is not None:
            facts["query_ids"] = self.query_ids.tolist()
        return {"measures": measures, **facts}


def evaluate(
    ranking: Ranking | ArrayLike,
    truth: Truth,
    measures: Sequence[str] | str | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Scores:
    """Compute mean, value per query, and percentile bootstrap interval over the queries of every measure.

    Args:
        ranking: a Ranking, or (queries, depth) item numbers. If it is shorter than the gallery, positives that it does
            not list count as not found, and a TruncatedRankingWarning names the measures that are too low for that
            reason; -1 is padding. Junk of the truth is removed before ranks are counted.
        truth: relevant items. If ranking and truth have ids, queries and items are matched by them. If the ranking has
            none, its rows and item numbers are those of the truth. A ranking with ids needs a truth with ids: give the
            truth `item_ids=manifold.ids`.
        measures: `mAP`, `mAP@k` (only hits in the first k, divided by the number of all positives: map_cut_k of
            trec_eval), `R@k` (at least one positive in the first k), `recall@k` (share of positives found), `mP@k`
            (precision of the revisited protocol), `P@k`, `nDCG`, `nDCG@k`, `MRR`, `bullseye@k`, `CMC@k` (the name of
            R@k in person re-identification), `mINP` (number of positives divided by the rank of the last one). Default:
            the usual ones of the truth, such as mAP and R@1 of labels.
        confidence: confidence level of the interval, between 0 and 1.
        resamples: number of resamples of the queries, with replacement; 0 for no interval (NaN).
        seed: the same seed gives the same interval.

    Queries without positives are left out and counted in `left_out`.

    Example:
        >>> evaluate([[1, 0]], Truth.from_lists([[0]]), ["mAP", "R@1"])["mAP"].mean
        0.5
    """
    chance: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    scores = score_ranking(ranking, truth, parse_measures(measures, truth), **chance)
    if scores.truncated is not None:
        remedy = "rank more items (k=len(gallery) ranks all)"
        warnings.warn(scores.truncated.describe(remedy), TruncatedRankingWarning, stacklevel=2)
    return scores


def score_ranking(
    ranking: Ranking | ArrayLike,
    truth: Truth,
    parsed: Sequence[Measure],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Scores:
    """Do what `evaluate` does, without its warning."""
    if not isinstance(confidence, numbers.Real) or not 0 < confidence < 1:
        raise InputError(parameter="confidence", given=confidence, allowed="a number between 0 and 1, such as 0.95")
    if isinstance(resamples, bool) or not isinstance(resamples, (int, np.integer)) or resamples < 0:
        raise InputError(parameter="resamples", given=resamples, allowed="a whole number >= 0")
    hits = find_hits(ranking, truth)
    values = np.array([measure(hits) for measure in parsed]).reshape(len(parsed), len(truth))
    counted = hits.positives > 0
    return Scores(
        make_scores(list(map(str, parsed)), values, confidence, resamples, seed),
        queries=len(truth) + hits.unjudged,
        left_out=int((~counted).sum()) + hits.unjudged,
        confidence=confidence,
        resamples=int(resamples),
        seed=seed,
        missing=hits.missing,
        unknown=hits.unknown,
        query_ids=truth.query_ids,
        truncated=find_truncation(hits, parsed),
    )


def make_scores(names: Sequence[str], values: Values, confidence: float, resamples: int, seed: int) -> dict[str, Score]:
    """Make the scores of (measures, queries) values; NaN marks queries that do not count."""
    counted = ~np.isnan(values).any(axis=0)
    means, lows, highs = bootstrap_intervals(values[:, counted], confidence, resamples, seed)
    return {
        name: Score(name, float(means[i]), float(lows[i]), float(highs[i]), values[i]) for i, name in enumerate(names)
    }


def parse_measures(measures: Sequence[str] | str | None, truth: Truth) -> list[Measure]:
    """Parse the names of measures; None stands for the usual ones of the truth."""
    if not isinstance(truth, Truth):
        raise InputError(f"is a {type(truth).__name__}", parameter="truth", allowed="a Truth, see Truth.from_labels")
    names = truth.usual_measures if measures is None else measures
    parsed = [Measure.parse(text) for text in ([names] if isinstance(names, str) else names)]
    if not parsed:
        raise InputError("is empty", parameter="measures", allowed="at least one measure, such as 'mAP'")
    return parsed


def bootstrap_intervals(values: Values, confidence: float, resamples: int, seed: int) -> tuple[Values, Values, Values]:
    """Return mean, low and high of every row of (rows, queries). All rows use the same resamples."""
    rows, count = values.shape
    nothing = np.full(rows, np.nan)
    if count == 0:
        return nothing, nothing, nothing
    means = np.ascontiguousarray(values).mean(axis=1)  # the last bit does not depend on the number of rows
    if resamples == 0:
        return means, nothing, nothing
    drawn = np.empty((rows, resamples))
    for block, queries in draw_queries(count, resamples, seed):
        for row in range(rows):
            drawn[row, block] = values[row][queries].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=1)
    return means, low, high


def draw_queries(count: int, resamples: int, seed: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Yield blocks of (resamples, count) query numbers drawn with replacement."""
    generator = np.random.default_rng(seed)
    step = max(1, MAX_DRAWS_IN_MEMORY // count)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        yield slice(start, stop), generator.integers(0, count, (stop - start, count))


def _to_json(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
