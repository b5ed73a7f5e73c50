"""Published sets -> what whitening their vectors changes, for the search and for LPMT."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kinrank.bench.cache import Cache
from kinrank.bench.cells import cell, gained, judged
from kinrank.bench.record import record
from kinrank.datasets.benchmark import BENCHMARKS, Benchmark, load, present
from kinrank.evaluation.trials import PLAIN
from kinrank.progress import Progress, Show
from kinrank.whitening import Whitening

METHODS = (PLAIN, "lpmt")
POWERS = (0.0, 0.25, 0.5)
Row = dict[str, Any]


def whitening(
    folder: str | os.PathLike[str],
    sets: Sequence[str] | None = None,
    powers: Sequence[float] = POWERS,
    dimensions: int | None = None,
    progress: Show = None,
    cache: Cache | None = None,
) -> Row:
    """A record with one result per set, truth, method and power: mAP, joint, on vectors whitened by their gallery.

    Args:
        folder: where the files of the sets are.
        sets: their names; all that are there unless given.
        powers: of the whitening.
        dimensions: how many directions it keeps at most; all that vary unless given.
        progress: True for a bar, or a callable `f(label, done, total)`.
        cache: where measurements are kept; nowhere unless given.

    Returns:
        `results`: dicts with set, truth, method, power (None for vectors as they are), dimensions, queries, mean; and
        change, low and high, what whitening changes for this method, with its 95 % interval, paired by query.
    """
    wanted = present(folder) if sets is None else list(sets)
    if not wanted:
        raise ValueError(f"no set is there, or none is named; give some of: {', '.join(BENCHMARKS)}")
    unknown = [name for name in wanted if name not in BENCHMARKS]
    if unknown:
        raise ValueError(f"benchmark {unknown[0]!r} is not known; give some of: {', '.join(BENCHMARKS)}")
    kept, results = cache or Cache(None), []
    for name in Progress(progress).each("sets", wanted, len(wanted)):
        results += _results(load(name, folder), powers, dimensions, kept)
    return record("whitening", {"mode": "joint", "powers": list(powers), "dimensions": dimensions, "results": results})


def _results(bench: Benchmark, powers: Sequence[float], dimensions: int | None, cache: Cache) -> list[Row]:
    bench = replace(bench, truths=judged(bench.truths))
    made = {None: bench} | {power: _whitened(bench, power, dimensions) for power in powers}
    rows = []
    for method in METHODS:
        found = {power: cell(one, method, "joint", cache, measures=["mAP"]) for power, one in made.items()}
        for truth in bench.truths:
            for power, one in found.items():
                change = gained(found[None], one, truth, "mAP")
                row = {"set": bench.name, "truth": truth, "method": method, "power": power}
                row |= {"dimensions": made[power].gallery.shape[1], "queries": change.queries, "mean": change.mean_b}
                rows.append(row | {"change": change.difference, "low": change.low, "high": change.high})
    return rows


def _whitened(bench: Benchmark, power: float, dimensions: int | None) -> Benchmark:
    """The set with vectors that are whitened by its gallery."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what too few rows do is measured here
        found = Whitening.fit(bench.gallery, power=power, name="gallery")
    found = replace(found, projection=found.projection[:, :dimensions])
    queries = None if bench.queries is None else found.apply(bench.queries, name="queries")
    return replace(bench, queries=queries, gallery=found.apply(bench.gallery, name="gallery"))


def rows_of(measured: Row, titles: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """A heading, and a row per set and truth: mAP in percent as they are, and how each power changes it.

    `titles`: how sets are called, where not by their names. A change whose interval has no 0 in it is marked by *.
    """
    named = titles or {}
    columns = [(method, power) for method in METHODS for power in (None, *measured["powers"])]
    rows = [("set", *(f"{method}, {'as it is' if power is None else f'power {power:g}'}" for method, power in columns))]
    for name, truth in dict.fromkeys((row["set"], row["truth"]) for row in measured["results"]):
        found = {
            (row["method"], row["power"]): row
            for row in measured["results"]
            if (row["set"], row["truth"]) == (name, truth)
        }
        several = len({row["truth"] for row in measured["results"] if row["set"] == name}) > 1
        label = named.get(name, name) + (f", {truth}" if several else "")
        rows.append((label, *(_cell(found[column]) for column in columns)))
    return rows


def _cell(row: Row) -> str:
    if row["power"] is None:
        return f"{100 * row['mean']:.1f}"
    return f"{100 * row['change']:+.1f}" + ("" if row["low"] <= 0 <= row["high"] else "*")
