"""TMT: cheapest chains against Floyd-Warshall, lazy against eager costs, what the powers do to a chain."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from kinrank.features import unit
from kinrank.items import Items
from kinrank.stages.paths import Chains, Steps, chain_to, local_steps
from kinrank.stages.transport import transition_costs
from reference import lpmt as twin

POWERS = [(1.0, 1.0), (1.0, 3.0), (2.0, 3.0), (4.0, 2.2), (0.5, 2.0), (0.3, 1.0)]


def problem(seed: int, n: int = 45) -> tuple[NDArray[np.float32], Any, NDArray[np.int64]]:
    """Unit rows, states spread over near items, and the order of each row."""
    rng = np.random.default_rng(seed)
    rows = unit(rng.standard_normal((n, 4)).astype(np.float32))
    rank = twin.nearest_first(twin.euclidean(rows))
    dense = np.zeros((n, n))
    for i in range(n):
        dense[i, rank[i, :8]] = rng.random(8)
    states = sparse.csr_array((dense / dense.sum(axis=1, keepdims=True)).astype(np.float32))
    return rows, states, rank


def steps_of(rows: NDArray[np.float32], k: int, kind: str = "union") -> Steps:
    return local_steps(Items.everyone(rows).neighbors(k + 1), k, kind)


def eager(chains: Chains, rows: NDArray[np.float32], rho: float, gamma: float, iterations: int) -> NDArray[np.float64]:
    """(n, n) cost of every allowed step, inf elsewhere: all of them solved, none left for later.

    No cost is below its lower bound, by the centres of the two states; a few Sinkhorn steps can be.
    """
    steps, n = chains.steps, len(rows)
    pairs = np.stack([steps.origins, steps.ends], axis=1).astype(np.int32)
    costs = np.full((n, n), np.inf)
    np.fill_diagonal(costs, 0.0)
    values = transition_costs(np.sort(pairs, axis=1), chains.states, rows, rho, 0.05, iterations)
    centres = chains.states.toarray().astype(np.float64) @ rows
    gaps = np.linalg.norm(centres[pairs[:, 0]] - centres[pairs[:, 1]], axis=1)
    least = gaps**rho if rho >= 1 else 2 ** (rho - 1) * gaps
    costs[pairs[:, 0], pairs[:, 1]] = np.maximum(values.astype(np.float64) ** gamma, 0.95 * least**gamma)
    return costs


@pytest.mark.parametrize("kind", ["union", "reciprocal"])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_steps_join_items_that_one_or_each_counts_among_its_nearest(kind: str, k: int) -> None:
    rows, _, rank = problem(0)
    steps = steps_of(rows, k, kind)
    got = np.zeros((45, 45), bool)
    got[steps.origins, steps.ends] = True
    assert np.array_equal(got, twin.allowed_steps(rank, k, kind))
    assert np.array_equal(steps.origins[steps.mirror], steps.ends)
    assert np.array_equal(steps.ends[steps.mirror], steps.origins)


@pytest.mark.parametrize(("rho", "gamma"), POWERS)
@pytest.mark.parametrize("iterations", [0, 5])
def test_reach_is_the_shortest_path_over_the_same_costs(rho: float, gamma: float, iterations: int) -> None:
    rows, states, _ = problem(1)
    chains = Chains(steps_of(rows, 6), states, rows, rho, gamma, 0.05, iterations)
    reach, _ = chains.from_items(np.arange(45))
    costs = eager(chains, rows, rho, gamma, iterations)
    want = twin.floyd_warshall(costs)
    np.testing.assert_allclose(reach, want, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(want, shortest_path(np.where(np.isfinite(costs), costs, 0), method="D"), rtol=1e-9)


def test_reach_agrees_with_the_literal_transcription_from_the_states_on() -> None:
    rows, states, rank = problem(2, 30)
    d = twin.euclidean(rows)
    chains = Chains(steps_of(rows, 5), states, rows, 2.0, 3.0, 0.05, 0)
    p = states.toarray().astype(np.float64)
    want = twin.floyd_warshall(twin.step_costs(p, d, twin.allowed_steps(rank, 5, "union"), 2.0, 3.0))
    np.testing.assert_allclose(chains.from_items(np.arange(30))[0], want, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(("rho", "gamma"), POWERS)
def test_lower_bound_never_exceeds_the_cost_of_a_step(rho: float, gamma: float) -> None:
    """Read from what the search noted for steps it had not solved yet; against exact costs."""
    rows, states, _ = problem(3)
    chains = Chains(steps_of(rows, 10), states, rows, rho, gamma, 0.05, 5)
    chains.from_items(np.arange(45))
    pairs = np.stack([chains.steps.origins, chains.steps.ends], axis=1).astype(np.int32)
    costs = transition_costs(pairs, states, rows, rho, 0.05, 0).astype(np.float64) ** gamma
    noted = chains._bounds >= 0
    assert noted.any()
    assert (chains._bounds[noted] <= costs[noted] * (1 + 1e-4)).all()


@pytest.mark.parametrize(("rho", "gamma"), [(1.0, 3.0), (0.5, 2.0)])
def test_solved_costs_are_the_eager_ones_and_not_all_steps_are_solved(rho: float, gamma: float) -> None:
    rows, states, _ = problem(4)
    chains = Chains(steps_of(rows, 20), states, rows, rho, gamma, 0.05, 30)
    chains.from_items(np.array([0]))
    solved = chains.costs >= 0
    assert 0 < chains.solved == solved.sum() / 2 < len(chains.costs) / 2
    costs = eager(chains, rows, rho, gamma, 30)[chains.steps.origins, chains.steps.ends]
    np.testing.assert_allclose(chains.costs[solved], costs[solved], rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("iterations", [0, 5])
def test_answer_does_not_depend_on_what_was_asked_before(iterations: int) -> None:
    rows, states, _ = problem(5)
    steps = steps_of(rows, 8)

    def fresh() -> Chains:
        return Chains(steps, states, rows, 1.0, 3.0, 0.05, iterations)

    together = fresh().from_items(np.arange(45))[0]
    one_by_one = np.concatenate([fresh().from_items(np.array([i]))[0] for i in range(45)])
    backwards = fresh()
    reversed_order = np.concatenate([backwards.from_items(np.array([i]))[0] for i in range(45)[::-1]])[::-1]
    np.testing.assert_array_equal(together, one_by_one)
    np.testing.assert_array_equal(together, reversed_order)


def test_direct_step_is_cheapest_for_plain_w1_in_an_unrestricted_region() -> None:
    """W1 obeys the triangle inequality, so without a power a chain gains nothing (design, fact 5b)."""
    rows, states, _ = problem(6)
    chains = Chains(steps_of(rows, 60), states, rows, 1.0, 1.0, 0.05, 0)
    reach, _ = chains.from_items(np.arange(45))
    np.testing.assert_allclose(reach, eager(chains, rows, 1.0, 1.0, 0), rtol=1e-3, atol=1e-6)


def test_many_small_steps_are_cheaper_than_one_large_one_for_gamma_above_one() -> None:
    rows, states, _ = problem(6)
    chains = Chains(steps_of(rows, 60), states, rows, 1.0, 3.0, 0.05, 0)
    reach, _ = chains.from_items(np.arange(45))
    costs = eager(chains, rows, 1.0, 3.0, 0)
    others = ~np.eye(45, dtype=bool)
    assert (reach <= costs * (1 + 1e-4)).all()
    assert (reach[others] < 0.9 * costs[others]).mean() > 0.5


@pytest.mark.parametrize("iterations", [0, 5])
def test_parents_give_chains_whose_costs_sum_to_the_reach(iterations: int) -> None:
    rows, states, _ = problem(7)
    chains = Chains(steps_of(rows, 6), states, rows, 1.0, 3.0, 0.05, iterations)
    reach, parents = chains.from_items(np.arange(45), parents=True)
    costs = eager(chains, rows, 1.0, 3.0, iterations)
    for source in (0, 11, 44):
        for item in range(45):
            chain = chain_to(parents[source], item)
            assert chain[0] == source
            assert chain[-1] == item
            summed = sum(costs[a, b] for a, b in pairwise(chain))
            assert summed == pytest.approx(float(reach[source, item]), rel=1e-4, abs=1e-9)


def test_no_chain_leads_to_another_component() -> None:
    rng = np.random.default_rng(0)
    rows = unit((np.repeat(np.eye(3)[:2], 6, axis=0) + 0.1 * rng.standard_normal((12, 3))).astype(np.float32))
    chains = Chains(steps_of(rows, 3), sparse.csr_array(np.eye(12, dtype=np.float32)), rows, 1.0, 3.0, 0.05, 0)
    reach, parents = chains.from_items(np.arange(12), parents=True)
    same = np.repeat([0, 1], 6)[:, None] == np.repeat([0, 1], 6)[None, :]
    assert np.array_equal(np.isfinite(reach), same)
    assert chain_to(parents[0], 9) == [9]
    assert (parents[~same] == -1).all()


def test_reach_is_symmetric_and_zero_at_home() -> None:
    rows, states, _ = problem(8)
    reach, _ = Chains(steps_of(rows, 6), states, rows, 2.0, 2.0, 0.05, 5).from_items(np.arange(45))
    np.testing.assert_allclose(reach, reach.T, rtol=1e-4, atol=1e-8)
    assert not reach.diagonal().any()


def test_duplicates_are_reached_for_almost_nothing() -> None:
    rows, states, _ = problem(9, 20)
    doubled = np.concatenate([rows, rows])
    both = sparse.csr_array(sparse.kron(np.eye(2), states)).astype(np.float32)
    both.indices = both.indices % 20  # both copies are in the same state
    both.sort_indices()
    chains = Chains(steps_of(doubled, 5), both, doubled, 1.0, 3.0, 0.05, 5)
    reach, _ = chains.from_items(np.arange(40))
    np.testing.assert_array_equal(reach[np.arange(20), np.arange(20, 40)], 0.0)


def test_chains_hold_for_no_sources_and_for_a_single_item() -> None:
    rows, states, _ = problem(10, 12)
    assert Chains(steps_of(rows, 3), states, rows, 1.0, 3.0, 0.05, 5).from_items(np.zeros(0, np.int64))[0].shape == (
        0,
        12,
    )
    alone = Chains(steps_of(rows[:1], 3), sparse.csr_array(np.ones((1, 1), np.float32)), rows[:1], 1.0, 3.0, 0.05, 5)
    assert alone.from_items(np.array([0]))[0].tolist() == [[0.0]]
