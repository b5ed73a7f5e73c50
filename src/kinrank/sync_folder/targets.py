"""Targets of a synchronisation: a Manifold in a folder, or a service."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from kinrank.client import Client
from kinrank.errors import ExactSearchWarning, InputError, MissingFileError
from kinrank.manifold import Manifold
from kinrank.manifold.saved_folder import MANIFEST, check_target, describe_missing_changes, log_position, read_manifest
from kinrank.methods import Method
from kinrank.progress import ProgressOption
from kinrank.vector_input import Vectors

MAX_STALE = 0.1  # distance to a rebuilt Manifold from which on it is refreshed
MAX_NUMBERS_PER_REQUEST = 500_000
MAX_ITEMS_PER_REQUEST = 1000
FOLDER_WAIT_SECONDS = 5.0  # for other processes that change the folder


class FolderTarget:
    """A Manifold in a folder; it is built if it does not exist."""

    def __init__(self, folder: Path, method: Method | None = None) -> None:
        self._folder, self._method = folder, method
        self._seen: tuple[int, set[str]] | None = None  # time of the manifest, and the ids at that time

    @property
    def exists(self) -> bool:
        """True if the gallery exists."""
        return (self._folder / MANIFEST).is_file()

    def check(self) -> None:
        """Raise an error if nothing could be put there, before anything is encoded."""
        if not self._folder.absolute().parent.is_dir():
            raise MissingFileError(
                f"the folder {self._folder.parent} does not exist; create it, or choose another path"
            )
        if not self.exists:
            check_target(self._folder)

    def ids(self) -> set[str] | None:
        """Return the ids of the existing items; None if unknown."""
        if not self.exists:
            return set()
        if describe_missing_changes(self._folder, log_position(read_manifest(self._folder))) is not None:
            with Manifold.changing(
                self._folder, wait=FOLDER_WAIT_SECONDS
            ):  # applies the changes that a killed service left in the log
                pass
        written = os.stat(self._folder / MANIFEST).st_mtime_ns
        if self._seen is None or self._seen[0] != written:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # there are no searches here
                ids = Manifold.load(self._folder).ids
            if ids.dtype.kind != "O" and len(ids):
                raise InputError(
                    f"the items of {self._folder} have numbers and no text ids", remedy="build it with ids"
                )
            self._seen = written, set(ids.tolist())
        return self._seen[1]

    def apply(self, gone: Sequence[str], vectors: Vectors, ids: Sequence[str], progress: ProgressOption) -> None:
        """Remove items, then put items: replace those with the same ids and add the others."""
        if not self.exists:
            Manifold.build(vectors, self._method, ids=list(ids), progress=progress).save(self._folder)
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExactSearchWarning)  # there are no searches here
                with Manifold.changing(self._folder, wait=FOLDER_WAIT_SECONDS) as manifold:
                    existing = set(manifold.ids.tolist())
                    leaving = [name for name in gone if name in existing]
                    if leaving:
                        manifold.remove(leaving)
                    if len(ids):
                        manifold.upsert(vectors, list(ids))
                    if manifold.staleness > MAX_STALE:
                        manifold.refresh(progress)
        except TimeoutError as error:
            raise TimeoutError(
                f"{error}; to follow a folder in a running service, use `kinrank serve FOLDER --watch`"
            ) from None


class ServiceTarget:
    """A service at a URL, with the methods of a FolderTarget; the changes that it acknowledged survive its death."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._client = Client(url, token=token)

    @property
    def exists(self) -> bool:
        return True

    @property
    def follows(self) -> bool:
        """True if the service follows a source itself."""
        return bool(self._client.info().get("follows"))

    def has(self, name: str) -> bool:
        """True if an item with this id exists."""
        try:
            self._client.get(name)
        except InputError:
            return False
        return True

    def check(self) -> None:
        if not self._client.info()["writable"]:
            raise InputError("this service cannot be changed", remedy="serve a folder that `kinrank build` wrote")

    def ids(self) -> set[str] | None:
        return None

    def apply(self, gone: Sequence[str], vectors: Vectors, ids: Sequence[str], progress: ProgressOption) -> None:
        leaving = [name for name in gone if self.has(name)]
        for start in range(0, len(leaving), MAX_ITEMS_PER_REQUEST):
            self._client.remove(leaving[start : start + MAX_ITEMS_PER_REQUEST])
        step = min(MAX_ITEMS_PER_REQUEST, max(1, MAX_NUMBERS_PER_REQUEST // max(vectors.shape[1], 1)))
        for start in range(0, len(ids), step):
            self._client.upsert(vectors[start : start + step], list(ids[start : start + step]))


Target = FolderTarget | ServiceTarget
