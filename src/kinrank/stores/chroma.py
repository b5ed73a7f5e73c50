"""ChromaStore: a collection of Chroma, in this process or on a server -> a Store."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.stores.address import Address, number, seconds
from kinrank.stores.chroma_filters import filter_of
from kinrank.stores.clients import flag, header, raised_by, unit_checked, waited
from kinrank.stores.engine import LOST, REFUSED, SCANNED, SLOW, EngineStore, Hits

LEAST = 400  # items to ask for: the more are asked for, the better Chroma's index finds the first of them
METRICS = {"cosine": "cosine", "ip": "cosine", "l2": "euclidean"}
NEEDS = "ChromaStore", "chroma"


class ChromaStore(EngineStore):
    """The items of a Chroma collection, by their ids, which are texts.

    Filters (`where`): a mapping of metadata names to values, or Chroma's own form, such as {"year": {"$gt": 2000}} or
    {"$or": [...]}.

    Args:
        collection: a `chromadb.Collection`; its client stays open.
        timeout: seconds after which an answer is no longer waited for; None for no limit.
    """

    _client: Any = None  # one that was opened here

    def __init__(self, collection: Any, *, timeout: float | None = None) -> None:
        if not isinstance(collection, needed("chromadb", *NEEDS).Collection):
            raise ValueError(f"collection must be a chromadb.Collection; got a {type(collection).__name__}")
        self._name = str(collection.name)
        self.timeout = None if timeout is None else number(timeout, "timeout")
        self._use(collection)

    @classmethod
    def at(cls, address: Address) -> ChromaStore:
        """The store at chroma:///folder#collection, or chroma://user:password@host:8000/collection on a server.

        Options: timeout; of a server also https, tenant, database, and token, which may stand in the variable
        CHROMA_API_KEY instead.
        """
        store = cls.__new__(cls)
        if address.host is None:
            options = address.only("timeout")
            opened = partial(_in_folder, address.needed("path", "a folder or a server"))
            store._name = address.needed("fragment", "the name of the collection behind #")
        else:
            options = address.only("timeout", "https", "tenant", "database", "token")
            opened = partial(_on_server, address, options)
            store._name = address.needed("path", "the name of the collection behind the server")
        store.timeout = seconds(options, None if address.host is None else 30.0)
        store._client = store._ask(store._answer, opened)
        try:
            given = partial(store._client.get_collection, store._name, embedding_function=None)
            store._use(store._ask(store._answer, given))
        except BaseException:
            store._close()
            raise
        return store

    def __repr__(self) -> str:
        return f"ChromaStore({self._name})"

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        """Ids first, then their vectors, each once: that is faster here than vectors that come with the search."""
        found = self._nearest(rows, k, filter_of(where))
        if not vectors:
            return found
        keys, held, _ = self._fetch(list(dict.fromkeys(key for hits in found for key in hits.keys)))
        places, hits = {key: place for place, key in enumerate(keys)}, []
        for ids, _, gaps in found:
            there = np.array([places.get(key, -1) for key in ids], np.int64)
            assert held is not None
            assert gaps is not None
            left = [key for key in ids if key in places]
            hits.append(Hits(left, held[there[there >= 0]], gaps[there >= 0]))
        return hits

    def _nearest(self, rows: Vectors, k: int, where: Any) -> list[Hits]:
        for asked in (max(2 * k, LEAST), k):
            try:
                answer = self._answer(
                    self._collection.query, query_embeddings=rows, n_results=asked, where=where, include=["distances"]
                )
                break
            except Exception as error:
                if "contiguous 2D array" not in str(error):  # servers before 1.0 say so where the index finds fewer
                    raise
        else:
            raise ValueError(
                f"the index of {self!r} cannot find {k} items; ask for fewer, or make the collection with a larger "
                f"ef_search (hnsw:search_ef), at least {k}"
            )
        return [
            Hits(ids[:k], None, self._euclidean(np.array(gaps[:k], np.float64)))
            for ids, gaps in zip(answer["ids"], answer["distances"], strict=True)
        ]

    def _fetch(self, keys: list[Any]) -> Hits:
        wanted, names, parts = [key for key in keys if isinstance(key, str) and key], [], []
        for start in range(0, len(wanted), SCANNED):
            some, rows = self._held(ids=wanted[start : start + SCANNED])
            names += some
            parts += [rows] if some else []
        rows = np.concatenate(parts) if parts else self._nothing()
        return Hits(names, unit_checked(rows, self) if self._space == "ip" else rows)

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        ids = self._answer(self._collection.get, where=filter_of(where), include=[])["ids"]
        for start in range(0, len(ids), SCANNED):
            some = ids[start : start + SCANNED]
            yield self._fetch(some) if vectors else Hits(some)

    def _count(self) -> int:
        return int(self._answer(self._collection.count))

    def _kind(self, error: Exception) -> str | None:
        httpx = needed("httpx", *NEEDS)
        for one in (error, error.__context__):  # some are turned into a ValueError by the client
            if isinstance(one, httpx.TransportError):
                return SLOW if isinstance(one, httpx.TimeoutException) else LOST
        if isinstance(error, TimeoutError):
            return SLOW
        return REFUSED if raised_by(error, "chromadb") else None

    def _close(self) -> None:
        if self._client is not None:
            session = getattr(getattr(self._client, "_server", None), "_session", None)
            for one in (self._client, session):  # the client leaves its connections to the garbage collector
                getattr(one, "close", lambda: None)()

    def _use(self, collection: Any) -> None:
        self._collection, self._space = collection, _space(collection)
        if self._space not in METRICS:
            raise ValueError(f"{self!r} compares by {self._space!r}; kinrank knows cosine, l2, and ip of unit vectors")
        self.metric = METRICS[self._space]
        self._ask(self._held, 1)

    def _held(self, limit: int | None = None, ids: list[str] | None = None) -> tuple[list[str], Vectors]:
        """Some items and their vectors; what the collection says of its dimensions may be older than these."""
        try:
            found = self._answer(self._collection.get, ids=ids, limit=limit, include=["embeddings"])
        except Exception as error:
            if "Error finding id" not in str(error):
                raise
            raise ValueError(
                f"{self!r} was changed by another client, which this one does not see; open it again, or run a server"
            ) from error
        if not found["ids"]:
            return [], self._nothing()
        rows = np.asarray(found["embeddings"], np.float32)
        self.dimensions = rows.shape[1]
        return list(found["ids"]), rows

    def _euclidean(self, gaps: Any) -> Any:
        """Chroma's l2 is the square of the distance; the others are one minus the inner product."""
        return np.sqrt(np.maximum(gaps if self._space == "l2" else 2.0 * gaps, 0.0))

    def _answer(self, call: Callable[..., Any], **given: Any) -> Any:
        return waited(partial(call, **given), self.timeout)


def _space(collection: Any) -> str:
    """How a collection compares. Chroma has kept it in several places, over the years."""
    configured = getattr(collection, "configuration_json", None) or {}
    for index in ("hnsw", "spann"):
        space = (configured.get(index) or {}).get("space")
        if space:
            return str(space)
    return str((collection.metadata or {}).get("hnsw:space", "l2"))


def _in_folder(folder: str) -> Any:
    chroma, config = needed("chromadb", *NEEDS), needed("chromadb.config", *NEEDS)
    if not (Path(folder) / "chroma.sqlite3").is_file():  # the client would make an empty folder
        raise ValueError(f"{folder!r} is no folder of Chroma")
    try:
        return chroma.PersistentClient(folder, config.Settings(anonymized_telemetry=False))
    except ValueError:  # this process has it open already, with other settings
        return chroma.PersistentClient(folder)


def _on_server(address: Address, options: Mapping[str, str]) -> Any:
    chroma, config = needed("chromadb", *NEEDS), needed("chromadb.config", *NEEDS)
    headers = {}
    token = header(options.get("token") or os.environ.get("CHROMA_API_KEY"), "the token for Chroma")
    if token is not None:
        headers["X-Chroma-Token"] = token
    if address.user is not None:
        pair = base64.b64encode(f"{address.user}:{address.password or ''}".encode())
        headers["Authorization"] = f"Basic {pair.decode()}"
    spaces = {name: options[name] for name in ("tenant", "database") if name in options}
    return chroma.HttpClient(
        address.host, address.port or 8000, flag(options, "https"), headers,
        config.Settings(anonymized_telemetry=False), **spaces,
    )  # fmt: skip
