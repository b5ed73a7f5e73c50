"""One step as a flow: its ends, its course, and what explanations tell about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinrank import LPMT
from kinrank.joint_explanation import explain_in_graph, trace_transitions
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.stages import transport
from kinrank.thermodynamics import FORCE, Stage, stage_between
from kinrank.vector_input import to_unit_rows

pytestmark = pytest.mark.slow

ROUNDING = 2e-6  # plans are float32


@pytest.fixture(scope="module")
def prepared() -> Any:
    angles = np.linspace(0.0, 2.6, 40)
    rows = np.stack([np.cos(angles), np.sin(angles), 0.2 * np.sin(7 * angles)], axis=1)
    method = LPMT(k1=12, k2=4, k=5, path_k=5, transport="exact", rho=1.0, gamma=3.0)
    return method.prepare(Items.from_gallery(to_unit_rows(rows.astype(np.float32))), SILENT)


@pytest.fixture(scope="module")
def one(prepared: Any) -> Stage:
    a, b = (transport.get_state(prepared.states, item) for item in (3, 6))
    return stage_between(a, b, prepared.items.vectors)


def test_the_flow_starts_and_ends_at_the_two_states(one: Stage) -> None:
    np.testing.assert_array_equal(one.state(0.0), one.start)
    np.testing.assert_allclose(one.state(1.0), one.end, atol=ROUNDING)
    np.testing.assert_allclose(one.state(np.linspace(0, 1, 9)).sum(axis=1), 1.0, atol=1e-9)
    assert one.moved == pytest.approx(0.5 * abs(one.start - one.end).sum(), abs=ROUNDING)


def test_cost_and_entropy_grow_to_those_of_the_whole_step(one: Stage) -> None:
    times = np.linspace(0, 1, 7)
    costs, entropy = one.cost(times), one.entropy_production(times)
    assert costs[0] == entropy.total[0] == 0.0
    assert (np.diff(costs) > 0).all()
    assert (np.diff(entropy.total) > 0).all()
    assert costs[-1] == pytest.approx(one.cost())
    assert one.entropy_production(1.0) == pytest.approx(one.entropy_production(), abs=ROUNDING)
    assert one.entropy_production().total == FORCE * one.moved
    np.testing.assert_allclose(entropy.states + entropy.environment, entropy.total)


def test_moments_may_have_any_shape_but_lie_inside(one: Stage) -> None:
    times = np.linspace(0, 1, 6).reshape(2, 3)
    assert one.state(times).shape == (2, 3, len(one.items))
    assert one.cost(times).shape == one.entropy_production(times).total.shape == (2, 3)
    np.testing.assert_array_equal(one.state(times)[1, 2], one.state(1.0))
    with pytest.raises(ValueError, match="from 0 to 1"):
        one.state([0.0, 1.1])


def test_explanations_tell_what_the_flows_of_their_steps_do(prepared: Any) -> None:
    why, steps = explain_in_graph(prepared, 0, 39, flows=3), trace_transitions(prepared, 0, 39)
    assert len(steps) == len(why.costs) > 2
    for number, step in enumerate(steps):
        entropy = step.entropy_production()
        assert step.cost() == pytest.approx(why.costs[number] ** (1 / 3), rel=1e-3, abs=1e-6)  # gamma is 3
        named = [(f"item {source}", f"item {target}", *rest) for source, target, *rest in step.flows[:3]]
        assert why.flows[number] == tuple(named)
        assert why.moved[number] == step.moved
        assert why.entropy[number] == entropy.total == pytest.approx(np.log(2) * step.moved)
        assert why.entropy_of_states[number] == entropy.states
    assert trace_transitions(prepared, 5, 5) == []
