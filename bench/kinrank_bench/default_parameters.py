"""Bench of LPMT's defaults: accuracy on a set that was left out when their rule was fitted, next to all methods.

The rule derives the largest share of the direct comparison from two numbers that need no labels (stages/pipeline.py).
It has one constant, THIN. For each set in turn, THIN is fitted on the other sets and evaluated on the set left out.
Sets of at most 1024 items have a constant of their own, which is not fitted: on these, LPMT runs with its defaults.

* the loss of a value on a set, in points: by how much its mAP is below that of the best value, or its R@1 more than 1
  point below that of no re-ranking;
* among the values whose largest loss on any set is within CLOSE_POINTS of the smallest such loss, take the middle one,
  which is far from both edges, where one more set could hurt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np

from kinrank import stages
from kinrank.errors import InputError
from kinrank.evaluation.trials import BASELINE
from kinrank.methods import LPMT, Method
from kinrank.problem import Items
from kinrank.progress import SILENT, Progress, ProgressOption
from kinrank.vector_input import check_vectors, sample_evenly, to_unit_rows
from kinrank_bench.accuracy import select_fixed_sets, select_sets
from kinrank_bench.baseline_parameters import BASELINE_PANEL, BASELINE_SUMMARY, choose_baselines
from kinrank_bench.datasets.benchmark import Benchmark, load
from kinrank_bench.declaration import Folder, FoundSets, MethodNames, Option
from kinrank_bench.measurement import MODES, drop_easy, measure_cell, require_scores
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.query_samples import MEASURES, load_items, rank_sample, score_sample
from kinrank_bench.record import (
    Panel,
    Record,
    build_panels,
    check_names,
    error_entries,
    make_record,
    mean_interval,
    resolve_method_names,
)
from kinrank_bench.tables import Column, Table

PARTS = ("joint", "online", "candidates", "cautious")
BASELINES = "baselines"  # the part about the defaults of other methods; only if named
CAUTIOUS, CAUTIOUS_MEASURES, MAX_CAUTIOUS_QUERIES = LPMT(answers="one"), ("nDCG@10", "R@1", "mAP"), 200
GRID = tuple(round(0.32 + 0.02 * step, 2) for step in range(11))  # candidate values of THIN
CLOSE_POINTS = 0.5
FIT_QUERIES = 500  # per set
LPMT_NAME = "lpmt"
Losses = dict[float, float]
SET_COLUMNS = (
    Column("set", "{lpmt[set]} {lpmt[truth]}", left=True),
    Column("queries", "{lpmt[queries]}"),
    Column("none", "{none[mean]:.2p}"),
    Column("lpmt", "{lpmt[mean]:.2p}"),
    Column("R@1: none", "{none[first]:.2p}"),
    Column("lpmt", "{lpmt[first]:.2p}"),
    Column("best other", "{best[mean]:.2p}"),
    Column("", "{best[method]}", left=True),
    Column("ahead by", lambda row: f"{100 * (row['lpmt']['mean'] - row['best']['mean']):+.2f}"),
)
FIT_PANEL = Panel(
    (
        Column("left out", lambda row: row["set"] or "none", left=True),
        Column("mutual", "{mutual:.3f}", missing=""),
        Column("common", "{common:.3f}", missing=""),
        Column("fitted", "{thin:.2f}"),
    ),
    "the constant of the rule (stages/pipeline.py)",
    rows="fitted",
)
CAUTIOUS_PANEL = Panel(
    (
        Column("set", "{set} {truth}", left=True),
        Column("mode", "{mode}", left=True),
        Column("queries", "{queries}"),
        Column("nDCG@10", "{before[nDCG@10]:.2p}"),
        Column("change", "{change[nDCG@10]:+.2f}"),
        Column("R@1", "{before[R@1]:.2p}"),
        Column("change", "{change[R@1]:+.2f}"),
        Column("mAP", "{before[mAP]:.2p}"),
        Column("change", "{change[mAP]:+.2f}"),
    ),
    'the cautious setting, LPMT(answers="one"): change from no re-ranking, in points',
    rows="cautious",
)


def defaults(
    folder: Folder,
    sets: FoundSets = None,
    methods: MethodNames = ("all",),
    parts: Annotated[Sequence[str], Option("Modes to run.")] = PARTS,
    progress: ProgressOption = None,
    cache: Cache | None = None,
) -> dict[str, Any]:
    """Compare LPMT with all other methods; its rule is fitted without the set that is tested.

    \b
    kinrank bench defaults --data DIR
    kinrank bench defaults --data DIR --parts joint --methods none,cas,bcd,gnn
    kinrank bench defaults --data DIR --parts baselines --methods dfs,rdp
    kinrank bench defaults --data DIR --parts cautious

    The rule weighs wide neighbourhoods against chains. Its constant is chosen on all sets but one, in turn. In
    modes online and candidates LPMT runs with its default constant. The part cautious compares LPMT for queries with
    one right answer with no re-ranking, in every mode. Sets are read from files with fixed names, such as
    orl_pixels.npz; docs/datasets.md lists them.

    The part `baselines` runs alone, and only if it is named. It chooses the defaults of other methods from small
    grids, also without the set that is tested, and compares them with the present ones. It also reads sets by the
    names of their features, such as cub200_pyretri.npz.

    Returns:
        `results`: mAP and R@1 per set and method; `fitted`: the constant THIN without each set, and on all sets;
        `cautious`: change of every measure by LPMT(answers="one") in points, per set and mode.
        `baselines`, `baseline_summary`: mAP and settings per method and set, and mean losses per method.
    """
    check_names("part", parts, (*PARTS, BASELINES))
    if BASELINES in parts and len(parts) > 1:
        raise InputError(
            f"{BASELINES!r} cannot be combined with other parts", parameter="parts", remedy="give it alone"
        )
    baselines = BASELINES in parts
    set_names = select_sets(folder, sets) if baselines else select_fixed_sets(folder, sets)
    if len(set_names) < 2:
        raise InputError(
            f"has only {set_names[0]}, which cannot be evaluated without another set",
            parameter="sets",
            remedy="give two or more",
        )
    report = Progress(progress)
    if baselines:
        return make_record("defaults", {"results": [], **choose_baselines(folder, set_names, methods, report)})
    other_methods = [name for name in dict.fromkeys([BASELINE, *resolve_method_names(methods)]) if name != LPMT_NAME]
    cell_cache = Cache(None) if cache is None else cache
    results: dict[str, Any] = {"close": CLOSE_POINTS, "grid": list(GRID), "fitted": [], "results": [], "cautious": []}
    losses: dict[str, Losses] = {}
    if "joint" in parts:
        trust = {}
        for name in report.each("fitting", set_names, len(set_names)):
            bench = load(name, folder)
            if _count_items(bench) > stages.diffusion.MAX_BLOCK_ITEMS:
                losses[name], trust[name] = _measure_losses(bench)
        if len(losses) < 2:
            raise InputError(
                f"has {len(losses)} of more than {stages.diffusion.MAX_BLOCK_ITEMS} items",
                parameter="sets",
                remedy="give two or more, or other parts",
            )
        results["fitted"] = [
            {"set": name, "thin": fit_thin(losses, name), **trust[name]._asdict()} for name in losses
        ] + [{"set": None, "thin": fit_thin(losses)}]
    for name in report.each("sets", set_names, len(set_names)):
        bench = load(name, folder)
        if "joint" in parts:
            thin = fit_thin(losses, name) if name in losses else None
            results["results"] += _joint_rows(bench, other_methods, thin, cell_cache)
        if "cautious" in parts:
            results["cautious"] += _cautious_rows(bench, cell_cache)
        for mode in (part for part in ("online", "candidates") if part in parts):
            for method in (*other_methods, LPMT_NAME):
                results["results"] += _cell_rows(bench, mode, method, cell_cache)
    return make_record("defaults", results)


def show_defaults(record: Record) -> Iterator[Table]:
    """Yield a table per mode: LPMT, no re-ranking and the best other method on every set, and the mean places."""
    for mode in dict.fromkeys(row["mode"] for row in record["results"]):
        measured = [row for row in record["results"] if row["mode"] == mode and "mean" in row]
        by_set: dict[tuple[str, str], dict[str, Any]] = {}
        for row in measured:
            by_set.setdefault((row["set"], row["truth"]), {})[row["method"]] = row
        for scores in by_set.values():
            others = [row for method, row in scores.items() if method != LPMT_NAME]
            scores["best"] = max(others, key=lambda row: float(row["mean"]))
        head = "LPMT's rule fitted on the other sets" if mode == "joint" else "LPMT with its defaults"
        order = sorted(mean_places(measured).items(), key=lambda entry: entry[1])
        places = "mean place: " + ", ".join(f"{method} {place:.1f}" for method, place in order[:6])
        yield Table.from_rows(f"{mode}: {head}; mAP", SET_COLUMNS, by_set.values(), [places])
    yield from build_panels(record, FIT_PANEL, BASELINE_PANEL, BASELINE_SUMMARY, CAUTIOUS_PANEL)


def fit_thin(losses: dict[str, Losses], left_out: str | None = None) -> float:
    """Return the value of THIN fitted on all sets except one."""
    worst = {value: max(by_value[value] for name, by_value in losses.items() if name != left_out) for value in GRID}
    close = [value for value in GRID if worst[value] <= min(worst.values()) + CLOSE_POINTS]
    return round((close[0] + close[-1]) / 2, 3)


def _measure_losses(bench: Benchmark) -> tuple[Losses, stages.pipeline.ChainTrust]:
    """Return the loss of every value on a sample of the queries of one set, and the trust in its chains."""
    items = load_items(bench)
    trust = stages.pipeline.measure_trust(items.neighbors(stages.pipeline.NEIGHBORS_COMPARED + 1).indices)
    sample = sample_evenly(len(items.queries), FIT_QUERIES)
    truths = {label: truth.subset(sample) for label, truth in drop_easy(bench.truths).items()}
    method = LPMT(direct=0.5)  # any share: the parts are mixed again below
    prepared = method.prepare(items, SILENT)
    query_items, distances = items.queries[sample], items.query_distances(sample)
    assert prepared.steps is not None
    chain_distances = stages.step_costs.find_chains(query_items, prepared.steps)[0][:, items.gallery]
    gaps = stages.states.wide_distances(prepared.wide, query_items, items.gallery)
    plain = score_sample(rank_sample(distances, sample, items), truths)
    scores = {}
    for value in GRID:
        share = stages.pipeline.choose_direct_share(trust, value)
        mixture = stages.distance_fusion.make_mixture(
            method.answer_values.theta, prepared.powers.gamma, method.k, direct=share
        )
        values = stages.distance_fusion.fuse_distances(distances, chain_distances, mixture, items.self_query, gaps)
        scores[value] = score_sample(rank_sample(values, sample, items), truths)
    return {value: _mean_loss(scores, value, plain) for value in GRID}, trust


def _mean_loss(scores: dict[float, list[dict[str, Any]]], value: float, plain: list[dict[str, Any]]) -> float:
    """Return the mean loss over the truths of a set, in points."""
    losses = []
    for place, (own, baseline) in enumerate(zip(scores[value], plain, strict=True)):
        best = max(scored[place]["mean"] for scored in scores.values())
        losses.append(100 * max(best - own["mean"], baseline["first"] - 0.01 - own["first"], 0.0))
    return float(np.mean(losses))


def _count_items(bench: Benchmark) -> int:
    return len(bench.gallery) + (0 if bench.queries is None else len(bench.queries))


def _joint_rows(
    bench: Benchmark, other_methods: Sequence[str], thin: float | None, cache: Cache
) -> list[dict[str, Any]]:
    """Measure every method jointly; LPMT with the share fitted without this set, or with its defaults."""
    others = [row for name in other_methods for row in _cell_rows(bench, "joint", name, cache)]
    if thin is None:
        return others + _cell_rows(bench, "joint", LPMT_NAME, cache)
    vectors = bench.gallery if bench.queries is None else np.concatenate([bench.queries, bench.gallery])
    lists = Items.from_gallery(to_unit_rows(check_vectors(vectors, "gallery"), "gallery")).neighbors(
        stages.pipeline.NEIGHBORS_COMPARED + 1
    )
    share = stages.pipeline.choose_direct_share(stages.pipeline.measure_trust(lists.indices), thin)
    lpmt_rows = [{**row, "direct": share} for row in _cell_rows(bench, "joint", LPMT(direct=share), cache)]
    return others + lpmt_rows


def _cell_rows(bench: Benchmark, mode: str, method: Method | str, cache: Cache) -> list[dict[str, Any]]:
    """Measure one method on one set, one row per truth; no row if the method does not support the mode."""
    cell = measure_cell(bench, method, mode, cache, measures=MEASURES)
    row_info = {key: cell[key] for key in ("set", "mode", "method")}
    if cell.get("unserved"):
        return []
    if "error" in cell:
        return [{**row_info, "truth": label, **error_entries(cell)} for label in drop_easy(bench.truths)]
    row_info["queries"] = cell["queries"]
    return [
        {**row_info, "truth": label, **mean_interval(scores["mAP"]), "first": scores["R@1"]["mean"]}
        for label, scores in drop_easy(cell["truths"]).items()
    ]


def _cautious_rows(bench: Benchmark, cache: Cache) -> list[dict[str, Any]]:
    """Return the change by the cautious setting in every mode, one row per truth."""
    rows = []
    for mode in MODES:
        plain, cautious = (
            measure_cell(bench, method, mode, cache, measures=CAUTIOUS_MEASURES, most=MAX_CAUTIOUS_QUERIES)
            for method in (BASELINE, CAUTIOUS)
        )
        require_scores(cautious)
        for label, before in drop_easy(plain["truths"]).items():
            means = {measure: before[measure]["mean"] for measure in CAUTIOUS_MEASURES}
            after = cautious["truths"][label]
            change = {measure: 100 * (after[measure]["mean"] - mean) for measure, mean in means.items()}
            about = {"set": bench.name, "truth": label, "mode": mode, "queries": plain["queries"]}
            rows.append({**about, "before": means, "change": change})
    return rows


def mean_places(results: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Map each method to its mean place by mAP over the sets, 1 for the best; truths of a set are averaged first."""
    by_truth: dict[tuple[str, str], dict[str, float]] = {}
    for row in results:
        if "mean" in row:
            by_truth.setdefault((row["set"], row["truth"]), {})[row["method"]] = row["mean"]
    by_set: dict[str, dict[str, list[int]]] = {}
    for (name, _), scores in by_truth.items():
        for method, score in scores.items():
            place = 1 + sum(other > score for other in scores.values())
            by_set.setdefault(name, {}).setdefault(method, []).append(place)
    common = set.intersection(*(set(places) for places in by_set.values())) if by_set else set()
    return {
        method: float(np.mean([np.mean(places[method]) for places in by_set.values()])) for method in sorted(common)
    }
