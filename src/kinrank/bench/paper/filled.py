"""A record and the printed tables -> finished tables: the paper's, and those of features the paper does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kinrank.bench.paper import variants
from kinrank.bench.paper.layout import MEASURED, PRINTED, Cell, Column, Filled, Head, Line, Printed, Row
from kinrank.bench.paper.printed import CLASSES, LEVELS, SLIPS, TABLES
from kinrank.bench.paper.subjects import AS_PRINTED, rows_of, table_of
from kinrank.datasets.finding import LANDMARKS
from kinrank.methods import METHODS

MILLION = 1_000_000
ABSENT = "not in kinrank"
NOT_MEASURED = "not measured"
REFUSED = "refused"
JOINT = "Joint: queries and gallery in one graph, as in the paper. Measured numbers have 95 % intervals over queries."
OURS = (
    "LPMT here is kinrank's: the paper's, plus a direct comparison of wide neighbourhoods (direct), at kinrank's "
    f"defaults. The row below it has {variants.SETTINGS['paper'][0]} and no direct comparison."
)
WITHOUT = "LPMT is measured without its direct comparison of wide neighbourhoods (direct=0) here, as in the paper."
Found = dict[str, Any]
Lookup = Callable[[Row, Column], Found | None]


def tables(record: Found) -> list[Filled]:
    """Tables of the user's features first, then all of the paper's, in its order."""
    return [*_own(record), *_own_ablations(record), *(_printed(table, record) for table in TABLES)]


def _printed(table: Printed, record: Found) -> Filled:
    """One table of the paper: its columns twice, as printed and as measured."""
    columns = [_with_features(column, table) for column in table.columns]
    here = [column for column in columns if _there(record, column)]
    missing = [column for column in columns if column not in here]
    heads = [Head(PRINTED, column.group, column.name, column=column) for column in columns]
    heads += [Head(MEASURED, column.group, named(column, record), column=column) for column in here]
    if missing:
        heads.append(Head(MEASURED, "", "", absent=absence(missing)))
    lookup, errors = _lookup(table.kind, record), _Errors()
    lines = []
    ablation = table.kind in ("lse", "tmt")
    for row in (*table.rows, *([AS_PRINTED] if here and not ablation else [])):
        printed = [Cell(mean=number) for number in row.numbers] or [Cell(word="-")] * len(columns)
        measured = [_cell(lookup(row, column), row, table.kind, errors) for column in here]
        lines.append(Line(row.name, row.method, (*printed, *measured, *[Cell(word="-")] * bool(missing)), row.ruled))
    notes = [JOINT, *errors.said, *([SLIPS[table.number]] if table.number in SLIPS else [])]
    notes += list(dict.fromkeys(note for column in here for note in _differences(_found(record, column))))
    if here:
        notes.append(
            f"Measured with {variants.SETTINGS['paper'][0]}. {variants.UNPRINTED} {WITHOUT}" if ablation else OURS
        )
    return Filled(f"table-{table.number}", f"Table {table.number}. {table.title}", *_marked(heads, lines), tuple(notes))


def _own(record: Found) -> list[Filled]:
    """Per kind of features that the paper does not have, its sets in the layout of the paper's tables."""
    made = []
    scored = {(row["set"], row["features"]) for row in record["scores"]}
    for landmarks in (True, False):
        layout = LEVELS if landmarks else CLASSES
        words = [one["features"] for one in record["found"] if (one["set"] in LANDMARKS) == landmarks]
        for word in dict.fromkeys(words):
            sets = [one for one in record["found"] if one["features"] == word and (one["set"], word) in scored]
            sets = [one for one in sets if (one["set"] in LANDMARKS) == landmarks]
            if sets and table_of(sets[0]["set"], word).features != word:
                made.append(_own_table(record, word, sets, layout))
    return made


def _own_table(record: Found, word: str, sets: Sequence[Found], layout: Sequence[Column]) -> Filled:
    columns = []
    for column in layout:
        for one in sets:
            if one["set"] == column.set:
                measured = (column.set, column.truth, column.measure, word, one["distractors"])
                columns.append(Column(column.group, column.name, *measured))
    kind = "landmarks" if sets[0]["set"] in LANDMARKS else "classes"
    lookup, errors = _lookup(kind, record), _Errors()
    heads = [Head(MEASURED, column.group, named(column, record), column=column) for column in columns]
    lines = [
        Line(
            row.name if row.method != "none" else f"{word}, no re-ranking",
            row.method,
            tuple(_cell(lookup(row, column), row, kind, errors) for column in columns),
            row.ruled,
        )
        for row in rows_of(sets[0]["set"], word)
    ]
    model = "Tables 1 and 2" if kind == "landmarks" else "Table 4"
    sizes = "; ".join(
        f"{one['set']}{distractors(one)}: {one['queries']:,} queries, "
        f"{one['items']:,} items, {one['dimensions']} dimensions"
        for one in sets
    )
    differences = list(dict.fromkeys(note for one in sets for note in _differences(one)))
    title = f"Your features: {word}, in the layout of {model}"
    notes = (f"{sizes}. The paper has no such features.", OURS, JOINT, *differences, *errors.said)
    return Filled(f"your-{kind}-{word}", title, *_marked(heads, lines), notes)


def _own_ablations(record: Found) -> list[Filled]:
    """Tables 5 and 6 on every set that was looked into, at kinrank's defaults and at the paper's settings."""
    made = []
    for name, word in dict.fromkeys((row["set"], row["features"]) for row in record["ablations"]):
        for table in (one for one in TABLES if one.kind in ("lse", "tmt")):
            rows = [
                row
                for row in record["ablations"]
                if (row["set"], row["features"], row["table"]) == (name, word, table.kind)
            ]
            every = ("medium", "hard") if name in LANDMARKS else ("class",)  # where all variants refused
            truths = list(dict.fromkeys(row["truth"] for row in rows if "truth" in row)) or every
            heads, errors = [], _Errors()
            for truth in truths:
                for settings in variants.SETTINGS:
                    column = Column(truth, settings, name, truth, "mAP", word)
                    title = "kinrank's defaults" if settings == "defaults" else "paper's settings"
                    heads.append(Head(MEASURED, truth, title, column=column))
            shown = [(one.name, one.name if one.method == "none" else one.method, one.ruled) for one in table.rows]
            shown += [(extra, extra.lower(), False) for extra in variants.EXTRA if table.kind == "tmt"]
            lines = [
                Line(label, key, tuple(_ablated(rows, key, head.column, errors) for head in heads), ruled)
                for label, key, ruled in shown
            ]
            about = f"{name}, mAP. {variants.UNPRINTED}"
            title = f"Your features: {word}, {table.title[0].lower()}{table.title[1:]}, as in Table {table.number}"
            key = f"your-{table.kind}-{name}-{word}"
            made.append(Filled(key, title, *_marked(heads, lines), (about, WITHOUT, JOINT, *errors.said)))
    return made


def _ablated(rows: Sequence[Found], key: str, column: Column | None, errors: _Errors) -> Cell:
    assert column is not None
    for row in rows:
        same = row["settings"] == column.name and row["name"].lower() == key.lower()
        if same and row.get("truth", column.truth) == column.truth:
            return _cell(row, None, "", errors)
    return Cell(word=NOT_MEASURED)


def _lookup(kind: str, record: Found) -> Lookup:
    """Finds what was measured for a row and a column of a table."""
    if kind in ("lse", "tmt"):
        rows = [row for row in record["ablations"] if row["table"] == kind and row["settings"] == "paper"]
        kept = {(row["set"], row["features"], row.get("truth"), row["name"].lower()): row for row in rows}

        def ablated(row: Row, column: Column) -> Found | None:
            name = row.name.lower() if row.method == "none" else row.method
            truths = (column.truth, None)  # a refusal is of no truth
            both = (kept.get((column.set, column.features, truth, name)) for truth in truths)
            return next((found for found in both if found is not None), None)

        return ablated
    scores: dict[tuple[Any, ...], Found] = {}
    for row in record["scores"]:
        where = (row["set"], row["features"], row["distractors"], row["method"])
        key = (*where, row.get("truth"), row.get("measure"))
        scores[key] = row

    def one(row: Row, column: Column) -> Found | None:
        where = (column.set, column.features, column.distractors, row.method)
        return scores.get((*where, column.truth, column.measure)) or scores.get((*where, None, None))

    return one


class _Errors:
    """Sentences with which methods refused, and what learned ones learned from, each said once below its table."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def add(self, name: str, sentence: str) -> None:
        self._say(f"{name} refused: {sentence}")

    def fitted(self, name: str, on: str) -> None:
        self._say(f"{name} was fitted on {on}; the paper's was trained on the labels of another set.")

    def _say(self, text: str) -> None:
        if text not in self.said:
            self.said.append(text)


def _cell(found: Found | None, row: Row | None, kind: str, errors: _Errors) -> Cell:
    if row is not None and kind in ("landmarks", "classes") and row.method not in METHODS:
        return Cell(word=ABSENT)
    if found is None:
        return Cell(word=NOT_MEASURED)
    if "error" in found:
        errors.add(str(found.get("name") or found.get("method")), found["error"])
        return Cell(word=REFUSED)
    if row is not None and "fitted" in found:
        errors.fitted(row.name, found["fitted"])
    if found["mean"] is None:
        return Cell(word="-")
    mean, low, high = (100 * found[part] for part in ("mean", "low", "high"))
    return Cell(mean, low, high)


def _marked(heads: Sequence[Head], lines: Sequence[Line]) -> tuple[tuple[Head, ...], tuple[Line, ...]]:
    """The same with the best number of every column marked, as it is printed with one decimal."""
    best = []
    for number in range(len(heads)):
        values = [line.cells[number].mean for line in lines]
        known = [round(value, 1) for value in values if value is not None]
        best.append(max(known, default=None))
    marked = []
    for line in lines:
        cells = tuple(
            Cell(cell.mean, cell.low, cell.high, cell.word, cell.mean is not None and round(cell.mean, 1) == top)
            for cell, top in zip(line.cells, best, strict=True)
        )
        marked.append(Line(line.name, line.method, cells, line.ruled))
    return tuple(heads), tuple(marked)


def _with_features(column: Column, table: Printed) -> Column:
    word = column.features or table.features
    return Column(column.group, column.name, column.set, column.truth, column.measure, word, column.distractors)


def _there(record: Found, column: Column) -> bool:
    return bool(_found(record, column))


def _found(record: Found, column: Column) -> Found:
    """What is known of the features of a column; nothing where they are not there."""
    wanted = (column.set, column.features, column.distractors)
    every = (one for one in record["found"] if (one["set"], one["features"], one["distractors"]) == wanted)
    return next(every, {})


def _differences(one: Found) -> list[str]:
    """In what a set is not the published one."""
    return [f"{one['set']}: {note}" for note in one.get("notes", ())]


def named(column: Column, record: Found) -> str:
    """The name of a measured column, with the number of distractors that were there."""
    if not column.distractors:
        return column.name
    count = _found(record, column).get("distractor_count")
    many = (
        "1M" if count is not None and abs(count - MILLION) < 0.1 * MILLION else f"{count:,}" if count else "distractors"
    )
    return f"{column.name.removesuffix('+1M')}+{many}"


def distractors(one: Found) -> str:
    """How many distractors features have, as the rest of a name; nothing where they have none."""
    if not one["distractors"]:
        return ""
    count = one.get("distractor_count")
    return f" with {count:,} distractors" if count else " with distractors"


def absence(columns: Sequence[Column]) -> str:
    """Which features are not there, and the names of the files that would be found."""
    words = list(dict.fromkeys(column.features for column in columns))
    files = []
    for column in columns:
        files.append(f"{column.set}_{column.features}.npz")
        if column.distractors:
            files.append(f"distractors_{column.features}.npy")
    far = all(column.distractors for column in columns)
    what = "distractors" if far else "features"
    listed = ", ".join(dict.fromkeys(files))
    return f"no {what} named {', '.join(words)} in the folder of --data: put {listed} there"
