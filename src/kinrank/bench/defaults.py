"""Published sets -> how LPMT's defaults do on a set that was left out when their rule was fitted, beside all methods.

The rule turns two numbers that need no labels into the share of the direct comparison (stages/trust.py). It has one
constant, THIN. For every set in turn, it is chosen on the other sets and judged on the one that was left out:

* the loss of a value on a set: how far its mAP is below the best value's there, or its R@1 more than 1 point below that
  of no re-ranking, in points;
* of the values whose largest loss on any set is within CLOSE points of the least such, the middle is taken: far from
  both edges, where one more set could hurt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.bench.accuracy import fixed_sets
from kinrank.bench.cache import Cache
from kinrank.bench.cells import cell, judged
from kinrank.bench.record import chosen, record
from kinrank.datasets.benchmark import Benchmark, load
from kinrank.evaluation import Truth, evaluate
from kinrank.evaluation.trials import ABLATION, PLAIN
from kinrank.features import check, evenly, unit
from kinrank.items import Items
from kinrank.methods import LPMT, Method
from kinrank.progress import SILENT, Progress, Show
from kinrank.ranking import Ranking, rank_rows

PARTS = ("joint", "online", "candidates")
GRID = tuple(round(0.20 + 0.02 * step, 2) for step in range(11))  # values of THIN that are tried
CLOSE = 0.5
FITTED = 500  # queries of a set that the rule is fitted on
MEASURES = ("mAP", "R@1")
OURS = "lpmt"
Losses = dict[float, float]


def defaults(
    folder: str | os.PathLike[str],
    sets: Sequence[str] | None = None,
    methods: Sequence[str] = ("all",),
    parts: Sequence[str] = PARTS,
    progress: Show = None,
    cache: Cache | None = None,
) -> dict[str, Any]:
    """A record: `fitted`, the value of THIN per set left out and on all; `results`, mAP and R@1 per set and method.

    joint: LPMT with the value fitted on the other sets. online and candidates: LPMT as it is.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ValueError(f"part {unknown[0]!r} is not known; give some of: {', '.join(PARTS)}")
    wanted = fixed_sets(folder, sets)
    if len(wanted) < 2:
        raise ValueError(f"one set ({wanted[0]}) cannot be judged by others; give two or more with --sets")
    others = [name for name in dict.fromkeys([PLAIN, *chosen(methods)]) if name not in (OURS, ABLATION)]
    report, kept = Progress(progress), Cache(None) if cache is None else cache
    found: dict[str, Any] = {"close": CLOSE, "grid": list(GRID), "fitted": [], "results": []}
    if "joint" in parts:
        losses, trusted = {}, {}
        for name in report.each("fitting", wanted, len(wanted)):
            losses[name], trusted[name] = _losses(load(name, folder))
        found["fitted"] = [
            {"set": name, "thin": fitted(losses, name), **trusted[name]._asdict()} for name in wanted
        ] + [{"set": None, "thin": fitted(losses)}]
    for name in report.each("sets", wanted, len(wanted)):
        bench = load(name, folder)
        if "joint" in parts:
            found["results"] += _joint(bench, others, fitted(losses, name), kept)
        for mode in (part for part in ("online", "candidates") if part in parts):
            for method in (*others, OURS):
                found["results"] += _rows(bench, mode, method, kept)
    return record("defaults", found)


def fitted(losses: dict[str, Losses], left_out: str | None = None) -> float:
    """The value of THIN that the sets but one choose."""
    worst = {value: max(found[value] for name, found in losses.items() if name != left_out) for value in GRID}
    close = [value for value in GRID if worst[value] <= min(worst.values()) + CLOSE]
    return round((close[0] + close[-1]) / 2, 3)


def _losses(bench: Benchmark) -> tuple[Losses, stages.trust.Trust]:
    """The loss of every value on one set, of some of its queries; and how far its chains can be trusted."""
    gallery = unit(check(bench.gallery, "gallery"), "gallery")
    queries = bench.queries
    items = Items.everyone(gallery) if queries is None else Items.joint(unit(check(queries, "queries"), "q"), gallery)
    trust = stages.trust.trust_of(items.neighbors(stages.trust.FEW + 1).indices)
    some = evenly(len(items.queries), FITTED)
    truths = {label: truth.subset(some) for label, truth in judged(bench.truths).items()}
    method = LPMT(direct=0.5)  # any share: the parts are mixed again below
    prepared = method.prepare(items, SILENT)
    asked, distances = items.queries[some], items.query_distances(some)
    assert prepared.steps is not None
    chained = stages.chains.chains_from(asked, prepared.steps)[0][:, items.gallery]
    gaps = stages.direct.apart(prepared.wide, asked, items.gallery)
    plain = _scored(_ranking(distances, some, items), truths)
    scores = {}
    for value in GRID:
        share = stages.trust.share_of(trust, value)
        mixture = stages.fusion.mixture_of(method.theta, prepared.powers.gamma, method.k, direct=share)
        values = stages.fusion.fused(distances, chained, mixture, items.self_query, gaps)
        scores[value] = _scored(_ranking(values, some, items), truths)
    return {value: _loss(scores, value, plain) for value in GRID}, trust


def _loss(scores: dict[float, list[dict[str, Any]]], value: float, plain: list[dict[str, Any]]) -> float:
    """In points, the mean over the truths of a set."""
    losses = []
    for place, (mine, none) in enumerate(zip(scores[value], plain, strict=True)):
        best = max(found[place]["mean"] for found in scores.values())
        losses.append(100 * max(best - mine["mean"], none["first"] - 0.01 - mine["first"], 0.0))
    return float(np.mean(losses))


def _ranking(values: NDArray[Any], some: NDArray[np.int64], items: Items) -> Ranking:
    values = np.array(values)
    if items.self_query:
        values[np.arange(len(some)), some] = np.inf
    return Ranking(*rank_rows(values, values.shape[1] - int(items.self_query)))


def _scored(ranking: Ranking, truths: dict[str, Truth]) -> list[dict[str, Any]]:
    """mAP with its interval and R@1, per truth."""
    rows = []
    for label, truth in truths.items():
        scores = evaluate(ranking, truth, MEASURES)
        score = scores["mAP"]
        found = {"mean": score.mean, "low": score.low, "high": score.high, "first": scores["R@1"].mean}
        rows.append({"truth": label, **found})
    return rows


def _joint(bench: Benchmark, others: Sequence[str], thin: float, cache: Cache) -> list[dict[str, Any]]:
    """All queries of a set in one graph, with every method; LPMT with the share that was fitted without the set."""
    vectors = bench.gallery if bench.queries is None else np.concatenate([bench.queries, bench.gallery])
    lists = Items.everyone(unit(check(vectors, "gallery"), "gallery")).neighbors(stages.trust.FEW + 1)
    share = stages.trust.share_of(stages.trust.trust_of(lists.indices), thin)
    ours = [{**row, "direct": share} for row in _rows(bench, "joint", LPMT(direct=share), cache)]
    return [row for name in others for row in _rows(bench, "joint", name, cache)] + ours


def _rows(bench: Benchmark, mode: str, method: Method | str, cache: Cache) -> list[dict[str, Any]]:
    """One method on one set, a row per truth that is judged; none where the method is not made for the mode."""
    found = cell(bench, method, mode, cache, measures=MEASURES)
    about = {key: found[key] for key in ("set", "mode", "method")}
    if found.get("unserved"):
        return []
    if "error" in found:
        return [{**about, "truth": label, "error": found["error"]} for label in judged(bench.truths)]
    rows = []
    for label, scores in judged(found["truths"]).items():
        score = {part: scores["mAP"][part] for part in ("mean", "low", "high")} | {"first": scores["R@1"]["mean"]}
        rows.append({**about, "queries": found["queries"], "truth": label, **score})
    return rows


def places(results: Iterable[dict[str, Any]]) -> dict[str, float]:
    """method -> the mean over the sets of its place by mAP, 1 for the best; of a set's truths the mean is taken."""
    by_truth: dict[tuple[str, str], dict[str, float]] = {}
    for row in results:
        if "mean" in row:
            by_truth.setdefault((row["set"], row["truth"]), {})[row["method"]] = row["mean"]
    by_set: dict[str, dict[str, list[int]]] = {}
    for (name, _), scores in by_truth.items():
        for method, score in scores.items():
            place = 1 + sum(other > score for other in scores.values())
            by_set.setdefault(name, {}).setdefault(method, []).append(place)
    everywhere = set.intersection(*(set(found) for found in by_set.values())) if by_set else set()
    return {
        method: float(np.mean([np.mean(found[method]) for found in by_set.values()])) for method in sorted(everywhere)
    }
