"""A set with classes -> two sets with half of the classes each, and pairs of items that belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.bench.diagnosis import classes_of
from kinrank.datasets.benchmark import Benchmark
from kinrank.evaluation import Truth

Numbers = NDArray[np.int64]
NEXT = 8  # items of its class that an item makes a pair with, at most


@dataclass(frozen=True, eq=False)
class Half:
    """Half of the classes of a set.

    Attributes:
        bench: its queries, its items and those of no class, and what is right.
        asks: which queries of the whole set these are.
        vectors: (n, d) the items of its classes, to learn from.
        labels: (n,) the class of each of these.
        pairs: (m, 2) rows of these that belong together.
    """

    bench: Benchmark
    asks: Numbers
    vectors: Any
    labels: Numbers
    pairs: Numbers


def has_classes(bench: Benchmark) -> bool:
    """Whether what is right is a matter of classes, not of judgements."""
    return bool({"class", "person"} & set(bench.truths))


def halves(bench: Benchmark, deal: int = 0) -> tuple[Half, Half]:
    """Classes are dealt at random, the same way for the same number of the deal."""
    classes = classes_of(bench, next(iter(bench.truths.values())))
    side = np.random.default_rng(deal).permutation(len(classes)) % 2
    label = np.full(len(bench.gallery), -1)
    for number, members in enumerate(classes):
        label[members] = number
    first, second = (_half(bench, label, np.flatnonzero(side == here)) for here in (0, 1))
    return first, second


def _half(bench: Benchmark, label: Numbers, classes: Numbers) -> Half:
    own = np.isin(label, classes)
    kept = own | (label < 0)
    truths = {}
    for name, truth in bench.truths.items():
        asks = kept if bench.queries is None else np.array([own[truth.positives[q]].any() for q in range(len(truth))])
        truths[name] = _restricted(truth, np.flatnonzero(asks), kept)
    queries = None if bench.queries is None else np.asarray(bench.queries)[asks]
    made = replace(bench, queries=queries, gallery=np.asarray(bench.gallery)[kept], truths=truths)
    return Half(made, np.flatnonzero(asks), np.asarray(bench.gallery)[own], label[own], pairs_of(label[own]))


def _restricted(truth: Truth, queries: Numbers, kept: NDArray[np.bool_]) -> Truth:
    """The truth of some queries over the items that are kept."""
    place = np.cumsum(kept) - 1
    right, junk = (
        [place[items[kept[items]]] for items in (lists[query] for query in queries)]
        for lists in (truth.positives, truth.junk)
    )
    return Truth.from_lists(right, junk, gallery_size=int(kept.sum()), average_precision=truth.average_precision)


def pairs_of(label: Numbers) -> Numbers:
    """Every row with the next few of its class, in a circle.

    Example:
        >>> pairs_of(np.array([0, 1, 0])).tolist()
        [[0, 2]]
    """
    found: list[Numbers] = [np.empty((0, 2), np.int64)]
    for one in np.unique(label):
        members = np.flatnonzero(label == one)
        for step in range(1, 1 + min(NEXT, len(members) // 2)):
            couples = np.stack([members, np.roll(members, -step)], axis=1)
            found.append(couples[: len(members) // 2] if 2 * step == len(members) else couples)
    return np.concatenate(found)
