"""Where the items of a followed source go: a Manifold in a folder, or a service that serves one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kinrank.client import Client
from kinrank.features import Vectors
from kinrank.manifold import Manifold
from kinrank.manifold.files import check_target
from kinrank.manifold.manifest import MANIFEST
from kinrank.manifold.telling import SearchedExactly
from kinrank.methods import Method
from kinrank.progress import Show

STALE = 0.1  # how far a Manifold may drift from a rebuild before it is refreshed
NUMBERS = 500_000  # that are sent to a service at a time
WAIT = 5.0  # seconds for somebody else who changes the folder


class Target(Protocol):
    """A gallery that items are put into and taken out of."""

    @property
    def is_there(self) -> bool:
        """Whether the gallery exists."""
        ...

    def apply(self, gone: Sequence[str], vectors: Vectors, ids: Sequence[str], progress: Show) -> None:
        """Take items out, and put others in or in place of those of the same ids."""
        ...


class FolderTarget:
    """A Manifold in a folder; it is built where it is not there yet."""

    def __init__(self, folder: Path, method: Method | None = None) -> None:
        self._folder, self._method = folder, method

    @property
    def is_there(self) -> bool:
        return (self._folder / MANIFEST).is_file()

    def apply(self, gone: Sequence[str], vectors: Vectors, ids: Sequence[str], progress: Show) -> None:
        if not self.is_there:
            check_target(self._folder)
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
            raise TimeoutError(f"{error}; if a service serves it, give the address of that instead") from None


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

    def apply(self, gone: Sequence[str], vectors: Vectors, ids: Sequence[str], progress: Show) -> None:
        for name in gone:
            try:
                self._client.remove([name])
            except ValueError:  # somebody else has removed it
                continue
        step = max(1, NUMBERS // max(vectors.shape[1], 1))
        for start in range(0, len(ids), step):
            self._client.upsert(vectors[start : start + step], list(ids[start : start + step]))
