"""ChromaStore: a Store over a Chroma collection, in a local folder or on a server."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.stores.client_utils import (
    call_with_timeout,
    check_header,
    check_unit_rows,
    filter_error,
    is_raised_by,
    parse_conditions,
    parse_flag,
)
from kinrank.stores.engine import SCAN_ROWS, EngineStore, Hits
from kinrank.stores.url import StoreUrl, parse_timeout
from kinrank.vector_input import Vectors

MIN_REQUESTED_ITEMS = 400  # Chroma's index finds the nearest items more reliably if more are requested
METRICS = {"cosine": "cosine", "ip": "cosine", "l2": "euclidean"}
REQUIREMENT = "ChromaStore", "chroma"
FIXED_COLUMNS = {"vector": "embedding", "key": "id"}  # Chroma gives no choice


class ChromaStore(EngineStore):
    """A Store over a Chroma collection. The ids are strings.

    Filters (`where`): a mapping of metadata names to values, or Chroma's own syntax, such as {"year": {"$gt": 2000}} or
    {"$or": [...]}.

    Args:
        collection: a `chromadb.Collection`; its client stays open.
        timeout: seconds to wait for an answer; None for no limit.
    """

    url_examples = ("chroma:///folder?table=items", "chroma://localhost:8000?table=items")
    _client: Any = None  # set if this store opened it

    def __init__(self, collection: Any, *, timeout: float | None = None) -> None:
        if not isinstance(collection, import_extra("chromadb", *REQUIREMENT).Collection):
            raise InputError(
                f"must be a chromadb.Collection; got a {type(collection).__name__}", parameter="collection"
            )
        self._name = str(collection.name)
        self.timeout = parse_timeout(timeout)
        self._set_collection(collection)

    @classmethod
    def from_url(cls, url: StoreUrl) -> ChromaStore:
        """Open chroma:///folder?table=items, or chroma://user:password@host:8000?table=items on a server.

        Options: table, timeout; for a server also https, tenant, database and token. The environment variable
        CHROMA_API_KEY can replace the token.
        """
        store = cls.__new__(cls)
        if url.host is None:
            options = url.check_options("table", "timeout", fixed=FIXED_COLUMNS)
            open_client = partial(_open_folder, url.require("path", "a folder or a server"))
        else:
            url = url.take_table_from_path()
            options = url.check_options("table", "timeout", "https", "tenant", "database", "token", fixed=FIXED_COLUMNS)
            open_client = partial(_connect_server, url, options)
        store._name = url.require_table()
        store.timeout = parse_timeout(options.get("timeout", None if url.host is None else 30.0))
        store._client = store._call(store._call_client, open_client)
        try:
            given = partial(store._client.get_collection, store._name, embedding_function=None)
            store._set_collection(store._call(store._call_client, given))
        except BaseException:
            store._close()
            raise
        return store

    def __repr__(self) -> str:
        return f"ChromaStore({self._name})"

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        """Search ids first, then fetch each vector once. For Chroma this is faster than a search with vectors."""
        found = self._search_ids(rows, k, to_chroma_filter(where))
        return self._attach_vectors(found, self._fetch) if vectors else found

    def _search_ids(self, rows: Vectors, k: int, where: Any) -> list[Hits]:
        for requested in (max(2 * k, MIN_REQUESTED_ITEMS), k):
            try:
                answer = self._call_client(
                    self._collection.query,
                    query_embeddings=rows,
                    n_results=requested,
                    where=where,
                    include=["distances"],
                )
                break
            except Exception as error:
                if "contiguous 2D array" not in str(error):  # from servers before 1.0 if the index finds fewer items
                    raise
        else:
            raise InputError(
                f"the index of {self!r} cannot find {k} items",
                remedy=f"request fewer, or create the collection with ef_search (hnsw:search_ef) >= {k}",
            )
        return [
            Hits(ids[:k], None, self._to_euclidean(np.array(gaps[:k], np.float64)))
            for ids, gaps in zip(answer["ids"], answer["distances"], strict=True)
        ]

    def _fetch(self, keys: list[Any]) -> Hits:
        wanted, names, parts = [key for key in keys if isinstance(key, str) and key], [], []
        for start in range(0, len(wanted), SCAN_ROWS):
            block, rows = self._get_items(ids=wanted[start : start + SCAN_ROWS])
            names += block
            parts += [rows] if block else []
        rows = np.concatenate(parts) if parts else self._no_rows()
        return Hits(names, check_unit_rows(rows, self) if self._space == "ip" else rows)

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        ids = self._call_client(self._collection.get, where=to_chroma_filter(where), include=[])["ids"]
        for start in range(0, len(ids), SCAN_ROWS):
            block = ids[start : start + SCAN_ROWS]
            yield self._fetch(block) if vectors else Hits(block)

    def _count(self) -> int:
        return int(self._call_client(self._collection.count))

    def _classify(self, error: Exception) -> type[Exception] | None:
        httpx = import_extra("httpx", *REQUIREMENT)
        for cause in (error, error.__context__):  # the client converts some of them to ValueError
            if isinstance(cause, httpx.TransportError):
                return TimeoutError if isinstance(cause, httpx.TimeoutException) else ConnectionError
        if isinstance(error, TimeoutError):
            return TimeoutError
        return InputError if is_raised_by(error, "chromadb") else None

    def _close(self) -> None:
        if self._client is not None:
            session = getattr(getattr(self._client, "_server", None), "_session", None)
            for resource in (self._client, session):  # the client leaves its connections to the garbage collector
                getattr(resource, "close", lambda: None)()

    def _set_collection(self, collection: Any) -> None:
        self._collection, self._space = collection, _detect_space(collection)
        if self._space not in METRICS:
            raise InputError(f"{self!r} compares by {self._space!r}", remedy="use cosine, l2, or ip with unit vectors")
        self.metric = METRICS[self._space]
        self._call(self._get_items, 1)

    def _get_items(self, limit: int | None = None, ids: list[str] | None = None) -> tuple[list[str], Vectors]:
        """Return items and their vectors, and update `dimensions`, which the collection may report incorrectly."""
        try:
            found = self._call_client(self._collection.get, ids=ids, limit=limit, include=["embeddings"])
        except Exception as error:
            if "Error finding id" not in str(error):
                raise
            raise InputError(
                f"{self!r} was changed by another client, and this client does not see the change",
                remedy="open it again, or run a server",
            ) from error
        if not found["ids"]:
            return [], self._no_rows()
        rows = np.asarray(found["embeddings"], np.float32)
        self.dimensions = rows.shape[1]
        return list(found["ids"]), rows

    def _to_euclidean(self, gaps: Any) -> Any:
        """Convert Chroma's distances: l2 is the squared distance, cosine and ip are one minus the inner product."""
        return np.sqrt(np.maximum(gaps if self._space == "l2" else 2.0 * gaps, 0.0))

    def _call_client(self, call: Callable[..., Any], **given: Any) -> Any:
        return call_with_timeout(partial(call, **given), self.timeout)


def _detect_space(collection: Any) -> str:
    """Return the distance function of a collection. Its location depends on the version of Chroma."""
    configured = getattr(collection, "configuration_json", None) or {}
    for index in ("hnsw", "spann"):
        space = (configured.get(index) or {}).get("space")
        if space:
            return str(space)
    return str((collection.metadata or {}).get("hnsw:space", "l2"))


def _open_folder(folder: str) -> Any:
    chroma, config = import_extra("chromadb", *REQUIREMENT), import_extra("chromadb.config", *REQUIREMENT)
    if not (Path(folder) / "chroma.sqlite3").is_file():  # the client would create an empty folder
        raise InputError(f"{folder!r} is not a Chroma folder")
    try:
        return chroma.PersistentClient(folder, config.Settings(anonymized_telemetry=False))
    except ValueError:  # this process has already opened it with other settings
        return chroma.PersistentClient(folder)


def _connect_server(url: StoreUrl, options: Mapping[str, str]) -> Any:
    chroma, config = import_extra("chromadb", *REQUIREMENT), import_extra("chromadb.config", *REQUIREMENT)
    headers = {}
    token = check_header(options.get("token") or os.environ.get("CHROMA_API_KEY"), "the token for Chroma")
    if token is not None:
        headers["X-Chroma-Token"] = token
    if url.user is not None:
        pair = base64.b64encode(f"{url.user}:{url.password or ''}".encode())
        headers["Authorization"] = f"Basic {pair.decode()}"
    spaces = {name: options[name] for name in ("tenant", "database") if name in options}
    return chroma.HttpClient(
        url.host,
        url.port or 8000,
        parse_flag(options, "https"),
        headers,
        config.Settings(anonymized_telemetry=False),
        **spaces,
    )


def to_chroma_filter(where: Any) -> dict[str, Any] | None:
    """Convert a mapping of metadata names to values or to conditions of Chroma. All of them must hold.

    Example:
        >>> filter_of({"kind": "cat", "year": {"$gt": 2000}})
        {'$and': [{'kind': {'$in': ['cat']}}, {'year': {'$gt': 2000}}]}
    """
    if where is None:
        return None
    if not isinstance(where, Mapping):
        raise filter_error(
            where, 'a mapping of metadata names to values, such as {"kind": "cat"}, or a filter of Chroma'
        )
    own = {name for name, value in where.items() if str(name).startswith("$") or isinstance(value, Mapping)}
    plain = {name: value for name, value in where.items() if name not in own}
    parts = [{name: where[name]} for name in where if name in own]
    for name, values in parse_conditions(plain) if plain or not own else []:
        if None in values:
            raise InputError(
                f"has None for {name!r}, but Chroma cannot search for items without a value", parameter="where"
            )
        kinds = dict.fromkeys(map(type, values))  # the values of a list must have one type
        alternatives = [{name: {"$in": [value for value in values if type(value) is kind]}} for kind in kinds]
        parts.append(alternatives[0] if len(alternatives) == 1 else {"$or": alternatives})
    return parts[0] if len(parts) == 1 else {"$and": parts}
