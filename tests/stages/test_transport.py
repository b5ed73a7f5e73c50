"""Transport: exact and entropic W1 against POT, closed forms, and the cost of leaving shared mass in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from kinrank.problem import Items
from kinrank.stages import step_costs, transport
from kinrank.stages.csr import rows_from_matrix
from kinrank.stages.transport import TransportSettings
from kinrank.vector_input import to_unit_rows
from reference import lpmt as twin

pytestmark = pytest.mark.slow

SHAPES = [(1, 1), (1, 9), (9, 1), (2, 2), (3, 17), (17, 3), (10, 10), (32, 32), (40, 25)]


def pot(p: NDArray[Any], q: NDArray[Any], cost: NDArray[Any]) -> float:
    """Return the exact value by POT, on the numbers that the library sees (float32)."""
    ot = pytest.importorskip("ot")
    a, b = p.astype(np.float32).astype(np.float64), q.astype(np.float32).astype(np.float64)
    return float(ot.emd2(a, b * (a.sum() / b.sum()), np.ascontiguousarray(cost, np.float64)))


def masses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    return np.asarray(rng.dirichlet(np.full(size, 0.5)))


def check_exact(p: NDArray[Any], q: NDArray[Any], cost: NDArray[Any]) -> float:
    """Compare the value with POT's; check that the plan has the right margins and that value."""
    value, plan = transport.wasserstein(p, q, cost)
    want = pot(p, q, cost)
    scale = p.sum() * max(float(np.max(cost)), 1e-30)
    assert value == pytest.approx(want, rel=2e-5, abs=2e-6 * scale)
    assert plan.min() >= 0
    np.testing.assert_allclose(plan.sum(axis=1), p, atol=2e-6 * p.sum())
    np.testing.assert_allclose(plan.sum(axis=0), q, atol=2e-6 * p.sum())
    assert (plan * cost).sum() == pytest.approx(value, rel=1e-4, abs=2e-6 * scale)
    return value


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_exact_value_agrees_with_pot(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    check_exact(masses(rng, shape[0]), masses(rng, shape[1]), rng.random(shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_exact_value_agrees_with_pot_on_degenerate_masses(shape: tuple[int, int]) -> None:
    """Equal masses and multiples of 1/60: partial sums coincide, and some entries are zero."""
    rng = np.random.default_rng(0)
    m, k = shape
    check_exact(np.full(m, 1 / m), np.full(k, 1 / k), rng.integers(0, 4, shape).astype(float))
    p, q = rng.multinomial(60, np.full(m, 1 / m)) / 60, rng.multinomial(60, np.full(k, 1 / k)) / 60
    check_exact(p, q, rng.integers(0, 3, shape).astype(float))


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_costs_make_every_plan_cost_the_same(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    p, q = masses(rng, shape[0]), masses(rng, shape[1])
    assert check_exact(p, q, np.full(shape, 0.7)) == pytest.approx(0.7, rel=1e-5)
    assert check_exact(p, q, np.zeros(shape)) == 0.0
    assert transport.wasserstein(p, q, np.full(shape, 0.7), iterations=5)[0] == pytest.approx(0.7, rel=1e-4)
    assert transport.wasserstein(p, q, np.zeros(shape), iterations=5)[0] == 0.0


def test_duplicated_items_share_their_mass_without_changing_the_value() -> None:
    rng = np.random.default_rng(2)
    p, q, cost = masses(rng, 8), masses(rng, 9), rng.random((8, 9))
    value = check_exact(p, q, cost)
    doubled = check_exact(np.repeat(p / 2, 2), np.repeat(q / 2, 2), np.kron(cost, np.ones((2, 2))))
    assert doubled == pytest.approx(value, rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([1e-6, 1e-2, 1.0, 1e4]))
def test_exact_value_agrees_with_pot_whatever_the_scale(m: int, k: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    p, q = masses(rng, m), masses(rng, k)
    cost = rng.random((m, k)) ** rng.integers(1, 6) * scale
    value, _ = transport.wasserstein(p, q, cost)
    assert value == pytest.approx(pot(p, q, cost), rel=1e-4, abs=1e-5 * cost.max())


def test_exact_value_agrees_with_the_linear_program() -> None:
    rng = np.random.default_rng(3)
    p, q, cost = masses(rng, 6), masses(rng, 7), rng.random((6, 7))
    assert transport.wasserstein(p, q, cost)[0] == pytest.approx(twin.wasserstein(p, q, cost), rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_cost_one_off_the_diagonal_gives_total_variation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = masses(rng, 12), masses(rng, 12)
    assert check_exact(p, q, 1 - np.eye(12)) == pytest.approx(0.5 * np.abs(p - q).sum(), rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_cost_on_a_line_gives_the_area_between_the_cumulative_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(15))
    p, q = masses(rng, 15), masses(rng, 15)
    area = float((np.abs(np.cumsum(p - q))[:-1] * np.diff(x)).sum())
    assert check_exact(p, q, np.abs(x[:, None] - x[None, :])) == pytest.approx(area, rel=1e-4)


@pytest.mark.parametrize("shape", [(6, 6), (10, 10), (25, 14)])
@pytest.mark.parametrize("seed", range(3))
def test_sinkhorn_converges_to_the_exact_value(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(shape[0], 2.0)), rng.dirichlet(np.full(shape[1], 2.0))
    points = rng.random((sum(shape), 4))
    cost = np.sqrt(((points[: shape[0], None] - points[None, shape[0] :]) ** 2).sum(axis=2))
    exact = transport.wasserstein(p, q, cost)[0]
    gaps = []
    for epsilon in (0.5, 0.2, 0.1, 0.05, 0.03):
        value, plan = transport.wasserstein(p, q, cost, epsilon=epsilon, iterations=5000)
        np.testing.assert_allclose(plan.sum(axis=1), p, atol=1e-3)
        np.testing.assert_allclose(plan.sum(axis=0), q, atol=1e-5)
        gaps.append(value - exact)
    assert gaps == sorted(gaps, reverse=True)
    assert abs(gaps[-1]) < 0.02 * exact


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 10**6),
    st.sampled_from([0.001, 0.02, 0.05, 0.5]),
    st.sampled_from([1, 5, 40]),
)
def test_sinkhorn_is_finite_never_negative_and_meets_the_columns(
    m: int, k: int, seed: int, epsilon: float, iterations: int
) -> None:
    rng = np.random.default_rng(seed)
    p, q = masses(rng, m), masses(rng, k)
    p, q = np.maximum(p, 1e-7), np.maximum(q, 1e-7)
    cost = rng.random((m, k)) ** rng.integers(1, 8)
    value, plan = transport.wasserstein(p / p.sum(), q / q.sum(), cost, epsilon=epsilon, iterations=iterations)
    assert np.isfinite(value)
    assert value >= 0
    assert plan.min() >= 0
    np.testing.assert_allclose(plan.sum(axis=0), q / q.sum(), rtol=1e-3)


@pytest.mark.parametrize("shape", [(1, 1), (7, 8), (8, 7), (25, 14), (40, 40)])
@pytest.mark.parametrize("iterations", [1, 5, 40])
def test_sinkhorn_makes_the_steps_of_pot(shape: tuple[int, int], iterations: int) -> None:
    """POT begins with the columns, so it gets the transposed problem."""
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(4)
    p, q = rng.dirichlet(np.full(shape[0], 2.0)), rng.dirichlet(np.full(shape[1], 2.0))
    cost = rng.uniform(0.2, 1.5, shape)
    value, plan = transport.wasserstein(p, q, cost, epsilon=0.1, iterations=iterations)
    reg = 0.1 * cost.mean()
    want = ot.sinkhorn(q, p, cost.T.copy(), reg, numItermax=iterations, stopThr=0.0, warn=False).T
    np.testing.assert_allclose(plan, want, atol=1e-5 * want.max())
    assert value == pytest.approx(float((want * cost).sum()), rel=1e-5)


def test_a_cost_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        transport.wasserstein(np.ones(2) / 2, np.ones(2) / 2, np.ones((2, 3)))


def test_zero_masses_take_no_part() -> None:
    value, plan = transport.wasserstein(np.array([1.0, 0, 0]), np.array([0, 0.5, 0.5]), 1 - np.eye(3), iterations=9)
    assert value == pytest.approx(1.0)
    np.testing.assert_allclose(plan, [[0, 0.5, 0.5], [0, 0, 0], [0, 0, 0]], atol=1e-6)


# --- prices of steps: the residual problem between two states ----------------------------------------------


@pytest.fixture(params=["table", "vectors"])
def ground(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use both ways to get ground costs, regardless of the number of items."""
    monkeypatch.setattr(step_costs, "MAX_TABLE_ITEMS", 10**9 if request.param == "table" else 0)
    return str(request.param)


def between(
    pairs: NDArray[np.int32], states: Any, rows: NDArray[np.float32], rho: float, iterations: int, gamma: float = 1.0
) -> NDArray[np.float32]:
    """Return the prices of some steps with gamma 1: W itself."""
    how = TransportSettings(rho, gamma, 0.05, iterations)
    return step_costs.price_pairs(pairs[:, 0].astype(np.int64), pairs[:, 1], rows_from_matrix(states), rows, how)


def random_problem(seed: int, n: int = 24) -> tuple[NDArray[np.float32], Any, NDArray[np.float64]]:
    """Return unit rows, sparse states that share mass, and the distances between the rows."""
    rng = np.random.default_rng(seed)
    rows = to_unit_rows(rng.standard_normal((n, 4)).astype(np.float32))
    dense = rng.random((n, n)) * (rng.random((n, n)) < 0.35)
    dense[np.arange(n), np.arange(n)] += 0.5
    states = sparse.csr_array((dense / dense.sum(axis=1, keepdims=True)).astype(np.float32))
    return rows, states, twin.euclidean(rows)


def all_pairs(n: int) -> NDArray[np.int32]:
    return np.array([(i, j) for i in range(n) for j in range(n)], np.int32)


@pytest.mark.parametrize("seed", range(3))
def test_leaving_shared_mass_in_place_gives_the_full_value_where_the_cost_is_a_metric(seed: int, ground: str) -> None:
    rows, states, d = random_problem(seed)
    pairs = all_pairs(24)
    got = between(pairs, states, rows, 1.0, 0)
    p = states.toarray().astype(np.float64)
    want = [pot(p[i], p[j], d) for i, j in pairs]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rho", [2.0, 3.5])
def test_leaving_shared_mass_in_place_is_an_upper_bound_beyond_metrics(rho: float, ground: str) -> None:
    rows, states, d = random_problem(5)
    pairs = all_pairs(24)
    got = between(pairs, states, rows, rho, 0)
    p = states.toarray().astype(np.float64)
    full = np.array([pot(p[i], p[j], d**rho) for i, j in pairs])
    residual = [twin.residual_wasserstein(p[i], p[j], d**rho) for i, j in pairs[:80]]
    assert (got >= full - 1e-5).all()
    assert (got > full + 1e-3).any()
    np.testing.assert_allclose(got[:80], residual, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("iterations", [0, 5])
@pytest.mark.parametrize("rho", [1.0, 2.0, 2.7])
def test_transitions_are_symmetric_zero_to_themselves_and_never_negative(
    iterations: int, rho: float, ground: str
) -> None:
    rows, states, _ = random_problem(7)
    costs = between(all_pairs(24), states, rows, rho, iterations).reshape(24, 24)
    np.testing.assert_allclose(costs, costs.T, rtol=1e-5)
    assert not costs.diagonal().any()
    assert costs.min() >= 0
    assert costs[~np.eye(24, dtype=bool)].min() > 0


def test_exact_transitions_obey_the_triangle_inequality_for_a_metric(ground: str) -> None:
    rows, states, _ = random_problem(8)
    costs = between(all_pairs(24), states, rows, 1.0, 0).reshape(24, 24)
    through = (costs[:, :, None] + costs[None, :, :]).min(axis=1)
    assert (costs <= through + 1e-5).all()


@pytest.mark.parametrize("rho", [1.0, 2.0])
def test_fifty_sinkhorn_steps_follow_the_exact_transitions(rho: float, ground: str) -> None:
    """With the default regularisation the value is at most a few per cent too high (design, fact 8)."""
    rows, states, _ = random_problem(9)
    pairs = np.array([(i, j) for i in range(24) for j in range(i)], np.int32)
    exact = between(pairs, states, rows, rho, 0)
    close = between(pairs, states, rows, rho, 50)
    assert np.corrcoef(exact, close)[0, 1] > 0.99
    assert np.median(close / exact) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("rho", [1.0, 2.0])
def test_exact_flows_move_the_difference_at_the_cost_of_the_transition(rho: float) -> None:
    rows, states, d = random_problem(10)
    p = states.toarray().astype(np.float64)
    for i, j in [(0, 1), (3, 9), (20, 4)]:
        flows = transport.solve_exact_flows(
            *(transport.get_state(rows_from_matrix(states), item) for item in (i, j)), rows, rho
        )
        moved = np.zeros(24)
        for source, target, mass, cost in flows:
            moved[source] -= mass
            moved[target] += mass
            assert cost == pytest.approx(d[source, target] ** rho, rel=1e-3)
        np.testing.assert_allclose(p[i] + moved, p[j], atol=1e-5)
        want = between(np.array([[i, j]], np.int32), states, rows, rho, 0)[0]
        assert sum(mass * cost for _, _, mass, cost in flows) == pytest.approx(float(want), rel=1e-4)
        assert [flow[2] for flow in flows] == sorted((flow[2] for flow in flows), reverse=True)
    same = transport.get_state(rows_from_matrix(states), 2)
    assert transport.solve_exact_flows(same, same, rows, rho) == []


@pytest.mark.parametrize("iterations", [0, 5])
@pytest.mark.parametrize("rho", [0.5, 1.0, 4.0])
def test_mass_moved_between_duplicates_costs_nothing(iterations: int, rho: float, ground: str) -> None:
    """Inner products of float32 lose these digits: distances of near items are summed again from differences."""
    rows = to_unit_rows(np.random.default_rng(0).standard_normal((3, 512)).astype(np.float32))
    rows = np.concatenate([rows, rows])
    states = sparse.csr_array(np.eye(6, dtype=np.float32))
    pairs = np.array([[0, 3], [1, 4], [2, 5]], np.int32)
    assert between(pairs, states, rows, rho, iterations).tolist() == [0, 0, 0]


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0])
def test_near_items_keep_the_digits_of_their_distance(rho: float, ground: str) -> None:
    rng = np.random.default_rng(1)
    rows = to_unit_rows(np.repeat(rng.standard_normal((3, 64)), 2, axis=0).astype(np.float32))
    rows[1::2] += 1e-4 * rng.standard_normal((3, 64)).astype(np.float32) / 8
    rows = to_unit_rows(rows)
    pairs = np.array([[0, 1], [2, 3], [4, 5], [0, 3]], np.int32)
    got = between(pairs, sparse.csr_array(np.eye(6, dtype=np.float32)), rows, rho, 0)
    want = np.linalg.norm(rows[pairs[:, 0]].astype(np.float64) - rows[pairs[:, 1]], axis=1) ** rho
    np.testing.assert_allclose(got, want, rtol=1e-4)


@pytest.mark.parametrize("iterations", [1, 5, 30])
@pytest.mark.parametrize("rho", [1.0, 2.0])
def test_entropic_prices_are_those_of_pot_on_what_differs(iterations: int, rho: float, ground: str) -> None:
    """The smaller side gets the first half step; epsilon is relative to the mean of the residual costs."""
    ot = pytest.importorskip("ot")
    rows, states, d = random_problem(3)
    pairs = np.array([(i, j) for i in range(8) for j in range(8, 24)], np.int32)
    got = between(pairs, states, rows, rho, iterations, gamma=2.0)
    p = states.toarray().astype(np.float64)
    for (i, j), price in zip(pairs, got, strict=True):
        gap = p[i] - p[j]
        a, b = np.flatnonzero(gap > 0), np.flatnonzero(gap < 0)
        if len(a) > len(b) or (len(a) == len(b) and gap[a].max() < -gap[b].min()):
            a, b, gap = b, a, -gap
        cost = (d**rho)[np.ix_(a, b)]
        plan = ot.sinkhorn(
            -gap[b], gap[a], cost.T.copy(), 0.05 * cost.mean(), numItermax=iterations, stopThr=0.0, warn=False
        )
        assert price == pytest.approx(float((plan.T * cost).sum()) ** 2, rel=3e-4)


@pytest.mark.parametrize("iterations", [0, 5])
def test_table_and_vectors_give_the_same_prices(iterations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 items: a table, groups of sixteen from the vectors; equal up to the ten bits of the codes."""
    rng = np.random.default_rng(6)
    rows = to_unit_rows(rng.standard_normal((300, 12)).astype(np.float32))
    rows[150:160] = rows[:10]
    rank = Items.from_gallery(rows).neighbors(40).indices
    states = twin.to_one(twin.listed(rank, rng.random(rank.shape))).astype(np.float32)
    pattern = step_costs.build_step_pattern(rank, 20)
    found = []
    for small in (300, 299):
        monkeypatch.setattr(step_costs, "MAX_TABLE_ITEMS", small)
        found.append(
            step_costs.price_steps(
                pattern, rows_from_matrix(states), rows, TransportSettings(1.4, 2.2, 0.05, iterations)
            )
        )
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("iterations", [0, 5])
def test_prices_do_not_depend_on_the_rounding_of_masses(iterations: int, ground: str) -> None:
    """Masses that are equal up to rounding must not decide which side is smaller or comes first."""
    rows, states, _ = random_problem(11)
    rng = np.random.default_rng(0)
    dense = 0.5 * states.toarray() * (np.arange(24) > 7)
    dense += (1 - dense.sum(axis=1, keepdims=True)) / 8 * (np.arange(24) <= 7)
    dense[1::2, :8] = dense[::2, :8]  # neighbours share eight masses
    dense[1::2, 8:] *= (dense[::2, 8:].sum(axis=1) / dense[1::2, 8:].sum(axis=1))[:, None]
    pairs = np.array([(i, i + 1) for i in range(0, 24, 2)], np.int32)
    prices = []
    for _ in range(4):
        noisy = (dense * (1 + 1e-7 * rng.standard_normal(dense.shape))).astype(np.float32)
        prices.append(between(pairs, sparse.csr_array(noisy), rows, 1.3, iterations, gamma=3.0))
    for other in prices[1:]:
        np.testing.assert_allclose(other, prices[0], rtol=2e-5, atol=1e-12)


def test_entropy_of_a_state_is_in_nats() -> None:
    assert transport.state_entropy(np.array([0.25, 0.25, 0.5, 0.0])) == pytest.approx(1.5 * np.log(2))
    assert transport.state_entropy(np.array([1.0])) == 0.0
