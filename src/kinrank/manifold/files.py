"""A Snapshot <-> a folder: arrays in a data folder of their own, and a manifest that points to it.

    gallery.manifold/
      manifest.json          version, method and parameters, shapes, checksums, the name of the data folder
      data-1f0c.../*.npy     the arrays

`save` writes a new data folder beside the old one, flushes it to the disk, and then replaces the manifest, which is one
atomic step: whoever reads, and whatever is killed when, sees the old state or the new one, whole. Data folders that no
manifest points to are left from a killed process; the next `save` removes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sized
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.files.atomic import replacing
from kinrank.manifold.manifest import MANIFEST, manifest_of, method_in, read_manifest, sealed
from kinrank.manifold.names import NEXT, Names
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods.served import Kept
from kinrank.stores import Store

DATA = re.compile(r"data-[0-9a-f]{32}")


def save(snapshot: Snapshot, path: str | os.PathLike[str]) -> None:
    """Write the snapshot to the folder `path`, which is made if its parent is there."""
    folder = Path(path)
    _check_ours(folder)
    try:
        folder.mkdir(exist_ok=True)
        with _alone_in(folder):
            _write(snapshot, folder)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"the manifold could not be written to {folder} ({error.strerror or error}); what was saved "
            "there before is untouched",
        ) from error


def _write(snapshot: Snapshot, folder: Path) -> None:
    data = folder / f"data-{uuid.uuid4().hex}"
    try:
        data.mkdir()
        arrays = {"vectors": snapshot.vectors, **snapshot.kept.arrays, **snapshot.names.arrays}
        entries = {name: write_array(data / f"{name}.npy", array) for name, array in arrays.items()}
        _flush(data)
        _flush(folder)
        content = json.dumps(sealed(manifest_of(snapshot, data.name, entries)), indent=1).encode()
        with replacing(folder / MANIFEST) as file:
            file.write(content)
        _flush(folder)
    except BaseException:
        if not _points_to(folder, data.name):
            shutil.rmtree(data, ignore_errors=True)
        raise
    for other in folder.iterdir():
        if DATA.fullmatch(other.name) and other.name != data.name:
            shutil.rmtree(other, ignore_errors=True)
        elif other.name.startswith(f".{MANIFEST}."):
            other.unlink(missing_ok=True)


def load(path: str | os.PathLike[str], mmap: bool, store: Store | None) -> Snapshot:
    """The snapshot in the folder `path`, checked; a ValueError for anything that is not what `save` wrote."""
    folder = Path(path)
    for attempt in range(3):
        manifest = read_manifest(folder)
        try:
            arrays = {name: read_array(folder, manifest, name, mmap) for name in manifest["arrays"]}
            break
        except FileNotFoundError as error:  # saved anew while we read: follow the new manifest
            if attempt == 2 or read_manifest(folder)["data"] == manifest["data"]:
                raise ValueError(f"{folder} is incomplete: {error.filename} is missing; save it again") from None
    method = method_in(manifest, folder)
    method.check_served()
    vectors = arrays.pop("vectors", None)
    facts = {str(name): float(value) for name, value in manifest["facts"].items()}
    following = facts.pop(NEXT, None)
    try:
        if vectors is None or vectors.ndim != 2 or vectors.dtype != np.float32:
            raise ValueError("it holds no vectors")
        names = Names.restored(len(vectors), arrays, following)
        snapshot = Snapshot.of(method, vectors, names, Kept(arrays, facts), store, checked=False)
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(f"{folder} is not a manifold that this version can use: {error}") from error
    if store is not None and isinstance(store, Sized) and len(store) != len(vectors):
        raise ValueError(
            f"store holds {len(store)} items but the manifold {len(vectors)}; give the store it was built from"
        )
    return snapshot


def write_array(path: Path, array: NDArray[Any]) -> dict[str, Any]:
    """Write one array, flushed to the disk; its entry in the manifest."""
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": checksum(path)}


def read_array(folder: Path, manifest: dict[str, Any], name: str, mmap: bool) -> NDArray[Any]:
    if not DATA.fullmatch(str(manifest["data"])) or not re.fullmatch(r"[a-z_0-9]+", name):
        raise ValueError(f"{folder / MANIFEST} points to files that kinrank would not have written")
    path, entry = folder / manifest["data"] / f"{name}.npy", manifest["arrays"][name]
    if checksum(path) != entry["sha256"]:
        raise ValueError(f"{path} is truncated or was altered: its checksum differs; save the manifold again")
    empty = 0 in entry["shape"]  # nothing to map
    try:
        # copy on write: the loops are compiled for writable arrays, and nothing ever reaches the file
        array = np.load(path, mmap_mode="c" if mmap and not empty else None, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not an array: {error}") from error
    if array.dtype.str != entry["dtype"] or list(array.shape) != entry["shape"]:
        raise ValueError(f"{path} does not hold what {MANIFEST} says: {array.dtype} {array.shape}")
    return np.asarray(array)


def checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def check_target(path: str | os.PathLike[str]) -> None:
    """An error now, not after an hour of building, if `save` could not write to this path."""
    folder = Path(path)
    _check_ours(folder)
    place = folder if folder.is_dir() else folder.parent
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise OSError(f"the folder {place} cannot be written to ({error.strerror}); choose another path") from None


def _check_ours(folder: Path) -> None:
    """Refuse to write into something that is not ours; a damaged manifold may be replaced."""
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"the folder {folder.parent} is not there; make it, or choose another path")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; a manifold is saved as a folder: choose another path")
    if folder.is_dir() and not (folder / MANIFEST).exists():
        foreign = [
            entry.name
            for entry in folder.iterdir()
            if not DATA.fullmatch(entry.name) and not entry.name.startswith(f".{MANIFEST}.")
        ]
        if foreign:
            raise ValueError(
                f"{folder} holds other files ({foreign[0]}); choose a folder that is new, empty or a manifold"
            )


def _points_to(folder: Path, data: str) -> bool:
    """Whether the manifest already names this data folder: then it must stay, whatever happened since."""
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads((folder / MANIFEST).read_bytes())["data"] == data)
    return False


def _flush(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine, where the system can."""
    with contextlib.suppress(OSError, AttributeError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One writer at a time, where the system can lock folders; a killed process releases its lock."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
