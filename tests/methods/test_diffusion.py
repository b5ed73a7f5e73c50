"""The diffusion methods: published outputs, slow references, exact solvers, and edge cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import cg

import kinrank
from kinrank.methods import Method, fsr
from kinrank.methods.base import append_unreachable, distances_from_scores
from kinrank.neighbors import Neighbors
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.stages import affinity
from kinrank.vector_input import to_unit_rows
from reference import diffusion as twin

pytestmark = pytest.mark.slow

SMALL = [
    kinrank.DFS(k=6, kq=3),
    kinrank.methods.FSR(k=6, kq=3, rank=8),
    kinrank.methods.FSR(k=6, kq=3, variant="published"),
    kinrank.methods.RDP(k=5),
    kinrank.methods.RDP(k=5, variant="published"),
    kinrank.methods.EIR(kd=6, kq=3, truncation=20),
    kinrank.methods.EIR(kd=6, truncation=20, variant="joint"),
    kinrank.methods.EGT(k=4),
    kinrank.methods.EGT(k=4, variant="published"),
]
DEFAULTS = [
    kinrank.DFS(),
    kinrank.methods.FSR(),
    kinrank.methods.RDP(),
    kinrank.methods.EIR(),
    kinrank.methods.EIR(variant="joint"),
    kinrank.methods.EGT(),
]
GOLDEN = {
    "dfs": kinrank.DFS(k=20, kq=4, alpha=0.99, gamma=3.0, tol=1e-6, maxiter=20),
    "fsr_full_rank": kinrank.methods.FSR(k=20, kq=10, alpha=0.99, gamma=3.0, variant="published"),
    "rdp": kinrank.methods.RDP(k=15, sigma=0.5, mu=0.3, iterations=20, variant="published"),
    "eir": kinrank.methods.EIR(truncation=300, kd=20, kq=10, gamma=3, alpha=0.99),
    "eir_joint": kinrank.methods.EIR(truncation=300, kd=20, alpha=0.99, variant="joint"),
}


def matrix(method: Method, queries: NDArray[Any], gallery: NDArray[Any], block: int = 3) -> NDArray[Any]:
    """Return (q, g) distances, a few queries at a time, to test blocks too."""
    items = Items.joint(queries, gallery)
    prepared = method.prepare(items, SILENT)
    blocks = [np.arange(i, min(i + block, len(queries))) for i in range(0, len(queries), block)]
    return np.concatenate([method.distances(prepared, some) for some in blocks])


def clusters(rng: np.random.Generator, groups: int, size: int, dimensions: int = 12) -> NDArray[np.float32]:
    """Return items around `groups` directions, one group after the other."""
    centres = np.repeat(rng.standard_normal((groups, dimensions)), size, axis=0)
    return to_unit_rows((centres + 0.5 * rng.standard_normal(centres.shape)).astype(np.float32))


@pytest.fixture
def pair(rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return 7 queries and 60 gallery items around 6 directions."""
    rows = clusters(rng, 6, 12)[rng.permutation(72)]
    return rows[:7], rows[7:67]


def same_values(found: NDArray[Any], scores: NDArray[Any], tolerance: float) -> None:
    """Check that -distance equals the score within a share of its range (unreached items differ by less)."""
    np.testing.assert_allclose(-found, scores, rtol=0, atol=tolerance * np.ptp(scores))


@pytest.mark.parametrize("name", GOLDEN)
def test_published_program_gives_the_same_values(name: str, shared_dir: Path) -> None:
    path = shared_dir / "golden" / "reference.npz"
    if not path.is_file():
        pytest.skip(f"published outputs not found at {path}")
    with np.load(path) as stored:
        queries, gallery, expected = stored["queries"], stored["gallery"], stored[f"out_{name}"]
    same_values(matrix(GOLDEN[name], queries, gallery, block=11), expected, 2e-5)


@pytest.mark.parametrize("gamma", [1.5, 3.0])
@pytest.mark.parametrize("maxiter", [3, 20])
def test_dfs_is_its_transcription(pair: Any, gamma: float, maxiter: int) -> None:
    options = {"k": 6, "kq": 3, "gamma": gamma, "alpha": 0.9, "tol": 1e-6, "maxiter": maxiter}
    same_values(matrix(kinrank.DFS(**options), *pair), twin.dfs(*pair, **options), 2e-5)


def test_dfs_solved_to_the_end_is_fsr_at_full_rank(pair: Any) -> None:
    exact = matrix(kinrank.methods.FSR(k=6, kq=3, variant="published"), *pair)
    solved = matrix(kinrank.DFS(k=6, kq=3, tol=1e-12, maxiter=500), *pair)
    np.testing.assert_allclose(solved, exact, atol=1e-8)


@pytest.mark.parametrize("rank", [1, 12, 40])
def test_fsr_is_its_transcription(rng: np.random.Generator, rank: int) -> None:
    rows = clusters(rng, 1, 70, dimensions=6)  # one component without repeated eigenvalues, so the cut is unique
    queries, gallery = rows[:7], rows[7:]
    options = {"k": 12, "kq": 3, "gamma": 3.0, "alpha": 0.9, "rank": rank}
    same_values(matrix(kinrank.methods.FSR(**options), queries, gallery), twin.fsr(queries, gallery, **options), 2e-5)


@pytest.mark.parametrize("iterations", [1, 4, 20])
def test_rdp_published_is_its_transcription(pair: Any, iterations: int) -> None:
    options = {"k": 5, "sigma": 0.5, "mu": 0.3, "iterations": iterations}
    found = matrix(kinrank.methods.RDP(**options, variant="published"), *pair)
    same_values(found, twin.rdp(*pair, **options, power=2), 2e-5)


@pytest.mark.parametrize("mu", [0.01, 0.3, 4.0])
def test_rdp_is_its_closed_form(pair: Any, mu: float) -> None:
    options = {"k": 5, "sigma": 0.5, "mu": mu}
    same_values(
        matrix(kinrank.methods.RDP(**options), *pair), twin.rdp(*pair, **options, iterations=None, power=1), 2e-5
    )


@pytest.mark.parametrize("truncation", [2, 15, 500])
def test_eir_is_its_transcription(pair: Any, truncation: int) -> None:
    options = {"kd": 6, "gamma": 3.0, "alpha": 0.99, "truncation": truncation, "tol": 1e-6, "maxiter": 20}
    same_values(matrix(kinrank.methods.EIR(kq=3, **options), *pair), twin.eir(*pair, kq=3, **options), 2e-5)
    joint = matrix(kinrank.methods.EIR(variant="joint", **options), *pair)
    same_values(joint, twin.eir_joint(*pair, **options), 2e-5)


def test_eir_without_truncation_is_dfs(pair: Any) -> None:
    exact = {"tol": 1e-10, "maxiter": 500, "kq": 3}
    dfs = matrix(kinrank.DFS(k=6, **exact), *pair)
    np.testing.assert_allclose(
        matrix(kinrank.methods.EIR(kd=6, truncation=60, **exact), *pair), dfs, atol=1e-5 * np.ptp(dfs)
    )


@pytest.mark.parametrize("variant", ["paper", "published"])
@pytest.mark.parametrize(("k", "tau", "p"), [(3, 0.9, 100), (5, 0.5, 100), (5, -1.0, 17), (4, 1.0, 30), (2, 0.7, 1)])
def test_egt_takes_the_items_of_its_transcription(pair: Any, variant: str, k: int, tau: float, p: int) -> None:
    found = matrix(kinrank.methods.EGT(k=k, tau=tau, p=p, variant=variant), *pair)
    walks = twin.egt(*pair, k=k, tau=tau, p=p, published=variant == "published")
    original = twin.squared_distances(*pair)
    for row, walk, gaps in zip(found, walks, original, strict=True):
        rest = [item for item in np.argsort(gaps, kind="stable") if item not in walk]
        assert np.argsort(row, kind="stable").tolist() == walk + rest


def test_egt_published_graph_has_one_reverse_edge(pair: Any) -> None:
    from kinrank.stages.graph_traversal import build_published_graph, build_union_graph

    lists = Items.from_gallery(pair[1]).neighbors(5)
    named = np.bincount(lists.indices[:, 1:].ravel(), minlength=60)
    assert (np.diff(build_published_graph(lists).indptr) == 4 + (named > 0)).all()
    union = build_union_graph(lists)
    assert abs(union - union.T).max() == 0
    assert np.diff(union.indptr).max() > 5


def test_edges_of_similarity_zero_are_walked() -> None:
    gallery = np.eye(4, dtype=np.float32)  # all pairs orthogonal
    found = matrix(kinrank.methods.EGT(k=2, tau=0.5), gallery[:1], gallery)
    assert (found[0] < 1).all()
    assert found[0, 0] == 0


def test_block_solver_stops_where_scipy_stops(rng: np.random.Generator) -> None:
    rows = clusters(rng, 4, 30)
    smooth = affinity.normalize_affinity(affinity.mutual_affinity(Items.from_gallery(rows).neighbors(8), 3.0))
    right = np.abs(rng.standard_normal((120, 70)))
    right[:, 5] = 0.0
    right[1:, 6] = 0.0  # converges sooner than the others
    system = sparse.eye_array(120) - 0.99 * smooth
    for maxiter in (4, 20, 200):
        found = affinity.diffuse_sources(smooth, right, 0.99, 1e-6, maxiter)
        expected = np.stack([cg(system, column, rtol=1e-6, maxiter=maxiter)[0] for column in right.T], axis=1)
        np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_compiled_product_is_the_sparse_product(rng: np.random.Generator) -> None:
    some = sparse.random_array((300, 40), density=0.1, rng=rng, format="csr")
    block = rng.standard_normal((40, 9))
    np.testing.assert_allclose(affinity.multiply_block(some, block), some @ block, atol=1e-12)


def test_krylov_finds_the_leading_eigenpairs(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = clusters(rng, 6, 40)
    smooth = affinity.normalize_affinity(affinity.mutual_affinity(Items.from_gallery(rows).neighbors(80), 3.0))
    monkeypatch.setattr(affinity, "KRYLOV_BLOCK_COLUMNS", 8)  # a basis of 160 columns out of 240
    values, vectors = affinity.solve_krylov(smooth, 8)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-10)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(smooth.toarray())[::-1][:8], atol=1e-6)
    np.testing.assert_allclose(smooth @ vectors, vectors * values, atol=1e-3)


def test_fsr_by_krylov_is_fsr_by_dense(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = clusters(rng, 6, 41)
    method = kinrank.methods.FSR(k=80, kq=5, rank=8)
    dense = matrix(method, rows[::41], rows)
    monkeypatch.setattr(affinity, "MAX_DENSE_ITEMS", 10)
    monkeypatch.setattr(affinity, "KRYLOV_BLOCK_COLUMNS", 8)
    krylov = matrix(method, rows[::41], rows)
    assert not np.array_equal(krylov, dense)  # the other algorithm ran
    np.testing.assert_allclose(krylov, dense, atol=1e-4 * np.ptp(dense))


def test_fsr_refuses_a_dense_decomposition_that_is_too_large(pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsr, "MAX_DENSE_ITEMS", 10)
    with pytest.raises(ValueError, match=r"rank.*at most 10.*variant='paper'.*DFS"):
        matrix(kinrank.methods.FSR(k=40, variant="published"), *pair)


def test_rdp_steps_arrive_at_the_fixed_point(pair: Any) -> None:
    """With a wide sigma both distances have the same weight, so the variants differ only in their steps."""
    wide = {"k": 5, "sigma": 1e4}
    steps = matrix(kinrank.methods.RDP(**wide, iterations=200, variant="published"), *pair)
    np.testing.assert_allclose(steps, matrix(kinrank.methods.RDP(**wide), *pair), atol=1e-6 * np.ptp(steps))


def test_gaussian_weights_are_scaled_by_the_largest_distance(rng: np.random.Generator) -> None:
    rows = clusters(rng, 5, 20)
    near = Items.from_gallery(rows).neighbors(6)
    squared = twin.squared_distances(rows, rows)
    lists = np.zeros(squared.shape, bool)
    np.put_along_axis(lists, near.indices, True, axis=1)
    for power in (1, 2):
        weights = np.where(lists, np.exp(-((squared / squared.max()) ** power) / 0.5**2), 0)
        found = affinity.gaussian_affinity(rows, near, 0.5, power).toarray()
        np.testing.assert_allclose(found, (weights + weights.T) / 2, rtol=1e-5)


def test_isolated_items_have_zero_rows() -> None:
    lists = Neighbors(np.array([[0, 1], [1, 0], [2, 0]], np.int32), np.array([[0, 0.5]] * 3, np.float32))
    smooth = affinity.normalize_affinity(affinity.mutual_affinity(lists, 3.0)).toarray()
    np.testing.assert_allclose(smooth, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_unreached_items_follow_in_the_order_of_the_search() -> None:
    distances = np.array([[-2.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    reached = np.array([[True, True, False, False], [False] * 4])
    found = append_unreachable(distances, reached, lambda: np.array([[0, 0, 2, 1], [1, 0, 3, 2]]))
    assert np.argsort(found, axis=1).tolist() == [[0, 1, 3, 2], [1, 0, 3, 2]]
    assert (found[0, 2:] > 0.5).all()
    expected = [[-2.0, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_unreached_items_follow_behind_a_distance_the_method_knows() -> None:
    distances, reached = np.array([[0.2, 1.0, 1.0]], np.float32), np.array([[True, False, False]])
    found = append_unreachable(distances, reached, lambda: np.array([[9, 3, 2]], np.float32), last=1.0)
    np.testing.assert_allclose(found, [[0.2, 4, 3]])
    found = distances_from_scores(np.array([[0.5, 0.0]]), lambda: np.array([[9.0, 0.25]]), last=0.0)
    np.testing.assert_allclose(found, [[-0.5, 0.25]])


@pytest.mark.parametrize("method", SMALL, ids=repr)
def test_two_islands(method: Method, rng: np.random.Generator) -> None:
    """All items of the query's own island come before the other one, whose items keep the search order."""
    near = np.zeros((40, 10), np.float32)
    near[:20, :5] = 1 + 0.2 * rng.standard_normal((20, 5))
    near[20:, 5:] = 1 + 0.2 * rng.standard_normal((20, 5))
    gallery = to_unit_rows(near)
    query = gallery[:1] + np.float32(0.01)
    ranking = kinrank.rerank(query, gallery, method)
    own, other = ranking.indices[0, :20], ranking.indices[0, 20:]
    assert set(own) == set(range(20))
    gaps = np.linalg.norm(gallery[other] - to_unit_rows(query), axis=1)
    assert (np.diff(gaps) >= -1e-6).all()
    assert np.isfinite(ranking.distances).all()


@pytest.mark.parametrize("method", SMALL + DEFAULTS, ids=repr)
@pytest.mark.parametrize(("queries", "items"), [(1, 1), (2, 1), (1, 2), (3, 4), (5, 30)])
def test_small_sets_and_lists_longer_than_the_gallery(
    method: Method, queries: int, items: int, rng: np.random.Generator
) -> None:
    rows = rng.standard_normal((queries + items, 4)).astype(np.float32)
    rows[-1] = rows[0]  # a duplicate, and a query that is an item
    ranking = kinrank.rerank(rows[:queries], rows[queries:], method)
    assert np.array_equal(np.sort(ranking.indices, axis=1), np.tile(np.arange(items), (queries, 1)))
    assert np.isfinite(ranking.distances).all()
    everyone = kinrank.rerank(None, rows, method)
    assert everyone.indices.shape == (len(rows), len(rows) - 1)
    assert not (everyone.indices == np.arange(len(rows))[:, None]).any()
    assert np.isfinite(everyone.distances).all()


@pytest.mark.parametrize("method", SMALL, ids=repr)
def test_all_items_the_same(method: Method) -> None:
    rows = np.ones((25, 3), np.float32)
    ranking = kinrank.rerank(rows[:2], rows, method)
    assert np.isfinite(ranking.distances).all()
    assert np.array_equal(np.sort(ranking.indices, axis=1), np.tile(np.arange(25), (2, 1)))


@pytest.mark.parametrize("method", SMALL, ids=repr)
def test_opposite_items_are_never_nan(method: Method) -> None:
    rows = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1]], np.float32)
    ranking = kinrank.rerank(rows, rows, method)
    assert np.isfinite(ranking.distances).all()


@pytest.mark.parametrize("method", SMALL, ids=repr)
def test_same_bits_for_any_number_of_threads_and_queries(
    method: Method, pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = kinrank.rerank(*pair, method)
    monkeypatch.setenv("KINRANK_THREADS", "1")
    alone = kinrank.rerank(*pair, method)
    assert np.array_equal(together.indices, alone.indices)
    assert np.array_equal(together.distances, alone.distances)


@pytest.mark.parametrize("method", DEFAULTS, ids=repr)
def test_forty_thousand_items_fit_in_three_gigabytes(method: Method) -> None:
    assert 0 < method.memory(40_100, 100, 128) < 2_500_000_000


@pytest.fixture(scope="module")
def oxford(shared_dir: Path) -> tuple[NDArray[np.float32], NDArray[np.float32], Path]:
    with np.load(shared_dir / "data" / "roxford5k_sscd.npz") as stored:
        queries, gallery = stored["q"].astype(np.float32), stored["d"].astype(np.float32)
    return queries, gallery, shared_dir / "data" / "revisited" / "gnd_roxford5k.pkl"


def test_dfs_on_revisited_oxford(oxford: Any) -> None:
    queries, gallery, answers = oxford
    ranking = kinrank.rerank(queries, gallery, kinrank.DFS(k=50, kq=10, alpha=0.99))
    for level, expected in (("medium", 46.5), ("hard", 18.8)):
        scores = kinrank.evaluate(ranking, kinrank.Truth.revisited(answers, level), ["mAP"])
        assert 100 * scores["mAP"].mean == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("method", [kinrank.methods.RDP(), kinrank.methods.EIR(), kinrank.methods.EGT(k=50)], ids=repr)
def test_better_than_the_search_on_revisited_oxford(method: Method, oxford: Any) -> None:
    queries, gallery, answers = oxford
    scores = kinrank.evaluate(
        kinrank.rerank(queries, gallery, method), kinrank.Truth.revisited(answers, "medium"), ["mAP"]
    )
    assert 100 * scores["mAP"].mean > 35.4 + 5
