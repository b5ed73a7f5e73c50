"""Bench of the ways to run LPMT: joint, alone, over candidates, online, and online with observed queries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Scores, Truth, compare_scores, evaluate
from kinrank.manifold import Manifold
from kinrank.manifold.changes import apply_change
from kinrank.manifold.service_log import Change, Rule
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import resolve_method
from kinrank.neighbors import find_nearest
from kinrank.progress import Progress, ProgressOption
from kinrank.ranking import Ranking
from kinrank.reranking import rerank
from kinrank.stages.request import Request
from kinrank.vector_input import Vectors, sample_evenly, to_unit_rows
from kinrank_bench.datasets.benchmark import load
from kinrank_bench.declaration import Folder, Option, QueryLimit, SetNames
from kinrank_bench.measurement import separate_queries
from kinrank_bench.record import Panel, check_names, make_record, mean_interval
from kinrank_bench.tables import Column

OTHER_METHODS = ("aqe", "dfs", "eir")  # run online at their defaults, for comparison
SETS = ("roxford5k", "coil20", "mpeg7", "orl")
PARTS = ("ways", "remembered")
COPIES, NOISE = 10, 0.02  # per query in "repeated": number of copies, and their distance from the query
Numbers = NDArray[np.int64]
MODE_NAMES = {
    "search": "no re-ranking",
    "alone": "one at a time, graph rebuilt",
    "grown": "online, the last tenth added",
}
MODE_PANEL = Panel(
    (
        Column("mode", lambda row: _name_mode(row), left=True),
        Column("mAP", "{mean:.2p}"),
        Column("95 % interval", "{low:.1p} to {high:.1p}"),
    ),
    "{set}, {truth}: {queries} queries",
    rows="modes",
    by=("set", "truth"),
)
OBSERVATION_PANEL = Panel(
    (
        Column("remembered", "{remembered}", left=True),
        Column("kept", "{kept}"),
        Column("mAP", "{mean:.2p}"),
        Column("change", "{change:+.2p}", missing=""),
        Column("95 % interval", "{change_low:+.1p} to {change_high:+.1p}", missing=""),
    ),
    "{set}, {truth}: {queries} queries ask, {items} items, online",
    by=("set", "truth"),
)


def modes(
    folder: Folder,
    sets: SetNames = SETS,
    most: QueryLimit = 70,
    parts: Annotated[Sequence[str], Option("ways: all modes; remembered: online, by remembered queries.")] = PARTS,
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Measure LPMT in every mode, and its online accuracy by the share of other queries it remembers.

    \b
    kinrank bench modes --data DIR
    kinrank bench modes --data DIR --sets roxford5k --parts remembered

    unrelated: remember all queries that share no relevant item with the current one. repeated: half of the others,
    ten times each, with a little noise. A query is never remembered while it is searched.
    """
    check_names("part", parts, PARTS)
    results: dict[str, Any] = {"method": "lpmt", "results": []}
    if "ways" in parts:
        results["modes"] = compare_modes(folder, sets, most=most, progress=progress)
    if "remembered" in parts:
        for name in Progress(progress).each("remembered", sets, len(sets)):
            queries, gallery, truths = separate_queries(load(name, folder))
            sample = sample_evenly(len(queries), most)
            row_info = {"set": name, "queries": len(sample), "items": len(gallery), "measure": "mAP"}
            results["results"] += [
                {**row_info, **row} for row in score_by_observations(queries, gallery, truths, sample)
            ]
    return make_record("modes", results)


def _name_mode(row: dict[str, Any]) -> str:
    mode = MODE_NAMES.get(row["mode"], row["mode"])
    return f"{mode}, {row['method']}" if row["method"] in OTHER_METHODS else mode


def compare_modes(
    folder: str | os.PathLike[str],
    sets: Sequence[str],
    method: str = "lpmt",
    most: int = 70,
    candidates: int = 1000,
    progress: ProgressOption = None,
) -> list[dict[str, Any]]:
    """Return rows with mAP per set, truth and mode, over at most `most` evenly spaced queries.

    joint: all queries of the set in one graph. alone: each query in its own graph with the whole gallery. candidates:
    each query in a graph of its nearest items. online: the gallery is prepared without the queries. grown: like online,
    after the last tenth of the gallery was added in ten steps. search: no re-ranking. Other methods run online.
    """
    report, rows = Progress(progress), []
    for name in report.each("sets", sets, len(sets)):
        bench = load(name, folder)
        queries, gallery, truths = separate_queries(bench)
        sample = sample_evenly(len(queries), most)
        sampled, depth = queries[sample], len(gallery)
        joint = rerank(queries, gallery, method)
        alone = [rerank(row[None, :], gallery, method) for row in sampled]
        rankings = {
            ("search", "none"): rerank(sampled, gallery, "none"),
            ("candidates", method): rerank(sampled, gallery, method, candidates=candidates, k=depth),
            ("online", method): _rank_online(method, sampled, gallery),
            ("grown", method): _rank_after_adding(method, sampled, gallery),
            ("alone", method): Ranking(
                np.concatenate([r.indices for r in alone]), np.concatenate([r.distances for r in alone])
            ),
            ("joint", method): Ranking(joint.indices[sample], joint.distances[sample]),
        }
        rankings |= {("online", other): _rank_online(other, sampled, gallery) for other in OTHER_METHODS}
        for label, truth in truths.items():
            row_info = {"set": name, "truth": label, "queries": len(sample), "measure": "mAP"}
            for (mode, ranked_by), ranking in rankings.items():
                score = evaluate(ranking, truth.subset(sample), ["mAP"])["mAP"]
                rows.append({**row_info, "mode": mode, "method": ranked_by, **mean_interval(score)})
    return rows


def _rank_online(method: str, queries: Any, gallery: Any) -> Ranking:
    return Manifold.build(gallery, resolve_method(method)).search(queries, k=len(gallery))


def _rank_after_adding(method: str, queries: Any, gallery: Any) -> Ranking:
    first_count = len(gallery) - len(gallery) // 10
    manifold = Manifold.build(gallery[:first_count], resolve_method(method))
    for part in np.array_split(gallery[first_count:], 10):
        manifold.add(part)
    return manifold.search(queries, k=len(gallery))


@dataclass(frozen=True, eq=False)
class ObservedSet:
    """Queries that are observed before a query is searched.

    Attributes:
        rows: (m, d) observed queries.
        owners: (m,) number of the query that each row is, or is a copy of.
        apart: (q,) label per query; rows with the label of a query are forgotten before it is searched.
    """

    rows: Vectors
    owners: Numbers
    apart: Numbers


def score_by_observations(
    queries: Vectors, gallery: Vectors, truths: Mapping[str, Truth], some: Numbers, method: Any = None
) -> list[dict[str, Any]]:
    """Return rows with mAP per truth and set of observed queries; each query in `some` is searched on its own.

    `remembered`: none; a quarter, half or all of the other queries; unrelated: all queries that share no relevant
    item with it; repeated: half of the other queries, ten times each, with a little noise. `change`, `change_low`,
    `change_high`: the difference from none, paired by query, with its 95 % interval. `kept`: number of queries kept.
    """
    queries = to_unit_rows(np.asarray(queries, np.float32), "queries")
    base = Manifold.build(gallery, method).snapshot
    rows: list[dict[str, Any]] = []
    plain: dict[str, Scores] = {}
    for name, memory in _make_observed_sets(queries, truths).items():
        ranking, kept = _rank_queries(base, queries, some, memory)
        for label, truth in truths.items():
            scores = evaluate(ranking, truth.subset(some), ["mAP"])
            plain.setdefault(label, scores)
            rows.append({"truth": label, "remembered": name, "kept": kept, **mean_interval(scores["mAP"])})
            if name != "none":
                rows[-1] |= {f"change{key}": value for key, value in _mean_change(plain[label], scores).items()}
    return rows


def _make_observed_sets(queries: Vectors, truths: Mapping[str, Truth]) -> dict[str, ObservedSet]:
    count = len(queries)
    all_queries, rng = np.arange(count), np.random.default_rng(0)
    order = rng.permutation(count)  # the quarter is part of the half
    shares = {
        "none": order[:0],
        "a quarter": order[: count // 4],
        "half": order[: count // 2],
        "all others": all_queries,
    }
    observed_sets = {name: ObservedSet(queries[part], part, all_queries) for name, part in shares.items()}
    observed_sets["unrelated"] = ObservedSet(queries, all_queries, group_relatives(truths, count))
    repeated = np.repeat(shares["half"], COPIES)
    noise = rng.standard_normal((len(repeated), queries.shape[1]))
    noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    copies = to_unit_rows((queries[repeated] + noise).astype(np.float32), "queries")
    observed_sets["repeated"] = ObservedSet(copies, repeated, all_queries)
    return observed_sets


def group_relatives(truths: Mapping[str, Truth], count: int) -> Numbers:
    """Return (q,) labels that are equal for queries that share relevant items, directly or through other queries."""
    label, owner = np.arange(count), dict[int, int]()
    for truth in truths.values():
        for query in range(count):
            for item in truth.positives[query].tolist():
                first = owner.setdefault(item, query)
                if label[first] != label[query]:
                    label[label == label[query]] = label[first]
    return label


def _rank_queries(base: Snapshot, queries: Vectors, some: Numbers, memory: ObservedSet) -> tuple[Ranking, int]:
    """Rank the whole gallery for the queries `some`; return the ranking and the number of observed queries kept."""
    full = apply_change(base, Change(queries=memory.rows, rule=Rule.OBSERVE)) if len(memory.rows) else base
    kept = full.vectors[full.remembered.queries]  # without near-copies
    which = find_nearest(kept, memory.rows, 1).indices.reshape(-1)
    labels = memory.apart[memory.owners[which]]  # of the kept queries
    n = len(base)
    indices, distances = np.empty((len(some), n), np.int64), np.empty((len(some), n), np.float32)
    to_forget = np.where(np.isin(memory.apart[some], labels), memory.apart[some], -1)
    for label in np.unique(to_forget):  # -1: queries for which nothing must be forgotten
        snapshot = full if label < 0 else apply_change(full, Change(forgotten=np.flatnonzero(labels == label)))
        group = np.flatnonzero(to_forget == label)
        answer = snapshot.search(Request(queries[some[group]], n, n))
        indices[group], distances[group] = answer.indices, answer.distances
    return Ranking(indices, distances), full.remembered.count


def _mean_change(before: Scores, after: Scores) -> dict[str, float]:
    """Return the change of the mean with its 95 % interval."""
    comparison = compare_scores(before, after)
    return {"": comparison.difference, "_low": comparison.low, "_high": comparison.high}
