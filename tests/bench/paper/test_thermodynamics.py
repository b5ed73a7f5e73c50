"""Appendix B of the paper: the master equation, the ends of the flow, its cost, its entropy, and its optimality."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kinrank import LPMT
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.stages import transport
from kinrank.thermodynamics import stage_between
from kinrank.vector_input import to_unit_rows
from kinrank_bench.paper.thermodynamics import RatedStage, add_rates, stage
from reference import thermodynamics as slow

pytestmark = pytest.mark.slow

Floats = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)
ROUNDING = 2e-6  # plans are float32


def distance(n: int, rng: np.random.Generator) -> Floats:
    points = rng.standard_normal((n, 3))
    return np.asarray(np.linalg.norm(points[:, None] - points, axis=2))


def state(n: int, rng: np.random.Generator, empty: float = 0.4) -> Floats:
    """Return a random distribution in which some items hold nothing."""
    masses = rng.random(n) * (rng.random(n) > empty)
    masses[rng.integers(n)] += 0.1
    return np.asarray(masses / masses.sum())


def random_stage(seed: int, **more: Any) -> tuple[RatedStage, Floats]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    cost = distance(n, rng)
    return stage(state(n, rng), state(n, rng), cost, **more), cost


def by_hand() -> list[tuple[RatedStage, Floats]]:
    line = abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    made = [
        stage([1, 0, 0, 0], [0, 0, 0, 1], line),  # all mass moves to an empty item
        stage([0.25] * 4, [0.5, 0.5, 0, 0], line, theta=0.2),
        stage([0, 0.5, 0.5, 0], [0.5, 0, 0, 0.5], line, theta=5.0),
        stage([0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], line),
    ]
    return [(one, line) for one in made]


def inner(one: RatedStage, each: int = 7) -> Floats:
    """Return moments inside every transfer, not at its ends, where rates may be infinite."""
    count = max(len(one.masses), 1)
    inside = (np.arange(each) + 0.5) / each
    return np.asarray((np.arange(count)[:, None] + inside).ravel() / count)


def check_flow(one: RatedStage) -> None:
    times = inner(one)
    states, rates, currents = one.state(times), one.rates(times), one.currents(times)
    np.testing.assert_allclose(states.sum(axis=1), 1.0, atol=1e-9)
    assert (states >= 0).all()
    assert np.isfinite(rates).all()
    off = ~np.eye(len(one.items), dtype=bool)
    assert (rates[:, off] >= 0).all()
    scale = abs(rates).max(axis=(1, 2), initial=1.0)
    np.testing.assert_allclose(rates.sum(axis=1) / scale[:, None], 0.0, atol=1e-12)
    np.testing.assert_allclose(currents, -currents.transpose(0, 2, 1))
    for now, matrix, found in zip(states, rates, currents, strict=True):
        np.testing.assert_allclose(found, slow.current(matrix, now), atol=1e-9)
    short = 1e-4 / max(len(one.masses), 1)
    derivative = (one.state(times + short) - one.state(times - short)) / (2 * short)
    tolerance = 1e-8
    np.testing.assert_allclose(derivative, currents.sum(axis=2), atol=tolerance)
    np.testing.assert_allclose(derivative, np.einsum("trs,ts->tr", rates, states), atol=tolerance)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.floats(0.01, 50.0))
def test_the_master_equation_holds_at_every_moment(seed: int, theta: float) -> None:
    check_flow(random_stage(seed, theta=theta)[0])


@pytest.mark.parametrize("number", range(4))
def test_the_master_equation_holds_by_hand(number: int) -> None:
    check_flow(by_hand()[number][0])


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_flow_starts_and_ends_at_the_two_states(seed: int) -> None:
    one, _ = random_stage(seed)
    np.testing.assert_allclose(one.state(0.0), one.start, atol=1e-15)
    np.testing.assert_allclose(one.state(1.0), one.end, atol=ROUNDING)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_the_integral_of_the_currents_costs_w1(seed: int) -> None:
    one, cost = random_stage(seed)
    assert one.cost() == pytest.approx(slow.w1(one.start, one.end, cost), abs=1e-5)
    times = inner(one, each=3)
    currents = abs(one.currents(times))
    integral = np.triu(currents * cost, 1).sum() / len(times)
    assert one.cost() == pytest.approx(integral, abs=1e-9)
    assert one.moved == pytest.approx(0.5 * abs(one.start - one.end).sum(), abs=ROUNDING)


@pytest.mark.parametrize("number", range(4))
def test_cost_and_entropy_are_the_printed_integrals(number: int) -> None:
    one, cost = by_hand()[number]
    pieces = 600 * len(one.masses)
    want = slow.integrals(lambda t: (one.rates(t), one.state(t)), cost, 1.0, pieces)
    entropy = one.entropy_production()
    assert one.cost() == pytest.approx(want["cost"], rel=1e-6)
    assert entropy.total == pytest.approx(want["entropy"], rel=1e-6)
    assert entropy.states == pytest.approx(want["states"], abs=2e-3)  # log q is infinite at an empty end: slow sums
    assert entropy.environment == pytest.approx(want["environment"], abs=2e-3)
    assert one.activity() == pytest.approx(want["activity"], rel=1e-6)
    assert one.mobility() == pytest.approx(want["mobility"], rel=1e-6)
    assert one.cost() <= one.bound() * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.floats(0.01, 50.0))
def test_entropy_bounds_the_cost(seed: int, theta: float) -> None:
    """cost^2 <= entropy * mobility; and moved mass, activity and entropy are related as in any optimal flow."""
    one, _ = random_stage(seed, theta=theta)
    entropy = one.entropy_production()
    assert entropy.total >= 0.0
    assert entropy.states + entropy.environment == pytest.approx(entropy.total)
    assert entropy.states == pytest.approx(
        transport.state_entropy(one.end) - transport.state_entropy(one.start), abs=1e-9
    )
    assert one.cost() <= one.bound() * (1 + 1e-9)
    if one.moved:
        assert entropy.total == pytest.approx(2 * one.moved * np.arctanh(one.moved / one.activity()))


def test_the_bound_is_reached_where_all_ways_are_equally_long() -> None:
    one = stage([0.5, 0.5, 0, 0], [0, 0, 0.3, 0.7], 1.0 - np.eye(4), theta=0.7)
    assert one.cost() == pytest.approx(1.0, abs=ROUNDING)
    assert one.bound() == pytest.approx(one.cost())


def test_entropy_alone_bounds_nothing() -> None:
    """Arbitrarily little entropy is possible at equal cost: mass then moves fast, in both directions."""
    line = abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    flows = [stage([1, 0, 0, 0], [0, 0, 0, 1], line, theta=theta) for theta in (0.1, 1.0, 10.0, 1000.0)]
    assert {round(one.cost(), 6) for one in flows} == {3.0}
    totals = [one.entropy_production().total for one in flows]
    assert totals == sorted(totals, reverse=True)
    assert totals[1] == pytest.approx(np.log(2))
    assert totals[-1] < 1e-3
    assert flows[-1].activity() > 2000.0


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_random_plans_and_detours_never_cost_less(seed: int) -> None:
    one, cost = random_stage(seed)
    rng = np.random.default_rng(seed)
    for plan in (slow.random_plan(one.start, one.end, rng), np.outer(one.start, one.end)):
        other = stage(one.start, one.end, cost, plan=plan)
        check_flow(other)
        np.testing.assert_allclose(other.state(1.0), one.end, atol=1e-12)
        assert other.cost() >= one.cost() - 1e-5
    between = [one.start, state(len(one.start), rng), state(len(one.start), rng), one.end]
    detour = [stage(a, b, cost) for a, b in itertools.pairwise(between)]
    assert sum(step.cost() for step in detour) >= one.cost() - 1e-5


@pytest.mark.parametrize("seed", range(9))
def test_random_markov_processes_never_cost_less_and_obey_the_bounds(seed: int) -> None:
    """Currents on all edges at once, with loops, cost more than the optimal flow between the same ends."""
    rng = np.random.default_rng(seed)
    n = 3 + seed % 4
    cost, rates = distance(n, rng), slow.random_rates(n, rng, speed=(0.1, 1.0, 4.0)[seed % 3])
    flow = slow.relaxing(rates, state(n, rng, empty=0.0))
    found = slow.integrals(flow, cost, 1.0, 300)
    optimal = stage(flow(0.0)[1], flow(1.0)[1], cost)
    assert found["cost"] >= optimal.cost() - 1e-4
    assert found["cost"] <= np.sqrt(found["entropy"] * found["mobility"]) * (1 + 1e-9)
    assert found["entropy"] >= 2 * found["moved"] * np.arctanh(found["moved"] / found["activity"]) * (1 - 1e-9)
    assert found["states"] + found["environment"] == pytest.approx(found["entropy"], rel=1e-6)
    assert found["states"] == pytest.approx(
        transport.state_entropy(optimal.end) - transport.state_entropy(optimal.start), abs=1e-3
    )


def test_without_a_metric_a_detour_can_cost_less() -> None:
    """Squared distances: the proof that no flow is cheaper needs the triangle inequality."""
    squared = np.subtract.outer(np.arange(3.0), np.arange(3.0)) ** 2
    ends = [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]
    middle = [0.0, 1.0, 0.0]
    assert stage(*ends, squared).cost() == pytest.approx(slow.w1(*map(np.array, ends), squared)) == 4.0
    assert stage(ends[0], middle, squared).cost() + stage(middle, ends[1], squared).cost() == pytest.approx(2.0)


def test_currents_are_what_the_first_item_gains_from_the_second() -> None:
    """The sign follows from q' = T q; the text of the paper has the opposite sign."""
    one = stage([1.0, 0.0], [0.4, 0.6], [[0.0, 2.0], [2.0, 0.0]])
    assert one.currents(0.5)[1, 0] == pytest.approx(0.6)
    assert one.currents(0.5)[0, 1] == pytest.approx(-0.6)
    assert one.rates(0.5)[1, 0] > 0
    np.testing.assert_allclose(one.rates(0.5), [[-1.2 / 0.7, 0.6 / 0.3], [1.2 / 0.7, -0.6 / 0.3]], rtol=1e-5)


def test_rates_are_infinite_only_at_the_ends_of_transfers() -> None:
    one = stage([1.0, 0.0], [0.0, 1.0], [[0.0, 1.0], [1.0, 0.0]])
    assert one.rates(0.0)[0, 1] == np.inf
    assert one.rates(1.0)[1, 0] == np.inf
    assert np.isfinite(one.rates([1e-9, 0.5, 1 - 1e-9])).all()


def test_moments_may_have_any_shape() -> None:
    one, _ = by_hand()[3]
    times = np.linspace(0, 1, 6).reshape(2, 3)
    m = len(one.items)
    assert one.state(times).shape == (2, 3, m)
    assert one.rates(times).shape == one.currents(times).shape == (2, 3, m, m)
    assert one.cost(times).shape == one.entropy_production(times).total.shape == (2, 3)
    np.testing.assert_array_equal(one.state(times)[1, 2], one.state(1.0))
    np.testing.assert_array_equal(one.rates(times)[1, 1], one.rates(times[1, 1]))
    assert one.cost(1.0) == pytest.approx(one.cost())
    assert one.entropy_production(1.0) == pytest.approx(one.entropy_production(), abs=ROUNDING)
    assert (np.diff(one.entropy_production(times.ravel()).total) > 0).all()


def test_equal_states_have_nothing_to_do() -> None:
    one = stage([0.3, 0.7], [0.3 + 1e-9, 0.7], [[0, 1], [1, 0]])
    assert one.flows == []
    assert one.cost() == one.moved == one.bound() == one.entropy_production().total == 0.0
    assert not one.rates(0.5).any()
    assert not one.currents([0.0, 1.0]).any()
    np.testing.assert_allclose(one.state(0.5), [0.3, 0.7], atol=1e-8)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"p": [0.5, 0.4]}, "p is not a distribution"),
        ({"q": [1.5, -0.5]}, "q is not a distribution"),
        ({"q": [np.nan, 1.0]}, "q is not a distribution"),
        ({"q": [0.5, 0.25, 0.25]}, "same items"),
        ({"cost": [[0, 1, 2], [1, 0, 1]]}, "cost has shape"),
        ({"cost": [[0, -1], [-1, 0]]}, "none below 0"),
        ({"cost": [[0, 1], [2, 0]]}, "symmetric"),
        ({"plan": [[1, 0], [0, 0]]}, "plan does not turn p into q"),
        ({"plan": [[1, 0, 0]]}, "plan has shape"),
        ({"theta": 0.0}, "theta=0.0"),
        ({"theta": float("nan")}, "theta=nan"),
    ],
)
def test_what_is_no_transition_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        stage(**({"p": [1.0, 0.0], "q": [0.0, 1.0], "cost": [[0, 1], [1, 0]]} | changed))


def test_moments_outside_are_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        stage([1, 0], [0, 1], [[0, 1], [1, 0]]).rates([0.0, 1.1])


@pytest.fixture(scope="module")
def prepared() -> Any:
    angles = np.linspace(0.0, 2.6, 40)
    rows = np.stack([np.cos(angles), np.sin(angles), 0.2 * np.sin(7 * angles)], axis=1)
    method = LPMT(k1=12, k2=4, k=5, path_k=5, transport="exact", rho=1.0, gamma=3.0)
    return method.prepare(Items.from_gallery(to_unit_rows(rows.astype(np.float32))), SILENT)


def test_sparse_states_give_the_flow_of_dense_ones(prepared: Any) -> None:
    vectors = prepared.items.vectors
    a, b = (transport.get_state(prepared.states, item) for item in (3, 6))
    sparse = add_rates(stage_between(a, b, vectors))
    p, q = np.zeros((2, len(vectors)))
    p[a[0]], q[b[0]] = a[1], b[1]
    dense = stage(p, q, np.linalg.norm(vectors[:, None] - vectors, axis=2))
    assert set(sparse.items) == set(a[0]) | set(b[0])
    assert sparse.cost() == pytest.approx(dense.cost(), rel=1e-3)
    assert sparse.moved == pytest.approx(dense.moved, rel=1e-5)
    assert sparse.entropy_production() == pytest.approx(dense.entropy_production(), rel=1e-5)
    check_flow(sparse)
