"""Readers of published sets: landmarks, classes, persons across cameras, and texts with judgements.

Each reader takes files in the published format and returns a Benchmark.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import vector_input
from kinrank.errors import InputError
from kinrank.evaluation import Truth
from kinrank.evaluation.truth import find_junk_labels
from kinrank.evaluation.truth_readers import image_names, read_ground_truth
from kinrank.files.split_lists import read_split
from kinrank_bench.datasets.base import Arrays, Benchmark, check_has_positives
from kinrank_bench.datasets.distractors import join_distractors
from kinrank_bench.datasets.set_facts import describe_differences

LEVELS = ("easy", "medium", "hard")
LANDMARK_MEASURES = ("mAP", "mP@10")
CLASS_MEASURES = ("mAP", "R@1")
PERSON_MEASURES = ("mAP", "CMC@1", "CMC@5", "CMC@10", "mINP")
TEXT_MEASURES = ("mAP", "nDCG@10")
LANDMARK_ARRAYS = "a revisited set has q, the vectors of the queries, and d, those of the images"
SPLIT_ARRAYS = "a class split has x, label and is_query; or only x, with the published list of its pictures next to it"
LEAVE_ONE_OUT_ARRAYS = "a set in which every item queries the others has x and label"
PERSON_ARRAYS = "persons across cameras are x, label, cam and is_query; or x, name and is_query"
PAIR_MEASURES = ("nDCG@10", "R@1", "mAP")
PAIR_ARRAYS = "a set with right pairs has x, is_query, rel_query and rel_item"
TEXT_ARRAYS = "a set with judgements has q, d and docno, the ids of the documents; and qno, if its queries have ids"
PICTURE_NAME = re.compile(r"(-1|\d+)_c(\d+)")  # 0002_c1s1_000451_03.jpg, 0005_c2_f0046985.jpg
File = str | os.PathLike[str]
Integers = NDArray[np.int64]


def load_revisited(
    vectors: File,
    ground_truth: File,
    distractors: File | None = None,
    *,
    name: str | None = None,
    joined: File | None = None,
) -> Benchmark:
    """Load revisited Oxford or Paris, or your own set in their format, with any number of distractors.

    Args:
        vectors: an .npz with `q`, a row per query in the order of `qimlist`, and `d`, a row per image in the order
            of `imlist`; or a file NAME.d.npy from `kinrank embed`, with NAME.q.npy of the queries next to it.
        ground_truth: gnd_roxford5k.pkl or gnd_rparis6k.pkl as published. Nothing in it is executed.
        distractors: file of vectors of images that are relevant for no query, such as a million of them in a .npy.
            They follow the images of the set. The gallery is then a memory map of one file with both, written once,
            a block at a time.
        name: name of the set; default: the file name up to the first "_". If it is in PUBLISHED, counts and checksum
            are compared with the published ones; differences cause a BenchmarkMismatchWarning and are listed in
            `notes`.
        joined: where to write that file: a folder, or a path that ends in .npy; default: the folder of the
            distractors. An existing file that matches is reused.

    Returns:
        A Benchmark with the truths easy, medium and hard. With distractors, items have numbers instead of ids.

    Example:
        >>> benchmark = load_revisited("roxford5k_rgem.npz", "gnd_roxford5k.pkl", "distractors_rgem.npy")
    """
    source, truth_file = Path(vectors), Path(ground_truth)
    name = source.stem.partition("_")[0] if name is None else name
    arrays = Arrays(source, LANDMARK_ARRAYS)
    content = read_ground_truth(truth_file)
    queries = arrays.rows_of("q", image_names(content, "qimlist", len(content["gnd"])))
    images = arrays.rows_of("d", image_names(content, "imlist", len(content["imlist"])))
    _check_counts(source, truth_file, queries, images, content)
    gallery: NDArray[Any] = images
    if distractors is not None:
        distractor_rows = vector_input.load(distractors)
        gallery = join_distractors(
            images, distractor_rows, _join_path(source, Path(distractors), joined), Path(distractors)
        )
    distractor_count = len(gallery) - len(images)
    truths = {level: Truth.revisited(content, level, distractors=distractor_count) for level in LEVELS}
    check_has_positives(truths, truth_file)
    counted = {"queries": len(queries), "images": len(images)}
    return Benchmark(
        name, queries, gallery, truths, LANDMARK_MEASURES, describe_differences(name, source, counted, truth_file)
    )


def _check_counts(
    source: Path, truth_file: Path, queries: NDArray[Any], images: NDArray[Any], content: dict[str, Any]
) -> None:
    for key, rows, known in (("q", len(queries), len(content["gnd"])), ("d", len(images), len(content["imlist"]))):
        if rows != known:
            what = "queries" if key == "q" else "images"
            raise InputError(
                f"{key} has {rows} rows, but {truth_file} has {known} {what}",
                remedy="give one row for each, in order",
                context=str(source),
            )
    _check_dimensions(source, queries, images)


def _check_dimensions(source: Path, queries: NDArray[Any], gallery: NDArray[Any]) -> None:
    if queries.shape[1] != gallery.shape[1]:
        raise InputError(
            f"q has {queries.shape[1]} dimensions, but d has {gallery.shape[1]}",
            remedy="give vectors of the same model",
            context=str(source),
        )


def _join_path(source: Path, distractors: Path, joined: File | None) -> Path:
    """Return the path of the gallery with its distractors."""
    folder = distractors.parent if joined is None else Path(joined)
    if folder.suffix.lower() == ".npy" and not folder.is_dir():
        return folder
    return folder / f"{source.stem}_joined.npy"


def load_class_split(vectors: File, split: File | None = None, *, name: str | None = None) -> Benchmark:
    """Load queries and a gallery; items of the query's class are relevant.

    Args:
        vectors: an .npz with `x`, a row per item, `label`, one per item, and `is_query`; with `split`, only `x`, or a
            .npy file from `kinrank embed`.
        split: list in the published format, a line `folder/class/picture.jpg 0` per item, in the order of `x`:
            0 for a query, 1 for the gallery; the class is the last folder.
        name: name of the set; default: the file name up to the first "_". Differences from the published set of that
            name cause a BenchmarkMismatchWarning and are listed in `notes`.

    Returns:
        A Benchmark with the truth "class". With `split`, ids of queries and items are the paths of the pictures.

    Example:
        >>> benchmark = load_class_split("cub200_rgem.npz", "cub_split.txt")
    """
    source = Path(vectors)
    name = source.stem.partition("_")[0] if name is None else name
    arrays = Arrays(source, SPLIT_ARRAYS)
    if split is None:
        rows = arrays.rows("x")
        labels, is_query = arrays.column("label", len(rows)), arrays.flags("is_query", len(rows))
        truth = Truth.from_labels(labels[is_query], labels[~is_query])
    else:
        split_list = read_split(split)
        rows = arrays.rows_of("x", split_list.paths.tolist())
        labels, is_query = split_list.classes, split_list.is_query
        if len(labels) != len(rows):
            raise InputError(
                f"x has {len(rows)} rows, but {split} lists {len(labels)} pictures",
                remedy="give one row per line, in the same order",
                context=str(source),
            )
        truth = Truth.from_split(split_list)
    _check_both_sides(source if split is None else split, is_query.sum(), (~is_query).sum())
    check_has_positives({"class": truth}, source)
    counted = {"pictures": len(rows), "items": len(rows), "classes": len(np.unique(labels))}
    counted |= {"queries": int(is_query.sum()), "images": int((~is_query).sum())}
    notes = describe_differences(name, source, counted)
    return Benchmark(name, rows[is_query], rows[~is_query], {"class": truth}, CLASS_MEASURES, notes)


def load_leave_one_out(
    vectors: File, *, name: str | None = None, measures: tuple[str, ...] = CLASS_MEASURES
) -> Benchmark:
    """Load a set in which every item queries all others; items of its class are relevant, itself is ignored.

    Args:
        vectors: an .npz with `x`, a row per item, and `label`, one per item.
        name: name of the set; default: the file name up to the first "_". Differences from the published set of that
            name cause a BenchmarkMismatchWarning and are listed in `notes`.
        measures: measures to evaluate.

    Example:
        >>> benchmark = load_leave_one_out("coil20_pixels.npz")
        >>> ranking = kinrank.rerank(None, benchmark.gallery)
    """
    source = Path(vectors)
    arrays = Arrays(source, LEAVE_ONE_OUT_ARRAYS)
    rows = arrays.rows("x")
    labels = arrays.column("label", len(rows))
    truths = {"class": Truth.from_labels(labels)}
    check_has_positives(truths, source)
    name = name or source.stem.partition("_")[0]
    notes = describe_differences(name, source, {"items": len(rows), "classes": len(np.unique(labels))})
    return Benchmark(name, None, rows, truths, measures, notes)


def _check_both_sides(source: object, queries: int, items: int) -> None:
    if not queries or not items:
        lacking = "queries" if not queries else "items of the gallery"
        raise InputError(
            f"{source} has no {lacking}", remedy="give both; a list marks queries with 0 and the gallery with 1"
        )


def load_persons(vectors: str | os.PathLike[str], *, name: str | None = None) -> Benchmark:
    """Load person re-identification as in Market-1501: find the query's person in pictures of other cameras.

    Pictures of the query's person by its own camera are removed from the ranking. Gallery pictures with the label -1
    (junk; a number or text) are left out; pictures with a label that no query has, such as 0, are irrelevant for all.

    Args:
        vectors: an .npz with `x`, a row per picture, `label` (the person), `cam` (the camera) and `is_query`. Instead
            of `label` and `cam`, `name` may have file names such as 0002_c1s1_000451_03.jpg: person 2, camera 1.
        name: name of the set; default: the file name up to the first "_". Give "market1501" to compare its counts
            with the published ones.

    Returns:
        A Benchmark with the truth "person".
    """
    source = Path(vectors)
    arrays = Arrays(source, PERSON_ARRAYS)
    rows = arrays.rows("x")
    is_query = arrays.flags("is_query", len(rows))
    if "label" in arrays or "name" not in arrays:
        labels, cameras = arrays.column("label", len(rows)), arrays.column("cam", len(rows))
    else:
        labels, cameras = parse_picture_names(arrays.column("name", len(rows)).tolist(), source)
    in_gallery = ~is_query & ~find_junk_labels(labels)
    if not is_query.any() or not in_gallery.any():
        raise InputError(f"{source} has no {'gallery' if is_query.any() else 'queries'}", remedy="check is_query")
    truth = Truth.across_cameras(
        labels[is_query], labels[in_gallery], query_cameras=cameras[is_query], gallery_cameras=cameras[in_gallery]
    )
    check_has_positives({"person": truth}, source)
    counted = {"queries": int(is_query.sum()), "images": int(in_gallery.sum())}
    notes = () if name is None else describe_differences(name, source, counted)
    return Benchmark(
        name or source.stem.partition("_")[0],
        rows[is_query],
        rows[in_gallery],
        {"person": truth},
        PERSON_MEASURES,
        notes,
    )


def parse_picture_names(names: list[Any], source: object = "the list of names") -> tuple[Integers, Integers]:
    """Return persons and cameras from file names such as 0002_c1s1_000451_03.jpg.

    Example:
        >>> parse_picture_names(["query/0002_c1s1_000451_03.jpg"])
        (array([2]), array([1]))
    """
    parsed = []
    for position, name in enumerate(names):
        match = PICTURE_NAME.match(str(name).replace("\\", "/").rpartition("/")[2])
        if match is None:
            raise InputError(
                f"name {position} is {str(name)[:80]!r}",
                remedy="start names with the numbers of person and camera, such as 0002_c1s1_000451_03.jpg",
                context=str(source),
            )
        parsed.append((int(match[1]), int(match[2])))
    pairs = np.array(parsed, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def load_texts(vectors: File, judgements: File, *, graded: bool = True, name: str | None = None) -> Benchmark:
    """Load queries and documents with TREC judgements.

    Args:
        vectors: an .npz with `q`, a row per query, `d`, a row per document, `docno`, the id of each document, and
            `qno`, that of each query; without it, queries have the ids 1, 2, 3, ... in their order.
        judgements: lines `query 0 document relevance`; a relevance above 0 is relevant.
        graded: False counts every relevance above 0 as 1 (for nDCG).
        name: name of the set; default: the file name up to the first "_". Differences from the published set of that
            name cause a BenchmarkMismatchWarning and are listed in `notes`.

    Returns:
        A Benchmark with the truth "relevant". The run of another program can be read with
        `kinrank.Ranking.load("run.trec")` and scored with the same truth.
    """
    source = Path(vectors)
    arrays = Arrays(source, TEXT_ARRAYS)
    queries, documents = arrays.rows("q"), arrays.rows("d")
    _check_dimensions(source, queries, documents)
    numbers = arrays.column("qno", len(queries)).tolist() if "qno" in arrays else range(1, len(queries) + 1)
    query_ids = [str(query) for query in numbers]
    truth = Truth.from_qrels(
        judgements, query_ids=query_ids, item_ids=arrays.column("docno", len(documents)).tolist(), graded=graded
    )
    check_has_positives({"relevant": truth}, judgements)
    name = name or source.stem.partition("_")[0]
    notes = describe_differences(name, source, {"queries": len(queries), "documents": len(documents)})
    return Benchmark(name, queries, documents, {"relevant": truth}, TEXT_MEASURES, notes)


def load_pairs(vectors: File, *, name: str | None = None, measures: tuple[str, ...] = PAIR_MEASURES) -> Benchmark:
    """Load queries and items with a list of right pairs, such as captions and their images.

    Args:
        vectors: an .npz with `x`, a row per item or query, `is_query`, and pairs: `rel_query`, the position of a query
            among the queries, and `rel_item`, that of a relevant item among the items.
        name: name of the set; default: the file name up to the first "_". Differences from the published set of that
            name cause a BenchmarkMismatchWarning and are listed in `notes`.
        measures: measures to evaluate.

    Returns:
        A Benchmark with the truth "relevant".

    Example:
        >>> benchmark = load_pairs("flickr8k_resnet50_minilm.npz")
    """
    source = Path(vectors)
    arrays = Arrays(source, PAIR_ARRAYS)
    rows = arrays.rows("x")
    is_query = arrays.flags("is_query", len(rows))
    queries, gallery = rows[is_query], rows[~is_query]
    _check_both_sides(source, len(queries), len(gallery))
    owners = _read_positions(arrays, "rel_query", len(arrays["rel_query"]), len(queries))
    items = _read_positions(arrays, "rel_item", len(owners), len(gallery))
    order = np.argsort(owners, kind="stable")
    lists = np.split(items[order], np.searchsorted(owners[order], np.arange(1, len(queries))))
    truths = {"relevant": Truth.from_lists(lists, gallery_size=len(gallery))}
    check_has_positives(truths, source)
    name = name or source.stem.partition("_")[0]
    notes = describe_differences(name, source, {"queries": len(queries), "items": len(gallery)})
    return Benchmark(name, queries, gallery, truths, measures, notes)


def _read_positions(arrays: Arrays, key: str, entries: int, count: int) -> Integers:
    """Return one end of the pairs: positions below `count`."""
    positions = arrays.column(key, entries)
    if positions.dtype.kind not in "iu" or (len(positions) and not 0 <= positions.min() <= positions.max() < count):
        raise InputError(
            f"{key} has {positions.dtype} values that are not positions from 0 to {count - 1}",
            remedy="count queries and items separately, from 0",
            context=str(arrays.path),
        )
    return positions.astype(np.int64)
