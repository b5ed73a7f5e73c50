"""The indexed heap: least label first, then the lower number, also after labels have fallen."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.stages import traversal
from kinrank.stages.kernels import heap as kernels
from reference.calling import callable_part

rise, take = callable_part(kernels.rise), callable_part(kernels.take)


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
    keys = traversal.falling(rising)
    assert keys.dtype == np.int32
    assert (np.diff(keys.astype(np.int64)) < 0).all()
    assert traversal.falling(np.array(-0.0)) == traversal.falling(np.array(0.0))
