"""The record of `kinrank bench accuracy` -> tables: an overview per mode, then every set with intervals and gains."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

from kinrank.bench.cells import CANDIDATES, FEW, MODES
from kinrank.bench.tables import Table, best, comma_separated, latex, markdown
from kinrank.evaluation.trials import PLAIN, points

Record = dict[str, Any]
Panel = tuple[str, str, str]  # mode, set and truth
BETTER, WORSE = "↑", "↓"
ENDINGS = (".md", ".tex", ".csv")
FOURTH = "every fourth item asks and the rest is the gallery"
MARKS = (
    f"{BETTER} better, {WORSE} worse than no re-ranking: the whole 95 % interval of the difference, query by query, "
    "lies on that side of 0. Each comparison is on its own: where nothing changes, one in twenty is marked by chance. "
    "Bold: the best mean."
)
LEGEND = f"Percent, with 95 % intervals over queries. {MARKS}"
IN_SHORT = f"Percent, the mean over queries; the tables of single sets have its 95 % interval. {MARKS}"
COLUMNS = (
    "mode", "conditions", "set", "truth", "measure", "method", "queries", "items", "mean", "low", "high", "gain",
    "gain_low", "gain_high", "p", "verdict", "best", "seconds", "parameters", "error",
)  # fmt: skip


def written(record: Record, ending: str) -> str:
    """The content of a file with this ending: .md, .tex or .csv."""
    if ending == ".csv":
        return lines(record)
    made = tables(record)
    last = made.pop()
    made.append(replace(last, notes=[*last.notes, *closing(record)]))
    return (markdown if ending == ".md" else latex)(made)


def tables(record: Record) -> list[Table]:
    """Per mode an overview, where there are several sets or truths, and a table per set and truth."""
    panels = _panels(record)
    made = []
    for mode in sorted({mode for mode, _, _ in panels}, key=MODES.index):
        mine = {panel: rows for panel, rows in panels.items() if panel[0] == mode}
        made += [_overview(conditions(mode, record), mine)] if len(mine) > 1 else []
        made += [
            _detail(conditions(mode, record, rows), panel, rows, record.get("notes", {}))
            for panel, rows in mine.items()
        ]
    return made


def conditions(mode: str, record: Record, rows: list[Record] | None = None) -> str:
    """How a mode was measured, on the set of these rows or on all of them."""
    most = record.get("most_queries", FEW)
    said = {
        "joint": "queries and gallery in one graph",
        "candidates": f"at most {most} queries of a set, each over its {CANDIDATES} nearest",
        "online": "queries in no graph",
    }[mode]
    fourth = f"; {FOURTH}" if rows is not None and rows[0].get("every_fourth") else ""
    if rows is None and mode != "joint":
        fourth = f"; where every item of a set queries the others, {FOURTH}"
    return f"{mode} ({said}{fourth})"


def closing(record: Record) -> list[str]:
    """Sentences below all tables: sets that could not be read, and how much was measured now."""
    said = [f"{row['set']} could not be read: {row['error']}" for row in record["results"] if "method" not in row]
    if "wall_seconds" in record:
        cells = f"{record['cells_measured']} cells were measured now and {record['cells_kept']} were kept from before"
        dates = sorted({row["date"] for row in record["results"] if "date" in row})
        when = f", the oldest of {dates[0]}" if dates and record["cells_kept"] else ""
        said.append(f"{cells}{when}; this run took {record['wall_seconds']:.0f} seconds.")
    return said


def lines(record: Record) -> str:
    """CSV: one line per mode, set, truth, method and measure."""
    rows = []
    for panel, found in _panels(record).items():
        tops = _tops(found)
        for row in found:
            known = dict(zip(("mode", "set", "truth"), panel, strict=True)) | row
            known["conditions"] = conditions(panel[0], record, found)
            known["verdict"] = {BETTER: "better", WORSE: "worse"}.get(verdict(row), "")
            known["best"] = "best" if _is_top(row, tops) else ""
            rows.append([known.get(column) for column in COLUMNS])
    return comma_separated(COLUMNS, rows)


def verdict(row: Record) -> str:
    """Whether the whole interval of what a method gained lies on one side of 0."""
    low, high = row.get("gain_low"), row.get("gain_high")
    if low is None or high is None or row["method"] == PLAIN:
        return ""
    return BETTER if low > 0 else WORSE if high < 0 else ""


def _panels(record: Record) -> dict[Panel, list[Record]]:
    panels: dict[Panel, list[Record]] = {}
    for row in (row for row in record["results"] if "method" in row):  # others are sets that could not be read
        panels.setdefault((row.get("mode", "joint"), row["set"], row["truth"]), []).append(row)
    return panels


def _tops(rows: list[Record]) -> dict[str, float]:
    """measure -> the best mean."""
    tops: dict[str, float] = {}
    for row in rows:
        if row.get("mean") is not None:
            tops[row["measure"]] = max(row["mean"], tops.get(row["measure"], row["mean"]))
    return tops


def _is_top(row: Record, tops: dict[str, float]) -> bool:
    return row.get("mean") is not None and row["mean"] == tops[row["measure"]]


def _overview(said: str, panels: dict[Panel, list[Record]]) -> Table:
    """A row per method, a column per set and truth: mAP with its verdict."""
    measures = {panel: _first(rows) for panel, rows in panels.items()}
    methods = list(dict.fromkeys(row["method"] for rows in panels.values() for row in rows))
    head, columns = ["method"], []
    for panel, rows in panels.items():
        head.append(f"{panel[1]} {panel[2]}, {measures[panel]}, {rows[0]['queries']} queries")
        tops = _tops(rows)
        cells = {}
        for row in rows:
            if "error" in row:
                cells[row["method"]] = absent(row)
            elif row["measure"] == measures[panel]:
                text = " ".join(filter(None, (_percent(row["mean"], 1), verdict(row))))
                cells[row["method"]] = best(text) if _is_top(row, tops) else text
        columns.append(cells)
    made = [[method, *(cells.get(method, "") for cells in columns)] for method in methods]
    return Table(f"Overview, {said}", head, made, [IN_SHORT])


def _first(rows: list[Record]) -> str:
    """mAP where it was measured, so that columns can be compared; else the first measure."""
    known = [row["measure"] for row in rows if "measure" in row]
    return "mAP" if "mAP" in known else next(iter(known), "")


def _detail(said: str, panel: Panel, rows: list[Record], notes: dict[str, list[str]]) -> Table:
    """A row per method; per measure its mean, what it gained, and their intervals; the time last."""
    _, name, truth = panel
    measures = list(dict.fromkeys(row["measure"] for row in rows if "measure" in row))
    tops = _tops(rows)
    head = ["method"]
    for measure in measures:
        head += [measure, "95 % interval", "gained", "95 % interval"]
    made = []
    for method, found in groupby(rows, key=lambda row: str(row["method"])):
        mine = {row.get("measure", ""): row for row in found}
        first = next(iter(mine.values()))
        if "error" in first:
            made.append([method, *(absent(first), "", "", "") * len(measures), "-"])
        else:
            cells = [cell for measure in measures for cell in _cells(mine[measure], tops)]
            made.append([method, *cells, f"{first['seconds']:.2f}"])
    title = f"{name}, {truth}: {rows[0]['queries']} queries, {rows[0]['items']} items; {said}"
    return Table(title, [*head, "seconds"], made, [LEGEND, *notes.get(name, ()), *_sentences(rows, measures)])


def _cells(row: Record, tops: dict[str, float]) -> list[str]:
    mean = _percent(row["mean"], 2)
    interval = f"{_percent(row['low'], 1)} to {_percent(row['high'], 1)}"
    cells = [best(mean) if _is_top(row, tops) else mean, interval]
    if row.get("gain_low") is None or row["method"] == PLAIN:
        return [*cells, "", ""]
    gain = " ".join(filter(None, (verdict(row), points(row["gain"]))))
    return [*cells, gain, f"{points(row['gain_low'])} to {points(row['gain_high'])}"]


def absent(row: Record) -> str:
    """What stands where a method gave no number."""
    return "-" if row.get("unserved") else "refused"


def _sentences(rows: list[Record], measures: list[str]) -> list[str]:
    """Where re-ranking hurts, and who refused with what sentence."""
    said = []
    for measure in measures:
        hurt = [row for row in rows if row.get("measure") == measure and verdict(row) == WORSE]
        if hurt:
            named = ", ".join(f"{row['method']} ({points(row['gain'])})" for row in sorted(hurt, key=_gain))
            said.append(f"Re-ranking hurts {measure} with: {named}.")
    unserved = [row["method"] for row in rows if row.get("unserved")]
    if unserved:
        said.append(f"- : not made to answer queries it has never seen: {', '.join(unserved)}.")
    said += [f"{row['method']} refused: {row['error']}" for row in rows if "error" in row and not row.get("unserved")]
    return said


def _gain(row: Record) -> float:
    return float(row["gain"])


def _percent(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}"
