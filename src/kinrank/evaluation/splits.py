"""A list of pictures, each with a flag -> Split: which of them query, which are the gallery, and their classes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.files.names import read_lines
from kinrank.files.opening import regular

FORMAT = "a line is `folder/class/picture.jpg 0` for a query, and 1 at its end for the gallery"

START = 4096  # bytes that are enough to tell such a list from other files


@dataclass(frozen=True, eq=False)
class Split:
    """Pictures in the order of the list: (n,) paths, (n,) classes, (n,) which of them are queries."""

    paths: NDArray[Any]
    classes: NDArray[Any]
    is_query: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.paths)


def read_split(path: str | os.PathLike[str]) -> Split:
    """A list in the published format of Caltech101, CUB-200 and Indoor; the class is the last folder of a path.

    A line that is something else, or a picture that is listed twice, is refused with the number of the line.
    """
    path = Path(path)
    pictures: dict[str, int] = {}
    classes, asked = [], []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        picture, _, flag = line.strip().rpartition(" ")
        folders = picture.strip().replace("\\", "/").split("/")
        if flag not in ("0", "1") or len(folders) < 2 or not folders[-1] or not folders[-2]:
            raise ValueError(f"{path} line {number} is {line[:80]!r}; {FORMAT}")
        if pictures.setdefault(picture.strip(), number) != number:
            raise ValueError(
                f"{path} line {number} lists {picture.strip()[:80]!r} again, after line {pictures[picture.strip()]}; "
                "keep one of them"
            )
        classes.append(folders[-2])
        asked.append(flag == "0")
    if not pictures:
        raise ValueError(f"{path} lists no picture; {FORMAT}")
    return Split(np.array(list(pictures), object), np.array(classes), np.array(asked, bool))


def is_split(path: Path) -> bool:
    """Whether the first line that is not blank is one of such a list: it has two words, and a judgement has four."""
    with regular(path).open("rb") as file:
        start = file.read(START).decode("utf-8-sig", errors="replace").splitlines()
    words = next((line.split() for line in start if line.strip()), [])
    return len(words) == 2 and "/" in words[0] and words[1] in ("0", "1")
