"""A saved manifold -> which of its files are not as they were written, or hold what no manifold can hold."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinrank import stages
from kinrank.manifold import reading
from kinrank.manifold.manifest import FORMAT, MANIFEST, PLAIN, VERSION, read_manifest


@dataclass(frozen=True)
class Verification:
    """What became of the files of a saved manifold.

    Attributes:
        checked: the files looked at, the manifest first, relative to the folder.
        bad: for each that is missing, truncated, altered, or does not fit the others, a sentence.
    """

    checked: tuple[str, ...]
    bad: dict[str, str]

    @property
    def whole(self) -> bool:
        return not self.bad


def verify(path: str | os.PathLike[str]) -> Verification:
    """Every file of a saved manifold against its checksum, all of them, where `load` stops at the first bad one.

    Where all are as they were written, the manifold is loaded, and so everything in them is checked that a search or a
    change relies on: numbers that are finite and in range, lists that fit together.

    A folder that is no manifold, or one of another version, is refused as `load` refuses it.

    Example:
        >>> verify("gallery.manifold").whole
        True
    """
    folder = Path(path)
    while True:
        try:
            manifest = read_manifest(folder)
        except ValueError as error:
            if not _is_ours(folder / MANIFEST):
                raise
            return Verification((MANIFEST,), {MANIFEST: str(error)})
        names = {name: f"{manifest['data']}/{name}.npy" for name in sorted(manifest["arrays"])}
        wrong = {file: _problem(folder, manifest, name) for name, file in names.items()}
        wrong |= {entry["file"]: _problem(folder, entry) for entry in manifest["changes"]}
        bad = {file: problem for file, problem in wrong.items() if problem is not None} or _unfit(folder, names)
        if not bad or not _saved_since(folder, manifest):
            return Verification((MANIFEST, *wrong), bad)


def _problem(folder: Path, entry: dict[str, Any], name: str | None = None) -> str | None:
    """What is wrong with an array of the manifest, or with a file of changes, where no name is given."""
    try:
        if name is None:
            reading.read_change(folder, entry)
        else:
            reading.read_array(folder, entry, name, mmap=True)
    except FileNotFoundError as error:
        return f"{error.filename} is missing; save the manifold again"
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    except ValueError as error:
        return str(error)
    return None


def _unfit(folder: Path, names: dict[str, str]) -> dict[str, str]:
    """The file, and a sentence, of an array that `load` refuses although it is as it was written; {} if there is none.

    The manifest, where it is not one array that is to blame.
    """
    try:
        reading.load(folder, mmap=True, store=None)
    except ValueError as error:
        cause = error.__cause__
        file = names.get(cause.name, MANIFEST) if isinstance(cause, stages.checks.BadArray) else MANIFEST
        return {file: f"{folder / file} is as it was written, but {cause or error}; build the manifold again"}
    return {}


def _is_ours(path: Path) -> bool:
    """Whether a manifest that could not be used is a damaged one of ours: no JSON any more, or altered."""
    try:
        content = json.loads(path.read_bytes())
    except OSError:
        return False
    except (ValueError, RecursionError):
        return True
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return False
    version = content.get("version")
    return not isinstance(version, int) or PLAIN <= version <= VERSION


def _saved_since(folder: Path, manifest: dict[str, Any]) -> bool:
    """Whether someone saved anew while we read; the old files are then rightly gone."""
    try:
        return bool(read_manifest(folder)["sha256"] != manifest["sha256"])
    except (OSError, ValueError):
        return False
