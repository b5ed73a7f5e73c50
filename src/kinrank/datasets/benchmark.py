"""The folder of published features -> Benchmarks: vectors, truths and the measures their papers report."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kinrank.datasets.base import Benchmark
from kinrank.datasets.cameras import persons
from kinrank.datasets.judged import texts
from kinrank.datasets.landmarks import revisited
from kinrank.datasets.published import how_to_obtain
from kinrank.datasets.splits import class_split, leave_one_out

__all__ = ["BENCHMARKS", "Benchmark", "Declaration", "load", "present"]


@dataclass(frozen=True)
class Declaration:
    """One line of BENCHMARKS.

    Attributes:
        about: its name and what is in it, with a colon between them.
        features: what its vectors are.
        files: what they are called, the vectors first.
        read: the reader of these files, in that order.
        measures: those that its papers report.
        origin: where it comes from, as the rest of a sentence; what PUBLISHED says unless given.
    """

    about: str
    features: str
    files: tuple[str, ...]
    read: Callable[..., Benchmark]
    measures: tuple[str, ...]
    origin: str = ""


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
            raise FileNotFoundError(f"{path} is not there; {_needed(name)}")
    return dataclasses.replace(declared.read(*paths), name=name, measures=declared.measures)


def _needed(name: str) -> str:
    """The files of a set, as the rest of a sentence."""
    files, origin = BENCHMARKS[name].files, BENCHMARKS[name].origin or how_to_obtain(name)
    called = "this name" if len(files) == 1 else "these names"
    return f"{name} needs {' and '.join(files)}, under {called}{origin}; docs/datasets.md says what these files hold"


def present(folder: str | os.PathLike[str]) -> list[str]:
    """The sets whose files are all in a folder, in the order of BENCHMARKS; none is an empty list."""
    place = Path(folder)
    return [name for name, declared in BENCHMARKS.items() if all((place / file).is_file() for file in declared.files)]


BENCHMARKS: dict[str, Declaration] = {
    "roxford5k": Declaration(
        "revisited Oxford5k: 70 cropped queries, 4993 images",
        "SSCD copy-detection descriptors",
        ("roxford5k_sscd.npz", "revisited/gnd_roxford5k.pkl"),
        revisited,
        ("mAP", "mP@10"),
        "; gnd_roxford5k.pkl is published by the revisitop project (Radenović and others, 2018)",
    ),
    "caltech101": Declaration(
        "Caltech101: 4310 queries, 4367 images of 101 classes",
        "EfficientNet-Lite2 features",
        ("caltech101_efflite2.npz",),
        class_split,
        ("mAP", "R@1"),
        "; the split is caltech_split.txt of the PyRetri project (Hu and others, 2020)",
    ),
    "coil20": Declaration(
        "COIL-20: 20 objects on a turntable, 72 views each",
        "pixels",
        ("coil20_pixels.npz",),
        leave_one_out,
        ("mAP",),
    ),
    "mpeg7": Declaration(
        "MPEG-7: 70 shapes, 20 pictures each", "masks", ("mpeg7_masks.npz",), leave_one_out, ("mAP", "bullseye@40")
    ),
    "orl": Declaration("ORL: 40 faces, 10 pictures each", "pixels", ("orl_pixels.npz",), leave_one_out, ("mAP",)),
    "cranfield": Declaration(
        "Cranfield: 225 questions, 1400 abstracts",
        "MiniLM sentence embeddings",
        ("cranfield_minilm.npz", "cranfield_qrels.txt"),
        partial(texts, graded=False),  # as its published baseline counts
        ("mAP", "nDCG@10"),
    ),
    "market1501": Declaration(
        "Market-1501 (part): 682 queries, 5493 pictures of 350 persons across six cameras",
        "OSNet features",
        ("market1501_osnet.npz",),
        partial(persons, name="market1501"),
        ("mAP", "CMC@1", "mINP"),
    ),
    "banking77": Declaration(
        "Banking77: 616 queries, 4000 short texts of 77 intents",
        "MiniLM sentence embeddings",
        ("banking77_minilm.npz",),
        class_split,
        ("mAP", "R@1"),
    ),
    "mousebladder": Declaration(
        "mouse bladder: 500 queries, 1600 single cells of 16 types",
        "50 principal components",
        ("mousebladder_pca50.npz",),
        class_split,
        ("mAP", "R@1"),
    ),
    "esc50": Declaration(
        "ESC-50: 400 queries, 1600 sounds of 50 kinds",
        "MFCC statistics",
        ("esc50_mfcc.npz",),
        class_split,
        ("mAP", "R@1"),
    ),
    "omniglot": Declaration(
        "Omniglot: 968 queries, 3872 hand-drawn glyphs of 242 kinds",
        "pixels",
        ("omniglot_pixels.npz",),
        class_split,
        ("mAP", "R@1"),
    ),
    "lfw": Declaration(
        "LFW: 722 queries, 1716 faces of 722 persons",
        "dlib descriptors",
        ("lfw_dlib.npz",),
        class_split,
        ("mAP", "R@1"),
    ),
}
