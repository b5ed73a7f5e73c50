"""LSE: regions, probability distributions, Eq. 14 to 16 to the letter, and distances between states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors
from kinrank.problem import Items
from kinrank.stages import gaussian_graph, states
from kinrank.stages import states as kernels
from kinrank.stages.csr import Rows, matrix_from_rows
from kinrank.stages.diffusion import DiffusedLists
from kinrank.stages.kernels.data_structures import UNTOUCHED
from kinrank.stages.states import ConfidentLists
from kinrank.vector_input import to_unit_rows
from kinrank_bench.paper import lpmt_ablation
from reference import lpmt as twin

Problem = tuple[NDArray[np.float32], Neighbors, NDArray[np.float64], NDArray[np.int64]]


@pytest.fixture
def problem(rng: np.random.Generator) -> Problem:
    """Return 40 rows, their lists, and the distances and order of the transcription."""
    rows = to_unit_rows(rng.standard_normal((40, 6)).astype(np.float32))
    d = twin.euclidean(rows)
    return rows, Items.from_gallery(rows).neighbors(30), d, twin.nearest_first(d)


def along(F: NDArray[np.float64], lists: NDArray[np.int32]) -> NDArray[np.float32]:
    return np.take_along_axis(F, lists, axis=1).astype(np.float32)


def states_of(
    lists: NDArray[np.int32], F: NDArray[np.float64], k1: int, k2: int, kappa: float, support: int = 0, **more: Any
) -> Any:
    """Return p as csr, with the k2 nearest of the same lists."""
    near = np.ascontiguousarray(lists[:, :k2])
    confident = ConfidentLists(near, states.confidence_weights(near, kappa))
    diffused = DiffusedLists(lists, along(F, lists))
    return matrix_from_rows(states.locality_states(confident, diffused, k1, support, **more), len(lists))


def regions_of(
    lists: NDArray[np.int32], similar: NDArray[np.float32], k1: int, region: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return (marked, totals) of every item."""
    if region != "reciprocal":
        return lpmt_ablation.plain_regions(similar, k1)
    marked, totals = np.empty_like(similar), np.empty(len(lists), np.float32)
    diffused, k1 = DiffusedLists(lists, similar), min(k1, lists.shape[1])
    kernels.mark_regions(0, len(lists), np.arange(len(lists)), diffused, k1, marked, totals)
    return marked, totals


@pytest.mark.parametrize("k", [1, 2, 7, 30, 60])
@pytest.mark.parametrize("region", ["reciprocal", "knn"])
def test_regions_are_the_neighbours_and_the_reciprocal_neighbours(problem: Problem, k: int, region: str) -> None:
    """Members are marked by their sign; inside is the similarity of the list, and its sum."""
    _, lists, d, rank = problem
    F = twin.gaussian(d, rank, 0.5, "local", 10)
    similar = gaussian_graph.gaussian_weights(lists, gaussian_graph.kernel_lengths(lists, 10), 0.5)
    marked, totals = regions_of(lists.indices, similar, k, region)
    reach = min(k, 30)
    want = twin.neighbourhood(rank, reach) if region == "knn" else twin.reciprocal(rank, reach)
    assert [set(row[sign].tolist()) for row, sign in zip(lists.indices, marked > 0, strict=True)] == want
    np.testing.assert_array_equal(np.abs(marked), similar)
    np.testing.assert_allclose(similar, along(F, lists.indices), rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(totals, [sum(F[i, j] for j in row) for i, row in enumerate(want)], rtol=1e-3)


def test_items_that_only_fill_up_a_list_are_in_no_region(rng: np.random.Generator) -> None:
    """1 lists 0 at similarity 0, because F reached too few items, so 1 is not in the region of 0 either."""
    lists = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]], np.int32)
    similar = np.array([[0.5, 0.3, 0.2], [0.6, 0.4, 0.0], [0.5, 0.2, 0.3]], np.float32)
    marked, totals = regions_of(lists, similar, 3, "reciprocal")
    np.testing.assert_array_equal(marked > 0, [[True, False, True], [True, True, False], [True, True, True]])
    np.testing.assert_allclose(totals, [0.7, 1.0, 1.0], rtol=1e-6)


def test_reciprocity_is_symmetric_and_holds_the_item_itself(problem: Problem) -> None:
    lists = np.ascontiguousarray(problem[1].indices[:, :8])
    marked, _ = regions_of(lists, np.ones(lists.shape, np.float32), 8, "reciprocal")
    mutual = twin.listed(lists, marked > 0).toarray()
    assert np.array_equal(mutual, mutual.T)
    assert mutual.diagonal().all()
    indptr, indices = lpmt_ablation.mutual_pattern(lists)
    assert np.array_equal(mutual, twin.sparse_union(lists, both=True).toarray() > 0)
    assert len(indices) == indptr[-1] == mutual.sum()


@pytest.mark.parametrize("region", ["reciprocal", "knn"])
@pytest.mark.parametrize(("k1", "k2", "kappa"), [(10, 4, 2.0), (20, 7, 0.0), (5, 1, 3.0), (6, 8, 0.5)])
def test_states_are_equations_15_and_16(
    problem: Problem, region: str, k1: int, k2: int, kappa: float, rng: np.random.Generator
) -> None:
    _, lists, _, rank = problem
    F = rng.random((40, 40))
    near = np.ascontiguousarray(lists.indices[:, :k2])
    weights = twin.listed(near, states.confidence_weights(near, kappa)).toarray()
    np.testing.assert_allclose(weights, twin.confidence(rank, k2, kappa), atol=1e-6)
    np.testing.assert_allclose(weights, twin.sparse_confidence(near, kappa).toarray(), atol=1e-6)
    got = states_of(lists.indices, F, k1, k2, kappa).toarray()
    if region != "reciprocal":
        confident = ConfidentLists(near, states.confidence_weights(near, kappa))
        diffused = DiffusedLists(lists.indices, along(F, lists.indices))
        got = matrix_from_rows(lpmt_ablation.plain_states(confident, diffused, k1, 0), 40).toarray()
    regions = twin.reciprocal(rank, k1) if region == "reciprocal" else twin.neighbourhood(rank, k1)
    np.testing.assert_allclose(got, twin.states(F, regions, twin.confidence(rank, k2, kappa)), atol=1e-6)
    np.testing.assert_allclose(got.sum(axis=1), 1.0, atol=1e-5)
    assert got.min() >= 0


@pytest.mark.parametrize("support", [1, 3, 8, 1000])
def test_support_keeps_the_largest_entries_and_the_sum(
    problem: Problem, support: int, rng: np.random.Generator
) -> None:
    _, lists, _, rank = problem
    F = rng.random((40, 40))
    cut = states_of(lists.indices, F, 12, 5, 2.0, support)
    full = states_of(lists.indices, F, 12, 5, 2.0).toarray()
    np.testing.assert_allclose(cut.toarray().sum(axis=1), 1.0, atol=1e-5)
    want = twin.states(F, twin.reciprocal(rank, 12), twin.confidence(rank, 5, 2.0), support)
    np.testing.assert_allclose(cut.toarray(), want, atol=1e-6)
    for i, row in enumerate(cut.toarray()):
        kept = row > 0
        assert kept.sum() == min(support, (full[i] > 0).sum())
        assert full[i][kept].min() >= full[i][~kept].max(initial=0.0)
    assert cut.has_sorted_indices


@pytest.mark.parametrize("support", [0, 1, 40])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_states_of_many_items_are_those_of_sparse_products(
    rng: np.random.Generator, support: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1200 items, lists by distance and by F, which does not reach all items; in several blocks."""
    monkeypatch.setattr(states.THREAD_RUNNER, "together", 500)
    rows = to_unit_rows(rng.standard_normal((1200, 4)).astype(np.float32))
    lists = Items.from_gallery(rows).neighbors(61).indices
    nearest = Items.from_gallery(
        to_unit_rows(rows + 0.1 * rng.standard_normal(rows.shape).astype(np.float32))
    ).neighbors(30)
    similar = np.sort(rng.random((1200, 30)).astype(np.float32), axis=1)[:, ::-1].copy()
    similar[::7, 20:] = 0.0
    confident = states.confident_lists(lists, nearest.indices, 5, 3.0, share)
    mixed = (1 - share) * twin.sparse_confidence(lists[:, :5], 3.0)
    if share:
        mixed = mixed + share * twin.sparse_confidence(nearest.indices[:, :5], 3.0)
    want = twin.sparse_states(nearest.indices, similar, mixed, 25, support)
    found = states.locality_states(confident, DiffusedLists(nearest.indices, similar), 25, support)
    got = matrix_from_rows(found, 1200)
    assert got.has_sorted_indices
    assert abs(got - want).max() < 1e-6
    assert (np.diff(got.indptr) <= (support or 1200)).all()
    np.testing.assert_allclose(got.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("support", [0, 6])
def test_states_of_some_items_are_those_of_all(problem: Problem, support: int, rng: np.random.Generator) -> None:
    """To the bit: updates compute only the states that changed."""
    lists, F = problem[1].indices, rng.random((40, 40))
    confident, diffused = states.confident_lists(lists, lists, 5, 2.0, 0.0), DiffusedLists(lists, along(F, lists))
    every = states.locality_states(confident, diffused, 12, support)
    some = np.array([31, 4, 5])
    asked = np.unique(confident.items[some])
    few = states.locality_states(confident.select(some), diffused, 12, support, rows=asked.astype(np.int64))
    for place, item in enumerate(some):
        one, other = (slice(rows.indptr[at], rows.indptr[at + 1]) for rows, at in ((few, place), (every, item)))
        np.testing.assert_array_equal(few.indices[one], every.indices[other])
        np.testing.assert_array_equal(few.data[one], every.data[other])


def test_inputs_are_not_changed(problem: Problem, rng: np.random.Generator) -> None:
    lists, F = problem[1].indices, rng.random((40, 40))
    similar = along(F, lists)
    confident, diffused = states.confident_lists(lists, lists, 5, 2.0, 0.0), DiffusedLists(lists, similar)
    inputs = *confident, *diffused
    copies = [array.copy() for array in inputs]
    for array in inputs:
        array.flags.writeable = False
    states.locality_states(confident, diffused, 12, 8)
    states.locality_states(confident.select(np.arange(5)), diffused, 12, 8, np.unique(confident.items[:5]))
    for array, copy in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_marks_may_overwrite_the_similarities(problem: Problem, rng: np.random.Generator) -> None:
    lists, F = problem[1].indices, rng.random((40, 40))
    confident, similar = states.confident_lists(lists, lists, 5, 2.0, 0.0), along(F, lists)
    plain = states.locality_states(confident, DiffusedLists(lists, similar.copy()), 12, 8)
    over = states.locality_states(confident, DiffusedLists(lists, similar), 12, 8, overwrite=True)
    for one, other in zip(plain, over, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_sign_of_a_similarity_has_no_effect(problem: Problem, rng: np.random.Generator) -> None:
    """Only because mark_regions reads absolute values: F itself is never negative."""
    lists, F = problem[1].indices, rng.random((40, 40))
    similar = along(F, lists)
    confident = states.confident_lists(lists, lists, 5, 2.0, 0.0)
    first = states.locality_states(confident, DiffusedLists(lists, similar), 12, 8)
    signs = np.where(rng.random(similar.shape) < 0.5, np.float32(-1), np.float32(1))
    again = states.locality_states(confident, DiffusedLists(lists, similar * signs), 12, 8)
    np.testing.assert_array_equal(first.data, again.data)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_confident_lists_are_a_mixture_of_both_neighbourhoods(
    problem: Problem, share: float, rng: np.random.Generator
) -> None:
    _, lists, _, rank = problem
    F = rng.random((40, 40))
    kin = twin.by_similarity(F, rank)
    confident, weights = states.confident_lists(lists.indices, kin.astype(np.int32), 4, 2.0, share)
    want = (1 - share) * twin.confidence(rank, 4, 2.0) + share * twin.confidence(kin, 4, 2.0)
    got = np.zeros((40, 40))
    np.add.at(got, (np.arange(40)[:, None], confident), weights)
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_equal_entries_are_kept_by_item_number() -> None:
    """Regardless of the order in which a row is met."""
    dense = np.array([[0.0, 1, 2, 1, 1, 2], [0, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0]], np.float32)
    rows = Rows(
        np.array([0, 5, 5, 6]), np.array([4, 3, 5, 1, 2, 0], np.int32), np.array([1, 1, 2, 1, 2, 3], np.float32)
    )
    regions = Rows(np.r_[rows.indptr, [6, 6, 6]], rows.indices, rows.data)  # over six items
    own = ConfidentLists(np.arange(3, dtype=np.int32)[:, None], np.ones((3, 1), np.float32))
    kept = matrix_from_rows(states.average_regions(own, np.ones(6, np.float32), regions, 3), 6).toarray()
    np.testing.assert_allclose(kept, [[0, 0.2, 0.4, 0, 0, 0.4], [0] * 6, [1, 0, 0, 0, 0, 0]])
    from scipy import sparse

    np.testing.assert_array_equal(kept > 0, twin.strongest(sparse.csr_array(dense), 3).toarray() > 0)


def test_an_item_whose_neighbours_all_ignore_it_keeps_its_own_state() -> None:
    """An isolated item: R(i, k1) is the item itself, so its own p^ is one at itself."""
    angles = np.array([0.0, 0.01, 0.02, 0.03, 0.9])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    lists, F = Items.from_gallery(rows).neighbors(5).indices, np.full((5, 5), 0.5)
    assert (regions_of(lists, along(F, lists), 3, "reciprocal")[0][4] > 0).sum() == 1
    np.testing.assert_allclose(states_of(lists, F, 3, 1, 2.0).toarray()[4], [0, 0, 0, 0, 1])
    together = states_of(lists, F, 3, 2, 2.0).toarray()[4]
    assert together[4] == pytest.approx((2 + 1) / (2 * 1 + 2), abs=1e-6)  # kappa |R| + k2 = 4


def random_states(rng: np.random.Generator, n: int) -> Any:
    from scipy import sparse

    dense = rng.random((n, n)) * (rng.random((n, n)) < 0.2)
    dense[np.arange(n), np.arange(n)] = 1.0
    return sparse.csr_array((dense / dense.sum(axis=1, keepdims=True)).astype(np.float32))


@pytest.mark.parametrize("kind", ["total_variation", "jaccard", "cosine", "euclidean"])
def test_state_distances_are_their_definitions_and_inf_where_nothing_is_shared(
    rng: np.random.Generator, kind: str
) -> None:
    p = random_states(rng, 25)
    queries, gallery = np.arange(6), np.arange(4, 25)
    got = lpmt_ablation.state_distances(p, queries, gallery, kind)
    assert got.shape == (6, 21)
    want = twin.state_distances(p.toarray().astype(np.float64), kind)[np.ix_(queries, gallery)]
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    np.testing.assert_allclose(got, want, atol=1e-3)
    assert np.isinf(got).any()
    assert got[4, 0] == pytest.approx(0, abs=1e-3)  # an item and itself


def test_nan_weights_add_nothing() -> None:
    """NaN weights count as nothing when memory is reserved, so they must add nothing when it is filled."""
    regions = Rows(np.arange(5, dtype=np.int64), np.arange(4, dtype=np.int32), np.ones(4, np.float32))
    lists = np.array([[0, 1, 2, 3], [0, 1, 2, 3]], np.int32)
    weights = np.array([[np.nan] * 4, [0.5, np.nan, 0.5, -1.0]], np.float32)
    items, masses, sizes = np.zeros((2, 4), np.int32), np.zeros((2, 4), np.float32), np.zeros(2, np.int64)
    mixture = kernels.RowMixture(lists, weights, regions, states.NO_MASS)
    kernels.average_rows(0, 2, mixture, items, masses, sizes)
    assert sizes.tolist() == [0, 2]
    assert items[1, :2].tolist() == [0, 2]


def test_products_that_underflow_add_no_entry() -> None:
    """1e-30 * 1e-30 is 0 in float32: an item reached twice this way used to be listed twice, with mass 0."""
    regions = Rows(
        np.array([0, 3, 6, 6, 6]),
        np.array([0, 1, 2, 0, 1, 2], np.int32),
        np.array([1.0, 1e-30, 1e-30, 1e-30, 1e-30, 1.0], np.float32),
    )
    lists, weights = np.array([[0, 1, 1]], np.int32), np.array([[1e-30, 1e-30, 1.0]], np.float32)
    items, masses, sizes = np.zeros((1, 4), np.int32), np.zeros((1, 4), np.float32), np.zeros(1, np.int64)
    mass = np.full(4, UNTOUCHED, np.float64)
    kernels.average_rows(0, 1, kernels.RowMixture(lists, weights, regions, mass), items, masses, sizes)
    assert items[0, : sizes[0]].tolist() == [0, 1, 2]
    assert (masses[0, : sizes[0]] > 0).all()
    assert (mass == UNTOUCHED).all()
    only_tiny = np.array([[1e-30, 0.0, 0.0]], np.float32)
    kernels.average_rows(0, 1, kernels.RowMixture(lists, only_tiny, regions, mass), items, masses, sizes)
    assert items[0, : sizes[0]].tolist() == [0]
    assert (mass == UNTOUCHED).all()
