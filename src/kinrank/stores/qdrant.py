"""QdrantStore: a collection of Qdrant, on a server or in a local folder -> a Store."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.stores.address import Address, number, seconds
from kinrank.stores.clients import angles, flag, header, not_unit, raised_by, rows_of, unit_checked
from kinrank.stores.engine import LOST, REFUSED, SCANNED, SLOW, EngineStore, Hits
from kinrank.stores.qdrant_filters import filter_of, point_id

NUMBERS = 4_000_000  # in one answer: as JSON about 80 MB
LEAST_EFFORT = 128  # points that a search in an index keeps in view at least
METRICS = {"Cosine": "cosine", "Dot": "cosine", "Euclid": "euclidean"}
NEEDS = "QdrantStore", "qdrant"


class QdrantStore(EngineStore):
    """The points of a Qdrant collection. Their ids are numbers or UUIDs; where it has both, all of them are texts.

    Filters (`where`): a mapping of payload names to values, or a `qdrant_client.models.Filter`.

    Args:
        client: a `qdrant_client.QdrantClient`, which stays open; or a text: the URL of a server, such as
            http://localhost:6333, or the folder of a client in local mode.
        collection: its name, or an alias of it.
        vector: the name of the vector, where points have several.
        timeout: seconds, rounded up to whole ones.
        exact: let a server compare queries with every point, without its index.
        api_key: for a URL; the variable QDRANT_API_KEY where it is left out.
    """

    def __init__(
        self, client: Any, collection: str, vector: str | None = None, *, timeout: float | None = 30.0,
        exact: bool = False, api_key: str | None = None,
    ) -> None:  # fmt: skip
        self._models = needed("qdrant_client.models", *NEEDS)
        self._collection, self._vector = collection, vector
        self._seconds = self.timeout = None if timeout is None else math.ceil(number(timeout, "timeout"))
        self._inner = self._texts = False
        self._own = isinstance(client, (str, os.PathLike))
        self._client = self._opened(os.fspath(client), api_key) if self._own else client
        try:
            if not isinstance(self._client, needed("qdrant_client", *NEEDS).QdrantClient):
                raise ValueError(
                    f"client must be a qdrant_client.QdrantClient or a text; got a {type(client).__name__}"
                )
            opened = self._client.init_options
            self._local = opened.get("path") is not None or opened.get("location") == ":memory:"
            self.exact = exact or self._local
            self._ask(self._look)
        except BaseException:
            self._close()
            raise

    @classmethod
    def at(cls, address: Address) -> QdrantStore:
        """The store at qdrant://host:6333/collection?vector=name, or qdrant:///folder#collection in local mode.

        Options: vector, https, timeout, exact, api_key; the key may also stand in the variable QDRANT_API_KEY.
        """
        options = address.only("vector", "https", "timeout", "exact", "api_key")
        timeout, vector, exact = seconds(options, 30.0), options.get("vector"), flag(options, "exact")
        if address.host is None:
            place = address.needed("path", "a server or a folder")
            name = address.needed("fragment", "the name of the collection behind #")
        else:
            host = f"[{address.host}]" if ":" in address.host else address.host
            place = f"{'https' if flag(options, 'https') else 'http'}://{host}:{address.port or 6333}"
            name = address.needed("path", "the name of the collection behind the server")
        return cls(place, name, vector, timeout=timeout, exact=exact, api_key=options.get("api_key"))

    def __repr__(self) -> str:
        return f"QdrantStore({self._collection}{f', vector={self._vector}' if self._vector else ''})"

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        effort = {"exact": True} if self.exact else {"hnsw_ef": max(2 * k, LEAST_EFFORT)}
        shared = {
            "using": self._vector,
            "filter": filter_of(where, self._models),
            "params": None if self._local else self._models.SearchParams(**effort),
            "limit": k,
            "with_vector": self._wanted(vectors),
            "with_payload": False,
        }
        size = max(1, NUMBERS // (k * self.dimensions)) if vectors else len(rows)
        size = 1 if self._local else size  # nothing travels, and many Python numbers at once are slow
        found: list[Hits] = []
        for start in range(0, len(rows), size):
            asked = [self._models.QueryRequest(query=row.tolist(), **shared) for row in rows[start : start + size]]
            answers = self._client.query_batch_points(self._collection, requests=asked, timeout=self._seconds)
            found += [self._hits(answer.points, vectors, searched=True) for answer in answers]
        return found

    def _fetch(self, keys: list[Any]) -> Hits:
        known = [key for key in map(point_id, keys) if key is not None]
        if not known:
            return Hits([], self._nothing())
        points = self._client.retrieve(
            self._collection, known, with_payload=False, with_vectors=self._wanted(True), timeout=self._seconds
        )
        return self._hits(points, True)

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        filtered, most = filter_of(where, self._models), NUMBERS // (self.dimensions if vectors else 100)
        size = max(1, most if self._local else min(SCANNED, most))  # local mode sorts all ids for each part
        offset = None
        while True:
            points, offset = self._client.scroll(
                self._collection, scroll_filter=filtered, limit=size, offset=offset, with_payload=False,
                with_vectors=self._wanted(vectors), timeout=self._seconds,
            )  # fmt: skip
            if points:
                yield self._hits(points, vectors)
            if offset is None:
                return

    def _count(self) -> int:
        return int(self._client.count(self._collection, exact=True, timeout=self._seconds).count)

    def _kind(self, error: Exception) -> str | None:
        grpc, httpx = needed("grpc", *NEEDS), needed("httpx", *NEEDS)
        said = needed("qdrant_client.http.exceptions", *NEEDS)
        if isinstance(error, said.ResponseHandlingException):
            cause: Any = error.source
            if isinstance(cause, httpx.TransportError):
                return SLOW if isinstance(cause, httpx.TimeoutException) else LOST
            return REFUSED
        if isinstance(error, said.UnexpectedResponse):
            status: Any = error.status_code
            return {408: SLOW, 504: SLOW, 502: LOST, 503: LOST}.get(status, REFUSED)
        if isinstance(error, grpc.RpcError):
            kinds = {grpc.StatusCode.UNAVAILABLE: LOST, grpc.StatusCode.DEADLINE_EXCEEDED: SLOW}
            return kinds.get(getattr(error, "code", lambda: None)(), REFUSED)
        return REFUSED if raised_by(error, "qdrant_client") else None

    def _close(self) -> None:
        if self._own:
            self._client.close()

    def _opened(self, place: str, api_key: str | None) -> Any:
        kind = needed("qdrant_client", *NEEDS).QdrantClient
        if place.startswith(("http://", "https://")):
            key = header(api_key or os.environ.get("QDRANT_API_KEY"), "the API key for Qdrant")
            return kind(url=place, api_key=key, timeout=self._seconds, check_compatibility=False)
        if place == ":memory:":
            raise ValueError("a client in memory that is opened here is empty; give the client that holds the points")
        if not (Path(place) / "meta.json").is_file():  # the client would make an empty folder
            raise ValueError(f"{place!r} is no folder of Qdrant's local mode, and no URL such as http://localhost:6333")
        try:
            return kind(path=place, force_disable_check_same_thread=True)  # nothing is written, by no thread
        except RuntimeError as error:
            raise ValueError(f"{error} Give that client instead of the folder {place!r}.") from error

    def _look(self) -> None:
        """Which vectors the collection has, how they are compared, and what its ids are."""
        config: Any = self._client.get_collection(self._collection).config.params.vectors
        held = dict(config) if isinstance(config, Mapping) else {} if config is None else {"": config}
        names = ", ".join(repr(name) for name in sorted(held) if name) or "one without a name" if held else "none"
        if self._vector is None and len(held) == 1:
            self._vector = next(iter(held)) or None
        elif self._vector not in held:
            raise ValueError(f"{self!r}: give vector=, one of those that the collection has: {names}")
        params = held[self._vector or ""]
        distance = str(getattr(params.distance, "value", params.distance))
        if distance not in METRICS or params.multivector_config is not None:
            what = distance if distance not in METRICS else "several vectors per point (a multivector)"
            raise ValueError(f"{self!r} compares by {what}; kinrank knows Cosine, Euclid, and Dot of unit vectors")
        self.metric, self.dimensions, self._inner = METRICS[distance], int(params.size), distance == "Dot"
        first = self._client.scroll(self._collection, limit=1, with_payload=False)[0]
        if first and not isinstance(first[0].id, str):  # numbers come before UUIDs
            later = self._client.scroll(self._collection, limit=1, offset=str(UUID(int=0)), with_payload=False)[0]
            self._texts = bool(later)

    def _hits(self, points: Sequence[Any], vectors: bool, searched: bool = False) -> Hits:
        keys = [str(point.id) if self._texts else point.id for point in points]
        distances = None
        if searched:
            scores = np.array([point.score for point in points], np.float64)
            if self._inner and scores.max(initial=0.0) > 1.002:
                raise not_unit(self)
            distances = scores if self.metric == "euclidean" else angles(scores)
        if not vectors:
            return Hits(keys, None, distances)
        held = [point.vector for point in points]
        held = [vector.get(self._vector or "") if isinstance(vector, Mapping) else vector for vector in held]
        rows = rows_of(held, self.dimensions)
        return Hits(keys, unit_checked(rows, self) if self._inner else rows, distances)

    def _wanted(self, vectors: bool) -> bool | list[str]:
        return [self._vector] if vectors and self._vector else vectors
