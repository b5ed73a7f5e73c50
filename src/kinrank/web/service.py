"""Service: everything that is needed to answer requests: gallery, collection, encoder and request queues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinrank.errors import InputError
from kinrank.manifold import Manifold
from kinrank.stores.url import open_store
from kinrank.vector_input import Vectors
from kinrank.web.collection import Collection
from kinrank.web.page_data.example_query import find_example
from kinrank.web.page_data.method_schema import describe_methods
from kinrank.web.query_encoder import QueryEncoder
from kinrank.web.request_queues import BusyError, RequestQueues
from kinrank.web.settings import Settings
from kinrank.web.writes.gallery_writer import Writer
from kinrank.web.writes.replica import Replica

OCCUPIED_SECONDS = 5.0  # without a free search thread, after which requests should go to another service
FIRST_PAUSE_SECONDS = 0.005  # between two checks of the version; later pauses are longer


class Service:
    """State of one process that answers requests.

    Attributes:
        gallery: the gallery that is searched and changed: a Writer in this process, or a Replica of another's.
    """

    def __init__(self, settings: Settings, gallery: Writer | Replica) -> None:
        self.settings, self.gallery = settings, gallery
        self.queues = RequestQueues(settings.limits)
        self._start_data: tuple[int, tuple[list[dict[str, Any]], dict[str, Any] | None]] | None = None
        cache = settings.cache or (Path(settings.scratch) / "thumbnails" if settings.scratch else None)
        self.collection = Collection.open(settings.files, gallery.manifold.ids, cache)
        queries, width = self.collection.queries, gallery.manifold.snapshot.vectors.shape[1]
        if queries is not None and queries.shape[1] != width:
            raise InputError(
                f"have {queries.shape[1]} numbers per vector, but the gallery has {width}; both must come from the "
                "same model",
                parameter="queries",
            )
        self.encoder = None if settings.encoder is None else QueryEncoder.open(settings.encoder, width)

    @classmethod
    def open(cls, settings: Settings, socket: str | None = None) -> Service:
        """Open the service of one process, which writes itself unless another process does at a socket."""
        store = None if settings.store is None else open_store(settings.store)
        is_writer = socket is None and (settings.writable or store is not None)
        folder = settings.manifold
        gallery = Writer(folder, store) if is_writer else Replica(folder, store, socket)
        try:
            return cls(settings, gallery)
        except BaseException:
            gallery.close()
            raise

    def close(self) -> None:
        self.queues.close()
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
        """Why requests should go to another service, as a sentence; empty if all is well."""
        if self.queues.searches.inside >= self.settings.limits.waiting:
            return "too many requests wait"
        occupied = self.queues.searches.occupied_seconds
        if occupied > OCCUPIED_SECONDS:
            return f"no search thread has become free for {occupied:.0f} seconds"
        return self.gallery.trouble

    def get_methods_and_example(self) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """Return the methods with their parameters, and an example of re-ranking; cached per version."""
        version, manifold = self.gallery.version, self.manifold
        if self._start_data is None or self._start_data[0] != version:
            self._start_data = version, (describe_methods(manifold), find_example(manifold, self.collection))
        return self._start_data[1]

    def encode(self, kind: str, values: Sequence[str]) -> Vectors:
        """Return the vectors of "texts", or of "images" in base64; an InputError if there is no encoder for them."""
        if self.encoder is None:
            problem = "this service cannot encode pictures or texts"
            raise InputError(problem, remedy="start it with --encoder NAME, or send vectors")
        return self.encoder.encode_texts(values) if kind == "texts" else self.encoder.encode_pictures(values)

    def parse_id(self, text: str) -> str | int:
        """Convert a part of a URL to an id: to a number if the ids of the gallery are numbers."""
        return self.manifold.snapshot.names.parse_text(text)

    async def wait_for_version(self, version: int | None) -> None:
        """Wait until this process knows the change of this version."""
        if version is None or self.gallery.version >= version:
            return
        last = await self.queues.facts.run(lambda: self.gallery.logged)  # may need a request to another process
        if version > last:
            raise InputError(f"does not exist; the last version is {last}", parameter="min_version", given=version)
        deadline, pause = time.monotonic() + self.settings.limits.seconds, FIRST_PAUSE_SECONDS
        while self.gallery.version < version:
            if time.monotonic() > deadline:
                current = self.gallery.version
                raise BusyError(f"version {version} has not arrived here; this is {current}, try again later")
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 0.1)
