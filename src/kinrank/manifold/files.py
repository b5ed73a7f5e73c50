"""A Snapshot -> a folder: arrays in a data folder of their own, changes since, a manifest that points to both.

    gallery.manifold/
      manifest.json          version, generation, method and parameters, shapes, checksums, the names of the others
      data-1f0c.../*.npy     the arrays
      change-90ab...         rows of them that a later change made others, see `journal`
      .lock                  locked by whoever writes

`save` writes new files beside the old ones, flushes them to the disk, and then replaces the manifest, which is one
atomic step: whoever reads, and whatever is killed when, sees the old state or the new one, whole. A Manifold saved to
the folder it came from adds a file of changes; now and then, and everywhere else, everything is written anew. Files
that no manifest points to are left from a killed process; the next `save` removes them. `reading` goes the other way.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.files.atomic import replacing
from kinrank.files.lock import LOCK, WAIT, alone_in, forget
from kinrank.files.paths import resolved
from kinrank.manifold.beside import last_logged, unapplied
from kinrank.manifold.difference import Arrays
from kinrank.manifold.journal import ChangedMeanwhile, Journal, few, packed, size_of
from kinrank.manifold.manifest import MANIFEST, manifest_of, position_in, read_manifest
from kinrank.manifold.reading import CHANGE, DATA, snapshot_of
from kinrank.manifold.snapshot import Snapshot


def save(snapshot: Snapshot, path: str | os.PathLike[str], journal: Journal, wait: float = WAIT) -> None:
    """Write the snapshot to the folder `path`, which is made if its parent is there; the journal then continues it."""
    folder = Path(path)
    _check_ours(folder)
    _check_loadable(snapshot, folder)
    home = resolved(folder)
    try:
        with _writing(home, journal.held, wait):
            old = _present(home)
            known = journal.seals.get(home)
            if old is not None and known is not None and old["sha256"] != known:
                raise ChangedMeanwhile(_changed_meanwhile(folder, old))
            if known is not None:
                _check_log(home, journal, old)
            ours = old is not None and known is not None
            due, position = journal.due(home) if ours else [], _position(home, journal, old, ours)
            if old is not None and due and _appendable(old, due, snapshot):
                new = _append(snapshot, home, old, due, position)
            elif old is not None and ours and journal.holds(home) and position != position_in(old):
                new = _append(snapshot, home, old, [], position)  # changes that undid each other: only the number
            else:
                new = _write(snapshot, home, 1 + (0 if old is None else int(old["generation"])), position)
            journal.at(home, new["sha256"], position)
            _tidy(home, new)
    except TimeoutError:
        raise
    except OSError as error:
        first = error.__cause__ if isinstance(error.__cause__, OSError) else error
        raise type(error)(
            error.errno,
            f"the manifold could not be written to {folder} ({first.strerror or first}); what was saved "
            "there before is untouched",
        ) from error


class UnloadableError(RuntimeError):
    """A snapshot that `load` would refuse, which only a bug in kinrank can make; nothing was written."""


def _check_loadable(snapshot: Snapshot, folder: Path) -> None:
    """Check in memory everything that `load` checks in files: a folder that cannot be read is never written."""
    try:
        snapshot_of(snapshot.method, snapshot.arrays, snapshot.facts, None, snapshot.built_over)
    except (ValueError, KeyError, IndexError) as error:
        raise UnloadableError(
            f"the manifold was not saved to {folder}, because it could not be loaded again ({error}); what was saved "
            "there before is untouched. This is a bug in kinrank: please report it with the data that caused it"
        ) from error


@contextlib.contextmanager
def _writing(folder: Path, held: Path | None, wait: float) -> Iterator[None]:
    """Alone in the folder; one that was made for a save that failed goes again."""
    if folder == held:
        yield
        return
    with alone_in(folder, wait) as made:
        try:
            yield
        except BaseException:
            if made:
                forget(folder)
            raise


def _present(folder: Path) -> dict[str, Any] | None:
    """The manifest of what is there; None for nothing, and for what is damaged, or of another version."""
    try:
        manifest = read_manifest(folder)
        position_in(manifest)
        return manifest
    except (OSError, ValueError):
        return None


def _check_log(folder: Path, journal: Journal, old: dict[str, Any] | None) -> None:
    """Refuse to save what came from this folder while its log holds changes that the snapshot does not contain."""
    if journal.position is not None and folder == journal.held:
        return
    if (why := unapplied(folder, 0 if old is None else position_in(old))) is not None:
        raise ChangedMeanwhile(why)


def _position(folder: Path, journal: Journal, old: dict[str, Any] | None, ours: bool) -> int:
    """How far the state that is saved goes in the log beside the folder.

    Whoever has applied the log sets it in the journal. A change to what is there leaves it as it was: `_check_log` has
    seen that the log holds nothing else. A gallery that replaces another one also replaces the changes in the log.
    """
    if journal.position is not None and folder == journal.held:
        return journal.position
    before = 0 if old is None else position_in(old)
    return before if ours else max(before, last_logged(folder))


def _changed_meanwhile(folder: Path, manifest: dict[str, Any]) -> str:
    return (
        f"{folder} was saved by somebody else after it was loaded or saved here (it is at generation "
        f"{manifest['generation']} now), and saving would undo their changes; load it again and repeat yours, at best "
        "in `with Manifold.changing(path)`, which lets others wait, or save to another path"
    )


def _appendable(manifest: dict[str, Any], due: list[Arrays], snapshot: Snapshot) -> bool:
    count = sum(entry["count"] for entry in manifest["changes"]) + len(due)
    size = sum(entry["bytes"] for entry in manifest["changes"]) + size_of(due)
    return few(count, size, snapshot.size)


def _append(snapshot: Snapshot, folder: Path, old: dict[str, Any], due: list[Arrays], position: int) -> dict[str, Any]:
    """Write what changed, if anything did, and the manifest that says so."""
    path, content = folder / f"change-{uuid.uuid4().hex}", packed(due)
    entry = {"file": path.name, "count": len(due), "bytes": len(content)}
    entry["sha256"] = hashlib.sha256(content).hexdigest()
    changes = [*old["changes"], *([entry] if due else [])]
    new = manifest_of(snapshot, old["generation"] + 1, old["data"], old["arrays"], changes, position)
    with _undone_after_errors(folder, path):
        if due:
            with path.open("wb") as file:
                file.write(content)
                _to_disk(file)
        _replace_manifest(folder, new)
    return new


def _write(snapshot: Snapshot, folder: Path, generation: int, position: int) -> dict[str, Any]:
    """Write everything, and the manifest that says so."""
    data = folder / f"data-{uuid.uuid4().hex}"
    manifest_of(snapshot, generation, data.name, {}, [])  # before anything is written: a method that cannot be saved
    with _undone_after_errors(folder, data):
        data.mkdir()
        entries = {name: write_array(data / f"{name}.npy", array) for name, array in snapshot.arrays.items()}
        _flush(data)
        new = manifest_of(snapshot, generation, data.name, entries, [], position)
        _replace_manifest(folder, new)
    return new


def write_array(path: Path, array: NDArray[Any]) -> dict[str, Any]:
    """Write one array, flushed to the disk; its entry in the manifest."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        digesting = _Digesting(file)
        np.lib.format.write_array_header_1_0(digesting, np.lib.format.header_data_from_array_1_0(array))
        if array.nbytes:  # not by numpy, whose error on a full disk says neither what happened nor where
            digesting.write(array.reshape(-1).view(np.uint8).data)
        _to_disk(file)
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": digesting.digest.hexdigest()}


class _Digesting:
    """A file, and the checksum of what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.digest, self._file = hashlib.sha256(), file

    def write(self, content: bytes | memoryview) -> int:
        self.digest.update(content)
        return self._file.write(content)


def check_saved(folder: Path) -> None:
    """An error if there is no manifold that can be changed, before anything is written there: not even a lock."""
    if not (folder / MANIFEST).is_file():
        read_manifest(folder)  # which says what is there instead
    check_target(folder)


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
        foreign = [entry.name for entry in folder.iterdir() if not _is_part(entry.name)]
        if foreign:
            raise ValueError(
                f"{folder} holds other files ({foreign[0]}); choose a folder that is new, empty or a manifold"
            )


def _is_part(name: str) -> bool:
    """Whether a file is a part of a saved manifold, of this state or of another, or left from a killed process."""
    ours = DATA.fullmatch(name) or CHANGE.fullmatch(name) or name.startswith(f".{MANIFEST}.")
    return bool(ours) or name in (MANIFEST, LOCK)


def _tidy(folder: Path, manifest: dict[str, Any]) -> None:
    """Remove what no manifest points to."""
    needed = {MANIFEST, LOCK, manifest["data"], *(entry["file"] for entry in manifest["changes"])}
    for other in folder.iterdir():
        if _is_part(other.name) and other.name not in needed:
            _remove(other)


@contextlib.contextmanager
def _undone_after_errors(folder: Path, written: Path) -> Iterator[None]:
    """Remove what was written if it fails, unless the manifest names it already: then it must stay."""
    try:
        yield
    except BaseException:
        if not _names(folder, written.name):
            _remove(written)
        raise


def _names(folder: Path, part: str) -> bool:
    with contextlib.suppress(OSError):
        return part.encode() in (folder / MANIFEST).read_bytes()
    return False


def _remove(part: Path) -> None:
    """A file or a folder, as far as it can be removed."""
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            part.unlink()


def _replace_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """The step from the old state to the new one; everything it names is on the disk by then."""
    _flush(folder)
    with replacing(folder / MANIFEST) as file:
        file.write(json.dumps(manifest, indent=1).encode())
    _flush(folder)


def _to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine, where the system can."""
    with contextlib.suppress(OSError, AttributeError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
