"""LSE: regions, probability distributions, Eq. 14 and 15 to the letter, and distances between states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank.features import unit
from kinrank.items import Items
from kinrank.neighbors import Neighbors
from kinrank.stages import graph, states
from reference import lpmt as twin

Problem = tuple[NDArray[np.float32], Neighbors, NDArray[np.float64], NDArray[np.int64]]


@pytest.fixture
def problem(rng: np.random.Generator) -> Problem:
    """40 rows, their lists, and distances and order of the transcription."""
    rows = unit(rng.standard_normal((40, 6)).astype(np.float32))
    d = twin.euclidean(rows)
    return rows, Items.everyone(rows).neighbors(30), d, twin.nearest_first(d)


def as_sets(pattern: Any) -> list[set[int]]:
    return [{int(j) for j in np.flatnonzero(row)} for row in pattern.toarray()]


def on(pattern: Any, F: NDArray[np.float64]) -> Any:
    """F on the pattern, as csr."""
    from scipy import sparse

    rows = np.repeat(np.arange(len(F)), np.diff(pattern.indptr))
    values = F[rows, pattern.indices].astype(np.float32)
    return sparse.csr_array((values, pattern.indices, pattern.indptr), shape=F.shape)


@pytest.mark.parametrize("k", [1, 2, 7, 30, 60])
def test_regions_are_the_neighbours_and_the_reciprocal_neighbours(problem: Problem, k: int) -> None:
    _, lists, _, rank = problem
    reach = min(k, 30)
    assert as_sets(states.region_pattern(lists, k, "knn")) == twin.neighbourhood(rank, reach)
    assert as_sets(states.region_pattern(lists, k, "reciprocal")) == twin.reciprocal(rank, reach)


def test_reciprocity_is_symmetric_and_holds_the_item_itself(problem: Problem) -> None:
    mutual = states.reciprocal_pattern(problem[1], 8).toarray()
    assert np.array_equal(mutual, mutual.T)
    assert mutual.diagonal().all()
    assert (mutual <= states.nearest_pattern(problem[1], 8).toarray()).all()


@pytest.mark.parametrize("region", ["reciprocal", "knn"])
@pytest.mark.parametrize(("k1", "k2", "kappa"), [(10, 4, 2.0), (20, 7, 0.0), (5, 1, 3.0), (6, 8, 0.5)])
def test_states_are_equations_14_and_15(
    problem: Problem, region: str, k1: int, k2: int, kappa: float, rng: np.random.Generator
) -> None:
    _, lists, _, rank = problem
    F = rng.random((40, 40))
    pattern = states.region_pattern(lists, k1, region)
    weights = states.confidence(lists, k2, kappa)
    np.testing.assert_allclose(weights.toarray(), twin.confidence(rank, k2, kappa), atol=1e-6)
    got = states.locality_states(on(pattern, F), weights, 0).toarray()
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
    similarity = on(states.region_pattern(lists, 12, "reciprocal"), F)
    weights = states.confidence(lists, 5, 2.0)
    cut = states.locality_states(similarity, weights, support)
    full = states.locality_states(similarity, weights, 0).toarray()
    np.testing.assert_allclose(cut.toarray().sum(axis=1), 1.0, atol=1e-5)
    want = twin.states(F, twin.reciprocal(rank, 12), twin.confidence(rank, 5, 2.0), support)
    np.testing.assert_allclose(cut.toarray(), want, atol=1e-6)
    for i, row in enumerate(cut.toarray()):
        kept = row > 0
        assert kept.sum() == min(support, (full[i] > 0).sum())
        assert full[i][kept].min() >= full[i][~kept].max(initial=0.0)
    assert cut.has_sorted_indices


def test_equal_entries_are_kept_by_item_number() -> None:
    from scipy import sparse

    row = sparse.csr_array(np.array([[0.0, 1, 2, 1, 1, 2], [0, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0]], np.float32))
    kept = states.strongest(row, 3).toarray()
    np.testing.assert_array_equal(kept, [[0, 1, 2, 0, 0, 2], [0] * 6, [3, 0, 0, 0, 0, 0]])


@pytest.mark.parametrize("region", ["reciprocal", "knn"])
def test_similarity_on_a_region_is_the_listed_weight(problem: Problem, region: str) -> None:
    _, lists, d, rank = problem
    length = graph.kernel_scale(lists, "local", 10)
    weights = graph.gaussian_weights(lists, 0.5, length, "local")
    pattern = states.region_pattern(lists, 9, region)
    got = states.similarity_on(pattern, lists, weights).toarray()
    want = twin.gaussian(d, rank, 0.5, "local", 10)
    np.testing.assert_allclose(got, np.where(pattern.toarray() > 0, want, 0), rtol=1e-3, atol=1e-7)


def test_an_item_whose_neighbours_all_ignore_it_keeps_its_own_state() -> None:
    """A lonely item: R(i, k1) is the item itself, so its own p^ is one at itself."""
    angles = np.array([0.0, 0.01, 0.02, 0.03, 0.9])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    lists = Items.everyone(rows).neighbors(5)
    similarity = on(states.reciprocal_pattern(lists, 3), np.full((5, 5), 0.5))
    assert states.reciprocal_pattern(lists, 3).toarray()[4].sum() == 1
    alone = states.locality_states(similarity, states.confidence(lists, 1, 2.0), 0).toarray()[4]
    np.testing.assert_allclose(alone, [0, 0, 0, 0, 1])
    together = states.locality_states(similarity, states.confidence(lists, 2, 2.0), 0).toarray()[4]
    assert together[4] == pytest.approx((2 + 1) / (2 * 1 + 2), abs=1e-6)  # Eq. 15: kappa |R| + k2 = 4


def random_states(rng: np.random.Generator, n: int) -> Any:
    from scipy import sparse

    dense = rng.random((n, n)) * (rng.random((n, n)) < 0.2)
    dense[np.arange(n), np.arange(n)] = 1.0
    return sparse.csr_array((dense / dense.sum(axis=1, keepdims=True)).astype(np.float32))


LITERAL = {
    "total_variation": lambda p, q: 0.5 * np.abs(p - q).sum(),
    "jaccard": lambda p, q: 1 - np.minimum(p, q).sum() / np.maximum(p, q).sum(),
    "cosine": lambda p, q: 1 - p @ q / np.sqrt((p @ p) * (q @ q)),
    "euclidean": lambda p, q: np.sqrt(((p - q) ** 2).sum()),
}


@pytest.mark.parametrize("kind", list(LITERAL))
def test_state_distances_are_their_definitions_and_inf_where_nothing_is_shared(
    rng: np.random.Generator, kind: str
) -> None:
    p = random_states(rng, 25)
    queries, gallery = np.arange(6), np.arange(4, 25)
    got = states.state_distances(p, queries, gallery, kind)
    dense = p.toarray().astype(np.float64)
    assert got.shape == (6, 21)
    for i in queries:
        for column, j in enumerate(gallery):
            if (dense[i] * dense[j]).sum() == 0:
                assert np.isinf(got[i, column])
            else:
                assert got[i, column] == pytest.approx(LITERAL[kind](dense[i], dense[j]), abs=1e-3)
    assert np.isinf(got).any()
    assert got[4, 0] == pytest.approx(0, abs=1e-3)  # an item and itself
