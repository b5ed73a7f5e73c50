"""Comparison of re-ranking methods on labelled data: scores, tests, and time of each method."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinrank.errors import EXPECTED_ERRORS, InputError
from kinrank.evaluation.fold_choice import (
    DEFAULT_FOLDS,
    Run,
    check_labelled_queries,
    score_by_folds,
)
from kinrank.evaluation.pair_tests import CORRECTIONS, run_pair_tests
from kinrank.evaluation.scores import Scores, parse_measures, score_ranking
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
MAX_LISTED_METHODS = 6  # methods that a sentence names, the worst first
VARIANTS = ("lpmt-ablation", "lpmt-as-published")  # of LPMT, in kinrank-bench; measured only if they are named


@dataclass(frozen=True, eq=False)
class Trial:
    """Result of one method.

    Attributes:
        method: name, with the parameters that differ from their defaults.
        parameters: the method with all parameters, as Python code; if it was tuned, those chosen by all queries.
        scores: all measures with their intervals.
        gains: measure -> paired comparison with no re-ranking; above 0 if the method is better.
        seconds: time per query, without compilation.
        p_to_best: measure -> p-value of the difference to the best method; 1 for itself.
        beats: measure -> methods that this one is significantly better than, by the tests of all pairs.
        tuned: parameters that were chosen for each fold; empty if the method was not tuned.
        tried: number of candidates that they were chosen among.
    """

    method: str
    parameters: str
    scores: Scores
    gains: dict[str, Comparison]
    seconds: float
    p_to_best: dict[str, float] = field(default_factory=dict)
    beats: dict[str, list[str]] = field(default_factory=dict)
    tuned: tuple[str, ...] = ()
    tried: int = 1


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
        correction: correction of all p-values for the number of tests: "holm" or "none".
    """

    trials: list[Trial]
    refused: dict[str, str]
    measures: list[str]
    queries: int
    items: int | None
    mode: str
    confidence: float
    failed: dict[str, str] = field(default_factory=dict)
    correction: str = "none"

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
    def alpha(self) -> float:
        """p-values below this are significant."""
        return round(1.0 - self.confidence, 12)

    def best(self, measure: str) -> Trial:
        """Return the method with the highest mean of a measure."""
        return max(self.trials, key=lambda trial: sorting_score(trial, measure))

    def ties(self, measure: str) -> list[str]:
        """List the methods that are not significantly different from the best one."""
        best = self.best(measure)
        return [t.method for t in self.trials if t is not best and t.p_to_best[measure] >= self.alpha]

    @property
    def notes(self) -> list[str]:
        """Sentences about the tests, tuned parameters, and measures that need longer rankings."""
        sentences = []
        if len(self.trials) > 1 and self.trials[0].scores.resamples:
            rule = "Every p is that of a single comparison: by chance, one in twenty is below 0.05."
            if self.correction == "holm":
                rule = "Holm's method corrects each column of p for the number of methods; intervals are not corrected."
            sentences.append(f"Significant means p < {self.alpha:g}, by paired randomization tests. {rule}")
        tuned = [trial for trial in self.trials if trial.tuned]
        if tuned:
            sentences.append(
                f"Parameters of each method were chosen by {len(tuned[0].tuned)}-fold cross-validation on "
                f"{self.measures[0]}: each query is scored with parameters that were chosen without it."
            )
        for trial in tuned:
            folds = ", ".join(f"{name} in {trial.tuned.count(name)}" for name in dict.fromkeys(trial.tuned))
            sentences.append(f"{trial.method}: {folds} of {len(trial.tuned)} folds; {trial.tried} candidates.")
        truncated = self.trials[0].scores.truncated
        return sentences if truncated is None else [*sentences, f"{truncated.describe()}."]

    @property
    def verdict(self) -> list[str]:
        """Sentences about the best method, whether re-ranking helps, and which methods make it worse."""
        measure = self.measures[0]
        others = [trial for trial in self.trials if trial.method != BASELINE]
        better = [trial for trial in others if self.differs(trial, measure) > 0]
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
        if len(others) > 1 and not math.isnan(self.trials[-1].p_to_best[measure]):
            names = [self.best(measure).method, *self.ties(measure)]
            best, *ties = ("no re-ranking" if name == BASELINE else name for name in names)
            equal = f". Not significantly different from it: {', '.join(ties)}."
            sentences.append(f"Best in {measure}: {best}{equal if ties else ', significantly better than all others.'}")
        for measure in self.measures:
            gains = [(trial.gains[measure], trial.method) for trial in others]
            hurt = sorted((gain.difference, name) for gain, name in gains if gain.high < 0 and gain.p < self.alpha)
            if hurt:
                worst = ", ".join(
                    f"{name} ({format_points(difference)})" for difference, name in hurt[:MAX_LISTED_METHODS]
                )
                more = f" and {len(hurt) - MAX_LISTED_METHODS} more" if len(hurt) > MAX_LISTED_METHODS else ""
                sentences.append(
                    f"Re-ranking hurts {measure} here with {worst}{more}: their whole interval lies below 0."
                )
        return sentences

    def differs(self, trial: Trial, measure: str) -> int:
        """Return 1 or -1 if a method is significantly better or worse than no re-ranking, else 0."""
        gain = trial.gains[measure]
        return int(gain.p < self.alpha) * (int(gain.low > 0) - int(gain.high < 0))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; None for a number that does not exist."""
        methods = [
            {
                "method": trial.method,
                "parameters": trial.parameters,
                "seconds_per_query": trial.seconds,
                "measures": trial.scores.to_dict()["measures"],
                "gains": {measure: gain.to_dict() for measure, gain in trial.gains.items()},
                "p_to_best": {measure: None if math.isnan(p) else p for measure, p in trial.p_to_best.items()},
                "beats": trial.beats,
                "tuned": list(trial.tuned),
                "tried": trial.tried,
            }
            for trial in self.trials
        ]
        names = ("queries", "items", "mode", "confidence", "correction", "refused", "failed", "verdict", "notes")
        facts: dict[str, Any] = {name: getattr(self, name) for name in names}
        facts["best"] = {measure: self.best(measure).method for measure in self.measures}
        facts["ties"] = {measure: self.ties(measure) for measure in self.measures}
        return {**facts, "truncated": self.trials[0].scores.to_dict()["truncated"], "methods": methods}

    def table(self) -> list[list[str]]:
        """Return rows of text, the heading first: first measure in percent, its gain, the time, the other measures."""
        interval, (first, *rest) = f"{100 * self.confidence:g} % interval", self.measures
        heading = ["method", first, interval, f"{first} gained", interval, "p", "p to best", "ms/query"]
        rows = [heading + [cell for measure in rest for cell in (measure, interval)]]
        for trial in self.trials:
            gain = trial.gains[first]
            gained = [
                format_points(gain.difference),
                f"{format_points(gain.low)} to {format_points(gain.high)}",
                f"{gain.p:.4f}",
            ]
            row = [trial.method, *_format_score(trial, first), *(["", "", ""] if trial.method == BASELINE else gained)]
            p = trial.p_to_best[first]
            to_best = "best" if trial is self.best(first) else f"{p:.4f}{', tie' * (p >= self.alpha)}"
            row += [to_best, f"{1000 * trial.seconds:.3g}"]
            rows.append(row + [cell for measure in rest for cell in _format_score(trial, measure)])
        return rows

    def __str__(self) -> str:
        rows = self.table()
        lines = [align_columns(rows, right=range(1, len(rows[0]))), self.about]
        lines += [f"{name} refused: {reason}" for name, reason in self.refused.items()]
        lines += [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        return "\n".join([*lines, "", *self.verdict, *self.notes]).rstrip()


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
    correction: str = "holm",
    tune: bool = False,
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
        confidence, resamples, seed: for the intervals, as in `evaluate`, and the paired tests, which use at least
            10,000 resamples. p-values below 1 - confidence are significant.
        progress: True for a bar, or a callable `f(label, done, total)`.
        correction: "holm" corrects the p-values for the number of methods, "none" does not.
        tune: choose the parameters of every method among the candidates of `kinrank.tune`, by cross-validation on the
            first measure: each query is scored with parameters that were chosen without it. LPMT then runs ten
            times, other methods up to three times.

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
    if correction not in CORRECTIONS:
        raise InputError(parameter="correction", given=correction, allowed=" | ".join(CORRECTIONS))
    if tune:
        check_labelled_queries(int((truth.positives.counts > 0).sum()), DEFAULT_FOLDS)
    if not isinstance(gallery, (Store, Combined)):
        gallery = to_array(gallery, "gallery")  # a file, for example, has no length
    run = make_runner(queries, gallery, candidates, k, max_memory, metric)
    chance: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    steps = run_trials(run, chosen, truth, wanted, chance, DEFAULT_FOLDS if tune else None)
    report = Progress(progress).each("methods", steps, 1 + len(chosen))
    runs = [trial_run._replace(ranking=None) for trial_run in report]  # all rankings may not fit in memory
    items = len(gallery) if isinstance(gallery, Sized) else None
    return summarize_trials(runs, wanted, len(truth), items, confidence, correction)


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
    run: Run,
    methods: dict[str, Method],
    truth: Truth,
    measures: Sequence[str],
    chance: dict[str, Any],
    folds: int | None = None,
) -> Iterator[TrialRun]:
    """Run no re-ranking and then every method; score each one and compare it with no re-ranking.

    An exception of no re-ranking is raised, because the cause is in the data or the store.

    Args:
        run: ranks all queries with a method.
        methods: methods by label, see `label_methods`.
        chance: confidence, resamples and seed of intervals and tests.
        folds: number of folds to choose parameters by; None for the parameters as they are.
    """
    plain: Scores | None = None
    parsed = parse_measures(measures, truth)
    for label, method in {BASELINE: resolve_method(BASELINE), **methods}.items():
        try:
            if folds is not None and plain is not None:
                tuned = score_by_folds(run, method, truth, parsed, chance, folds)
                gains = {measure: compare_scores(plain, tuned["scores"], measure, **chance) for measure in measures}
                yield TrialRun(label, method, trial=Trial(method=label, gains=gains, **tuned))
                continue
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
        scores = score_ranking(ranking, truth, parsed, **chance)
        plain = plain or scores
        gains = {measure: compare_scores(plain, scores, measure, **chance) for measure in measures}
        seconds = float(ranking.meta["seconds"]) / max(1, len(ranking))
        trial = Trial(label, full_repr(method), scores, gains, seconds)
        yield TrialRun(label, method, ranking, trial, describe_mode(ranking))


def summarize_trials(
    tried: Sequence[TrialRun],
    measures: list[str],
    queries: int,
    items: int | None,
    confidence: float,
    correction: str = "holm",
) -> Trials:
    """Collect the results of methods that were run, and test them. The first one is no re-ranking."""
    trials = [entry.trial for entry in tried if entry.trial is not None]
    refused = {entry.label: entry.refused for entry in tried if entry.refused}
    failed = {entry.label: entry.failed for entry in tried if entry.failed}
    best = sorted(trials, key=lambda trial: -sorting_score(trial, measures[0]))
    for measure in measures:
        best = _test_trials(best, measure, correction)
    return Trials(best, refused, measures, queries, items, tried[0].mode, confidence, failed, correction)


def _test_trials(trials: list[Trial], measure: str, correction: str) -> list[Trial]:
    """Return the trials with the tests of a measure."""
    values, settings = np.stack([trial.scores[measure].per_query for trial in trials]), trials[0].scores
    chance: dict[str, Any] = {name: getattr(settings, name) for name in ("confidence", "resamples", "seed")}
    names = [trial.method for trial in trials]
    tests = run_pair_tests(values, names.index(BASELINE), correction, **chance)
    return [
        replace(
            trial,
            gains={**trial.gains, measure: replace(trial.gains[measure], p=float(tests.p_plain[row]))},
            p_to_best={**trial.p_to_best, measure: float(tests.p_to_best[row])},
            beats={**trial.beats, measure: [names[other] for other in tests.beats[row]]},
        )
        for row, trial in enumerate(trials)
    ]


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
