"""A ground truth file of revisited Oxford or Paris -> its content, checked: which images are easy, hard and junk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

# difficulty -> (what is right, what is ignored)
REVISITED = {
    "easy": (("easy",), ("junk", "hard")),
    "medium": (("easy", "hard"), ("junk",)),
    "hard": (("hard",), ("junk", "easy")),
}
PARTS = ("easy", "hard", "junk")
HOLDS = "it must hold imlist and gnd, a list of entries with easy, hard and junk"


def ground_truth(path_or_dict: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """The content of such a file, or the one given, if every image that it names is in its list of images.

    The file is read by `closed_pickle`, which executes nothing.
    """
    if isinstance(path_or_dict, Mapping):
        return _checked(path_or_dict, "this")
    from kinrank.files import closed_pickle

    return _checked(closed_pickle.load(path_or_dict), os.fspath(path_or_dict))


def image_names(content: Mapping[str, Any], key: str, count: int) -> list[str] | None:
    """The names in a ground truth file, if they can tell its images apart."""
    names: Any = content.get(key)
    usable = isinstance(names, (list, tuple)) and all(isinstance(name, str) and name for name in names)
    return list(names) if usable and len(set(names)) == len(names) == count else None


def _checked(content: Any, source: str) -> dict[str, Any]:
    try:
        entries, size = list(content["gnd"]), len(content["imlist"])
        asked = content.get("qimlist")
        listed = [{part: list(entry[part]) for part in PARTS} for entry in entries]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{source} is no revisited ground truth ({type(error).__name__}: {error}); {HOLDS}") from None
    if isinstance(asked, (list, tuple)) and len(asked) != len(entries):
        raise ValueError(f"{source} names {len(asked)} queries in qimlist and has {len(entries)} entries in gnd")
    for query, entry in enumerate(listed):
        for part, images in entry.items():
            for image in images:
                if type(image) is bool or not _whole(image) or not 0 <= image < size:
                    raise ValueError(
                        f"{source}: query {query} has image {image!r:.40} among its {part} ones, but its imlist has "
                        f"{size} images, which count from 0"
                    )
    return dict(content)


def _whole(number: Any) -> bool:
    return hasattr(number, "__index__")
