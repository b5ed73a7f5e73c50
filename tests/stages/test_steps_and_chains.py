"""TMT: steps, their prices, cheapest chains against Floyd-Warshall and scipy, effect of the powers on a chain."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import dijkstra, shortest_path

from kinrank.problem import Items
from kinrank.stages import step_costs
from kinrank.stages.csr import Rows, matrix_from_rows, rows_from_matrix
from kinrank.stages.sparse_rows import Pattern
from kinrank.stages.step_costs import find_chains, trace_chain
from kinrank.stages.transport import TransportSettings
from kinrank.vector_input import to_unit_rows
from kinrank_bench.paper import lpmt_ablation
from reference import lpmt as twin

POWERS = [(1.0, 1.0), (1.0, 3.0), (2.0, 3.0), (4.0, 2.2), (0.5, 2.0), (0.3, 1.0)]


def problem(seed: int, n: int = 45) -> tuple[NDArray[np.float32], Any, NDArray[np.int64]]:
    """Return unit rows, states spread over near items, and the order of each row."""
    rng = np.random.default_rng(seed)
    rows = to_unit_rows(rng.standard_normal((n, 4)).astype(np.float32))
    rank = twin.nearest_first(twin.euclidean(rows))
    dense = np.zeros((n, n))
    for i in range(n):
        dense[i, rank[i, :8]] = rng.random(8)
    states = sparse.csr_array((dense / dense.sum(axis=1, keepdims=True)).astype(np.float32))
    return rows, states, rank


def build_pattern(nearest: NDArray[np.int32], k: int, both: bool) -> Pattern:
    """Return the steps of LPMT, or those of its ablation between items that list each other."""
    if both:
        return lpmt_ablation.mutual_pattern(np.ascontiguousarray(nearest[:, 1 : k + 1]))
    return step_costs.build_step_pattern(nearest, k)


def steps_of(
    rows: NDArray[np.float32], states: Any, k: int, rho: float, gamma: float, iterations: int, both: bool = False
) -> Rows:
    """Return steps to the k nearest by distance, and their prices."""
    pattern = build_pattern(Items.from_gallery(rows).neighbors(k + 1).indices, k, both)
    how = TransportSettings(rho, gamma, 0.05, iterations)
    return Rows(*pattern, step_costs.price_steps(pattern, rows_from_matrix(states), rows, how))


def dense(steps: Rows) -> NDArray[np.float64]:
    """Return (n, n) the price of every step, 0 on the diagonal, inf elsewhere."""
    n = len(steps.indptr) - 1
    prices = np.full((n, n), np.inf)
    prices[origins(steps), steps.indices] = steps.data
    np.fill_diagonal(prices, 0.0)
    return prices


def origins(steps: Rows) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(steps.indptr) - 1), np.diff(steps.indptr))


@pytest.mark.parametrize("kind", ["union", "reciprocal"])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_steps_join_items_that_one_or_each_counts_among_its_nearest(kind: str, k: int) -> None:
    rows, _, rank = problem(0)
    indptr, indices = build_pattern(Items.from_gallery(rows).neighbors(k + 4).indices, k, kind == "reciprocal")
    got = np.zeros((45, 45), bool)
    got[np.repeat(np.arange(45), np.diff(indptr)), indices] = True
    assert np.array_equal(got, twin.allowed_steps(rank, k, kind))
    assert len(indices) == got.sum()
    assert np.array_equal(got, got.T)
    assert all((np.diff(indices[a:b]) > 0).all() for a, b in pairwise(indptr))


@pytest.fixture(params=["table", "vectors"])
def ground(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use both ways to get ground costs, regardless of the number of items."""
    monkeypatch.setattr(step_costs, "MAX_TABLE_ITEMS", 10**9 if request.param == "table" else 0)
    return str(request.param)


@pytest.mark.parametrize(("rho", "gamma"), POWERS)
@pytest.mark.parametrize("iterations", [0, 5])
def test_prices_are_symmetric_and_those_of_the_pairs(rho: float, gamma: float, iterations: int, ground: str) -> None:
    """To the bit, in both directions, and for any selection of pairs."""
    rows, states, _ = problem(1)
    steps = steps_of(rows, states, 6, rho, gamma, iterations)
    prices = dense(steps)
    assert np.array_equal(prices, prices.T)
    assert steps.data.min() >= 0
    forward = origins(steps) < steps.indices
    shuffled = np.random.default_rng(0).permutation(int(forward.sum()))
    sources, targets = origins(steps)[forward][shuffled], steps.indices[forward][shuffled]
    pairs = step_costs.price_pairs(
        sources, targets, rows_from_matrix(states), rows, TransportSettings(rho, gamma, 0.05, iterations)
    )
    exact = 1e-3 * gamma if ground == "table" and iterations else 1e-4  # codes have ten bits
    np.testing.assert_allclose(pairs, steps.data[forward][shuffled], rtol=exact)


@pytest.mark.parametrize(("rho", "gamma"), POWERS)
@pytest.mark.parametrize("both", [False, True])
def test_exact_prices_are_the_linear_program(rho: float, gamma: float, both: bool, ground: str) -> None:
    rows, states, rank = problem(2, 20)
    p, d = states.toarray().astype(np.float64), twin.euclidean(rows)
    allowed = twin.allowed_steps(rank, 4, "reciprocal" if both else "union")
    got = dense(steps_of(rows, states, 4, rho, gamma, 0, both))
    np.testing.assert_allclose(got, twin.step_costs(p, d, allowed, rho, gamma), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(("rho", "gamma"), POWERS)
@pytest.mark.parametrize("iterations", [0, 5])
def test_reach_is_the_shortest_path_over_the_same_costs(rho: float, gamma: float, iterations: int) -> None:
    rows, states, _ = problem(1)
    steps = steps_of(rows, states, 6, rho, gamma, iterations)
    reach, parents = find_chains(np.arange(45), steps)
    assert parents.shape == (0, 45)
    prices = dense(steps)
    want = twin.floyd_warshall(prices)
    np.testing.assert_allclose(reach, want, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(want, shortest_path(np.where(np.isfinite(prices), prices, 0), method="D"), rtol=1e-9)


def test_reach_agrees_with_the_literal_transcription_from_the_states_on() -> None:
    rows, states, rank = problem(2, 30)
    d = twin.euclidean(rows)
    p = states.toarray().astype(np.float64)
    want = twin.floyd_warshall(twin.step_costs(p, d, twin.allowed_steps(rank, 5, "union"), 2.0, 3.0))
    reach, _ = find_chains(np.arange(30), steps_of(rows, states, 5, 2.0, 3.0, 0))
    np.testing.assert_allclose(reach, want, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(("n", "density"), [(50, 0.1), (400, 0.01), (3000, 0.002)])
@pytest.mark.parametrize("seed", range(2))
def test_chains_are_those_of_scipy_and_their_parents_lead_back(n: int, density: float, seed: int) -> None:
    """Random graphs, some with several components, many equal prices and some 0; integers, so that sums are exact."""
    rng = np.random.default_rng(seed)
    half = sparse.random_array((n, n), density=density, rng=rng, data_sampler=lambda size: rng.integers(1, 5, size))
    matrix = sparse.csr_array(sparse.triu(half, 1) + sparse.triu(half, 1).T).astype(np.float32)
    matrix.sort_indices()
    steps, sources = rows_from_matrix(matrix), rng.integers(0, n, 20)
    totals, parents = find_chains(sources, steps, parents=True)
    np.testing.assert_array_equal(totals, dijkstra(matrix.astype(np.float64), indices=sources))
    prices = matrix.toarray()
    for row, source in enumerate(sources):
        assert parents[row, source] == -1
        for item in np.flatnonzero(np.isfinite(totals[row])):
            if item != source:
                before = parents[row, item]
                assert prices[before, item] > 0
                assert totals[row, before] + prices[before, item] == totals[row, item]
        assert (parents[row][np.isinf(totals[row])] == -1).all()


@pytest.mark.parametrize(("rho", "gamma"), POWERS)
def test_distance_of_the_centres_never_exceeds_the_cost_of_a_step(rho: float, gamma: float, ground: str) -> None:
    """A lower bound that costs almost nothing (design, fact 9): |E_p x - E_q x|^rho for rho >= 1, by Jensen."""
    rows, states, _ = problem(3)
    steps = steps_of(rows, states, 10, rho, gamma, 0)
    centres = states.toarray().astype(np.float64) @ rows
    gaps = np.linalg.norm(centres[origins(steps)] - centres[steps.indices], axis=1)
    least = gaps**rho if rho >= 1 else 2 ** (rho - 1) * gaps
    assert (least**gamma <= steps.data * (1 + 1e-4)).all()


@pytest.mark.parametrize("iterations", [0, 5])
def test_answer_does_not_depend_on_what_was_asked_before(iterations: int) -> None:
    rows, states, _ = problem(5)
    steps = steps_of(rows, states, 8, 1.0, 3.0, iterations)
    together = find_chains(np.arange(45), steps)[0]
    one_by_one = np.concatenate([find_chains(np.array([i]), steps)[0] for i in range(45)])
    backwards = find_chains(np.arange(45)[::-1].copy(), steps)[0][::-1]
    np.testing.assert_array_equal(together, one_by_one)
    np.testing.assert_array_equal(together, backwards)
    np.testing.assert_array_equal(together, find_chains(np.arange(45), steps, parents=True)[0])


def test_direct_step_is_cheapest_for_plain_w1_in_an_unrestricted_region() -> None:
    """W1 obeys the triangle inequality, so without a power a chain gains nothing (design, fact 5b)."""
    rows, states, _ = problem(6)
    steps = steps_of(rows, states, 60, 1.0, 1.0, 0)
    np.testing.assert_allclose(find_chains(np.arange(45), steps)[0], dense(steps), rtol=1e-3, atol=1e-6)


def test_many_small_steps_are_cheaper_than_one_large_one_for_gamma_above_one() -> None:
    rows, states, _ = problem(6)
    steps = steps_of(rows, states, 60, 1.0, 3.0, 0)
    reach, prices = find_chains(np.arange(45), steps)[0], dense(steps)
    others = ~np.eye(45, dtype=bool)
    assert (reach <= prices).all()
    assert (reach[others] < 0.9 * prices[others]).mean() > 0.5


@pytest.mark.parametrize("iterations", [0, 5])
def test_parents_give_chains_whose_costs_sum_to_the_reach(iterations: int) -> None:
    rows, states, _ = problem(7)
    steps = steps_of(rows, states, 6, 1.0, 3.0, iterations)
    reach, parents = find_chains(np.arange(45), steps, parents=True)
    prices = dense(steps)
    for source in (0, 11, 44):
        for item in range(45):
            chain = trace_chain(parents[source], item)
            assert chain[0] == source
            assert chain[-1] == item
            summed = sum(prices[a, b] for a, b in pairwise(chain))
            assert summed == pytest.approx(float(reach[source, item]), rel=1e-5, abs=1e-9)


def test_no_chain_leads_to_another_component() -> None:
    rng = np.random.default_rng(0)
    rows = to_unit_rows((np.repeat(np.eye(3)[:2], 6, axis=0) + 0.1 * rng.standard_normal((12, 3))).astype(np.float32))
    steps = steps_of(rows, sparse.csr_array(np.eye(12, dtype=np.float32)), 3, 1.0, 3.0, 0)
    reach, parents = find_chains(np.arange(12), steps, parents=True)
    same = np.repeat([0, 1], 6)[:, None] == np.repeat([0, 1], 6)[None, :]
    assert np.array_equal(np.isfinite(reach), same)
    assert trace_chain(parents[0], 9) == [9]
    assert (parents[~same] == -1).all()


def test_reach_is_symmetric_and_zero_at_home() -> None:
    rows, states, _ = problem(8)
    reach, _ = find_chains(np.arange(45), steps_of(rows, states, 6, 2.0, 2.0, 5))
    np.testing.assert_allclose(reach, reach.T, rtol=1e-5, atol=1e-8)
    assert not reach.diagonal().any()


def test_duplicates_are_reached_for_nothing(ground: str) -> None:
    rows, states, _ = problem(9, 20)
    doubled = np.concatenate([rows, rows])
    both = sparse.csr_array(sparse.vstack([states, states]))
    both.resize((40, 40))  # both copies are in the same state
    both.sort_indices()
    reach, _ = find_chains(np.arange(40), steps_of(doubled, both, 5, 1.0, 3.0, 5))
    np.testing.assert_array_equal(reach[np.arange(20), np.arange(20, 40)], 0.0)


def test_chains_for_no_sources_and_for_a_single_item() -> None:
    rows, states, _ = problem(10, 12)
    steps = steps_of(rows, states, 3, 1.0, 3.0, 5)
    assert find_chains(np.zeros(0, np.int64), steps)[0].shape == (0, 12)
    alone = steps_of(rows[:1], sparse.csr_array(np.ones((1, 1), np.float32)), 3, 1.0, 3.0, 5)
    assert find_chains(np.array([0]), alone)[0].tolist() == [[0.0]]
    assert matrix_from_rows(steps, 12).shape == (12, 12)
