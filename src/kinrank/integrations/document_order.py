"""Order of documents by a method, for all frameworks, and conversion of methods from and to plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.methods import METHODS, Method, find_method, resolve_method
from kinrank.parameters import check_whole_number
from kinrank.reranking import rerank
from kinrank.vector_space import check_metric

MethodInput = Method | str | Mapping[str, Any]  # a Method, its name, or a dict of its name and parameters


def to_method(method: Any) -> Method:
    """Return a Method from a Method, its name, or the result of `serialize_method`."""
    if not isinstance(method, Mapping):
        return resolve_method(method)
    if not isinstance(method.get("name"), str):
        raise InputError(
            "has no name", parameter="method", given=dict(method), allowed="a dict such as {'name': 'lpmt', 'k1': 20}"
        )
    kind = find_method(method["name"])
    chosen = {name: value for name, value in method.items() if name != "name"}
    known = [declared.name for declared in kind.parameters()]
    for name in chosen:
        if name not in known:
            raise InputError(f"method {kind.name!r} has no parameter {name!r}", allowed=f"some of: {', '.join(known)}")
    return kind(**chosen)


def serialize_method(method: MethodInput) -> str | dict[str, Any]:
    """Return the name of a method, or a dict of its name and the parameters that differ from their defaults."""
    made = to_method(method)
    if METHODS.get(made.name) is not type(made):
        raise InputError(
            "can be used but not saved: methods are loaded by their name in kinrank.METHODS, which does not contain it",
            parameter="method",
            given=made,
        )
    values = {declared.name: getattr(made, declared.name) for declared in made.parameters()}
    chosen = {entry.name: values[entry.name] for entry in made.parameters() if values[entry.name] != entry.default}
    return {"name": made.name, **chosen} if chosen else made.name


class DocumentOrder(NamedTuple):
    """Selected documents, best first.

    Attributes:
        places: positions of the documents in the input list.
        scores: finite and strictly decreasing scores: the negated distances of the method. They are comparable within
            one query only.
    """

    places: list[int]
    scores: list[float]


def order_documents(
    query_vector: Any,
    vectors: Sequence[Any],
    method: MethodInput = "lpmt",
    top_n: int | None = None,
    metric: str = "cosine",
    *,
    no_query: str = "give one",
    no_vector: str = "give one",
) -> DocumentOrder:
    """Order documents with a method, in one small graph with the query.

    Raise InputError for a vector that is missing, not finite, zero, or of another length than that of the query.

    Args:
        query_vector: (d,) numbers.
        vectors: vector of every document, (d,) numbers each, in the order of the search.
        method: a Method, its name in METHODS, or a dict of its name and parameters.
        top_n: number of documents to return; all by default.
        metric: "cosine", or "euclidean" if the length of vectors matters.
        no_query: remedy in the error if `query_vector` is None.
        no_vector: remedy in the error if a document has no vector.

    Example:
        >>> ordered([1, 0], [[0, 1], [1, 0.1]], "none").places
        [1, 0]
    """
    checked, top_n, metric = check_settings(method, top_n, metric)
    if not len(vectors):
        return DocumentOrder([], [])
    query = _check_vector(query_vector, "the query", no_query, metric)
    rows = [_check_vector(vector, f"document {place}", no_vector, metric) for place, vector in enumerate(vectors)]
    for place, row in enumerate(rows):
        if len(row) != len(query):
            raise InputError(
                f"document {place} has a vector of {len(row)} numbers, but that of the query has {len(query)}",
                remedy="use the same model for both",
            )
    ranking = rerank(query[None, :], np.stack(rows), checked, k=top_n, metric=metric)
    return DocumentOrder(ranking.indices[0].tolist(), _decreasing_scores(ranking.distances[0]))


def check_settings(method: Any, top_n: Any, metric: Any) -> tuple[Method, int | None, str]:
    """Validate and return the settings. Raise InputError for an unknown method or metric, or for `top_n` < 1."""
    return to_method(method), None if top_n is None else check_whole_number(top_n, "top_n"), check_metric(metric)


def find_missing(vectors: Sequence[Any]) -> list[int]:
    """Return the positions of documents without a vector."""
    return [place for place, vector in enumerate(vectors) if vector is None]


def fill_missing(vectors: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """Return the vectors with new ones at the positions where they are missing."""
    places = find_missing(vectors)
    if len(new) != len(places):
        raise InputError(f"the embedding model returned {len(new)} vectors for {len(places)} texts")
    found = dict(zip(places, new, strict=True))
    return [found.get(place, vector) for place, vector in enumerate(vectors)]


def _check_vector(vector: Any, whose: str, remedy: str, metric: str) -> NDArray[np.float32]:
    """Return a vector as (d,) float32. Raise InputError if it is not finite, or zero under cosine."""
    if vector is None:
        raise InputError(f"{whose} has no vector", remedy=remedy)
    try:
        array = np.asarray(vector)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"the vector of {whose} is not a list of numbers: {error}") from error
    array = array[0] if array.ndim == 2 and len(array) == 1 else array
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "fiub":
        raise InputError(
            f"the vector of {whose} has the shape {array.shape} and dtype {array.dtype}", allowed="a list of numbers"
        )
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf
        row = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(row).all():
        raise InputError(
            f"the vector of {whose} contains NaN or Inf (or a number beyond float32)",
            remedy="repair it or leave it out",
        )
    if metric == "cosine" and not row.any():
        raise InputError(
            f"the vector of {whose} is zero and has no direction", remedy="leave it out, or give `metric='euclidean'`"
        )
    return row


def _decreasing_scores(distances: NDArray[np.float32]) -> list[float]:
    """Return strictly decreasing scores, so that sorting by them restores this order, also in float32 and for ties."""
    scores = 0.0 - distances
    for place in range(1, len(scores)):
        scores[place] = min(scores[place], np.nextafter(scores[place - 1], np.float32(-np.inf)))
    return [float(score) for score in scores]
