"""Queries, a gallery, what is right and some methods -> Trials: who is better than no re-ranking, and at what cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from kinrank.evaluation.compare import Comparison, compare
from kinrank.evaluation.evaluate import Scores, evaluate
from kinrank.evaluation.measures import Measure
from kinrank.evaluation.truth import Truth
from kinrank.methods import METHODS, Method, resolve
from kinrank.methods.learned import Learned
from kinrank.progress import Progress, Show
from kinrank.ranking import Ranking
from kinrank.rerank import rerank
from kinrank.stores import Store
from kinrank.warmup import warm

PLAIN = "none"
MANY = 10  # methods from which on some are better or worse by chance
LISTED = 6  # methods that a sentence names at most, the worst first
ABLATION = "lpmt-ablation"  # a tool that takes LPMT apart, and no method of its own
Run = Callable[[Method], Ranking]  # raises one of REFUSALS where a method cannot
REFUSALS = (MemoryError, ValueError, ImportError, OSError)  # too large, or weights or a package are missing


@dataclass(frozen=True, eq=False)
class Trial:
    """How one method did.

    Attributes:
        method: its name; with its parameters, where they are not the defaults.
        parameters: the method with its parameters, as Python writes it.
        scores: every measure with its interval.
        gains: measure -> the paired comparison with no re-ranking; above 0 where the method is better.
        seconds: what ranking took per query, after its loops were compiled.
    """

    method: str
    parameters: str
    scores: Scores
    gains: dict[str, Comparison]
    seconds: float


@dataclass(frozen=True, eq=False)
class Trials(Sequence[Trial]):
    """What `compare_methods` found: Trials, best first by the first measure; prints as a table with its verdict.

    Attributes:
        trials: one for each method that ran, no re-ranking among them.
        refused: method -> the sentence with which it refused.
        measures: the first one decides about the order.
        queries, items, mode: how many there are, and how they were ranked (joint, online, candidates 500).
        confidence: of the intervals.
    """

    trials: list[Trial]
    refused: dict[str, str]
    measures: list[str]
    queries: int
    items: int | None
    mode: str
    confidence: float

    def __getitem__(self, place: Any) -> Any:
        return self.trials[place]

    def __len__(self) -> int:
        return len(self.trials)

    def __repr__(self) -> str:
        best = ", ".join(f"{trial.method} {trial.scores[self.measures[0]]!r}" for trial in self.trials[:3])
        return f"Trials({best}{', ...' if len(self) > 3 else ''}; {len(self.refused)} refused)"

    @property
    def about(self) -> str:
        """What the numbers are, in a line."""
        items = "" if self.items is None else f" {self.items} items,"
        return f"percent, {self.queries} queries,{items} {self.mode}; best {self.measures[0]} first"

    @property
    def verdict(self) -> list[str]:
        """Plain sentences: what is best, whether re-ranking is worth it, with which methods it hurts."""
        measure = self.measures[0]
        others = [trial for trial in self.trials if trial.method != PLAIN]
        better = [trial for trial in others if trial.gains[measure].low > 0]
        said = []
        if better:
            gain = better[0].gains[measure]
            said.append(
                f"Re-ranking helps here: {better[0].method} is better than no re-ranking in {measure} "
                f"({points(gain.difference)} points, {100 * self.confidence:g} % interval {points(gain.low)} to "
                f"{points(gain.high)}, p = {gain.p:.4f})."
            )
        elif others:
            said.append(f"No method is clearly better than no re-ranking in {measure} here.")
        for measure in self.measures:
            gains = [(trial.gains[measure], trial.method) for trial in others]
            hurt = sorted((gain.difference, name) for gain, name in gains if gain.high < 0)
            if hurt:
                most = ", ".join(f"{name} ({points(difference)})" for difference, name in hurt[:LISTED])
                more = f" and {len(hurt) - LISTED} more" if len(hurt) > LISTED else ""
                said.append(f"Re-ranking hurts {measure} here with {most}{more}: their whole interval lies below 0.")
        if len(others) >= MANY:
            said.append("Every p is that of one comparison alone: chance puts one in twenty of them below 0.05.")
        return said

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; None where there is no number."""
        methods = [
            {
                "method": trial.method,
                "parameters": trial.parameters,
                "seconds_per_query": trial.seconds,
                "measures": trial.scores.to_dict()["measures"],
                "gains": {measure: gain.to_dict() for measure, gain in trial.gains.items()},
            }
            for trial in self.trials
        ]
        facts = {name: getattr(self, name) for name in ("queries", "items", "mode", "confidence", "refused", "verdict")}
        return {**facts, "methods": methods}

    def table(self) -> list[list[str]]:
        """Rows of text, the heading first: the first measure in percent, what is gained in it, the time, the others."""
        interval, (first, *rest) = f"{100 * self.confidence:g} % interval", self.measures
        heading = ["method", first, interval, f"{first} gained", interval, "p", "ms/query"]
        rows = [heading + [cell for measure in rest for cell in (measure, interval)]]
        for trial in self.trials:
            gain = trial.gains[first]
            gained = [points(gain.difference), f"{points(gain.low)} to {points(gain.high)}", f"{gain.p:.4f}"]
            row = [trial.method, *_cells(trial, first), *(["", "", ""] if trial.method == PLAIN else gained)]
            row.append(f"{1000 * trial.seconds:.3g}")
            rows.append(row + [cell for measure in rest for cell in _cells(trial, measure)])
        return rows

    def __str__(self) -> str:
        rows = self.table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if place else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines.append(self.about)
        lines += [f"{name} refused: {sentence}" for name, sentence in self.refused.items()]
        return "\n".join([*lines, "", *self.verdict]).rstrip()


def compare_methods(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    truth: Truth,
    methods: Sequence[Method | str] | str = "all",
    measures: Sequence[str] | str = ("mAP",),
    *,
    candidates: int | None = None,
    depth: int | None = None,
    max_memory: int | str | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    progress: Show = None,
    metric: str | None = None,
) -> Trials:
    """Try methods on data of your own, and compare each with no re-ranking, query by query.

    Args:
        queries, gallery_or_store, candidates, max_memory, metric: as in `rerank`.
        depth: how many items per query are ranked; all of them unless given, but over a vector database the candidates.
        truth: what is right, one entry per query.
        methods: Methods or names; "all" for every method at its defaults (lpmt-ablation, which takes lpmt apart, only
            where you name it). No re-ranking is always among them.
        measures: as in `evaluate`; the first one decides about the order and the verdict.
        confidence, resamples, seed: of the intervals, as in `evaluate`, and of the paired test, as in `compare`.
        progress: True for a bar, or a callable `f(label, done, total)`.

    A method that refuses, because it would need too much memory or misses its weights, is listed in `refused` with its
    sentence. Data that no re-ranking refuses, such as rows with NaN, is a ValueError.

    Example:
        >>> trials = kinrank.compare_methods(queries, gallery, truth, ["lpmt", "aqe"], ["mAP", "R@1"])
        >>> print(trials)
        >>> trials[0].method
    """
    wanted = [str(Measure.parse(text)) for text in ([measures] if isinstance(measures, str) else measures)]
    if not wanted:
        raise ValueError("measures is empty; give at least one, such as mAP")
    chosen = labelled(methods)
    run = runner(queries, gallery_or_store, candidates, depth, max_memory, metric)
    chance: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    steps = tried_one_by_one(run, chosen, truth, wanted, chance)
    report = Progress(progress).each("methods", steps, 1 + len(chosen))
    found = [one._replace(ranking=None) for one in report]  # rankings of all methods at once may not fit in memory
    items = len(gallery_or_store) if isinstance(gallery_or_store, Sized) else None
    return summed_up(found, wanted, len(truth), items, confidence)


class Tried(NamedTuple):
    """One method that was run: its label, its ranking and how it did; or the sentence with which it refused."""

    label: str
    method: Method
    ranking: Ranking | None = None
    trial: Trial | None = None
    mode: str = ""
    refused: str = ""


def runner(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    candidates: int | None = None,
    depth: int | None = None,
    max_memory: int | str | None = None,
    metric: str | None = None,
) -> Run:
    """How a method is run, after its loops were compiled, so that the time is its own.

    Over candidates of an array all items are ranked: what lies behind the candidates keeps the order of the search, and
    a measure that looks at whole rankings means the same as without candidates.
    """
    if candidates is not None and depth is None and isinstance(gallery_or_store, Sized):
        depth = None if isinstance(gallery_or_store, Store) else max(1, len(gallery_or_store))
    limits: dict[str, Any] = {"candidates": candidates, "depth": depth, "max_memory": max_memory, "metric": metric}

    def run(method: Method) -> Ranking:
        warm(method)
        return rerank(queries, gallery_or_store, method, **limits)

    return run


def tried_one_by_one(
    run: Run, methods: dict[str, Method], truth: Truth, measures: Sequence[str], chance: dict[str, Any]
) -> Iterator[Tried]:
    """No re-ranking, then every method, each scored and compared with it; a method that refuses has no ranking.

    What no re-ranking refuses is an error of the data, and is raised.

    Args:
        run: a method -> its ranking of all queries.
        methods: under the names they are listed by, see `labelled`.
        chance: confidence, resamples and seed of intervals and tests.
    """
    plain: Scores | None = None
    for label, method in {PLAIN: resolve(PLAIN), **methods}.items():
        try:
            ranking = run(method)
        except REFUSALS as error:
            if plain is None:
                raise
            yield Tried(label, method, refused=str(error))
            continue
        scores = evaluate(ranking, truth, measures, **chance)
        plain = plain or scores
        gains = {measure: compare(plain, scores, measure, **chance) for measure in measures}
        seconds = float(ranking.meta["seconds"]) / max(1, len(ranking))
        trial = Trial(label, method.spelled_out(), scores, gains, seconds)
        yield Tried(label, method, ranking, trial, mode_of(ranking))


def summed_up(
    tried: Sequence[Tried], measures: list[str], queries: int, items: int | None, confidence: float
) -> Trials:
    """The Trials of methods that were run, no re-ranking first among them."""
    found = [one.trial for one in tried if one.trial is not None]
    refused = {one.label: one.refused for one in tried if one.trial is None}
    best = sorted(found, key=lambda trial: -worth(trial, measures[0]))
    return Trials(best, refused, measures, queries, items, tried[0].mode, confidence)


def mode_of(ranking: Ranking) -> str:
    """How it was ranked: joint, online, or candidates with their number; and the metric where it is not cosine."""
    meta = ranking.meta
    count = f" {meta['candidates']}" if "candidates" in meta else ""
    return f"{meta['mode']}{count}" + (", euclidean" if meta["metric"] == "euclidean" else "")


def worth(trial: Trial, measure: str) -> float:
    """The mean of a measure, by which methods are sorted; the least of all where there is none."""
    mean = trial.scores[measure].mean
    return -math.inf if math.isnan(mean) else mean


def labelled(methods: Sequence[Method | str] | str) -> dict[str, Method]:
    """Methods under the names they are listed by, each once; no re-ranking is left out, because it is always there.

    "all" are those that need nothing but vectors: not the learned ones, whose weights have to be fitted first.
    """
    if isinstance(methods, str):
        methods = without_weights() if methods == "all" else [methods]
    chosen = [resolve(method) for method in methods]
    labels = {method.name if method == type(method)() else repr(method): method for method in chosen}
    return {label: method for label, method in labels.items() if label != PLAIN}


def without_weights() -> list[str]:
    """The names of all methods that run as they are."""
    return [name for name, kind in METHODS.items() if name != ABLATION and not issubclass(kind, Learned)]


def _cells(trial: Trial, measure: str) -> tuple[str, str]:
    score = trial.scores[measure]
    return f"{100 * score.mean:.2f}", f"{100 * score.low:.2f} to {100 * score.high:.2f}"


def points(difference: float) -> str:
    """A difference in percent, with its sign; what rounds to nothing is +0.00."""
    return f"{round(100 * difference, 2) + 0.0:+.2f}"
