"""Groups of near-duplicates in a gallery: mutual neighbours that are nearer than a threshold."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages
from kinrank.errors import InputError
from kinrank.ids import check_ids
from kinrank.manifold.manifold import Manifold
from kinrank.manifold.snapshot import make_gallery
from kinrank.neighbors import find_first_equal
from kinrank.parameters import check_whole_number
from kinrank.progress import Progress, ProgressOption
from kinrank.stores import Store
from kinrank.stores.gallery import read_gallery
from kinrank.vector_input import Vectors
from kinrank.vector_space import Space, check_metric


@dataclass(frozen=True, eq=False)
class Group(Sized):
    """Connected items, lowest number first.

    Attributes:
        items: (size,) item numbers.
        ids: (size,) ids; the item numbers if there are none.
        distances: (size,) cosine distance of each item to the nearest one it is joined to; the Euclidean distance with
            the metric "euclidean".
    """

    items: NDArray[np.int64]
    ids: NDArray[Any]
    distances: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Group({', '.join(map(str, self.ids[:8].tolist()))}{', ...' if len(self) > 8 else ''})"


def near_duplicates(
    gallery: ArrayLike | Store | Manifold,
    max_distance: float | None = None,
    *,
    k: int = 20,
    ids: ArrayLike | None = None,
    progress: ProgressOption = None,
    metric: str | None = None,
) -> list[Group]:
    """Return groups of near-duplicates, the largest first; groups of equal size by their lowest item number.

    Two items are joined if their cosine distance is at most `max_distance` and each is among the k nearest of the
    other, or one is the nearest of all to the other. Items of exactly the same direction are always joined. A group is
    a connected component: every item that has another one within the threshold is in the group of its nearest one, and
    the ends of a group may be farther apart if a chain of small distances connects them.

    Cosine distance is 1 - cosine of the angle: 0 for the same direction, 0.05 for 18 degrees, 1 for a right angle, 2
    for opposite directions. Its meaning depends on the model that made the vectors: descriptors of whole pictures
    separate copies from other pictures at 0.1 and more, while all faces of one model may be within 0.1 of each other.
    Inspect some groups before you trust a threshold; if one group contains most of the gallery, it is too large.

    Args:
        gallery: (n, d) rows, a Store that returns its vectors, or a Manifold. The search is exact, in blocks: memory
            grows with n k, time with n^2.
        max_distance: a number from 0 to 2. Default: 0.05. Required for the metric "euclidean": a distance in the units
            of the vectors.
        k: number of neighbours of an item that can be joined to it directly; fewer keep touching groups apart.
        ids: one id per item. Default: those of the Manifold, or item numbers.
        progress: True for a progress bar, or a callable `f(label, done, total)`.
        metric: "cosine", or "euclidean" if the length of vectors matters; "cosine distance" and "direction" above then
            mean "distance" and "vector". Default: that of the Manifold or Store, or else "cosine".

    Example:
        >>> [group.ids.tolist() for group in kinrank.near_duplicates([[1, 0], [0, 1], [2, 0.1]], max_distance=0.01)]
        [[0, 2]]
    """
    k = check_whole_number(k, "k")
    report = Progress(progress)
    vectors, names, space = _read_gallery(gallery, ids, metric, report)
    farthest = _check_threshold(max_distance, space)
    if len(vectors) < 2:
        return []
    first = find_first_equal(vectors)
    different = np.flatnonzero(first == np.arange(len(first)))  # copies would fill each other's lists
    rows = vectors if len(different) == len(vectors) else vectors[different]
    lists = make_gallery(rows, None, report, space.unit).lists(k + 1)
    distances = lists.distances[:, 1:].astype(np.float64)
    distances = 0.5 * distances**2 if space.scale is None else distances * space.scale  # of unit rows: 1 - cosine
    joined = stages.gaussian_graph.find_mutual(lists.indices)[:, 1:]
    # An item that is in no list, as many are in dense regions, still belongs to its nearest one. There is no such
    # column if all items are copies of one.
    joined[:, :1] = True
    joined &= distances <= farthest
    label = stages.csr.find_components(lists.indices[:, 1:], joined)
    nearest = np.min(distances, axis=1, where=joined, initial=max(2.0, farthest))
    nearest[np.unique(np.searchsorted(different, first[first != np.arange(len(first))]))] = 0.0
    place = np.searchsorted(different, first)
    parts = _group_by_label(label[place])
    return [Group(items, names[items], nearest[place[items]]) for items in parts]


def _check_threshold(max_distance: Any, space: Space) -> float:
    """Return the largest distance of two items that are joined."""
    most, kind = (2.0, "cosine distance from 0 to 2, such as 0.05") if space.unit else (math.inf, "distance >= 0")
    value: Any = 0.05 if max_distance is None and space.unit else max_distance
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) <= most:
        raise InputError(parameter="max_distance", given=max_distance, allowed=f"a {kind}")
    return float(value)


def _read_gallery(
    source: Any, ids: ArrayLike | None, metric: str | None, report: Progress
) -> tuple[Vectors, NDArray[Any], Space]:
    """Return vectors, ids and vector space of the source."""
    if isinstance(source, Manifold):
        if ids is not None:
            raise InputError(
                "cannot be given for a manifold, which has its own", parameter="ids", remedy="leave it out"
            )
        space = source.snapshot.space
        if metric is not None and check_metric(metric) != space.metric:
            raise InputError(
                f"differs from that of the manifold, which is {space.metric!r}", parameter="metric", given=metric
            )
        return source.snapshot.item_vectors, source.ids, space
    gallery = read_gallery(source, metric, report=report)
    names = gallery.ids if ids is None else check_ids(ids, len(gallery))
    return gallery.rows, np.arange(len(gallery)) if names is None else names, gallery.space


def _group_by_label(label: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Return the items of every label that at least two items have, largest group first."""
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return sorted((part for part in parts if len(part) > 1), key=lambda part: (-len(part), int(part[0])))
