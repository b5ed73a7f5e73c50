"""A folder of features -> one record: tables, ablations with their verdicts, curves, convergence and times. All joint,
but for the times."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinrank.bench.cache import Cache
from kinrank.bench.cells import cell, gained
from kinrank.bench.paper import variants
from kinrank.bench.paper.convergence import convergence
from kinrank.bench.paper.subjects import chosen, looked_into, methods_of
from kinrank.bench.paper.timing import waiting
from kinrank.bench.paper.variants import Grids
from kinrank.bench.paper.verdicts import order
from kinrank.bench.record import record
from kinrank.datasets.benchmark import Benchmark
from kinrank.datasets.finding import LANDMARKS, Found
from kinrank.evaluation.trials import REFUSALS
from kinrank.files.arrays import headers
from kinrank.methods import Method
from kinrank.progress import Progress, Show

PARTS = ("tables", "ablations", "sensitivity", "convergence", "time")
MEASURES = ("mAP", "R@1")  # those that the paper prints
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Work:
    """One step: what a progress bar says, and what is done with a set."""

    label: str
    do: Callable[[Benchmark], None]


def paper(
    folder: str | os.PathLike[str],
    parts: Sequence[str] = PARTS,
    sets: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    cache: Cache | None = None,
    grids: Grids | None = None,
    progress: Show = None,
    instead: Path | None = None,
) -> dict[str, Any]:
    """Measure what the paper measures, on the features that are in a folder.

    Args:
        folder: where the features are, named as `kinrank.datasets.finding` has it.
        parts: which of tables, ablations, sensitivity, convergence, time.
        sets, features: only these; None: all that are there.
        cache: where every measurement is kept as soon as it is done, so that a run that was stopped goes on.
        grids: the values that the curves go through.
        instead: where galleries with distractors are written, each as one file, if there is no cache to hold them.

    Returns:
        A record of plain values: `found` (the features), `methods` (their parameters), `scores` (tables), `ablations`,
        `orders` (verdicts), `curves`, `convergence`, `time`; `failed`: features that could not be read, and why.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise ValueError(f"part {(unknown or [''])[0]!r} is not known; give some of: {', '.join(PARTS)}")
    there = chosen(folder, sets, features)
    measuring = Measuring(cache or Cache(None), grids or Grids())
    looked = looked_into(there)
    plans = [(entry, list(measuring.plan(entry, parts, entry in looked))) for entry in there]
    total, done, report = sum(len(plan) for _, plan in plans), 0, Progress(progress)
    failed: list[Exception] = []
    with measuring.cache.place_for("joined", instead) as joined:
        for entry, plan in ((entry, plan) for entry, plan in plans if plan):
            try:
                bench = _loaded(entry, joined)
            except REFUSALS as error:
                failed.append(error)
                measuring.failed(entry, str(error))
                done += len(plan)
                continue
            for work in plan:
                report.stage(f"{entry.set} {entry.features}: {work.label}", done, total)
                work.do(bench)
                done += 1
            measuring.describe(entry, bench)
    if failed and not measuring.rows["found"]:
        raise failed[0]
    report.stage("done", total, total)
    about = {"mode": "joint", "confidence": 0.95, "parts": list(parts), "methods": measuring.methods}
    return record("paper", {**about, **measuring.rows})


class Measuring:
    """Does the steps, and gathers the rows of the record."""

    def __init__(self, cache: Cache, grids: Grids) -> None:
        self.cache, self._grids = cache, grids
        kinds = ("found", "failed", "scores", "ablations", "orders", "curves", "convergence", "time")
        self.rows: Rows = {kind: [] for kind in kinds}
        self.methods: dict[str, str] = {}  # name -> all its parameters, spelled out

    def describe(self, entry: Found, bench: Benchmark) -> None:
        asked = bench.gallery if bench.queries is None else bench.queries
        size = {"queries": len(asked), "items": len(bench.gallery), "dimensions": int(bench.gallery.shape[1])}
        if entry.distractors:
            size["distractor_count"] = len(bench.gallery) - headers(entry.vectors)["d"].shape[0]
        about = {
            **_about(entry),
            "distractors": entry.distractors,
            **size,
            "notes": without_folders(entry, bench.notes),
        }
        self.rows["found"].append(about)

    def failed(self, entry: Found, sentence: str) -> None:
        (said,) = without_folders(entry, [sentence])
        self.rows["failed"].append({**_about(entry), "distractors": entry.distractors, "error": said})

    def plan(self, entry: Found, parts: Sequence[str], looked: bool) -> Iterator[Work]:
        """What is to be done with these features, one measurement a step."""
        if "tables" in parts:
            for name in methods_of(entry.set, entry.features):
                yield Work(name, lambda bench, name=name: self._score(entry, bench, name))  # type: ignore[misc]
        if not looked:
            return
        if "ablations" in parts:
            yield from self._ablations(entry)
        if "sensitivity" in parts:
            yield from self._sensitivity(entry)
        if "convergence" in parts:
            yield Work("convergence of BCD", lambda bench: self._converging(entry, bench))
        if "time" in parts:
            yield Work("time by candidates", lambda bench: self._timed(entry, bench))

    def _cell(self, bench: Benchmark, method: Method | str) -> dict[str, Any]:
        return cell(bench, method, "joint", self.cache)

    def _score(self, entry: Found, bench: Benchmark, name: str) -> None:
        found, plain = self._cell(bench, variants.measured(name)), self._cell(bench, "none")
        about = {**_about(entry), "distractors": entry.distractors, "method": name, "mode": "joint"}
        if "error" in found:
            self.rows["scores"].append({**about, "error": found["error"]})
            return
        about["seconds"] = found["seconds"]
        about |= {"fitted": found["fitted"]} if "fitted" in found else {}
        self.methods[name] = found["parameters"]
        for truth in bench.truths:
            measures = found["truths"][truth]
            for measure in (one for one in MEASURES if one in measures):
                gain = gained(plain, found, truth, measure).to_dict()
                gains = {"gain": gain["difference"], "gain_low": gain["low"], "gain_high": gain["high"]}
                self.rows["scores"].append(
                    {**about, "truth": truth, "measure": measure, **_mean(measures[measure]), **gains}
                )

    def _ablations(self, entry: Found) -> Iterator[Work]:
        for settings in variants.SETTINGS:
            for table, declared in variants.TABLES.items():
                cells: dict[str, dict[str, Any]] = {}
                for name in (variants.BASELINE, *declared):
                    method = variants.ablation(table, name, settings)

                    def one(
                        bench: Benchmark, method: Method = method, name: str = name, table: str = table,
                        settings: str = settings, cells: dict[str, dict[str, Any]] = cells,
                    ) -> None:  # fmt: skip
                        cells[name] = self._cell(bench, method)
                        self._ablated(entry, table, settings, name, cells[name])
                        if len(cells) == 1 + len(variants.TABLES[table]):
                            for pairs in (table, "power") if table == "tmt" else (table,):
                                self._ordered(entry, pairs, settings, cells)

                    yield Work(f"{name} ({settings})", one)
        for k in self._grids.neighbors:
            yield Work(f"BCD and BSD, k {k}", lambda bench, k=k: self._over_k(entry, bench, k))  # type: ignore[misc]

    def _ablated(self, entry: Found, table: str, settings: str, name: str, found: dict[str, Any]) -> None:
        about = {**_about(entry), "table": table, "settings": settings, "name": name}
        if "error" in found:
            self.rows["ablations"].append({**about, "error": found["error"]})
            return
        for truth in asked(entry):
            self.rows["ablations"].append(
                {**about, "truth": truth, "measure": "mAP", **_mean(found["truths"][truth]["mAP"])}
            )

    def _ordered(self, entry: Found, table: str, settings: str, cells: dict[str, dict[str, Any]]) -> None:
        """Verdicts about the pairs of one ablation, once all its cells are there."""
        for truth in asked(entry):
            about = {**_about(entry), "table": table, "settings": settings, "truth": truth, "measure": "mAP"}
            for weaker, stronger in variants.PAIRS[table]:
                found = order(cells[weaker], cells[stronger], truth)
                self.rows["orders"].append({**about, "weaker": weaker, "stronger": stronger, **found})

    def _over_k(self, entry: Found, bench: Benchmark, k: int) -> None:
        pair = {name.upper(): self._cell(bench, variants.over_k(name, k)) for name in ("bsd", "bcd")}
        for truth in asked(entry):
            for name, found in pair.items():
                self._point(entry, "4a", "k", name, truth, k, found)
            about = {**_about(entry), "table": "k", "settings": "defaults", "truth": truth, "measure": "mAP"}
            names = {"weaker": f"BSD, k {k}", "stronger": f"BCD, k {k}"}
            self.rows["orders"].append({**about, **names, **order(pair["BSD"], pair["BCD"], truth)})

    def _sensitivity(self, entry: Found) -> Iterator[Work]:
        for parameter, panel in variants.PANELS.items():
            values = self._grids.parameters.get(parameter, ())
            for value in sorted({*values, variants.default_of(parameter)} if values else ()):

                def one(bench: Benchmark, parameter: str = parameter, value: float = value, panel: str = panel) -> None:
                    found = self._cell(bench, variants.with_value(parameter, value))
                    usual = self._cell(bench, "lpmt")
                    for truth in asked(entry):
                        self._point(entry, f"5{panel}", parameter, "LPMT", truth, value, found, usual)

                yield Work(f"{parameter} {value:g}", one)

    def _point(
        self, entry: Found, figure: str, parameter: str, series: str, truth: str, x: float, found: dict[str, Any],
        usual: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        about = {**_about(entry), "figure": figure, "parameter": parameter, "series": series, "truth": truth, "x": x}
        if "error" in found:
            self.rows["curves"].append({**about, "error": found["error"]})
            return
        point = {**about, **_mean(found["truths"][truth]["mAP"])}
        if usual is not None and "error" not in usual:
            apart = gained(usual, found, truth, "mAP").to_dict()
            named = {"difference": "difference", "difference_low": "low", "difference_high": "high"}
            point |= {name: apart[part] for name, part in named.items()}
        self.rows["curves"].append(point)

    def _converging(self, entry: Found, bench: Benchmark) -> None:
        found = convergence(bench, self._grids.items, self._grids.cycles, self.cache)
        self.rows["convergence"].append({**_about(entry), **found})

    def _timed(self, entry: Found, bench: Benchmark) -> None:
        found = waiting(bench, self._grids.candidates, self._grids.timed, self.cache)
        self.rows["time"].append({**_about(entry), "mode": "candidates", **found})


def asked(entry: Found) -> tuple[str, ...]:
    """The truths that ablations and figures are about: those of the paper's."""
    return ("medium", "hard") if entry.set in LANDMARKS else ("class",)


def _loaded(entry: Found, joined: Path) -> Benchmark:
    """The set; one with distractors is written to `joined`, and never beside the features."""
    if not entry.distractors:
        return entry.load()
    joined.mkdir(parents=True, exist_ok=True)
    return entry.load(joined)


def without_folders(entry: Found, sentences: Sequence[str]) -> list[str]:
    """Sentences about a set that name its files, but no folder of this machine."""
    said = list(sentences)
    for path in (entry.truth, entry.vectors, entry.distractors_file):
        said = said if path is None else [sentence.replace(str(path), path.name) for sentence in said]
    return said


def _about(entry: Found) -> dict[str, Any]:
    return {"set": entry.set, "features": entry.features}


def _mean(score: dict[str, Any]) -> dict[str, Any]:
    return {part: score[part] for part in ("mean", "low", "high")}
