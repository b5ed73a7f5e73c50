"""Packed states against a literal reference, on states of real galleries and on made ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.stages.csr import Rows, matrix_from_rows
from kinrank.stages.pipeline import HALF_UNITS
from kinrank.stages.states import PackedRows, empty_states
from kinrank.vector_input import to_unit_rows

Entries = list[tuple[int, float]]


def pack_row(row: Entries) -> list[tuple[int, int]]:
    """Return the (gap, code) pairs of a row of (item, mass)."""
    largest = max((mass for _, mass in row), default=0.0)
    pairs, before = [], 0
    for item, mass in row:
        root = 255 * (mass / largest) ** 0.5
        if root < 7.5:
            continue
        while item - before > 65535:
            pairs.append((65535, 0))
            before += 65535
        pairs.append((item - before, max(8, int(root + 0.5))))
        before = item
    return pairs


def unpack_row(pairs: list[tuple[int, int]]) -> Entries:
    """Return the (item, mass) pairs of packed entries."""
    total, item, row = sum(code * code for _, code in pairs), 0, []
    for gap, code in pairs:
        item += gap
        if code:
            row.append((item, code * code / total))
    return row


def rows_of(lists: list[Entries]) -> Rows:
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
    entries = [entry for row in lists for entry in row]
    return Rows(
        indptr,
        np.array([item for item, _ in entries], np.int32),
        np.array([mass for _, mass in entries], np.float32),
    )


def lists_of(rows: Rows) -> list[Entries]:
    return [
        list(zip(rows.indices[first:last].tolist(), rows.data[first:last].tolist(), strict=True))
        for first, last in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    ]


def distribution(rng: np.random.Generator, items: NDArray[Any], spread: float) -> Entries:
    """Return masses over several orders of magnitude on these items."""
    mass = np.exp(-spread * rng.random(len(items)))
    return list(zip(np.sort(items).tolist(), (mass / mass.sum()).tolist(), strict=True))


def made(rng: np.random.Generator, n: int) -> Rows:
    """Return rows of n items: one entry, equal masses, long tails, large gaps."""
    sizes = rng.integers(1, min(n, 40) + 1, n)
    spreads = rng.choice([0.0, 3.0, 25.0], n)
    return rows_of(
        [
            distribution(rng, rng.choice(n, size, replace=False), spread)
            for size, spread in zip(sizes, spreads, strict=True)
        ]
    )


def states_of(rows: NDArray[Any]) -> list[Rows]:
    prepared = kr.LPMT(direct=0.5).prepare(Items.from_gallery(to_unit_rows(rows.astype(np.float32))), SILENT)
    return [prepared.states, prepared.wide]


def real(rng: np.random.Generator) -> list[Rows]:
    """Return states and wide states of a cloud, of clusters with duplicates, of a curve and of few items."""
    centres = rng.normal(size=(12, 8))
    tight = np.repeat(centres, 20, axis=0) + 1e-3 * rng.normal(size=(240, 8))
    angles = np.linspace(0, 6, 300)[:, None] * np.arange(1, 5)
    galleries = [
        rng.normal(size=(300, 6)),
        np.concatenate([tight, tight[:60]]),
        np.concatenate([np.cos(angles), np.sin(angles)], axis=1),
        rng.normal(size=(3, 5)),
    ]
    return [states for gallery in galleries for states in states_of(gallery)]


def check_packing(rows: Rows) -> PackedRows:
    packed = PackedRows.pack(rows)
    wanted = [pack_row(row) for row in lists_of(rows)]
    assert packed.indptr.tolist() == [0, *np.cumsum([len(pairs) for pairs in wanted])]
    pairs = [pair for row in wanted for pair in row]
    assert packed.gaps.tolist() == [gap for gap, _ in pairs]
    # a root within rounding of two codes may get either
    assert np.abs(packed.codes.astype(int) - [code for _, code in pairs]).max(initial=0) <= 1
    codes = iter(packed.codes.tolist())
    expected = [unpack_row([(gap, next(codes)) for gap, _ in row]) for row in wanted]
    unpacked = packed.unpack()
    for row, other in zip(lists_of(unpacked), expected, strict=True):
        assert [item for item, _ in row] == [item for item, _ in other]
        np.testing.assert_allclose([mass for _, mass in row], [mass for _, mass in other], rtol=1e-6)
    for one, again in zip(packed, PackedRows.pack(unpacked), strict=True):
        np.testing.assert_array_equal(one, again)
    assert [array.dtype for array in unpacked] == [np.int64, np.int32, np.float32]
    assert [array.dtype for array in packed] == [np.int64, np.uint16, np.uint8, np.float32]
    assert all(array.base is None for array in (*packed, *unpacked))
    return packed


def unpack_columns(columns: PackedRows) -> Rows:
    """Return the rows of a transpose: the scale of an entry is that of its item."""
    lists = []
    for first, last in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
        items = np.cumsum(columns.gaps[first:last], dtype=np.int64)
        masses = columns.codes[first:last].astype(np.float32) ** 2 * columns.scales[items]
        lists.append([entry for entry in zip(items.tolist(), masses.tolist(), strict=True) if entry[1]])
    return rows_of(lists)


@pytest.mark.parametrize("n", [1, 2, 50, 300])
def test_made_rows(rng: np.random.Generator, n: int) -> None:
    check_packing(made(rng, n))


def test_states_of_galleries_lose_less_than_half_a_percent(rng: np.random.Generator) -> None:
    for rows in real(rng):
        n = len(rows.indptr) - 1
        packed = check_packing(rows)
        change = np.abs(matrix_from_rows(rows, n) - matrix_from_rows(packed.unpack(), n)).sum(axis=1)
        assert change.max() < 0.008
        assert change.mean() < 0.005
        np.testing.assert_allclose(np.add.reduceat(packed.unpack().data, packed.unpack().indptr[:-1]), 1.0, atol=1e-6)


def test_gaps_above_65535_take_further_entries(rng: np.random.Generator) -> None:
    edges = [0, 1, 65534, 65535, 65536, 65537, 131070, 131071, 131072, 199_999]
    lists = [
        distribution(rng, rng.choice(edges, size, replace=False), 1.0) for size in (1, 2, 3, 5, 9) for _ in range(9)
    ]
    packed = check_packing(rows_of(lists))
    assert (packed.codes == 0).any()


def test_columns_of_a_large_gallery() -> None:
    """Items far apart share columns, so that gaps of columns exceed 65535, too."""
    n = 200_000
    lists: list[Entries] = [[] for _ in range(n)]
    for item in (0, 65535, 65536, 131_072, 199_999):
        lists[item] = [(7, 0.25), (item if item > 7 else 9, 0.5), (199_999, 0.25)] if item < 199_999 else [(7, 1.0)]
    packed = check_packing(rows_of(lists))
    columns = packed.transpose()
    difference = matrix_from_rows(unpack_columns(columns), n) - matrix_from_rows(packed.unpack(), n).T
    assert abs(difference).max() == 0
    assert (columns.codes == 0).sum() == 2 + 1 + 2 + 1  # in the columns 7, 65536, 131072 and 199999


def test_columns_list_the_states_with_mass_on_an_item(rng: np.random.Generator) -> None:
    for rows in real(rng):
        n = len(rows.indptr) - 1
        packed = PackedRows.pack(rows)
        columns = packed.transpose()
        difference = matrix_from_rows(unpack_columns(columns), n) - matrix_from_rows(packed.unpack(), n).T
        assert abs(difference).max() == 0
        assert [array.dtype for array in columns] == [np.int64, np.uint16, np.uint8, np.float32]
    assert PackedRows.pack(empty_states(7)).transpose().indptr.tolist() == [0] * 8


def test_parts_and_some_rows(rng: np.random.Generator) -> None:
    rows = made(rng, 60)
    packed = PackedRows.pack(rows)
    items = np.array([5, -1, 59, 5], np.int32)
    some = lists_of(packed.unpack(items))
    everyone = lists_of(packed.unpack())
    assert some == [everyone[5], [], everyone[59], everyone[5]]
    assert [list(part) for part in packed.state(5)] == [list(part) for part in zip(*everyone[5], strict=True)]
    parts = rows_of(lists_of(rows)[:20]), rows_of(lists_of(rows)[20:])
    for one, other in zip(PackedRows.pack_parts(parts, 60, len(rows.indices)), packed, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_without_mass_are_empty() -> None:
    rows = Rows(np.array([0, 2, 2]), np.array([0, 1], np.int32), np.zeros(2, np.float32))
    assert lists_of(PackedRows.pack(rows).unpack()) == [[], []]


def test_the_record_keeps_similarities_in_half_the_space(rng: np.random.Generator) -> None:
    record = kr.Manifold.build(rng.normal(size=(300, 6))).snapshot.state.prepared.record
    assert record.similar.dtype == np.float16
    plain = record.unpack()
    again = plain.pack()
    np.testing.assert_array_equal(again.similar, record.similar)
    assert again.pack() is again
    small = np.array([[1.0, 1e-3, 2e-15, 0.0]], np.float32)
    kept = (
        plain.__class__(plain.near, plain.nearest, small, plain.graph, plain.beta, plain.drift).pack().unpack().similar
    )
    np.testing.assert_allclose(kept[0, :2], small[0, :2], rtol=1e-3)
    assert 0 < kept[0, 2] < 1e-10 < 1 / HALF_UNITS
    assert kept[0, 3] == 0
