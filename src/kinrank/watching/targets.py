"""Where the items of a followed source go: a Manifold in a folder, or a service that serves one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kinrank.client import Client
from kinrank.features import Vectors
from kinrank.manifold import Manifold
from kinrank.manifold.beside import left_out
from kinrank.manifold.files import check_target
from kinrank.manifold.manifest import MANIFEST, position_in, read_manifest
from kinrank.manifold.telling import SearchedExactly
from kinrank.methods import Method
from kinrank.progress import Show

STALE = 0.1  # how far a Manifold may drift from a rebuild before it is refreshed
NUMBERS, MOST = 500_000, 1000  # numbers, and items, that are sent to a service at a time
WAIT = 5.0  # seconds for somebody else who changes the folder


class Target(Protocol):
    """A gallery that items are put into and taken out of."""

    @property
    def is_there(self) -> bool:
        """Whether the gallery exists."""
        ...

    def check(self) -> None:
        """A sentence if nothing could be put there: before anything is encoded."""
        ...

    def ids(self) -> set[str] | None:
        """The items that are there; None where nobody can say."""
        ...

    def apply(self, gone: Sequence[str], vectors: Vectors, ids: Sequence[str], progress: Show) -> None:
        """Take items out, and put others in or in place of those of the same ids."""
        ...


class FolderTarget:
    """A Manifold in a folder; it is built where it is not there yet."""

    def __init__(self, folder: Path, method: Method | None = None) -> None:
        self._folder, self._method = folder, method
        self._seen: tuple[int, set[str]] | None = None  # what was there when its manifest was written

    @property
    def is_there(self) -> bool:
        return (self._folder / MANIFEST).is_file()

    def check(self) -> None:
        if not self._folder.absolute().parent.is_dir():
            raise FileNotFoundError(f"the folder {self._folder.parent} is not there; make it, or choose another place")
        if not self.is_there:
            check_target(self._folder)

    def ids(self) -> set[str] | None:
        if not self.is_there:
            return set()
        if left_out(self._folder, position_in(read_manifest(self._folder))) is not None:
            with Manifold.changing(self._folder, WAIT):  # applies what a killed service left in the log
                pass
        written = os.stat(self._folder / MANIFEST).st_mtime_ns
        if self._seen is None or self._seen[0] != written:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nothing is searched here
                found = Manifold.load(self._folder).ids
            if found.dtype.kind != "O" and len(found):
                raise ValueError(f"the items of {self._folder} have numbers and no names; build it with ids")
            self._seen = written, set(found.tolist())
        return self._seen[1]

    def apply(self, gone: Sequence[str], vectors: Vectors, ids: Sequence[str], progress: Show) -> None:
        if not self.is_there:
            Manifold.build(vectors, self._method, list(ids), progress=progress).save(self._folder)
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SearchedExactly)  # nothing is searched here
                with Manifold.changing(self._folder, WAIT) as manifold:
                    there = set(manifold.ids.tolist())
                    leaving = [name for name in gone if name in there]
                    if leaving:
                        manifold.remove(leaving)
                    if len(ids):
                        manifold.upsert(vectors, list(ids))
                    if manifold.stale > STALE:
                        manifold.refresh(progress)
        except TimeoutError as error:
            raise TimeoutError(
                f"{error}; a gallery that is served is followed by `kinrank serve FOLDER --watch`"
            ) from None


class ServiceTarget:
    """A service that answers at an address; what it acknowledged survives its death."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._client = Client(url, token)

    @property
    def is_there(self) -> bool:
        return True

    @property
    def follows(self) -> bool:
        """Whether the service keeps account of a source itself."""
        return bool(self._client.info().get("follows"))

    def has(self, name: str) -> bool:
        """Whether an item of this name is there."""
        try:
            self._client.get(name)
        except ValueError:
            return False
        return True

    def check(self) -> None:
        if not self._client.info()["writable"]:
            raise ValueError("this service cannot be changed; serve a folder that `kinrank build` wrote")

    def ids(self) -> set[str] | None:
        return None

    def apply(self, gone: Sequence[str], vectors: Vectors, ids: Sequence[str], progress: Show) -> None:
        leaving = [name for name in gone if self.has(name)]
        for start in range(0, len(leaving), MOST):
            self._client.remove(leaving[start : start + MOST])
        step = min(MOST, max(1, NUMBERS // max(vectors.shape[1], 1)))
        for start in range(0, len(ids), step):
            self._client.upsert(vectors[start : start + step], list(ids[start : start + step]))
