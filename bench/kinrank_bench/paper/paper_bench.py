"""Bench of the LPMT paper: tables, ablations, sensitivity curves, convergence and times, as one record."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

from kinrank.errors import EXPECTED_ERRORS
from kinrank.methods import Method
from kinrank.progress import Progress, ProgressOption
from kinrank_bench.accuracy import load_features
from kinrank_bench.datasets.base import Arrays
from kinrank_bench.datasets.benchmark import Benchmark
from kinrank_bench.datasets.feature_folders import LANDMARK_SETS, FeatureSet
from kinrank_bench.declaration import FoundSets, Option, Parts, PathLike
from kinrank_bench.measurement import compare_cells, describe_failure, measure_cell
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.paper import variants
from kinrank_bench.paper.feature_selection import list_methods, select_ablation_sets, select_features, select_methods
from kinrank_bench.paper.lpmt_curves import measure_convergence, measure_query_time
from kinrank_bench.paper.order_checks import check_order
from kinrank_bench.paper.variants import Grids
from kinrank_bench.record import Record, check_names, error_entries, make_record, mean_interval

log = logging.getLogger(__name__)

PARTS = ("tables", "ablations", "sensitivity", "convergence", "time")
MEASURES = ("mAP", "R@1")  # printed in the paper
Rows = dict[str, list[Record]]


class Step(NamedTuple):
    """One step of the plan: the label for the progress bar, and the work with its arguments besides the set."""

    label: str
    work: Callable[..., None]
    arguments: tuple[Any, ...] = ()


def paper(
    folder: Annotated[PathLike, Option("Folder with features, such as roxford5k_rgem.npz.", "data")],
    parts: Parts = PARTS,
    sets: FoundSets = None,
    features: Annotated[
        Sequence[str] | None, Option("Names of features, such as rgem,dolg. Default: all that are found.")
    ] = None,
    methods: Annotated[
        Sequence[str] | None,
        Option("Methods of the tables, separated by commas; none is always measured. Default: all."),
    ] = None,
    cache: Cache | None = None,
    grids: Grids | None = None,
    progress: ProgressOption = None,
) -> Record:
    """Measure the tables, ablations and figures of the LPMT paper on your features, next to the printed numbers.

    \b
    kinrank bench paper --data DIR -o paper
    kinrank bench paper --data DIR -o paper --parts tables,ablations --features rgem
    kinrank bench paper --data DIR -o paper --parts tables --methods lpmt,dfs,cas

    It takes any features: files such as roxford5k_rgem.npz, with gnd_roxford5k.pkl in the same folder, or what
    `kinrank embed` writes; docs/datasets.md lists all names. After Ctrl-C the same command continues where it stopped.

    Args:
        cache: keeps every measurement as soon as it is done; galleries joined with distractors are written to its
            scratch folder, one file each.
        grids: values of the curves.

    Returns:
        A record of plain values: `found` (the features), `methods` (their parameters), `chosen` (their names, if
        `methods` is given), `scores` (tables), `ablations`, `orders` (verdicts), `curves`, `convergence`, `time`;
        `failed`: features that could not be read, with the error.
    """
    check_names("part", parts, PARTS)
    entries = select_features(folder, sets, features)
    chosen = None if methods is None else select_methods(entries, methods)
    runner = PaperBench(cache or Cache(None), grids or Grids(), chosen)
    ablation_sets = select_ablation_sets(entries)
    plans = [(entry, list(runner.plan(entry, parts, entry in ablation_sets))) for entry in entries]
    total, done, report = sum(len(plan) for _, plan in plans), 0, Progress(progress)
    unreadable: list[Exception] = []
    with runner.cache.open_scratch("joined") as joined:
        for entry, plan in ((entry, plan) for entry, plan in plans if plan):
            try:
                bench = load_features(entry, joined)
            except Exception as error:
                unreadable.append(error)
                runner.add_unreadable(entry, error)
                done += len(plan)
                continue
            for step in plan:
                report.stage(f"{entry.set} {entry.features}: {step.label}", done, total)
                step.work(entry, bench, *step.arguments)
                done += 1
            runner.describe(entry, bench)
    if unreadable and not runner.rows["found"]:
        raise unreadable[0]
    report.stage("done", total, total)
    settings: Record = {"mode": "joint", "confidence": 0.95, "parts": list(parts), "methods": runner.methods}
    settings |= {} if chosen is None else {"chosen": chosen}
    return make_record("paper", {**settings, **runner.rows})


class PaperBench:
    """Runs the steps and collects the rows of the record."""

    def __init__(self, cache: Cache, grids: Grids, chosen: Collection[str] | None = None) -> None:
        """`chosen` are the methods of the tables; None for all."""
        self.cache, self._grids, self._chosen = cache, grids, chosen
        kinds = ("found", "failed", "scores", "ablations", "orders", "curves", "convergence", "time")
        self.rows: Rows = {kind: [] for kind in kinds}
        self.methods: dict[str, str] = {}  # name -> all parameters

    def describe(self, entry: FeatureSet, bench: Benchmark) -> None:
        queries = bench.gallery if bench.queries is None else bench.queries
        size = {"queries": len(queries), "items": len(bench.gallery), "dimensions": int(bench.gallery.shape[1])}
        if entry.distractors:
            size["distractor_count"] = len(bench.gallery) - Arrays(entry.vectors, "").found["d"].shape[0]
        info = {
            **_set_info(entry),
            "distractors": entry.distractors,
            **size,
            "notes": strip_folders(entry, bench.notes),
        }
        self.rows["found"].append(info)

    def add_unreadable(self, entry: FeatureSet, error: Exception) -> None:
        """Add the row of a set that could not be loaded; an unexpected exception marks it as failed."""
        details = {"error": str(error)}
        if not isinstance(error, EXPECTED_ERRORS):
            log.error("%s %s could not be loaded", entry.set, entry.features, exc_info=error)
            details = describe_failure(error)
        (details["error"],) = strip_folders(entry, [details["error"]])
        self.rows["failed"].append({**_set_info(entry), "distractors": entry.distractors, **details})

    def plan(self, entry: FeatureSet, parts: Sequence[str], ablations: bool) -> Iterator[Step]:
        """Yield the steps for these features, one measurement per step."""
        if "tables" in parts:
            for name in list_methods(entry.set, entry.features):
                if self._chosen is None or name in self._chosen:
                    yield Step(name, self._add_scores, (name,))
        if not ablations:
            return
        if "ablations" in parts:
            yield from self._plan_ablations()
        if "sensitivity" in parts:
            for parameter in variants.PANELS:
                values = self._grids.parameters.get(parameter, ())
                for value in sorted({*values, variants.default_value(parameter)} if values else ()):
                    yield Step(f"{parameter} {value:g}", self._add_parameter_point, (parameter, value))
        if "convergence" in parts:
            yield Step("convergence of BCD", self._add_convergence)
        if "time" in parts:
            yield Step("time by candidates", self._add_times)

    def _cell(self, bench: Benchmark, method: Method | str) -> Record:
        return measure_cell(bench, method, "joint", self.cache)

    def _add_scores(self, entry: FeatureSet, bench: Benchmark, name: str) -> None:
        found, plain = self._cell(bench, variants.table_method(name)), self._cell(bench, "none")
        about = {**_set_info(entry), "distractors": entry.distractors, "method": name, "mode": "joint"}
        if "error" in found:
            self.rows["scores"].append({**about, **error_entries(found)})
            return
        about["seconds"] = found["seconds"]
        about |= {"fitted": found["fitted"]} if "fitted" in found else {}
        self.methods[name] = found["parameters"]
        for truth in bench.truths:
            measures = found["truths"][truth]
            for measure in (name for name in MEASURES if name in measures):
                gain = compare_cells(plain, found, truth, measure).to_dict()
                gains = {"gain": gain["difference"], "gain_low": gain["low"], "gain_high": gain["high"]}
                self.rows["scores"].append(
                    {**about, "truth": truth, "measure": measure, **mean_interval(measures[measure]), **gains}
                )

    def _plan_ablations(self) -> Iterator[Step]:
        for settings in variants.SETTINGS:
            for table, declared in variants.TABLES.items():
                cells: dict[str, Record] = {}
                for name in (variants.BASELINE, *declared):
                    yield Step(f"{name} ({settings})", self._add_ablation, (table, settings, name, cells))
        for k in self._grids.neighbors:
            yield Step(f"BCD and BSD, k {k}", self._add_k_point, (k,))

    def _add_ablation(
        self, entry: FeatureSet, bench: Benchmark, table: str, settings: str, name: str, cells: dict[str, Record]
    ) -> None:
        """Add the scores of a variant, and after the last one of its table the verdicts; `cells` has those before."""
        found = cells[name] = self._cell(bench, variants.ablation_method(table, name, settings))
        about = {**_set_info(entry), "table": table, "settings": settings, "name": name}
        if "error" in found:
            self.rows["ablations"].append({**about, **error_entries(found)})
        else:
            self.rows["ablations"] += [
                {**about, "truth": truth, "measure": "mAP", **mean_interval(found["truths"][truth]["mAP"])}
                for truth in relevant_truths(entry)
            ]
        if len(cells) == 1 + len(variants.TABLES[table]):
            for pairs in (table, "power") if table == "tmt" else (table,):
                self._add_verdicts(entry, pairs, settings, cells)

    def _add_verdicts(self, entry: FeatureSet, table: str, settings: str, cells: dict[str, Record]) -> None:
        """Add the verdicts on the pairs of one ablation."""
        for truth in relevant_truths(entry):
            about = {**_set_info(entry), "table": table, "settings": settings, "truth": truth, "measure": "mAP"}
            for weaker, stronger in variants.PAIRS[table]:
                found = check_order(cells[weaker], cells[stronger], truth)
                self.rows["orders"].append({**about, "weaker": weaker, "stronger": stronger, **found})

    def _add_k_point(self, entry: FeatureSet, bench: Benchmark, k: int) -> None:
        pair = {name.upper(): self._cell(bench, variants.lpmt_with_k(name, k)) for name in ("bsd", "bcd")}
        for truth in relevant_truths(entry):
            for name, found in pair.items():
                point = {"figure": "4a", "parameter": "k", "series": name, "truth": truth, "x": k}
                self._add_point(entry, point, found)
            about = {**_set_info(entry), "table": "k", "settings": "defaults", "truth": truth, "measure": "mAP"}
            names = {"weaker": f"BSD, k {k}", "stronger": f"BCD, k {k}"}
            self.rows["orders"].append({**about, **names, **check_order(pair["BSD"], pair["BCD"], truth)})

    def _add_parameter_point(self, entry: FeatureSet, bench: Benchmark, parameter: str, value: float) -> None:
        found, usual = self._cell(bench, variants.lpmt_with_parameter(parameter, value)), self._cell(bench, "lpmt")
        for truth in relevant_truths(entry):
            point = {"figure": f"5{variants.PANELS[parameter]}", "parameter": parameter, "series": "LPMT"}
            self._add_point(entry, {**point, "truth": truth, "x": value}, found, usual)

    def _add_point(self, entry: FeatureSet, point: Record, found: Record, usual: Record | None = None) -> None:
        """Add a point of a curve (figure, parameter, series, truth, x) with its score and its gap to `usual`."""
        point, truth = {**_set_info(entry), **point}, point["truth"]
        if "error" in found:
            self.rows["curves"].append({**point, **error_entries(found)})
            return
        point |= mean_interval(found["truths"][truth]["mAP"])
        if usual is not None and "error" not in usual:
            difference = compare_cells(usual, found, truth, "mAP").to_dict()
            named = {"difference": "difference", "difference_low": "low", "difference_high": "high"}
            point |= {name: difference[part] for name, part in named.items()}
        self.rows["curves"].append(point)

    def _add_convergence(self, entry: FeatureSet, bench: Benchmark) -> None:
        found = measure_convergence(bench, self._grids.items, self._grids.cycles, self.cache)
        self.rows["convergence"].append({**_set_info(entry), **found})

    def _add_times(self, entry: FeatureSet, bench: Benchmark) -> None:
        found = measure_query_time(bench, self._grids.candidates, self._grids.timed, self.cache)
        self.rows["time"].append({**_set_info(entry), "mode": "candidates", **found})


def relevant_truths(entry: FeatureSet) -> tuple[str, ...]:
    """Return the truths of the paper's ablations and figures."""
    return ("medium", "hard") if entry.set in LANDMARK_SETS else ("class",)


def strip_folders(entry: FeatureSet, sentences: Sequence[str]) -> list[str]:
    """Remove the folders of this machine from sentences about a set, keep the file names."""
    stripped = list(sentences)
    for path in (entry.truth, entry.vectors, entry.distractors_file):
        if path is not None:
            stripped = [sentence.replace(f"{path.parent}{os.sep}", "") for sentence in stripped]
    return stripped


def _set_info(entry: FeatureSet) -> Record:
    return {"set": entry.set, "features": entry.features}
