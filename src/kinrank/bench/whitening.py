"""Published sets -> what whitening their vectors changes, for the search and for LPMT.

gallery: learned on the gallery that is searched. others: classes are dealt into two halves, five times; each half is
searched with a whitening that was learned on the other, by variance and by pairs of the same class.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinrank.bench.cache import Cache
from kinrank.bench.cells import cell, judged
from kinrank.bench.halves import halves, has_classes
from kinrank.bench.record import record
from kinrank.datasets.benchmark import BENCHMARKS, Benchmark, load, present
from kinrank.evaluation.compare import paired
from kinrank.evaluation.trials import PLAIN
from kinrank.progress import Progress, Show
from kinrank.whitening import Whitening

METHODS = (PLAIN, "lpmt")
POWERS = (0.0, 0.25, 0.5)
ON = ("gallery", "others")
DEALS = 5  # times that classes are dealt into halves: how much a single deal says by chance is seen, too
Row = dict[str, Any]
Way = tuple[str, float | None]  # kind and power of a whitening
Part = tuple[Way, int, Any, Benchmark]  # the number of a deal, which queries ask, and a set or a half of it
Asked = tuple[int, Any, Row]  # the same deal and queries, and how a method did
AS_IT_IS: Way = ("as it is", None)


def whitening(
    folder: str | os.PathLike[str],
    sets: Sequence[str] | None = None,
    powers: Sequence[float] = POWERS,
    on: str = ON[0],
    progress: Show = None,
    cache: Cache | None = None,
) -> Row:
    """A record with one result per set, truth, method and way to whiten: mAP, joint.

    Args:
        folder: where the files of the sets are.
        sets: their names; unless given all that are there, for "others" those with classes.
        powers: of the whitening.
        on: what it is learned on: "gallery" or "others".
        progress: True for a bar, or a callable `f(label, done, total)`.
        cache: where measurements are kept; nowhere unless given.

    Returns:
        `results`: dicts with set, truth, method, kind ("as it is", "pca", "learned"), power, queries, mean; and
        change, low and high, what whitening changes for this method, with its 95 % interval, paired by query (of
        the mean over deals); by_deal, the change in every single deal.
    """
    if on not in ON:
        raise ValueError(f"on={on!r} is not allowed; give one of: {', '.join(ON)}")
    wanted = present(folder) if sets is None else list(sets)
    if not wanted:
        raise ValueError(f"no set is there, or none is named; give some of: {', '.join(BENCHMARKS)}")
    unknown = [name for name in wanted if name not in BENCHMARKS]
    if unknown:
        raise ValueError(f"benchmark {unknown[0]!r} is not known; give some of: {', '.join(BENCHMARKS)}")
    kept, results = cache or Cache(None), []
    for name in Progress(progress).each("sets", wanted, len(wanted)):
        bench = load(name, folder)
        if on == "gallery" or has_classes(bench):
            results += _results(replace(bench, truths=judged(bench.truths)), powers, on, kept)
        elif sets is not None:
            raise ValueError(
                f"{name} has no classes that could be dealt into halves; leave it out, or learn on gallery"
            )
    return record("whitening", {"mode": "joint", "on": on, "powers": list(powers), "results": results})


def _results(bench: Benchmark, powers: Sequence[float], on: str, cache: Cache) -> list[Row]:
    found: dict[tuple[str, Way], list[Asked]] = {}
    for way, deal, asks, part in _on_gallery(bench, powers) if on == "gallery" else _on_others(bench, powers):
        for method in METHODS:
            one = cell(part, method, "joint", cache, measures=["mAP"])
            found.setdefault((method, way), []).append((deal, asks, one))
    rows = []
    for truth in bench.truths:
        for method, (kind, power) in sorted(found, key=lambda key: METHODS.index(key[0])):
            plain, values = (_per_deal(found[method, way], truth) for way in (AS_IT_IS, (kind, power)))
            change = paired(plain.mean(axis=0), values.mean(axis=0), "mAP", resamples=2000)
            row = {"set": bench.name, "truth": truth, "method": method, "kind": kind, "power": power}
            row |= {"queries": change.queries, "mean": change.mean_b, "change": change.difference}
            by_deal = np.nanmean(values - plain, axis=1).tolist()
            rows.append(row | {"low": change.low, "high": change.high, "by_deal": by_deal})
    return rows


def _per_deal(cells: list[Asked], truth: str) -> Any:
    """(deals, queries) the measure; in every deal each query is asked once, in its half."""
    refused = next((one for _, _, one in cells if "error" in one), None)
    if refused is not None:
        raise ValueError(f"{refused['method']} refused {refused['set']}: {refused['error']}")
    count = 1 + max(int(asks.max()) for _, asks, _ in cells)
    values = np.full((1 + max(deal for deal, _, _ in cells), count), np.nan)
    for deal, asks, one in cells:
        values[deal, asks] = np.array(one["truths"][truth]["mAP"]["per_query"], np.float64)
    return values


def _on_gallery(bench: Benchmark, powers: Sequence[float]) -> Iterator[Part]:
    everybody = np.arange(len(next(iter(bench.truths.values()))))
    yield AS_IT_IS, 0, everybody, bench
    for power in powers:
        yield ("pca", power), 0, everybody, _whitened(bench, _learned(bench.gallery, power))


def _on_others(bench: Benchmark, powers: Sequence[float]) -> Iterator[Part]:
    for deal in range(DEALS):
        first, second = halves(bench, deal)
        for one, other in ((first, second), (second, first)):
            yield AS_IT_IS, deal, one.asks, one.bench
            for kind, pairs in (("pca", None), ("learned", other.pairs)):
                for power in powers:
                    yield (kind, power), deal, one.asks, _whitened(one.bench, _learned(other.vectors, power, pairs))


def _learned(vectors: Any, power: float, pairs: Any = None) -> Whitening:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what too few rows or pairs do is measured here
        return Whitening.fit(vectors, power=power, pairs=pairs, name="gallery")


def _whitened(bench: Benchmark, found: Whitening) -> Benchmark:
    queries = None if bench.queries is None else found.apply(bench.queries, name="queries")
    return replace(bench, queries=queries, gallery=found.apply(bench.gallery, name="gallery"))


def rows_of(measured: Row, titles: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """A heading, and a row per set, truth and method: mAP in percent as it is, and what each way to whiten changes.

    `titles`: how sets are called, where not by their names. A change is marked by * if its interval has no 0 in it and
    it has the same sign in every deal.
    """
    named, results = titles or {}, measured["results"]
    ways = list(dict.fromkeys((row["kind"], row["power"]) for row in results))
    rows = [("set", "method", *(kind if power is None else f"{kind} {power:g}" for kind, power in ways))]
    several = {row["set"] for row in results if len({one["truth"] for one in results if one["set"] == row["set"]}) > 1}
    panels = dict.fromkeys((row["set"], row["truth"]) for row in results)
    for name, truth, method in ((*panel, method) for panel in panels for method in METHODS):
        found = {
            (row["kind"], row["power"]): row
            for row in results
            if (row["set"], row["truth"], row["method"]) == (name, truth, method)
        }
        label = named.get(name, name) + (f", {truth}" if name in several else "")
        rows.append((label, method, *(_cell(found[way]) for way in ways)))
    return rows


def _cell(row: Row) -> str:
    if row["power"] is None:
        return f"{100 * row['mean']:.1f}"
    clear = not row["low"] <= 0 <= row["high"] and len({change > 0 for change in row["by_deal"]}) == 1
    return f"{100 * row['change']:+.1f}" + ("*" if clear else "")
