"""Bench of `diagnose`: how well it predicts LPMT's gain, and the value of its choices without labels.

gain: facts and joint gain per set. The constants of the rule are fitted on all sets except one, original and thinned,
and predict that one, in turn. thinned: the same sets with one, two, four, ... relevant items per query, made by
leaving items out; they show how the gain depends on that number. prepared: LPMT on centred and half-whitened vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinrank.diagnosis import Facts
from kinrank.diagnosis.gain_model import INTERVAL_ERRORS, NO_KIN_DROP, RMS_ERROR, predict_gain
from kinrank.diagnosis.neighborhood_facts import measure_facts
from kinrank.diagnosis.parameter_choice import FEW_RIGHT_ANSWERS
from kinrank.diagnosis.vector_preparation import WAYS, fit_preparation
from kinrank.errors import InputError
from kinrank.evaluation import Truth
from kinrank.evaluation.significance import compare_pairs
from kinrank.evaluation.trials import BASELINE
from kinrank.methods import LPMT, Method, resolve_method
from kinrank.progress import Progress, ProgressOption
from kinrank.vector_input import check_vectors, to_unit_rows
from kinrank_bench.accuracy import select_fixed_sets
from kinrank_bench.class_halves import find_classes, has_classes
from kinrank_bench.datasets.benchmark import Benchmark, load
from kinrank_bench.declaration import Folder, FoundSets, Parts
from kinrank_bench.measurement import drop_easy, measure_cell, require_scores
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.record import check_names, make_record
from kinrank_bench.tables import Column, Table

PARTS = ("gain", "thinned", "prepared")
POSITIVES_PER_QUERY = (1, 2, 4, 8, 16)
MIN_THINNED_ITEMS, MAX_THINNED_ITEMS = 150, 6000
GRID = tuple(round(2.0 + 0.1 * step, 1) for step in range(41))  # candidate values of the drop
POINTS_TOLERANCE = 1e-9  # for sums of the same numbers in another order
HALF_NEIGHBORHOOD = LPMT(k2=3)  # half the default, as `diagnose` chooses if queries have few relevant items
DEFAULT_CHOICE = "LPMT()"
Row = dict[str, Any]
GAIN_TITLE = (
    "mAP in percent, joint. Predictions and choices of parameters use no labels and a rule fitted without the set."
)
GAIN_COLUMNS = (
    Column("set", "{set}", left=True),
    Column("right answers", "{right:.0f}"),
    Column("no re-ranking", "{none:.1f}"),
    Column("LPMT gains", "{gain:+.1f}"),
    Column("95 % interval", "{low:+.1f} to {high:+.1f}"),
    Column("predicted", lambda row: f"{row['predicted']:+.0f}" + ("" if row["sign"] else ", wrong")),
    Column("chosen", lambda row: row["chosen"] if _has_other_parameters(row) else "defaults"),
    Column("gains", lambda row: f"{row['with_chosen'] - row['lpmt']:+.1f}" if _has_other_parameters(row) else ""),
)
THINNED_TITLE = (
    "Gain of LPMT by the number of right answers per query, joint: at its defaults / with the parameters chosen for "
    "that number."
)
PREPARED_TITLE = (
    "Change of mAP in points by preparing the vectors, joint: of the search, and of LPMT. Half whitening in "
    "particular is a gamble without labels."
)


def diagnosis(
    folder: Folder,
    sets: FoundSets = None,
    parts: Parts = PARTS,
    progress: ProgressOption = None,
    cache: Cache | None = None,
) -> Row:
    """Measure how well the gain of LPMT is predicted, and parameters are chosen, without labels. Joint.

    \b
    kinrank bench diagnosis --data DIR
    kinrank bench diagnosis --data DIR --parts gain --sets orl,mpeg7,coil20

    gain: fit the rule on all sets but one and predict that one, in turn. thinned: the sets with one, two, four, ...
    right answers per query. prepared: LPMT on centred and half-whitened vectors. Sets are read from files with
    fixed names, such as orl_pixels.npz; docs/datasets.md lists them.

    Returns:
        `results` and `fit` (part gain), `thinned` (per number of relevant items) and `prepared` (per way).
    """
    check_names("part", parts, PARTS)
    set_names = select_fixed_sets(folder, sets)
    if "gain" in parts and len(set_names) < 3:
        raise InputError(
            f"has {len(set_names)} names, but two sets are needed to fit the rule and one to evaluate it",
            parameter="sets",
            remedy="give three or more",
        )
    cell_cache, report = cache or Cache(None), Progress(progress)
    results: dict[str, Any] = {"mode": "joint", "results": [], "thinned": [], "prepared": []}
    for name in report.each("sets", set_names, len(set_names)):
        bench = _normalize_set(load(name, folder))
        if "gain" in parts:
            results["results"].append(_gain_row(bench, cell_cache))
        if "thinned" in parts:
            results["thinned"] += [_thin_row(bench, right, thinned, cell_cache) for right, thinned in thin_sets(bench)]
        if "prepared" in parts:
            results["prepared"] += _preparation_rows(bench, cell_cache)
    if "gain" in parts:
        results["fit"] = _predict_gains(results["results"], results["thinned"])
    return make_record("diagnosis", results)


def _normalize_set(bench: Benchmark) -> Benchmark:
    """Drop `easy`, which papers report less and less, and scale vectors to length one."""
    truths = drop_easy(bench.truths)
    queries = None if bench.queries is None else to_unit_rows(check_vectors(bench.queries, "queries"), "queries")
    return replace(
        bench, truths=truths, queries=queries, gallery=to_unit_rows(check_vectors(bench.gallery, "gallery"), "gallery")
    )


def _gain_row(bench: Benchmark, cache: Cache) -> Row:
    """Measure the facts of a set and the gain of LPMT, at its defaults and with half the neighbourhood."""
    facts = measure_facts(bench.gallery, bench.queries)
    return {
        "set": bench.name,
        "right": float(
            np.mean([count for truth in bench.truths.values() for count in truth.positives.counts if count])
        ),
        "facts": facts.to_dict(),
        **_measure_gain(bench, cache),
    }


def _measure_gain(bench: Benchmark, cache: Cache) -> Row:
    plain, usual, half = _mean_scores(bench, (BASELINE, LPMT(), HALF_NEIGHBORHOOD), cache)
    gain = usual["mean"] - plain["mean"]
    return {
        "none": plain["mean"],
        "lpmt": usual["mean"],
        "gain": gain,
        "low": usual["low"],
        "high": usual["high"],
        "half": half["mean"],
    }


def _mean_scores(bench: Benchmark, methods: Sequence[Method | str], cache: Cache) -> list[Row]:
    """Return mAP in percent per method, averaged over the truths, with the interval of the gain over the first."""
    values = []
    for method in map(resolve_method, methods):
        cell = measure_cell(bench, method, "joint", cache, measures=["mAP"])
        require_scores(cell)
        rows = [np.array(cell["truths"][label]["mAP"]["per_query"], np.float64) for label in bench.truths]
        counted = ~np.isnan(rows).all(axis=0)
        values.append(np.where(counted, np.nansum(rows, axis=0) / np.maximum((~np.isnan(rows)).sum(axis=0), 1), np.nan))
    gains = [compare_pairs(values[0], scores, "mAP", resamples=2000) for scores in values]
    return [{"mean": 100 * gain.mean_b, "low": 100 * gain.low, "high": 100 * gain.high} for gain in gains]


def fit_limits(rows: Sequence[Row], left_out: str | None = None) -> tuple[float, float]:
    """Return the drop above which LPMT loses, and the one above which half the neighbourhood is better.

    Both are fitted on original and thinned sets, except those of `left_out`. The first has the fewest wrong signs (the
    middle of equally good values); the second gains the most points (the largest of equally good values, which changes
    the least).
    """
    fit_rows = [row for row in rows if row["set"] != left_out]
    drop, gain = np.array([row["facts"]["drop"] for row in fit_rows]), np.array([row["gain"] for row in fit_rows])
    half = np.array([row["half"] - row["none"] for row in fit_rows])
    wrong = np.array([((drop < value) != (gain > 0)).sum() for value in GRID])
    points = np.array([np.where(drop > value, half, gain).mean() for value in GRID])
    right, most = _first_run(wrong == wrong.min()), _first_run(points >= points.max() - POINTS_TOLERANCE)
    return float(np.mean([right[0], right[-1]])), most[-1]


def _first_run(good: Any) -> tuple[float, ...]:
    """Return the values of GRID from the first good one to the last good one without a gap."""
    first = int(np.flatnonzero(good)[0])
    return GRID[first : first + int(np.argmin([*good[first:], False]))]


def fit_gain_rule(
    results: Sequence[Row], left_out: str | None = None, no_kin: float = NO_KIN_DROP
) -> tuple[float, float]:
    """Fit the two constants of the expected gain by least squares over all sets except one."""
    rows = [row for row in results if row["set"] != left_out]
    facts_by_set = [Facts(**row["facts"]) for row in rows]
    # the gain is linear in both constants: the columns are the predictions of each constant alone
    columns = np.array(
        [
            [predict_gain(facts, None, *constants, no_kin).points for constants in ((1, 0), (0, 1))]
            for facts in facts_by_set
        ]
    )
    base, per_thin = np.linalg.lstsq(columns, np.array([row["gain"] for row in rows]), rcond=None)[0]
    return float(base), float(per_thin)


def _predict_gains(results: list[Row], thin: list[Row]) -> Row:
    """Add predictions to every row, by a rule fitted without its set; return the rule fitted on all sets."""
    for rows, known in ((results, False), (thin, True)):
        for row in rows:
            no_kin, few = fit_limits([*results, *thin], row["set"])
            rule = (*fit_gain_rule(results, row["set"], no_kin), no_kin)
            row["predicted"] = predict_gain(Facts(**row["facts"]), row["right"] if known else None, *rule).points
            row["sign"] = bool((row["predicted"] > 0) == (row["gain"] > 0))
            if not known:
                row |= _choose_parameters(row, row["facts"]["drop"] > few)
    no_kin, few = fit_limits([*results, *thin])
    base, per_thin = fit_gain_rule(results, None, no_kin)
    errors, changed = _prediction_errors(results), [row["with_chosen"] - row["lpmt"] for row in results]
    return {
        "base": base,
        "per_thin": per_thin,
        "no_kin": no_kin,
        "few": few,
        "error": float(np.sqrt((errors**2).mean())),
        "error_right": float(np.sqrt((_prediction_errors(thin) ** 2).mean())) if thin else None,
        "inside": int((np.abs(errors) <= INTERVAL_ERRORS * RMS_ERROR).sum()),
        "signs": sum(row["sign"] for row in results),
        "positive": sum(row["gain"] > 0 for row in results),
        "sets": len(results),
        "chosen_gain": float(np.mean(changed)),
        "chosen_worst": float(min(changed)),
    }


def _choose_parameters(row: Row, halved: bool) -> Row:
    """Return the parameters chosen without labels, and their mAP."""
    return {
        "chosen": repr(HALF_NEIGHBORHOOD if halved else LPMT()),
        "with_chosen": row["half"] if halved else row["lpmt"],
    }


def _prediction_errors(rows: list[Row]) -> Any:
    return np.array([row["predicted"] - row["gain"] for row in rows])


def thin_sets(bench: Benchmark) -> Iterator[tuple[int, Benchmark]]:
    """Yield the set with few relevant items per query: that many items of each class, plus one as the query.

    Only for sets with classes that are large enough; yields sets of 150 to 6000 items.
    """
    truth = next(iter(bench.truths.values()))
    if not has_classes(bench):
        return
    for right in POSITIVES_PER_QUERY:
        kept, labels = _sample_classes(bench, truth, right)
        if MIN_THINNED_ITEMS <= len(kept) <= MAX_THINNED_ITEMS:
            yield right, replace(bench, queries=None, gallery=kept, truths={"class": Truth.from_labels(labels)})


def _sample_classes(bench: Benchmark, truth: Truth, right: int) -> tuple[Any, Any]:
    """Return random items of each class, and their labels."""
    generator = np.random.default_rng(0)
    chosen_items, labels = [], []
    for members in find_classes(bench, truth):
        if len(members) > right:
            chosen_items.append(np.sort(generator.choice(members, right + 1, replace=False)))
            labels += [int(members[0])] * (right + 1)
    return bench.gallery[np.concatenate(chosen_items)] if chosen_items else bench.gallery[:0], labels


def _thin_row(bench: Benchmark, right: int, thinned: Benchmark, cache: Cache) -> Row:
    facts = measure_facts(thinned.gallery).to_dict()
    row = {
        "set": bench.name,
        "right": right,
        "items": len(thinned.gallery),
        "facts": facts,
        **_measure_gain(thinned, cache),
    }
    return row | _choose_parameters(row, right <= FEW_RIGHT_ANSWERS)


def _preparation_rows(bench: Benchmark, cache: Cache) -> list[Row]:
    """Measure LPMT on prepared vectors against LPMT on the original vectors."""
    names, rows = (BASELINE, "lpmt"), []
    before = _mean_scores(bench, names, cache)
    for way in WAYS:
        prepared = fit_preparation(way, bench.gallery)
        queries = None if bench.queries is None else prepared(bench.queries)
        changed_set = replace(bench, queries=queries, gallery=prepared(bench.gallery))
        changed = zip(names, before, _mean_scores(changed_set, names, cache), strict=True)
        rows.append({"set": bench.name, "way": way, **{name: b["mean"] - a["mean"] for name, a, b in changed}})
    return rows


def build_diagnosis_tables(record: Row, titles: Mapping[str, str] | None = None) -> list[Table]:
    """Build one table per measured part; `titles` maps names of sets to titles."""
    results, thinned, prepared = (
        [{**row, "set": (titles or {}).get(row["set"], row["set"])} for row in record.get(part) or ()]
        for part in ("results", "thinned", "prepared")
    )
    tables = []
    if results:
        tables.append(Table.from_rows(GAIN_TITLE, GAIN_COLUMNS, results, [_describe_fit(record["fit"])]))
    if thinned:
        counts = sorted({row["right"] for row in thinned})
        cells = {(row["set"], row["right"]): _format_gains(row) for row in thinned}
        tables.append(_pivot(THINNED_TITLE, {count: f"{count} right" for count in counts}, cells))
    if prepared:
        ways = {row["way"]: f"{row['way']}: search, LPMT" for row in prepared}
        cells = {(row["set"], row["way"]): f"{row['none']:+.1f}, {row['lpmt']:+.1f}" for row in prepared}
        tables.append(_pivot(PREPARED_TITLE, ways, cells))
    return tables


def _pivot(title: str, columns: Mapping[Any, str], cells: Mapping[tuple[str, Any], str]) -> Table:
    """Build a table with a row per set and a column per key of `columns`, which maps to its heading."""
    sets = dict.fromkeys(name for name, _ in cells)
    rows = [[name, *(cells.get((name, key), "") for key in columns)] for name in sets]
    return Table(title, ["set", *columns.values()], rows)


def _format_gains(row: Row) -> str:
    return f"{row['gain']:+.1f} / {row['with_chosen'] - row['none']:+.1f}"


def _has_other_parameters(row: Row) -> bool:
    return bool(row["chosen"] != DEFAULT_CHOICE)


def _describe_fit(fit: Row) -> str:
    sentences = [
        f"The sign is right on {fit['signs']} of {fit['sets']} sets; saying that LPMT always helps is right on "
        f"{fit['positive']} of them. Predictions are off by {fit['error']:.1f} points (root mean square), and "
        f"{fit['inside']} of {fit['sets']} gains are within the predicted interval.",
    ]
    if fit["error_right"] is not None:
        sentences.append(
            f"If the number of right answers is given, predictions for thinned sets are off by "
            f"{fit['error_right']:.1f} points."
        )
    sentences.append(
        f"Parameters chosen without labels gain {fit['chosen_gain']:.2f} points over the defaults on average, "
        f"{fit['chosen_worst']:.2f} at worst."
    )
    sentences.append(
        f"Fitted on all sets: {fit['base']:.1f} + {fit['per_thin']:.1f} (mutual - common) points, none above a drop of "
        f"{fit['no_kin']:.2f}; half the neighbourhood above {fit['few']:.2f}."
    )
    return " ".join(sentences)
