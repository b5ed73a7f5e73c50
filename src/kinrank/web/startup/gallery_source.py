"""GallerySource: what to serve, and its kind: pictures, texts, vectors, a manifold, a published set, ..."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kinrank.datasets.published_sets import can_read_sets, import_set_display, is_set_name, list_sets
from kinrank.encoders import Options
from kinrank.encoders.item_sources import TEXT_ENDINGS, lists_pictures
from kinrank.errors import InputError, MissingFileError
from kinrank.files.vector_files import split_key
from kinrank.manifold.saved_folder import MANIFEST
from kinrank.methods import Method
from kinrank.pictures.archives import contains_files
from kinrank.pictures.images import PICTURE_ENDINGS as PICTURES

OptionalPath = str | os.PathLike[str] | None

SOURCE_HELP = (
    "a folder of pictures, a file of texts, a folder written by `kinrank build`, a file of vectors (or FILE.npz:KEY), "
    "or, with kinrank[bench], a folder with published sets (or FOLDER:SET); leave it out for generated toys"
)
STORE, TOYS, MANIFOLD, SETS, VECTORS = "a store", "toys", "a prepared gallery", "a published set", "a file of vectors"
UNENCODED = "pictures or texts"
UNENCODED_ENDINGS = (".zip", ".txt", ".json", ".jsonl")  # files without vectors
TABLE_ENDINGS = (".csv", ".tsv", ".parquet")  # files with vectors, or with texts if their column is given
USED_BY = {
    "column": (UNENCODED,),
    "content": (UNENCODED,),
    "keep": (UNENCODED,),
    "id_column": (VECTORS, UNENCODED),
    "set_name": (SETS,),
    "ids": (VECTORS, MANIFOLD, STORE),
    "method": (VECTORS, TOYS, SETS, STORE, UNENCODED),
}


class SourceParts(NamedTuple):
    """A source, split into its path, and the key of an array or the name of a set that may follow it."""

    path: Path | None
    key: str | None = None
    set_name: str | None = None


@dataclass(frozen=True)
class GallerySource:
    """The vectors, pictures or texts that a service searches.

    Attributes:
        source: None for generated toys; a folder or zip of pictures; a file of texts; a folder of a manifold; a file of
            vectors, or FILE:KEY; a folder with published sets, FOLDER:SET or FOLDER/SET.
        ids: file of names: of the rows of a file of vectors; for a manifold, the ids for which labels and texts were
            written, in their order.
        id_column: column of ids, in a file of vectors or of texts.
        set_name: which of several published sets.
        method: method that prepares a gallery that is not prepared yet; LPMT by default, for texts with
            `answers="one"`.
        store: URL of a vector database; `source` is then the folder of a manifold over it, which is built there if it
            does not exist, or in a scratch folder.
        encoder, options: encoder of pictures or texts, by its name; by default the usual one for pictures and texts,
            and for a manifold the one that made it.
        content, column: of files to encode, see `encoders.embed`.
        keep: folder in which the gallery of pictures or texts is kept for the next time.
    """

    source: OptionalPath = None
    ids: OptionalPath = None
    id_column: str | None = None
    set_name: str | None = None
    method: Method | None = None
    store: str | None = None
    encoder: str | None = None
    options: Options = field(default_factory=Options)
    content: str | None = None
    column: str | None = None
    keep: OptionalPath = None

    def split(self) -> SourceParts:
        """Split the source into its path, its key and the name of a set."""
        if self.source is None:
            return SourceParts(None, None, self.set_name)
        path = Path(self.source)
        if path.exists():
            return SourceParts(path, None, self.set_name)
        file, key = split_key(self.source)
        if key is not None:
            return SourceParts(file, key, self.set_name)
        folder, colon, name = str(self.source).rpartition(":")
        if colon and Path(folder).is_dir():
            return SourceParts(Path(folder), None, self.set_name or name)
        if path.parent.is_dir() and is_set_name(path.name):
            return SourceParts(path.parent, None, self.set_name or path.name)
        return SourceParts(path, None, self.set_name)

    def detect_kind(self) -> str:
        """Return the kind of the source, after checking that it uses all options; an error lists the kinds."""
        parts = self.split()
        kind = self._detect_kind(parts)
        values = {name: getattr(self, name) for name in USED_BY} | {"set_name": parts.set_name}
        for name, value in values.items():
            if value is not None and kind not in USED_BY[name]:
                raise InputError(
                    f"is for {' or '.join(USED_BY[name])}, but this is {kind}", parameter=name, remedy="leave it out"
                )
        return kind

    def _detect_kind(self, parts: SourceParts) -> str:
        path = parts.path
        if self.store is not None:
            return STORE
        if path is None:
            return TOYS
        if path.is_file():
            ending = path.suffix.lower()
            if ending == ".txt" and lists_pictures(path):
                raise InputError(f"{path} is a list of pictures; serve the folder with them, or use `kinrank embed`")
            has_texts = self.column is not None or self.content is not None
            return UNENCODED if ending in UNENCODED_ENDINGS or (has_texts and ending in TABLE_ENDINGS) else VECTORS
        if not path.is_dir():
            raise MissingFileError(f"{self.source} does not exist; give {SOURCE_HELP}")
        if (path / MANIFEST).is_file():
            return MANIFOLD
        if parts.set_name is not None and not can_read_sets():
            import_set_display()  # raises an error that tells what to install
        if list_sets(path):
            return SETS
        if any(contains_files(path, endings) for endings in (PICTURES, TEXT_ENDINGS)):
            return UNENCODED
        raise InputError(f"{path} cannot be served: it contains no pictures or texts; give {SOURCE_HELP}")
