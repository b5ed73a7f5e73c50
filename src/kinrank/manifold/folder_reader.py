"""Reading of a saved folder, which is checked completely before it is used. Nothing is unpickled.

`saved_folder` describes the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.errors import InputError
from kinrank.files.atomic import resolve_path
from kinrank.files.checksummed_npz import file_checksum
from kinrank.manifold.deltas import Arrays, PendingChanges, apply_diff, unpack_diffs
from kinrank.manifold.saved_folder import (
    CHANGE_FILE_PATTERN,
    DATA_FOLDER_PATTERN,
    LOG_POSITION_KEY,
    MANIFEST,
    log_position,
    read_manifest,
    refuse_special_file,
)
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method, find_method
from kinrank.stores import Store
from kinrank.stores.engine import EngineStore

ALIGNMENT_BYTES = 64  # numpy starts the numbers of a file at a multiple of this


class FolderContents(NamedTuple):
    """Content of a folder: its manifest, and the arrays after all changes."""

    manifest: dict[str, Any]
    arrays: Arrays

    @property
    def position(self) -> int:
        """Version of the last logged change that is included."""
        return log_position(self.manifest)


def load_snapshot(
    path: str | os.PathLike[str], mmap: bool, store: Store | None, journal: PendingChanges | None = None
) -> Snapshot:
    """Load and check the snapshot in the folder `path`. Raises an InputError for anything that `save` did not write.

    The journal, if given, then continues the loaded state.
    """
    folder = Path(path)
    contents = read_folder(folder, mmap)
    snapshot = open_snapshot(folder, contents, store)
    if journal is not None:
        journal.at(resolve_path(folder), contents.manifest["sha256"], contents.position)
    return snapshot


def read_folder(folder: Path, mmap: bool, known: FolderContents | None = None) -> FolderContents:
    """Read the current content of the folder. Content that is `known` is not read again.

    While a folder is only appended to, this reads only the latest changes.
    """
    for attempt in range(5):
        manifest = read_manifest(folder)
        try:
            arrays, entries = _read_base_arrays(folder, manifest, mmap, known)
            changes = [diff for entry in entries for diff in read_change_file(folder, entry)]
            break
        except FileNotFoundError as error:  # saved again while we read: follow the new manifest
            if attempt == 4 or read_manifest(folder)["sha256"] == manifest["sha256"]:
                raise InputError(
                    f"{folder} is incomplete: {error.filename} is missing", remedy="save it again"
                ) from None
    with _explain_misfits(folder):
        for diff in changes:
            arrays = apply_diff(arrays, diff)
    return FolderContents(manifest, arrays)


def _read_base_arrays(
    folder: Path, manifest: dict[str, Any], mmap: bool, known: FolderContents | None
) -> tuple[Arrays, list[dict[str, Any]]]:
    """Return the arrays to start from (the known ones if the folder continues them) and the change files they lack."""
    changes: list[dict[str, Any]] = manifest["changes"]
    if known is not None:
        before, count = known.manifest, len(known.manifest["changes"])
        same = all(manifest[key] == before[key] for key in ("data", "arrays"))
        if same and changes[:count] == before["changes"]:
            return known.arrays, changes[count:]
    return {name: read_saved_array(folder, manifest, name, mmap) for name in manifest["arrays"]}, changes


def open_snapshot(folder: Path, contents: FolderContents, store: Store | None) -> Snapshot:
    """Create and check the snapshot of a folder, searched by a store if given."""
    manifest, arrays = contents
    method, over = restore_method(manifest, folder), manifest["store"]
    facts = {str(name): float(value) for name, value in manifest["facts"].items()}
    facts.pop(LOG_POSITION_KEY, None)
    with _explain_misfits(folder):
        log_position(manifest)
        built_over = None if over is None else str(over)
        try:
            snapshot = Snapshot.from_arrays(method, arrays, facts, None, built_over)
        except stages.array_storage.BadArrayError:
            repaired = _repair_arrays(arrays)
            if repaired is None:
                raise
            snapshot = Snapshot.from_arrays(method, repaired, facts, None, built_over)
    if store is not None and not isinstance(store, EngineStore) and len(store) != len(snapshot):
        raise InputError(
            f"has {len(store)} items, but the manifold has {len(snapshot)}",
            parameter="store",
            remedy="give the store it was built from",
        )
    return snapshot if store is None else snapshot.over(store)


def _repair_arrays(arrays: Arrays) -> Arrays | None:
    """Remove a defect that 0.1.0 could write from the arrays of a folder; None if they do not have this defect.

    The folder need not be rewritten: its change files contain whole rows, and the defect is within a row.
    """
    with contextlib.suppress(IndexError, KeyError, ValueError):  # damaged in another way: the first error is raised
        repaired = stages.array_storage.drop_empty_entries(arrays)
        return None if repaired is arrays else repaired
    return None


@contextlib.contextmanager
def _explain_misfits(folder: Path) -> Iterator[None]:
    """Convert errors about arrays that do not fit together to an InputError about the folder."""
    try:
        yield
    except (ValueError, KeyError, IndexError) as error:
        raise InputError(f"{folder} is not a manifold that this version can use: {error}") from error


def restore_method(manifest: dict[str, Any], folder: Path) -> Method:
    """Rebuild the method from its declared parameters. Nothing in the manifest is evaluated."""
    name, given = manifest["method"], manifest["parameters"]
    try:
        kind = find_method(str(name))
    except InputError:
        raise InputError(f"{folder} was built by the method {name!r}, which this version does not have") from None
    known = {declared.name for declared in kind.parameters()}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(f"{folder} has parameters that {kind.__name__} does not know: {', '.join(unknown)}")
    return kind(**given)


def read_change_file(folder: Path, entry: dict[str, Any]) -> list[Arrays]:
    """Return the differences of a change file, oldest first."""
    if not CHANGE_FILE_PATTERN.fullmatch(str(entry["file"])):
        raise InputError(f"{folder / MANIFEST} lists files that kinrank did not write")
    path = folder / entry["file"]
    same_size = path.stat().st_size == entry["bytes"]  # False for a pipe, which would never end
    content = path.read_bytes() if same_size else b""
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise InputError(f"{path} is truncated or was altered: its checksum differs", remedy="save the manifold again")
    return unpack_diffs(content)


def read_saved_array(folder: Path, manifest: dict[str, Any], name: str, mmap: bool) -> NDArray[Any]:
    """Read and check an array file of the manifest."""
    if not DATA_FOLDER_PATTERN.fullmatch(str(manifest["data"])) or not re.fullmatch(r"[a-z_0-9]+", name):
        raise InputError(f"{folder / MANIFEST} lists files that kinrank did not write")
    path, entry = folder / manifest["data"] / f"{name}.npy", manifest["arrays"][name]
    refuse_special_file(path)
    if file_checksum(path) != entry["sha256"]:
        raise InputError(f"{path} is truncated or was altered: its checksum differs", remedy="save the manifold again")
    return open_array(path, entry, mmap)


def open_array(path: Path, entry: dict[str, Any], mmap: bool) -> NDArray[Any]:
    """Open an array file that `save` wrote, with the dtype and shape of its manifest entry.

    Raises an InputError for any other file. The file size is compared first, because a header of a few bytes can claim
    more numbers than fit into memory.
    """
    try:
        shape, kind = _read_header(path)
        # copy on write: the kernels are compiled for writable arrays, and nothing is ever written to the file
        array = np.load(path, mmap_mode="c" if mmap and 0 not in shape else None, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy parses a header as a Python expression, which can fail in many ways
        raise InputError(f"{path} is not an array: {error}") from error
    if kind.str != entry["dtype"] or list(shape) != entry["shape"]:
        raise InputError(f"{path} contains {kind} {shape}, which differs from the manifest")
    return np.asarray(array)


def _read_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype in the header. Refuse the file unless exactly that many bytes follow in C order."""
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise InputError("its .npy version differs from the one that kinrank writes")
        shape, columns_first, kind = np.lib.format.read_array_header_1_0(file)
        start = file.tell()
        file.seek(0, 2)
        present = file.tell() - start
    if kind.hasobject or columns_first or start % ALIGNMENT_BYTES or any(size < 0 for size in shape):
        raise InputError("its layout differs from the one that kinrank writes")
    claimed = math.prod(shape) * kind.itemsize
    if claimed != present:
        raise InputError(f"its header claims {claimed} bytes of numbers, but it contains {present}")
    return shape, kind
