"""A folder -> the Snapshot in it: its arrays and the changes since, checked before anything is done with them.

`files` says what stands in such a folder, and writes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Sized
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.files.paths import resolved
from kinrank.manifold.arrays import check_file, open_array
from kinrank.manifold.difference import Arrays, patched
from kinrank.manifold.journal import Journal, unpacked
from kinrank.manifold.manifest import MANIFEST, POSITION, method_in, position_in, read_manifest
from kinrank.manifold.names import NEXT, Names
from kinrank.manifold.remembered import LIMIT, REMEMBERED, Remembered
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.methods.served import Kept
from kinrank.space import Space
from kinrank.stores import Store
from kinrank.stores.engine import EngineStore
from kinrank.stores.scaled import in_space

DATA = re.compile(r"data-[0-9a-f]{32}")
CHANGE = re.compile(r"change-[0-9a-f]{32}")


class Held(NamedTuple):
    """What a folder holds: its manifest, and the arrays after all changes."""

    manifest: dict[str, Any]
    arrays: Arrays

    @property
    def position(self) -> int:
        """How far it goes in the log beside the folder."""
        return position_in(self.manifest)


def load(path: str | os.PathLike[str], mmap: bool, store: Store | None, journal: Journal | None = None) -> Snapshot:
    """The snapshot in the folder `path`, checked; a ValueError for anything that is not what `save` wrote.

    The journal, if there is one, then continues what was loaded.
    """
    folder = Path(path)
    held = read(folder, mmap)
    snapshot = opened(folder, held, store)
    if journal is not None:
        journal.at(resolved(folder), held.manifest["sha256"], held.position)
    return snapshot


def read(folder: Path, mmap: bool, known: Held | None = None) -> Held:
    """What the folder holds now, as it stands in its files. What is `known` of it already is not read again.

    While a folder is only appended to, that is everything but the last changes.
    """
    for attempt in range(5):
        manifest = read_manifest(folder)
        try:
            arrays, entries = _start(folder, manifest, mmap, known)
            changes = [found for entry in entries for found in read_change(folder, entry)]
            break
        except FileNotFoundError as error:  # saved anew while we read: follow the new manifest
            if attempt == 4 or read_manifest(folder)["sha256"] == manifest["sha256"]:
                raise ValueError(f"{folder} is incomplete: {error.filename} is missing; save it again") from None
    with _usable(folder):
        for found in changes:
            arrays = patched(arrays, found)
    return Held(manifest, arrays)


def _start(
    folder: Path, manifest: dict[str, Any], mmap: bool, known: Held | None
) -> tuple[Arrays, list[dict[str, Any]]]:
    """Arrays to begin with, the known ones if it goes on from there, and the files of changes they lack."""
    changes: list[dict[str, Any]] = manifest["changes"]
    if known is not None:
        before, count = known.manifest, len(known.manifest["changes"])
        same = all(manifest[key] == before[key] for key in ("data", "arrays"))
        if same and changes[:count] == before["changes"]:
            return known.arrays, changes[count:]
    return {name: read_array(folder, manifest, name, mmap) for name in manifest["arrays"]}, changes


def opened(folder: Path, held: Held, store: Store | None) -> Snapshot:
    """The snapshot that a folder holds, checked, and searched by a store if there is one."""
    manifest, arrays = held
    method, over = method_in(manifest, folder), manifest["store"]
    facts = {str(name): float(value) for name, value in manifest["facts"].items()}
    facts.pop(POSITION, None)
    with _usable(folder):
        position_in(manifest)
        built_over = None if over is None else str(over)
        try:
            snapshot = snapshot_of(method, arrays, facts, None, built_over)
        except stages.checks.BadArray:
            repaired = _repair(arrays)
            if repaired is None:
                raise
            snapshot = snapshot_of(method, repaired, facts, None, built_over)
    if isinstance(store, Sized) and not isinstance(store, EngineStore) and len(store) != len(snapshot):
        raise ValueError(
            f"store holds {len(store)} items but the manifold {len(snapshot)}; give the store it was built from"
        )
    return snapshot if store is None else snapshot.over(store)


def _repair(arrays: Arrays) -> Arrays | None:
    """Arrays of a folder that 0.1.0 wrote, without the defect it could have; None if they do not have this defect.

    A folder needs no rewriting: its files of changes hold whole rows, and the defect lies within a row.
    """
    with contextlib.suppress(IndexError, KeyError, ValueError):  # damaged in another way: the first error stands
        repaired = stages.saved.without_empty_entries(arrays)
        return None if repaired is arrays else repaired
    return None


@contextlib.contextmanager
def _usable(folder: Path) -> Iterator[None]:
    """What does not fit together is a ValueError about the folder."""
    try:
        yield
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(f"{folder} is not a manifold that this version can use: {error}") from error


def snapshot_of(
    method: Method, arrays: Arrays, facts: dict[str, float], store: Store | None, built_over: str | None
) -> Snapshot:
    """A snapshot of arrays and numbers that came from outside; a ValueError or KeyError where they do not fit."""
    method.check_served()
    arrays, facts = dict(arrays), dict(facts)
    vectors, following = arrays.pop("vectors", None), facts.pop(NEXT, None)
    mask, limit = arrays.pop(REMEMBERED, None), facts.pop(LIMIT, None)
    if vectors is None or vectors.ndim != 2 or vectors.dtype != np.float32:
        raise ValueError("it holds no vectors")
    remembered = Remembered.restored(len(vectors), mask, limit)
    if remembered.count:
        method.check_observed()
    names = Names.restored(len(remembered.items), arrays, following)
    space = Space.restored(facts, vectors.shape[1])
    return Snapshot.of(
        method, vectors, names, Kept(arrays, facts), in_space(store, space),
        checked=False, built_over=built_over, remembered=remembered, space=space,
    )  # fmt: skip


def read_change(folder: Path, entry: dict[str, Any]) -> list[Arrays]:
    """The differences in a file of changes, oldest first."""
    if not CHANGE.fullmatch(str(entry["file"])):
        raise ValueError(f"{folder / MANIFEST} points to files that kinrank would not have written")
    path = folder / entry["file"]
    right = path.stat().st_size == entry["bytes"]  # not so for a pipe, whose reading would never end
    content = path.read_bytes() if right else b""
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise ValueError(f"{path} is truncated or was altered: its checksum differs; save the manifold again")
    return unpacked(content)


def read_array(folder: Path, manifest: dict[str, Any], name: str, mmap: bool) -> NDArray[Any]:
    if not DATA.fullmatch(str(manifest["data"])) or not re.fullmatch(r"[a-z_0-9]+", name):
        raise ValueError(f"{folder / MANIFEST} points to files that kinrank would not have written")
    path, entry = folder / manifest["data"] / f"{name}.npy", manifest["arrays"][name]
    check_file(path)
    if checksum(path) != entry["sha256"]:
        raise ValueError(f"{path} is truncated or was altered: its checksum differs; save the manifold again")
    return open_array(path, entry, mmap)


def checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
