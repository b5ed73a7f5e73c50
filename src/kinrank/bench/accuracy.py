"""Published sets and methods -> scores with intervals, times, and where a method is worse than none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kinrank.bench.record import chosen, record
from kinrank.datasets import benchmark as published
from kinrank.datasets.benchmark import BENCHMARKS, Benchmark, load
from kinrank.evaluation import Scores, evaluate
from kinrank.evaluation.trials import PLAIN, ranked
from kinrank.methods import resolve
from kinrank.progress import Progress, Show

DEFAULT = (PLAIN, "lpmt")


def accuracy(
    folder: str | os.PathLike[str],
    methods: Sequence[str] = DEFAULT,
    sets: Sequence[str] | None = None,
    progress: Show = None,
) -> dict[str, Any]:
    """A record with one result per set, truth, method and measure. No re-ranking is always among them.

    Args:
        folder: where the files of the sets are, see `kinrank.datasets.benchmark`.
        methods: names, or ["all"].
        sets: names; those whose files are all in the folder unless given.
        progress: True for a bar, or a callable `f(label, done, total)`.

    Returns:
        `results`: dicts with set, truth, queries, items, mode, method, parameters, measure, mean, low, high,
        seconds, worse (than no re-ranking, by the mean); or with `error` where a method refused.
    """
    names = list(dict.fromkeys([PLAIN, *chosen(methods)]))
    wanted = present(folder) if sets is None else list(sets)
    report = Progress(progress)
    results: list[dict[str, Any]] = []
    jobs = [(name, method) for name in wanted for method in names]
    loaded: Benchmark | None = None
    plain: dict[str, Scores] = {}
    for name, method in report.each("accuracy", jobs, len(jobs)):
        if loaded is None or loaded.name != name:
            loaded, plain = load(name, folder), {}
        results += _measure(loaded, method, plain)
    return record("accuracy", {"confidence": 0.95, "results": results})


def present(folder: str | os.PathLike[str]) -> list[str]:
    """The sets whose files are all there, at least one."""
    found = published.present(folder)
    if not found:
        raise FileNotFoundError(f"{folder} holds none of the sets {', '.join(BENCHMARKS)}; check --data")
    return found


def _measure(benchmark: Benchmark, method: str, plain: dict[str, Scores]) -> list[dict[str, Any]]:
    asked = benchmark.gallery if benchmark.queries is None else benchmark.queries
    about = {"set": benchmark.name, "queries": len(asked), "items": len(benchmark.gallery), "method": method}
    ranking = ranked(method, benchmark.queries, benchmark.gallery)
    if isinstance(ranking, str):
        return [{**about, "truth": truth, "error": ranking} for truth in benchmark.truths]
    about |= {key: ranking.meta[key] for key in ("mode", "seconds")} | {"parameters": resolve(method).spelled_out()}
    results = []
    for label, truth in benchmark.truths.items():
        scores = evaluate(ranking, truth, benchmark.measures)
        plain.setdefault(label, scores)  # no re-ranking comes first
        for measure, score in scores.items():
            worse = bool(score.mean < plain[label][measure].mean)
            found = {"mean": score.mean, "low": score.low, "high": score.high, "worse": worse}
            results.append({**about, "truth": label, "measure": measure, **found})
    return results
