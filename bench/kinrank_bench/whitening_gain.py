"""Bench of whitening: how whitening the vectors changes mAP of the search and of LPMT.

gallery: learned on the gallery that is searched. others: classes are split into two halves, five times; each half is
searched with a whitening learned on the other half, by variance and by pairs of the same class.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from kinrank.errors import InputError
from kinrank.evaluation.significance import compare_pairs
from kinrank.evaluation.trials import BASELINE
from kinrank.progress import Progress, ProgressOption
from kinrank.whitening import Whitening
from kinrank_bench.accuracy import select_fixed_sets
from kinrank_bench.class_halves import has_classes, split_classes
from kinrank_bench.datasets.benchmark import Benchmark, load
from kinrank_bench.declaration import Folder, FoundSets, Option
from kinrank_bench.measurement import drop_easy, measure_cell, require_scores
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.record import make_record
from kinrank_bench.tables import Table

METHODS = (BASELINE, "lpmt")
LEARNED_ON = {"gallery": "the gallery", "others": "other classes"}
STAR_NOTE = "*: no 0 in the 95 % interval, and the same sign in every split"
SPLIT_COUNT = 5  # random splits of the classes, to see how much a single split says by chance
Row = dict[str, Any]
WhiteningKind = tuple[str, float | None]  # kind and power of a whitening
PartialSet = tuple[WhiteningKind, int, Any, Benchmark]  # kind, number of the split, queries, and a set or half of it
PartialResult = tuple[int, Any, Row]  # number of the split, queries, and the cell
UNWHITENED: WhiteningKind = ("as it is", None)


def whitening(
    folder: Folder,
    sets: FoundSets = None,
    powers: Annotated[Sequence[float], Option("Powers of the whitening, from 0 to 0.5.")] = (0.0, 0.25, 0.5),
    on: Annotated[str, Option("Vectors to learn it on: gallery or others.")] = "gallery",
    progress: ProgressOption = None,
    cache: Cache | None = None,
) -> Row:
    """Measure the mAP of the search and of LPMT, joint, on original and whitened vectors.

    \b
    kinrank bench whitening --data DIR
    kinrank bench whitening --data DIR --sets orl,lfw --powers 0.25 --on others

    gallery: learn on the gallery that is searched. others: split the classes into two halves, five times, and
    search each with a whitening learned on the other, by variance (pca) and by pairs of the same class (learned).
    Sets are read from files with fixed names, such as orl_pixels.npz; docs/datasets.md lists them.

    Returns:
        `results`: dicts with set, truth, method, kind ("as it is", "pca", "learned"), power, queries, mean; and
        change, low and high, the change of this method by whitening with its 95 % interval, paired by query (of the
        mean over splits); by_deal, the change in each split.
    """
    if on not in LEARNED_ON:
        raise InputError(parameter="on", given=on, allowed=f"one of: {', '.join(LEARNED_ON)}")
    set_names = select_fixed_sets(folder, sets)
    cell_cache, results = cache or Cache(None), []
    for name in Progress(progress).each("sets", set_names, len(set_names)):
        bench = load(name, folder)
        if on == "gallery" or has_classes(bench):
            results += _result_rows(replace(bench, truths=drop_easy(bench.truths)), powers, on, cell_cache)
        elif sets is not None:
            raise InputError(f"{name} has no classes to split", remedy="leave it out, or give `on=gallery`")
    return make_record("whitening", {"mode": "joint", "on": on, "powers": list(powers), "results": results})


def _result_rows(bench: Benchmark, powers: Sequence[float], on: str, cache: Cache) -> list[Row]:
    cells: dict[tuple[str, WhiteningKind], list[PartialResult]] = {}
    for kind_and_power, split, queries, part in (
        _gallery_parts(bench, powers) if on == "gallery" else _half_parts(bench, powers)
    ):
        for method in METHODS:
            cell = measure_cell(part, method, "joint", cache, measures=["mAP"])
            cells.setdefault((method, kind_and_power), []).append((split, queries, cell))
    rows = []
    for truth in bench.truths:
        for method, (kind, power) in sorted(cells, key=lambda key: METHODS.index(key[0])):
            plain, values = (
                _scores_per_split(cells[method, kind_and_power], truth)
                for kind_and_power in (UNWHITENED, (kind, power))
            )
            change = compare_pairs(plain.mean(axis=0), values.mean(axis=0), "mAP", resamples=2000)
            row = {"set": bench.name, "truth": truth, "method": method, "kind": kind, "power": power}
            row |= {"queries": change.queries, "mean": change.mean_b, "change": change.difference}
            by_split = np.nanmean(values - plain, axis=1).tolist()
            rows.append(row | {"low": change.low, "high": change.high, "by_deal": by_split})
    return rows


def _scores_per_split(cells: list[PartialResult], truth: str) -> Any:
    """Return (splits, queries) scores; in every split each query is searched once, in its half."""
    for _, _, cell in cells:
        require_scores(cell)
    count = 1 + max(int(asks.max()) for _, asks, _ in cells)
    values = np.full((1 + max(split for split, _, _ in cells), count), np.nan)
    for split, asks, cell in cells:
        values[split, asks] = np.array(cell["truths"][truth]["mAP"]["per_query"], np.float64)
    return values


def _gallery_parts(bench: Benchmark, powers: Sequence[float]) -> Iterator[PartialSet]:
    all_queries = np.arange(len(next(iter(bench.truths.values()))))
    yield UNWHITENED, 0, all_queries, bench
    for power in powers:
        yield ("pca", power), 0, all_queries, _apply_whitening(bench, _fit_whitening(bench.gallery, power))


def _half_parts(bench: Benchmark, powers: Sequence[float]) -> Iterator[PartialSet]:
    for split in range(SPLIT_COUNT):
        first, second = split_classes(bench, split)
        for half, other in ((first, second), (second, first)):
            yield UNWHITENED, split, half.asks, half.bench
            for kind, pairs in (("pca", None), ("learned", other.pairs)):
                for power in powers:
                    yield (
                        (kind, power),
                        split,
                        half.asks,
                        _apply_whitening(half.bench, _fit_whitening(other.vectors, power, pairs)),
                    )


def _fit_whitening(vectors: Any, power: float, pairs: Any = None) -> Whitening:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the effect of too few rows or pairs is measured here
        return Whitening.fit(vectors, power=power, pairs=pairs, name="gallery")


def _apply_whitening(bench: Benchmark, fitted: Whitening) -> Benchmark:
    queries = None if bench.queries is None else fitted.apply(bench.queries, name="queries")
    return replace(bench, queries=queries, gallery=fitted.apply(bench.gallery, name="gallery"))


def whitening_table(measured: Row, titles: Mapping[str, str] | None = None) -> Table:
    """Build a row per set, truth and method: mAP in percent and its change by whitening.

    `titles` maps names of sets to titles. An asterisk marks a change whose interval excludes 0 and whose sign is equal
    in every split.
    """
    named, results = titles or {}, measured["results"]
    ways = list(dict.fromkeys((row["kind"], row["power"]) for row in results))
    head = ["set", "method", *(kind if power is None else f"{kind} {power:g}" for kind, power in ways)]
    rows = []
    several = {row["set"] for row in results if len({one["truth"] for one in results if one["set"] == row["set"]}) > 1}
    panels = dict.fromkeys((row["set"], row["truth"]) for row in results)
    for name, truth, method in ((*panel, method) for panel in panels for method in METHODS):
        found = {
            (row["kind"], row["power"]): row
            for row in results
            if (row["set"], row["truth"], row["method"]) == (name, truth, method)
        }
        label = named.get(name, name) + (f", {truth}" if name in several else "")
        rows.append((label, method, *(_format_change(found[way]) for way in ways)))
    title = f"mAP in percent, joint, and its change by whitening learned on {LEARNED_ON[measured['on']]}; {STAR_NOTE}"
    return Table(title, head, rows, left=(0, 1))


def _format_change(row: Row) -> str:
    if row["power"] is None:
        return f"{100 * row['mean']:.1f}"
    clear = not row["low"] <= 0 <= row["high"] and len({change > 0 for change in row["by_deal"]}) == 1
    return f"{100 * row['change']:+.1f}" + ("*" if clear else "")
