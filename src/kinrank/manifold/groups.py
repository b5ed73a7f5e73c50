"""A gallery -> its groups of near-duplicates: mutual neighbours that are nearer than a threshold."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.manifold.gallery import gallery_over
from kinrank.manifold.manifold import Manifold
from kinrank.manifold.names import Names, check_ids
from kinrank.neighbors import first_equal
from kinrank.parameters import whole_number
from kinrank.progress import Progress, Show
from kinrank.space import Space, check_metric
from kinrank.stores import Store
from kinrank.stores.rows import gallery_with_ids


@dataclass(frozen=True, eq=False)
class Group(Sized):
    """Items that hang together, lowest number first.

    Attributes:
        items: (size,) their numbers.
        ids: (size,) their names; the numbers where there are none.
        distances: (size,) the cosine distance of each to the nearest one it is joined to; the Euclidean one where the
            metric is that.
    """

    items: NDArray[np.int64]
    ids: NDArray[Any]
    distances: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Group({', '.join(map(str, self.ids[:8].tolist()))}{', ...' if len(self) > 8 else ''})"


def groups(
    gallery_or_manifold: ArrayLike | Store | Manifold,
    max_distance: float | None = None,
    k: int = 20,
    ids: ArrayLike | None = None,
    progress: Show = None,
    metric: str | None = None,
) -> list[Group]:
    """Groups of near-duplicates, the largest first; groups of equal size by their lowest item number.

    Two items are joined if their cosine distance is at most `max_distance` and each is among the k nearest of the
    other, or one is the nearest of all to the other. Items of exactly the same direction are always joined. A group is
    everything that is connected so: every item that has another one within the threshold is in the group of its nearest
    one, and the ends of a group may be farther apart, where a chain of small distances leads from one to the other.

    Cosine distance is 1 - cosine of the angle: 0 for the same direction, 0.05 for 18 degrees, 1 for a right angle, 2
    for opposite directions. What it means depends on the model that made the vectors: descriptors of whole pictures
    tell copies from others at 0.1 and more, while all faces of one model may be within 0.1 of each other. Look at some
    groups before you trust a threshold; where one group swallows the gallery, it is too large.

    Args:
        gallery_or_manifold: (n, d) rows, a Store that hands out its vectors, or a Manifold. The search is exact, in
            blocks: memory grows with n k, time with n^2.
        max_distance: a number from 0 to 2, 0.05 unless given. With the metric "euclidean" it has to be given: a
            distance in the units of the vectors.
        k: how many neighbours of an item may be joined to it directly; fewer keep groups apart that touch.
        ids: one name per item; those of the Manifold, or item numbers, unless given.
        progress: True for a bar, or a callable `f(label, done, total)`.
        metric: "cosine", or "euclidean" where the length of vectors matters; that of the Manifold, or Store, or else
            cosine unless given. "Cosine distance" and "direction" above are then "distance" and "vector".

    Example:
        >>> [group.ids.tolist() for group in kinrank.groups([[1, 0], [0, 1], [2, 0.1]], max_distance=0.01)]
        [[0, 2]]
    """
    k = whole_number(k, "k")
    vectors, names, space = _gallery(gallery_or_manifold, ids, metric)
    farthest = _threshold(max_distance, space)
    if len(vectors) < 2:
        return []
    first = first_equal(vectors)
    different = np.flatnonzero(first == np.arange(len(first)))  # copies of one item would fill the lists of each other
    rows = vectors if len(different) == len(vectors) else vectors[different]
    lists = gallery_over(rows, None, Progress(progress), space.unit).lists(k + 1)
    distances = lists.distances[:, 1:].astype(np.float64)
    distances = 0.5 * distances**2 if space.scale is None else distances * space.scale  # of unit rows: 1 - cosine
    joined = stages.mutual.mutual(lists.indices)[:, 1:]
    # An item that nobody lists, as there are many in crowds, still belongs to its nearest one. There is no such column
    # if all items are copies of one.
    joined[:, :1] = True
    joined &= distances <= farthest
    label = stages.csr.components(lists.indices[:, 1:], joined)
    nearest = np.min(distances, axis=1, where=joined, initial=max(2.0, farthest))
    nearest[np.unique(np.searchsorted(different, first[first != np.arange(len(first))]))] = 0.0
    place = np.searchsorted(different, first)
    parts = _largest_first(label[place])
    return [Group(items, names[items], nearest[place[items]]) for items in parts]


def _threshold(max_distance: Any, space: Space) -> float:
    """The largest distance of two items that are joined."""
    most, kind = (2.0, "cosine distance from 0 to 2, such as 0.05") if space.unit else (math.inf, "distance from 0")
    value: Any = 0.05 if max_distance is None and space.unit else max_distance
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) <= most:
        raise ValueError(f"max_distance={max_distance!r} is not allowed; give a {kind}")
    return float(value)


def _gallery(source: Any, ids: ArrayLike | None, metric: str | None) -> tuple[Vectors, NDArray[Any], Space]:
    if isinstance(source, Manifold):
        if ids is not None:
            raise ValueError("ids belong to the manifold already; leave ids= out")
        space = source._snapshot.space
        if metric is not None and check_metric(metric) != space.metric:
            raise ValueError(f"metric={metric!r} is not that of the manifold, which was built by {space.metric}")
        return source._snapshot.item_vectors, source.ids, space
    vectors, space, own = gallery_with_ids(source, metric)
    if own is not None and ids is None:
        return vectors, own, space
    return vectors, Names(len(vectors), check_ids(ids, len(vectors))).all, space


def _largest_first(label: NDArray[Any]) -> list[NDArray[np.int64]]:
    """The items of every label that two or more have."""
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return sorted((part for part in parts if len(part) > 1), key=lambda part: (-len(part), int(part[0])))
