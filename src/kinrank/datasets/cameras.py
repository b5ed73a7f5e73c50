"""Persons across cameras -> a Benchmark: what the query's own camera took of its person is ignored."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.datasets.base import Arrays, Benchmark, somebody_is_right
from kinrank.datasets.published import differences
from kinrank.evaluation import Truth
from kinrank.evaluation.truth import labelled_junk

MEASURES = ("mAP", "CMC@1", "CMC@5", "CMC@10", "mINP")
NEEDS = "persons across cameras are x, label, cam and is_query; or x, name and is_query"
NAME = re.compile(r"(-1|\d+)_c(\d+)")  # 0002_c1s1_000451_03.jpg, 0005_c2_f0046985.jpg
Integers = NDArray[np.int64]


def persons(vectors: str | os.PathLike[str], *, name: str | None = None) -> Benchmark:
    """Person re-identification as Market-1501 defines it: find the query's person in pictures of other cameras.

    Pictures of the query's person that its own camera took are taken out of the ranking. Gallery pictures with the
    label -1 (junk; a number or text) are left out altogether; those of a label that no query has, such as 0, are wrong
    for all.

    Args:
        vectors: an .npz with `x`, a row per picture, `label` (the person), `cam` (the camera) and `is_query`. Instead
            of `label` and `cam`, `name` holds names of files such as 0002_c1s1_000451_03.jpg: person 2, camera 1.
        name: of the set; the beginning of the file's name, up to the first "_", unless given. Give "market1501" to have
            its counts compared with the published ones.

    Returns:
        A Benchmark with the truth "person".
    """
    source = Path(vectors)
    arrays = Arrays(source, NEEDS)
    rows = arrays.rows("x")
    asked = arrays.flags("is_query", len(rows))
    if "label" in arrays or "name" not in arrays:
        labels, cameras = arrays.column("label", len(rows)), arrays.column("cam", len(rows))
    else:
        labels, cameras = persons_in(arrays.column("name", len(rows)).tolist(), source)
    offered = ~asked & ~labelled_junk(labels)
    if not asked.any() or not offered.any():
        raise ValueError(f"{source} has no {'gallery' if asked.any() else 'queries'}; it needs both, see is_query")
    truth = Truth.across_cameras(labels[asked], labels[offered], cameras[asked], cameras[offered])
    somebody_is_right({"person": truth}, source)
    counted = {"queries": int(asked.sum()), "images": int(offered.sum())}
    notes = () if name is None else differences(name, source, counted)
    return Benchmark(
        name or source.stem.partition("_")[0], rows[asked], rows[offered], {"person": truth}, MEASURES, notes
    )


def persons_in(names: list[Any], source: object = "the list of names") -> tuple[Integers, Integers]:
    """The person and the camera of pictures, from names such as 0002_c1s1_000451_03.jpg.

    Example:
        >>> persons_in(["query/0002_c1s1_000451_03.jpg"])
        (array([2]), array([1]))
    """
    found = []
    for place, name in enumerate(names):
        match = NAME.match(str(name).replace("\\", "/").rpartition("/")[2])
        if match is None:
            raise ValueError(
                f"{source}: name {place} is {str(name)[:80]!r}; a name starts with the number of the person and that "
                "of the camera, such as 0002_c1s1_000451_03.jpg"
            )
        found.append((int(match[1]), int(match[2])))
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
