"""Queries, a gallery and what is right -> Evidence: everything that the page shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.evaluation import Measure, Trials, Truth
from kinrank.evaluation.trials import PLAIN
from kinrank.features import evenly
from kinrank.progress import Progress, Show
from kinrank.report.evidence.choosing import choose
from kinrank.report.evidence.groups import Groups, groups_of, query_groups
from kinrank.report.evidence.judged import Judged
from kinrank.report.evidence.looks import Looks
from kinrank.report.evidence.maps import MOST, Map, has_tsne, maps_of, of_features, of_states
from kinrank.report.evidence.trying import Order, Shown, try_methods, way_to_run
from kinrank.report.evidence.walks import CandidateChains, Chains, Step, Walk, chains_of, walks_of
from kinrank.stores.rows import gallery_rows

METHODS = ("lpmt", "aqe", "cas")
GAINS, TYPICAL, LOSSES = 4, 2, 4  # queries that are shown
WALKS = 3  # chains of gains, and of losses
STAGES = 3  # pieces of work behind the methods


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was found, for a page.

    Attributes:
        title: what was measured.
        trials: every method with its scores.
        name: the method shown beside no re-ranking.
        items, asked: how items and queries look.
        values: (2, queries) the first measure of each query, before and after; NaN where none is known.
        before, after: (queries, depth) the orders of the two.
        judged: what is right.
        chosen: queries that are shown, each with the reason.
        sample, groups: which items are on the maps, and their colours.
        maps, tsne: the maps, and whether t-SNE made them.
        gains, losses: chains behind the largest of both.
        step: one step of a chain for a closer look; None where there is none.
        notes: what else has to be said.
    """

    title: str
    trials: Trials
    name: str
    items: Looks
    asked: Looks
    values: NDArray[np.float64]
    before: Order
    after: Order
    judged: Judged
    chosen: list[tuple[int, str]]
    sample: NDArray[np.int64]
    groups: Groups
    maps: list[Map]
    tsne: bool
    gains: list[Walk]
    losses: list[Walk]
    step: Step | None
    notes: list[str]


def gather(
    queries: ArrayLike | None,
    gallery: ArrayLike,
    truth: Truth,
    methods: Sequence[Any] | str = METHODS,
    measures: Sequence[str] = ("mAP",),
    *,
    items: Looks | None = None,
    asked: Looks | None = None,
    candidates: int | None = None,
    online: bool = False,
    max_memory: int | str | None = None,
    metric: str | None = None,
    title: str = "What re-ranking does to your data",
    progress: Show = None,
) -> Evidence:
    """Run the methods, choose what to show, draw the maps, explain the largest gains and losses.

    Args:
        queries, gallery, truth, candidates, max_memory, metric: as in `compare_methods`.
        methods: Methods or names; no re-ranking is always among them. LPMT, where it is one of them, is shown beside
            it, because its chains can be shown; else the best one.
        measures: the first one decides about the order, and is shown query by query.
        items, asked: names, texts, classes and pictures of the gallery, and of the queries.
        online: one query at a time against a gallery that is prepared once; for queries outside the gallery.
        progress: True for a bar, or a callable `f(label, done, total)`.
    """
    wanted = [str(Measure.parse(measure)) for measure in measures]
    if not wanted:
        raise ValueError("measures is empty; give at least one, such as mAP")
    run, report = way_to_run(queries, gallery, candidates, online, max_memory, metric), Progress(progress)
    items = items or Looks()
    asked = items if queries is None else asked or Looks("query")
    count = len(gallery)  # type: ignore[arg-type]
    items.check(count)
    if queries is not None and not isinstance(queries, list):
        asked.check(len(queries))  # type: ignore[arg-type]
    tried = try_methods(run, methods, truth, wanted, count, report, STAGES)
    done = len(tried.trials) + len(tried.trials.refused)
    judged = Judged(truth, len(tried.before), count)
    values = _values(tried, judged)
    chosen = _chosen(values, query_groups(asked, judged, len(tried.before), count))
    groups = groups_of(items, asked, judged, len(tried.before), count)
    report.stage("chains", done, done + STAGES)
    found = Evidence(
        title=title, trials=tried.trials, name=tried.name, items=items, asked=asked, values=values,
        before=tried.before, after=tried.after, judged=judged, chosen=chosen, sample=evenly(count, MOST), groups=groups,
        maps=[], tsne=has_tsne(), gains=[], losses=[], step=None, notes=[],
    )  # fmt: skip
    return _explained(found, tried, queries, gallery, metric, candidates, report, done)


def _values(tried: Shown, judged: Judged) -> NDArray[np.float64]:
    measure = tried.trials.measures[0]
    scores = {trial.method: trial.scores[measure] for trial in tried.trials}
    return np.stack([judged.per_row(scores[name]) for name in (PLAIN, tried.name)])


def _chosen(values: NDArray[np.float64], alike: NDArray[np.int64]) -> list[tuple[int, str]]:
    """Queries to show: of queries that ask for the same only one, where that leaves enough of them."""
    known = np.flatnonzero(~np.isnan(values).any(axis=0))
    if not len(known):
        raise ValueError("no query has a right answer in the truth, so there is nothing to measure; check the truth")
    labels = alike[known]
    if len(np.unique(labels)) < GAINS + TYPICAL + LOSSES:
        labels = np.arange(len(known))
    picked = choose(values[0, known], values[1, known], labels, GAINS, TYPICAL, LOSSES)
    return [(int(known[place]), reason) for place, reason in picked]


def _explained(
    found: Evidence,
    tried: Shown,
    queries: ArrayLike | None,
    gallery: ArrayLike,
    metric: str | None,
    candidates: int | None,
    report: Progress,
    done: int,
) -> Evidence:
    """The evidence with its chains and maps."""
    rows, space = gallery_rows(gallery, metric)
    vectors = None if queries is None else space.rows(queries, "queries", rows.shape[1])
    chains = chains_of(tried.method, vectors, rows, space, tried.trials.mode, tried.before[:, :candidates])
    parts, notes = {"features": of_features(rows[found.sample])}, []
    gains: list[Walk] = []
    losses: list[Walk] = []
    step = None
    if chains is None:
        notes.append(f"{tried.name} has no chains and no states to show; add lpmt to the methods.")
    else:
        change = found.values[1] - found.values[0]
        shown = [query for query, _ in found.chosen]
        best, worst = ([query for query in shown if sign * change[query] > 0] for sign in (1, -1))
        best.sort(key=lambda query: -change[query])
        worst.sort(key=lambda query: change[query])
        both = ((best, True), (worst, False))
        gains, losses = (
            walks_of(chains, found.before, found.after, found.judged, some, better)[:WALKS] for some, better in both
        )
        if isinstance(chains, CandidateChains):
            notes.append("Over candidates every query has a graph of its own, so there is no one map of states.")
        else:
            parts[f"states of {tried.name}"] = of_states(chains.states(found.sample))
        if isinstance(chains, Chains):
            step = _step(chains, gains or losses)
    report.stage("maps", done + 1, done + STAGES)
    maps = maps_of(parts, found.tsne)
    if not found.tsne:
        notes.append(
            "The maps show the first two principal components; with scikit-learn they show t-SNE: "
            "pip install 'kinrank[tsne]'."
        )
    report.stage("page", done + 2, done + STAGES)
    report.stage("page", done + STAGES, done + STAGES)
    return replace(found, maps=maps, gains=gains, losses=losses, step=step, notes=notes)


def _step(chains: Chains, walks: list[Walk]) -> Step | None:
    """The step of the first chain that moves most."""
    if not walks:
        return None
    walk = walks[0]
    place = int(np.argmax(walk.moved))
    return chains.step(walk.links[place], walk.links[place + 1])
