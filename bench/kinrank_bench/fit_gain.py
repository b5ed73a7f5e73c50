"""Bench of learned methods: their gain, fitted in three ways, over several seeds.

pseudo: fitted on pseudo-labels of the gallery that is searched. labels: the classes of a set are split into two halves;
fitted on the labels of one half, evaluated on the other. carried: the same weights evaluated on another set, which is
possible for networks that see only similarities (CSA, SSR). Methods without weights are included for comparison.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import evaluate
from kinrank.evaluation.significance import compare_pairs
from kinrank.evaluation.trials import BASELINE
from kinrank.files.user_folders import scratch_folder
from kinrank.learned import RECIPES, fit
from kinrank.methods import Method, resolve_method
from kinrank.progress import Progress, ProgressOption
from kinrank.reranking import rerank
from kinrank.warmup import warm_up_method
from kinrank_bench.class_halves import has_classes, split_classes
from kinrank_bench.datasets.benchmark import BENCHMARKS, Benchmark, load
from kinrank_bench.declaration import Folder, Option, SetNames
from kinrank_bench.measurement import check_fit_complete, drop_easy
from kinrank_bench.record import check_names, make_record
from kinrank_bench.tables import Column, Table, fill

SETS = ("roxford5k", "caltech101")
UNTRAINED_METHODS = ("aqe", "gss", "lpmt")  # need no weights
TRANSFER = "carried"
TRANSFERABLE_METHODS = ("csa", "ssr")  # see only similarities, so their weights fit other features
LEARNED_COLUMNS = (
    Column("set", "{label}", left=True),
    Column("method", "{method}", left=True),
    Column("fitted on", "{training}", missing="", left=True),
    Column("mAP", "{mean:.1p}"),
    Column("over seeds", lambda row: fill("{low:.1p} to {high:.1p}", row, "") if row["fitted_on"] else ""),
    Column(
        "gained",
        lambda row: "" if row["method"] == BASELINE else fill("{gain:+.1p} ({gain_low:+.1p} to {gain_high:+.1p})", row),
    ),
    Column("fit, s", lambda row: f"{row['fit_seconds']:.0f}" if row["fit_seconds"] else ""),
    Column("rank, s", "{seconds:.1f}"),
)
LEARNED_TITLE = (
    "mAP in percent, joint, mean of {count} seeds at their last step; gain over no re-ranking, with the 95 % interval "
    "over queries"
)
FIT_WAYS = {
    "pseudo": "pseudo-labels of the gallery",
    "labels": "labels of the other classes",
    TRANSFER: "labels of half of the classes of {}",
}
Row = dict[str, Any]
Values = dict[str, NDArray[np.float64]]  # truth -> per query


class FitPlan(NamedTuple):
    """Training data of a network, and the sets it is evaluated on, each with the name of the way."""

    fitted_on: str
    vectors: Any
    labels: Any
    judged_on: tuple[tuple[str, Benchmark], ...]


class SeedRun(NamedTuple):
    """One ranking of a set: mAP per query for every truth, seconds to rank, and seconds to fit before."""

    values: Values
    seconds: float
    fit_seconds: float = 0.0


def learned_methods(
    folder: Folder,
    sets: SetNames = SETS,
    methods: Annotated[Sequence[str], Option("Names among csa, ssr, lattqe.")] = tuple(RECIPES),
    seeds: Annotated[Sequence[int], Option("Seeds of the fits.", least=0)] = (0, 1, 2),
    progress: ProgressOption = None,
    **options: Any,
) -> Row:
    """Measure the mAP of learned methods, joint, fitted on pseudo-labels and on labels, and of other methods.

    \b
    kinrank bench learned --data DIR
    kinrank bench learned --data DIR --sets caltech101 --methods csa --seeds 0

    Pseudo-labels come from the gallery that is searched. For labels, the classes are split into two halves: fit on
    one, test on the other and, for csa and ssr, on the other sets. The last step of a fit counts, never the best
    one. Needs torch.

    Args:
        options: options of `kinrank.fit`, for all methods.

    Returns:
        `results`: dicts with way (pseudo, labels, carried), fitted_on (None for methods without weights), set, truth,
        method, queries; mean over seeds, and by_seed; low and high, the 95 % interval over seeds (Student's t; None
        for one seed); plain, the mean without re-ranking; gain, gain_low, gain_high over it, paired by query, with
        each query's score averaged over seeds; seconds to rank and fit_seconds before that, the largest over seeds.
    """
    check_names("set", sets, BENCHMARKS)
    check_names("method", methods, RECIPES)
    benches = [load(name, folder) for name in dict.fromkeys(sets)]
    plans = _make_fit_plans([replace(bench, truths=drop_easy(bench.truths)) for bench in benches])
    distinct = {id(bench): (way, bench) for plan in plans for way, bench in plan.judged_on if way != TRANSFER}
    report, results = Progress(progress), list[Row]()
    jobs = [(way, bench, method) for way, bench in distinct.values() for method in (BASELINE, *UNTRAINED_METHODS)]
    plain: dict[int, Values] = {}
    for way, bench, method in report.each("without weights", jobs, len(jobs)):
        run = _rank_set(resolve_method(method), bench)
        plain.setdefault(id(bench), run.values)
        results += _result_rows(way, None, bench, method, plain[id(bench)], [run])
    fits = [(plan, method) for plan in plans for method in methods]
    for plan, method in report.each("fitted", fits, len(fits)):
        runs = [_fit_and_rank(plan, method, seed, options) for seed in seeds]
        for position, (way, bench) in enumerate(_test_sets(plan, method)):
            results += _result_rows(
                way, plan.fitted_on, bench, method, plain[id(bench)], [run[position] for run in runs]
            )
    return make_record("learned", {"mode": "joint", "seeds": list(seeds), "options": options, "results": results})


def _make_fit_plans(benches: list[Benchmark]) -> list[FitPlan]:
    """Plan a fit on pseudo-labels for every set, and one on half of the labels for sets with classes."""
    plans = [FitPlan(bench.name, bench.gallery, "pseudo", (("pseudo", bench),)) for bench in benches]
    for bench in benches:
        if has_classes(bench):
            first, second = split_classes(bench)
            other_sets = tuple((TRANSFER, other) for other in benches if other is not bench)
            plans.append(FitPlan(bench.name, first.vectors, first.labels, (("labels", second.bench), *other_sets)))
    return plans


def _test_sets(plan: FitPlan, method: str) -> list[tuple[str, Benchmark]]:
    return [test for test in plan.judged_on if test[0] != TRANSFER or method in TRANSFERABLE_METHODS]


def _fit_and_rank(plan: FitPlan, method: str, seed: int, options: dict[str, Any]) -> list[SeedRun]:
    """Fit a method and rank every set of its plan."""
    with scratch_folder() as folder:
        started = time.perf_counter()
        fitted = fit(method, plan.vectors, plan.labels, path=folder / "weights.npz", seed=seed, **options)
        check_fit_complete(fitted)
        seconds = time.perf_counter() - started
        return [_rank_set(fitted, bench)._replace(fit_seconds=seconds) for _, bench in _test_sets(plan, method)]


def _rank_set(method: Method, bench: Benchmark) -> SeedRun:
    """Rank a set after compiling the loops, so that the time covers ranking only."""
    warm_up_method(method)
    ranking = rerank(bench.queries, bench.gallery, method)
    found = {name: evaluate(ranking, truth, ["mAP"], resamples=1)["mAP"] for name, truth in bench.truths.items()}
    return SeedRun({name: np.asarray(score.per_query) for name, score in found.items()}, float(ranking.meta["seconds"]))


def _result_rows(
    way: str, fitted_on: str | None, bench: Benchmark, method: str, plain: Values, runs: list[SeedRun]
) -> list[Row]:
    """Return one result per truth; `runs` has one entry per seed."""
    about = {"way": way, "fitted_on": fitted_on, "set": bench.name, "method": method}
    times = {"seconds": max(run.seconds for run in runs), "fit_seconds": max(run.fit_seconds for run in runs)}
    rows = []
    for truth, before in plain.items():
        per_query = np.array([run.values[truth] for run in runs])
        by_seed = np.nanmean(per_query, axis=1).tolist()
        change = compare_pairs(before, per_query.mean(axis=0), "mAP", resamples=2000)
        half = _half_width(by_seed)
        ends = (None, None) if half is None else (change.mean_b - half, change.mean_b + half)
        scores = {"mean": change.mean_b, "by_seed": by_seed, "low": ends[0], "high": ends[1], "plain": change.mean_a}
        gains = {"gain": change.difference, "gain_low": change.low, "gain_high": change.high}
        rows.append({**about, "truth": truth, "queries": change.queries, **scores, **gains, **times})
    return rows


def _half_width(values: Sequence[float]) -> float | None:
    """Return half of the 95 % interval of a mean over seeds, by Student's t; None for one seed."""
    from scipy.stats import t

    if len(values) < 2:
        return None
    return float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))


def learned_table(record: Row, titles: Mapping[str, str] | None = None) -> Table:
    """Build a row per set, truth, method and way: percent, and gain in points with its 95 % interval.

    `titles` maps names of sets to titles.
    """
    titles_by_set, results = titles or {}, record["results"]
    panels = dict.fromkeys((row["set"], row["way"] == "labels", row["truth"]) for row in results)
    sets = [name for name, _, _ in panels]
    rows = []
    for name, half, truth in sorted(panels, key=lambda panel: sets.index(panel[0])):
        several = len([panel for panel in panels if panel[:2] == (name, half)]) > 1
        label = titles_by_set.get(name, name)
        label += (f", {truth}" if several else "") + (", half of its classes" if half else "")
        for row in results:
            if (row["set"], row["way"] == "labels", row["truth"]) == (name, half, truth):
                source = titles_by_set.get(row["fitted_on"], row["fitted_on"])
                rows.append({**row, "label": label, "training": source and FIT_WAYS[row["way"]].format(source)})
    return Table.from_rows(fill(LEARNED_TITLE, {"count": len(record["seeds"])}), LEARNED_COLUMNS, rows)
