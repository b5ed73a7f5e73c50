"""Verification of a saved manifold: finds damaged, missing and inconsistent files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinrank import stages
from kinrank.errors import InputError
from kinrank.manifold import folder_reader
from kinrank.manifold.saved_folder import MANIFEST, DamagedManifestError, read_manifest


@dataclass(frozen=True)
class Verification:
    """Result of verifying the files of a saved manifold.

    Attributes:
        checked: the files examined, the manifest first, relative to the folder.
        bad: a sentence for each file that is missing, truncated, altered or inconsistent with the others.
    """

    checked: tuple[str, ...]
    bad: dict[str, str]

    @property
    def whole(self) -> bool:
        """True if no file is bad."""
        return not self.bad


def verify(path: str | os.PathLike[str]) -> Verification:
    """Compare every file of a saved manifold with its checksum, whereas `load` stops at the first bad one.

    If all files are intact, the manifold is loaded, which checks everything that a search or a change relies on:
    numbers that are finite and in range, lists that fit together.

    A folder that is not a manifold, or one of another version, is refused as `load` refuses it.

    Example:
        >>> verify("gallery.manifold").whole
        True
    """
    folder = Path(path)
    while True:
        try:
            manifest = read_manifest(folder)
        except DamagedManifestError as error:
            return Verification((MANIFEST,), {MANIFEST: str(error)})
        names = {name: f"{manifest['data']}/{name}.npy" for name in sorted(manifest["arrays"])}
        wrong = {file: _find_problem(folder, manifest, name) for name, file in names.items()}
        wrong |= {entry["file"]: _find_problem(folder, entry) for entry in manifest["changes"]}
        bad = {file: problem for file, problem in wrong.items() if problem is not None} or _find_misfit(folder, names)
        if not bad or not _was_saved_since(folder, manifest):
            return Verification((MANIFEST, *wrong), bad)


def _find_problem(folder: Path, entry: dict[str, Any], name: str | None = None) -> str | None:
    """Describe the problem of an array of the manifest, or of a change file if no name is given; None if none."""
    try:
        if name is None:
            folder_reader.read_change_file(folder, entry)
        else:
            folder_reader.read_saved_array(folder, entry, name, mmap=True)
    except FileNotFoundError as error:
        return f"{error.filename} is missing; save the manifold again"
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    except InputError as error:
        return str(error)
    return None


def _find_misfit(folder: Path, names: dict[str, str]) -> dict[str, str]:
    """Return the file, with a sentence, of an array that `load` refuses although its checksum is right; {} if none.

    The file is the manifest if no single array is at fault.
    """
    try:
        folder_reader.load_snapshot(folder, mmap=True, store=None)
    except InputError as error:
        cause = error.__cause__
        file = names.get(cause.name, MANIFEST) if isinstance(cause, stages.array_storage.BadArrayError) else MANIFEST
        return {file: f"{folder / file} has the right checksum, but {cause or error}; build the manifold again"}
    return {}


def _was_saved_since(folder: Path, manifest: dict[str, Any]) -> bool:
    """True if the manifold was saved while we read it, so that the old files are gone."""
    try:
        return bool(read_manifest(folder)["sha256"] != manifest["sha256"])
    except (OSError, InputError):
        return False
