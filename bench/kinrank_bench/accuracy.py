"""Accuracy bench: scores of sets x methods x modes with intervals, gains and times; and their tables."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from kinrank.errors import EXPECTED_ERRORS, MissingFileError
from kinrank.evaluation.trials import BASELINE, VARIANTS, format_points
from kinrank.methods import METHODS
from kinrank.progress import Progress, ProgressOption
from kinrank.tables import render_csv
from kinrank_bench.datasets import FeatureSet, describe_missing, find_feature_sets
from kinrank_bench.datasets import benchmark as published
from kinrank_bench.datasets.benchmark import BENCHMARKS, Benchmark, load
from kinrank_bench.declaration import Folder, FoundSets, MethodNames, Option
from kinrank_bench.measurement import (
    CANDIDATE_COUNT,
    CONFIDENCE,
    MAX_CANDIDATE_QUERIES,
    MODES,
    Cell,
    compare_cells,
    describe_failure,
    measure_cell,
)
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.record import check_names, make_record, mean_interval, resolve_method_names
from kinrank_bench.tables import Table, mark_best, render_latex, render_markdown

log = logging.getLogger(__name__)

AccuracyRecord = dict[str, Any]
Panel = tuple[str, str, str]  # mode, set and truth
BETTER, WORSE = "↑", "↓"
SUFFIXES = (".md", ".tex", ".csv")
EVERY_FOURTH_NOTE = "every fourth item is a query and the rest is the gallery"
MARKS = (
    f"{BETTER} better, {WORSE} worse than no re-ranking: the whole 95 % interval of the difference, paired by query, "
    "is on that side of 0. Comparisons are not corrected for their number: if nothing changes, one in twenty is marked "
    "by chance. Bold: the best mean."
)
LEGEND = f"Percent, with 95 % intervals over queries. {MARKS}"
OVERVIEW_LEGEND = f"Percent, mean over queries; the tables of single sets have the 95 % interval. {MARKS}"
COLUMNS = (
    "mode", "conditions", "set", "truth", "measure", "method", "queries", "items", "mean", "low", "high", "gain",
    "gain_low", "gain_high", "p", "verdict", "best", "seconds", "parameters", "error",
)  # fmt: skip


def accuracy(
    folder: Folder,
    methods: MethodNames = ("all",),
    sets: FoundSets = None,
    progress: ProgressOption = None,
    *,
    modes: Annotated[Sequence[str], Option("Modes to run.")] = MODES,
    cache: Cache | None = None,
    most: Annotated[
        int, Option("Maximum number of queries per set in the mode candidates.", "queries", least=1)
    ] = MAX_CANDIDATE_QUERIES,
) -> dict[str, Any]:
    """Measure scores with 95 % intervals, gains over no re-ranking, and times of all methods on published sets.

    \b
    kinrank bench accuracy --data DIR
    kinrank bench accuracy --data DIR --methods none,lpmt --sets roxford5k,coil20 --modes joint
    kinrank bench accuracy --data DIR -o results.jsonl --table results.tex

    joint: queries and gallery in one graph. candidates: each query over its 500 nearest. online: queries in no
    graph. After Ctrl-C the same command continues where it stopped. Changed vectors, parameters or code are
    measured again. Sets are read from files with fixed names, such as orl_pixels.npz or, for the features of the
    paper, roxford5k_rgem.npz; docs/datasets.md lists them.

    Args:
        sets: names in BENCHMARKS, or of features in the folder, such as roxford5k_rgem or
            roxford5k_rgem+distractors (see `kinrank_bench.datasets.find_feature_sets`).
        cache: keeps every cell as soon as it is measured; default: no cache.

    Returns:
        `results`: dicts with set, truth, queries, items, mode, method, parameters, measure, mean, low, high, seconds,
        worse (than no re-ranking, by the mean), gain, gain_low, gain_high, p (over no re-ranking in the same mode,
        paired by query), date, `every_fourth` if every fourth item is a query and the rest is the gallery; or with
        `error` if a method refused, `unserved` if it does not support mode online, and `failed` if it raised an
        unexpected exception. A set that cannot be read is one result with set and `error`; the others are measured.
        `notes`: set -> differences from the published set. `wall_seconds`: duration of this call; `cells_measured` and
        `cells_kept`: number of cells measured now and read from the cache.
    """
    started = time.perf_counter()
    names = select_methods(methods)
    set_names = select_sets(folder, sets)
    check_names("mode", modes, MODES)
    cell_cache = Cache(None) if cache is None else cache
    before = cell_cache.measured, cell_cache.read
    jobs = [(mode, method) for mode in dict.fromkeys(modes) for method in names]
    report, total = Progress(progress), len(set_names) * len(jobs)
    results: list[dict[str, Any]] = []
    notes: dict[str, list[str]] = {}
    unreadable: list[Exception] = []
    with cell_cache.open_scratch("joined") as joined:
        for number, name in enumerate(set_names):
            try:
                bench = load_set(name, folder, joined)
            except EXPECTED_ERRORS as error:
                unreadable.append(error)
                results.append({"set": name, "error": _strip_folder(str(error), folder)})
                continue
            except Exception as error:
                log.exception("%s could not be loaded", name)
                unreadable.append(error)
                results.append({"set": name, **describe_failure(error)})
                continue
            notes |= {name: [_strip_folder(note, folder) for note in bench.notes]} if bench.notes else {}
            plain: Cell = {}
            for done, (mode, method) in enumerate(jobs, start=number * len(jobs)):
                report.stage(f"{name}, {mode}, {method}", done, total)
                cell = measure_cell(bench, method, mode, cell_cache, most=most)
                plain = cell if method == BASELINE else plain  # the baseline comes first
                results += _result_rows(bench, plain, cell)
    if len(unreadable) == len(set_names):
        raise unreadable[0]
    report.stage("accuracy", total, total)
    work = {"cells_measured": cell_cache.measured - before[0], "cells_kept": cell_cache.read - before[1]}
    settings = {"confidence": CONFIDENCE, "most_queries": most, "notes": notes}
    seconds = time.perf_counter() - started
    return make_record("accuracy", {**settings, **work, "wall_seconds": seconds, "results": results})


def select_methods(names: Sequence[str]) -> list[str]:
    """Return the methods without repetitions, no re-ranking first; "all" excludes variants of LPMT.

    "all" includes the learned methods, which are fitted on pseudo-labels first if torch is installed.
    """
    published = [name for name in METHODS if name not in VARIANTS]
    every = published if list(names) == ["all"] else resolve_method_names(names)
    return list(dict.fromkeys([BASELINE, *every]))


def select_sets(folder: str | os.PathLike[str], names: Sequence[str] | None) -> list[str]:
    """Check the given names, or list every set in the folder, by fixed file names or by features."""
    exists = Path(folder).is_dir()
    by_features = {entry.name: entry for entry in find_feature_sets(folder)} if exists else {}
    if names is not None:
        return check_names("set", names, [*BENCHMARKS, *by_features])
    for sentence in describe_missing(folder) if exists else ():
        warnings.warn(sentence, stacklevel=2)
    fixed = published.list_available(folder)
    files = {BENCHMARKS[name].files[0] for name in fixed}
    more = [name for name, entry in by_features.items() if entry.distractors or entry.vectors.name not in files]
    return [*fixed, *more] or require_available(folder)


def select_fixed_sets(folder: str | os.PathLike[str], names: Sequence[str] | None) -> list[str]:
    """Check the given names of BENCHMARKS, or list those whose files are all in the folder."""
    return require_available(folder) if names is None else check_names("set", names, BENCHMARKS)


def load_set(name: str, folder: str | os.PathLike[str], joined: Path) -> Benchmark:
    """Load a set by its name in BENCHMARKS or by its features; write galleries with distractors to `joined`."""
    if name in BENCHMARKS:
        return load(name, folder)
    entry = next(entry for entry in find_feature_sets(folder) if entry.name == name)
    return replace(load_features(entry, joined), name=name)


def load_features(entry: FeatureSet, joined: Path) -> Benchmark:
    """Load a set; write a gallery with distractors to `joined`, never next to the features."""
    if not entry.distractors:
        return entry.load()
    joined.mkdir(parents=True, exist_ok=True)
    return entry.load(joined)


def _strip_folder(sentence: str, folder: str | os.PathLike[str]) -> str:
    """Remove the folder from a message, because records do not name folders of this machine."""
    return sentence.replace(f"{os.fspath(folder)}{os.sep}", "")


def require_available(folder: str | os.PathLike[str]) -> list[str]:
    """List the sets whose files are all in the folder; raise FileNotFoundError if there are none."""
    found = published.list_available(folder)
    if not found:
        raise MissingFileError(f"{folder} has none of the sets {', '.join(BENCHMARKS)}; check --data")
    return found


def _result_rows(bench: Benchmark, plain: Cell, cell: Cell) -> list[dict[str, Any]]:
    """Return one result per truth and measure."""
    common = {key: value for key, value in cell.items() if key != "truths"}
    if bench.queries is None and cell["mode"] != "joint":
        common["every_fourth"] = True
    if "error" in cell:
        queries = bench.gallery if bench.queries is None else bench.queries
        sizes = {"queries": plain.get("queries", len(queries)), "items": plain.get("items", len(bench.gallery))}
        return [{**common, **sizes, "truth": truth} for truth in bench.truths]
    rows = []
    for truth in bench.truths:
        scores = cell["truths"][truth]
        for measure in sorted(scores, key=bench.measures.index):  # first the measure that papers report
            rows.append({**common, "truth": truth, "measure": measure, **mean_interval(scores[measure])})
            rows[-1] |= _gain_over_plain(plain, cell, truth, measure)
    return rows


def _gain_over_plain(plain: Cell, cell: Cell, truth: str, measure: str) -> dict[str, Any]:
    """Return the gain of a method over no re-ranking; None where there is no number."""
    if "error" in plain:
        return {"worse": False, "gain": None, "gain_low": None, "gain_high": None, "p": None}
    gain = compare_cells(plain, cell, truth, measure).to_dict()
    worse = bool((gain["mean_b"] or 0.0) < (gain["mean_a"] or 0.0))
    numbers = {"gain": gain["difference"], "gain_low": gain["low"], "gain_high": gain["high"], "p": gain["p"]}
    return {"worse": worse, **numbers}


def render_accuracy(record: AccuracyRecord, ending: str) -> str:
    """Return the content of a file with the suffix .md, .tex or .csv."""
    if ending == ".csv":
        return accuracy_csv(record)
    tables = build_tables(record)
    last = tables.pop()
    tables.append(replace(last, notes=[*last.notes, *closing_notes(record)]))
    return (render_markdown if ending == ".md" else render_latex)(tables)


def show_accuracy(record: AccuracyRecord) -> Iterator[Table | str]:
    """Yield the tables, with one legend below all of them."""
    for table in build_tables(record):
        yield replace(table, notes=[note for note in table.notes if note not in (LEGEND, OVERVIEW_LEGEND)])
    yield "\n".join([LEGEND.replace("Bold", "*"), *closing_notes(record)])


def build_tables(record: AccuracyRecord) -> list[Table]:
    """Build, per mode, an overview (if there are several sets or truths) and a table per set and truth."""
    panels = _group_panels(record)
    tables = []
    for mode in sorted({mode for mode, _, _ in panels}, key=MODES.index):
        mode_panels = {panel: rows for panel, rows in panels.items() if panel[0] == mode}
        tables += [_overview_table(describe_conditions(mode, record), mode_panels)] if len(mode_panels) > 1 else []
        tables += [
            _detail_table(describe_conditions(mode, record, rows), panel, rows, record.get("notes", {}))
            for panel, rows in mode_panels.items()
        ]
    return tables


def describe_conditions(mode: str, record: AccuracyRecord, rows: list[AccuracyRecord] | None = None) -> str:
    """Describe how a mode was measured, on the set of `rows` or on all sets."""
    most = record.get("most_queries", MAX_CANDIDATE_QUERIES)
    description = {
        "joint": "queries and gallery in one graph",
        "candidates": f"at most {most} queries of a set, each over its {CANDIDATE_COUNT} nearest",
        "online": "queries in no graph",
    }[mode]
    suffix = f"; {EVERY_FOURTH_NOTE}" if rows is not None and rows[0].get("every_fourth") else ""
    if rows is None and mode != "joint":
        suffix = f"; where every item of a set queries the others, {EVERY_FOURTH_NOTE}"
    return f"{mode} ({description}{suffix})"


def closing_notes(record: AccuracyRecord) -> list[str]:
    """Return sentences for below all tables: sets that could not be read, and the amount of work done now."""
    notes = [f"{row['set']} could not be read: {row['error']}" for row in record["results"] if "method" not in row]
    if "wall_seconds" in record:
        cells = f"{record['cells_measured']} cells were measured now and {record['cells_kept']} were kept from before"
        dates = sorted({row["date"] for row in record["results"] if "date" in row})
        when = f", the oldest of {dates[0]}" if dates and record["cells_kept"] else ""
        notes.append(f"{cells}{when}; this run took {record['wall_seconds']:.0f} seconds.")
    return notes


def accuracy_csv(record: AccuracyRecord) -> str:
    """Return CSV with one line per mode, set, truth, method and measure."""
    rows = []
    for panel, panel_rows in _group_panels(record).items():
        tops = _best_means(panel_rows)
        for row in panel_rows:
            known = dict(zip(("mode", "set", "truth"), panel, strict=True)) | row
            known["conditions"] = describe_conditions(panel[0], record, panel_rows)
            known["verdict"] = {BETTER: "better", WORSE: "worse"}.get(gain_verdict(row), "")
            known["best"] = "best" if _is_top(row, tops) else ""
            rows.append([known.get(column) for column in COLUMNS])
    return render_csv(COLUMNS, rows)


def gain_verdict(row: AccuracyRecord) -> str:
    """Return BETTER or WORSE if the whole interval of the gain is on one side of 0, else an empty string."""
    low, high = row.get("gain_low"), row.get("gain_high")
    if low is None or high is None or row["method"] == BASELINE:
        return ""
    return BETTER if low > 0 else WORSE if high < 0 else ""


def _group_panels(record: AccuracyRecord) -> dict[Panel, list[AccuracyRecord]]:
    panels: dict[Panel, list[AccuracyRecord]] = {}
    for row in (row for row in record["results"] if "method" in row):  # the others are unreadable sets
        panels.setdefault((row.get("mode", "joint"), row["set"], row["truth"]), []).append(row)
    return panels


def _best_means(rows: list[AccuracyRecord]) -> dict[str, float]:
    """Map each measure to its best mean."""
    tops: dict[str, float] = {}
    for row in rows:
        if row.get("mean") is not None:
            tops[row["measure"]] = max(row["mean"], tops.get(row["measure"], row["mean"]))
    return tops


def _is_top(row: AccuracyRecord, tops: dict[str, float]) -> bool:
    return row.get("mean") is not None and row["mean"] == tops[row["measure"]]


def _overview_table(conditions: str, panels: dict[Panel, list[AccuracyRecord]]) -> Table:
    """Build a table with a row per method and a column per set and truth: mAP with its verdict."""
    measures = {panel: _main_measure(rows) for panel, rows in panels.items()}
    methods = list(dict.fromkeys(row["method"] for rows in panels.values() for row in rows))
    head, columns = ["method"], []
    for panel, rows in panels.items():
        head.append(f"{panel[1]} {panel[2]}, {measures[panel]}, {rows[0]['queries']} queries")
        tops = _best_means(rows)
        cells = {}
        for row in rows:
            if "error" in row:
                cells[row["method"]] = missing_value_text(row)
            elif row["measure"] == measures[panel]:
                text = " ".join(filter(None, (_format_percent(row["mean"], 1), gain_verdict(row))))
                cells[row["method"]] = mark_best(text) if _is_top(row, tops) else text
        columns.append(cells)
    body = [[method, *(cells.get(method, "") for cells in columns)] for method in methods]
    return Table(f"Overview, {conditions}", head, body, [OVERVIEW_LEGEND])


def _main_measure(rows: list[AccuracyRecord]) -> str:
    """Return mAP if it was measured, so that columns are comparable; else the first measure."""
    known = [row["measure"] for row in rows if "measure" in row]
    return "mAP" if "mAP" in known else next(iter(known), "")


def _detail_table(conditions: str, panel: Panel, rows: list[AccuracyRecord], notes: dict[str, list[str]]) -> Table:
    """Build a table with a row per method: per measure the mean, the gain and their intervals; then the time."""
    _, name, truth = panel
    measures = list(dict.fromkeys(row["measure"] for row in rows if "measure" in row))
    tops = _best_means(rows)
    head = ["method"]
    for measure in measures:
        head += [measure, "95 % interval", "gained", "95 % interval"]
    body = []
    for method, group in groupby(rows, key=lambda row: str(row["method"])):
        by_measure = {row.get("measure", ""): row for row in group}
        first = next(iter(by_measure.values()))
        if "error" in first:
            body.append([method, *(missing_value_text(first), "", "", "") * len(measures), "-"])
        else:
            cells = [cell for measure in measures for cell in _method_cells(by_measure[measure], tops)]
            body.append([method, *cells, f"{first['seconds']:.2f}"])
    title = f"{name}, {truth}: {rows[0]['queries']} queries, {rows[0]['items']} items; {conditions}"
    return Table(title, [*head, "seconds"], body, [LEGEND, *notes.get(name, ()), *_table_notes(rows, measures)])


def _method_cells(row: AccuracyRecord, tops: dict[str, float]) -> list[str]:
    mean = _format_percent(row["mean"], 2)
    interval = f"{_format_percent(row['low'], 1)} to {_format_percent(row['high'], 1)}"
    cells = [mark_best(mean) if _is_top(row, tops) else mean, interval]
    if row.get("gain_low") is None or row["method"] == BASELINE:
        return [*cells, "", ""]
    gain = " ".join(filter(None, (gain_verdict(row), format_points(row["gain"]))))
    return [*cells, gain, f"{format_points(row['gain_low'])} to {format_points(row['gain_high'])}"]


def missing_value_text(row: AccuracyRecord) -> str:
    """Return the text for a method without a number."""
    return "failed" if row.get("failed") else "-" if row.get("unserved") else "refused"


def _table_notes(rows: list[AccuracyRecord], measures: list[str]) -> list[str]:
    """Return sentences on where re-ranking hurts and why methods refused or failed."""
    notes = []
    for measure in measures:
        hurt = [row for row in rows if row.get("measure") == measure and gain_verdict(row) == WORSE]
        if hurt:
            named = ", ".join(
                f"{row['method']} ({format_points(row['gain'])})" for row in sorted(hurt, key=_format_gain)
            )
            notes.append(f"Re-ranking hurts {measure} with: {named}.")
    unserved = [row["method"] for row in rows if row.get("unserved")]
    if unserved:
        notes.append(f"- : does not support queries outside the gallery: {', '.join(unserved)}.")
    notes += [
        f"{row['method']} {missing_value_text(row)}: {row['error']}"
        for row in rows
        if "error" in row and not row.get("unserved")
    ]
    return notes


def _format_gain(row: AccuracyRecord) -> float:
    return float(row["gain"])


def _format_percent(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}"
