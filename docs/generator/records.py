"""The newest number of every kind, from the JSON lines files that `kinrank bench` writes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from generator.origins import Result, add_origins

Panel = tuple[str, str]  # set and truth
Scores = dict[tuple[str, str, str], dict[str, Result]]  # set, truth and measure -> method -> result
ABLATION = "lpmt-ablation"  # with its defaults it is LPMT(direct=0)


@dataclass
class Measurements:
    """The latest measurements; `until` is the date of the newest record read, "" if there is none.

    Every result and every record has its `origin` (`generator.origins`).

    Attributes:
        scores: (set, truth, measure) -> method -> result, as `kinrank bench accuracy` wrote it; joint.
        apart: the same for each mode without a joint graph: candidates, online.
        speeds: method -> result of `kinrank bench speed`, with the `search` that it was compared with.
        peaks: method -> result of `kinrank bench memory`.
        modes: (set, truth) -> mode -> result, points: items -> result, changes: (items, store) -> result, all from
            `kinrank bench scale`.
        candidates: (number, method) -> result of `kinrank bench candidates`.
        remembered: (set, truth) -> group of observed queries -> result, of `kinrank bench modes`.
        stores: part -> results, of `kinrank bench stores`.
        service, paper, diagnosis, photos, learned: the last record of the benchmark of that name.
        whitening: training set -> record of `kinrank bench whitening`.
        left_out: results of the newest `kinrank bench defaults` for every mode.
    """

    scores: Scores = field(default_factory=dict)
    apart: dict[str, Scores] = field(default_factory=dict)
    speeds: dict[str, Result] = field(default_factory=dict)
    peaks: dict[str, Result] = field(default_factory=dict)
    size: Result = field(default_factory=dict)
    modes: dict[tuple[str, str], dict[str, Result]] = field(default_factory=dict)
    points: dict[int, Result] = field(default_factory=dict)
    changes: dict[tuple[int, str], Result] = field(default_factory=dict)
    candidates: dict[tuple[int, str], Result] = field(default_factory=dict)
    remembered: dict[tuple[str, str], dict[str, Result]] = field(default_factory=dict)
    stores: dict[str, list[Result]] = field(default_factory=dict)
    service: Result = field(default_factory=dict)
    paper: Result = field(default_factory=dict)
    diagnosis: Result = field(default_factory=dict)
    photos: Result = field(default_factory=dict)
    learned: Result = field(default_factory=dict)
    whitening: dict[str, Result] = field(default_factory=dict)
    left_out: list[Result] = field(default_factory=list)
    until: str = ""

    @property
    def panels(self) -> list[tuple[str, str, str]]:
        """The keys of `scores` whose measure is mAP, in the order they were measured."""
        return [key for key in self.scores if key[2] == "mAP"]


def read(folder: Path, until: str | None = None) -> Measurements:
    """All records of the folder; the newest wins. With `until`, records after this date are ignored."""
    lines = [line for path in sorted(folder.rglob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    records = sorted((json.loads(line) for line in lines if line.strip()), key=lambda record: str(record["date"]))
    found = Measurements()
    for record in records:
        if until is not None and record["date"] > until:
            continue
        found.until = str(record["date"])
        _take(found, record)
    return found


def _take(found: Measurements, record: Result) -> None:
    kind = record["bench"]
    add_origins(record)
    for row in record.get("modes", ()):
        other = row.get("method", "none") not in (record.get("method"), "none")
        way = f"{row['mode']} {row['method']}" if other else row["mode"]
        found.modes.setdefault((row["set"], row["truth"]), {})[way] = row
    if kind == "defaults":
        modes = {row["mode"] for row in record["results"]}
        found.left_out = [row for row in found.left_out if row["mode"] not in modes] + list(record["results"])
    for change in record.get("changes", ()) if kind != "service" else ():
        if "add_share" in change:
            found.changes[change["items"], change["store"]] = change
    if kind in ("service", "paper", "diagnosis", "photos", "learned"):
        setattr(found, kind, record)
    elif kind == "whitening":
        found.whitening[record["on"]] = record
    elif kind == "stores":
        found.stores |= {part: record[part] for part in ("same", "times", "growing", "scale") if part in record}
    for result in record.get("results", ()):
        if kind == "scale" and "build_seconds" in result:
            found.points[result["items"]] = {
                **result,
                "store": record["store"],
                "probes": record.get("probes"),
            }
        if kind == "accuracy" and "measure" in result:
            _score(found, result)
        elif kind == "speed" and "multiple" in result:
            found.speeds[result["method"]] = {**result, "search": record["search"]}
        elif kind == "candidates":
            found.candidates[result["candidates"], result["method"]] = result
        elif kind == "modes":
            found.remembered.setdefault((result["set"], result["truth"]), {})[result["remembered"]] = result
        elif kind == "memory":
            found.peaks[result["method"]] = result
            found.size = {name: record[name] for name in ("items", "queries", "dimensions")}


def _score(found: Measurements, result: Result) -> None:
    mode = result.get("mode", "joint")
    scores = found.scores if mode == "joint" else found.apart.setdefault(mode, {})
    methods = scores.setdefault((result["set"], result["truth"], result["measure"]), {})
    if "gain" in result:  # newer records do not measure it again under another name
        methods.pop(ABLATION, None)
    methods[result["method"]] = result
