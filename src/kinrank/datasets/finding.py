"""A folder of features -> the published sets in it, by the names of the files.

| file | holds |
|---|---|
| `<set>_<features>.npz` | `q` and `d` of roxford5k, rparis6k; `x`, `label`, `is_query` of cub200, indoor, caltech101 |
| `gnd_<set>.pkl` | the ground truth of roxford5k, rparis6k, as published; in the folder or in `revisited/` there |
| `<set>.txt` | the list of cub200, indoor, caltech101, for vectors of `x` alone; its published name is found, too |
| `distractors_<features>.npy` | vectors that follow the galleries of roxford5k and rparis6k |

`<features>` is any word that names the model, such as rgem.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kinrank.datasets.base import Arrays, Benchmark
from kinrank.datasets.landmarks import revisited
from kinrank.datasets.published import PUBLISHED
from kinrank.datasets.splits import NEEDS, class_split

LANDMARKS = ("roxford5k", "rparis6k")  # the sets of the revisited protocol
CLASSES = ("cub200", "indoor", "caltech101")


@dataclass(frozen=True)
class Found:
    """A set and the features of it that are in a folder.

    Attributes:
        set: roxford5k, rparis6k, cub200, indoor or caltech101.
        features: the word in the file's name.
        distractors: whether distractors follow the gallery.
        vectors: the file of vectors.
        truth: the ground truth file, or the list; None where the vectors say themselves what is right.
        distractors_file: the file of distractors, if any.
    """

    set: str
    features: str
    distractors: bool
    vectors: Path
    truth: Path | None = None
    distractors_file: Path | None = None

    @property
    def name(self) -> str:
        """Such as roxford5k_rgem, or roxford5k_rgem+distractors."""
        return f"{self.set}_{self.features}{'+distractors' if self.distractors else ''}"

    def load(self, joined: str | os.PathLike[str] | None = None) -> Benchmark:
        """The set; `joined` is the folder for a gallery with its distractors, that of the features unless given."""
        if self.set in LANDMARKS and self.truth is not None:
            return revisited(self.vectors, self.truth, self.distractors_file, name=self.set, joined=joined)
        return class_split(self.vectors, self.truth, name=self.set)


def found(folder: str | os.PathLike[str]) -> list[Found]:
    """What can be loaded, in the order of the sets above, then of the features' names, distractors last.

    Example:
        >>> [(entry.set, entry.features) for entry in found(folder)]
        [('roxford5k', 'sscd'), ('caltech101', 'efflite2')]
    """
    return [entry for entry in _looked(Path(folder)) if isinstance(entry, Found)]


def missing(folder: str | os.PathLike[str]) -> list[str]:
    """Sentences about vectors that are in the folder and cannot be used: what they lack, and where it comes from."""
    return [entry for entry in _looked(Path(folder)) if isinstance(entry, str)]


def _looked(folder: Path) -> list[Found | str]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; give the one that holds the files of the sets")
    seen: list[Found | str] = []
    for name in (*LANDMARKS, *CLASSES):
        for path in sorted(folder.glob(f"{name}_*.npz")):
            look = _landmarks if name in LANDMARKS else _classes
            seen += look(folder, name, path) if path.is_file() else []
    return seen


def _landmarks(folder: Path, name: str, path: Path) -> list[Found | str]:
    word = path.stem.removeprefix(f"{name}_")
    file = f"gnd_{name}.pkl"
    truth = next((place / file for place in (folder / "revisited", folder) if (place / file).is_file()), None)
    if truth is None:
        return [f"{path} has no {file} beside it; {PUBLISHED[name].obtain}"]
    far = folder / f"distractors_{word}.npy"
    plain = Found(name, word, False, path, truth)
    return [plain, Found(name, word, True, path, truth, far)] if far.is_file() else [plain]


def _classes(folder: Path, name: str, path: Path) -> list[Found | str]:
    word = path.stem.removeprefix(f"{name}_")
    try:
        arrays = Arrays(path, NEEDS)
    except (ValueError, OSError) as error:
        return [str(error)]
    if "label" in arrays and "is_query" in arrays:
        return [Found(name, word, False, path)]
    for file in (f"{name}.txt", str(PUBLISHED[name].truth_file)):
        if (folder / file).is_file():
            return [Found(name, word, False, path, folder / file)]
    held = ", ".join(arrays.found) or "nothing"
    return [f"{path} holds {held}, and no list of queries and gallery is beside it; {PUBLISHED[name].obtain}"]
