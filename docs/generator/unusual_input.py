"""Results of a method for unusual input, computed by running it."""

from __future__ import annotations

import dataclasses
import tempfile

import numpy as np
from numpy.typing import NDArray

import kinrank
from kinrank.methods import Method
from kinrank.methods.learned_method import LearnedMethod
from kinrank.ranking import Ranking
from kinrank_bench.random_weights import add_random_weights

Rows = NDArray[np.float64]
PAIRS, STRANGERS = 30, 60


def list_results(kind: type[Method]) -> list[tuple[str, str]]:
    """(input, result) for the kinds of unusual input on every page."""
    if issubclass(kind, LearnedMethod):
        return _list_learned_results(kind)
    return [
        ("a parameter outside its range", outside(kind)),
        ("a gallery smaller than k", small_gallery(kind())),
        ("one relevant item per query", pairs(kind())),
        ("duplicate rows", duplicates(kind())),
        ("an isolated item", isolated(kind())),
    ]


def _list_learned_results(kind: type[LearnedMethod]) -> list[tuple[str, str]]:
    """With random weights, which contain no information about relevance."""
    with tempfile.TemporaryDirectory() as folder:
        ready = [add_random_weights(kind(), f"{folder}/{dimensions}.npz", dimensions) for dimensions in (8, 12, 13)]
        foreign = "lattqe" if kind().weights_name == "csa" else "csa"
        add_random_weights(foreign, f"{folder}/{foreign}.npz", 8)
        return [
            ("no weights", refusal(kind())),
            ("weights of another method", refusal(kind(weights=f"{folder}/{foreign}.npz")).replace(f"{folder}/", "")),
            ("weights that do not exist", refusal(kind(weights="none.npz"))),
            ("a gallery smaller than k", small_gallery(ready[0])),
            ("duplicate rows", duplicates(ready[1])),
            ("an isolated item", isolated(ready[2])),
        ]


def refusal(method: Method) -> str:
    """The error it raises."""
    try:
        kinrank.rerank(np.eye(8)[:2], np.eye(8), method)
    except (ValueError, OSError) as error:
        kind = type(error).__name__
        return f"`{kind}`: {error}"
    raise RuntimeError(f"{method!r} should have refused")


def outside(kind: type[Method]) -> str:
    """The error for the first parameter that has a limited range."""
    for declared in kind.parameters():
        value = "other" if declared.choices else (declared.low or 0) - 1 if declared.low is not None else None
        if declared.kind is int and isinstance(value, float):
            value = int(value)
        try:
            kind(**{declared.name: value})
        except ValueError as error:
            return f"`{type(error).__name__}`: {error}"
    return "The method has no parameters."


def small_gallery(method: Method) -> str:
    """Six items, two groups; once with the defaults and once with every integer parameter set to 1000."""
    rng = np.random.default_rng(0)
    centres = np.eye(8)[[0, 1]]
    gallery = np.repeat(centres, 3, axis=0) + 0.1 * rng.normal(size=(6, 8))
    queries = centres + 0.1 * rng.normal(size=(2, 8))
    large = {p.name: int(min(1000, p.high or 1000)) for p in method.parameters() if p.kind is int}
    huge = _complete(kinrank.rerank(queries, gallery, dataclasses.replace(method, **large)), 6)
    usual = _complete(kinrank.rerank(queries, gallery, method), 6)
    first = all(set(row[:3]) == group for row, group in zip(usual.tolist(), ({0, 1, 2}, {3, 4, 5}), strict=True))
    same = first and all(
        set(row[:3]) == set(other[:3]) for row, other in zip(huge.tolist(), usual.tolist(), strict=True)
    )
    if same:
        order = "and the query's own group comes first"
    elif first:
        order = "and the query's own group comes first with the defaults, but not with 1000"
    else:
        order = "but the query's own group may not come first: choose smaller values"
    numbers = ", also with every integer parameter set to 1000" if large else ""
    return f"All 6 items of two groups are ranked{numbers}, {order}."


def pairs(method: Method) -> str:
    """A sentence about the results for queries with a single relevant item."""
    count, found, plain = one_positive(method)
    verdict = "Changes little" if abs(found - plain) <= 1 else "Helps" if found > plain else "Hurts"
    text = f"{found} of {count} queries find it first, {plain} without re-ranking"
    return f"{verdict} on a synthetic set of pairs: {text}."


def one_positive(method: Method) -> tuple[int, int, int]:
    """(queries, relevant items in first place with the method, the same without re-ranking)."""
    rng = np.random.default_rng(1)
    queries = rng.normal(size=(PAIRS, 16))
    right = queries + 0.9 * rng.normal(size=queries.shape)
    gallery = np.concatenate([right, rng.normal(size=(STRANGERS, 16))])
    hits = [
        int((kinrank.rerank(queries, gallery, asked).indices[:, 0] == np.arange(PAIRS)).sum())
        for asked in (method, kinrank.methods.NoReranking())
    ]
    return PAIRS, hits[0], hits[1]


def duplicates(method: Method) -> str:
    """Every row four times: whether equal rows have equal distances, in the order of their numbers."""
    rng = np.random.default_rng(2)
    distinct = np.repeat(3 * np.eye(12)[:3], 5, axis=0) + rng.normal(size=(15, 12))
    gallery = np.tile(distinct, (4, 1))
    ranking = kinrank.rerank(np.eye(12)[:3] + 0.1 * rng.normal(size=(3, 12)), gallery, method)
    _complete(ranking, len(gallery))
    distances = np.empty(ranking.distances.shape)
    np.put_along_axis(distances, ranking.indices, ranking.distances.astype(np.float64), axis=1)
    extent = np.ptp(distances, axis=1)[:, None]
    gap = (np.ptp(distances.reshape(3, 4, 15), axis=1) / extent).max()
    if gap <= 1e-5:
        return "All are ranked; equal rows have equal distances, and the lower item number comes first."
    return (
        "All are ranked, with finite distances. Equal rows may have different distances, because neighbour "
        "lists and ranks resolve ties in favour of the lower item number."
    )


def isolated(method: Method) -> str:
    """One item far from all groups: its rank as a result, and its own results as a query."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(3), 25)
    rows = np.zeros((76, 13))
    rows[:75, :12] = 3 * np.eye(12)[labels] + 0.3 * rng.normal(size=(75, 12))
    rows[75, :12] = 0.05 * rng.normal(size=12) - np.eye(12)[:3].sum(axis=0)  # on the other side of everything
    rows[75, 12] = 3
    queries = np.zeros((3, 13))
    queries[:, :12] = np.eye(12)[:3] + 0.05 * rng.normal(size=(3, 12))
    places = (_complete(kinrank.rerank(queries, rows, method), 76) == 75).argmax(axis=1)
    asked = kinrank.rerank(None, rows, method).indices[75].tolist()
    search = kinrank.rerank(None, rows, kinrank.methods.NoReranking()).indices[75].tolist()
    own = [int((labels == label).sum()) for label in range(3)]
    if (places == 75).all():
        place = "As a result it comes last"
    elif (places >= np.array(own)).all():
        place = "As a result it comes after the query's own group, but not last"
    else:
        place = "As a result it may come before some of the query's own group"
    order = "keeps the order of the search" if asked == search else "gets a re-ranked order like any other item"
    return f"{place}; as a query it {order}. Every distance is finite."


def _complete(ranking: Ranking, items: int) -> NDArray[np.int64]:
    """The indices, after checking that every row holds every item with a finite distance."""
    listed = (np.sort(ranking.indices, axis=1) == np.arange(items)).all()
    if not listed or not np.isfinite(ranking.distances).all():
        raise RuntimeError(f"{ranking.meta['method']} lost an item, or a distance is not finite")
    return ranking.indices
