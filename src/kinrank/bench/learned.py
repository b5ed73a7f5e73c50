"""Published sets -> what the learned methods gain, fitted in three ways, over several seeds.

pseudo: fitted on pseudo-labels of the gallery that is searched. labels: the classes of a set are dealt into two halves;
fitted on the labels of one, judged on the other. carried: the same weights, judged on another set, which a network that
sees only similarities (CSA, SSR) allows. Beside them methods that need no weights.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.bench.cells import check_whole, judged
from kinrank.bench.halves import halves, has_classes
from kinrank.bench.record import record
from kinrank.datasets.benchmark import BENCHMARKS, Benchmark, load
from kinrank.evaluation import evaluate
from kinrank.evaluation.compare import paired
from kinrank.evaluation.trials import PLAIN
from kinrank.files.scratch import scratch_folder
from kinrank.learned import RECIPES, fit
from kinrank.methods import Method, resolve
from kinrank.progress import Progress, Show
from kinrank.rerank import rerank
from kinrank.warmup import warm

SETS = ("roxford5k", "caltech101")
OTHERS = ("aqe", "gss", "lpmt")  # without weights, for orientation
CARRIED = "carried"
ANYWHERE = ("csa", "ssr")  # see similarities only, so that their weights can be used on other features
SEEDS = (0, 1, 2)
Row = dict[str, Any]
Values = dict[str, NDArray[np.float64]]  # truth -> per query


class Course(NamedTuple):
    """What a network is fitted on, and the sets that it is judged on, each with the way this is called."""

    fitted_on: str
    vectors: Any
    labels: Any
    judged_on: tuple[tuple[str, Benchmark], ...]


class Run(NamedTuple):
    """One ranking of a set: mAP query by query under every truth; what ranking took, and fitting before it."""

    values: Values
    seconds: float
    fit_seconds: float = 0.0


def learned(
    folder: str | os.PathLike[str],
    sets: Sequence[str] = SETS,
    methods: Sequence[str] = tuple(RECIPES),
    seeds: Sequence[int] = SEEDS,
    progress: Show = None,
    **options: Any,
) -> Row:
    """A record with one result per way to fit, set, truth and method: mAP, joint.

    Args:
        folder: where the files of the sets are.
        sets: their names; those with classes are fitted on labels, too.
        methods: some of csa, ssr, lattqe.
        seeds: of the fits.
        progress: True for a bar, or a callable `f(label, done, total)`.
        options: of `kinrank.fit`, for all methods.

    Returns:
        `results`: dicts with way (pseudo, labels, carried), fitted_on, None for methods without weights, set, truth,
        method, queries; mean, over seeds, and by_seed; low and high, the 95 % interval over seeds (Student's t; None
        for one seed); plain, the mean without re-ranking; gain, gain_low, gain_high over it, paired by query, each
        query's score a mean over seeds; seconds that ranking took, fit_seconds before it, the largest of all seeds.
        The last step of a fit counts, never the best one.
    """
    _check(sets, BENCHMARKS, "set")
    _check(methods, RECIPES, "method")
    benches = [load(name, folder) for name in dict.fromkeys(sets)]
    courses = _courses([replace(bench, truths=judged(bench.truths)) for bench in benches])
    distinct = {id(bench): (way, bench) for course in courses for way, bench in course.judged_on if way != CARRIED}
    report, results = Progress(progress), list[Row]()
    jobs = [(way, bench, method) for way, bench in distinct.values() for method in (PLAIN, *OTHERS)]
    plain: dict[int, Values] = {}
    for way, bench, method in report.each("without weights", jobs, len(jobs)):
        run = _ranked(resolve(method), bench)
        plain.setdefault(id(bench), run.values)
        results += _rows(way, None, bench, method, plain[id(bench)], [run])
    fits = [(course, method) for course in courses for method in methods]
    for course, method in report.each("fitted", fits, len(fits)):
        runs = [_fitted(course, method, seed, options) for seed in seeds]
        for place, (way, bench) in enumerate(_tests(course, method)):
            results += _rows(way, course.fitted_on, bench, method, plain[id(bench)], [run[place] for run in runs])
    return record("learned", {"mode": "joint", "seeds": list(seeds), "options": options, "results": results})


def _check(names: Sequence[str], known: Iterable[str], what: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        given = f"{what} {unknown[0]!r} is not known" if unknown else f"no {what} is named"
        raise ValueError(f"{given}; give some of: {', '.join(known)}")


def _courses(benches: list[Benchmark]) -> list[Course]:
    """Every set on pseudo-labels of its own gallery, and those with classes on the labels of half of these."""
    made = [Course(bench.name, bench.gallery, "pseudo", (("pseudo", bench),)) for bench in benches]
    for bench in benches:
        if has_classes(bench):
            first, second = halves(bench)
            elsewhere = tuple((CARRIED, other) for other in benches if other is not bench)
            made.append(Course(bench.name, first.vectors, first.labels, (("labels", second.bench), *elsewhere)))
    return made


def _tests(course: Course, method: str) -> list[tuple[str, Benchmark]]:
    return [one for one in course.judged_on if one[0] != CARRIED or method in ANYWHERE]


def _fitted(course: Course, method: str, seed: int, options: dict[str, Any]) -> list[Run]:
    """A fit, and how it does on every set it is judged on."""
    with scratch_folder() as place:
        started = time.perf_counter()
        made = fit(method, course.vectors, course.labels, place / "weights.npz", seed, **options)
        check_whole(made)
        seconds = time.perf_counter() - started
        return [_ranked(made, bench)._replace(fit_seconds=seconds) for _, bench in _tests(course, method)]


def _ranked(method: Method, bench: Benchmark) -> Run:
    """Ranked after loops were compiled, so that the time is that of ranking."""
    warm(method)
    ranking = rerank(bench.queries, bench.gallery, method)
    found = {name: evaluate(ranking, truth, ["mAP"], resamples=1)["mAP"] for name, truth in bench.truths.items()}
    return Run({name: np.asarray(score.per_query) for name, score in found.items()}, float(ranking.meta["seconds"]))


def _rows(way: str, fitted_on: str | None, bench: Benchmark, method: str, plain: Values, runs: list[Run]) -> list[Row]:
    """One result per truth; `runs` are those of the seeds."""
    about = {"way": way, "fitted_on": fitted_on, "set": bench.name, "method": method}
    times = {"seconds": max(run.seconds for run in runs), "fit_seconds": max(run.fit_seconds for run in runs)}
    rows = []
    for truth, before in plain.items():
        per_query = np.array([run.values[truth] for run in runs])
        by_seed = np.nanmean(per_query, axis=1).tolist()
        change = paired(before, per_query.mean(axis=0), "mAP", resamples=2000)
        half = _half_width(by_seed)
        ends = (None, None) if half is None else (change.mean_b - half, change.mean_b + half)
        scores = {"mean": change.mean_b, "by_seed": by_seed, "low": ends[0], "high": ends[1], "plain": change.mean_a}
        gains = {"gain": change.difference, "gain_low": change.low, "gain_high": change.high}
        rows.append({**about, "truth": truth, "queries": change.queries, **scores, **gains, **times})
    return rows


def _half_width(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of a mean over seeds, by Student's t; None for one seed."""
    from scipy.stats import t

    if len(values) < 2:
        return None
    return float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))


HEAD = ("set", "method", "fitted on", "mAP", "over seeds", "gained", "fit, s", "rank, s")
WAYS = {
    "pseudo": "pseudo-labels of the gallery",
    "labels": "labels of the other classes",
    CARRIED: "labels of half of the classes of {}",
}


def rows_of(measured: Row, titles: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """A heading, and a row per set, truth, method and way: percent, and points gained with their 95 % interval.

    `titles`: how sets are called, where not by their names.
    """
    named, results = titles or {}, measured["results"]
    panels = dict.fromkeys((row["set"], row["way"] == "labels", row["truth"]) for row in results)
    rows: list[tuple[str, ...]] = [HEAD]
    for name, half, truth in sorted(panels, key=lambda panel: [one[0] for one in panels].index(panel[0])):
        several = len([panel for panel in panels if panel[:2] == (name, half)]) > 1
        label = named.get(name, name) + (f", {truth}" if several else "") + (", half of its classes" if half else "")
        for row in results:
            if (row["set"], row["way"] == "labels", row["truth"]) == (name, half, truth):
                rows.append((label, *_cells(row, named)))
    return rows


def _cells(row: Row, named: Mapping[str, str]) -> tuple[str, ...]:
    fitted = "" if row["fitted_on"] is None else WAYS[row["way"]].format(named.get(row["fitted_on"], row["fitted_on"]))
    spread = (
        "" if row["fitted_on"] is None or row["low"] is None else f"{100 * row['low']:.1f} to {100 * row['high']:.1f}"
    )
    gained = [100 * row[part] for part in ("gain", "gain_low", "gain_high")]
    gain = "" if row["method"] == PLAIN else "{:+.1f} ({:+.1f} to {:+.1f})".format(*gained)
    seconds = f"{row['fit_seconds']:.0f}" if row["fit_seconds"] else ""
    return row["method"], fitted, f"{100 * row['mean']:.1f}", spread, gain, seconds, f"{row['seconds']:.1f}"
