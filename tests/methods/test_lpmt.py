"""LPMT and its ablations as a whole: against the dense transcription, over all choices, powers, and real data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank
from kinrank.methods import LPMT
from kinrank.neighbors import Neighbors, find_nearest
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.stages import diffusion, pipeline, step_costs
from kinrank.stages.kernels.nearest_search import multiply_pairs
from kinrank.stages.pipeline import ListSizes, Powers, distance_contrast, measure_contrast, measure_powers
from kinrank.stages.step_costs import NO_PRODUCTS
from kinrank.vector_input import to_unit_rows
from kinrank_bench.datasets import benchmark
from kinrank_bench.paper.lpmt_ablation import LPMTAblation
from reference import lpmt as twin

pytestmark = pytest.mark.slow

SETTING: dict[str, Any] = {
    "k1": 15,
    "k2": 4,
    "kappa": 2.0,
    "theta": 0.4,
    "rho": 1.0,
    "gamma": 3.0,
    "k": 6,
    "sigma": 0.5,
    "mu": 0.23,
    "lam": 0.2,
    "path_k": 6,
    "support": 0,
    "share": 0.5,
    "direct": 0.0,
}
WIDE: dict[str, Any] = {"direct_k": 12, "direct_mu": 0.05, "direct_support": 9}
EXACT: dict[str, Any] = {"tolerance": 1e-8, "transport": "exact"}


@pytest.fixture(params=["small", "large"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Force the loops for few or for many items, independent of their number."""
    for module, name in ((diffusion, "MAX_BLOCK_ITEMS"), (step_costs, "MAX_TABLE_ITEMS")):
        monkeypatch.setattr(module, name, 10**9 if request.param == "small" else 0)
    return str(request.param)


def clusters(seed: int, groups: int = 5, size: int = 9, dimensions: int = 6) -> NDArray[np.float32]:
    """Return elongated groups of items, shuffled."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(rng.standard_normal((groups, dimensions)), size, axis=0)
    rows = centres + 0.35 * rng.standard_normal(centres.shape) * np.array([3.0] + [1.0] * (dimensions - 1))
    return to_unit_rows(rng.permutation(rows).astype(np.float32))


def matrix(method: LPMT, rows: NDArray[np.float32], queries: int | None) -> NDArray[Any]:
    """Return the distances as `rerank` receives them."""
    items = Items.from_gallery(rows) if queries is None else Items.joint(rows[:queries], rows[queries:])
    return np.asarray(method.distances(method.prepare(items, SILENT), np.arange(len(items.queries))))


VARIANTS: dict[str, dict[str, Any]] = {
    "default-like": {},
    "rho 2": {"rho": 2.0, "gamma": 2.0},
    "rho 0.5": {"rho": 0.5},
    "paper's plain equation": {"rho": 1.0, "gamma": 1.0, "fusion": "plain", "theta": 0.5},
    "support": {"support": 6},
    "cycles": {"cycles": 3, "lam": 0.02},
    "no cycle": {"cycles": 0},
    "one graph": {"similarity": "bsd"},
    "gaussian": {"similarity": "gaussian"},
    "cosine": {"similarity": "cosine"},
    "knn region": {"region": "knn"},
    "reciprocal steps": {"steps": "reciprocal"},
    "row scale": {"scale": "row", "sigma": 0.3},
    "raw scale": {"scale": "raw", "sigma": 0.7},
    "global scale": {"scale": "global", "sigma": 0.3},
    "loops": {"loops": True},
    "theta 0": {"theta": 0.0},
    "neighbours by distance": {"neighbors": "euclidean"},
    "confident by distance": {"share": 0.0},
    "confident by similarity": {"share": 1.0},
    "total variation": {"distance": "total_variation"},
    "jaccard": {"distance": "jaccard", "support": 8},
    "cosine of states": {"distance": "cosine", "fusion": "plain"},
    "euclidean of states": {"distance": "euclidean"},
}


def transcribed(rows: NDArray[np.float32], setting: dict[str, Any], *queries: int | None) -> list[NDArray[Any]]:
    """Return d* of the transcription; the first `queries` rows are queries; None: every item is a query."""
    last = {"theta", "fusion", "direct", *WIDE}
    given = {"neighbors": "diffused", **{name: value for name, value in setting.items() if name not in last}}
    d, chained = twin.chained(rows, **given)
    apart = np.zeros(d.shape)
    if setting["direct"]:
        parts = twin.embedded(rows, **{name: given[name] for name in given if name not in ("rho", "gamma", "path_k")})
        r = twin.wide_states(parts.S, parts.p, *(setting[name] for name in WIDE))
        apart = twin.total_variation(r, r)
    gamma = setting["gamma"] if given.get("distance", "transport") == "transport" else 1.0
    answers = []
    for q in queries:
        asked, asking = (slice(None), slice(None)) if q is None else (slice(q, None), slice(q))
        numbers = setting["theta"], gamma, setting.get("fusion", "local"), setting["k"], q is None
        mine = (whole[asking, asked] for whole in (d, chained))
        answers.append(twin.fused(*mine, *numbers, apart[asking, asked], setting["direct"]))
    return answers


@pytest.mark.parametrize("name", list(VARIANTS))
def test_distances_are_those_of_the_dense_transcription(name: str, loops: str) -> None:
    setting = {**SETTING, **VARIANTS[name]}
    rows = clusters(3)
    of_lpmt = set(setting) <= {parameter.name for parameter in LPMT.parameters()}
    for queries, want in zip((None, 8), transcribed(rows, setting, None, 8), strict=True):
        got = matrix(LPMTAblation(**setting, **EXACT), rows, queries)
        # |p - q| comes from inner products: equal states leave the square root of rounding
        atol = 1e-3 if setting.get("distance") == "euclidean" else 3e-4
        np.testing.assert_allclose(got, want, rtol=3e-3, atol=atol)
        if of_lpmt:
            np.testing.assert_array_equal(matrix(LPMT(**setting, **EXACT), rows, queries), got)


@pytest.mark.parametrize("direct", [0.3, 1.0])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"support": 6, "direct_k": 45, "direct_support": 45},
        {"direct_mu": 1.0, "cycles": 0},
        {"theta": 0.0},
        {"direct_k": 1},
        {"direct_support": 1},
    ],
    ids=str,
)
def test_wide_states_are_compared_as_in_the_dense_transcription(
    direct: float, changed: dict[str, Any], loops: str
) -> None:
    setting = {**SETTING, **WIDE, "direct": direct, **changed}
    rows = clusters(3)
    for queries, want in zip((None, 8), transcribed(rows, setting, None, 8), strict=True):
        got = matrix(LPMT(**setting, **EXACT), rows, queries)
        np.testing.assert_allclose(got, want, rtol=3e-3, atol=3e-4)
        assert np.abs(got - matrix(LPMT(**{**setting, "direct": 0.0}, **EXACT), rows, queries)).max() > 0.1


def test_the_share_of_wide_states_is_measured_by_the_transcription(loops: str) -> None:
    """Use lists of all items, queries and gallery together."""
    rows = clusters(4, 5, 12)
    mutual, common = twin.trust_of(twin.nearest_first(twin.euclidean(rows)).astype(np.int32))
    thin = pipeline.FEW_THIN_DIFFERENCE if loops == "small" else pipeline.THIN_DIFFERENCE
    direct = min(max(1 - (max(mutual - common, 0) / thin) ** 2, 0.1), 0.95)
    assert 0.1 < direct < 0.95
    (want,) = transcribed(rows, {**SETTING, **WIDE, "direct": direct}, 8)
    method = LPMT(**{**SETTING, **WIDE, "direct": None}, **EXACT)
    assert method.prepare(Items.joint(rows[:8], rows[8:]), SILENT).powers.direct == pytest.approx(direct)
    np.testing.assert_allclose(matrix(method, rows, 8), want, rtol=3e-3, atol=3e-4)


def test_ranking_is_that_of_the_dense_transcription(loops: str) -> None:
    """On 80 items; adjacent items whose distances differ by less than rounding may change places."""
    rows = clusters(0, 8, 10)
    (want,) = transcribed(rows, SETTING, 15)
    ranking = kinrank.rerank(rows[:15], rows[15:], LPMT(**SETTING, **EXACT))
    along = np.take_along_axis(want, ranking.indices, axis=1)
    assert (np.diff(along, axis=1) >= -1e-3).all()
    np.testing.assert_allclose(ranking.distances, along, rtol=3e-3, atol=3e-4)
    assert (np.sort(ranking.indices, axis=1) == np.arange(65)).all()


def test_loops_for_few_and_for_many_items_agree() -> None:
    """Each computes F to the same tolerance in its own way: close to each other, not equal. Wide states differ."""
    rows = clusters(12, 10, 30)
    found = []
    for small in (10**9, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(diffusion, "MAX_BLOCK_ITEMS", small)
            patch.setattr(step_costs, "MAX_TABLE_ITEMS", small)
            found.append(kinrank.rerank(None, rows, LPMT(k1=30, tolerance=1e-5, direct=0)))
    ahead = [len(set(a) & set(b)) / 10 for a, b in zip(*(one.indices[:, :10].tolist() for one in found), strict=True)]
    assert np.mean(ahead) > 0.998
    np.testing.assert_allclose(np.sort(found[0].distances), np.sort(found[1].distances), rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 3, 45, 900, 1100])
def test_the_ablation_at_its_defaults_is_lpmt_without_wide_states_to_the_bit(n: int) -> None:
    rows = clusters(20, max(1, n // 15), 15)[:n] if n > 3 else clusters(20)[:n]
    rows[n // 2 :: 11] = rows[: len(rows[n // 2 :: 11])]  # duplicates among them
    for queries in (None, max(1, n // 10)):
        if n - (queries or 0) < 1:
            continue
        one, other = (matrix(method, rows, queries) for method in (LPMT(direct=0), LPMTAblation()))
        np.testing.assert_array_equal(one, other)
    given = {"rho": 1.5, "gamma": 2.5, "share": 0.3, "k1": 20, "support": 0, "path_k": 4, "direct": 0.0}
    np.testing.assert_array_equal(*(matrix(kind(**given), rows, None) for kind in (LPMT, LPMTAblation)))


def test_the_ablation_is_refused_by_a_manifold() -> None:
    with pytest.raises(
        ValueError, match=r"LPMTAblation cannot prepare a gallery .* Manifold cannot use it; use one of: lpmt"
    ):
        kinrank.Manifold.build(clusters(0), LPMTAblation())
    with pytest.raises(ValueError, match="a Manifold cannot use it"):
        kinrank.Manifold.build(clusters(0), "lpmt-ablation")


def test_everybody_asks_the_others_and_is_left_out_by_identity() -> None:
    rows = clusters(4)
    rows[7] = rows[3]
    ranking = kinrank.rerank(None, rows, LPMT(**SETTING))
    assert ranking.indices.shape == (45, 44)
    assert not (ranking.indices == np.arange(45)[:, None]).any()
    assert ranking.indices[3, 0] == 7
    assert ranking.indices[7, 0] == 3


CHOICES = [(p.name, value) for p in LPMTAblation.parameters() if p.choices for value in p.choices]
CHOICES += [("loops", False), ("loops", True)]


@pytest.mark.parametrize(("name", "value"), CHOICES)
def test_every_choice_runs_and_gives_a_valid_ranking(name: str, value: Any) -> None:
    rows = clusters(5)
    for queries in (None, rows[:6]):
        ranking = kinrank.rerank(queries, rows, LPMTAblation(**{**SETTING, name: value}))
        depth = 44 if queries is None else 45
        assert ranking.indices.shape == (45 if queries is None else 6, depth)
        assert all(len(set(row)) == depth for row in ranking.indices.tolist())
        assert np.isfinite(ranking.distances).all()
        assert (np.diff(ranking.distances, axis=1) >= 0).all()


@pytest.mark.parametrize(("name", "value"), [c for c in CHOICES if c[0] not in ("solver", "answers")])
def test_every_choice_makes_a_difference(name: str, value: Any) -> None:
    """A flag that changes nothing would not be an ablation."""
    rows, default = clusters(6), LPMTAblation(**SETTING)
    if getattr(default, name) != value:
        gap = np.abs(matrix(LPMTAblation(**{**SETTING, name: value}), rows, None) - matrix(default, rows, None))
        assert gap.max() > 1e-3


@pytest.mark.parametrize(
    ("name", "value"), [c for c in CHOICES if c != ("answers", "many") and c[1] != getattr(LPMTAblation(), c[0])]
)
def test_every_choice_runs_with_more_than_a_thousand_items(name: str, value: Any, many: NDArray[np.float32]) -> None:
    """Every choice differs from the default; solvers only within their tolerances."""
    got = matrix(LPMTAblation(**{name: value}), many, 5)
    gap = np.abs(got - matrix(LPMT(direct=0), many, 5))
    assert np.isfinite(got).all()
    assert gap.max() > (0 if name == "solver" else 1e-3)


@pytest.fixture(scope="module")
def many() -> NDArray[np.float32]:
    return clusters(30, 70, 15, 12)


@pytest.mark.parametrize("similarity", ["bsd", "gaussian", "cosine"])
def test_similarity_still_counts_with_neighbours_by_diffusion(similarity: str) -> None:
    rows, setting = clusters(6), SETTING
    changed = matrix(LPMTAblation(**{**setting, "similarity": similarity}), rows, None)
    gap = changed - matrix(LPMT(**setting), rows, None)
    assert np.abs(gap).max() > 1e-3


@pytest.mark.parametrize("solver", ["fixed_point", "conjugate_gradient", "dense"])
def test_neighbours_by_diffusion_are_the_same_for_every_solver(solver: str) -> None:
    rows, setting = clusters(7), {**SETTING, **EXACT, "cycles": 40}
    want = matrix(LPMT(**setting), rows, None)
    np.testing.assert_allclose(matrix(LPMTAblation(**setting, solver=solver), rows, None), want, rtol=5e-3, atol=1e-3)


@pytest.mark.parametrize("solver", ["resolvent", "fixed_point", "conjugate_gradient", "dense"])
def test_items_that_the_diffusion_does_not_reach_are_neighbours_by_distance(solver: str) -> None:
    """Four groups of ten that the graph does not connect, and steps to twelve items: two of them in other groups."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.eye(5)[:4], 10, axis=0) + 0.08 * rng.standard_normal((40, 5))
    rows = to_unit_rows(rng.permutation(rows).astype(np.float32))
    setting = {**SETTING, "k": 4, "path_k": 12, "cycles": 30}
    (want,) = transcribed(rows, setting, None)
    got = matrix(LPMTAblation(**setting, **EXACT, solver=solver), rows, None)
    np.testing.assert_allclose(got, want, rtol=3e-3, atol=3e-4)


@pytest.mark.parametrize(("solver", "cycles"), [("fixed_point", 40), ("conjugate_gradient", 1), ("dense", 1)])
def test_solvers_agree_in_the_final_distances(solver: str, cycles: int) -> None:
    """The fixed point takes three steps per cycle, so it needs many cycles to converge."""
    rows, setting = clusters(7), {**SETTING, **EXACT, "cycles": cycles}
    want = matrix(LPMT(**setting), rows, None)
    np.testing.assert_allclose(matrix(LPMTAblation(**setting, solver=solver), rows, None), want, rtol=2e-3, atol=2e-4)


def test_default_tolerances_stay_near_the_exact_distances() -> None:
    rows = clusters(8, 8, 10)
    exact, quick = matrix(LPMT(**SETTING, **EXACT), rows, 10), matrix(LPMT(**SETTING), rows, 10)
    assert all(np.corrcoef(a, b)[0, 1] > 0.99 for a, b in zip(exact, quick, strict=True))


def test_candidates_are_a_joint_problem_of_their_own() -> None:
    rows = clusters(9, 8, 10)
    queries, gallery = rows[:5], rows[5:]
    method = LPMT(**SETTING)
    ranking = kinrank.rerank(queries, gallery, method, candidates=30)
    assert ranking.meta["mode"] == "candidates"
    for row, query in enumerate(queries):
        pool = np.sort(np.argsort(((gallery - query) ** 2).sum(axis=1), kind="stable")[:30])
        alone = kinrank.rerank(query[None], gallery[pool], method)
        assert np.array_equal(ranking.indices[row, :30], pool[alone.indices[0]])
        np.testing.assert_allclose(ranking.distances[row, :30], alone.distances[0], rtol=1e-5)


@pytest.mark.parametrize("size", [12, 100])
def test_same_input_same_bits_whatever_the_number_of_threads(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """144 and 1200 items: on both sides of the size at which the loops change."""
    rows = clusters(10, 12, size)
    answers = []
    for threads in ("1", "2", "4"):
        monkeypatch.setenv("KINRANK_THREADS", threads)
        answers.append(kinrank.rerank(None, rows, LPMT(k1=20)))
    for other in answers[1:]:
        assert np.array_equal(other.indices, answers[0].indices)
        assert np.array_equal(other.distances, answers[0].distances)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("kind", ["distinct", "duplicates", "opposite"])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"scale": "row"},
        {"scale": "global"},
        {"transport": "exact"},
        {"distance": "jaccard"},
        {"loops": True},
        {"similarity": "cosine"},
        {"neighbors": "euclidean"},
        {"solver": "dense"},
        {"steps": "reciprocal"},
    ],
)
def test_a_handful_of_items_in_any_position(n: int, kind: str, changed: dict[str, Any], loops: str) -> None:
    rows = to_unit_rows(np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32))
    if kind == "duplicates":
        rows = np.repeat(rows[:1], n, axis=0)
    elif kind == "opposite":
        rows = np.where(np.arange(n)[:, None] % 2, -1, 1).astype(np.float32) * rows[:1]
    for queries, depth in ((None, n - 1), (rows[:1], n)):
        ranking = kinrank.rerank(queries, rows, LPMTAblation(**changed))
        assert ranking.indices.shape == (n if queries is None else 1, depth)
        assert np.isfinite(ranking.distances).all()
        assert all(len(set(row)) == depth for row in ranking.indices.tolist())


@pytest.mark.parametrize("transport", ["sinkhorn", "exact"])
@pytest.mark.parametrize("dimensions", [3, 64, 512])
def test_duplicates_are_at_distance_zero_in_the_order_of_their_numbers(
    transport: str, dimensions: int, loops: str
) -> None:
    for seed in range(4):
        one = to_unit_rows(np.random.default_rng(seed).standard_normal((1, dimensions)).astype(np.float32))
        ranking = kinrank.rerank(None, np.repeat(one, 12, axis=0), LPMT(transport=transport))
        assert not ranking.distances.any()
        assert (np.diff(ranking.indices, axis=1) > 0).all()


def test_unreachable_items_follow_in_the_order_of_the_search(loops: str) -> None:
    """Two groups that no step connects: the other group follows the own one, nearest first."""
    rng = np.random.default_rng(0)
    rows = to_unit_rows((np.repeat(np.eye(4)[:2], 15, axis=0) + 0.05 * rng.standard_normal((30, 4))).astype(np.float32))
    ranking = kinrank.rerank(None, rows, LPMT(**{**SETTING, "k1": 8}))
    d = twin.euclidean(rows)
    for i, row in enumerate(ranking.indices):
        assert {j < 15 for j in row[:14].tolist()} == {i < 15}
        assert (np.diff(d[i, row[14:]]) >= 0).all()
    assert np.isfinite(ranking.distances).all()


# --- values measured from the data ------------------------------------------------------------------------


def lists_of(near: float, far: float, k: int = 61) -> Neighbors:
    """Return lists of k items with one distance of the first and one of the last neighbour for every item."""
    row = np.concatenate([[0.0], np.linspace(near, far, k - 1)])
    everybody = (np.arange(k)[:, None] + np.arange(k)) % k
    return Neighbors(everybody.astype(np.int32), np.tile(row, (k, 1)).astype(np.float32))


def fit(lists: Neighbors, rho: float | None = None, gamma: float | None = None, share: float | None = None) -> Powers:
    return measure_powers(lists, LPMT(rho=rho, gamma=gamma, share=share))


def test_measured_values_change_one_way_with_the_contrast_of_the_distances() -> None:
    found = [fit(lists_of(1.0, float(np.exp(contrast)))) for contrast in np.linspace(0.02, 2.5, 60)]
    rho, gamma, share = np.array([(one.rho, one.gamma, one.share) for one in found]).T
    assert (np.diff(rho) <= 0).all()
    assert (np.diff(gamma) >= 0).all()
    assert (np.diff(share) >= 0).all()
    assert rho[0] > 1 > rho[-1] > 0  # concentrated distances: large rho
    assert 1 < gamma[0] < gamma[-1]  # spread distances: large gamma
    assert share[0] == 0 < share[-1] == 1


@pytest.mark.parametrize("given", [(1.5, None, None), (None, 2.5, 0.3), (0.7, 0.9, 0.0), (16.0, 1.0, 1.0)])
def test_given_values_are_untouched(given: tuple[float | None, float | None, float | None]) -> None:
    """0 is a share like any other and has no special meaning."""
    free, got = fit(lists_of(0.5, 0.8)), fit(lists_of(0.5, 0.8), *given)
    wanted = [
        one if one is not None else other for one, other in zip(given, (free.rho, free.gamma, free.share), strict=True)
    ]
    assert [got.rho, got.gamma, got.share] == wanted


@pytest.mark.parametrize(("near", "far"), [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1e-30, 2.0)])
def test_measured_values_are_finite_and_in_range_for_degenerate_distances(near: float, far: float) -> None:
    alone = Neighbors(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32))
    for lists in (alone, lists_of(near, far, 2), lists_of(near, far)):
        found = fit(lists)
        assert 0 < found.rho <= 4
        assert 2 <= found.gamma <= 4
        assert 0 <= found.share <= 1
        assert 0.1 <= found.direct <= 0.95


def test_measured_values_do_not_depend_on_the_unit_of_the_distances() -> None:
    here, there = fit(lists_of(0.2, 0.3)), fit(lists_of(0.8, 1.2))
    assert (here.rho, here.gamma, here.share) == pytest.approx((there.rho, there.gamma, there.share), rel=1e-5)


@pytest.mark.parametrize(("count", "unit"), [(2, True), (40, True), (120, True), (120, False), (1500, True)])
def test_the_contrast_of_a_sample_is_that_of_all_lists(count: int, unit: bool) -> None:
    """Up to 128 items all of them are in the sample; lists of 25 need not reach the far neighbour."""
    rows = clusters(8, 30, -(-count // 30))[:count]
    rows = rows if unit else rows * np.linspace(0.5, 2.0, count, dtype=np.float32)[:, None]
    lists = find_nearest(rows, rows, min(61, count), own=np.arange(count), unit=unit)
    want, short = distance_contrast(lists), lists.first(25)
    near = 1e-5 if count <= 128 else 0.1
    assert measure_contrast(short, rows, unit, NO_PRODUCTS) == pytest.approx(want, rel=near)
    assert measure_contrast(short, rows, unit, multiply_pairs(rows)) == pytest.approx(want, rel=max(near, 1e-3))


def test_the_contrast_of_duplicates_is_one() -> None:
    rows = np.repeat(clusters(8, 3, 1), 70, axis=0)
    lists = find_nearest(rows, rows, 25, own=np.arange(len(rows)))
    for products in (NO_PRODUCTS, multiply_pairs(rows)):
        assert measure_contrast(lists, rows, True, products) == 1.0


@pytest.mark.parametrize("kind", [LPMT, LPMTAblation])
def test_values_in_force_are_those_of_the_lists(kind: type[LPMT]) -> None:
    items = Items.from_gallery(clusters(11, 8, 10))
    wanted = fit(items.neighbors(61))
    assert kind().prepare(items, SILENT).powers == (wanted if kind is LPMT else replace(wanted, direct=0.0))
    given = kind(rho=2, gamma=1.5, share=0.25, direct=0).prepare(items, SILENT).powers
    assert given == Powers(2, 1.5, 0.25, 0)
    if kind is LPMT:
        assert kind(direct=0.125).prepare(items, SILENT).powers == replace(wanted, direct=0.125)


def test_lists_are_long_enough_for_every_stage() -> None:
    for method in (LPMT(), LPMT(k=60), LPMT(path_k=100), LPMT(k2=90), LPMT(k1=1, k2=1, k=1, path_k=1)):
        widths = ListSizes.of(method)
        assert widths.kept > widths.needed >= max(method.answer_values.k2, method.path_k + 1, method.k + 1)
        assert widths.diffused >= max(method.k1, method.answer_values.k2, method.path_k + 1)
        ranking = kinrank.rerank(None, clusters(11, 8, 10), method)
        assert np.isfinite(ranking.distances).all()


# --- real data: the floors that defaults must not fall below -----------------------------------------------

FLOORS: dict[str, list[tuple[str, str, float]]] = {
    "orl": [("class", "mAP", 81.5)],
    "coil20": [("class", "mAP", 91.0)],
    "mpeg7": [("class", "mAP", 63.0)],
    "roxford5k": [("medium", "mAP", 59.0), ("hard", "mAP", 32.0)],
    "caltech101": [("class", "mAP", 84.5), ("class", "R@1", 92.9)],  # 8677 items, 4310 queries: the long one
}


@pytest.mark.parametrize("name", list(FLOORS))
def test_defaults_reach_the_floor_on_real_data(name: str, shared_dir: Path) -> None:
    data = benchmark.load(name, shared_dir / "data")
    ranking = kinrank.rerank(data.queries, data.gallery)
    for label, measure, floor in FLOORS[name]:
        scores = kinrank.evaluate(ranking, data.truths[label], measure, resamples=0)
        assert 100 * scores[measure].mean >= floor
