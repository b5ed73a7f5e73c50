"""Published sets -> whether `diagnose` predicts LPMT's gain, and what its choices without labels are worth.

gain: facts and joint gain per set. The two constants of the rule are fitted on all sets but one and predict that one,
in turn. thinned: the same sets with one, two, four, ... right answers per query, by leaving items out: the law by which
the gain depends on them. prepared: LPMT on centred and on half-whitened vectors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinrank.bench.accuracy import present
from kinrank.bench.cache import Cache
from kinrank.bench.cells import cell, gained
from kinrank.bench.record import record
from kinrank.datasets.benchmark import BENCHMARKS, Benchmark, load
from kinrank.diagnosis import Facts
from kinrank.diagnosis.choosing import chosen
from kinrank.diagnosis.expected import expected
from kinrank.diagnosis.facts import facts_of
from kinrank.diagnosis.preparing import WAYS, preparation
from kinrank.evaluation import Truth
from kinrank.evaluation.trials import PLAIN
from kinrank.features import check, unit
from kinrank.methods import LPMT, Method, resolve
from kinrank.progress import Progress, Show

PARTS = ("gain", "thinned", "prepared")
RIGHT = (1, 2, 4, 8, 16)
SMALLEST, LARGEST = 150, 6000  # items of a thinned set
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
        found["fit"] = _predicted(found["results"])
    return record("diagnosis", found)


def _judged(bench: Benchmark) -> Benchmark:
    """Without `easy`, which the field reports less and less; vectors of length one."""
    truths = {label: truth for label, truth in bench.truths.items() if label != "easy"}
    queries = None if bench.queries is None else unit(check(bench.queries, "queries"), "queries")
    return replace(bench, truths=truths, queries=queries, gallery=unit(check(bench.gallery, "gallery"), "gallery"))


def _gain(bench: Benchmark, cache: Cache) -> Row:
    """What LPMT gains at its defaults, and with the parameters that are chosen without labels."""
    facts = facts_of(bench.gallery, bench.queries)
    method = chosen(LPMT(), facts)
    plain, usual, own = _means(bench, (PLAIN, LPMT(), method), cache)
    return {
        "set": bench.name,
        "right": float(np.mean([len(row) for truth in bench.truths.values() for row in _rows(truth) if len(row)])),
        "facts": facts.to_dict(),
        "none": plain["mean"],
        "lpmt": usual["mean"],
        "gain": usual["mean"] - plain["mean"],
        "low": usual["low"],
        "high": usual["high"],
        "chosen": repr(method),
        "with_chosen": own["mean"],
    }


def _means(bench: Benchmark, methods: Sequence[Method | str], cache: Cache) -> list[Row]:
    """For each method mAP in percent, the mean over the truths of a set, and the interval of its gain on the first."""
    wanted = [resolve(method) for method in methods]
    cells = {method: cell(bench, method, "joint", cache, measures=["mAP"]) for method in dict.fromkeys(wanted)}
    found = []
    for method in wanted:
        gains = [gained(cells[wanted[0]], cells[method], label, "mAP") for label in bench.truths]
        parts = {"mean": "mean_b", "low": "low", "high": "high"}
        found.append(
            {key: 100 * float(np.mean([getattr(gain, part) for gain in gains])) for key, part in parts.items()}
        )
    return found


def _rows(truth: Truth) -> Iterator[Any]:
    return (truth.positives[query] for query in range(len(truth)))


def fitted(results: Sequence[Row], left_out: str | None = None) -> tuple[float, float]:
    """The two constants of the rule, by least squares over the sets but one."""
    rows = [row for row in results if row["set"] != left_out]
    seen = [Facts(**row["facts"]) for row in rows]
    # a gain is linear in both: what each of them alone predicts are the columns
    columns = np.array([[expected(facts, None, *one).points for one in ((1, 0), (0, 1))] for facts in seen])
    base, per_thin = np.linalg.lstsq(columns, np.array([row["gain"] for row in rows]), rcond=None)[0]
    return float(base), float(per_thin)


def _predicted(results: list[Row]) -> Row:
    """Predictions for every set by a rule that was fitted without it, written into the rows; the rule on all sets."""
    for row in results:
        row["predicted"] = expected(Facts(**row["facts"]), None, *fitted(results, row["set"])).points
        row["sign"] = bool((row["predicted"] > 0) == (row["gain"] > 0))
    base, per_thin = fitted(results)
    errors = np.array([row["predicted"] - row["gain"] for row in results])
    return {
        "base": base,
        "per_thin": per_thin,
        "error": float(np.sqrt((errors**2).mean())),
        "signs": sum(row["sign"] for row in results),
        "sets": len(results),
        "chosen_gain": float(np.mean([row["with_chosen"] - row["lpmt"] for row in results])),
        "chosen_worst": float(min(row["with_chosen"] - row["lpmt"] for row in results)),
    }


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
    for members in _classes(bench, truth):
        if len(members) > right:
            chosen_items.append(np.sort(generator.choice(members, right + 1, replace=False)))
            labels += [int(members[0])] * (right + 1)
    return bench.gallery[np.concatenate(chosen_items)] if chosen_items else bench.gallery[:0], labels


def _classes(bench: Benchmark, truth: Truth) -> list[Any]:
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
    facts = facts_of(made.gallery)
    plain, usual, own = _means(made, (PLAIN, LPMT(), chosen(LPMT(), facts, right)), cache)
    return {
        "set": bench.name,
        "right": right,
        "items": len(made.gallery),
        "none": plain["mean"],
        "gain": usual["mean"] - plain["mean"],
        "low": usual["low"],
        "high": usual["high"],
        "with_chosen": own["mean"] - plain["mean"],
        "predicted": expected(facts, right).points,
        "drop": facts.drop,
    }


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
