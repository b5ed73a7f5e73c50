"""Facts about published sets: counts, checksums and sources."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

from kinrank.errors import BenchmarkMismatchWarning
from kinrank.files.checksummed_npz import file_checksum

NOT_COMPARABLE = "its numbers cannot be compared with published ones"


@dataclass(frozen=True)
class PublishedSet:
    """Facts about a published set.

    Attributes:
        title: usual name of the set.
        counts: unit -> published number, or several numbers if publications count differently.
        obtain: source of its files, and the names to give them.
        part: unit -> number, for the part of the set behind kinrank's own numbers, if it is only a part.
        truth_file: file with the ground truth, if the set has one.
        sha256: checksum of that file, as published.
    """

    title: str
    counts: dict[str, tuple[int, ...]]
    obtain: str
    truth_file: str | None = None
    sha256: str | None = None
    part: dict[str, int] = field(default_factory=dict)


def _landmark_set(title: str, name: str, images: int, sha256: str) -> PublishedSet:
    file = f"gnd_{name}.pkl"
    return PublishedSet(
        title,
        {"queries": (70,), "images": (images,)},
        f"{file} is published by the revisitop project (Radenović and others, 2018), with the list of images; put it "
        f"into the folder, or into revisited/ there. Vectors are {name}_FEATURES.npz: q, of the 70 queries cropped to "
        f"their boxes, in the order of its qimlist, and d, of the {images} images in the order of its imlist",
        file,
        sha256,
    )


def _class_set(title: str, name: str, published_list: str, counts: dict[str, tuple[int, ...]]) -> PublishedSet:
    return PublishedSet(
        title,
        counts,
        f"the list of queries and gallery is {published_list} of the PyRetri project (Hu and others, 2020); put it "
        f"into the folder under that name, or as {name}.txt. Vectors are {name}_FEATURES.npz: x, a row per line of the "
        "list, in its order; or x, label and is_query, and no list",
        published_list,
    )


def _item_set(title: str, items: int, classes: int, obtain: str, part: tuple[int, int] | None = None) -> PublishedSet:
    counts: dict[str, tuple[int, ...]] = {"items": (items,), "classes": (classes,)}
    return PublishedSet(title, counts, obtain, part=dict(zip(counts, part, strict=True)) if part else {})


def _pair_set(title: str, queries: int, items: int, obtain: str) -> PublishedSet:
    return PublishedSet(title, {"queries": (queries,), "items": (items,)}, obtain)


PUBLISHED: dict[str, PublishedSet] = {
    "roxford5k": _landmark_set(
        "ROxford5k", "roxford5k", 4993, "ba7967754bd2d7d2210a5799f9c45ad5835e269a80ef9d3eba44caa35816c471"
    ),
    "rparis6k": _landmark_set(
        "RParis6k", "rparis6k", 6322, "d2e729a5293dda7dda8a15c8383424a42e4964a2c4cfea2f32fa85d11d2df499"
    ),
    "cub200": _class_set("CUB-200-2011", "cub200", "cub_split.txt", {"pictures": (11788,), "classes": (200,)}),
    "indoor": _class_set("MIT Indoor", "indoor", "indoor_split.txt", {"pictures": (15620,), "classes": (67,)}),
    "caltech101": _class_set(
        "Caltech101",
        "caltech101",
        "caltech_split.txt",
        {"queries": (4310,), "images": (4367,), "pictures": (8677,), "classes": (101,)},
    ),
    "market1501": PublishedSet(
        "Market-1501",
        {"queries": (3368,), "images": (15913,)},  # 19732 with the 3819 pictures labelled -1, which do not count
        "the pictures are published as Market-1501 (Zheng and others, 2015), in the folders query and "
        "bounding_box_test. Vectors are an .npz with x, label, cam and is_query; or x, name and is_query, the names "
        "being those of the files, such as 0002_c1s1_000451_03.jpg",
        part={"queries": 682, "images": 5493},
    ),
    "coil20": _item_set(
        "COIL-20", 1440, 20, "its pictures are published by Columbia University (Nene and others, 1996)"
    ),
    "mpeg7": _item_set(
        "MPEG-7", 1400, 70, "its shapes are published as MPEG-7 CE-Shape-1, part B (Latecki and others, 2000)"
    ),
    "orl": _item_set(
        "ORL", 400, 40, "its faces are published by AT&T Laboratories Cambridge (Samaria and Harter, 1994)"
    ),
    "cranfield": PublishedSet(
        "Cranfield",
        {"queries": (225,), "documents": (1400,)},
        "questions, abstracts and judgements are published as the Cranfield collection (Cleverdon, 1967); the file of "
        "judgements numbers the questions 1 to 225 by their position",
    ),
    "banking77": _item_set(
        "Banking77", 13083, 77, "its texts are published by PolyAI (Casanueva and others, 2020)", (4616, 77)
    ),
    "mousebladder": _item_set(
        "mouse bladder", 2746, 16, "its cells are part of the Mouse Cell Atlas (Han and others, 2018)", (2100, 16)
    ),
    "esc50": _item_set("ESC-50", 2000, 50, "its sounds are published as ESC-50 (Piczak, 2015)"),
    "omniglot": _item_set(
        "Omniglot", 32460, 1623, "its glyphs are published as Omniglot (Lake and others, 2015)", (4840, 242)
    ),
    "lfw": _item_set(
        "LFW", 13233, 5749, "its faces are published as Labeled Faces in the Wild (Huang and others, 2007)", (2438, 722)
    ),
    "scifact": _pair_set(
        "SciFact",
        300,
        5183,
        "its claims, abstracts and judgements are published as SciFact (Wadden and others, 2020), "
        "in the form of BEIR (Thakur and others, 2021)",
    ),
    "flickr8k": _pair_set(
        "Flickr8k", 5000, 1000, "its test images and captions are published as Flickr8k (Hodosh and others, 2013)"
    ),
    "tatoeba": PublishedSet(
        "Tatoeba",
        {},
        "its sentences and their translations are published by the Tatoeba project",
        part={"queries": 7548, "items": 12180},
    ),
}


def describe_differences(
    name: str, source: object, counted: dict[str, int], truth: Path | None = None
) -> tuple[str, ...]:
    """Return sentences on how a set differs from the published one of that name, and issue each as a warning.

    If it is the part of a set behind kinrank's own numbers, say so without a warning.

    Args:
        name: name of the set; nothing is known about names that are not in PUBLISHED.
        source: file of the set.
        counted: unit -> number found.
        truth: file with the ground truth.
    """
    known = PUBLISHED.get(name)
    if known is None:
        return ()
    if known.part and all(counted.get(what) == count for what, count in known.part.items()):
        held = " and ".join(f"{count} {what}" for what, count in known.part.items())
        return (f"{source} is a part of {known.title}, {held}: {NOT_COMPARABLE}",)
    notes = [
        f"{source} has {count} {what}, but {known.title} as published has {' or '.join(map(str, known.counts[what]))}: "
        f"{NOT_COMPARABLE}"
        for what, count in counted.items()
        if count not in known.counts.get(what, (count,))
    ]
    if not notes and truth is not None and known.sha256 is not None and file_checksum(truth) != known.sha256:
        notes.append(f"{truth} differs from the published file; its counts are those of {known.title}")
    for note in notes:
        warnings.warn(note, BenchmarkMismatchWarning, stacklevel=3)
    return tuple(notes)


def how_to_obtain(name: str) -> str:
    """Return where to get a set and how to name its files, as the rest of a sentence; empty for unknown sets."""
    return f"; {PUBLISHED[name].obtain}" if name in PUBLISHED else ""
