"""Which kind of object a file or folder holds, and how to open it: `kinrank.load`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from kinrank import vector_input
from kinrank.encoders import Embedded
from kinrank.encoders.embeddings import facts_path, names_path
from kinrank.errors import InputError
from kinrank.files.checksummed_npz import SEAL_KEYS, read_checked_npz
from kinrank.files.numpy_files import read_headers
from kinrank.files.path_checks import check_regular_file
from kinrank.files.text_columns import read_names
from kinrank.files.vector_files import READERS, TABLE_READERS, split_key
from kinrank.manifold import Manifold
from kinrank.methods import METHODS
from kinrank.methods.learned_method import LearnedMethod
from kinrank.ranking import Ranking
from kinrank.ranking.ranking_files import is_ranking_table
from kinrank.weight_files import FILE_WORDS, FORMAT_VERSION
from kinrank.whitening import FILE_ENTRIES, Whitening

KINDS = "a folder of Manifold.save, or a file of Ranking.save, Whitening.save, kinrank.fit, kinrank.embed or vectors"


def load(path: str | os.PathLike[str]) -> Any:
    """Open anything that kinrank saves.

    Returns:
        A Manifold (folder), a Ranking (.npz, .trec, .csv, .parquet), a Whitening (.npz), a learned method with its
        weights (.npz), an Embedded with the ids of its items (.npy that `embed` wrote, next to its other two files), or
        else the vectors of a file, see `kinrank.vector_input.load`; "FILE.npz:KEY" names one of several arrays.

    Any other file raises an InputError. Use `Manifold.load`, `Ranking.load` and so on for their options, and for files
    of unknown origin that should be of one kind.

    Example:
        >>> manifold = kinrank.load("gallery.manifold")
        >>> ranking = kinrank.load("run.trec")
    """
    place, key = split_key(path)
    if key is not None:
        return vector_input.load(place, key)
    if place.is_dir():
        return Manifold.load(place)
    suffix = check_regular_file(place).suffix.lower()
    if suffix == ".trec" or is_ranking_table(place):
        return Ranking.load(place)
    if suffix == ".npz":
        return _load_npz(place)
    if suffix == ".npy" and names_path(place).is_file() and facts_path(place).is_file():
        return _load_embedded(place)
    if suffix not in READERS and suffix not in TABLE_READERS:
        raise InputError(f"{place} has the unknown ending {place.suffix!r}", allowed=KINDS)
    return vector_input.load(place)


def _load_npz(path: Path) -> Any:
    try:
        entries = set(read_headers(path))
    except Exception as error:  # zip and header have their own errors
        raise InputError(f"{path} is truncated, damaged or not an .npz file ({error})", allowed=KINDS) from error
    if entries == set(FILE_ENTRIES):
        return Whitening.load(path)
    if entries.issuperset(SEAL_KEYS):
        return _load_learned_method(path)
    if entries.issuperset(("version", "indices", "distances", "meta")):
        return Ranking.load(path)
    return vector_input.load(path)


def _load_learned_method(path: Path) -> LearnedMethod:
    """Return the method whose weights the file holds."""
    about = read_checked_npz(path, FILE_WORDS, FORMAT_VERSION)[1]
    kind = METHODS.get(str(about.get("method")))
    if kind is None or not issubclass(kind, LearnedMethod):
        raise InputError(f"{path} holds weights of {about.get('method')!r:.40}, which is no learned method")
    method = kind(weights=str(path))
    method.network()
    return method


def _load_embedded(path: Path) -> Embedded:
    """Return the vectors and the other two files that `embed` wrote."""
    vectors, ids = vector_input.load(path), read_names(names_path(path))
    try:
        about = json.loads(facts_path(path).read_text("utf-8"))
        facts, skipped, left_out = (dict(about[name]) for name in ("made by", "skipped", "left out"))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{facts_path(path)} is damaged ({error})", remedy="embed the items again") from None
    if len(ids) != len(vectors):
        raise InputError(f"{names_path(path)} has {len(ids)} names for {len(vectors)} rows", remedy="embed them again")
    return Embedded(vectors, ids, skipped, left_out, facts, 0.0)
