"""Manifold: online answers against their dense reference, certainty, bad input, threads."""

from __future__ import annotations

import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

import kinrank as kr
from kinrank.chain import Chain
from kinrank.errors import ExactSearchWarning
from kinrank.manifold.snapshot import make_gallery, tidy_neighbors
from kinrank.stages import diffusion, gaussian_graph, step_costs
from kinrank.stages.request import Request
from kinrank.stages.transport import state_entropy
from kinrank.vector_input import to_unit_rows
from kinrank_bench.datasets import benchmark
from kinrank_bench.paper import dense_diffusion
from kinrank_bench.paper.lpmt_ablation import LPMTAblation
from reference import online as twin
from reference.stores import Elsewhere

pytestmark = pytest.mark.slow


def clusters(seed: int, items: int = 120, dimensions: int = 8, groups: int = 6) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(groups, dimensions))
    rows = centres[rng.integers(0, groups, items)] + 0.35 * rng.normal(size=(items, dimensions))
    return rows.astype(np.float32)


@pytest.fixture(scope="module")
def built() -> tuple[kr.Manifold, NDArray[np.float32]]:
    rows = clusters(3, 400)
    return kr.Manifold.build(rows[40:]), rows[:40]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("direct", [0.0, 0.3, 1.0])
def test_answers_are_the_equations(seed: int, direct: float) -> None:
    whole = {"k1": 12, "k2": 3, "k": 4, "path_k": 3, "support": 9, "direct_k": 12, "direct_support": 11}
    numbers = {**whole, "kappa": 2.0, "rho": 1.5, "gamma": 2.5, "sigma": 0.6, "mu": 0.3, "lam": 0.2}
    numbers |= {"direct": direct, "direct_mu": 0.05}
    rows = to_unit_rows(clusters(seed, 40, 5, 4))
    method = kr.LPMT(**numbers, share=0.3, theta=0.4, transport="exact", tolerance=1e-7)  # type: ignore[arg-type]
    manifold = kr.Manifold.build(rows[5:], method)
    ranking = manifold.search(rows[:5], k=35)
    for query in range(5):
        expected = twin.answered(rows[5:], rows[query], **numbers, theta=0.4, share=0.3)  # type: ignore[arg-type]
        got = np.empty(35)
        got[ranking.indices[query]] = ranking.distances[query]
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)


def test_meta_says_how(built: tuple[kr.Manifold, NDArray[np.float32]]) -> None:
    manifold, queries = built
    ranking = manifold.search(queries, k=7)
    assert ranking.indices.shape == (40, 7)
    assert ranking.meta["mode"] == "online"
    assert ranking.meta["certain"] == 1.0
    assert ranking.meta["settled"] < 200
    assert ranking.meta["method"] == repr(kr.LPMT())
    np.testing.assert_array_equal(ranking.ids, ranking.indices)
    assert len(manifold) == 360
    assert json.loads(json.dumps(manifold.info()))["items"] == 360


@pytest.mark.parametrize("k", [1, 3, 10, 50])
def test_certain_answers_are_those_of_the_whole_search(built: tuple[kr.Manifold, NDArray[np.float32]], k: int) -> None:
    manifold, queries = built
    everything = manifold.search(queries, k=len(manifold))
    first = manifold.search(queries, k=k)
    assert first.meta["certain"] == 1.0
    np.testing.assert_array_equal(first.indices, everything.indices[:, :k])
    np.testing.assert_array_equal(first.distances, everything.distances[:, :k])
    deeper = manifold.search(queries, k=k, depth=k + 9)
    np.testing.assert_array_equal(deeper.indices[:, :k], first.indices)
    assert (np.diff(deeper.distances, axis=1) >= 0).all()
    assert all(len(set(row)) == k + 9 for row in deeper.indices.tolist())


@pytest.mark.parametrize("direct", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("theta", [0.0, 0.4])
def test_certain_answers_are_certain_whatever_the_share_of_wide_states(direct: float, theta: float) -> None:
    """With an unlimited budget, one that is exhausted, and none: k best that are called certain are the k best."""
    rows = clusters(11, 1300, 6, 25)
    manifold = kr.Manifold.build(rows[50:], kr.LPMT(direct=direct, theta=theta, direct_k=40, direct_support=30))
    whole = manifold.search(rows[:50], k=1250)
    sure = []
    for budget in (None, 200, 60, 25):
        found = manifold.snapshot.search(Request(to_unit_rows(rows[:50]), 10, 10, budget))
        assert found.certain is not None
        sure.append(found.certain.mean())
        np.testing.assert_array_equal(found.indices[found.certain], whole.indices[found.certain, :10])
        np.testing.assert_array_equal(found.distances[found.certain], whole.distances[found.certain, :10])
    assert sure[0] == 1.0
    assert sure == sorted(sure, reverse=True)
    assert sure[-1] < 1.0
    np.testing.assert_array_equal(manifold.search(rows[:50], k=1250).distances, whole.distances)  # nothing is left over


@pytest.mark.parametrize("budget", [1, 3, 9])
def test_a_tiny_budget_still_gives_an_order(built: tuple[kr.Manifold, NDArray[np.float32]], budget: int) -> None:
    """The budget is smaller than the number of items that set the scale of d'."""
    manifold, queries = built
    ranking = manifold.search(queries, k=5, depth=12, budget=budget)
    assert np.isfinite(ranking.distances).all()
    assert (np.diff(ranking.distances, axis=1) >= 0).all()
    assert all(len(set(row)) == 12 for row in ranking.indices.tolist())


def test_a_small_budget_is_reported(built: tuple[kr.Manifold, NDArray[np.float32]]) -> None:
    manifold, queries = built
    ranking = manifold.search(queries, k=10, budget=10)
    assert ranking.meta["budget"] == 10
    assert ranking.meta["certain"] < 1.0
    assert ranking.meta["settled"] == 10
    assert (ranking.indices >= 0).all()


def test_a_query_is_answered_alone(built: tuple[kr.Manifold, NDArray[np.float32]]) -> None:
    """The result has the same bits with any other queries, and again after other searches."""
    manifold, queries = built
    together = manifold.search(queries, k=10)
    for row in (0, 17, 39):
        alone = manifold.search(queries[row : row + 1], k=10)
        np.testing.assert_array_equal(alone.indices[0], together.indices[row])
        np.testing.assert_array_equal(alone.distances[0], together.distances[row])


def test_many_threads_search_one_manifold(built: tuple[kr.Manifold, NDArray[np.float32]]) -> None:
    manifold, queries = built
    expected = manifold.search(queries, k=10)
    with ThreadPoolExecutor(8) as pool:
        for ranking in pool.map(lambda _: manifold.search(queries, k=10), range(24)):
            np.testing.assert_array_equal(ranking.indices, expected.indices)
            np.testing.assert_array_equal(ranking.distances, expected.distances)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    items=st.integers(0, 12),
    queries=st.integers(0, 3),
    k=st.integers(1, 20),
    doubled=st.booleans(),
)
def test_small_galleries_and_duplicates(seed: int, items: int, queries: int, k: int, doubled: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 4, (items, 3)).astype(np.float32)
    if doubled:
        rows = np.concatenate([rows, rows, rows])
    asked = rng.integers(1, 4, (queries, 3)).astype(np.float32)
    ranking = kr.Manifold.build(rows).search(asked, k)
    assert ranking.indices.shape == (queries, min(k, len(rows)))
    assert np.isfinite(ranking.distances).all()
    assert (np.diff(ranking.distances, axis=1) >= 0).all()
    for found in ranking.indices.tolist():
        assert len(set(found)) == len(found)
        assert all(0 <= number < len(rows) for number in found)


def test_items_out_of_reach_follow_in_the_order_of_the_search() -> None:
    rng = np.random.default_rng(0)
    near, far = np.eye(6)[0] + 0.05 * rng.random((30, 6)), np.eye(6)[1] + 0.05 * rng.random((30, 6))
    method = kr.LPMT(k=3, path_k=3, k1=8, k2=3)
    rows = np.concatenate([near, far]).astype(np.float32)
    ranking = kr.Manifold.build(rows[1:], method).search(rows[:1], k=59)
    plain = kr.rerank(rows[:1], rows[1:], "none")
    assert set(ranking.indices[0, :29]) == set(range(29))
    np.testing.assert_array_equal(ranking.indices[0, 29:], plain.indices[0, 29:])
    assert (np.diff(ranking.distances[0]) >= 0).all()


@pytest.mark.parametrize("theta", [0.0, 0.5, 1.0])
def test_every_mixture_is_prepared(theta: float) -> None:
    rows = clusters(5, 80)
    manifold = kr.Manifold.build(rows[4:], kr.LPMT(theta=theta, k1=20))
    everything = manifold.search(rows[:4], k=76)
    ranking = manifold.search(rows[:4], k=5)
    np.testing.assert_array_equal(ranking.indices, everything.indices[:, :5])
    if theta == 1.0:
        np.testing.assert_array_equal(ranking.indices, kr.rerank(rows[:4], rows[4:], "none").indices[:, :5])


@pytest.mark.parametrize(
    "changed",
    [
        {"transport": "exact", "support": 8},
        {"support": 0},
        {"share": 0.0, "rho": 1.0, "gamma": 1.0},
        {"share": 1.0},
        {"lam": 0.0},
        {"cycles": 0},
        {"kappa": 0.0, "k2": 1},
        {"k1": 1, "k": 1, "path_k": 1},
        {"k1": 500, "k2": 500, "k": 500, "path_k": 500},
        {"tolerance": 0.5},
    ],
    ids=str,
)
def test_every_reading_of_lpmt_is_prepared(changed: dict[str, Any]) -> None:
    rows = clusters(6, 90)
    manifold = kr.Manifold.build(rows[5:], kr.LPMT(**changed))
    ranking = manifold.search(rows[:5], k=85)
    assert np.isfinite(ranking.distances).all()
    assert all(sorted(row) == list(range(85)) for row in ranking.indices.tolist())
    fewer = manifold.search(rows[:5], k=6)
    np.testing.assert_array_equal(fewer.indices, ranking.indices[:, :6])


@pytest.mark.parametrize(
    "changed",
    [{}, {"scale": "row"}, {"similarity": "cosine"}, {"solver": "dense"}, {"fusion": "plain"}, {"distance": "jaccard"}],
    ids=str,
)
def test_ablations_do_not_support_prepared_search(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"LPMTAblation cannot prepare a gallery .* cannot use it; use one of: lpmt"):
        kr.Manifold.build(clusters(6, 20), LPMTAblation(**changed))


def test_a_store_gives_the_neighbours() -> None:
    rows = clusters(7, 150)
    plain = kr.Manifold.build(rows[10:]).search(rows[:10], k=20)
    stored = kr.Manifold.build(kr.stores.ArrayStore(rows[10:]))
    assert stored.info()["store"] == "ArrayStore"
    np.testing.assert_array_equal(stored.search(rows[:10], k=20).indices, plain.indices)


def test_a_poor_store_is_tidied() -> None:
    """Padding, repetitions, wrong order, the item itself missing or in the middle."""
    indices = np.array([[4, 1, -1, 4, 2], [3, 1, 0, -1, -1]])
    gaps = np.array([[0.4, 0.2, np.inf, 0.5, 0.2], [0.3, 0.0, 0.1, np.inf, np.inf]], np.float32)
    lists = tidy_neighbors(indices, gaps, 5, np.array([0, 1]), 5)
    assert lists.indices.tolist() == [[0, 1, 2, 4, -1], [1, 0, 3, -1, -1]]
    assert lists.distances[0, :4].tolist() == pytest.approx([0.0, 0.2, 0.2, 0.4])
    assert np.isinf(lists.distances[1, 3:]).all()
    with pytest.raises(ValueError, match="store returned item 4, but the manifold has 4 items"):
        tidy_neighbors(indices, gaps, 5, None, 4)


class Forgetful(kr.stores.ArrayStore):
    """A store that finds only the few nearest items, and pads."""

    def search(self, queries: object, k: int) -> kr.Ranking:
        ranking = super().search(queries, k)  # type: ignore[arg-type]
        ranking.indices[:, 4:] = -1
        ranking.distances[:, 4:] = np.inf
        return ranking


def test_a_store_that_finds_few_is_enough() -> None:
    rows = clusters(8, 100)
    ranking = kr.Manifold.build(Forgetful(rows[5:])).search(rows[:5], k=10)
    assert (ranking.indices >= 0).all()
    assert np.isfinite(ranking.distances).all()


def test_ids_are_mapped() -> None:
    rows = clusters(9, 60)
    names = [f"item {number}" for number in range(50)]
    manifold = kr.Manifold.build(rows[10:], ids=names)
    ranking = manifold.search(rows[:3], k=4)
    assert ranking.ids.tolist() == [[names[i] for i in row] for row in ranking.indices.tolist()]
    numbered = kr.Manifold.build(rows[10:], ids=np.arange(50) + 1000).search(rows[:3], k=4)
    assert (numbered.ids - 1000 == ranking.indices).all()
    assert manifold.ids.tolist() == names


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "a"], "'a' occurs twice, the second time at 2"),
        (["a", "b"], "2 entries, but there are 3 items"),
        ([1.5, 2.0, 3.0], "texts or of whole numbers"),
        ([["a"], ["b"], ["c"]], "texts or of whole numbers"),
        ([None, "b", "c"], "texts or of whole numbers"),
    ],
)
def test_bad_ids_are_refused(ids: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kr.Manifold.build(np.eye(3), ids=ids)  # type: ignore[arg-type]


def test_bad_queries_are_refused(built: tuple[kr.Manifold, NDArray[np.float32]]) -> None:
    manifold, queries = built
    with pytest.raises(ValueError, match=r"queries has shape \(40, 7\) but 8 dimensions"):
        manifold.search(queries[:, :7])
    broken = queries.copy()
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match="queries row 3 contains NaN"):
        manifold.search(broken)
    with pytest.raises(ValueError, match="queries row 0 is a zero vector"):
        manifold.search(np.zeros((1, 8)))
    for name in ("k", "depth", "budget"):
        with pytest.raises(ValueError, match=f"{name}=0 is not allowed"):
            manifold.search(queries, **{name: 0})


def test_methods_without_prepared_search_are_refused() -> None:
    with pytest.raises(ValueError, match=r"KReciprocal cannot prepare a gallery .* use one of: lpmt"):
        kr.Manifold.build(np.eye(3), kr.KReciprocal())
    with pytest.raises(ValueError, match="LPMTAblation cannot prepare a gallery"):
        kr.Manifold.build(np.eye(3), LPMTAblation(distance="jaccard"))
    with pytest.raises(ValueError, match="is not known"):
        kr.Manifold.build(np.eye(3), "nothing")


def test_too_little_memory_is_refused_before_the_work() -> None:
    with pytest.raises(kr.errors.MemoryLimitError, match="`max_memory` allows 1 MB"):
        kr.Manifold.build(clusters(0, 50), max_memory="1MB")


def test_the_gallery_is_not_changed_and_may_change() -> None:
    rows = clusters(10, 50)
    before = rows.copy()
    manifold = kr.Manifold.build(rows)
    first = manifold.search(before[:5])
    np.testing.assert_array_equal(rows, before)
    rows[:] = 1
    np.testing.assert_array_equal(manifold.search(before[:5]).indices, first.indices)


def test_explain_is_the_chain_that_ranks(built: tuple[kr.Manifold, NDArray[np.float32]]) -> None:
    manifold, queries = built
    ranking = manifold.search(queries[:1], k=len(manifold))
    for place in (0, 10, 30):
        item = int(ranking.indices[0, place])
        output = manifold.explain(queries[0], item)
        assert output.kinds[0] == "query"
        assert set(output.kinds[1:]) == {"item"}
        assert output.items[-1] == item
        assert len(output.costs) == len(output.items) - 1 == len(output.flows)
        assert sum(output.costs) == pytest.approx(output.total, rel=1e-5)
        gap = to_unit_rows(queries[:1])[0] - manifold.snapshot.vectors[item]
        assert output.distance == pytest.approx(float(np.sqrt(gap @ gap)), rel=1e-5)
    unreached = manifold.explain(queries[0], int(ranking.indices[0, -1]))
    assert not unreached.reached
    assert unreached.costs == ()
    with pytest.raises(ValueError, match="from 0 to 359"):
        manifold.explain(queries[0], 360)
    with pytest.raises(ValueError, match="one query at a time"):
        manifold.explain(queries[:2], 0)


def test_explanations_tell_mass_entropy_and_ranks(
    built: tuple[kr.Manifold, NDArray[np.float32]], tmp_path: Path
) -> None:
    manifold, queries = built
    ranking = manifold.search(queries[:1], k=len(manifold))
    plain = kr.rerank(queries[:1], manifold.snapshot.vectors, "none")
    for place in (0, 12, 359):
        item = int(ranking.indices[0, place])
        output = manifold.explain(queries[0], item)
        assert isinstance(output, Chain)
        assert output.rank_after == place + 1
        assert output.rank_before == 1 + int(np.flatnonzero(plain.indices[0] == item)[0])
        assert output.names[-1] == item
        assert f"rank {output.rank_before} -> {place + 1}" in str(output)
        shown = json.loads(json.dumps(output.to_dict()))
        assert shown["rank_after"] == place + 1
        assert output.figure(tmp_path / "chain.png") is not None
        assert (tmp_path / "chain.png").stat().st_size > 1000
        if not output.reached:
            assert shown["total"] is None
            continue
        assert len(output.moved) == len(output.entropy) == len(output.entropy_of_states) == len(output.costs)
        assert all(0.0 <= moved <= 1.0 + 1e-6 for moved in output.moved)
        np.testing.assert_allclose(output.entropy, np.log(2) * np.array(output.moved), rtol=1e-6)
        masses = [flow["mass"] for flow in shown["flows"][0]]
        assert masses == sorted(masses, reverse=True)
        states = manifold.snapshot.state.graph.states
        gained = state_entropy(states.state(item)[1]) - state_entropy(states.state(output.items[1])[1])
        assert sum(output.entropy_of_states[1:]) == pytest.approx(gained, abs=1e-6)  # the terms between cancel


@pytest.mark.parametrize("method", [kr.LPMT(), kr.LPMT(share=0.5, k1=20, transport="exact", support=8)], ids=repr)
def test_data_for_changes_do_not_affect_results(method: kr.LPMT) -> None:
    rows = clusters(12, 300)
    whole = kr.Manifold.build(rows, method).snapshot.state
    small = kr.Manifold.build(rows, method, changes=False).snapshot.state
    arrays = whole.to_arrays()
    assert set(small.to_arrays()) < set(arrays)
    for name, array in small.to_arrays().items():
        assert array.tobytes() == arrays[name].tobytes(), name
        assert array.dtype == arrays[name].dtype, name
    assert small.facts.items() < whole.facts.items()


def test_rows_computed_together_and_rows_spread_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to compute F and ground costs, for few and for many items, are equal up to rounding if F is exact."""
    rows = clusters(12, 300)
    method = kr.LPMT(tolerance=1e-7, transport="exact", support=12)
    small = kr.Manifold.build(rows, method).snapshot.state.to_arrays()
    monkeypatch.setattr(diffusion, "MAX_BLOCK_ITEMS", 0)
    monkeypatch.setattr(step_costs, "MAX_TABLE_ITEMS", 0)
    large = kr.Manifold.build(rows, method).snapshot.state.to_arrays()
    np.testing.assert_allclose(small["beta"], large["beta"], atol=1e-5)
    np.testing.assert_allclose(small["similar"], large["similar"], rtol=1e-3, atol=1e-5)
    for name in ("step_indptr", "step_indices"):
        np.testing.assert_array_equal(small[name], large[name], err_msg=name)
    matrices = [csr_array((kept["state_data"], kept["state_indices"], kept["state_indptr"])) for kept in (small, large)]
    assert abs(matrices[0] - matrices[1]).max() < 3e-3  # one code of the packed states
    np.testing.assert_allclose(small["step_data"], large["step_data"], rtol=1e-3, atol=1e-6)


def test_weights_of_graphs_from_some_rows_are_those_from_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = to_unit_rows(clusters(13, 900))
    lists = make_gallery(rows).lists(15)
    layers = gaussian_graph.build_layers(
        lists, gaussian_graph.kernel_lengths(lists, 10), gaussian_graph.LayerSettings(10, 0.5)
    )
    numbers = 0.23, 0.2, 1
    exact = dense_diffusion.diffuse_collaboratively(layers, *numbers, solver="dense")[1]
    for small in (0, 1024):  # rows spread one by one, and rows computed together
        monkeypatch.setattr(diffusion, "MAX_BLOCK_ITEMS", small)
        monkeypatch.setattr(diffusion, "SAMPLE_ROWS", (900, 900))
        np.testing.assert_allclose(diffusion.fit_graph_weights(layers, *numbers, 1e-6), exact, rtol=1e-4)
        everything = diffusion.fit_graph_weights(layers, *numbers, 2e-3)
        np.testing.assert_allclose(everything, exact, atol=5e-3)
        monkeypatch.setattr(diffusion, "SAMPLE_ROWS", (128, 2048))
        np.testing.assert_allclose(diffusion.fit_graph_weights(layers, *numbers, 2e-3), everything, atol=5e-3)


def test_explain_takes_ids() -> None:
    rows = clusters(11, 60)
    manifold = kr.Manifold.build(rows[1:], ids=[f"n{number}" for number in range(59)])
    assert manifold.explain(rows[0], "n7").items[-1] == 7
    with pytest.raises(ValueError, match="'n59' is not among the ids"):
        manifold.explain(rows[0], "n59")
    with pytest.raises(ValueError, match="7 is not among the ids"):
        manifold.explain(rows[0], 7)


def test_accuracy_on_oxford_online(shared_dir: Path) -> None:
    """Each query alone, never in the graph; online DFS has 46.5 and 18.8."""
    data = benchmark.load("roxford5k", shared_dir / "data")
    assert data.queries is not None
    manifold = kr.Manifold.build(data.gallery)
    ranking = manifold.search(data.queries, k=len(manifold))
    scores = {level: kr.evaluate(ranking, data.truths[level])["mAP"].mean for level in ("medium", "hard")}
    assert scores["medium"] >= 0.49
    assert scores["hard"] >= 0.235


def test_loading_without_the_approximate_store_warns(tmp_path: Path) -> None:
    stored = kr.Manifold.build(Elsewhere(clusters(1, 80)))
    assert stored.info()["built_over"] == "Elsewhere"
    stored.save(tmp_path / "m")
    output = r"m was built over Elsewhere, which .* all 80 items, which takes 640 multiplications \(80 x 8\)"
    with pytest.warns(ExactSearchWarning, match=output):
        loaded = kr.Manifold.load(tmp_path / "m")
    assert (loaded.info()["store"], loaded.info()["built_over"]) == (None, "Elsewhere")
    loaded.remove([0])
    loaded.save(tmp_path / "m")
    with pytest.warns(ExactSearchWarning):  # after a change as well
        kr.Manifold.load(tmp_path / "m")
    loaded.refresh()  # its neighbours are now found exactly
    loaded.save(tmp_path / "m")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kr.Manifold.load(tmp_path / "m").info()["built_over"] is None
        stored.save(tmp_path / "with")
        kr.Manifold.load(tmp_path / "with", store=Elsewhere(clusters(1, 80)))
        kr.Manifold.build(kr.stores.ArrayStore(clusters(1, 80))).save(tmp_path / "exact")
        kr.Manifold.load(tmp_path / "exact")


def test_items_beyond_a_distance_are_padding() -> None:
    manifold = kr.Manifold.build(clusters(1, 80), ids=[f"n{i}" for i in range(80)])
    whole = manifold.search(clusters(2, 9), k=12)
    limit = float(np.median(whole.distances))
    near = manifold.search(clusters(2, 9), k=12, max_distance=limit)
    inside = whole.distances <= limit
    assert near.indices.shape == whole.indices.shape
    np.testing.assert_array_equal(near.indices, np.where(inside, whole.indices, -1))
    np.testing.assert_array_equal(near.distances, np.where(inside, whole.distances, np.inf))
    assert (near.ids[~inside] == "").all()
    nobody = manifold.search(clusters(2, 2), k=3, max_distance=-1.0)
    assert (nobody.indices == -1).all()
    everybody = manifold.search(clusters(2, 9), k=12, max_distance=1e300)
    np.testing.assert_array_equal(everybody.indices, whole.indices)
    for wrong in (float("nan"), "far", True):
        with pytest.raises(ValueError, match=r"max_distance=.* is not allowed; give a number"):
            manifold.search(clusters(2, 2), max_distance=wrong)  # type: ignore[arg-type]
