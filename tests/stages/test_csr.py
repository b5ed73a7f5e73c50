"""Conversion of lists to sparse rows and back, and mutual entries of lists."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from kinrank.neighbors import find_nearest
from kinrank.stages import csr, gaussian_graph


def lists_of(rng: np.random.Generator, count: int, k: int) -> np.ndarray:
    rows = rng.normal(size=(count, 5)).astype(np.float32)
    return find_nearest(rows, rows, k, own=np.arange(count)).indices


def test_lists_become_rows_in_their_order(rng: np.random.Generator) -> None:
    lists, weights = lists_of(rng, 30, 7), rng.normal(size=(30, 7))
    matrix = csr.matrix_from_lists(lists, weights, 40)
    assert matrix.shape == (30, 40)
    assert matrix.dtype == weights.dtype
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
    for row, (items, values) in enumerate(zip(lists, weights, strict=True)):
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        assert matrix.indices[span].tolist() == items.tolist()
        assert matrix.data[span].tolist() == values.tolist()


def test_only_what_is_kept_becomes_an_entry(rng: np.random.Generator) -> None:
    lists, weights, keep = lists_of(rng, 30, 7), rng.normal(size=(30, 7)), rng.random((30, 7)) < 0.4
    keep[3] = False
    wanted = csr.matrix_from_lists(lists, weights * keep, 30).toarray()
    found = csr.matrix_from_lists(lists, weights, 30, keep)
    assert found.nnz == keep.sum()
    np.testing.assert_array_equal(found.toarray(), wanted)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_empty_lists_give_an_empty_matrix(shape: tuple[int, int]) -> None:
    lists = np.empty(shape, np.int32)
    for keep in (None, np.ones(shape, bool)):
        matrix = csr.matrix_from_lists(lists, np.ones(shape), 5, keep)
        assert matrix.shape == (shape[0], 5)
        assert matrix.nnz == 0


def test_rows_of_a_matrix_make_the_matrix(rng: np.random.Generator) -> None:
    matrix = sparse.csr_array(sparse.random_array((20, 9), density=0.3, rng=rng, dtype=np.float32))
    rows = csr.rows_from_matrix(matrix)
    assert (rows.indptr.dtype, rows.indices.dtype, rows.data.dtype) == (np.int64, np.int32, np.float32)
    assert np.shares_memory(rows.data, matrix.data)
    np.testing.assert_array_equal(csr.matrix_from_rows(rows, 9).toarray(), matrix.toarray())
    assert csr.rows_from_matrix(matrix, np.float64).data.dtype == np.float64


def test_plus_transpose(rng: np.random.Generator) -> None:
    dense = np.where(rng.random((12, 12)) < 0.3, rng.normal(size=(12, 12)), 0)
    np.testing.assert_array_equal(csr.add_transpose(sparse.csr_array(dense)).toarray(), dense + dense.T)


@pytest.mark.parametrize("k", [None, 1, 4, 9, 50])
def test_mutual_means_each_in_the_first_k_of_the_other(rng: np.random.Generator, k: int | None) -> None:
    lists = lists_of(rng, 60, 9)
    first = [set(row[: k or 9].tolist()) for row in lists]
    wanted = [[i in first[j] for j in row[: k or 9]] for i, row in enumerate(lists)]
    found = gaussian_graph.find_mutual(lists, k)
    assert found.tolist() == wanted
    if k:
        sets = gaussian_graph.reciprocal_matrix(lists, k).toarray()
        np.testing.assert_array_equal(sets, [[j in first[i] and i in first[j] for j in range(60)] for i in range(60)])


def test_components_follow_kept_entries_either_way() -> None:
    lists = np.array([[1], [0], [1], [4], [3], [0]], np.int32)
    keep = np.array([[False], [False], [True], [True], [False], [False]])
    label = csr.find_components(lists, keep)
    assert label[1] == label[2]
    assert label[3] == label[4]
    assert len(set(label.tolist())) == 4
