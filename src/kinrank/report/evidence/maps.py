"""Features and states -> points in the plane, near where they are alike."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 2000  # items on a map
WIDTH = 50  # numbers that are left of a row before t-SNE
TSNE_FROM = "sklearn.manifold"
FEWEST = 12  # below, neighbourhoods are too small for t-SNE
ROUNDS, NEIGHBOURS = 500, 30  # of t-SNE: its iterations and perplexity

Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Map:
    """Items in the plane.

    Attributes:
        title: what was drawn.
        points: (m, 2) between 0 and 1.
    """

    title: str
    points: Points


def has_tsne() -> bool:
    """Whether scikit-learn, which has t-SNE, can be imported."""
    try:
        importlib.import_module(TSNE_FROM)
    except ImportError:
        return False
    return True


def maps_of(parts: dict[str, Points], tsne: bool) -> list[Map]:
    """A map of each, by t-SNE or else by the two first principal components; the parts are drawn side by side."""
    with _one_thread_each(tsne), ThreadPoolExecutor(2) as pool:
        drawn = list(pool.map(lambda rows: _drawn(rows, tsne), parts.values()))
    return [Map(title, points) for title, points in zip(parts, drawn, strict=True)]


def _one_thread_each(tsne: bool) -> AbstractContextManager[Any]:
    """BLAS at one thread while t-SNE draws two maps at once; the setting is that of the process, so it is made once."""
    if not tsne:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits


def of_features(rows: NDArray[Any]) -> Points:
    """(m, at most WIDTH) principal components of the rows."""
    values = np.asarray(rows, np.float64)
    return _components(values - values.mean(axis=0))


def of_states(states: Any) -> Points:
    """(m, at most WIDTH) of sparse distributions: their square roots, whose inner products tell how much two share.

    A truncated singular value decomposition, by way of the m x m inner products.
    """
    roots = states.sqrt()
    products = np.asarray((roots @ roots.T).todense(), np.float64)
    values, vectors = np.linalg.eigh(products)
    keep = np.argsort(-values, kind="stable")[:WIDTH]
    return _signed(vectors[:, keep] * np.sqrt(np.maximum(values[keep], 0.0)))


def _components(rows: Points) -> Points:
    if not rows.size:
        return np.zeros((len(rows), 2))
    left, values, _ = np.linalg.svd(rows, full_matrices=False)
    return _signed(left[:, :WIDTH] * values[:WIDTH])


def _signed(columns: Points) -> Points:
    """The columns with their largest entry above 0: a decomposition leaves the sign open."""
    if not len(columns):
        return columns
    largest = columns[np.abs(columns).argmax(axis=0), np.arange(columns.shape[1])]
    return columns * np.where(largest < 0, -1.0, 1.0)


def _drawn(rows: Points, tsne: bool) -> Points:
    flat = _components(rows - rows.mean(axis=0)) if len(rows) else rows
    flat = np.pad(flat, ((0, 0), (0, max(0, 2 - flat.shape[1]))))[:, :2]
    if tsne and len(rows) >= FEWEST:
        flat = _tsne(rows, flat)
    low, high = (flat.min(axis=0), flat.max(axis=0)) if len(flat) else (np.zeros(2), np.zeros(2))
    span = float((high - low).max()) or 1.0
    return 0.5 + (flat - (low + high) / 2) / span


def _tsne(rows: Points, flat: Points) -> Points:
    """From the principal components, so that the same rows give the same map."""
    from threadpoolctl import threadpool_limits

    start = flat * (1e-4 / max(float(flat[:, 0].std()), 1e-12))
    perplexity = min(NEIGHBOURS, (len(rows) - 1) / 3)
    model = importlib.import_module(TSNE_FROM).TSNE(
        init=start.astype(np.float32), perplexity=perplexity, max_iter=ROUNDS, random_state=0
    )
    with threadpool_limits(1, "openmp"):  # a setting of this thread: those of two maps wait for each other
        return np.asarray(model.fit_transform(rows.astype(np.float32)), np.float64)
