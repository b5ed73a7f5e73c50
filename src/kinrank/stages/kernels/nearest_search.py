"""Exact nearest neighbours: the k largest inner products per row, in blocks, with ties to the lower item number."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.kernels.compiler import (
    choose_chunk_rows,
    compile_inner,
    compile_kernel,
    run_in_chunks,
    run_on_threads,
    single_blas_thread,
    split_rows,
)
from kinrank.stages.kernels.data_structures import (
    comes_after,
    new_top_k_scratch,
    select_largest,
    sift_down,
    sort_by_counting,
)
from kinrank.stages.kernels.fastmath import to_bits, to_float

BLOCK_ROWS, BLOCK_COLUMNS = 256, 4096  # shape of one block of inner products: 4 MB
SPARE_ENTRIES = 8  # extra entries, so that rounding in the products rarely loses an entry at the edge
PRODUCT_ROUNDING = 2e-6  # upper bound of the difference of 2 - 2 a.b and |a - b|^2 in float32, for unit rows
STRIP_COLUMNS = 32  # columns tested together
MAX_FEW_ITEMS = 1024  # up to here each item is compared with all others at once
PRODUCT_BLOCKS, MIN_PRODUCT_ROWS = 10, 128  # into which a matrix of all products is split, and rows of one at least
GROUP_COLUMNS = 8  # columns whose maximum is compared first; most groups hold nothing to keep
NO_ITEM = np.iinfo(np.int32).max


class Heaps(NamedTuple):
    """One heap per row, the worst entry first: values (rows, k) float32 and item numbers (rows, k) int32."""

    best: NDArray[np.float32]
    kept: NDArray[np.int32]

    @classmethod
    def new(cls, rows: int, size: int) -> Heaps:
        """Return heaps full of entries that any other entry replaces."""
        return cls(np.full((rows, size), -np.inf, np.float32), np.full((rows, size), NO_ITEM, np.int32))


@compile_kernel
def _keep_best(block: Any, first_row: Any, first_column: Any, own: Any, heaps: Any) -> None:
    """Push one block of inner products through the heaps of its rows.

    Columns are tested in strips, which is vectorised: most strips hold nothing to keep.
    """
    best, kept = heaps
    k = best.shape[1]
    columns = block.shape[1]
    for row in range(len(block)):
        line = block[row]
        products = best[first_row + row]
        numbers = kept[first_row + row]
        me = own[first_row + row]
        for begin in range(0, columns, STRIP_COLUMNS):
            end = min(begin + STRIP_COLUMNS, columns)
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


@compile_inner
def squared_distance(mine: Any, other: Any) -> Any:
    """Return the squared distance from differences: equal vectors are at 0, and near ones keep their digits."""
    total = np.float32(0.0)
    for column in range(len(mine)):
        gap = mine[column] - other[column]
        total += gap * gap
    return total


@compile_inner
def exact_distance(mine: Any, other: Any) -> Any:
    """Return the Euclidean distance from differences."""
    return np.sqrt(squared_distance(mine, other))


@compile_inner
def _sort_heap(products: Any, numbers: Any) -> None:
    """Sort the entries of a heap, best first."""
    for last in range(len(products) - 1, 0, -1):
        products[0], products[last] = products[last], products[0]
        numbers[0], numbers[last] = numbers[last], numbers[0]
        sift_down(products, numbers, 0, last)


@compile_kernel
def _refine_distances(start: Any, stop: Any, queries: Any, items: Any, heaps: Any) -> None:
    """Turn heaps of products into sorted rows of -distance, nearest first.

    The products chose the entries; their distances are summed again from differences, so that equal vectors
    are at equal distances to the last bit, duplicates at zero, regardless of their block.
    """
    size = heaps.best.shape[1]
    values, chosen = np.empty(size, np.float32), np.empty(size, np.int32)
    for row in range(start, stop):
        for entry in range(size):
            chosen[entry] = heaps.kept[row, entry]
            values[entry] = -exact_distance(queries[row], items[chosen[entry]])
        sort_by_counting(values, chosen, heaps.best[row], heaps.kept[row])


class DoubtfulRows(NamedTuple):
    """Rows to search again: queries (m, d) float32, their own items (m,) int64, least products (m,) float32."""

    queries: NDArray[np.float32]
    own: NDArray[np.int64]
    least: NDArray[np.float32]


@compile_kernel
def _keep_nearest(start: Any, stop: Any, block: Any, first_column: Any, rows: Any, items: Any, heaps: Any) -> None:
    """Push a block through the heaps by distance, for entries whose product is at least `rows.least`."""
    for row in range(start, stop):
        products = heaps.best[row]
        numbers = heaps.kept[row]
        for column in range(block.shape[1]):
            number = first_column + column
            if block[row, column] < rows.least[row] or number == rows.own[row]:
                continue
            value = -exact_distance(rows.queries[row], items[number])
            if comes_after(products[0], numbers[0], value, number):
                products[0] = value
                numbers[0] = number
                sift_down(products, numbers, 0, len(products))


@compile_kernel
def _sort_rows(start: Any, stop: Any, heaps: Any) -> None:
    """Sort the heaps of rows start..stop."""
    for row in range(start, stop):
        _sort_heap(heaps.best[row], heaps.kept[row])


def half_squares(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (n,) |x|^2 / 2, summed in float64, a block of rows at a time."""
    halves = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), BLOCK_COLUMNS):
        block = rows[start : start + BLOCK_COLUMNS]
        halves[start : start + BLOCK_COLUMNS] = 0.5 * np.einsum("ij,ij->i", block, block, dtype=np.float64)
    return halves


class ProductBlocks:
    """Blocks of inner products of queries and items; of -d^2 / 2 if rows do not have length one.

    Both order the items of a query by distance: d^2 = 2 (top - value), with `top` 1 for inner products, else 0.
    """

    def __init__(self, queries: NDArray[np.float32], items: NDArray[np.float32], unit: bool) -> None:
        self.queries, self.items, self.unit = queries, items, unit
        self.top = 1.0 if unit else 0.0
        if not unit:
            self._items = half_squares(items)
            self._queries = self._items if queries is items else half_squares(queries)

    def block(self, rows: Any, columns: slice) -> NDArray[np.float32]:
        """Return the block of some queries (a slice or their numbers) and a range of items."""
        values: NDArray[np.float32] = self.queries[rows] @ self.items[columns].T
        if not self.unit:
            values -= self._queries[rows][:, None]
            values -= self._items[columns]
        return values

    def rounding(self, reach: NDArray[Any]) -> Any:
        """Return the largest possible error of d^2 for items within these distances of each query."""
        if self.unit:
            return np.float32(PRODUCT_ROUNDING)
        return np.float32(PRODUCT_ROUNDING) * (np.sqrt(2.0 * self._queries) + reach) ** 2


def search_nearest(
    queries: NDArray[np.float32],
    items: NDArray[np.float32],
    k: int,
    own: NDArray[np.int64],
    self_first: bool,
    unit: bool = True,
    products: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return (q, k) numbers and Euclidean distances; `own` comes first or is left out. `unit`: rows have length one.

    `products`: (n, n) inner products, if all items are queries and the caller has them.
    """
    count = len(queries)
    has_own = bool((own >= 0).any())
    wanted = max(k - 1, 0) if has_own and self_first else k
    searched = min(wanted + SPARE_ENTRIES, len(items) - has_own) if wanted else 0
    best, kept = heaps = Heaps.new(count, searched)
    if searched:
        all_items = queries is items and np.array_equal(own, np.arange(count))
        blocks = ProductBlocks(queries, items, unit)
        if all_items and unit and (products is not None or count <= MAX_FEW_ITEMS):
            products = multiply_pairs(items) if products is None else products
            run_in_chunks(_select_nearest, count, products, heaps, chunk=choose_chunk_rows(count))
        else:
            _keep_best_of_all(blocks, own, heaps)
        edge = 2.0 * blocks.top - 2.0 * best[:, 0]  # squared: no item left out is nearer, except for rounding
        run_in_chunks(_refine_distances, count, queries, items, heaps, chunk=256)
        if searched < len(items) - has_own:
            last = -best[:, wanted - 1]
            reach = last**2 + blocks.rounding(last)
            _search_doubtful_rows(np.flatnonzero(reach > edge), wanted, reach, blocks, own, heaps)
    indices, distances = kept[:, :wanted], -best[:, :wanted]
    if has_own and self_first and k > 0:
        indices = np.concatenate([own[:, None].astype(np.int32), indices], axis=1)
        distances = np.concatenate([np.zeros((count, 1), np.float32), distances], axis=1)
    return np.ascontiguousarray(indices), np.ascontiguousarray(distances)


def multiply_pairs(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (n, n) the inner products of all rows; every pair is multiplied once.

    Each thread multiplies its own blocks, because BLAS threads would keep spinning afterwards and slow down ours.
    """
    n = len(rows)
    products, size = np.empty((n, n), np.float32), max(MIN_PRODUCT_ROWS, -(-n // PRODUCT_BLOCKS))

    def multiply(start: int, stop: int) -> None:
        np.matmul(rows[start:stop], rows[start:].T, out=products[start:stop, start:])
        for first in range(stop, n, MIN_PRODUCT_ROWS):  # copied in small blocks, which fit into the cache
            columns = slice(first, first + MIN_PRODUCT_ROWS)
            products[columns, start:stop] = products[start:stop, columns].T

    with single_blas_thread():
        run_on_threads(multiply, split_rows(n, size))
    return products


def _keep_best_of_all(products: ProductBlocks, own: NDArray[np.int64], heaps: Heaps) -> None:
    """Push all inner products through the heaps, block by block; if queries are the items, half of them serve twice.

    Each thread multiplies its own block, because BLAS threads would keep spinning after every product and slow down
    ours. The result of a heap does not depend on the order of the blocks.
    """
    queries, items = products.queries, products.items
    mirrored = queries is items
    width = BLOCK_ROWS if mirrored else BLOCK_COLUMNS
    corners = [
        (row, column)
        for row in range(0, len(queries), BLOCK_ROWS)
        for column in range(row if mirrored else 0, len(items), width)
    ]
    locks = [threading.Lock() for _ in range(0, len(queries), BLOCK_ROWS)]

    def keep(block: NDArray[np.float32], row: int, column: int) -> None:
        with locks[row // BLOCK_ROWS]:
            _keep_best(block, row, column, own, heaps)

    def multiply(start: int, stop: int) -> None:
        for row, column in corners[start:stop]:
            block = products.block(slice(row, row + BLOCK_ROWS), slice(column, column + width))
            keep(block, row, column)
            if mirrored and column > row:
                keep(np.ascontiguousarray(block.T), column, row)

    if len(corners) == 1:
        multiply(0, 1)
    else:
        with single_blas_thread():
            run_on_threads(multiply, split_rows(len(corners), 1))


def _search_doubtful_rows(
    doubtful: NDArray[np.int64],
    wanted: int,
    reach: NDArray[np.float32],
    products: ProductBlocks,
    own: NDArray[np.int64],
    heaps: Heaps,
) -> None:
    """Search rows again, by distance, at whose edge more items crowd than SPARE_ENTRIES holds (near duplicates)."""
    items = products.items
    for first in range(0, len(doubtful), BLOCK_ROWS):
        block_rows = doubtful[first : first + BLOCK_ROWS]
        rows = DoubtfulRows(products.queries[block_rows], own[block_rows], products.top - 0.5 * reach[block_rows])
        fresh = Heaps.new(len(block_rows), heaps.best.shape[1])
        for first_column in range(0, len(items), BLOCK_COLUMNS):
            block = products.block(block_rows, slice(first_column, first_column + BLOCK_COLUMNS))
            run_in_chunks(_keep_nearest, len(block_rows), block, first_column, rows, items, fresh, chunk=64)
        run_in_chunks(_sort_rows, len(block_rows), fresh, chunk=256)
        complete = fresh.kept[:, wanted - 1] < NO_ITEM
        for kind in range(2):
            heaps[kind][block_rows[complete]] = fresh[kind][complete]


@compile_inner
def _spread_value(value: Any) -> Any:
    """Return value^16, 0 if it is negative: inner products differ little, and selection counts by leading bits."""
    squared = max(value, np.float32(0.0)) ** 2
    return squared * squared * (squared * squared) * (squared * squared * (squared * squared))


@compile_kernel
def _select_nearest(start: Any, stop: Any, products: Any, heaps: Any) -> None:
    """Find the largest inner products of items start..stop with the others.

    products (n, n) float32; heaps: Heaps, written: the worst entry first, the others unordered. One row at a time, by
    counting: if k is a large part of n, heaps take twice as long. If k is small, only the k + 1 groups of columns with
    the largest maxima are read: no other group can hold one of the k largest.
    """
    best, kept = heaps
    n, k = len(products), best.shape[1]
    scratch, chosen = new_top_k_scratch(n), np.empty(n + 1, np.int32)
    values, numbers = np.empty(n + 1, np.float32), np.empty(n + 1, np.int32)
    near_groups = np.empty(k + 1, np.int32)
    size = np.uint64(GROUP_COLUMNS if n >= 2 * GROUP_COLUMNS * (k + 1) else n)
    end = np.uint64(n)
    groups = (end + size - np.uint64(1)) // size
    for row in range(start, stop):
        line = products[row]
        for group in range(groups):
            largest = np.int32(0)
            for column in range(group * size, min((group + np.uint64(1)) * size, end)):
                largest = max(largest, to_bits(line[column] + np.float32(1.0)))
            values[group] = _spread_value(to_float(largest))
            numbers[group] = group
        found = select_largest(values, numbers, np.int64(groups), k + 1, scratch, chosen)
        for entry in range(found):
            near_groups[entry] = chosen[entry]
        count = 0 * row
        for entry in range(found):
            begin = np.uint64(near_groups[entry]) * size
            for column in range(begin, min(begin + size, end)):
                values[np.uint64(count)] = _spread_value(line[column] + np.float32(1.0))
                numbers[np.uint64(count)] = column
                count += np.int64(np.int64(column) != row)
        found = select_largest(values, numbers, count, k, scratch, chosen)
        worst = 0
        for entry in range(found):
            kept[row, entry] = numbers[chosen[entry]]
            best[row, entry] = line[kept[row, entry]]
            if best[row, entry] < best[row, worst]:
                worst = entry
        best[row, 0], best[row, worst] = best[row, worst], best[row, 0]
        kept[row, 0], kept[row, worst] = kept[row, worst], kept[row, 0]
