"""Discovery of published sets in a folder of features, by the names of the files.

| file | contents |
|---|---|
| `<set>_<features>.npz` | `q` and `d` of roxford5k, rparis6k; `x`, `label`, `is_query` of cub200, indoor, caltech101 |
| `<set>_<features>.q.npy`, `.d.npy` | the same vectors of roxford5k, rparis6k, as `kinrank embed` writes them |
| `<set>_<features>.npy` | those of cub200, indoor, caltech101, as `kinrank embed` writes them |
| `gnd_<set>.pkl` | ground truth of roxford5k, rparis6k, as published; in the folder or in its subfolder `revisited/` |
| `<set>.txt` | list of cub200, indoor, caltech101, for vectors with only `x`; its published name is found, too |
| `distractors_<features>.npy` | vectors that follow the galleries of roxford5k and rparis6k |

`<features>` is any word that names the model, such as rgem.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kinrank.encoders.embeddings import names_path
from kinrank.errors import InputError, MissingFileError
from kinrank_bench.datasets.base import Arrays, Benchmark, query_path
from kinrank_bench.datasets.readers import SPLIT_ARRAYS, load_class_split, load_revisited
from kinrank_bench.datasets.set_facts import PUBLISHED

LANDMARK_SETS = ("roxford5k", "rparis6k")  # with the revisited protocol
CLASS_SETS = ("cub200", "indoor", "caltech101")


@dataclass(frozen=True)
class FeatureSet:
    """A set with the features that a folder has for it.

    Attributes:
        set: roxford5k, rparis6k, cub200, indoor or caltech101.
        features: the word in the file's name.
        distractors: True if distractors follow the gallery.
        vectors: file of the vectors.
        truth: ground truth file, or list; None if the file of the vectors has the truth.
        distractors_file: file of the distractors, if any.
    """

    set: str
    features: str
    distractors: bool
    vectors: Path
    truth: Path | None = None
    distractors_file: Path | None = None

    @property
    def name(self) -> str:
        """Name such as roxford5k_rgem, or roxford5k_rgem+distractors."""
        return f"{self.set}_{self.features}{'+distractors' if self.distractors else ''}"

    def load(self, joined: str | os.PathLike[str] | None = None) -> Benchmark:
        """Load the set; `joined` is the folder for a gallery with distractors, by default that of the features."""
        if self.set in LANDMARK_SETS and self.truth is not None:
            return load_revisited(self.vectors, self.truth, self.distractors_file, name=self.set, joined=joined)
        return load_class_split(self.vectors, self.truth, name=self.set)


def find_feature_sets(folder: str | os.PathLike[str]) -> list[FeatureSet]:
    """List what can be loaded, in the order of the sets above, then of the features, distractors last.

    Example:
        >>> [(entry.set, entry.features) for entry in find_feature_sets(folder)]
        [('roxford5k', 'sscd'), ('caltech101', 'efflite2')]
    """
    return [entry for entry in _scan_folder(Path(folder)) if isinstance(entry, FeatureSet)]


def describe_missing(folder: str | os.PathLike[str]) -> list[str]:
    """Return sentences about vectors in the folder that cannot be used: what is missing and where to get it."""
    return [entry for entry in _scan_folder(Path(folder)) if isinstance(entry, str)]


def _scan_folder(folder: Path) -> list[FeatureSet | str]:
    if not folder.is_dir():
        raise MissingFileError(f"{folder} is not a folder; give the folder with the files of the sets")
    entries: list[FeatureSet | str] = []
    for name in (*LANDMARK_SETS, *CLASS_SETS):
        ending = ".d.npy" if name in LANDMARK_SETS else ".npy"
        found: dict[str, Path] = {}  # features -> file
        for path in sorted(folder.glob(f"{name}_*.npz")):
            found |= {path.stem.removeprefix(f"{name}_"): path} if path.is_file() else {}
        for path in sorted(folder.glob(f"{name}_*{ending}")):
            features = path.name.removeprefix(f"{name}_").removesuffix(ending)
            if not path.is_file() or not names_path(path).is_file():
                continue
            if features in found:
                entries.append(f"{path} is not used, because {found[features].name} has features of this name")
            else:
                found[features] = path
        find = _find_landmarks if name in LANDMARK_SETS else _find_class_sets
        for features, path in sorted(found.items()):
            entries += find(folder, name, features, path)
    return entries


def _find_landmarks(folder: Path, name: str, features: str, path: Path) -> list[FeatureSet | str]:
    file = f"gnd_{name}.pkl"
    truth = next((place / file for place in (folder / "revisited", folder) if (place / file).is_file()), None)
    if truth is None:
        return [f"{path} has no {file} next to it; {PUBLISHED[name].obtain}"]
    queries = query_path(path)
    if queries is not None and not (queries.is_file() and names_path(queries).is_file()):
        return [f"{path} has no {queries.name} next to it; write it with: kinrank embed --boxes {file}"]
    distractors = folder / f"distractors_{features}.npy"
    plain = FeatureSet(name, features, False, path, truth)
    return [plain, FeatureSet(name, features, True, path, truth, distractors)] if distractors.is_file() else [plain]


def _find_class_sets(folder: Path, name: str, features: str, path: Path) -> list[FeatureSet | str]:
    try:
        arrays = Arrays(path, SPLIT_ARRAYS)
    except (InputError, OSError) as error:
        return [str(error)]
    if "label" in arrays and "is_query" in arrays:
        return [FeatureSet(name, features, False, path)]
    for file in (f"{name}.txt", str(PUBLISHED[name].truth_file)):
        if (folder / file).is_file():
            return [FeatureSet(name, features, False, path, folder / file)]
    names = ", ".join(arrays.found) or "nothing"
    return [f"{path} has {names}, and no list of queries and gallery is next to it; {PUBLISHED[name].obtain}"]
