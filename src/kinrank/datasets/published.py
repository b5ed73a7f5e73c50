"""The name of a published set -> its counts, its checksums, and where its files come from."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, field
from pathlib import Path

APART = "its numbers cannot be compared with published ones"


class NotAsPublished(UserWarning):
    """A set whose counts or ground truth differ from what was published: its numbers are not those of the field."""


@dataclass(frozen=True)
class Published:
    """What is known of a published set.

    Attributes:
        title: how the field calls it.
        counts: what is counted -> the published number, or several where publications differ in what they count.
        obtain: where its files come from, and what to call them.
        part: what is counted -> the number, of the part of it that kinrank's own numbers come from, if it is one.
        truth_file: the file that says what is right, where the set has one of its own.
        sha256: of that file, as published.
    """

    title: str
    counts: dict[str, tuple[int, ...]]
    obtain: str
    truth_file: str | None = None
    sha256: str | None = None
    part: dict[str, int] = field(default_factory=dict)


def _landmarks(title: str, name: str, images: int, sha256: str) -> Published:
    file = f"gnd_{name}.pkl"
    return Published(
        title,
        {"queries": (70,), "images": (images,)},
        f"{file} is published by the revisitop project (Radenović and others, 2018), with the list of images; put it "
        f"into the folder, or into revisited/ there. Vectors are {name}_FEATURES.npz: q, of the 70 queries cropped to "
        f"their boxes, in the order of its qimlist, and d, of the {images} images in the order of its imlist",
        file,
        sha256,
    )


def _classes(title: str, name: str, published_list: str, counts: dict[str, tuple[int, ...]]) -> Published:
    return Published(
        title,
        counts,
        f"the list of queries and gallery is {published_list} of the PyRetri project (Hu and others, 2020); put it "
        f"into the folder under that name, or as {name}.txt. Vectors are {name}_FEATURES.npz: x, a row per line of the "
        "list, in its order; or x, label and is_query, and no list",
        published_list,
    )


def _items(title: str, items: int, classes: int, obtain: str, part: tuple[int, int] | None = None) -> Published:
    counts: dict[str, tuple[int, ...]] = {"items": (items,), "classes": (classes,)}
    return Published(title, counts, obtain, part=dict(zip(counts, part, strict=True)) if part else {})


PUBLISHED: dict[str, Published] = {
    "roxford5k": _landmarks(
        "ROxford5k", "roxford5k", 4993, "ba7967754bd2d7d2210a5799f9c45ad5835e269a80ef9d3eba44caa35816c471"
    ),
    "rparis6k": _landmarks(
        "RParis6k", "rparis6k", 6322, "d2e729a5293dda7dda8a15c8383424a42e4964a2c4cfea2f32fa85d11d2df499"
    ),
    "cub200": _classes("CUB-200-2011", "cub200", "cub_split.txt", {"pictures": (11788,), "classes": (200,)}),
    "indoor": _classes("MIT Indoor", "indoor", "indoor_split.txt", {"pictures": (15620,), "classes": (67,)}),
    "caltech101": _classes(
        "Caltech101",
        "caltech101",
        "caltech_split.txt",
        {"queries": (4310,), "images": (4367,), "pictures": (8677,), "classes": (101,)},
    ),
    "market1501": Published(
        "Market-1501",
        {"queries": (3368,), "images": (15913,)},  # 19732 with the 3819 pictures labelled -1, which count nowhere
        "the pictures are published as Market-1501 (Zheng and others, 2015), in the folders query and "
        "bounding_box_test. Vectors are an .npz with x, label, cam and is_query; or x, name and is_query, the names "
        "being those of the files, such as 0002_c1s1_000451_03.jpg",
        part={"queries": 682, "images": 5493},
    ),
    "coil20": _items("COIL-20", 1440, 20, "its pictures are published by Columbia University (Nene and others, 1996)"),
    "mpeg7": _items(
        "MPEG-7", 1400, 70, "its shapes are published as MPEG-7 CE-Shape-1, part B (Latecki and others, 2000)"
    ),
    "orl": _items("ORL", 400, 40, "its faces are published by AT&T Laboratories Cambridge (Samaria and Harter, 1994)"),
    "cranfield": Published(
        "Cranfield",
        {"queries": (225,), "documents": (1400,)},
        "questions, abstracts and judgements are published as the Cranfield collection (Cleverdon, 1967); the file of "
        "judgements numbers the questions 1 to 225 by their position",
    ),
    "banking77": _items(
        "Banking77", 13083, 77, "its texts are published by PolyAI (Casanueva and others, 2020)", (4616, 77)
    ),
    "mousebladder": _items(
        "mouse bladder", 2746, 16, "its cells are part of the Mouse Cell Atlas (Han and others, 2018)", (2100, 16)
    ),
    "esc50": _items("ESC-50", 2000, 50, "its sounds are published as ESC-50 (Piczak, 2015)"),
    "omniglot": _items(
        "Omniglot", 32460, 1623, "its glyphs are published as Omniglot (Lake and others, 2015)", (4840, 242)
    ),
    "lfw": _items(
        "LFW", 13233, 5749, "its faces are published as Labeled Faces in the Wild (Huang and others, 2007)", (2438, 722)
    ),
}


def differences(name: str, source: object, counted: dict[str, int], truth: Path | None = None) -> tuple[str, ...]:
    """Sentences that say in what a set is not the published one of that name; each is a warning, too.

    The part of a set that kinrank's own numbers come from is said to be one, without a warning.

    Args:
        name: of the set; nothing is known of those that are not in PUBLISHED.
        source: the file it came from.
        counted: what is counted -> the number found.
        truth: the file that said what is right.
    """
    known = PUBLISHED.get(name)
    if known is None:
        return ()
    if known.part and all(counted.get(what) == count for what, count in known.part.items()):
        held = " and ".join(f"{count} {what}" for what, count in known.part.items())
        return (f"{source} is a part of {known.title}, {held}: {APART}",)
    notes = [
        f"{source} has {count} {what}, and {known.title} as published has {' or '.join(map(str, known.counts[what]))}: "
        f"{APART}"
        for what, count in counted.items()
        if count not in known.counts.get(what, (count,))
    ]
    if not notes and truth is not None and known.sha256 is not None and checksum(truth) != known.sha256:
        notes.append(
            f"{truth} is not the file that was published, byte for byte; its counts are those of {known.title}"
        )
    for note in notes:
        warnings.warn(note, NotAsPublished, stacklevel=3)
    return tuple(notes)


def checksum(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def how_to_obtain(name: str) -> str:
    """What to get and what to call it, as the rest of a sentence; nothing for a set that is not in PUBLISHED."""
    return f"; {PUBLISHED[name].obtain}" if name in PUBLISHED else ""
