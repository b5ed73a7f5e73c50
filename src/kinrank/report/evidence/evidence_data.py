"""Evidence: everything that the report shows, gathered from queries, a gallery and a truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.display import Display
from kinrank.errors import InputError
from kinrank.evaluation import Truth
from kinrank.evaluation.relevance import Relevance
from kinrank.evaluation.scores import parse_measures
from kinrank.evaluation.trials import BASELINE
from kinrank.progress import Progress, ProgressOption
from kinrank.report.evidence.gain_chains import (
    AnyChains,
    CandidateChains,
    GainChain,
    JointChains,
    Step,
    find_gain_chains,
    make_chains,
)
from kinrank.report.evidence.item_maps import (
    MAX_MAP_ITEMS,
    Groups,
    Map,
    compute_maps,
    group_items,
    group_queries,
    has_tsne,
    reduce_states,
    reduce_vectors,
)
from kinrank.report.evidence.method_runs import DEFAULT_RUN, MethodResults, RunOptions, choose_runner, run_methods
from kinrank.reranking.candidates import resolve_candidates
from kinrank.stores.gallery import read_gallery
from kinrank.vector_input import sample_evenly

METHODS = ("lpmt", "aqe", "cas")
GAINS, TYPICAL, LOSSES = 4, 2, 4  # numbers of shown queries
MAX_CHAINS = 3  # for gains, and for losses
EXTRA_STAGES = 3  # of the progress bar, after the methods


@dataclass(frozen=True, eq=False)
class ReportInput:
    """Data of a report.

    Attributes:
        queries, gallery, truth: as in `kinrank.compare`.
        measures: the first one determines the order and is shown query by query.
        items, query_display: names, texts, labels and pictures of the gallery and of the queries.
        title: title of the page.
        introduction, closing: HTML at the top and at the end of the page.
    """

    queries: ArrayLike | None
    gallery: ArrayLike
    truth: Truth
    measures: Sequence[str] = ("mAP",)
    items: Display = field(default_factory=Display)
    query_display: Display | None = None
    title: str = "What re-ranking does to your data"
    introduction: str = ""
    closing: str = ""


@dataclass(frozen=True, eq=False)
class Evidence(MethodResults):
    """The contents of a report: results of the methods, and what is shown of them.

    Attributes:
        material: vectors, truth, display and texts of the page.
        query_display: display of queries.
        values: (2, queries) first measure per query, before and after; NaN if unknown.
        relevance: relevance of items by query.
        chosen: shown queries, each with the reason.
        sample, groups: items on the maps, and their colours.
        tsne: True if t-SNE makes the maps.
        maps: the maps of vectors and states.
        gains, losses: chains behind the largest gains and losses.
        step: one step of a chain in detail, or None.
        notes: further remarks.
    """

    material: ReportInput
    query_display: Display
    values: NDArray[np.float64]
    relevance: Relevance
    chosen: list[tuple[int, str]]
    sample: NDArray[np.int64]
    groups: Groups
    tsne: bool
    maps: list[Map]
    gains: list[GainChain]
    losses: list[GainChain]
    step: Step | None
    notes: list[str]

    @property
    def items(self) -> Display:
        """Display of items."""
        return self.material.items


def gather(
    material: ReportInput,
    methods: Sequence[Any] | str = METHODS,
    options: RunOptions = DEFAULT_RUN,
    progress: ProgressOption = None,
) -> Evidence:
    """Run the methods, choose what to show, draw the maps, and explain the largest gains and losses.

    Args:
        material: data of the report.
        methods: Methods or names; no re-ranking is always included. LPMT, if included, is shown next to it, because
            its chains can be shown; otherwise the best method.
        options: how they run.
        progress: True for a bar, or a callable `f(label, done, total)`.
    """
    queries, gallery, truth, items = material.queries, material.gallery, material.truth, material.items
    measures = [str(measure) for measure in parse_measures(material.measures, truth)]
    run, report = choose_runner(queries, gallery, options), Progress(progress)
    query_display = items if queries is None else material.query_display or Display("query")
    count = len(gallery)  # type: ignore[arg-type]
    items.check(count)
    if queries is not None and not isinstance(queries, list):
        query_display.check(len(queries))  # type: ignore[arg-type]
    results = run_methods(run, methods, truth, measures, count, report, EXTRA_STAGES)
    relevance = Relevance({"truth": truth}, len(results.before), count)
    values, tsne, sample = _query_values(results, relevance), has_tsne(), sample_evenly(count, MAX_MAP_ITEMS)
    chosen = _choose_display(values, group_queries(query_display, relevance, len(results.before), count))
    stages_done = len(results.trials) + len(results.trials.refused) + len(results.trials.failed)
    last = stages_done + EXTRA_STAGES
    report.stage("chains", stages_done, last)
    held = read_gallery(gallery, options.metric, max_memory=options.max_memory)
    vectors = None if queries is None else held.convert(queries)
    nearest = results.before[:, : resolve_candidates(options.candidates, gallery)]
    chains = make_chains(results.method, vectors, held.rows, held.space, results.trials.mode, nearest)
    parts = {"features": reduce_vectors(held.rows[sample])}
    gains: list[GainChain] = []
    losses: list[GainChain] = []
    step, notes = None, []
    if chains is None:
        notes.append(f"{results.name} has no chains or states to show; add lpmt to the methods.")
    else:
        gains, losses = _find_gains_and_losses(chains, results, relevance, chosen, values)
        if isinstance(chains, JointChains):
            step = _largest_step(chains, gains or losses)
        if isinstance(chains, CandidateChains):
            notes.append("Over candidates, every query has its own graph, so there is no common map of states.")
        else:
            parts[f"states of {results.name}"] = reduce_states(chains.states(sample))
    report.stage("maps", stages_done + 1, last)
    maps = compute_maps(parts, tsne)
    if not tsne:
        notes.append(
            "The maps show the first two principal components; install scikit-learn for t-SNE, in a clone of kinrank: "
            "pip install '.[tsne]'."
        )
    report.stage("page", last - 1, last)
    report.stage("page", last, last)
    return Evidence(
        **vars(results),
        material=material,
        query_display=query_display,
        values=values,
        relevance=relevance,
        chosen=chosen,
        sample=sample,
        groups=group_items(items, query_display, relevance, len(results.before), count),
        tsne=tsne,
        maps=maps,
        gains=gains,
        losses=losses,
        step=step,
        notes=notes,
    )


def _query_values(results: MethodResults, relevance: Relevance) -> NDArray[np.float64]:
    measure = results.trials.measures[0]
    scores = {trial.method: trial.scores[measure] for trial in results.trials}
    return np.stack([relevance.per_row(scores[name]) for name in (BASELINE, results.name)])


def _choose_display(values: NDArray[np.float64], query_groups: NDArray[np.int64]) -> list[tuple[int, str]]:
    """Choose queries to show: one of each group of similar queries, if that leaves enough."""
    known = np.flatnonzero(~np.isnan(values).any(axis=0))
    if not len(known):
        raise InputError("no query has a right answer, so there is nothing to measure", remedy="check the truth")
    labels = query_groups[known]
    if len(np.unique(labels)) < GAINS + TYPICAL + LOSSES:
        labels = np.arange(len(known))
    picked = choose(values[0, known], values[1, known], labels, GAINS, TYPICAL, LOSSES)
    return [(int(known[position]), reason) for position, reason in picked]


def _find_gains_and_losses(
    chains: AnyChains,
    results: MethodResults,
    relevance: Relevance,
    chosen: list[tuple[int, str]],
    values: NDArray[np.float64],
) -> list[list[GainChain]]:
    """Find the chains behind the largest gains, and behind the largest losses, of the chosen queries."""
    change = values[1] - values[0]
    found = []
    for better, sign in ((True, 1), (False, -1)):
        queries = [query for query, _ in chosen if sign * change[query] > 0]
        queries.sort(key=lambda query: -abs(change[query]))
        found.append(find_gain_chains(chains, results.before, results.after, relevance, queries, better)[:MAX_CHAINS])
    return found


def _largest_step(chains: JointChains, gain_chains: list[GainChain]) -> Step | None:
    """Return the step of the first chain that moves the most mass."""
    if not gain_chains:
        return None
    chain = gain_chains[0].chain
    position = int(np.argmax(chain.moved))
    return chains.step(chain.links[position], chain.links[position + 1])


def choose(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    labels: NDArray[np.int64],
    best: int = 5,
    typical: int = 1,
    worst: int = 2,
) -> list[tuple[int, str]]:
    """Choose queries to show, at most one per label, with reasons: largest gains, typical ones, worst ones."""
    gain = after - before
    order = np.argsort(-gain, kind="stable")
    middle = np.argsort(np.abs(gain - np.median(gain)), kind="stable")
    chosen: list[tuple[int, str]] = []
    seen: set[int] = set()

    def take(candidates: NDArray[np.int64], count: int, reason: str) -> None:
        for query in candidates:
            if count and int(labels[query]) not in seen:
                seen.add(int(labels[query]))
                chosen.append((int(query), reason))
                count -= 1

    # pick the worst first: a label shown for its gain must not hide its failures
    lost = order[::-1]
    take(lost[gain[lost] < 0], worst, "among the largest losses")
    # if little or nothing got worse, show what is still bad afterwards
    take(np.argsort(after, kind="stable"), worst - len(chosen), "among the worst results after re-ranking")
    last = len(chosen)
    take(order, best, "among the largest gains")
    take(middle, typical, "a typical query: the median gain" if typical == 1 else "a typical query: near the median")
    return chosen[last:] + chosen[:last]
