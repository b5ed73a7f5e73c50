"""Settings -> everything that answering a request needs: the gallery, what is shown of it, and the gates."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinrank.given import NUMBER
from kinrank.manifold import Manifold
from kinrank.stores import Store
from kinrank.stores.opening import open_store
from kinrank.web.asked.declared import declarations
from kinrank.web.asked.looking import example
from kinrank.web.http.gate import Busy, Gates
from kinrank.web.lasting.following import Following
from kinrank.web.lasting.writer import Receipt, Writer
from kinrank.web.settings import Settings
from kinrank.web.shown.collection import Collection
from kinrank.web.shown.encoding import Encoding

OCCUPIED_SECONDS = 5.0  # without a free thread for searches, after which requests should go elsewhere
PAUSE = 0.005  # seconds between the first looks at the version; later ones are rarer


class Gallery(Protocol):
    """What is searched and changed: a Writer in this process, or a Following of the one in another."""

    @property
    def manifold(self) -> Manifold: ...

    @property
    def version(self) -> int: ...

    @property
    def logged(self) -> int: ...

    @property
    def trouble(self) -> str: ...

    def put(self, vectors: NDArray[np.float32], ids: list[Any] | None, replace: bool) -> Receipt: ...

    def remove(self, ids: list[Any]) -> Receipt: ...

    def observe(self, queries: NDArray[np.float32]) -> Receipt: ...

    def sync(self) -> Receipt: ...

    def close(self) -> None: ...


class Service:
    """One process's view of what is served."""

    def __init__(self, settings: Settings, gallery: Gallery) -> None:
        self.settings, self.gallery = settings, gallery
        self.gates = Gates(settings.limits)
        self._opening: tuple[int, tuple[list[dict[str, Any]], dict[str, Any] | None]] | None = None
        cache = settings.cache or (Path(settings.scratch) / "thumbnails" if settings.scratch else None)
        self.collection = Collection.open(settings.files, gallery.manifold.ids, cache)
        queries, width = self.collection.queries, gallery.manifold._snapshot.vectors.shape[1]
        if queries is not None and queries.shape[1] != width:
            raise ValueError(
                f"--queries has vectors of {queries.shape[1]} numbers but the gallery of {width}; both must come from "
                "the same model"
            )
        self.encoding = None if settings.encoder is None else Encoding.open(settings.encoder, width)

    @classmethod
    def open(cls, settings: Settings, socket: str | None = None) -> Service:
        """The service of one process: it writes itself, unless there is a socket at which another one does."""
        store = None if settings.store is None else open_store(settings.store)
        alone = socket is None and (settings.writable or store is not None)
        gallery: Gallery = _writer(settings, store) if alone else Following(settings.manifold, store, socket)
        try:
            return cls(settings, gallery)
        except BaseException:
            gallery.close()
            raise

    def close(self) -> None:
        self.gates.close()
        self.gallery.close()

    @property
    def manifold(self) -> Manifold:
        return self.gallery.manifold

    @property
    def address(self) -> str:
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"http://{host}:{self.settings.port}"

    @property
    def trouble(self) -> str:
        """Why requests should rather go elsewhere, in a sentence; empty when all is well."""
        if self.gates.searches.inside >= self.settings.limits.waiting:
            return "too many requests wait"
        occupied = self.gates.searches.occupied_seconds
        if occupied > OCCUPIED_SECONDS:
            return f"no thread that searches has become free for {occupied:.0f} seconds"
        return self.gallery.trouble

    def opening(self) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """The methods with their parameters, and a query and an item that show what re-ranking does; per version."""
        version, manifold = self.gallery.version, self.manifold
        if self._opening is None or self._opening[0] != version:
            self._opening = version, (declarations(manifold), example(manifold, self.collection))
        return self._opening[1]

    def id_meant(self, words: str) -> str | int:
        """The id that a piece of an address means: a number where the ids of the gallery are numbers."""
        ids = self.manifold._snapshot.names.ids
        texts = ids is not None and ids.dtype.kind == "O"
        return words if texts or not NUMBER.fullmatch(words) else int(words)

    async def reached(self, version: int | None) -> None:
        """Return when this process knows the change that made this version."""
        if version is None or self.gallery.version >= version:
            return
        last = await self.gates.asking.run(lambda: self.gallery.logged)  # another process may have to be asked
        if version > last:
            raise ValueError(f"min_version={version} is a change that was never made here; the last one is {last}")
        deadline, pause = time.monotonic() + self.settings.limits.seconds, PAUSE
        while self.gallery.version < version:
            if time.monotonic() > deadline:
                raise Busy(f"version {version} has not arrived here; this is {self.gallery.version}, try again later")
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 0.1)


def _writer(settings: Settings, store: Store | None) -> Writer:
    return Writer(settings.manifold, store)
