"""Comparison of re-ranking methods on labelled data: scores, gains over no re-ranking, and time of each method."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from kinrank.errors import EXPECTED_ERRORS
from kinrank.evaluation.scores import Scores, evaluate, parse_measures
from kinrank.evaluation.significance import Comparison, compare_scores
from kinrank.evaluation.truth import Truth
from kinrank.feature_combination import Combined
from kinrank.methods import METHODS, Method, resolve_method
from kinrank.methods.base import full_repr
from kinrank.methods.learned_method import LearnedMethod
from kinrank.progress import Progress, ProgressOption
from kinrank.ranking import Ranking
from kinrank.reranking import rerank
from kinrank.reranking.candidates import CandidateOption, resolve_candidates
from kinrank.stores import Store
from kinrank.tables import align_columns
from kinrank.vector_input import to_array
from kinrank.warmup import warm_up_method

log = logging.getLogger(__name__)

BASELINE = "none"
MIN_METHODS_FOR_CHANCE_NOTE = 10  # with so many methods, some are better or worse by chance
MAX_LISTED_METHODS = 6  # methods that a sentence names, the worst first
VARIANTS = ("lpmt-ablation", "lpmt-as-published")  # of LPMT, in kinrank-bench; measured only if they are named
Run = Callable[[Method], Ranking]  # raises one of EXPECTED_ERRORS if the method cannot rank these data


@dataclass(frozen=True, eq=False)
class Trial:
    """Result of one method.

    Attributes:
        method: name, with the parameters that differ from their defaults.
        parameters: the method with all parameters, as Python code.
        scores: all measures with their intervals.
        gains: measure -> paired comparison with no re-ranking; above 0 if the method is better.
        seconds: time per query, without compilation.
    """

    method: str
    parameters: str
    scores: Scores
    gains: dict[str, Comparison]
    seconds: float


@dataclass(frozen=True, eq=False)
class Trials(Sequence[Trial]):
    """Result of `compare`: one Trial per method, best first by the first measure. Prints as a table.

    Attributes:
        trials: one for each method that ran, including no re-ranking.
        refused: method -> reason why it cannot rank these data.
        measures: names of the measures; the first one determines the order.
        queries, items: their numbers.
        mode: how they were ranked (joint, online, candidates 500).
        confidence: confidence level of the intervals.
        failed: method -> type and message of an exception that is a bug in the method, not a mistake of the caller.
    """

    trials: list[Trial]
    refused: dict[str, str]
    measures: list[str]
    queries: int
    items: int | None
    mode: str
    confidence: float
    failed: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, position: Any) -> Any:
        return self.trials[position]

    def __len__(self) -> int:
        return len(self.trials)

    def __repr__(self) -> str:
        best = ", ".join(f"{trial.method} {trial.scores[self.measures[0]]!r}" for trial in self.trials[:3])
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"Trials({best}{', ...' if len(self) > 3 else ''}; {len(self.refused)} refused{failed})"

    @property
    def about(self) -> str:
        """One line that describes the numbers."""
        items = "" if self.items is None else f" {self.items} items,"
        return f"percent, {self.queries} queries,{items} {self.mode}; best {self.measures[0]} first"

    @property
    def verdict(self) -> list[str]:
        """Sentences about the best method, whether re-ranking helps, and which methods make it worse."""
        measure = self.measures[0]
        others = [trial for trial in self.trials if trial.method != BASELINE]
        better = [trial for trial in others if trial.gains[measure].low > 0]
        sentences = []
        if better:
            gain = better[0].gains[measure]
            interval = f"{format_points(gain.low)} to {format_points(gain.high)}"
            sentences.append(
                f"Re-ranking helps here: {better[0].method} is better than no re-ranking in {measure} "
                f"({format_points(gain.difference)} points, {100 * self.confidence:g} % interval {interval}, "
                f"p = {gain.p:.4f})."
            )
        elif others and others[0].scores.resamples:  # without them there are no intervals to judge by
            sentences.append(f"No method is clearly better than no re-ranking in {measure} here.")
        for measure in self.measures:
            gains = [(trial.gains[measure], trial.method) for trial in others]
            hurt = sorted((gain.difference, name) for gain, name in gains if gain.high < 0)
            if hurt:
                worst = ", ".join(
                    f"{name} ({format_points(difference)})" for difference, name in hurt[:MAX_LISTED_METHODS]
                )
                more = f" and {len(hurt) - MAX_LISTED_METHODS} more" if len(hurt) > MAX_LISTED_METHODS else ""
                sentences.append(
                    f"Re-ranking hurts {measure} here with {worst}{more}: their whole interval lies below 0."
                )
        if len(others) >= MIN_METHODS_FOR_CHANCE_NOTE:
            sentences.append("Every p is that of a single comparison: by chance, one in twenty is below 0.05.")
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; None for a number that does not exist."""
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
        names = ("queries", "items", "mode", "confidence", "refused", "failed", "verdict")
        return {**{name: getattr(self, name) for name in names}, "methods": methods}

    def table(self) -> list[list[str]]:
        """Return rows of text, the heading first: first measure in percent, its gain, the time, the other measures."""
        interval, (first, *rest) = f"{100 * self.confidence:g} % interval", self.measures
        heading = ["method", first, interval, f"{first} gained", interval, "p", "ms/query"]
        rows = [heading + [cell for measure in rest for cell in (measure, interval)]]
        for trial in self.trials:
            gain = trial.gains[first]
            gained = [
                format_points(gain.difference),
                f"{format_points(gain.low)} to {format_points(gain.high)}",
                f"{gain.p:.4f}",
            ]
            row = [trial.method, *_format_score(trial, first), *(["", "", ""] if trial.method == BASELINE else gained)]
            row.append(f"{1000 * trial.seconds:.3g}")
            rows.append(row + [cell for measure in rest for cell in _format_score(trial, measure)])
        return rows

    def __str__(self) -> str:
        rows = self.table()
        lines = [align_columns(rows, right=range(1, len(rows[0]))), self.about]
        lines += [f"{name} refused: {reason}" for name, reason in self.refused.items()]
        lines += [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        return "\n".join([*lines, "", *self.verdict]).rstrip()


def compare(
    queries: ArrayLike | None,
    gallery: ArrayLike | Store,
    truth: Truth,
    *,
    methods: Sequence[Method | str] | str = "all",
    measures: Sequence[str] | str | None = None,
    candidates: CandidateOption = None,
    k: int | None = None,
    max_memory: int | str | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    progress: ProgressOption = None,
    metric: str | None = None,
) -> Trials:
    """Try methods on your own data and compare each with no re-ranking, query by query.

    Args:
        queries, gallery, candidates, max_memory, metric: as in `rerank`.
        k: number of items to rank per query. Default: all items, or the candidates of a vector database.
        truth: relevant items of each query.
        methods: Methods or names, or "all" for every method with its default parameters (except VARIANTS, which must
            be named). No re-ranking is always included.
        measures: as in `evaluate`; the first one determines the order and the verdict. Default: the usual ones of the
            truth, such as mAP and R@1 of labels.
        confidence, resamples, seed: for the intervals, as in `evaluate`, and the paired test, as in `compare_scores`.
        progress: True for a bar, or a callable `f(label, done, total)`.

    A method that cannot rank the data, because it would need too much memory or has no weights, is listed in `refused`
    with the reason. A method that raises any other exception is listed in `failed`, and its traceback is logged: that
    is a bug. Data that cannot be ranked at all, such as rows with NaN, raise an InputError.

    Example:
        >>> trials = kinrank.compare(queries, gallery, truth, methods=["lpmt", "aqe"], measures=["mAP", "R@1"])
        >>> print(trials)
        >>> trials[0].method
    """
    wanted = [str(measure) for measure in parse_measures(measures, truth)]
    chosen = label_methods(methods)
    if not isinstance(gallery, (Store, Combined)):
        gallery = to_array(gallery, "gallery")  # a file, for example, has no length
    run = make_runner(queries, gallery, candidates, k, max_memory, metric)
    chance: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    steps = run_trials(run, chosen, truth, wanted, chance)
    report = Progress(progress).each("methods", steps, 1 + len(chosen))
    runs = [trial_run._replace(ranking=None) for trial_run in report]  # all rankings may not fit in memory
    items = len(gallery) if isinstance(gallery, Sized) else None
    return summarize_trials(runs, wanted, len(truth), items, confidence)


class TrialRun(NamedTuple):
    """One method with its ranking and result, or the reason why there is none (`refused` or `failed`)."""

    label: str
    method: Method
    ranking: Ranking | None = None
    trial: Trial | None = None
    mode: str = ""
    refused: str = ""
    failed: str = ""


def make_runner(
    queries: ArrayLike | None,
    gallery: ArrayLike | Store,
    candidates: CandidateOption = None,
    k: int | None = None,
    max_memory: int | str | None = None,
    metric: str | None = None,
) -> Run:
    """Return a function that ranks with a method. It compiles the loops first, so that the time excludes compilation.

    With candidates of an array, all items are ranked: those after the candidates keep the order of the search, so that
    measures of whole rankings mean the same as without candidates.
    """
    each = resolve_candidates(candidates, gallery, queries is None)
    if each is not None and k is None and isinstance(gallery, Sized):
        k = None if isinstance(gallery, Store) else max(1, len(gallery))
    limits: dict[str, Any] = {"candidates": candidates, "k": k, "max_memory": max_memory, "metric": metric}

    count = None  # of the items of one graph, if there is one
    if each is None and isinstance(gallery, Sized):
        count = len(gallery) + (len(queries) if isinstance(queries, Sized) else 0)

    def run(method: Method) -> Ranking:
        warm_up_method(method, count)
        return rerank(queries, gallery, method, **limits)

    return run


def run_trials(
    run: Run, methods: dict[str, Method], truth: Truth, measures: Sequence[str], chance: dict[str, Any]
) -> Iterator[TrialRun]:
    """Run no re-ranking and then every method; score each one and compare it with no re-ranking.

    An exception of no re-ranking is raised, because the cause is in the data or the store.

    Args:
        run: ranks all queries with a method.
        methods: methods by label, see `label_methods`.
        chance: confidence, resamples and seed of intervals and tests.
    """
    plain: Scores | None = None
    for label, method in {BASELINE: resolve_method(BASELINE), **methods}.items():
        try:
            ranking = run(method)
        except EXPECTED_ERRORS as error:
            if plain is None:
                raise
            yield TrialRun(label, method, refused=str(error))
            continue
        except Exception as error:
            if plain is None:
                raise
            log.exception("%s failed", label)
            yield TrialRun(label, method, failed=describe_failure(error))
            continue
        scores = evaluate(ranking, truth, measures, **chance)
        plain = plain or scores
        gains = {measure: compare_scores(plain, scores, measure, **chance) for measure in measures}
        seconds = float(ranking.meta["seconds"]) / max(1, len(ranking))
        trial = Trial(label, full_repr(method), scores, gains, seconds)
        yield TrialRun(label, method, ranking, trial, describe_mode(ranking))


def summarize_trials(
    tried: Sequence[TrialRun], measures: list[str], queries: int, items: int | None, confidence: float
) -> Trials:
    """Collect the results of methods that were run. The first one is no re-ranking."""
    trials = [entry.trial for entry in tried if entry.trial is not None]
    refused = {entry.label: entry.refused for entry in tried if entry.refused}
    failed = {entry.label: entry.failed for entry in tried if entry.failed}
    best = sorted(trials, key=lambda trial: -sorting_score(trial, measures[0]))
    return Trials(best, refused, measures, queries, items, tried[0].mode, confidence, failed)


def describe_failure(error: Exception) -> str:
    """Write the type and the message of an unexpected exception."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def describe_mode(ranking: Ranking) -> str:
    """Describe how it was ranked: joint, online, or candidates and their number; and the metric unless it is cosine."""
    meta = ranking.meta
    count = f" {meta['candidates']}" if "candidates" in meta else ""
    return f"{meta['mode']}{count}" + (", euclidean" if meta["metric"] == "euclidean" else "")


def sorting_score(trial: Trial, measure: str) -> float:
    """Return the mean of a measure for sorting; minus infinity if there is none."""
    mean = trial.scores[measure].mean
    return -math.inf if math.isnan(mean) else mean


def label_methods(methods: Sequence[Method | str] | str) -> dict[str, Method]:
    """Return the methods by label, each once, without no re-ranking, which is always included.

    "all" means those that need only vectors, not the learned ones, whose weights have to be fitted first.
    """
    if isinstance(methods, str):
        methods = list_untrained_methods() if methods == "all" else [methods]
    chosen = [resolve_method(method) for method in methods]
    labels = {method.name if method == type(method)() else repr(method): method for method in chosen}
    return {label: method for label, method in labels.items() if label != BASELINE}


def list_untrained_methods() -> list[str]:
    """List the names of all methods that need no weights."""
    return [name for name, kind in METHODS.items() if name not in VARIANTS and not issubclass(kind, LearnedMethod)]


def _format_score(trial: Trial, measure: str) -> tuple[str, str]:
    score = trial.scores[measure]
    return f"{100 * score.mean:.2f}", f"{100 * score.low:.2f} to {100 * score.high:.2f}"


def format_points(difference: float) -> str:
    """Format a difference in percent with its sign. Differences that round to zero are +0.00."""
    return f"{round(100 * difference, 2) + 0.0:+.2f}"
