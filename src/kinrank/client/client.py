"""The Client class: the methods of a Manifold, answered by a service."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from numpy.typing import ArrayLike

from kinrank.chain import Chain
from kinrank.client.http_transport import HttpTransport
from kinrank.client.json_messages import (
    ImageSource,
    Receipt,
    ScoredVector,
    check_texts,
    encode_body,
    encode_filter,
    encode_images,
    encode_method,
    parse_ranking,
)
from kinrank.errors import InputError
from kinrank.ids import parse_ids, to_list
from kinrank.manifold.snapshot import parse_max_distance
from kinrank.methods import Method
from kinrank.parameters import check_whole_number
from kinrank.ranking import Ranking
from kinrank.vector_input import Vectors, check_vectors

MAX_TIMEOUT_SECONDS = 86_400.0


class Client:
    """A gallery served by `kinrank serve`, used like a local Manifold. Many threads can share one Client.

    A Client sees its own changes, whichever process of the service answers: it sends the version of its last change,
    `client.version`, with every query.

    Args:
        url: URL of the service, such as http://127.0.0.1:8000, optionally with a path.
        token: token with which the service was started, if any.
        timeout: seconds to wait for the service at each step of a request; then a TimeoutError is raised.
        retries: number of times a request answered with 503 is sent again, after the time the service asks for; then a
            `kinrank.client.ServiceBusyError`, which is a ConnectionError, is raised.

    A refusal of the service raises an InputError with its message; a token that is missing or may not write raises a
    PermissionError. A request that only reads is sent once more if a connection breaks. A change is not, and the error
    says that its outcome is unknown; `upsert` and `observe` are sent again, because repeating them has no effect.

    Example:
        >>> with kinrank.Client("http://127.0.0.1:8000", token="...") as client:
        ...     client.search(queries, k=10).ids
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 30.0, retries: int = 3) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= MAX_TIMEOUT_SECONDS:
            raise InputError(
                parameter="timeout", given=timeout, allowed=f"seconds above 0 and up to {MAX_TIMEOUT_SECONDS:g}"
            )
        self._transport = HttpTransport(url, token, float(timeout), check_whole_number(retries, "retries", low=0))
        self._changing = threading.Lock()
        self.version = 0

    def search(
        self,
        queries: ArrayLike | None = None,
        k: int = 10,
        *,
        depth: int | None = None,
        budget: int | None = None,
        max_distance: float | None = None,
        ids: ArrayLike | None = None,
        numbers: ArrayLike | None = None,
        texts: Sequence[str] | None = None,
        images: Sequence[ImageSource] | None = None,
        where: Any = None,
        positives: Any = None,
        negatives: Any = None,
        groups: ArrayLike | None = None,
        method: Method | str | None = None,
        parameters: Mapping[str, Any] | None = None,
        candidates: int | None = None,
    ) -> Ranking:
        """Return the k best items of every query, as `Manifold.search` does. Give exactly one of five kinds of queries.

        Args:
            queries: (q, d) rows, one per query.
            ids: items of the gallery as queries; they are not among their own results.
            numbers: numbers of queries with which the service was started (`--queries`).
            texts: descriptions of what to find, if the service can encode texts.
            images: pictures, as paths of files or as their bytes, if the service can encode them.
            k, depth, budget, max_distance, positives, negatives, groups: as in `Manifold.search`.
            where: restrict results to these items: a list of ids; over a database also a mapping of columns to values.
            method: another method than the prepared one, or its name. It works on candidates only.
            parameters: parameters of a method given by its name.
            candidates: number of the nearest items that such a method re-ranks.

        Returns:
            Ranking with `depth` columns (default: k), padded if fewer items were found. `indices` are the ids if these
            are whole numbers from 0; otherwise they only distinguish the items of this ranking.
        """
        rows = None if queries is None else check_vectors(queries, "queries")
        farthest = parse_max_distance(max_distance)
        payload = encode_body(
            vectors=rows,
            ids=None if ids is None else to_list(ids, "ids"),
            queries=None if numbers is None else to_list(numbers, "numbers"),
            texts=None if texts is None else check_texts(texts),
            images=None if images is None else encode_images(images),
            k=check_whole_number(k, "k"),
            depth=depth,
            budget=budget,
            max_distance=None if math.isinf(farthest) and farthest > 0 else farthest,
            where=encode_filter(where),
            positives=positives,
            negatives=negatives,
            groups=groups,
            **encode_method(method, parameters),
            candidates=candidates,
            **self._min_version,
        )
        answer = self._transport.call("POST", "/v1/search", payload)
        return parse_ranking(answer, k if depth is None else depth)

    def explain(
        self, query: ArrayLike | None, item: Any, *, flows: int = 5, id: Any = None, number: int | None = None
    ) -> Chain:
        """Return the cheapest chain from a query to an item, as `Manifold.explain` does.

        Args:
            query: one vector, (d,) or (1, d); or None with an item of the gallery (`id`) or a query with which the
                service was started (`number`) as query.
            item: id of the item, or its number if the gallery has no ids.
            flows: number of the largest mass movements to keep per step.
            id: id of an item as query.
            number: number of a query of the service.
        """
        payload = encode_body(
            vector=None if query is None else _check_single(query, "query"),
            id=id,
            query=number,
            item=item,
            flows=flows,
            **self._min_version,
        )
        return Chain.from_dict(self._transport.call("POST", "/v1/explain", payload))

    def rerank(
        self,
        query: ArrayLike,
        vectors: ArrayLike,
        *,
        method: Method | str | None = None,
        parameters: Mapping[str, Any] | None = None,
        top_n: int | None = None,
        metric: str | None = None,
    ) -> list[ScoredVector]:
        """Re-rank the vectors that another search found for a query. The gallery is not used.

        Args:
            query: one vector, (d,) or (1, d).
            vectors: (n, d) rows.
            method: a method or its name. Default: LPMT.
            parameters: parameters of a method given by its name.
            top_n: number of vectors to return. Default: all.
            metric: "cosine", or "euclidean" if the length of vectors matters.
        """
        payload = encode_body(
            query=_check_single(query, "query"),
            vectors=check_vectors(vectors, "vectors"),
            **encode_method(method, parameters),
            top_n=top_n,
            metric=metric,
        )
        results = self._transport.call("POST", "/v1/rerank", payload)["results"]
        return [ScoredVector(result["index"], result["relevance_score"]) for result in results]

    def add(self, vectors: ArrayLike, ids: ArrayLike | None = None) -> Receipt:
        """Add items, (m, d) rows with one new id each; without ids if the gallery has none. All are added, or none."""
        names = None if ids is None else parse_ids(ids).tolist()
        return self._send_change("POST", "/v1/items", encode_body(vectors=check_vectors(vectors, "vectors"), ids=names))

    def upsert(self, vectors: ArrayLike, ids: ArrayLike) -> Receipt:
        """Replace the items that have these ids and add the items whose ids are new: all, or none."""
        names = parse_ids(ids).tolist()
        sent = encode_body(vectors=check_vectors(vectors, "vectors"), ids=names, replace=True)
        return self._send_change("POST", "/v1/items", sent, again=True)

    def remove(self, ids: Any) -> Receipt:
        """Remove items by their ids, or by their numbers if the gallery has no ids: all, or none."""
        return self._send_change("DELETE", "/v1/items", encode_body(ids=to_list(ids, "ids")))

    def observe(
        self,
        queries: ArrayLike | None = None,
        *,
        texts: Sequence[str] | None = None,
        images: Sequence[ImageSource] | None = None,
    ) -> Receipt:
        """Make the service observe queries, as `Manifold.observe` does; later queries may then find more.

        Args:
            queries: (q, d) rows; or None with `texts` or `images`.
            texts: searched texts, if the service can encode texts.
            images: pictures, as paths of files or as their bytes, if the service can encode them.

        Returns:
            A receipt whose `observed` is the number of accepted queries. Near-copies of an observed query are left out
            when the change is applied; `info()["observed"]` is the number of observed queries.
        """
        sent = encode_body(
            vectors=None if queries is None else check_vectors(queries, "queries"),
            texts=None if texts is None else check_texts(texts),
            images=None if images is None else encode_images(images),
        )
        return self._send_change("POST", "/v1/observe", sent, again=True)

    def sync(self) -> Receipt:
        """Make the service synchronise with the vector database over which it was started (`--store`)."""
        return self._send_change("POST", "/v1/sync", encode_body())

    def get(self, id: Any, vector: bool = False) -> dict[str, Any]:
        """Return facts about an item: id, name, label, text, its nearest neighbours and optionally its vector."""
        return self._get(f"/v1/items/{quote(str(id), safe='')}", vector="true" if vector else "false")

    def info(self) -> dict[str, Any]:
        """Return facts about the gallery and service: items, dimensions, method, version, whether it is writable."""
        return self._get("/v1/info")

    def ready(self) -> bool:
        """True if the service is running and answers searches."""
        try:
            return self._transport.answer("GET", "/ready").status == 200
        except (ConnectionError, TimeoutError):
            return False

    def close(self) -> None:
        """Close the connections; the service keeps running."""
        self._transport.close()

    def __len__(self) -> int:
        return int(self.info()["items"])

    def __bool__(self) -> bool:
        return True  # otherwise `if client:` would request the length from the service

    def __repr__(self) -> str:
        return f"Client({self._transport.address!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send_change(self, verb: str, path: str, sent: bytes, again: bool = False) -> Receipt:
        """Send a change and update `version`."""
        answer = self._transport.call(verb, path, sent, again)
        receipt = Receipt._make(answer.get(name) for name in Receipt._fields)
        with self._changing:  # a concurrent change must not decrease it
            self.version = max(self.version, receipt.version)
        return receipt

    def _get(self, path: str, **options: str) -> dict[str, Any]:
        query = urlencode(options | self._min_version)
        return self._transport.call("GET", f"{path}?{query}" if query else path)

    @property
    def _min_version(self) -> dict[str, int]:
        """The option that requests at least the version of the last change."""
        return {"min_version": self.version} if self.version else {}


def _check_single(vector: ArrayLike, name: str) -> Vectors:
    """Return (d,) of a vector given as (d,) or (1, d)."""
    rows = check_vectors(vector, name)
    if len(rows) != 1:
        raise InputError(f"has {len(rows)} rows", parameter=name, remedy="give one vector at a time")
    return rows.reshape(-1)
