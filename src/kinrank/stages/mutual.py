"""Neighbour lists -> which neighbours are mutual, and the reciprocal sets these form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.stages.csr import from_lists
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.mutual import mark_mutual


def mutual(lists: NDArray[np.int32], k: int | None = None) -> NDArray[np.bool_]:
    """(n, k) whether each of the first k of an item has the item among its own first k; all of the lists without k.

    An item that stands in its own list is mutual there.

    Example:
        >>> mutual(np.array([[0, 1], [1, 2], [2, 1]], np.int32))
        array([[ True, False],
               [ True,  True],
               [ True,  True]])
    """
    k = lists.shape[1] if k is None else min(k, lists.shape[1])
    marks = np.empty((len(lists), k), np.bool_)
    in_chunks(mark_mutual, len(lists), lists, marks, chunk=256)
    return marks


def reciprocal(lists: NDArray[np.int32], k: int) -> csr_array:
    """(n, n) sparse, symmetric, ones: j in row i when each is among the other's first k; rows nearest first.

    k counts the item itself, which is always in its own row, as the first entry.

    Example:
        >>> reciprocal(np.array([[0, 1], [1, 0]], np.int32), 2).toarray()
        array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    keep = mutual(lists, k)
    return from_lists(lists[:, : keep.shape[1]], np.ones(keep.shape, np.float32), len(lists), keep)
