"""Which of two entries comes first: the larger value, of equal ones the lower number; and heaps of such entries."""

from __future__ import annotations

from typing import Any

from kinrank.stages.kernels.compiled import inner


@inner
def comes_after(s1: Any, i1: Any, s2: Any, i2: Any) -> Any:
    """Whether (s1, i1) comes after (s2, i2): smaller product, or an equal one of a higher number."""
    return s1 < s2 or (s1 == s2 and i1 > i2)


@inner
def sift_down(products: Any, numbers: Any, start: Any, size: Any) -> None:
    """Restore a heap whose root is the worst kept entry."""
    root = start
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        other = child + 1
        if other < size and comes_after(products[other], numbers[other], products[child], numbers[child]):
            child = other
        if not comes_after(products[child], numbers[child], products[root], numbers[root]):
            return
        products[root], products[child] = products[child], products[root]
        numbers[root], numbers[child] = numbers[child], numbers[root]
        root = child
