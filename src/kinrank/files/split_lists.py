"""Split lists of images, as published for Caltech101, CUB-200 and Indoor: queries, gallery and classes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.files.path_checks import check_regular_file
from kinrank.files.text_columns import read_lines

SPLIT_FORMAT = "write lines `folder/class/picture.jpg 0` for queries, and 1 at the end for the gallery"
SNIFFED_BYTES = 4096  # enough to recognize a split list


@dataclass(frozen=True, eq=False)
class Split:
    """Images in the order of the list: (n,) paths, (n,) classes, and (n,) True for queries."""

    paths: NDArray[Any]
    classes: NDArray[Any]
    is_query: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.paths)


def read_split(path: str | os.PathLike[str]) -> Split:
    """Read a split list in the published format of Caltech101, CUB-200 and Indoor.

    The class is the last folder of a path. A line in another format, or an image that is listed twice, is refused with
    the number of the line.
    """
    path = Path(path)
    images: dict[str, int] = {}
    classes, is_query = [], []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        image, _, flag = line.strip().rpartition(" ")
        folders = image.strip().replace("\\", "/").split("/")
        if flag not in ("0", "1") or len(folders) < 2 or not folders[-1] or not folders[-2]:
            raise InputError(f"{path} line {number} is {line[:80]!r}; {SPLIT_FORMAT}")
        if images.setdefault(image.strip(), number) != number:
            raise InputError(
                f"{path} line {number} lists {image.strip()[:80]!r} again, after line {images[image.strip()]}; "
                "keep one of them"
            )
        classes.append(folders[-2])
        is_query.append(flag == "0")
    if not images:
        raise InputError(f"{path} lists no image; {SPLIT_FORMAT}")
    return Split(np.array(list(images), object), np.array(classes), np.array(is_query, bool))


def is_split(path: Path) -> bool:
    """Return True if the first line with text belongs to a split list: it has two words, a judgement has four."""
    with check_regular_file(path).open("rb") as file:
        start = file.read(SNIFFED_BYTES).decode("utf-8-sig", errors="replace").splitlines()
    words = next((line.split() for line in start if line.strip()), [])
    return len(words) == 2 and "/" in words[0] and words[1] in ("0", "1")
