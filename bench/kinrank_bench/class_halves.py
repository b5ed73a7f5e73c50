"""Classes of a set: its split into two sets with half of the classes each, and pairs of items of one class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Truth
from kinrank_bench.datasets.benchmark import Benchmark
from kinrank_bench.measurement import restrict_truth

Numbers = NDArray[np.int64]
MAX_PAIRS_PER_ITEM = 8


@dataclass(frozen=True, eq=False)
class Half:
    """Half of the classes of a set.

    Attributes:
        bench: set with the queries and items of these classes, the items without a class, and the truths.
        asks: (q,) numbers of these queries in the whole set.
        vectors: (n, d) items of these classes, to learn from.
        labels: (n,) their classes.
        pairs: (m, 2) rows of `vectors` that belong to one class.
    """

    bench: Benchmark
    asks: Numbers
    vectors: Any
    labels: Numbers
    pairs: Numbers


def has_classes(bench: Benchmark) -> bool:
    """True if relevance is defined by classes rather than by judgements."""
    return bool({"class", "person"} & set(bench.truths))


def find_classes(bench: Benchmark, truth: Truth) -> list[Any]:
    """Return the items of every class; overlapping lists of relevant items are one class.

    Pictures by a query's own camera belong to its class.
    """
    label = np.full(len(bench.gallery), -1)
    for query in range(len(truth)):
        members = np.union1d(
            truth.positives[query], truth.junk[query] if bench.queries is not None else [query]
        ).astype(np.int64)
        if len(members):
            known = np.unique(label[members])
            label[np.isin(label, known[known >= 0])] = query
            label[members] = query
    classes = [np.flatnonzero(label == class_label) for class_label in np.unique(label[label >= 0])]
    return sorted(classes, key=lambda members: int(members[0]))


def split_classes(bench: Benchmark, deal: int = 0) -> tuple[Half, Half]:
    """Assign the classes to two halves at random; the same `deal` gives the same split."""
    classes = find_classes(bench, next(iter(bench.truths.values())))
    side = np.random.default_rng(deal).permutation(len(classes)) % 2
    label = np.full(len(bench.gallery), -1)
    for number, members in enumerate(classes):
        label[members] = number
    first, second = (_make_half(bench, label, np.flatnonzero(side == here)) for here in (0, 1))
    return first, second


def _make_half(bench: Benchmark, label: Numbers, classes: Numbers) -> Half:
    in_classes = np.isin(label, classes)
    kept = in_classes | (label < 0)
    truths = {}
    for name, truth in bench.truths.items():
        asks = (
            kept
            if bench.queries is None
            else np.array([in_classes[truth.positives[q]].any() for q in range(len(truth))])
        )
        truths[name] = restrict_truth(truth, np.flatnonzero(asks), kept)
    queries = None if bench.queries is None else np.asarray(bench.queries)[asks]
    half_set = replace(bench, queries=queries, gallery=np.asarray(bench.gallery)[kept], truths=truths)
    return Half(
        half_set,
        np.flatnonzero(asks),
        np.asarray(bench.gallery)[in_classes],
        label[in_classes],
        class_pairs(label[in_classes]),
    )


def class_pairs(label: Numbers) -> Numbers:
    """Pair every row with the next few rows of its class, cyclically.

    Example:
        >>> class_pairs(np.array([0, 1, 0])).tolist()
        [[0, 2]]
    """
    pairs: list[Numbers] = [np.empty((0, 2), np.int64)]
    for class_label in np.unique(label):
        members = np.flatnonzero(label == class_label)
        for step in range(1, 1 + min(MAX_PAIRS_PER_ITEM, len(members) // 2)):
            couples = np.stack([members, np.roll(members, -step)], axis=1)
            pairs.append(couples[: len(members) // 2] if 2 * step == len(members) else couples)
    return np.concatenate(pairs)
