"""The indexed heap: smallest label first, then the lower number, also after labels have fallen."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.stages import graph_traversal
from kinrank.stages.kernels import data_structures as kernels
from reference.inner_kernels import make_callable

rise, take = make_callable(kernels.sift_up), make_callable(kernels.pop_first)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("count", [1, 2, 5, 6, 40, 300])
def test_nodes_leave_by_label_then_number(rng: np.random.Generator, count: int, kind: type) -> None:
    label = rng.integers(0, count // 2 + 1, count).astype(kind)  # many are equal
    heap, place = np.empty(count, np.int32), np.full(count, -1, np.int32)
    for size, node in enumerate(rng.permutation(count)):
        rise(heap, place, label, node, size)
    for node in rng.permutation(count)[: count // 2]:
        label[node] -= 2
        rise(heap, place, label, node, place[node])
    assert (heap[place] == np.arange(count)).all()
    taken = [take(heap, place, label, size) for size in range(count, 0, -1)]
    assert taken == np.lexsort((np.arange(count), label)).tolist()
    assert (place == -1).all()


def test_keys_fall_as_similarities_rise() -> None:
    rising = np.array([-np.inf, -1, -0.25, -1e-30, 0, 1e-30, 0.25, 1, np.inf], np.float32)
    keys = graph_traversal.descending_keys(rising)
    assert keys.dtype == np.int32
    assert (np.diff(keys.astype(np.int64)) < 0).all()
    assert graph_traversal.descending_keys(np.array(-0.0)) == graph_traversal.descending_keys(np.array(0.0))
