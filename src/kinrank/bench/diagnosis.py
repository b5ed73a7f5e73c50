"""Published sets -> whether `diagnose` predicts LPMT's gain, and what its choices without labels are worth.

gain: facts and joint gain per set. The constants of the rule are fitted on all sets but one, as they are and thinned,
and predict that one, in turn. thinned: the same sets with one, two, four, ... right answers per query, by leaving items
out: the law by which the gain depends on them. prepared: LPMT on centred and on half-whitened vectors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinrank.bench.accuracy import present
from kinrank.bench.cache import Cache
from kinrank.bench.cells import cell, judged
from kinrank.bench.record import record
from kinrank.datasets.benchmark import BENCHMARKS, Benchmark, load
from kinrank.diagnosis import Facts
from kinrank.diagnosis.choosing import FEW_RIGHT
from kinrank.diagnosis.expected import ERROR, NO_KIN, SURE, expected
from kinrank.diagnosis.facts import facts_of
from kinrank.diagnosis.preparing import WAYS, preparation
from kinrank.evaluation import Truth
from kinrank.evaluation.compare import paired
from kinrank.evaluation.trials import PLAIN
from kinrank.features import check, unit
from kinrank.methods import LPMT, Method, resolve
from kinrank.progress import Progress, Show

PARTS = ("gain", "thinned", "prepared")
RIGHT = (1, 2, 4, 8, 16)
SMALLEST, LARGEST = 150, 6000  # items of a thinned set
GRID = tuple(round(2.0 + 0.1 * step, 1) for step in range(41))  # drops that are tried
CLOSE = 1e-9  # points that are as many: sums of the same numbers
HALVED = LPMT(k2=3)  # neighbourhoods of half the size, as `chosen` takes them where kin are few
Row = dict[str, Any]


def diagnosis(
    folder: str | os.PathLike[str],
    sets: Sequence[str] | None = None,
    parts: Sequence[str] = PARTS,
    progress: Show = None,
    cache: Cache | None = None,
) -> Row:
    """A record: `results` per set, `fit`, `thinned` per set and number of right answers, `prepared` per set and way."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ValueError(f"part {unknown[0]!r} is not known; give some of: {', '.join(PARTS)}")
    if not parts:
        raise ValueError(f"no part is named; give some of: {', '.join(PARTS)}")
    if sets is not None and not sets:
        raise ValueError(f"no set is named; give some of: {', '.join(BENCHMARKS)}")
    wanted = present(folder) if sets is None else list(sets)
    for name in wanted:
        if name not in BENCHMARKS:
            raise ValueError(f"benchmark {name!r} is not known; give some of: {', '.join(BENCHMARKS)}")
    if "gain" in parts and len(wanted) < 3:
        raise ValueError("a rule of two constants is fitted on two sets at least, and judged on another; give three")
    kept, report = cache or Cache(None), Progress(progress)
    found: dict[str, Any] = {"mode": "joint", "results": [], "thinned": [], "prepared": []}
    for name in report.each("sets", wanted, len(wanted)):
        bench = _judged(load(name, folder))
        if "gain" in parts:
            found["results"].append(_gain(bench, kept))
        if "thinned" in parts:
            found["thinned"] += [_thin_row(bench, right, made, kept) for right, made in thinned(bench)]
        if "prepared" in parts:
            found["prepared"] += _prepared(bench, kept)
    if "gain" in parts:
        found["fit"] = _predicted(found["results"], found["thinned"])
    return record("diagnosis", found)


def _judged(bench: Benchmark) -> Benchmark:
    """Without `easy`, which the field reports less and less; vectors of length one."""
    truths = judged(bench.truths)
    queries = None if bench.queries is None else unit(check(bench.queries, "queries"), "queries")
    return replace(bench, truths=truths, queries=queries, gallery=unit(check(bench.gallery, "gallery"), "gallery"))


def _gain(bench: Benchmark, cache: Cache) -> Row:
    """What LPMT gains at its defaults, and with neighbourhoods of half the size."""
    facts = facts_of(bench.gallery, bench.queries)
    return {
        "set": bench.name,
        "right": float(np.mean([len(row) for truth in bench.truths.values() for row in _rows(truth) if len(row)])),
        "facts": facts.to_dict(),
        **_measured(bench, cache),
    }


def _measured(bench: Benchmark, cache: Cache) -> Row:
    plain, usual, half = _means(bench, (PLAIN, LPMT(), HALVED), cache)
    gain = usual["mean"] - plain["mean"]
    return {
        "none": plain["mean"],
        "lpmt": usual["mean"],
        "gain": gain,
        "low": usual["low"],
        "high": usual["high"],
        "half": half["mean"],
    }


def _means(bench: Benchmark, methods: Sequence[Method | str], cache: Cache) -> list[Row]:
    """For each method mAP in percent, a query's mean over the truths; the interval of its gain on the first method."""
    values = []
    for method in map(resolve, methods):
        found = cell(bench, method, "joint", cache, measures=["mAP"])
        if "error" in found:
            raise ValueError(f"{method.name} refused {bench.name}: {found['error']}")
        rows = [np.array(found["truths"][label]["mAP"]["per_query"], np.float64) for label in bench.truths]
        counted = ~np.isnan(rows).all(axis=0)
        values.append(np.where(counted, np.nansum(rows, axis=0) / np.maximum((~np.isnan(rows)).sum(axis=0), 1), np.nan))
    gains = [paired(values[0], one, "mAP", resamples=2000) for one in values]
    return [{"mean": 100 * gain.mean_b, "low": 100 * gain.low, "high": 100 * gain.high} for gain in gains]


def _rows(truth: Truth) -> Iterator[Any]:
    return (truth.positives[query] for query in range(len(truth)))


def limits(rows: Sequence[Row], left_out: str | None = None) -> tuple[float, float]:
    """The drop from which on LPMT loses, and the one from which on half the neighbourhood is better.

    Both by sets as they are and thinned ones, but those of one set: the first has the fewest wrong signs, the middle of
    the values that do as well; the second the most points gained, the largest of these, which changes least.
    """
    kept = [row for row in rows if row["set"] != left_out]
    drop, gain = np.array([row["facts"]["drop"] for row in kept]), np.array([row["gain"] for row in kept])
    half = np.array([row["half"] - row["none"] for row in kept])
    wrong = np.array([((drop < value) != (gain > 0)).sum() for value in GRID])
    points = np.array([np.where(drop > value, half, gain).mean() for value in GRID])
    right, most = _run(wrong == wrong.min()), _run(points >= points.max() - CLOSE)
    return float(np.mean([right[0], right[-1]])), most[-1]


def _run(good: Any) -> tuple[float, ...]:
    """The values of GRID from the first good one on, as far as they are all good."""
    first = int(np.flatnonzero(good)[0])
    return GRID[first : first + int(np.argmin([*good[first:], False]))]


def fitted(results: Sequence[Row], left_out: str | None = None, no_kin: float = NO_KIN) -> tuple[float, float]:
    """The two constants of the expected gain, by least squares over the sets but one."""
    rows = [row for row in results if row["set"] != left_out]
    seen = [Facts(**row["facts"]) for row in rows]
    # a gain is linear in both: what each of them alone predicts are the columns
    columns = np.array([[expected(facts, None, *one, no_kin).points for one in ((1, 0), (0, 1))] for facts in seen])
    base, per_thin = np.linalg.lstsq(columns, np.array([row["gain"] for row in rows]), rcond=None)[0]
    return float(base), float(per_thin)


def _predicted(results: list[Row], thin: list[Row]) -> Row:
    """Predictions for every set by a rule that was fitted without it, written into the rows; the rule on all sets."""
    for rows, known in ((results, False), (thin, True)):
        for row in rows:
            no_kin, few = limits([*results, *thin], row["set"])
            rule = (*fitted(results, row["set"], no_kin), no_kin)
            row["predicted"] = expected(Facts(**row["facts"]), row["right"] if known else None, *rule).points
            row["sign"] = bool((row["predicted"] > 0) == (row["gain"] > 0))
            if not known:
                row |= _choice(row, row["facts"]["drop"] > few)
    no_kin, few = limits([*results, *thin])
    base, per_thin = fitted(results, None, no_kin)
    errors, changed = _errors(results), [row["with_chosen"] - row["lpmt"] for row in results]
    return {
        "base": base,
        "per_thin": per_thin,
        "no_kin": no_kin,
        "few": few,
        "error": float(np.sqrt((errors**2).mean())),
        "error_right": float(np.sqrt((_errors(thin) ** 2).mean())) if thin else None,
        "inside": int((np.abs(errors) <= SURE * ERROR).sum()),
        "signs": sum(row["sign"] for row in results),
        "positive": sum(row["gain"] > 0 for row in results),
        "sets": len(results),
        "chosen_gain": float(np.mean(changed)),
        "chosen_worst": float(min(changed)),
    }


def _choice(row: Row, halved: bool) -> Row:
    """What is chosen without labels, and its mAP."""
    return {"chosen": repr(HALVED if halved else LPMT()), "with_chosen": row["half"] if halved else row["lpmt"]}


def _errors(rows: list[Row]) -> Any:
    return np.array([row["predicted"] - row["gain"] for row in rows])


def thinned(bench: Benchmark) -> Iterator[tuple[int, Benchmark]]:
    """The set with so many right answers per query: as many items of each class, and one more that asks.

    Only sets with classes, and classes that are large enough; 150 to 6000 items.
    """
    truth = next(iter(bench.truths.values()))
    if not {"class", "person"} & set(bench.truths):
        return
    for right in RIGHT:
        kept, labels = _kept(bench, truth, right)
        if SMALLEST <= len(kept) <= LARGEST:
            yield right, replace(bench, queries=None, gallery=kept, truths={"class": Truth.from_labels(labels)})


def _kept(bench: Benchmark, truth: Truth, right: int) -> tuple[Any, Any]:
    """Items of each class, randomly taken."""
    generator = np.random.default_rng(0)
    chosen_items, labels = [], []
    for members in classes_of(bench, truth):
        if len(members) > right:
            chosen_items.append(np.sort(generator.choice(members, right + 1, replace=False)))
            labels += [int(members[0])] * (right + 1)
    return bench.gallery[np.concatenate(chosen_items)] if chosen_items else bench.gallery[:0], labels


def classes_of(bench: Benchmark, truth: Truth) -> list[Any]:
    """The items of every class: lists that overlap are one. Pictures by a query's own camera belong to its person."""
    label = np.full(len(bench.gallery), -1)
    for query, right in enumerate(_rows(truth)):
        members = np.union1d(right, truth.junk[query] if bench.queries is not None else [query]).astype(np.int64)
        if len(members):
            known = np.unique(label[members])
            label[np.isin(label, known[known >= 0])] = query
            label[members] = query
    found = [np.flatnonzero(label == one) for one in np.unique(label[label >= 0])]
    return sorted(found, key=lambda members: int(members[0]))


def _thin_row(bench: Benchmark, right: int, made: Benchmark, cache: Cache) -> Row:
    facts = facts_of(made.gallery).to_dict()
    row = {"set": bench.name, "right": right, "items": len(made.gallery), "facts": facts, **_measured(made, cache)}
    return row | _choice(row, right <= FEW_RIGHT)


def _prepared(bench: Benchmark, cache: Cache) -> list[Row]:
    """LPMT on vectors that were prepared, against LPMT on vectors as they are."""
    names, rows = (PLAIN, "lpmt"), []
    before = _means(bench, names, cache)
    for way in WAYS:
        prepared = preparation(way, bench.gallery)
        queries = None if bench.queries is None else prepared(bench.queries)
        made = replace(bench, queries=queries, gallery=prepared(bench.gallery))
        changed = zip(names, before, _means(made, names, cache), strict=True)
        rows.append({"set": bench.name, "way": way, **{name: b["mean"] - a["mean"] for name, a, b in changed}})
    return rows
