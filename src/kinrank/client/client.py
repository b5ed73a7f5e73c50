"""Client: the words of a Manifold, answered by a service."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike

from kinrank import given
from kinrank.client.answers import Receipt, Scored
from kinrank.client.line import Line
from kinrank.client.words import File, body, filtered, method_and_parameters, pictured, ranking_of, worded
from kinrank.features import Vectors, check
from kinrank.manifold.explanation import OnlineExplanation
from kinrank.manifold.searching import a_distance
from kinrank.methods import Method
from kinrank.parameters import whole_number
from kinrank.ranking import Ranking

LONGEST_WAIT = 86_400.0  # seconds


class Client:
    """A gallery that `kinrank serve` serves, used as if it were a Manifold here. Many threads may share one.

    It sees its own changes, whichever process of the service answers: with every question it sends the version of its
    last change, which is `client.version`.

    Args:
        url: where the service listens, such as http://127.0.0.1:8000; a path behind it is kept.
        token: what the service was started with, if it was.
        timeout: seconds to wait for the service at each step of a request; then comes a TimeoutError.
        retries: how often a request is sent again that was answered 503, after the time the service asks for; then
            comes a `kinrank.client.Busy`, which is a ConnectionError.

    What the service refuses is a ValueError with its sentence, a token that is missing or may not write a
    PermissionError. A request that only reads is sent once more where a connection broke. A change is not, and the
    error says that its outcome is unknown; but `upsert` and `observe` are, because they do the same twice.

    Example:
        >>> with kinrank.Client("http://127.0.0.1:8000", token="...") as client:
        ...     client.search(queries, k=10).ids
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 30.0, retries: int = 3) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= LONGEST_WAIT:
            raise ValueError(f"timeout={timeout!r} is not allowed; give seconds above 0 and up to {LONGEST_WAIT:g}")
        self._line = Line(url, token, float(timeout), whole_number(retries, "retries", low=0))
        self._changing = threading.Lock()
        self.version = 0

    def search(
        self,
        queries: ArrayLike | None = None,
        k: int = 10,
        depth: int | None = None,
        budget: int | None = None,
        max_distance: float | None = None,
        *,
        ids: ArrayLike | None = None,
        numbers: ArrayLike | None = None,
        texts: Sequence[str] | None = None,
        images: Sequence[File] | None = None,
        where: Any = None,
        positives: Any = None,
        negatives: Any = None,
        groups: ArrayLike | None = None,
        method: Method | str | None = None,
        parameters: Mapping[str, Any] | None = None,
        candidates: int | None = None,
    ) -> Ranking:
        """The k best items of every query, as `Manifold.search` finds them; who asks is one of five.

        Args:
            queries: (q, d) rows, one per query.
            ids: items of the gallery that ask instead; they are not among their own results.
            numbers: of queries that the service was started with (`--queries`), which ask instead.
            texts: words that describe what is looked for, where the service can encode them.
            images: pictures, as paths of files or as their bytes, where the service can encode them.
            k, depth, budget, max_distance, positives, negatives, groups: as in `Manifold.search`.
            where: only these items are results: a list of ids; over a database also a mapping of columns to values.
            method: another method than the prepared one, itself or its name. It works on candidates only.
            parameters: those of a method given by its name.
            candidates: how many of the nearest items such a method re-ranks.

        Returns:
            Ranking of `depth` columns, k unless given, padded where fewer were found. `indices` are the ids where these
            are whole numbers from 0; where they are not, they only tell the items of this ranking apart.
        """
        rows = None if queries is None else check(queries, "queries")
        farthest = a_distance(max_distance)
        asked = body(
            vectors=rows,
            ids=None if ids is None else given.listed(ids, "ids"),
            queries=None if numbers is None else given.listed(numbers, "numbers"),
            texts=None if texts is None else worded(texts),
            images=None if images is None else pictured(images),
            k=whole_number(k, "k"),
            depth=depth,
            budget=budget,
            max_distance=None if math.isinf(farthest) and farthest > 0 else farthest,
            where=filtered(where),
            positives=positives,
            negatives=negatives,
            groups=groups,
            **method_and_parameters(method, parameters),
            candidates=candidates,
            min_version=self.version or None,
        )
        answer = self._line.call("POST", "/v1/search", asked)
        return ranking_of(answer, k if depth is None else depth)

    def explain(
        self, query: ArrayLike | None, item: Any, flows: int = 5, *, id: Any = None, number: int | None = None
    ) -> OnlineExplanation:
        """The cheapest chain from a query to an item, as `Manifold.explain` tells it.

        Args:
            query: one vector, (d,) or (1, d); or None, and an item of the gallery asks, `id=`, or a query that the
                service was started with, `number=`.
            item: its id, or its number where the gallery has no ids.
            flows: how many of the largest movements of mass to keep per step.
        """
        asked = body(
            vector=None if query is None else _single(query, "query"),
            id=id,
            query=number,
            item=item,
            flows=flows,
            min_version=self.version or None,
        )
        return OnlineExplanation.from_dict(self._line.call("POST", "/v1/explain", asked))

    def rerank(
        self,
        query: ArrayLike,
        vectors: ArrayLike,
        method: Method | str | None = None,
        parameters: Mapping[str, Any] | None = None,
        top_n: int | None = None,
        metric: str | None = None,
    ) -> list[Scored]:
        """The vectors that some search found for a query, in a better order; the gallery has no part in it.

        Args:
            query: one vector, (d,) or (1, d).
            vectors: (n, d) rows.
            method: a method or its name, LPMT unless given; `parameters` are those of one given by its name.
            top_n: how many to return; all of them unless given.
            metric: "cosine", or "euclidean" where the length of vectors matters.
        """
        asked = body(
            query=_single(query, "query"),
            vectors=check(vectors, "vectors"),
            **method_and_parameters(method, parameters),
            top_n=top_n,
            metric=metric,
        )
        results = self._line.call("POST", "/v1/rerank", asked)["results"]
        return [Scored(one["index"], one["relevance_score"]) for one in results]

    def add(self, vectors: ArrayLike, ids: ArrayLike | None = None) -> Receipt:
        """Add items, (m, d) rows with a new name each; without names in a gallery that has none. All, or none."""
        names = None if ids is None else given.names(ids).tolist()
        return self._changed("POST", "/v1/items", body(vectors=check(vectors, "vectors"), ids=names))

    def upsert(self, vectors: ArrayLike, ids: ArrayLike) -> Receipt:
        """Put items in place of those that have these ids, and add those whose ids are new: all, or none."""
        names = given.names(ids).tolist()
        sent = body(vectors=check(vectors, "vectors"), ids=names, replace=True)
        return self._changed("POST", "/v1/items", sent, again=True)

    def remove(self, ids: Any) -> Receipt:
        """Remove items by their ids, or by their numbers in a gallery without: all, or none."""
        return self._changed("DELETE", "/v1/items", body(ids=given.listed(ids, "ids")))

    def observe(
        self,
        queries: ArrayLike | None = None,
        *,
        texts: Sequence[str] | None = None,
        images: Sequence[File] | None = None,
    ) -> Receipt:
        """Let the service remember queries, as `Manifold.observe` does; later queries may then find more.

        Args:
            queries: (q, d) rows; or None, and `texts` or `images` are given.
            texts: words that were searched for, where the service can encode them.
            images: pictures, as paths of files or as their bytes, where the service can encode them.

        Returns:
            A receipt whose `observed` counts the queries that were taken in. Near-copies of a remembered query are left
            out when the change is applied; `info()["observed"]` says how many are remembered.
        """
        sent = body(
            vectors=None if queries is None else check(queries, "queries"),
            texts=None if texts is None else worded(texts),
            images=None if images is None else pictured(images),
        )
        return self._changed("POST", "/v1/observe", sent, again=True)

    def sync(self) -> Receipt:
        """Let the service follow the vector database it was started over (`--store`)."""
        return self._changed("POST", "/v1/sync", body())

    def get(self, id: Any, vector: bool = False) -> dict[str, Any]:
        """What is known of an item: id, name, label, text, its nearest neighbours and, where wanted, its vector."""
        words = quote(str(id), safe="")
        return self._line.call("GET", f"/v1/items/{words}?vector={'true' if vector else 'false'}{self._newest('&')}")

    def info(self) -> dict[str, Any]:
        """Facts about the gallery and the service: items, dimensions, method, version, whether it can be changed."""
        return self._line.call("GET", f"/v1/info{self._newest('?')}")

    def ready(self) -> bool:
        """Whether the service is there and answers searches."""
        try:
            return self._line.answer("GET", "/ready").status == 200
        except (ConnectionError, TimeoutError):
            return False

    def close(self) -> None:
        """Close the connections; the service goes on."""
        self._line.close()

    def __len__(self) -> int:
        return int(self.info()["items"])

    def __bool__(self) -> bool:
        return True  # without this, `if client:` would ask the service for its length

    def __repr__(self) -> str:
        return f"Client({self._line.address!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _changed(self, verb: str, path: str, sent: bytes, again: bool = False) -> Receipt:
        answer = self._line.call(verb, path, sent, again)
        receipt = Receipt._make(answer.get(name) for name in Receipt._fields)
        with self._changing:  # two threads that change at once must not set it back
            self.version = max(self.version, receipt.version)
        return receipt

    def _newest(self, sign: str) -> str:
        return f"{sign}min_version={self.version}" if self.version else ""


def _single(vector: ArrayLike, name: str) -> Vectors:
    """(d,) of a vector given as (d,) or (1, d)."""
    row = np.asarray(vector)
    rows = check(row[None, :] if row.ndim == 1 else row, name)
    if len(rows) != 1:
        raise ValueError(f"{name} has {len(rows)} rows; give one at a time")
    return rows.reshape(-1)
