"""A ranking, its truth and some measures -> Scores: mean, per query, confidence interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.evaluation.hits import Values, find_hits
from kinrank.evaluation.measures import Measure
from kinrank.evaluation.truth import Truth
from kinrank.ranking import Ranking

FACTS = ("queries", "left_out", "missing", "unknown", "confidence", "resamples", "seed")  # of Scores, for JSON
CHUNK = 2_000_000  # drawn query numbers held at once


@dataclass(frozen=True, eq=False)
class Score:
    """One measure: its mean over the queries with positives, the interval of that mean, every query's value.

    `per_query` has the queries in the order of the truth, NaN for those without positives. All values lie between 0
    and 1.
    """

    measure: str
    mean: float
    low: float
    high: float
    per_query: Values

    def __repr__(self) -> str:
        return f"{self.measure} {100 * self.mean:.2f} [{100 * self.low:.2f}, {100 * self.high:.2f}]"


@dataclass(frozen=True, eq=False)
class Scores(Mapping[str, Score]):
    """What `evaluate` found: `scores["mAP"].mean`; prints as a table in percent; `to_dict()` for JSON.

    Attributes:
        scores: measure -> Score.
        queries: how many queries the ranking and the truth have together.
        left_out: how many of them have no positive and count nowhere.
        confidence, resamples, seed: how the intervals were made.
        missing: how many queries of the truth the ranking does not answer; nothing is found for them.
        unknown: how many entries of the ranking name an item that the judgements do not know; they are not right.
        query_ids: the names of the queries, in the order of `per_query`; None where they go by row.
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

    def __getitem__(self, measure: str) -> Score:
        name = str(Measure.parse(measure))
        if name not in self.scores:
            raise KeyError(f"{name} was not evaluated; these were: {', '.join(self.scores)}")
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __contains__(self, measure: object) -> bool:
        return measure in self.scores

    def __str__(self) -> str:
        width = max([len("measure"), *map(len, self.scores)])
        lines = [f"{'measure':<{width}}   mean   {100 * self.confidence:g} % interval"]
        for name, score in self.scores.items():
            mean, low, high = 100 * score.mean, 100 * score.low, 100 * score.high
            lines.append(f"{name:<{width}}  {mean:5.2f}   {low:5.2f} to {high:5.2f}")
        lines.append(f"percent, {self.queries - self.left_out} queries, {self.left_out} without positives left out")
        if self.missing:
            lines.append(f"{self.missing} queries are not in the ranking: nothing is found for them")
        if self.unknown:
            lines.append(f"{self.unknown} of the listed items are not in the judgements: they count as not right")
        return "\n".join(lines)

    def __repr__(self) -> str:
        scores = ", ".join(map(repr, self.scores.values()))
        return f"Scores({scores}; {self.left_out} of {self.queries} left out)"

    def to_dict(self, per_query: bool = False) -> dict[str, Any]:
        """Plain numbers between 0 and 1 for JSON, None where there is none; `per_query` adds each query's."""
        measures: dict[str, Any] = {}
        for name, score in self.scores.items():
            measures[name] = {key: _plain(getattr(score, key)) for key in ("mean", "low", "high")}
            if per_query:
                measures[name]["per_query"] = [_plain(value) for value in score.per_query]
        facts = {key: getattr(self, key) for key in FACTS}
        if per_query and self.query_ids is not None:
            facts["query_ids"] = self.query_ids.tolist()
        return {"measures": measures, **facts}


def evaluate(
    ranking: Ranking | ArrayLike,
    truth: Truth,
    measures: Sequence[str] | str = ("mAP",),
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Scores:
    """Mean, value per query, and percentile bootstrap interval over the queries, for every measure.

    Args:
        ranking: a Ranking, or (queries, depth) item numbers. Where it is shorter than the gallery, positives
            it does not list count as not found; -1 is padding. Junk of the truth takes no rank.
        truth: what is right. Where ranking and truth have ids, queries and items are matched by them. Where the ranking
            has none, its rows and item numbers are those of the truth. A ranking with ids and a truth without are
            refused: give the truth `item_ids=manifold.ids`.
        measures: `mAP`, `mAP@k` (only hits in the first k, over the number of all positives: trec_eval's map_cut_k),
            `R@k` (at least one positive in the first k), `recall@k` (share of positives found), `mP@k` (precision of
            the revisited protocol), `P@k`, `nDCG`, `nDCG@k`, `MRR`, `bullseye@k`, `CMC@k` (R@k as person
            re-identification calls it), `mINP` (positives over the rank of the last one).
        confidence: of the interval, between 0 and 1.
        resamples: of the queries, with replacement; 0 for no interval (NaN).
        seed: same seed, same interval.

    Queries without positives are left out and counted in `left_out`.

    Example:
        >>> evaluate([[1, 0]], Truth.from_lists([[0]]), ["mAP", "R@1"])["mAP"].mean
        0.5
    """
    wanted = [Measure.parse(text) for text in ([measures] if isinstance(measures, str) else measures)]
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} is not allowed; give a number between 0 and 1, such as 0.95")
    if isinstance(resamples, bool) or not isinstance(resamples, (int, np.integer)) or resamples < 0:
        raise ValueError(f"resamples={resamples!r} is not allowed; give a whole number >= 0")
    hits = find_hits(ranking, truth)
    values = np.array([measure(hits) for measure in wanted]).reshape(len(wanted), len(truth))
    counted = hits.positives > 0
    means, lows, highs = intervals(values[:, counted], confidence, resamples, seed)
    scores = {
        str(measure): Score(str(measure), float(means[i]), float(lows[i]), float(highs[i]), values[i])
        for i, measure in enumerate(wanted)
    }
    return Scores(
        scores,
        queries=len(truth) + hits.unjudged,
        left_out=int((~counted).sum()) + hits.unjudged,
        confidence=confidence,
        resamples=int(resamples),
        seed=seed,
        missing=hits.missing,
        unknown=hits.unknown,
        query_ids=truth.query_ids,
    )


def intervals(values: Values, confidence: float, resamples: int, seed: int) -> tuple[Values, Values, Values]:
    """(rows, queries) -> mean, low and high of every row, all rows drawing the same queries."""
    rows, count = values.shape
    nothing = np.full(rows, np.nan)
    if count == 0:
        return nothing, nothing, nothing
    means = values.mean(axis=1)
    if resamples == 0:
        return means, nothing, nothing
    drawn = np.empty((rows, resamples))
    for some, queries in draws(count, resamples, seed):
        for row in range(rows):
            drawn[row, some] = values[row][queries].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=1)
    return means, low, high


def draws(count: int, resamples: int, seed: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Blocks of (resamples, count) query numbers drawn with replacement."""
    generator = np.random.default_rng(seed)
    step = max(1, CHUNK // count)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        yield slice(start, stop), generator.integers(0, count, (stop - start, count))


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
