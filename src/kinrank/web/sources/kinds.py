"""What was named on the command line -> which kind of thing it is, or a sentence that says what it could be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kinrank.datasets.benchmark import BENCHMARKS, present
from kinrank.encoders.opening import TEXT_ENDINGS, names_pictures
from kinrank.files.columns import keyed
from kinrank.manifold.manifest import MANIFEST
from kinrank.pictures.archives import has_any
from kinrank.pictures.images import ENDINGS as PICTURES

File = str | os.PathLike[str] | None
POSSIBLE = (
    "a folder of pictures, a file of texts, a folder that `kinrank build` wrote, a file of vectors (or FILE.npz:KEY), "
    "or a folder with published sets (or FOLDER:SET); leave it out for toys drawn on the spot"
)
STORE, TOYS, MANIFOLD, SETS, VECTORS = "a store", "toys", "a prepared gallery", "a published set", "a file of vectors"
UNENCODED = "pictures or texts"
ENCODED = (".zip", ".txt", ".json", ".jsonl")  # files that hold no vectors
TABLES = (".csv", ".tsv", ".parquet")  # files that hold vectors, or texts if a column of these is named
USED_BY = {
    "column": (UNENCODED,),
    "content": (UNENCODED,),
    "keep": (UNENCODED,),
    "gallery_key": (VECTORS,),
    "id_column": (VECTORS, UNENCODED),
    "set_name": (SETS,),
    "ids": (VECTORS, MANIFOLD, STORE),
    "method": (VECTORS, TOYS, SETS, STORE, UNENCODED),
}


def parted(source: File) -> tuple[Path | None, str | None, str | None]:
    """A path, with the key or the name of a set that may stand behind it."""
    if source is None:
        return None, None, None
    path = Path(source)
    if path.exists():
        return path, None, None
    file, key = keyed(str(source))
    if key is not None:
        return file, key, None
    folder, colon, name = str(source).rpartition(":")
    if colon and Path(folder).is_dir():
        return Path(folder), None, name
    if path.name in BENCHMARKS and path.parent.is_dir():
        return path.parent, None, path.name
    return path, None, None


def kind_of(path: Path | None, source: File, store: str | None, texts: bool = False) -> str:
    """What a path is, or a sentence that says what it could be; `texts`: a table is said to hold texts."""
    if store is not None:
        return STORE
    if path is None:
        return TOYS
    if path.is_file():
        ending = path.suffix.lower()
        if ending == ".txt" and names_pictures(path):
            raise ValueError(f"{path} is a list of pictures; serve the folder that they are in, or `kinrank embed` it")
        return UNENCODED if ending in ENCODED or (texts and ending in TABLES) else VECTORS
    if not path.is_dir():
        raise FileNotFoundError(f"{source} is not there; give {POSSIBLE}")
    if (path / MANIFEST).is_file():
        return MANIFOLD
    if present(path):
        return SETS
    if any(has_any(path, endings) for endings in (PICTURES, TEXT_ENDINGS)):
        return UNENCODED
    raise ValueError(f"{path} is a folder that cannot be served: it holds no pictures or texts; give {POSSIBLE}")


def refuse_needless(kind: str, given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None and kind not in USED_BY[name]:
            raise ValueError(f"{name}= is for {' or '.join(USED_BY[name])}, and this is {kind}; leave it out")
