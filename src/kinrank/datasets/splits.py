"""Vectors with classes -> a Benchmark: some items query the others, or every item queries all others."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from kinrank.datasets.base import Arrays, Benchmark, somebody_is_right
from kinrank.datasets.published import differences
from kinrank.evaluation import Truth
from kinrank.evaluation.splits import read_split

MEASURES = ("mAP", "R@1")
NEEDS = "a class split holds x, label and is_query; or x alone, with the published list of its pictures beside it"
EVERYONE = "a set in which every item queries the others holds x and label"
File = str | os.PathLike[str]


def class_split(vectors: File, split: File | None = None, *, name: str | None = None) -> Benchmark:
    """Queries and a gallery; items of the query's class are right.

    Args:
        vectors: an .npz with `x`, a row per item, `label`, one per item, and `is_query`; with a list, of `x` alone.
        split: a list in the published format, a line `folder/class/picture.jpg 0` per item, in the order of `x`:
            0 for a query, 1 for the gallery; the class is the last folder.
        name: of the set; the beginning of the file's name, up to the first "_", unless given. What differs from the
            published set of that name is a NotAsPublished warning, and stands in `notes`.

    Returns:
        A Benchmark with the truth "class". With a list, queries and items have the paths of the pictures as names.

    Example:
        >>> benchmark = class_split("cub200_rgem.npz", "cub_split.txt")
    """
    source = Path(vectors)
    name = source.stem.partition("_")[0] if name is None else name
    arrays = Arrays(source, NEEDS)
    rows = arrays.rows("x")
    if split is None:
        labels, asked = arrays.column("label", len(rows)), arrays.flags("is_query", len(rows))
        truth = Truth.from_labels(labels[asked], labels[~asked])
    else:
        listed = read_split(split)
        labels, asked = listed.classes, listed.is_query
        if len(labels) != len(rows):
            raise ValueError(
                f"{source}: x has {len(rows)} rows and {split} lists {len(labels)} pictures; give a row for each line, "
                "in its order"
            )
        truth = Truth.from_split(listed)
    _both_sides(source if split is None else split, asked.sum(), (~asked).sum())
    somebody_is_right({"class": truth}, source)
    counted = {"pictures": len(rows), "items": len(rows), "classes": len(np.unique(labels))}
    counted |= {"queries": int(asked.sum()), "images": int((~asked).sum())}
    notes = differences(name, source, counted)
    return Benchmark(name, rows[asked], rows[~asked], {"class": truth}, MEASURES, notes)


def leave_one_out(vectors: File, *, name: str | None = None, measures: tuple[str, ...] = MEASURES) -> Benchmark:
    """Every item queries all others; those of its class are right, and itself is ignored.

    Args:
        vectors: an .npz with `x`, a row per item, and `label`, one per item.
        name: of the set; the beginning of the file's name, up to the first "_", unless given. What differs from the
            published set of that name is a NotAsPublished warning, and stands in `notes`.
        measures: what to evaluate.

    Example:
        >>> benchmark = leave_one_out("coil20_pixels.npz")
        >>> ranking = kinrank.rerank(None, benchmark.gallery)
    """
    source = Path(vectors)
    arrays = Arrays(source, EVERYONE)
    rows = arrays.rows("x")
    labels = arrays.column("label", len(rows))
    truths = {"class": Truth.from_labels(labels)}
    somebody_is_right(truths, source)
    name = name or source.stem.partition("_")[0]
    notes = differences(name, source, {"items": len(rows), "classes": len(np.unique(labels))})
    return Benchmark(name, None, rows, truths, measures, notes)


def _both_sides(source: object, queries: int, items: int) -> None:
    if not queries or not items:
        lacking = "queries" if not queries else "items of the gallery"
        raise ValueError(f"{source} has no {lacking}; a split needs both: 0 marks a query in a list, 1 the gallery")
