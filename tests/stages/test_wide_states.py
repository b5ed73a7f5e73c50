"""Wide states: against the dense transcription, all or some of them, and their distances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank import LPMT
from kinrank.problem import Items
from kinrank.stages import diffusion, pipeline, states
from kinrank.stages.csr import Rows, matrix_from_rows
from kinrank.stages.kernels.compiler import ThreadRunner
from kinrank.stages.states import PackedRows
from kinrank.stages.transport import get_state
from kinrank.vector_input import to_unit_rows
from reference import lpmt as twin

METHOD = LPMT(
    k1=12,
    k2=3,
    k=5,
    path_k=5,
    support=9,
    tolerance=1e-8,
    direct=0.5,
    direct_k=14,
    direct_mu=0.05,
    direct_support=11,
    transport="exact",
)


@pytest.fixture(params=["small", "large"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use both kernels: rows of F in blocks, and one by one."""
    monkeypatch.setattr(diffusion, "MAX_BLOCK_ITEMS", 10**9 if request.param == "small" else 0)
    return str(request.param)


def prepared(rows: NDArray[np.float32], method: LPMT = METHOD) -> pipeline.LpmtGraph:
    return pipeline.prepare_graph(Items.from_gallery(rows).neighbors, rows, method, keep=True)


@pytest.fixture
def rows(rng: np.random.Generator) -> NDArray[np.float32]:
    return to_unit_rows(rng.normal(size=(60, 4)).astype(np.float32))


def wide_of(before: pipeline.LpmtGraph, method: LPMT, some: NDArray[np.int64] | None = None) -> Rows:
    assert before.record is not None
    everyone = np.arange(len(before.vectors)) if some is None else some
    record, direct = before.record, before.powers.direct
    return states.build_wide_states(everyone, record.graph, before.states, method, direct)


def dense(rows: Rows, columns: int | None = None) -> NDArray[Any]:
    return np.asarray(matrix_from_rows(rows, columns or len(rows.indptr) - 1).toarray())


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"direct_k": 1},
        {"direct_k": 60, "direct_support": 60},
        {"direct_k": 500, "direct_support": 500},
        {"direct_mu": 0.01},
        {"direct_mu": 2.0, "mu": 0.05},
        {"direct_support": 1},
    ],
    ids=str,
)
def test_wide_states_are_averages_by_the_wider_diffusion(
    rows: NDArray[np.float32], changed: dict[str, Any], loops: str
) -> None:
    method = replace(METHOD, **changed)
    before = prepared(rows, method)
    assert before.record is not None
    S = dense(before.record.graph) * (1 + method.mu)  # the record has a S
    values = method.answer_values
    want = twin.wide_states(S, dense(before.states), values.direct_k, method.direct_mu, values.direct_support)
    np.testing.assert_allclose(dense(before.wide), want, atol=2e-5)
    np.testing.assert_allclose(dense(before.wide).sum(axis=1), 1.0, rtol=1e-5)
    assert np.diff(before.wide.indptr).max() <= values.direct_support
    assert all((np.diff(get_state(before.wide, i)[0]) > 0).all() for i in range(60))


@pytest.mark.parametrize("some", [[7], [0, 59], [3, 4, 11, 40, 41, 42], list(range(60))], ids=len)
def test_some_rows_are_those_of_all(rows: NDArray[np.float32], some: list[int], loops: str) -> None:
    before = prepared(rows)
    few = wide_of(before, METHOD, np.array(some))
    assert len(few.indptr) == len(some) + 1
    for place, item in enumerate(some):
        for got, want in zip(get_state(few, place), get_state(before.wide, item), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("together", [1, 7, 59, 60])
def test_blocks_of_rows_have_the_same_bits(
    rows: NDArray[np.float32], together: int, loops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = prepared(rows)
    monkeypatch.setattr(ThreadRunner, "together", together)
    for got, want in zip(wide_of(before, METHOD), before.wide, strict=True):
        np.testing.assert_array_equal(got, want)


def test_no_row_at_all(rows: NDArray[np.float32], loops: str) -> None:
    few = wide_of(prepared(rows), METHOD, np.arange(0))
    assert few.indptr.tolist() == [0]
    assert len(few.indices) == len(few.data) == 0


@pytest.mark.parametrize(
    ("direct", "expected"),
    [(1.0, 2e-3), (0.95, 2e-3), (0.9, 3.6e-3), (0.8, 5e-3), (0.55, 6e-3), (0.3, 12e-3), (0.1, 12e-3)],
)
def test_a_small_share_is_diffused_less_exactly(
    rows: NDArray[np.float32], direct: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffusion, "MAX_BLOCK_ITEMS", 0)
    before = prepared(rows, replace(METHOD, direct=direct))
    tolerances = []
    spread = diffusion.Spread.over
    monkeypatch.setattr(diffusion.Spread, "over", lambda *given: tolerances.append(given[2]) or spread(*given))
    wide_of(before, replace(METHOD, tolerance=2e-3))
    assert tolerances == [pytest.approx(expected)]


def test_without_a_share_there_are_none(rows: NDArray[np.float32]) -> None:
    wide = prepared(rows, replace(METHOD, direct=0.0)).wide
    assert wide.indptr.tolist() == [0] * 61
    assert len(wide.indices) == len(wide.data) == 0


def test_the_graph_is_left_as_it_was(rows: NDArray[np.float32]) -> None:
    """The wider diffusion must not overwrite the weights of the graph."""
    before = prepared(rows)
    assert before.record is not None
    graph, embedded = before.record.graph.data.copy(), before.states.data.copy()
    wide_of(before, METHOD)
    np.testing.assert_array_equal(before.record.graph.data, graph)
    np.testing.assert_array_equal(before.states.data, embedded)


@pytest.mark.parametrize("support", [2, 11, 60])
def test_distances_of_wide_states(rows: NDArray[np.float32], support: int) -> None:
    wide = prepared(rows, replace(METHOD, direct_support=support)).wide
    r = dense(wide)
    want = twin.total_variation(r, r)
    queries, gallery = np.array([3, 0, 59]), np.arange(2, 60)
    got = states.wide_distances(wide, queries, gallery)
    np.testing.assert_allclose(got, want[np.ix_(queries, gallery)], atol=2e-6)
    assert got.dtype == np.float32
    everyone = np.arange(60)
    whole = states.wide_distances(wide, everyone, everyone)
    np.testing.assert_allclose(whole, want, atol=2e-6)
    if support == 2:  # some share nothing: distance 1, not inf
        assert (want == 1).any()
        np.testing.assert_array_equal(whole[want == 1], 1.0)


def test_one_state_against_all_others(rows: NDArray[np.float32]) -> None:
    packed = PackedRows.pack(prepared(rows).wide)
    wide, columns = packed.unpack(), packed.transpose()
    want = states.wide_distances(wide, np.arange(60), np.arange(60))
    for item in range(60):
        got = states.wide_distances_from(get_state(wide, item), columns)
        assert got.shape == (60,)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want[item], atol=2e-6)
    nobody = np.empty(0, np.int32), np.empty(0, np.float32)
    np.testing.assert_array_equal(states.wide_distances_from(nobody, columns), 1.0)
