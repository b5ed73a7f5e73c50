"""Finished tables: printed and measured numbers side by side, and tables for features that the paper lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kinrank.methods import METHODS
from kinrank_bench.datasets.feature_folders import LANDMARK_SETS
from kinrank_bench.paper import variants
from kinrank_bench.paper.feature_selection import find_table, method_rows, own_rows
from kinrank_bench.paper.paper_numbers import (
    CLASS_COLUMNS,
    LEVEL_COLUMNS,
    MEASURED,
    MISPRINTS,
    PAPER_TABLES,
    PRINTED,
    Cell,
    Column,
    ColumnHead,
    ComparisonTable,
    Line,
    PaperTable,
    Row,
)

MILLION_DISTRACTORS = 1_000_000
NO_METHOD = "not in kinrank"
NOT_MEASURED = "not measured"
REFUSED, FAILED = "refused", "failed"
JOINT_NOTE = (
    "Joint: queries and gallery in one graph, as in the paper. Measured numbers have 95 % intervals over queries."
)
LPMT_NOTE = (
    "LPMT here is kinrank's: the paper's, plus a direct comparison of wide neighbourhoods (direct), at kinrank's "
    f"defaults. The row below it has {variants.SETTINGS['paper'][0]} and no direct comparison. The last row has "
    "nothing that kinrank added."
)
AUGMENTATION_NOTE = (
    "AQE, αQE and AQEwD include database augmentation (adba+aqe, alpha-dba+alpha-qe, adbawd+aqewd), although the paper "
    "does not say so: without it, on features close to the paper's, they fall 2 to 6 points short of the printed gains."
)
ABLATION_NOTE = "LPMT is measured without its direct comparison of wide neighbourhoods (direct=0), as in the paper."
Record = dict[str, Any]
Lookup = Callable[[Row, Column], Record | None]
TableNotes = dict[str, None]  # sentences below a table, each once


def build_comparison_tables(record: Record) -> list[ComparisonTable]:
    """Build the tables of the user's features, then all tables of the paper, in its order."""
    return [*_own_tables(record), *_own_ablations(record), *(_paper_table(table, record) for table in PAPER_TABLES)]


def _paper_table(table: PaperTable, record: Record) -> ComparisonTable:
    """Build one table of the paper: each column twice, printed and measured."""
    columns = [replace(column, features=column.features or table.features) for column in table.columns]
    available = [column for column in columns if _feature_info(record, column)]
    missing = [column for column in columns if column not in available]
    heads = [ColumnHead(PRINTED, column.group, column.name, column=column) for column in columns]
    heads += [ColumnHead(MEASURED, column.group, column_name(column, record), column=column) for column in available]
    if missing:
        heads.append(ColumnHead(MEASURED, "", "", absent=missing_features_note(missing)))
    lookup, table_notes = _make_lookup(table.kind, record), TableNotes()
    lines = []
    ablation = table.kind in ("lse", "tmt")
    for row in (*table.rows, *(own_rows(table.kind) if available and not ablation else ())):
        printed = [Cell(mean=number) for number in row.numbers] or [Cell(word="-")] * len(columns)
        measured = [_make_cell(lookup(row, column), row, table.kind, table_notes) for column in available]
        lines.append(Line(row.name, row.method, (*printed, *measured, *[Cell(word="-")] * bool(missing)), row.ruled))
    notes = [
        *_reading_notes(table.kind),
        *table_notes,
        *([MISPRINTS[table.number]] if table.number in MISPRINTS else []),
    ]
    notes += list(
        dict.fromkeys(note for column in available for note in _difference_notes(_feature_info(record, column)))
    )
    if available:
        notes.append(
            f"Measured with {variants.SETTINGS['paper'][0]}. {variants.UNPRINTED} {ABLATION_NOTE}"
            if ablation
            else LPMT_NOTE
        )
    return ComparisonTable(
        f"table-{table.number}", f"Table {table.number}. {table.title}", *_mark_best_cells(heads, lines), tuple(notes)
    )


def _own_tables(record: Record) -> list[ComparisonTable]:
    """Build one table per kind of features that the paper lacks, in the layout of the paper's tables."""
    tables = []
    scored = {(row["set"], row["features"]) for row in record["scores"]}
    for landmarks in (True, False):
        layout = LEVEL_COLUMNS if landmarks else CLASS_COLUMNS
        feature_names = [entry["features"] for entry in record["found"] if (entry["set"] in LANDMARK_SETS) == landmarks]
        for features in dict.fromkeys(feature_names):
            sets = [
                entry
                for entry in record["found"]
                if entry["features"] == features and (entry["set"], features) in scored
            ]
            sets = [entry for entry in sets if (entry["set"] in LANDMARK_SETS) == landmarks]
            if sets and find_table(sets[0]["set"], features).features != features:
                tables.append(_own_table(record, features, sets, layout))
    return tables


def _own_table(record: Record, features: str, sets: Sequence[Record], layout: Sequence[Column]) -> ComparisonTable:
    columns = []
    for column in layout:
        for entry in sets:
            if entry["set"] == column.set:
                columns.append(replace(column, features=features, distractors=entry["distractors"]))
    kind = "landmarks" if sets[0]["set"] in LANDMARK_SETS else "classes"
    lookup, table_notes = _make_lookup(kind, record), TableNotes()
    heads = [ColumnHead(MEASURED, column.group, column_name(column, record), column=column) for column in columns]
    lines = [
        Line(
            row.name if row.method != "none" else f"{features}, no re-ranking",
            row.method,
            tuple(_make_cell(lookup(row, column), row, kind, table_notes) for column in columns),
            row.ruled,
        )
        for row in method_rows(sets[0]["set"], features)
        if row.method in record.get("chosen", [row.method])
    ]
    model = "Tables 1 and 2" if kind == "landmarks" else "Table 4"
    sizes = "; ".join(
        f"{entry['set']}{distractor_suffix(entry)}: {entry['queries']:,} queries, "
        f"{entry['items']:,} items, {entry['dimensions']} dimensions"
        for entry in sets
    )
    differences = list(dict.fromkeys(note for entry in sets for note in _difference_notes(entry)))
    title = f"Your features: {features}, in the layout of {model}"
    notes = (
        f"{sizes}. The paper has no such features.",
        LPMT_NOTE,
        *_reading_notes(kind),
        *differences,
        *table_notes,
    )
    return ComparisonTable(f"your-{kind}-{features}", title, *_mark_best_cells(heads, lines), notes)


def _reading_notes(kind: str) -> tuple[str, ...]:
    return (JOINT_NOTE, AUGMENTATION_NOTE) if kind == "classes" else (JOINT_NOTE,)


def _own_ablations(record: Record) -> list[ComparisonTable]:
    """Build Tables 5 and 6 for every set with ablations, at kinrank's defaults and at the paper's settings."""
    tables = []
    for name, features in dict.fromkeys((row["set"], row["features"]) for row in record["ablations"]):
        for table in (line for line in PAPER_TABLES if line.kind in ("lse", "tmt")):
            rows = [
                row
                for row in record["ablations"]
                if (row["set"], row["features"], row["table"]) == (name, features, table.kind)
            ]
            every = ("medium", "hard") if name in LANDMARK_SETS else ("class",)  # if all variants refused
            truths = list(dict.fromkeys(row["truth"] for row in rows if "truth" in row)) or every
            heads, table_notes = [], TableNotes()
            for truth in truths:
                for settings in variants.SETTINGS:
                    column = Column(truth, settings, name, truth, "mAP", features)
                    title = "kinrank's defaults" if settings == "defaults" else "paper's settings"
                    heads.append(ColumnHead(MEASURED, truth, title, column=column))
            variants_shown = [
                (line.name, line.name if line.method == "none" else line.method, line.ruled) for line in table.rows
            ]
            variants_shown += [(extra, extra.lower(), False) for extra in variants.EXTRA if table.kind == "tmt"]
            lines = [
                Line(label, key, tuple(_ablation_cell(rows, key, head.column, table_notes) for head in heads), ruled)
                for label, key, ruled in variants_shown
            ]
            subject = f"{name}, mAP. {variants.UNPRINTED}"
            title = f"Your features: {features}, {table.title[0].lower()}{table.title[1:]}, as in Table {table.number}"
            key = f"your-{table.kind}-{name}-{features}"
            tables.append(
                ComparisonTable(
                    key,
                    title,
                    *_mark_best_cells(heads, lines),
                    (subject, ABLATION_NOTE, JOINT_NOTE, *table_notes),
                )
            )
    return tables


def _ablation_cell(rows: Sequence[Record], key: str, column: Column | None, table_notes: TableNotes) -> Cell:
    assert column is not None
    for row in rows:
        same = row["settings"] == column.name and row["name"].lower() == key.lower()
        if same and row.get("truth", column.truth) == column.truth:
            return _make_cell(row, None, "", table_notes)
    return Cell(word=NOT_MEASURED)


def _make_lookup(kind: str, record: Record) -> Lookup:
    """Return a function that finds the measurement for a row and a column of a table."""
    if kind in ("lse", "tmt"):
        rows = [row for row in record["ablations"] if row["table"] == kind and row["settings"] == "paper"]
        kept = {(row["set"], row["features"], row.get("truth"), row["name"].lower()): row for row in rows}

        def find_ablation(row: Row, column: Column) -> Record | None:
            name = row.name.lower() if row.method == "none" else row.method
            truths = (column.truth, None)  # a refusal has no truth
            both = (kept.get((column.set, column.features, truth, name)) for truth in truths)
            return next((found for found in both if found is not None), None)

        return find_ablation
    scores: dict[tuple[Any, ...], Record] = {}
    for row in record["scores"]:
        where = (row["set"], row["features"], row["distractors"], row["method"])
        key = (*where, row.get("truth"), row.get("measure"))
        scores[key] = row

    def find_score(row: Row, column: Column) -> Record | None:
        where = (column.set, column.features, column.distractors, row.method)
        return scores.get((*where, column.truth, column.measure)) or scores.get((*where, None, None))

    return find_score


def _make_cell(found: Record | None, row: Row | None, kind: str, table_notes: TableNotes) -> Cell:
    """Return the cell of a measurement; note why it has no number, or the training data of a learned method."""
    if row is not None and kind in ("landmarks", "classes") and row.method not in METHODS:
        return Cell(word=NO_METHOD)
    if found is None:
        return Cell(word=NOT_MEASURED)
    if "error" in found:
        word = FAILED if found.get("failed") else REFUSED
        table_notes[f"{found.get('name') or found.get('method')} {word}: {found['error']}"] = None
        return Cell(word=word)
    if row is not None and "fitted" in found:
        fitted = f"{row.name} was fitted on {found['fitted']}"
        table_notes[f"{fitted}; the paper's was trained on the labels of another set."] = None
    if found["mean"] is None:
        return Cell(word="-")
    mean, low, high = (100 * found[part] for part in ("mean", "low", "high"))
    return Cell(mean, low, high)


def _mark_best_cells(
    heads: Sequence[ColumnHead], lines: Sequence[Line]
) -> tuple[tuple[ColumnHead, ...], tuple[Line, ...]]:
    """Mark the best number of every column, as rounded to one decimal."""
    best = []
    for number in range(len(heads)):
        values = [line.cells[number].mean for line in lines]
        known = [round(value, 1) for value in values if value is not None]
        best.append(max(known, default=None))
    marked = []
    for line in lines:
        cells = tuple(
            replace(cell, best=cell.mean is not None and round(cell.mean, 1) == top)
            for cell, top in zip(line.cells, best, strict=True)
        )
        marked.append(replace(line, cells=cells))
    return tuple(heads), tuple(marked)


def _feature_info(record: Record, column: Column) -> Record:
    """Return the entry of the record for the features of a column, or an empty dict."""
    wanted = (column.set, column.features, column.distractors)
    matches = (entry for entry in record["found"] if (entry["set"], entry["features"], entry["distractors"]) == wanted)
    return next(matches, {})


def _difference_notes(entry: Record) -> list[str]:
    """Return the differences of a set from the published one."""
    return [f"{entry['set']}: {note}" for note in entry.get("notes", ())]


def column_name(column: Column, record: Record) -> str:
    """Return the name of a measured column, with the number of distractors."""
    if not column.distractors:
        return column.name
    count = _feature_info(record, column).get("distractor_count")
    many = (
        "1M"
        if count is not None and abs(count - MILLION_DISTRACTORS) < 0.1 * MILLION_DISTRACTORS
        else f"{count:,}"
        if count
        else "distractors"
    )
    return f"{column.name.removesuffix('+1M')}+{many}"


def distractor_suffix(entry: Record) -> str:
    """Return the number of distractors as a suffix of a name, or an empty string."""
    if not entry["distractors"]:
        return ""
    count = entry.get("distractor_count")
    return f" with {count:,} distractors" if count else " with distractors"


def missing_features_note(columns: Sequence[Column]) -> str:
    """Return a sentence on the missing features and the expected file names."""
    names = list(dict.fromkeys(column.features for column in columns))
    files = []
    for column in columns:
        files.append(f"{column.set}_{column.features}.npz")
        if column.distractors:
            files.append(f"distractors_{column.features}.npy")
    only_distractors = all(column.distractors for column in columns)
    what = "distractors" if only_distractors else "features"
    file_list = ", ".join(dict.fromkeys(files))
    return f"no {what} named {', '.join(names)} in the folder of --data: put {file_list} there"


def compare_baselines(record: Record) -> list[str]:
    """Return a sentence per kind of features that the paper has: printed and measured mAP without re-ranking."""
    by_key = {table.key: table for table in build_comparison_tables(record)}
    sentences = []
    for table in PAPER_TABLES:
        pairs = _baseline_pairs(by_key[f"table-{table.number}"]) if table.features else []
        if pairs:
            sentences.append(
                f"{table.features} without re-ranking, to check that the features are the paper's: {'; '.join(pairs)}."
            )
    return sentences


def _baseline_pairs(table: ComparisonTable) -> list[str]:
    """Return printed and measured numbers of the row without re-ranking, where both exist."""
    (cells,) = (line.cells for line in table.lines if line.method == "none")
    both = list(zip(table.heads, cells, strict=True))
    printed = {head.column: cell.mean for head, cell in both if head.block == PRINTED}
    return [
        f"{head.group}, {head.name}: printed {printed[head.column]:.1f}, measured {cell.mean:.1f}"
        for head, cell in both
        if head.block != PRINTED and head.column is not None and cell.mean is not None
    ]


def describe_printed_numbers(record: Record) -> str:
    """Explain how far the printed numbers can be compared with the measured ones."""
    found_features = {entry["features"] for entry in record["found"]}
    matches = [
        f"your {table.features} is {f'its {table.rows[0].name}' if table.kind == 'landmarks' else 'the one it used'}"
        for table in PAPER_TABLES
        if table.features in found_features
    ]
    if not matches:
        return "Printed numbers are the paper's; its features are not in this folder."
    return (
        f"Printed numbers are the paper's. To check whether {', '.join(matches)}, compare the rows without re-ranking."
    )
