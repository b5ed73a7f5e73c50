"""The folder of a saved manifold: arrays in a data folder, change files, and a manifest that lists both.

    gallery.manifold/
      manifest.json          version, generation, method and parameters, shapes, checksums, names of the other files
      data-1f0c.../*.npy     the arrays
      change-90ab...         rows of the arrays that later changes replaced, see `deltas`
      .lock                  locked by the process that writes

`save_snapshot` writes new files next to the old ones, flushes them to the disk and then replaces the manifest. This
last step is atomic: every reader sees the complete old or new state, even if a process is killed. A Manifold saved to
its own folder adds a change file; occasionally, and in every other folder, all arrays are written. Files that no
manifest lists were left by a killed process; the next save removes them.
Next to the folder, gallery.manifold.log contains the changes that a service acknowledged, see `service_log`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import reprlib
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import ConcurrentSaveError, InputError, MissingFileError, UnloadableError
from kinrank.files.atomic import (
    LOCK_NAME,
    LOCK_WAIT_SECONDS,
    atomic_write,
    flush_folder,
    folder_lock,
    remove_unused_folder,
    resolve_path,
)
from kinrank.manifold.deltas import Arrays, PendingChanges, count_bytes, is_worth_appending, pack_diffs
from kinrank.manifold.service_log import scan_log
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import METHODS

MANIFEST = "manifest.json"
FORMAT = "kinrank manifold"
VERSION_WITHOUT_QUERIES, VERSION = 3, 4  # without observed queries, as kinrank 0.1.0 reads it, and with them
LOG_POSITION_KEY = "logged"  # among the facts: version of the last logged change that was saved, see `service_log`
MANIFEST_KEYS = {
    *("format", "version", "kinrank", "generation", "method", "parameters", "store", "facts"),
    *("data", "arrays", "changes", "sha256"),
}
DATA_FOLDER_PATTERN = re.compile(r"data-[0-9a-f]{32}")
CHANGE_FILE_PATTERN = re.compile(r"change-[0-9a-f]{32}")


class DamagedManifestError(InputError):
    """The manifest of a saved manifold is no longer JSON, or it was altered."""


def make_manifest(
    snapshot: Snapshot,
    generation: int,
    data: str,
    arrays: dict[str, Any],
    changes: list[dict[str, Any]],
    position: int = 0,
) -> dict[str, Any]:
    """Return the manifest with its checksum. Raises an InputError for a method that `load` would not find.

    Args:
        snapshot: state after all changes.
        generation: number of times this folder was saved to.
        data: name of the data folder.
        arrays: entries of the arrays in the data folder, before the changes.
        changes: entries of the change files since then, oldest first.
        position: version of the last logged change that is included; 0 (and left out) if nothing was ever logged.
    """
    method = snapshot.method
    if METHODS.get(method.name) is not type(method):
        raise InputError(
            f"a manifold of {type(method).__name__} can be searched but not saved, because saved manifolds are loaded "
            "by the name of their method in kinrank.METHODS",
            remedy="use one of those methods",
        )
    manifest = {
        "format": FORMAT,
        "version": VERSION if snapshot.remembered.count else VERSION_WITHOUT_QUERIES,
        "kinrank": get_installed_version(),
        "generation": generation,
        "method": method.name,
        "parameters": asdict(method),
        "store": snapshot.built_over,
        "facts": snapshot.facts | ({LOG_POSITION_KEY: float(position)} if position else {}),
        "data": data,
        "arrays": arrays,
        "changes": changes,
    }
    return seal_manifest(manifest)


def seal_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Add the checksum of the content to a manifest."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return {**content, "sha256": hashlib.sha256(canonical).hexdigest()}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a folder. Errors say what is wrong with it."""
    path = folder / MANIFEST
    if not folder.exists():
        raise MissingFileError(f"{folder} does not exist; give the folder that Manifold.save wrote")
    refuse_special_file(path)
    try:
        manifest = json.loads(path.read_bytes())
        # may raise RecursionError if the JSON is nested too deeply
        unaltered = isinstance(manifest, dict) and seal_manifest(manifest) == manifest
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder} is not a saved manifold: it has no {MANIFEST}", remedy="its first save may have been interrupted"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DamagedManifestError(f"{path} is truncated or is not JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path} is not the manifest of a kinrank manifold")
    version = manifest.get("version")
    if isinstance(version, int) and version > VERSION:
        raise InputError(
            f"{folder} was written by kinrank {manifest.get('kinrank')} in format {version}, newer than format "
            f"{VERSION} of this version ({get_installed_version()})",
            remedy="upgrade kinrank, or build the manifold again",
        )
    if isinstance(version, int) and version < VERSION_WITHOUT_QUERIES:
        raise InputError(
            f"{folder} was written by an earlier kinrank in format {version}, which this version cannot read",
            remedy="build the manifold again",
        )
    if set(manifest) != MANIFEST_KEYS or not unaltered or not _has_valid_types(manifest):
        problem = "its checksum differs" if not unaltered else "its fields are not those that kinrank writes"
        raise DamagedManifestError(f"{path} was altered: {problem}", remedy="save the manifold again")
    given, facts = manifest["parameters"], manifest["facts"]
    for name, value in {**given, **facts}.items():
        is_number = isinstance(value, (int, float))
        if (is_number or name in facts) and not (is_number and abs(value) <= sys.float_info.max):
            raise DamagedManifestError(f"{path}: {name} must be a finite number, but it is {reprlib.repr(value)}")
    return manifest


def _has_valid_types(manifest: dict[str, Any]) -> bool:
    """True if the fields have the types that `make_manifest` writes."""
    kinds = {"version": int, "generation": int, "method": str, "data": str}
    kinds |= {"parameters": dict, "facts": dict, "arrays": dict, "changes": list}
    if not all(isinstance(manifest[name], kind) for name, kind in kinds.items()):
        return False
    array_kinds = {"dtype": str, "shape": list, "sha256": str}
    change_kinds = {"file": str, "count": int, "bytes": int, "sha256": str}
    return (
        isinstance(manifest["store"], str | None)
        and all(array_kinds.items() <= _find_types(entry).items() for entry in manifest["arrays"].values())
        and all(_find_types(entry) == change_kinds for entry in manifest["changes"])
    )


def _find_types(entry: Any) -> dict[str, type]:
    return {key: type(value) for key, value in entry.items()} if isinstance(entry, dict) else {}


def log_position(manifest: dict[str, Any]) -> int:
    """Return the version of the last logged change that a saved manifold includes; 0 if nothing was ever logged."""
    position = manifest["facts"].get(LOG_POSITION_KEY, 0)
    if not (0 <= position < 2**53 and position == int(position)):
        raise InputError(f"{LOG_POSITION_KEY}={position} is not a number of changes")
    return int(position)


def get_installed_version() -> str:
    """Return the version of the installed package."""
    from importlib import metadata  # slow to import, and needed only for writing

    try:
        return metadata.version("kinrank")
    except metadata.PackageNotFoundError:
        return "unknown"


def refuse_special_file(path: Path) -> None:
    """Refuse a pipe, device or folder in place of a file, because reading it may never end."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a file", remedy="save the manifold again")


def log_path(folder: Path) -> Path:
    """Return the path of the log of a folder: next to the folder, after resolving links."""
    home = resolve_path(folder)
    return home.with_name(f"{home.name}.log")


def has_log(folder: Path) -> bool:
    """True if anything other than an empty file has the path of the folder's log."""
    path = log_path(folder)
    return path.exists() and not (path.is_file() and path.stat().st_size == 0)


def last_logged_version(folder: Path) -> int:
    """Return the version of the last change in the log; 0 without a readable log. Reads a few bytes per block."""
    scan = scan_log(log_path(folder))
    return 0 if scan is None else scan.last


def describe_missing_changes(folder: Path, position: int, alone: bool = False) -> str | None:
    """Describe the logged changes that a folder saved at `position` lacks. Return None if it lacks none.

    Also returns None while a service is running, because it saves the changes in a moment. `alone`: the caller has
    locked the folder.
    """
    missing = last_logged_version(folder) - position
    if missing <= 0 or (not alone and _is_locked(folder)):
        return None
    changes = "1 change" if missing == 1 else f"{missing} changes"
    return (
        f"{folder} lacks {changes} that a service acknowledged before it was killed, in {log_path(folder)}; apply them "
        "with `kinrank serve`, any command that changes the folder, or `with Manifold.changing(path)`"
    )


def describe_log_conflict(folder: Path, position: int) -> str | None:
    """Explain why a folder locked by the caller cannot be saved before its log is applied. Return None if it can."""
    if not has_log(folder):
        return None
    path = log_path(folder)
    scan = scan_log(path)
    if scan is None:
        return f"{path} is not a log that kinrank can read; restore it, or move it away, which discards its changes"
    if scan.damaged:
        return (
            f"{path} has unreadable bytes at its end, which may contain acknowledged changes; make your change in "
            "`with Manifold.changing(path)`, which examines them, or save to another path"
        )
    missing = describe_missing_changes(folder, position, alone=True)
    if missing is None:
        return None
    return (
        f"{missing.partition(';')[0]}, and saving would undo them or be undone by them; make your change in "
        "`with Manifold.changing(path)`, which applies them first, or save to another path"
    )


def _is_locked(folder: Path) -> bool:
    """True if a process holds the lock of the folder."""
    if sys.platform == "win32":
        return False
    import fcntl

    with contextlib.suppress(OSError):
        number = os.open(folder / LOCK_NAME, os.O_RDONLY)
        try:
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(number)
    return False


def save_snapshot(
    snapshot: Snapshot, path: str | os.PathLike[str], journal: PendingChanges, wait: float = LOCK_WAIT_SECONDS
) -> None:
    """Write the snapshot to the folder `path`, which is created if its parent exists, and update the journal."""
    folder = Path(path)
    _refuse_foreign_files(folder)
    _check_loadable(snapshot, folder)
    home = resolve_path(folder)
    try:
        with _lock_for_writing(home, journal.held, wait):
            old = _read_existing_manifest(home)
            known = journal.manifest_checksums.get(home)
            if old is not None and known is not None and old["sha256"] != known:
                raise ConcurrentSaveError(
                    f"another process saved to {folder} after it was loaded or saved here (it is at generation "
                    f"{old['generation']} now), and saving would undo that change; load it again and repeat your "
                    "change, preferably in `with Manifold.changing(path)`, which makes other writers wait, or save to "
                    "another path"
                )
            position, due = _find_log_position(home, journal, old), journal.due(home)
            if old is not None and known is not None and due and _can_append(old, due, snapshot):
                new = _append_changes(snapshot, home, old, due, position)
            elif old is not None and known is not None and journal.holds(home) and position != log_position(old):
                new = _append_changes(snapshot, home, old, [], position)  # only the log position differs
            else:
                new = _write_everything(snapshot, home, 1 + (0 if old is None else int(old["generation"])), position)
            journal.at(home, new["sha256"], position)
            _remove_stale_files(home, new)
    except TimeoutError:
        raise
    except OSError as error:
        first = error.__cause__ if isinstance(error.__cause__, OSError) else error
        raise type(error)(
            error.errno,
            f"the manifold could not be written to {folder} ({first.strerror or first}); the state saved there before "
            "is unchanged",
        ) from error


def _check_loadable(snapshot: Snapshot, folder: Path) -> None:
    """Check in memory everything that `load` checks in files, so that an unreadable folder is never written."""
    try:
        Snapshot.from_arrays(snapshot.method, snapshot.arrays, snapshot.facts, None, snapshot.built_over)
    except (ValueError, KeyError, IndexError) as error:
        raise UnloadableError(
            f"the manifold was not saved to {folder}, because it could not be loaded again ({error}); the state saved "
            "there before is unchanged. This is a bug in kinrank: please report it with the data that caused it"
        ) from error


@contextlib.contextmanager
def _lock_for_writing(folder: Path, held: Path | None, wait: float) -> Iterator[None]:
    """Lock the folder for a `with` block. If saving fails, remove a folder that was created for it."""
    if folder == held:
        yield
        return
    with folder_lock(folder, wait) as created:
        try:
            yield
        except BaseException:
            if created:
                remove_unused_folder(folder)
            raise


def _read_existing_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest in the folder; None if there is none, or if it is damaged or of another version."""
    try:
        manifest = read_manifest(folder)
        log_position(manifest)
        return manifest
    except (OSError, InputError):
        return None


def _find_log_position(folder: Path, journal: PendingChanges, old: dict[str, Any] | None) -> int:
    """Return the version of the last logged change in the state to save.

    A caller that applied the log sets it in the journal. A change of the existing state keeps the old position, and is
    refused if the log contains other changes. A gallery that replaces another one also replaces those in the log.
    """
    if journal.position is not None and folder == journal.held:
        return journal.position
    before = 0 if old is None else log_position(old)
    if folder in journal.manifest_checksums:
        if (conflict := describe_log_conflict(folder, before)) is not None:
            raise ConcurrentSaveError(conflict)
        if old is not None:
            return before
    return max(before, last_logged_version(folder))


def _can_append(manifest: dict[str, Any], due: list[Arrays], snapshot: Snapshot) -> bool:
    """True if the pending changes are better appended than merged into all arrays."""
    count = sum(entry["count"] for entry in manifest["changes"]) + len(due)
    size = sum(entry["bytes"] for entry in manifest["changes"]) + count_bytes(due)
    return is_worth_appending(count, size, snapshot.size)


def _append_changes(
    snapshot: Snapshot, folder: Path, old: dict[str, Any], due: list[Arrays], position: int
) -> dict[str, Any]:
    """Write the pending changes, if any, and a manifest that lists them."""
    path, content = folder / f"change-{uuid.uuid4().hex}", pack_diffs(due)
    entry = {"file": path.name, "count": len(due), "bytes": len(content)}
    entry["sha256"] = hashlib.sha256(content).hexdigest()
    changes = [*old["changes"], *([entry] if due else [])]
    new = make_manifest(snapshot, old["generation"] + 1, old["data"], old["arrays"], changes, position)
    with _undo_on_error(folder, path):
        if due:
            with path.open("wb") as file:
                file.write(content)
                _flush_file(file)
        _replace_manifest(folder, new)
    return new


def _write_everything(snapshot: Snapshot, folder: Path, generation: int, position: int) -> dict[str, Any]:
    """Write all arrays and a manifest that lists them."""
    data = folder / f"data-{uuid.uuid4().hex}"
    make_manifest(snapshot, generation, data.name, {}, [])  # refuses a method that cannot be saved before any writing
    with _undo_on_error(folder, data):
        data.mkdir()
        entries = {name: write_array(data / f"{name}.npy", array) for name, array in snapshot.arrays.items()}
        flush_folder(data)
        new = make_manifest(snapshot, generation, data.name, entries, [], position)
        _replace_manifest(folder, new)
    return new


def write_array(path: Path, array: NDArray[Any]) -> dict[str, Any]:
    """Write an array and flush it to the disk. Return its entry in the manifest."""
    array, header = np.ascontiguousarray(array), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    numbers = array.reshape(-1).view(np.uint8).data if array.nbytes else b""
    digest = hashlib.sha256(header.getvalue())
    digest.update(numbers)
    with path.open("wb") as file:
        file.write(header.getvalue())
        file.write(numbers)  # not by numpy, whose error on a full disk gives neither the reason nor the path
        _flush_file(file)
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest.hexdigest()}


def check_changeable(folder: Path) -> None:
    """Raise an error if the folder is not a manifold that can be changed, before anything (even a lock) is written."""
    if not (folder / MANIFEST).is_file():
        read_manifest(folder)  # raises an error that says what is wrong
    check_target(folder)


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise an error now, not after an hour of building, if `save` could not write to this path."""
    folder = Path(path)
    _refuse_foreign_files(folder)
    target = folder if folder.is_dir() else folder.parent
    try:
        tempfile.TemporaryFile(dir=target).close()
    except OSError as error:
        raise OSError(f"the folder {target} cannot be written to ({error.strerror}); choose another path") from None


def _refuse_foreign_files(folder: Path) -> None:
    """Refuse to write into a folder with other files. A damaged manifold can be replaced."""
    if not folder.parent.is_dir():
        raise MissingFileError(f"the folder {folder.parent} does not exist; create it, or choose another path")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, but a manifold is saved as a folder", remedy="choose another path")
    if folder.is_dir() and not (folder / MANIFEST).exists():
        foreign = [entry.name for entry in folder.iterdir() if not _is_manifold_file(entry.name)]
        if foreign:
            raise InputError(
                f"{folder} contains other files ({foreign[0]})",
                remedy="choose a folder that is new, empty or a manifold",
            )


def _is_manifold_file(name: str) -> bool:
    """True if the file belongs to any state of a saved manifold, or was left by a killed process."""
    ours = (
        DATA_FOLDER_PATTERN.fullmatch(name) or CHANGE_FILE_PATTERN.fullmatch(name) or name.startswith(f".{MANIFEST}.")
    )
    return bool(ours) or name in (MANIFEST, LOCK_NAME)


def _remove_stale_files(folder: Path, manifest: dict[str, Any]) -> None:
    """Remove the files that the manifest does not list."""
    needed = {MANIFEST, LOCK_NAME, manifest["data"], *(entry["file"] for entry in manifest["changes"])}
    for other in folder.iterdir():
        if _is_manifold_file(other.name) and other.name not in needed:
            _remove_path(other)


@contextlib.contextmanager
def _undo_on_error(folder: Path, written: Path) -> Iterator[None]:
    """Remove what was written if the block fails, unless the manifest already lists it."""
    try:
        yield
    except BaseException:
        manifest = b""
        with contextlib.suppress(OSError):
            manifest = (folder / MANIFEST).read_bytes()
        if written.name.encode() not in manifest:
            _remove_path(written)
        raise


def _remove_path(part: Path) -> None:
    """Remove a file or a folder as far as possible."""
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            part.unlink()


def _replace_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Switch from the old state to the new one. All files it lists are on the disk already."""
    flush_folder(folder)
    with atomic_write(folder / MANIFEST) as file:
        file.write(json.dumps(manifest, indent=1).encode())
    flush_folder(folder)


def _flush_file(file: IO[bytes]) -> None:
    """Flush a file to the disk."""
    file.flush()
    os.fsync(file.fileno())
