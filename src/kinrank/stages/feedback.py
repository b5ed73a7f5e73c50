"""A query and items marked right or wrong -> items by their chains from the right ones, away from the wrong ones.

With the query q, the right ones P and the wrong ones N, everything in the units of the answer without marks:

    D_s(x) = d* from s to x: d, d' and the direct comparison of wide states, mixed as in stages/fusion.py
    D+(x)  = -1/4 log mean over s in {q} and P of exp(-4 D_s(x)),    D-(x) = min over s in N of D_s(x)
    score  = D+ + max(0, D+ - D-) if there is a right one, else D+

Chains from q and P do not pass through N. Units are those of the query, for every source. Every source is searched from
on its own: one search from all of them together loses a third of what marks gain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.stages import direct
from kinrank.stages.attach import Attachment, Found, PreparedGraph, entered
from kinrank.stages.chains import chains_from
from kinrank.stages.csr import Rows
from kinrank.stages.fusion import NOTHING, units_of
from kinrank.stages.kernels import fusion as kernels
from kinrank.stages.kernels.attach import Labels
from kinrank.stages.kernels.fusion import LEAST, START, Mixture, Units
from kinrank.stages.kernels.sources import settle
from kinrank.stages.marks import Marks
from kinrank.stages.masks import EVERYONE, Mask, Masks
from kinrank.stages.run import THREADS, Output
from kinrank.stages.transport import state_of

Floats = NDArray[np.float32]
SHARPNESS = 4.0  # of the soft minimum
BLOCK = 2048  # items whose distances to a source are summed at once


class Reached(NamedTuple):
    """Items and what it costs to get to each, the cheapest first; whether these are all that chains reach."""

    items: NDArray[np.int32]
    totals: Floats
    everything: bool


def scores(
    distances: Floats, chained: Floats, apart: Floats, mixture: Mixture, units: Units, positives: int
) -> tuple[Floats, Floats]:
    """(score, D+) of m items, inf where no chain leads.

    d, d' and how far apart wide states are, each (sources, m): from the query, the right ones, the wrong ones. `apart`
    may be empty where it has no share.
    """
    values = _mixed(distances, chained, apart, mixture, units)
    plus = soft_least(values[: 1 + positives])
    if not positives or len(values) == 1 + positives:
        return plus, plus
    nearer = np.where(np.isfinite(plus), plus, 0.0) - values[1 + positives :].min(axis=0)
    return plus + np.maximum(nearer, np.float32(0.0)), plus


def soft_least(values: Floats) -> Floats:
    """(m,) -1/4 log mean exp(-4 D) over the rows of D (s, m), inf where all are."""
    least = values.min(axis=0)
    there = np.where(np.isfinite(least), least, np.float32(0.0))
    mean = np.exp(-SHARPNESS * (values - there)).mean(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(there - np.log(mean) / SHARPNESS, np.float32)


def search_marked(
    graph: PreparedGraph, query: Vectors, found: Neighbors, settings: Attachment, marks: Marks, k: int, depth: int,
    budget: int, masks: Masks = EVERYONE,
) -> Found:  # fmt: skip
    """One query (1, d) outside the graph: the items by their score, the k best certain unless the budget ended first.

    At most `budget` items are settled from every source.
    """
    mixture = settings.mixture
    most = min(max(budget, k, mixture.k), len(graph.lengths))
    everybody = EVERYONE.results
    through = everybody
    if len(marks.negatives):
        through = np.ones(len(graph.lengths), np.bool_)
        through[marks.negatives] = False
    with graph.scratch() as scratch:
        labels = scratch.labels
        here = entered(graph, found, settings, scratch, masks.counted)
        prices = here.first[0]
        first = np.ascontiguousarray(found.indices[0, : len(prices)])
        sources = [_reached(graph.steps, first, prices, through, most, labels)]
        alone = sources[0] if through is everybody else _reached(graph.steps, first, prices, everybody, most, labels)
        for item in (*marks.positives, *marks.negatives):
            start, free = np.array([item], np.int32), np.zeros(1, np.float32)
            ways = everybody if item in marks.negatives else through
            sources.append(_reached(graph.steps, start, free, ways, most, labels))
    apart = NOTHING
    if mixture.direct:
        asking = [here.wide.state(0), *(state_of(graph.wide, item) for item in (*marks.positives, *marks.negatives))]
        apart = np.array([direct.apart_from(state, graph.columns) for state in asking])
    units = _units_of(found, alone, prices, apart, mixture, masks.counted)
    vectors = [query[0], *graph.vectors[marks.positives], *graph.vectors[marks.negatives]]
    return _best(graph, vectors, sources, found, apart, mixture, units, len(marks.positives), k, depth, masks)


def joint_marked(
    query: int, marked: Marks, steps: Rows, wide: Rows, distances: Floats, gallery: NDArray[np.int64],
    mixture: Mixture, own: bool,
) -> tuple[Floats, NDArray[np.bool_]]:  # fmt: skip
    """(score, reached) of the gallery for an item of the graph; `marked` are numbers in the graph, too.

    distances (1 + marks, g): distances to the gallery from the query, the right ones, the wrong ones.
    """
    closed = steps
    if len(marked.negatives):
        data = steps.data.copy()
        for item in marked.negatives:
            data[steps.indptr[item] : steps.indptr[item + 1]] = np.inf
        closed = Rows(steps.indptr, steps.indices, data)
    asked = np.array([query])
    chained = chains_from(np.concatenate([asked, marked.positives]), closed)[0][:, gallery]
    alone = chained[:1]
    if len(marked.negatives):
        chained = np.concatenate([chained, chains_from(marked.negatives, steps)[0][:, gallery]])
        alone = chains_from(asked, steps)[0][:, gallery]
    apart = NOTHING
    if mixture.direct:
        apart = direct.apart(wide, np.concatenate([asked, marked.positives, marked.negatives]), gallery)
    first = units_of(distances[:1], _roots(alone, mixture), mixture, own, apart[:1])
    units = Units(*(float(values[0]) for values in first))
    result, _ = scores(distances, chained, apart, mixture, units, len(marked.positives))
    return result, np.isfinite(result)


def _reached(
    steps: Rows, first: NDArray[np.int32], prices: Floats, through: Mask, most: int, labels: Labels
) -> Reached:
    items, totals = np.empty(most, np.int32), np.empty(most, np.float32)
    count, waiting = settle(first, prices, steps, through, labels, items, totals)
    return Reached(items[:count], totals[:count], waiting == 0)


def _units_of(
    found: Neighbors, alone: Reached, prices: Floats, apart: Floats, mixture: Mixture, counted: Mask
) -> Units:
    """As in `kernels.attach.best_first`: the k-th of those that count, and never next to nothing."""
    if mixture.plain:
        return Units(0.0, 1.0, 1.0, 1.0)
    there = found.indices[0] >= 0
    lengths, totals = found.distances[0][there], alone.totals
    if len(counted):
        lengths, totals = lengths[counted[found.indices[0][there]]], totals[counted[alone.items]]
    largest = prices[: int(there.sum())].max(initial=0.0)
    kth = totals[min(mixture.k, len(totals)) - 1] if len(totals) else 0.0
    roots = _roots(np.array([[kth, largest]], np.float32), mixture)[0]
    near = max(float(lengths[min(mixture.k, len(lengths)) - 1]), LEAST) if len(lengths) else 1.0
    start = START * float(lengths[0]) if len(lengths) else 0.0
    wide = 1.0
    if mixture.direct:
        gaps = apart[0][counted] if len(counted) else apart[0]
        wide = max(float(np.partition(gaps, min(mixture.k, len(gaps)) - 1)[min(mixture.k, len(gaps)) - 1]), LEAST)
    return Units(start, near - start, float(max(roots[0], LEAST * roots[1])) or 1.0, wide)


def _best(
    graph: PreparedGraph, vectors: list[Vectors], sources: list[Reached], found: Neighbors, apart: Floats,
    mixture: Mixture, units: Units, positives: int, k: int, depth: int, masks: Masks,
) -> Found:  # fmt: skip
    """What the sources reached, as one answer."""
    items = np.unique(np.concatenate([source.items for source in sources]))
    chained = np.empty((len(sources), len(items)), np.float32)
    known = np.zeros(chained.shape, np.bool_)
    for row, source in enumerate(sources):  # who is not settled costs no less than the last who is
        chained[row] = _least_unsettled(source)
        places = np.searchsorted(items, source.items)
        chained[row, places], known[row, places] = source.totals, True
        known[row] |= source.everything
    distances = np.array([_gaps(vector, graph.vectors, items) for vector in vectors])
    gaps = apart[:, items] if mixture.direct else apart
    score, plus = scores(distances, chained, gaps, mixture, units, positives)
    last = float(score[np.isfinite(score)].max(initial=0.0))
    possible = np.isfinite(score)
    if len(masks.results):
        possible &= masks.results[items]
    ranked = np.flatnonzero(possible)
    ranked = ranked[np.argsort(score[ranked], kind="stable")]  # items ascend: ties to the lower number
    result = Found(
        np.full((1, depth), -1, np.int64), np.full((1, depth), np.inf, np.float32), np.ones(1, np.bool_),
        np.array([len(items)]),
    )  # fmt: skip
    if not all(source.everything for source in sources):
        outside = np.array([[_least_unsettled(source)] for source in sources[: 1 + positives]], np.float32)
        nothing = np.zeros_like(outside)
        nobody = float(soft_least(_mixed(nothing, outside, nothing, mixture, units))[0])
        first, rest = ranked[:k], ranked[k:]
        kth = float(score[first[-1]]) if len(first) == k else np.inf
        result.certain[0] = bool(known[:, first].all()) and nobody > kth
        result.certain[0] &= bool((plus[rest[~known[:, rest].all(axis=0)]] > kth).all())
    near = found.indices[0]
    others = (near >= 0) & ~np.isin(near, items[np.isfinite(score)])
    if len(masks.results):
        others &= masks.results[np.maximum(near, 0)]
    numbers = np.concatenate([items[ranked], near[others]])[:depth]
    lengths = np.concatenate([score[ranked], last + 1.0 + found.distances[0][others]])[:depth]
    result.indices[0, : len(numbers)], result.distances[0, : len(numbers)] = numbers, lengths
    return result


def _least_unsettled(source: Reached) -> float:
    """The least that a chain to an item costs which this source has not settled."""
    return np.inf if source.everything or not len(source.totals) else float(source.totals[-1])


def _gaps(vector: Vectors, vectors: Vectors, items: NDArray[np.int32]) -> Floats:
    """(m,) Euclidean distances of items from one vector."""
    gaps = np.empty(len(items), np.float32)
    for start in range(0, len(items), BLOCK):
        differences = vectors[items[start : start + BLOCK]] - vector
        gaps[start : start + BLOCK] = np.sqrt(np.einsum("nd,nd->n", differences, differences))
    return gaps


def _roots(chained: Floats, mixture: Mixture) -> Floats:
    roots = np.empty_like(chained)
    THREADS(kernels.root_rows, len(chained), (chained, mixture), (Output(roots),))
    return roots


def _mixed(distances: Floats, chained: Floats, apart: Floats, mixture: Mixture, units: Units) -> Floats:
    """(s, m) D_s, inf where no chain leads."""
    roots, values = _roots(np.ascontiguousarray(chained), mixture), np.empty(chained.shape, np.float32)
    reached = np.isfinite(roots)
    each = Units(*(np.full(len(distances), unit, np.float32) for unit in units))
    finite = np.where(reached, roots, np.float32(0.0))
    THREADS(kernels.mixed_rows, len(distances), (distances, finite, apart, mixture, each), (Output(values),))
    return np.where(reached, values, np.float32(np.inf))
