"""Blocks of inner products -> the k largest per row, with ties to the lower item number."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.kernels.compiled import (
    chunks,
    compiled,
    in_chunks,
    inner,
    one_blas_thread,
    over_threads,
)
from kinrank.stages.kernels.largest import counting, largest
from kinrank.stages.kernels.order import comes_after, sift_down

ROWS, COLUMNS = 256, 4096  # one block of inner products: 4 MB
MARGIN = 8  # more than asked for, so that rounding in the products rarely costs an entry at the edge
ROUNDING = 2e-6  # more than 2 - 2 a.b and |a - b|^2 differ by in float32, for unit rows
STRIP = 32  # columns looked at together
FEW, BLOCK = 1024, 64  # items up to which each is compared with all others at once; rows multiplied together
NOBODY = np.iinfo(np.int32).max


@compiled
def _keep_best(
    start: Any, stop: Any, block: Any, first_row: Any, first_column: Any, own: Any, best: Any, kept: Any
) -> None:
    """Push one block of inner products through the heaps of rows start..stop.

    In strips, which are looked through many columns at once: most of them hold nothing that is kept.
    """
    k = best.shape[1]
    columns = block.shape[1]
    for row in range(start, stop):
        line = block[row]
        products = best[first_row + row]
        numbers = kept[first_row + row]
        me = own[first_row + row]
        for begin in range(0, columns, STRIP):
            end = min(begin + STRIP, columns)
            worst = products[0]
            hits = 0
            for column in range(begin, end):
                hits += line[column] >= worst
            if hits == 0:
                continue
            for column in range(begin, end):
                number = first_column + column
                if line[column] < products[0] or number == me:
                    continue
                if comes_after(products[0], numbers[0], line[column], number):
                    products[0] = line[column]
                    numbers[0] = number
                    sift_down(products, numbers, 0, k)


@inner
def _distance(mine: Any, other: Any) -> Any:
    """Euclidean distance from differences: equal vectors are at 0, and near ones keep their digits."""
    total = np.float32(0.0)
    for column in range(len(mine)):
        gap = mine[column] - other[column]
        total += gap * gap
    return np.sqrt(total)


@inner
def _sort(products: Any, numbers: Any) -> None:
    """A heap -> its entries in order, best first."""
    for last in range(len(products) - 1, 0, -1):
        products[0], products[last] = products[last], products[0]
        numbers[0], numbers[last] = numbers[last], numbers[0]
        sift_down(products, numbers, 0, last)


@compiled
def _refine(start: Any, stop: Any, queries: Any, items: Any, best: Any, kept: Any) -> None:
    """Heaps of products -> rows of -distance in order, nearest first.

    The products chose the entries; their distances are summed again from differences, so that equal vectors
    are at equal distances to the last bit, duplicates at zero, wherever they stood in the blocks.
    """
    for row in range(start, stop):
        products = best[row]
        numbers = kept[row]
        size = len(products)
        for entry in range(size):
            products[entry] = -_distance(queries[row], items[numbers[entry]])
        for entry in range(size // 2 - 1, -1, -1):
            sift_down(products, numbers, entry, size)
        _sort(products, numbers)


@compiled
def _keep_nearest(
    start: Any, stop: Any, block: Any, first_column: Any, queries: Any, items: Any, own: Any, least: Any,
    best: Any, kept: Any,
) -> None:  # fmt: skip
    """As _keep_best, but by distance, of the entries whose product is at least `least`."""
    for row in range(start, stop):
        products = best[row]
        numbers = kept[row]
        for column in range(block.shape[1]):
            number = first_column + column
            if block[row, column] < least[row] or number == own[row]:
                continue
            value = -_distance(queries[row], items[number])
            if comes_after(products[0], numbers[0], value, number):
                products[0] = value
                numbers[0] = number
                sift_down(products, numbers, 0, len(products))


@compiled
def _sort_rows(start: Any, stop: Any, best: Any, kept: Any) -> None:
    for row in range(start, stop):
        _sort(best[row], kept[row])


def half_squares(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n,) |x|^2 / 2, summed in float64, a block of rows at a time."""
    halves = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), COLUMNS):
        block = rows[start : start + COLUMNS]
        halves[start : start + COLUMNS] = 0.5 * np.einsum("ij,ij->i", block, block, dtype=np.float64)
    return halves


class Products:
    """Blocks of inner products of queries and items; where rows are not of length one, blocks of -d^2 / 2 instead.

    Both order the items of a query by distance: d^2 = 2 (top - value), with `top` 1 for inner products and 0 else.
    """

    def __init__(self, queries: NDArray[np.float32], items: NDArray[np.float32], unit: bool) -> None:
        self.queries, self.items, self.unit = queries, items, unit
        self.top = 1.0 if unit else 0.0
        if not unit:
            self._items = half_squares(items)
            self._queries = self._items if queries is items else half_squares(queries)

    def block(self, rows: Any, columns: slice) -> NDArray[np.float32]:
        """Of some queries, a slice or their numbers, and a range of items."""
        values: NDArray[np.float32] = self.queries[rows] @ self.items[columns].T
        if not self.unit:
            values -= self._queries[rows][:, None]
            values -= self._items[columns]
        return values

    def rounding(self, reach: NDArray[Any]) -> Any:
        """By how much d^2 may be wrong at most, for items within these distances of each query."""
        if self.unit:
            return np.float32(ROUNDING)
        return np.float32(ROUNDING) * (np.sqrt(2.0 * self._queries) + reach) ** 2


def nearest_blocks(
    queries: NDArray[np.float32],
    items: NDArray[np.float32],
    k: int,
    own: NDArray[np.int64],
    self_first: bool,
    unit: bool = True,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(q, k) numbers and Euclidean distances; `own` comes first or is left out. `unit`: rows have length one."""
    count = len(queries)
    has_own = bool((own >= 0).any())
    wanted = max(k - 1, 0) if has_own and self_first else k
    searched = min(wanted + MARGIN, len(items) - has_own) if wanted else 0
    best, kept = _empty_heaps(count, searched)
    if searched:
        everyone = queries is items and np.array_equal(own, np.arange(count))
        products = Products(queries, items, unit)
        if everyone and unit and count <= FEW:
            with one_blas_thread():
                in_chunks(_nearest_of_few, -(-len(items) // BLOCK), items, best, kept, chunk=1)
        else:
            _keep_all(products, own, best, kept)
        edge = 2.0 * products.top - 2.0 * best[:, 0]  # squared: nobody left out is nearer, but for rounding
        in_chunks(_refine, count, queries, items, best, kept, chunk=256)
        if searched < len(items) - has_own:
            last = -best[:, wanted - 1]
            reach = last**2 + products.rounding(last)
            _search_again(np.flatnonzero(reach > edge), wanted, reach, products, own, best, kept)
    indices, distances = kept[:, :wanted], -best[:, :wanted]
    if has_own and self_first and k > 0:
        indices = np.concatenate([own[:, None].astype(np.int32), indices], axis=1)
        distances = np.concatenate([np.zeros((count, 1), np.float32), distances], axis=1)
    return np.ascontiguousarray(indices), np.ascontiguousarray(distances)


def _keep_all(
    products: Products,
    own: NDArray[np.int64],
    best: NDArray[np.float32],
    kept: NDArray[np.int32],
) -> None:
    """All inner products through the heaps, block after block; half of them are used twice where items ask each other.

    Each thread multiplies a block of its own: the threads of BLAS would go on spinning after every product, in the way
    of ours. What a heap keeps does not depend on the order of the blocks.
    """
    queries, items = products.queries, products.items
    mirrored = queries is items
    width = ROWS if mirrored else COLUMNS
    corners = [
        (row, column)
        for row in range(0, len(queries), ROWS)
        for column in range(row if mirrored else 0, len(items), width)
    ]
    locks = [threading.Lock() for _ in range(0, len(queries), ROWS)]

    def keep(block: NDArray[np.float32], row: int, column: int) -> None:
        with locks[row // ROWS]:
            _keep_best(0, len(block), block, row, column, own, best, kept)

    def multiply(start: int, stop: int) -> None:
        for row, column in corners[start:stop]:
            block = products.block(slice(row, row + ROWS), slice(column, column + width))
            keep(block, row, column)
            if mirrored and column > row:
                keep(np.ascontiguousarray(block.T), column, row)

    if len(corners) == 1:
        multiply(0, 1)
    else:
        with one_blas_thread():
            over_threads(multiply, chunks(len(corners), 1))


def _search_again(
    doubtful: NDArray[np.int64],
    wanted: int,
    reach: NDArray[np.float32],
    products: Products,
    own: NDArray[np.int64],
    best: NDArray[np.float32],
    kept: NDArray[np.int32],
) -> None:
    """Rows at whose edge more items crowd than MARGIN holds (near duplicates): chosen anew, by distance."""
    items = products.items
    for first in range(0, len(doubtful), ROWS):
        some = doubtful[first : first + ROWS]
        rows, mine, least = products.queries[some], own[some], products.top - 0.5 * reach[some]
        again = _empty_heaps(len(some), best.shape[1])
        for first_column in range(0, len(items), COLUMNS):
            block = products.block(some, slice(first_column, first_column + COLUMNS))
            in_chunks(_keep_nearest, len(some), block, first_column, rows, items, mine, least, *again, chunk=64)
        in_chunks(_sort_rows, len(some), *again, chunk=256)
        found = again[1][:, wanted - 1] < NOBODY
        best[some[found]], kept[some[found]] = again[0][found], again[1][found]


@compiled
def _nearest_of_few(start: Any, stop: Any, items: Any, best: Any, kept: Any) -> None:
    """The largest inner products of each item with the others, blocks of BLOCK items from start to stop.

    items (n, d) float32 -> best (n, k) float32 products and kept (n, k) int32 numbers, the worst one first, the others
    in no order. A row at a time, by counting: where k is a good part of n, heaps take twice as long.
    """
    n, k = len(items), best.shape[1]
    scratch, chosen = counting(n), np.empty(n + 1, np.int32)
    values, numbers = np.empty(n + 1, np.float32), np.empty(n + 1, np.int32)
    for block in range(start, stop):
        first, last = block * BLOCK, min((block + 1) * BLOCK, n)
        products = np.dot(items[first:last], items.T)
        for row in range(first, last):
            line = products[row - first]
            count = 0 * row
            for column in range(n):
                values[count] = max(line[column] + np.float32(1.0), np.float32(0.0))
                numbers[count] = column
                count += np.int64(column != row)
            size = largest(values, numbers, count, k, scratch, chosen)
            worst = 0
            for entry in range(size):
                best[row, entry] = values[chosen[entry]] - np.float32(1.0)
                kept[row, entry] = numbers[chosen[entry]]
                if best[row, entry] < best[row, worst]:
                    worst = entry
            best[row, 0], best[row, worst] = best[row, worst], best[row, 0]
            kept[row, 0], kept[row, worst] = kept[row, worst], kept[row, 0]


def _empty_heaps(rows: int, size: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Heaps full of entries that anything is better than."""
    return np.full((rows, size), -np.inf, np.float32), np.full((rows, size), NOBODY, np.int32)
