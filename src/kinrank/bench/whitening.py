"""Published sets -> what whitening their vectors changes, for the search and for LPMT.

gallery: learned on the gallery that is searched. others: classes are dealt into two halves; each is searched with a
whitening that was learned on the other, by variance and by pairs of the same class.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
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
AS_IT_IS = ("as it is", None)
Row = dict[str, Any]
Way = tuple[str, float | None]  # kind and power of a whitening
Parts = list[Benchmark]  # a set whole, or its two halves


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
        change, low and high, what whitening changes for this method, with its 95 % interval, paired by query.
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
    made = _on_gallery(bench, powers) if on == "gallery" else _on_others(bench, powers)
    rows = []
    for method in METHODS:
        found = {way: [cell(part, method, "joint", cache, measures=["mAP"]) for part in made[way]] for way in made}
        for truth in bench.truths:
            plain = _per_query(found[AS_IT_IS], truth)
            for kind, power in made:
                change = paired(plain, _per_query(found[kind, power], truth), "mAP", resamples=2000)
                row = {"set": bench.name, "truth": truth, "method": method, "kind": kind, "power": power}
                row |= {"queries": change.queries, "mean": change.mean_b, "change": change.difference}
                rows.append(row | {"low": change.low, "high": change.high})
    return rows


def _per_query(cells: list[Row], truth: str) -> Any:
    """The measure of all queries, those of both halves one after the other."""
    refused = next((one for one in cells if "error" in one), None)
    if refused is not None:
        raise ValueError(f"{refused['method']} refused {refused['set']}: {refused['error']}")
    return np.concatenate([np.array(one["truths"][truth]["mAP"]["per_query"], np.float64) for one in cells])


def _on_gallery(bench: Benchmark, powers: Sequence[float]) -> dict[Way, Parts]:
    made: dict[Way, Parts] = {AS_IT_IS: [bench]}
    for power in powers:
        made["pca", power] = [_whitened(bench, _learned(bench.gallery, power))]
    return made


def _on_others(bench: Benchmark, powers: Sequence[float]) -> dict[Way, Parts]:
    first, second = halves(bench)
    both = ((first, second), (second, first))
    made: dict[Way, Parts] = {AS_IT_IS: [first.bench, second.bench]}
    for power in powers:
        made["pca", power] = [_whitened(one.bench, _learned(other.vectors, power)) for one, other in both]
    for power in powers:
        made["learned", power] = [
            _whitened(one.bench, _learned(other.vectors, power, other.pairs)) for one, other in both
        ]
    return made


def _learned(vectors: Any, power: float, pairs: Any = None) -> Whitening:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what too few rows or pairs do is measured here
        return Whitening.fit(vectors, power=power, pairs=pairs, name="gallery")


def _whitened(bench: Benchmark, found: Whitening) -> Benchmark:
    queries = None if bench.queries is None else found.apply(bench.queries, name="queries")
    return replace(bench, queries=queries, gallery=found.apply(bench.gallery, name="gallery"))


def rows_of(measured: Row, titles: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """A heading, and a row per set, truth and method: mAP in percent as it is, and what each way to whiten changes.

    `titles`: how sets are called, where not by their names. A change whose interval has no 0 in it is marked by *.
    """
    named, results = titles or {}, measured["results"]
    ways = list(dict.fromkeys((row["kind"], row["power"]) for row in results))
    rows = [("set", "method", *(kind if power is None else f"{kind} {power:g}" for kind, power in ways))]
    several = {row["set"] for row in results if len({one["truth"] for one in results if one["set"] == row["set"]}) > 1}
    for name, truth, method in dict.fromkeys((row["set"], row["truth"], row["method"]) for row in results):
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
    return f"{100 * row['change']:+.1f}" + ("" if row["low"] <= 0 <= row["high"] else "*")
