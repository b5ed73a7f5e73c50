"""The vectors of a query and of documents, as frameworks hold them -> a new order, and scores that fall along it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.integrations.methods import HowTo, method_of
from kinrank.methods import Method
from kinrank.parameters import whole_number
from kinrank.rerank import rerank
from kinrank.space import check_metric


class Order(NamedTuple):
    """Some documents, best first.

    Attributes:
        places: their places in the list that was given.
        scores: one for each, finite, every one smaller than the one before it. They are the negated distances of the
            method: they order the documents of one query and mean nothing beyond.
    """

    places: list[int]
    scores: list[float]


def ordered(
    query_vector: Any,
    vectors: Sequence[Any],
    method: HowTo = "lpmt",
    top_n: int | None = None,
    metric: str = "cosine",
    *,
    no_query: str = "give one",
    no_vector: str = "give one",
) -> Order:
    """The documents in the order of a method, in one small graph with the query.

    Args:
        query_vector: (d,) numbers.
        vectors: the vector of every document, (d,) numbers each; they stand in the order of the search.
        method: a Method, its name in METHODS, or a dict of its name and parameters.
        top_n: how many documents to return; all of them unless given.
        metric: "cosine", or "euclidean" where the length of vectors matters.
        no_query: what to do where `query_vector` is None, for the end of the error.
        no_vector: what to do where a document has None for a vector.

    A vector that is missing, of another length than that of the query, not finite, or zero is a ValueError.

    Example:
        >>> ordered([1, 0], [[0, 1], [1, 0.1]], "none").places
        [1, 0]
    """
    checked, top_n, metric = settings(method, top_n, metric)
    if not len(vectors):
        return Order([], [])
    query = _row(query_vector, "the query", no_query, metric)
    rows = [_row(vector, f"document {place}", no_vector, metric) for place, vector in enumerate(vectors)]
    for place, row in enumerate(rows):
        if len(row) != len(query):
            raise ValueError(
                f"document {place} has a vector of {len(row)} numbers but that of the query has {len(query)}; both "
                "must come from the same model"
            )
    ranking = rerank(query[None, :], np.stack(rows), checked, depth=top_n, metric=metric)
    return Order(ranking.indices[0].tolist(), _falling(ranking.distances[0]))


def settings(method: Any, top_n: Any, metric: Any) -> tuple[Method, int | None, str]:
    """The same, checked: a ValueError for a method or metric that is not known, or a number that is not positive."""
    return method_of(method), None if top_n is None else whole_number(top_n, "top_n"), check_metric(metric)


def lacking(vectors: Sequence[Any]) -> list[int]:
    """The places of documents that have no vector yet."""
    return [place for place, vector in enumerate(vectors) if vector is None]


def filled(vectors: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """The vectors, with new ones at the places where they were lacking."""
    places = lacking(vectors)
    if len(new) != len(places):
        raise ValueError(
            f"the embedding model gave {len(new)} vectors for {len(places)} texts; it must give one for each"
        )
    found = dict(zip(places, new, strict=True))
    return [found.get(place, vector) for place, vector in enumerate(vectors)]


def _row(vector: Any, whose: str, remedy: str, metric: str) -> NDArray[np.float32]:
    """(d,) float32 numbers, finite, and with a direction where that is what counts."""
    if vector is None:
        raise ValueError(f"{whose} has no vector; {remedy}")
    try:
        array = np.asarray(vector)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{whose} has a vector that is no row of numbers: {error}") from error
    array = array[0] if array.ndim == 2 and len(array) == 1 else array
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{whose} has a vector that is no row of numbers but of shape {array.shape} and dtype {array.dtype}; give "
            "a list of numbers"
        )
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf
        row = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(row).all():
        raise ValueError(
            f"{whose} has a vector with NaN or Inf (or a number beyond float32); repair it or leave it out"
        )
    if metric == "cosine" and not row.any():
        raise ValueError(f"{whose} has a zero vector, which has no direction; leave it out, or give metric='euclidean'")
    return row


def _falling(distances: NDArray[np.float32]) -> list[float]:
    """Larger is better, and no two are equal: whoever sorts by them gets this order, ties included, in float32 too."""
    scores = 0.0 - distances
    for place in range(1, len(scores)):
        scores[place] = min(scores[place], np.nextafter(scores[place - 1], np.float32(-np.inf)))
    return [float(score) for score in scores]
