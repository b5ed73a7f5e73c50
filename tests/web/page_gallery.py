"""Small gallery in which chains find what distances do not, with labels, for tests of the page."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinrank
from kinrank.web.collection import Collection
from kinrank.web.settings import Files

ARCS, LENGTH, DIMENSIONS = 5, 16, 12


def arcs(seed: int = 0) -> NDArray[np.float32]:
    """Return five arcs of 150 degrees, each in its own plane: the far end of an arc is farther than all other arcs."""
    random = np.random.default_rng(seed)
    rows = random.normal(0, 0.03, (ARCS * LENGTH, DIMENSIONS))
    for arc, angle in itertools.product(range(ARCS), range(LENGTH)):
        turn = np.deg2rad(150 * angle / LENGTH)
        rows[arc * LENGTH + angle, 2 * arc : 2 * arc + 2] += np.cos(turn), np.sin(turn)
    return rows.astype(np.float32)


def names() -> list[str]:
    return [f"{'abcde'[number // LENGTH]}{number % LENGTH:02d}" for number in range(ARCS * LENGTH)]


@cache
def gallery() -> kinrank.Manifold:
    return kinrank.Manifold.build(arcs(), ids=names())


def queries() -> NDArray[np.float32]:
    """Return one query at the start of each arc."""
    return np.ascontiguousarray(arcs(1)[::LENGTH])


def collection(folder: Path, ids: list[Any] | None = None) -> Collection:
    """Return a collection with labels of items and queries, which are the arcs."""
    known = names() if ids is None else ids
    (folder / "labels.txt").write_text("\n".join("abcde"[number // LENGTH] for number in range(len(known))))
    (folder / "query_labels.txt").write_text("a\nb\nc\nd\ne")
    np.save(folder / "queries.npy", queries())
    files = Files(
        labels=str(folder / "labels.txt"),
        queries=str(folder / "queries.npy"),
        query_labels=str(folder / "query_labels.txt"),
    )
    return Collection.open(files, np.array(known, object if isinstance(known[0], str) else np.int64), None)
