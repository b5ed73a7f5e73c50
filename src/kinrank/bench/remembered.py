"""Published sets -> how accurate LPMT answers a query online, by how many of the other queries it remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Score, Scores, Truth, compare, evaluate
from kinrank.features import Vectors, unit
from kinrank.manifold import Manifold
from kinrank.manifold.changes import forgotten, observed
from kinrank.manifold.snapshot import Snapshot
from kinrank.neighbors import nearest
from kinrank.ranking import Ranking

COPIES, NOISE = 10, 0.02  # of each query in "repeated", and how far each is from it
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Memory:
    """What is remembered before a query asks.

    Attributes:
        rows: (m, d) queries.
        owners: (m,) the query that each is, or is a copy of.
        apart: (q,) a label per query; a query asks without those of its own label.
    """

    rows: Vectors
    owners: Numbers
    apart: Numbers


def remembered(
    queries: Vectors, gallery: Vectors, truths: Mapping[str, Truth], some: Numbers, method: Any = None
) -> list[dict[str, Any]]:
    """Rows with mAP per truth and memory, over the queries `some`, each asked on its own.

    `remembered`: none; a quarter, half or all of the other queries; unrelated: all queries that share no right item
    with it; repeated: half of the other queries, ten times each, with a little noise. `change`, `change_low`,
    `change_high`: the difference to none, query by query, with its 95 % interval. `kept`: how many were remembered.
    """
    queries = unit(np.asarray(queries, np.float32), "queries")
    base = Manifold.build(gallery, method)._snapshot
    rows: list[dict[str, Any]] = []
    plain: dict[str, Scores] = {}
    for name, memory in _memories(queries, truths).items():
        ranking, kept = _answers(base, queries, some, memory)
        for label, truth in truths.items():
            found = evaluate(ranking, truth.subset(some), ["mAP"])
            plain.setdefault(label, found)
            rows.append({"truth": label, "remembered": name, "kept": kept, **_numbers(found["mAP"])})
            if name != "none":
                rows[-1] |= {f"change{key}": value for key, value in _change(plain[label], found).items()}
    return rows


def _memories(queries: Vectors, truths: Mapping[str, Truth]) -> dict[str, Memory]:
    count = len(queries)
    everyone, rng = np.arange(count), np.random.default_rng(0)
    order = rng.permutation(count)  # a quarter is a part of the half
    shares = {"none": order[:0], "a quarter": order[: count // 4], "half": order[: count // 2], "all others": everyone}
    memories = {name: Memory(queries[part], part, everyone) for name, part in shares.items()}
    memories["unrelated"] = Memory(queries, everyone, related(truths, count))
    again = np.repeat(shares["half"], COPIES)
    noise = rng.standard_normal((len(again), queries.shape[1]))
    noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    copies = unit((queries[again] + noise).astype(np.float32), "queries")
    memories["repeated"] = Memory(copies, again, everyone)
    return memories


def related(truths: Mapping[str, Truth], count: int) -> Numbers:
    """(q,) a label per query, the same for queries that share right items, also by way of others."""
    label, owner = np.arange(count), dict[int, int]()
    for truth in truths.values():
        for query in range(count):
            for item in truth.positives[query].tolist():
                first = owner.setdefault(item, query)
                if label[first] != label[query]:
                    label[label == label[query]] = label[first]
    return label


def _answers(base: Snapshot, queries: Vectors, some: Numbers, memory: Memory) -> tuple[Ranking, int]:
    """The whole gallery ranked for the queries `some`, and how many of the memory were remembered."""
    full = observed(base, memory.rows) if len(memory.rows) else base
    which = nearest(full.vectors[full.remembered.queries], memory.rows, 1).indices.reshape(
        -1
    )  # near-copies are not kept
    labels = memory.apart[memory.owners[which]]  # of what is remembered
    n = len(base)
    indices, distances = np.empty((len(some), n), np.int64), np.empty((len(some), n), np.float32)
    asks = np.where(np.isin(memory.apart[some], labels), memory.apart[some], -1)
    for label in np.unique(asks):  # -1: those who need nothing forgotten
        snapshot = full if label < 0 else forgotten(full, np.flatnonzero(labels == label))
        mine = np.flatnonzero(asks == label)
        answer = snapshot.search(queries[some[mine]], n, n, None)
        indices[mine], distances[mine] = answer.indices, answer.distances
    return Ranking(indices, distances), full.remembered.count


def _numbers(score: Score) -> dict[str, float]:
    return {"mean": score.mean, "low": score.low, "high": score.high}


def _change(before: Scores, after: Scores) -> dict[str, float]:
    """How the mean moved, with the 95 % interval of the difference."""
    found = compare(before, after)
    return {"": found.difference, "_low": found.low, "_high": found.high}
