"""Sets behind kinrank's own numbers, by name: a folder of published features -> Benchmarks."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kinrank.errors import InputError, MissingFileError
from kinrank_bench.datasets.base import Benchmark
from kinrank_bench.datasets.readers import (
    load_class_split,
    load_leave_one_out,
    load_pairs,
    load_persons,
    load_revisited,
    load_texts,
)
from kinrank_bench.datasets.set_facts import how_to_obtain

REVISITED_ORIGIN = "; gnd_roxford5k.pkl is published by the revisitop project (Radenović and others, 2018)"
PYRETRI_ORIGIN = "; the split is {}_split.txt of the PyRetri project (Hu and others, 2020)"

__all__ = ["BENCHMARKS", "Benchmark", "Declaration", "list_available", "load"]


@dataclass(frozen=True)
class Declaration:
    """One entry of BENCHMARKS.

    Attributes:
        about: title and contents, separated by a colon.
        features: kind of the vectors.
        files: file names, the vectors first.
        read: reader of these files, in that order.
        measures: measures reported in papers.
        origin: source of the set, as the rest of a sentence; default: from PUBLISHED.
    """

    about: str
    features: str
    files: tuple[str, ...]
    read: Callable[..., Benchmark]
    measures: tuple[str, ...]
    origin: str = ""


def load(name: str, folder: str | os.PathLike[str]) -> Benchmark:
    """Load one benchmark from the folder with its files.

    Example:
        >>> benchmark = load("roxford5k", folder)
        >>> ranking = kinrank.rerank(benchmark.queries, benchmark.gallery)
        >>> kinrank.evaluate(ranking, benchmark.truths["medium"], benchmark.measures)
    """
    if name not in BENCHMARKS:
        raise InputError(f"set {name!r} is not known", remedy=f"give one of: {', '.join(BENCHMARKS)}")
    declared = BENCHMARKS[name]
    paths = tuple(Path(folder) / file for file in declared.files)
    for path in paths:
        if not path.is_file():
            raise MissingFileError(f"{path} does not exist; {_describe_files(name)}")
    return dataclasses.replace(declared.read(*paths), name=name, measures=declared.measures)


def _describe_files(name: str) -> str:
    """Return the files of a set, as the rest of a sentence."""
    files, origin = BENCHMARKS[name].files, BENCHMARKS[name].origin or how_to_obtain(name)
    called = "this name" if len(files) == 1 else "these names"
    return f"{name} needs {' and '.join(files)}, under {called}{origin}; docs/datasets.md describes these files"


def list_available(folder: str | os.PathLike[str]) -> list[str]:
    """List the sets whose files are all in a folder, in the order of BENCHMARKS; possibly none."""
    place = Path(folder)
    return [name for name, declared in BENCHMARKS.items() if all((place / file).is_file() for file in declared.files)]


def _declare_classes(about: str, features: str, file: str, origin: str = "") -> Declaration:
    """Declare a set of queries and a gallery, whose truth is the class."""
    return Declaration(about, features, (file,), load_class_split, ("mAP", "R@1"), origin)


def _declare_pairs(about: str, features: str, file: str) -> Declaration:
    """Declare a set of queries and a gallery, whose truth is a list of right pairs."""
    return Declaration(about, features, (file,), load_pairs, ("mAP", "nDCG@10", "R@1"))


def _declare_items(about: str, features: str, file: str, *more_measures: str) -> Declaration:
    """Declare a set in which every item queries the others."""
    return Declaration(about, features, (file,), load_leave_one_out, ("mAP", *more_measures))


BENCHMARKS: dict[str, Declaration] = {
    "roxford5k": Declaration(
        "revisited Oxford5k: 70 cropped queries, 4993 images",
        "SSCD copy-detection descriptors",
        ("roxford5k_sscd.npz", "revisited/gnd_roxford5k.pkl"),
        load_revisited,
        ("mAP", "mP@10"),
        REVISITED_ORIGIN,
    ),
    "caltech101": _declare_classes(
        "Caltech101: 4310 queries, 4367 images of 101 classes",
        "EfficientNet-Lite2 features",
        "caltech101_efflite2.npz",
        PYRETRI_ORIGIN.format("caltech"),
    ),
    "coil20": _declare_items("COIL-20: 20 objects on a turntable, 72 views each", "pixels", "coil20_pixels.npz"),
    "mpeg7": _declare_items("MPEG-7: 70 shapes, 20 pictures each", "masks", "mpeg7_masks.npz", "bullseye@40"),
    "orl": _declare_items("ORL: 40 faces, 10 pictures each", "pixels", "orl_pixels.npz"),
    "cranfield": Declaration(
        "Cranfield: 225 questions, 1400 abstracts",
        "MiniLM sentence embeddings",
        ("cranfield_minilm.npz", "cranfield_qrels.txt"),
        partial(load_texts, graded=False),  # as in its published baseline
        ("mAP", "nDCG@10"),
    ),
    "market1501": Declaration(
        "Market-1501 (part): 682 queries, 5493 pictures of 350 persons across six cameras",
        "OSNet features",
        ("market1501_osnet.npz",),
        partial(load_persons, name="market1501"),
        ("mAP", "CMC@1", "mINP"),
    ),
    "banking77": _declare_classes(
        "Banking77: 616 queries, 4000 short texts of 77 intents", "MiniLM sentence embeddings", "banking77_minilm.npz"
    ),
    "mousebladder": _declare_classes(
        "mouse bladder: 500 queries, 1600 single cells of 16 types", "50 principal components", "mousebladder_pca50.npz"
    ),
    "esc50": _declare_classes("ESC-50: 400 queries, 1600 sounds of 50 kinds", "MFCC statistics", "esc50_mfcc.npz"),
    "omniglot": _declare_classes(
        "Omniglot: 968 queries, 3872 hand-drawn glyphs of 242 kinds", "pixels", "omniglot_pixels.npz"
    ),
    "lfw": _declare_classes("LFW: 722 queries, 1716 faces of 722 persons", "dlib descriptors", "lfw_dlib.npz"),
    "scifact": _declare_pairs(
        "SciFact: 300 claims, 5183 abstracts", "MiniLM sentence embeddings", "scifact_minilm.npz"
    ),
    "flickr8k": _declare_pairs(
        "Flickr8k: 5000 captions, 1000 images",
        "ResNet-50 and MiniLM, mapped into one space by CCA",
        "flickr8k_resnet50_minilm.npz",
    ),
    "tatoeba": _declare_pairs(
        "Tatoeba (part): 7548 sentences in eight languages, 12180 in English",
        "multilingual Universal Sentence Encoder",
        "tatoeba_usem.npz",
    ),
    "caltech101_pyretri": _declare_classes(
        "Caltech101: 4310 queries, 4367 images of 101 classes",
        "ResNet-50, GeM by PyRetri's recipe",
        "caltech101_pyretri.npz",
        PYRETRI_ORIGIN.format("caltech"),
    ),
    "cub200_pyretri": _declare_classes(
        "CUB-200-2011: pictures of 200 birds",
        "ResNet-50, SCDA by PyRetri's recipe",
        "cub200_pyretri.npz",
        PYRETRI_ORIGIN.format("cub"),
    ),
    "roxford5k_rmac362": Declaration(
        "revisited Oxford5k: 70 cropped queries, 4993 images",
        "R-MAC of ResNet-50, long side 362",
        ("roxford5k_rmac362.npz", "revisited/gnd_roxford5k.pkl"),
        load_revisited,
        ("mAP", "mP@10"),
        REVISITED_ORIGIN,
    ),
}
