"""Vectors and a ground truth file of revisited Oxford or Paris -> a Benchmark: easy, medium and hard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from kinrank import features
from kinrank.datasets.base import Arrays, Benchmark, somebody_is_right
from kinrank.datasets.distractors import joined_with
from kinrank.datasets.published import differences
from kinrank.evaluation import Truth
from kinrank.evaluation.landmarks import ground_truth as read_ground_truth

LEVELS = ("easy", "medium", "hard")
MEASURES = ("mAP", "mP@10")
NEEDS = "a revisited set holds q, the vectors of the queries, and d, those of the images"
File = str | os.PathLike[str]


def revisited(
    vectors: File,
    ground_truth: File,
    distractors: File | None = None,
    *,
    name: str | None = None,
    joined: File | None = None,
) -> Benchmark:
    """Revisited Oxford or Paris, or a set of your own in their format, with any number of distractors.

    Args:
        vectors: an .npz with `q`, a row per query in the order of `qimlist`, and `d`, a row per image in the order
            of `imlist`.
        ground_truth: gnd_roxford5k.pkl or gnd_rparis6k.pkl as published. Nothing in it is executed.
        distractors: a file of vectors of images that are right for no query, such as a million of them in a .npy.
            They follow the images of the set. The gallery is then a memory map of one file that holds both, written
            once, a block at a time.
        name: of the set; the beginning of the file's name, up to the first "_", unless given. Counts and checksum of
            a name in PUBLISHED are compared with what was published: what differs is a NotAsPublished warning, and
            stands in `notes`.
        joined: where that file is written: a folder, or a path that ends in .npy; the folder of the distractors
            unless given. One that is there and matches is used again.

    Returns:
        A Benchmark with the truths easy, medium and hard. With distractors, items go by number instead of by name.

    Example:
        >>> benchmark = revisited("roxford5k_rgem.npz", "gnd_roxford5k.pkl", "distractors_rgem.npy")
    """
    source, truth_file = Path(vectors), Path(ground_truth)
    name = source.stem.partition("_")[0] if name is None else name
    arrays = Arrays(source, NEEDS)
    queries, images = arrays.rows("q"), arrays.rows("d")
    content = read_ground_truth(truth_file)
    _check_counts(source, truth_file, queries, images, content)
    gallery: NDArray[Any] = images
    if distractors is not None:
        far = features.load(distractors)
        gallery = joined_with(images, far, _place(source, Path(distractors), joined), Path(distractors))
    more = len(gallery) - len(images)
    truths = {level: Truth.revisited(content, level, distractors=more) for level in LEVELS}
    somebody_is_right(truths, truth_file)
    counted = {"queries": len(queries), "images": len(images)}
    return Benchmark(name, queries, gallery, truths, MEASURES, differences(name, source, counted, truth_file))


def _check_counts(
    source: Path, truth_file: Path, queries: NDArray[Any], images: NDArray[Any], content: dict[str, Any]
) -> None:
    for key, rows, known in (("q", len(queries), len(content["gnd"])), ("d", len(images), len(content["imlist"]))):
        if rows != known:
            what = "queries" if key == "q" else "images"
            raise ValueError(
                f"{source}: {key} has {rows} rows and {truth_file} has {known} {what}; give a row for each, in order"
            )
    if queries.shape[1] != images.shape[1]:
        raise ValueError(
            f"{source}: q has {queries.shape[1]} dimensions and d {images.shape[1]}; both must come from the same model"
        )


def _place(source: Path, distractors: Path, joined: File | None) -> Path:
    """Where the gallery with its distractors is written."""
    folder = distractors.parent if joined is None else Path(joined)
    if folder.suffix.lower() == ".npy" and not folder.is_dir():
        return folder
    return folder / f"{source.stem}_joined.npy"
