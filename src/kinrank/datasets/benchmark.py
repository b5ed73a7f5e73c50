"""The folder of published features -> Benchmarks: vectors, truths and the measures their papers report."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import features
from kinrank.evaluation import Truth


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What to rank and how it is judged.

    Attributes:
        name: its name in BENCHMARKS.
        queries: (q, d) vectors, None where every item queries the others.
        gallery: (n, d) vectors.
        truths: label -> Truth, the label that the field prints ("medium", "hard", "class").
        measures: what to evaluate.
    """

    name: str
    queries: NDArray[Any] | None
    gallery: NDArray[Any]
    truths: dict[str, Truth]
    measures: tuple[str, ...]

    def __repr__(self) -> str:
        asked = "every item" if self.queries is None else f"{len(self.queries)} queries"
        return f"Benchmark({self.name}: {asked}, gallery {self.gallery.shape}, {', '.join(self.truths)})"


Parts = tuple[NDArray[Any] | None, NDArray[Any], dict[str, Truth]]


@dataclass(frozen=True)
class Declaration:
    """One line of BENCHMARKS: what it is, its files, how they are read, what is measured."""

    about: str
    files: tuple[str, ...]
    read: Callable[[tuple[Path, ...]], Parts]
    measures: tuple[str, ...]


def load(name: str, folder: str | os.PathLike[str]) -> Benchmark:
    """One benchmark from the folder that holds its files.

    Example:
        >>> benchmark = load("roxford5k", folder)
        >>> ranking = kinrank.rerank(benchmark.queries, benchmark.gallery)
        >>> kinrank.evaluate(ranking, benchmark.truths["medium"], benchmark.measures)
    """
    if name not in BENCHMARKS:
        raise ValueError(f"benchmark {name!r} is not known; give one of: {', '.join(BENCHMARKS)}")
    declared = BENCHMARKS[name]
    paths = tuple(Path(folder) / file for file in declared.files)
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path} is not there; {name} needs {', '.join(declared.files)} in one folder")
    queries, gallery, truths = declared.read(paths)
    return Benchmark(name, queries, gallery, truths, declared.measures)


def present(folder: str | os.PathLike[str]) -> list[str]:
    """The sets whose files are all in a folder, in the order of BENCHMARKS; none is an empty list."""
    place = Path(folder)
    return [name for name, declared in BENCHMARKS.items() if all((place / file).is_file() for file in declared.files)]


def _revisited(paths: tuple[Path, ...]) -> Parts:
    vectors, ground_truth = paths
    truths = {level: Truth.revisited(ground_truth, level) for level in ("easy", "medium", "hard")}
    return features.load(vectors, key="q"), features.load(vectors, key="d"), truths


def _everyone(paths: tuple[Path, ...]) -> Parts:
    (path,) = paths
    return None, features.load(path, key="x"), {"class": Truth.from_labels(_column(path, "label"))}


def _split(paths: tuple[Path, ...]) -> Parts:
    (path,) = paths
    vectors, labels = features.load(path, key="x"), _column(path, "label")
    asked = _column(path, "is_query").astype(bool)
    truth = Truth.from_labels(labels[asked], labels[~asked])
    return vectors[asked], vectors[~asked], {"class": truth}


def _across_cameras(paths: tuple[Path, ...]) -> Parts:
    """Pictures of the query's person that its own camera took are neither right nor wrong."""
    (path,) = paths
    queries, gallery, truths = _split(paths)
    cameras, asked = _column(path, "cam"), _column(path, "is_query").astype(bool)
    right, junk = [], []
    for query, camera in enumerate(cameras[asked]):
        same = truths["class"].positives[query]
        own = cameras[~asked][same] == camera
        right.append(same[~own])
        junk.append(same[own])
    return queries, gallery, {"person": Truth.from_lists(right, junk, gallery_size=len(gallery))}


def _text(paths: tuple[Path, ...]) -> Parts:
    """Queries are judged by position, and relevance above 0 counts as 1, as the published baseline does."""
    path, judgements = paths
    queries = features.load(path, key="q")
    positions = [str(number + 1) for number in range(len(queries))]
    truth = Truth.from_qrels(judgements, positions, _column(path, "docno").tolist(), graded=False)
    return queries, features.load(path, key="d"), {"relevant": truth}


def _column(path: Path, key: str) -> NDArray[Any]:
    with np.load(path, allow_pickle=False) as arrays:
        return np.asarray(arrays[key])


BENCHMARKS: dict[str, Declaration] = {
    "roxford5k": Declaration(
        "revisited Oxford5k: 70 cropped queries, 4993 images, SSCD descriptors",
        ("roxford5k_sscd.npz", "revisited/gnd_roxford5k.pkl"),
        _revisited,
        ("mAP", "mP@10"),
    ),
    "caltech101": Declaration(
        "Caltech101: 4310 queries, 4367 images of 101 classes, EfficientNet-Lite2 features",
        ("caltech101_efflite2.npz",),
        _split,
        ("mAP", "R@1"),
    ),
    "coil20": Declaration(
        "COIL-20: 20 objects on a turntable, 72 views each, pixels",
        ("coil20_pixels.npz",),
        _everyone,
        ("mAP",),
    ),
    "mpeg7": Declaration("MPEG-7: 70 shapes, 20 masks each", ("mpeg7_masks.npz",), _everyone, ("mAP", "bullseye@40")),
    "orl": Declaration("ORL: 40 faces, 10 pictures each, pixels", ("orl_pixels.npz",), _everyone, ("mAP",)),
    "cranfield": Declaration(
        "Cranfield: 225 questions, 1400 abstracts, MiniLM sentence embeddings",
        ("cranfield_minilm.npz", "cranfield_qrels.txt"),
        _text,
        ("mAP", "nDCG@10"),
    ),
    "market1501": Declaration(
        "Market-1501: 682 queries, 5493 pictures of 350 persons across six cameras, OSNet features",
        ("market1501_osnet.npz",),
        _across_cameras,
        ("mAP", "R@1"),
    ),
    "banking77": Declaration(
        "Banking77: 616 queries, 4000 short texts of 77 intents, MiniLM sentence embeddings",
        ("banking77_minilm.npz",),
        _split,
        ("mAP", "R@1"),
    ),
    "mousebladder": Declaration(
        "mouse bladder: 500 queries, 1600 single cells of 16 types, 50 principal components",
        ("mousebladder_pca50.npz",),
        _split,
        ("mAP", "R@1"),
    ),
    "esc50": Declaration(
        "ESC-50: 400 queries, 1600 sounds of 50 kinds, MFCC statistics", ("esc50_mfcc.npz",), _split, ("mAP", "R@1")
    ),
    "omniglot": Declaration(
        "Omniglot: 968 queries, 3872 hand-drawn glyphs of 242 kinds, pixels",
        ("omniglot_pixels.npz",),
        _split,
        ("mAP", "R@1"),
    ),
    "lfw": Declaration(
        "LFW: 722 queries, 1716 faces of 722 persons, dlib descriptors", ("lfw_dlib.npz",), _split, ("mAP", "R@1")
    ),
}
