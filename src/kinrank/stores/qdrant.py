"""QdrantStore: a Store over a Qdrant collection, on a server or in a local folder."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.stores.client_utils import (
    check_header,
    check_unit_rows,
    filter_error,
    is_raised_by,
    not_unit_error,
    pack_rows,
    parse_conditions,
    parse_flag,
)
from kinrank.stores.engine import SCAN_ROWS, EngineStore, Hits
from kinrank.stores.url import StoreUrl, parse_timeout
from kinrank.vector_input import Vectors

MAX_ANSWER_NUMBERS = 4_000_000  # in one answer, about 80 MB of JSON
MIN_EFFORT = 128  # hnsw_ef of a search
METRICS = {"Cosine": "cosine", "Dot": "cosine", "Euclid": "euclidean"}
ERRORS_BY_STATUS = {408: TimeoutError, 504: TimeoutError, 502: ConnectionError, 503: ConnectionError}
REQUIREMENT = "QdrantStore", "qdrant"


class QdrantStore(EngineStore):
    """A Store over a Qdrant collection. The ids are integers or UUIDs; if there are both, all of them become strings.

    Filters (`where`): a mapping of payload names to values, or a `qdrant_client.models.Filter`.

    Args:
        client: a `qdrant_client.QdrantClient`, which stays open; or a string: the URL of a server, such as
            http://localhost:6333, or the folder of a client in local mode.
        collection: name or alias of the collection.
        vector: name of the vector, if points have several.
        timeout: seconds, rounded up to whole ones.
        exact: make the server compare queries with every point instead of using its index.
        api_key: key for a URL; by default the environment variable QDRANT_API_KEY.
    """

    url_examples = ("qdrant://localhost:6333?table=items", "qdrant:///folder?table=items")

    def __init__(
        self,
        client: Any,
        collection: str,
        vector: str | None = None,
        *,
        timeout: float | None = 30.0,
        exact: bool = False,
        api_key: str | None = None,
    ) -> None:
        self._models = import_extra("qdrant_client.models", *REQUIREMENT)
        self._collection, self._vector = collection, vector
        seconds = parse_timeout(timeout)
        self._seconds = self.timeout = None if seconds is None else math.ceil(seconds)
        self._inner = self._texts = False
        self._owns_client = isinstance(client, (str, os.PathLike))
        self._client = self._open_client(os.fspath(client), api_key) if self._owns_client else client
        try:
            if not isinstance(self._client, import_extra("qdrant_client", *REQUIREMENT).QdrantClient):
                raise InputError(
                    f"must be a qdrant_client.QdrantClient or a text; got a {type(client).__name__}", parameter="client"
                )
            opened = self._client.init_options
            self._local = opened.get("path") is not None or opened.get("location") == ":memory:"
            self.exact = exact or self._local
            self._call(self._read_collection)
        except BaseException:
            self._close()
            raise

    @classmethod
    def from_url(cls, url: StoreUrl) -> QdrantStore:
        """Open qdrant://host:6333?table=items&vector=name, or qdrant:///folder?table=items in local mode.

        Options: table, vector, https, timeout, exact, api_key. The environment variable QDRANT_API_KEY can replace the
        key.
        """
        url = url.take_table_from_path()
        options = url.check_options("table", "vector", "https", "timeout", "exact", "api_key", fixed={"key": "id"})
        if url.host is None:
            place = url.require("path", "a server or a folder")
        else:
            host = f"[{url.host}]" if ":" in url.host else url.host
            place = f"{'https' if parse_flag(options, 'https') else 'http'}://{host}:{url.port or 6333}"
        return cls(
            place,
            url.require_table(),
            options.get("vector"),
            timeout=parse_timeout(options.get("timeout", 30.0)),
            exact=parse_flag(options, "exact"),
            api_key=options.get("api_key"),
        )

    def __repr__(self) -> str:
        return f"QdrantStore({self._collection}{f', vector={self._vector}' if self._vector else ''})"

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        effort = {"exact": True} if self.exact else {"hnsw_ef": max(2 * k, MIN_EFFORT)}
        shared = {
            "using": self._vector,
            "filter": to_qdrant_filter(where, self._models),
            "params": None if self._local else self._models.SearchParams(**effort),
            "limit": k,
            "with_vector": self._vector_selector(vectors),
            "with_payload": False,
        }
        size = max(1, MAX_ANSWER_NUMBERS // (k * self.dimensions)) if vectors else len(rows)
        size = 1 if self._local else size  # local mode sends nothing, and many Python numbers at once are slow
        found: list[Hits] = []
        for start in range(0, len(rows), size):
            requests = [self._models.QueryRequest(query=row.tolist(), **shared) for row in rows[start : start + size]]
            answers = self._client.query_batch_points(self._collection, requests=requests, timeout=self._seconds)
            found += [self._to_hits(answer.points, vectors, searched=True) for answer in answers]
        return found

    def _fetch(self, keys: list[Any]) -> Hits:
        known = [key for key in map(to_point_id, keys) if key is not None]
        if not known:
            return Hits([], self._no_rows())
        points = self._client.retrieve(
            self._collection, known, with_payload=False, with_vectors=self._vector_selector(True), timeout=self._seconds
        )
        return self._to_hits(points, True)

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        filtered = to_qdrant_filter(where, self._models)
        most = MAX_ANSWER_NUMBERS // (self.dimensions if vectors else 100)
        size = max(1, most if self._local else min(SCAN_ROWS, most))  # local mode sorts all ids for each request
        offset = None
        while True:
            points, offset = self._client.scroll(
                self._collection,
                scroll_filter=filtered,
                limit=size,
                offset=offset,
                with_payload=False,
                with_vectors=self._vector_selector(vectors),
                timeout=self._seconds,
            )
            if points:
                yield self._to_hits(points, vectors)
            if offset is None:
                return

    def _count(self) -> int:
        return int(self._client.count(self._collection, exact=True, timeout=self._seconds).count)

    def _classify(self, error: Exception) -> type[Exception] | None:
        grpc, httpx = import_extra("grpc", *REQUIREMENT), import_extra("httpx", *REQUIREMENT)
        exceptions = import_extra("qdrant_client.http.exceptions", *REQUIREMENT)
        if isinstance(error, exceptions.ResponseHandlingException):
            cause: Any = error.source
            if isinstance(cause, httpx.TransportError):
                return TimeoutError if isinstance(cause, httpx.TimeoutException) else ConnectionError
            return InputError
        if isinstance(error, exceptions.UnexpectedResponse):
            return ERRORS_BY_STATUS.get(error.status_code, InputError)
        if isinstance(error, grpc.RpcError):
            kinds = {grpc.StatusCode.UNAVAILABLE: ConnectionError, grpc.StatusCode.DEADLINE_EXCEEDED: TimeoutError}
            return kinds.get(getattr(error, "code", lambda: None)(), InputError)
        return InputError if is_raised_by(error, "qdrant_client") else None

    def _close(self) -> None:
        if self._owns_client:
            self._client.close()

    def _open_client(self, place: str, api_key: str | None) -> Any:
        kind = import_extra("qdrant_client", *REQUIREMENT).QdrantClient
        if place.startswith(("http://", "https://")):
            key = check_header(api_key or os.environ.get("QDRANT_API_KEY"), "the API key for Qdrant")
            return kind(url=place, api_key=key, timeout=self._seconds, check_compatibility=False)
        if place == ":memory:":
            raise InputError("a new client in memory would be empty", remedy="give the client that holds the points")
        if not (Path(place) / "meta.json").is_file():  # the client would create an empty folder
            raise InputError(
                f"{place!r} is neither a folder of Qdrant's local mode nor a URL such as http://localhost:6333"
            )
        try:
            return kind(path=place, force_disable_check_same_thread=True)  # safe: the store only reads
        except RuntimeError as error:
            raise InputError(f"{error} Give that client instead of the folder {place!r}.") from error

    def _read_collection(self) -> None:
        """Read the vectors of the collection, their metric, and the type of its ids."""
        config: Any = self._client.get_collection(self._collection).config.params.vectors
        held = dict(config) if isinstance(config, Mapping) else {} if config is None else {"": config}
        names = ", ".join(repr(name) for name in sorted(held) if name) or "one without a name" if held else "none"
        if self._vector is None and len(held) == 1:
            self._vector = next(iter(held)) or None
        elif self._vector not in held:
            raise InputError(
                "is not a vector of the collection" if self._vector else "is missing",
                parameter="vector",
                allowed=f"one of those that the collection has: {names}",
                context=repr(self),
            )
        params = held[self._vector or ""]
        distance = str(getattr(params.distance, "value", params.distance))
        if distance not in METRICS or params.multivector_config is not None:
            what = distance if distance not in METRICS else "several vectors per point (a multivector)"
            raise InputError(f"{self!r} compares by {what}", remedy="use Cosine, Euclid, or Dot with unit vectors")
        self.metric, self.dimensions, self._inner = METRICS[distance], int(params.size), distance == "Dot"
        first = self._client.scroll(self._collection, limit=1, with_payload=False)[0]
        if first and not isinstance(first[0].id, str):  # integers come before UUIDs
            later = self._client.scroll(self._collection, limit=1, offset=str(UUID(int=0)), with_payload=False)[0]
            self._texts = bool(later)

    def _to_hits(self, points: Sequence[Any], vectors: bool, searched: bool = False) -> Hits:
        keys = [str(point.id) if self._texts else point.id for point in points]
        distances = None
        if searched:
            scores = np.array([point.score for point in points], np.float64)
            if self._inner and scores.max(initial=0.0) > 1.002:
                raise not_unit_error(self)
            distances = scores if self.metric == "euclidean" else np.sqrt(np.maximum(2.0 - 2.0 * scores, 0.0))
        if not vectors:
            return Hits(keys, None, distances)
        held = [point.vector for point in points]
        held = [vector.get(self._vector or "") if isinstance(vector, Mapping) else vector for vector in held]
        rows = pack_rows(held, self.dimensions)
        return Hits(keys, check_unit_rows(rows, self) if self._inner else rows, distances)

    def _vector_selector(self, vectors: bool) -> bool | list[str]:
        return [self._vector] if vectors and self._vector else vectors


def to_qdrant_filter(where: Any, models: Any) -> Any:
    """Convert a mapping of payload names to values to a Filter of `models`, the module of the client."""
    if where is None or isinstance(where, models.Filter):
        return where
    if not isinstance(where, Mapping):
        raise filter_error(
            where, 'a mapping of payload names to values, such as {"kind": "cat"}, or a qdrant_client.models.Filter'
        )
    return models.Filter(
        must=[models.Filter(should=_match_conditions(name, values, models)) for name, values in parse_conditions(where)]
    )


def _match_conditions(name: str, values: list[Any], models: Any) -> list[Any]:
    """Return the alternative conditions under which a field has one of the values."""
    alternatives = [models.IsEmptyCondition(is_empty=models.PayloadField(key=name))] if None in values else []
    for kind in (str, int):
        matching = [value for value in values if type(value) is kind]
        if matching:
            alternatives.append(models.FieldCondition(key=name, match=models.MatchAny(any=matching)))
    for value in values:
        if isinstance(value, bool):
            alternatives.append(models.FieldCondition(key=name, match=models.MatchValue(value=value)))
        elif isinstance(value, float):
            alternatives.append(models.FieldCondition(key=name, range=models.Range(gte=value, lte=value)))
    return alternatives


def to_point_id(key: Any) -> int | str | None:
    """Convert a key to an id of Qdrant, an integer or the text of a UUID; None if this is impossible."""
    if isinstance(key, str) and not key.isdecimal():
        try:
            return str(UUID(key))
        except ValueError:
            return None
    return int(key) if 0 <= int(key) < 1 << 64 else None
