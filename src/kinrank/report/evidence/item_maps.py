"""Maps of the items: 2-d layouts of vectors and states, and groups of items that share a colour."""

from __future__ import annotations

import importlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.display.display import MAX_NAME_CHARACTERS, Display
from kinrank.evaluation.relevance import Relevance
from kinrank.files.text_columns import shorten_text

MAX_MAP_ITEMS = 2000
COMPONENTS = 50  # dimensions before t-SNE
TSNE_MODULE = "sklearn.manifold"
MIN_TSNE_ITEMS = 12  # with fewer, neighbourhoods are too small for t-SNE
ROUNDS, NEIGHBOURS = 500, 30  # iterations and perplexity of t-SNE
MAX_QUERY_GROUPS = 30  # with a colour
SHARED_POSITIVES = 0.5  # share of the relevant items of one of two queries above which they belong together
MAX_COMPARED_QUERIES = 10_000  # above, queries are not compared with each other

Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Map:
    """A 2-d layout of items.

    Attributes:
        title: what was laid out.
        points: (m, 2) between 0 and 1.
    """

    title: str
    points: Points


def has_tsne() -> bool:
    """True if scikit-learn, which has t-SNE, can be imported."""
    try:
        importlib.import_module(TSNE_MODULE)
    except ImportError:
        return False
    return True


def compute_maps(parts: dict[str, Points], tsne: bool) -> list[Map]:
    """Lay out each part by t-SNE, or else by the first two principal components, in parallel."""
    with _limit_threads(tsne), ThreadPoolExecutor(2) as pool:
        drawn = list(pool.map(lambda rows: _lay_out(rows, tsne), parts.values()))
    return [Map(title, points) for title, points in zip(parts, drawn, strict=True)]


def _limit_threads(tsne: bool) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread while two maps are computed; the setting is global, so it is made once."""
    if not tsne:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits


def reduce_vectors(rows: NDArray[Any]) -> Points:
    """Return (m, at most COMPONENTS) principal components of the rows."""
    values = np.asarray(rows, np.float64)
    return _principal_components(values - values.mean(axis=0))


def reduce_states(states: Any) -> Points:
    """Reduce sparse distributions to (m, at most COMPONENTS), by the inner products of their square roots.

    A truncated singular value decomposition, computed from the m x m inner products.
    """
    roots = states.sqrt()
    return _decompose_products(np.asarray((roots @ roots.T).todense(), np.float64))


def _principal_components(rows: Points) -> Points:
    if not rows.size:
        return np.zeros((len(rows), 2))
    if rows.shape[1] >= len(rows):
        return _decompose_products(rows @ rows.T)  # without the other components, which takes a fifth of the time
    left, values, _ = np.linalg.svd(rows, full_matrices=False)
    return _fix_signs(left[:, :COMPONENTS] * values[:COMPONENTS])


def _decompose_products(products: Points) -> Points:
    """Return (m, at most COMPONENTS) points with nearly these inner products (m, m)."""
    from scipy.linalg import eigh

    count = len(products)
    if not count:
        return products
    values, vectors = eigh(products, subset_by_index=[max(0, count - COMPONENTS), count - 1])
    return _fix_signs((vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1])


def _fix_signs(columns: Points) -> Points:
    """Flip columns so that their largest entry is positive: a decomposition leaves the sign open."""
    if not len(columns):
        return columns
    largest = columns[np.abs(columns).argmax(axis=0), np.arange(columns.shape[1])]
    return columns * np.where(largest < 0, -1.0, 1.0)


def _lay_out(rows: Points, tsne: bool) -> Points:
    flat = _principal_components(rows - rows.mean(axis=0)) if len(rows) else rows
    flat = np.pad(flat, ((0, 0), (0, max(0, 2 - flat.shape[1]))))[:, :2]
    if tsne and len(rows) >= MIN_TSNE_ITEMS:
        flat = _run_tsne(rows, flat)
    low, high = (flat.min(axis=0), flat.max(axis=0)) if len(flat) else (np.zeros(2), np.zeros(2))
    span = float((high - low).max()) or 1.0
    return 0.5 + (flat - (low + high) / 2) / span


def _run_tsne(rows: Points, flat: Points) -> Points:
    """Run t-SNE from the principal components, so that equal rows give equal maps."""
    from threadpoolctl import threadpool_limits

    start = flat * (1e-4 / max(float(flat[:, 0].std()), 1e-12))
    perplexity = min(NEIGHBOURS, (len(rows) - 1) / 3)
    model = importlib.import_module(TSNE_MODULE).TSNE(
        init=start.astype(np.float32), perplexity=perplexity, max_iter=ROUNDS, random_state=0
    )
    with threadpool_limits(1, "openmp"):  # per thread: the OpenMP threads of two maps would wait for each other
        return np.asarray(model.fit_transform(rows.astype(np.float32)), np.float64)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of items.

    Attributes:
        of: (items,) number of the group of each item; -1 for none.
        names: names of the groups.
        about: a description in sentences.
    """

    of: NDArray[np.int64]
    names: list[str]
    about: str


def group_items(items: Display, queries: Display, relevance: Relevance, rows: int, count: int) -> Groups:
    """Group items by class if given; else by queries that share relevant items, such as views of one landmark."""
    if items.labels:
        classes = list(items.labels.values())
        names = sorted(set(classes), key=lambda name: (len(name) if name.isdigit() else 0, name))  # 2 before 10
        numbers_by_name = {name: place for place, name in enumerate(names)}
        return Groups(
            np.array([numbers_by_name[word] for word in classes], np.int64),
            [shorten_text(name, MAX_NAME_CHARACTERS) for name in names],
            "The colour shows the class of an item.",
        )
    right = [relevance.right(row) for row in range(rows)]
    joined = _join_queries(right, count)
    sizes = np.bincount(joined, [len(items) for items in right]) if rows else np.zeros(0)
    shown = np.argsort(-sizes, kind="stable")[:MAX_QUERY_GROUPS]
    numbers = np.full(len(sizes), -1, np.int64)
    numbers[shown] = np.arange(len(shown))
    group_names = [_common_name([queries.name(int(row)) for row in np.flatnonzero(joined == group)]) for group in shown]
    about = "The colour shows for which queries an item is right; queries with mostly the same right answers share one."
    limit_note = f" The {len(shown)} largest such groups have a colour." if len(shown) < len(sizes) else ""
    return Groups(_assign_items(right, numbers[joined], count), _make_distinct(group_names), about + limit_note)


def group_queries(queries: Display, relevance: Relevance, rows: int, count: int) -> NDArray[np.int64]:
    """Return (rows,) group numbers of the queries: by class if given, else by shared relevant items."""
    if queries.labels:
        classes = np.unique(np.asarray(list(queries.labels.values())), return_inverse=True)[1]
        return classes.reshape(-1).astype(np.int64)
    return _join_queries([relevance.right(row) for row in range(rows)], count)


def _join_queries(right: list[NDArray[np.int64]], count: int) -> NDArray[np.int64]:
    """Return (rows,) group numbers; queries that share most relevant items of one of them are in one group."""
    rows = len(right)
    sizes = np.array([len(items) for items in right], np.int64)
    if rows > MAX_COMPARED_QUERIES or not sizes.sum():
        return np.arange(rows)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    starts = np.concatenate([[0], np.cumsum(sizes)])
    table = csr_array((np.ones(starts[-1]), np.concatenate(right), starts), shape=(rows, count))
    shared = (table @ table.T).tocoo()
    enough = shared.data > SHARED_POSITIVES * np.minimum(sizes[shared.row], sizes[shared.col])
    links = csr_array((shared.data[enough], (shared.row[enough], shared.col[enough])), shape=(rows, rows))
    return np.asarray(connected_components(links, directed=False)[1], np.int64)


def _assign_items(right: list[NDArray[np.int64]], numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return (items,) the group with the most queries for which an item is relevant; -1 for none."""
    votes = np.zeros((count, int(numbers.max(initial=-1)) + 1), np.int32)
    for items, number in zip(right, numbers.tolist(), strict=True):
        if number >= 0:
            votes[items, number] += 1
    return np.where(votes.any(axis=1), votes.argmax(axis=1), -1) if votes.size else np.full(count, -1, np.int64)


def _common_name(names: list[str]) -> str:
    """Return the most common name without its trailing number, such as all_souls; the first name if they differ."""
    if len(names) == 1:
        return names[0]
    stem, times = Counter(name.rstrip("0123456789_- .") for name in names).most_common(1)[0]
    return stem if stem and 2 * times >= len(names) else names[0]


def _make_distinct(names: list[str]) -> list[str]:
    """Add a number to repeated names."""
    counts: dict[str, int] = {}
    distinct = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        distinct.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return distinct
