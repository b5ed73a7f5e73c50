"""Query expansion: agreement with the published programs and slow transcriptions; guarantees about input."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank as kr
from kinrank.neighbors import Neighbors
from kinrank.problem import Items
from kinrank.progress import SILENT, Progress
from kinrank.vector_input import to_unit_rows
from reference.expansion import expansion_distances, separate, super_global_order

GOLDEN = {
    "aqe": (kr.methods.AQE(k=4), 1e-4),
    "aqewd": (kr.methods.AQEwD(k=8), 1e-4),
    "alpha_qe": (kr.AlphaQE(k=10, alpha=3), 1e-4),
    "adba_aqe": (kr.methods.AugmentedAQE(k=4, kdba=4), 1e-4),
    "adbawd_aqewd": (kr.methods.AugmentedAQEwD(k=6, kdba=4), 1e-4),
    "alpha_dba_alpha_qe": (kr.methods.AugmentedAlphaQE(k=10, kdba=10, alpha=3), 1e-4),
    "dqe": (kr.methods.DQE(k=4, negatives=4), 1e-2),
}
KINDS = {
    "average": (kr.methods.AQE, {}),
    "decay": (kr.methods.AQEwD, {}),
    "alpha": (kr.AlphaQE, {"alpha": 2.5}),
    "discriminative": (kr.methods.DQE, {"negatives": 3}),
}
ALL = [
    name
    for name, method in kr.METHODS.items()
    if issubclass(method, (kr.methods.AQE, kr.methods.AQEwD, kr.AlphaQE, kr.methods.DQE, kr.methods.SuperGlobal))
]


def distances(method: kr.Method, items: Items) -> np.ndarray:
    return method.distances(method.prepare(items, SILENT), np.arange(len(items.queries)))


def rows(rng: np.random.Generator, count: int, dimensions: int) -> np.ndarray:
    return to_unit_rows(rng.normal(size=(count, dimensions)).astype(np.float32))


@pytest.mark.parametrize("name", GOLDEN)
def test_published_programs_give_the_same_values_and_order(name, shared_dir):
    if not (shared_dir / "golden" / "reference.npz").is_file():
        pytest.skip("no golden/reference.npz in the shared folder")
    golden = np.load(shared_dir / "golden" / "reference.npz")
    method, tolerance = GOLDEN[name]
    expected = golden[f"out_{name}"]
    allowed = tolerance * float(np.ptp(expected))
    found = distances(method, Items.joint(to_unit_rows(golden["queries"]), to_unit_rows(golden["gallery"])))
    np.testing.assert_allclose(-found, expected, rtol=0, atol=allowed)
    ranking = kr.rerank(golden["queries"], golden["gallery"], method)
    theirs = np.take_along_axis(expected, ranking.indices, axis=1)
    # In our order their scores may rise only within rounding.
    assert np.diff(theirs, axis=1).max() <= 2 * allowed
    np.testing.assert_allclose(-ranking.distances, theirs, rtol=0, atol=allowed)


@pytest.mark.parametrize("kdba", [0, 1, 3, 50])
@pytest.mark.parametrize("k", [1, 4, 50])
@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_follow_their_equation(kind, everyone, k, kdba, rng):
    method, settings = KINDS[kind]
    gallery, queries = rows(rng, 12, 24), None if everyone else rows(rng, 5, 24)
    items = Items.from_gallery(gallery) if everyone else Items.joint(queries, gallery)
    found = distances(method(k=k, kdba=kdba, **settings), items)
    expected = expansion_distances(queries, gallery, kind, k, kdba, **settings)
    np.testing.assert_allclose(found, expected, atol=2e-3 if kind == "discriminative" else 3e-6)


@pytest.mark.parametrize("kind", ["average", "decay", "alpha"])
def test_duplicates_and_negative_similarities_follow_the_equation(kind, rng):
    method, settings = KINDS[kind]
    gallery = rows(rng, 8, 3)  # three dimensions: half of all similarities are negative
    gallery = np.concatenate([gallery, gallery[:4], -gallery[:2]])
    for queries in (None, np.concatenate([gallery[:3], rows(rng, 2, 3)])):
        items = Items.from_gallery(gallery) if queries is None else Items.joint(queries, gallery)
        found = distances(method(k=6, kdba=3, **settings), items)
        np.testing.assert_allclose(found, expansion_distances(queries, gallery, kind, 6, 3, **settings), atol=1e-5)


def test_alpha_zero_is_the_average_and_broken_powers_stay_numbers(rng):
    gallery, queries = rows(rng, 30, 3), rows(rng, 9, 3)
    items = Items.joint(queries, gallery)
    np.testing.assert_array_equal(distances(kr.AlphaQE(k=30, alpha=0), items), distances(kr.methods.AQE(k=30), items))
    assert np.isfinite(distances(kr.AlphaQE(k=30, alpha=0.5), items)).all()


def test_items_that_cancel_out_leave_the_query(rng):
    query = rows(rng, 1, 6)
    np.testing.assert_allclose(distances(kr.methods.AQE(k=1), Items.joint(query, -query)), [[1.0]], atol=1e-6)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 5), (21, 20), (40, 3)])
def test_margin_is_the_widest(sizes, rng):
    """Check the optimality conditions, and agreement with a general solver if that converges."""
    from kinrank.stages.vector_expansion import max_margin_normals

    right, wrong = sizes
    points = rows(rng, right + wrong, 48)
    numbers = np.arange(right + wrong, dtype=np.int32)[None]
    near = Neighbors(np.ascontiguousarray(numbers[:, 1:right]), np.zeros((1, right - 1), np.float32))
    normal = max_margin_normals(points[:1], points, near, np.ascontiguousarray(numbers[:, right:]), SILENT)[0]
    np.testing.assert_allclose(normal, separate(points[:right].astype(float), points[right:].astype(float)), atol=2e-3)
    # The gap along the normal is the distance of the hulls: no other direction leaves a wider one.
    gap = (points[:right] @ normal).min() - (points[right:] @ normal).max()
    for other in normal + 0.05 * rng.normal(size=(200, 48)):
        other /= np.linalg.norm(other)
        assert (points[:right] @ other).min() - (points[right:] @ other).max() <= gap + 1e-6


def test_sets_that_no_plane_separates_still_get_a_direction(rng):
    """One item occurs twice, once on each side: the others are still separated, as by a very large C."""
    from kinrank.stages.vector_expansion import max_margin_normals

    gallery = rows(rng, 9, 32)
    gallery[8] = gallery[3]
    near = Neighbors(np.array([[1, 2, 3]], np.int32), np.zeros((1, 3), np.float32))
    normal = max_margin_normals(gallery[:1], gallery, near, np.array([[5, 6, 7, 8]], np.int32), SILENT)[0]
    assert np.isclose(np.linalg.norm(normal), 1, atol=1e-5)
    assert (gallery[:3] @ normal).min() > (gallery[5:8] @ normal).max() + 1e-3
    low = rows(rng, 60, 2)  # forty points in a plane of two dimensions overlap
    found = distances(kr.methods.DQE(k=20, negatives=20), Items.joint(low[:5], low[5:]))
    assert np.isfinite(found).all()


def test_margin_meets_its_optimality_conditions_also_where_sets_overlap(rng):
    """On each side: used points have one level of the gradient, unused ones lie at or above it."""
    from kinrank.stages.vector_expansion import RIDGE, MarginSides, write_margin_normals

    for trial in range(150):
        right, wrong, dimensions = (*rng.integers(1, 25, size=2), (1, 2, 5, 64)[trial % 4])
        points = to_unit_rows((rng.normal(size=(right + wrong, dimensions)) + 2 * rng.random()).astype(np.float32))
        if trial % 3 == 0:
            points[rng.integers(len(points), size=len(points) // 2)] = points[rng.integers(len(points))]
        numbers = np.arange(len(points), dtype=np.int32)[None]
        normals, weights = np.empty((1, dimensions)), np.empty(numbers.shape)
        sides = MarginSides(points[:1], points, numbers[:, 1:right], numbers[:, right:])
        write_margin_normals(0, 1, sides, normals, weights)
        signs = np.repeat([1.0, -1.0], [right, wrong])[:, None]
        signed = signs * points.astype(np.float64)
        gradient = signed @ (weights[0] @ signed) + RIDGE * weights[0]
        allowed = 1e-3 * (weights[0] @ gradient)
        for side in (slice(0, right), slice(right, None)):
            used, level = weights[0, side], weights[0, side] @ gradient[side]
            assert used.min() >= 0
            assert used.sum() == pytest.approx(1, abs=1e-5)
            assert gradient[side].min() >= level - allowed
            assert np.abs(gradient[side] - level)[used > 1e-9].max() <= allowed


def test_negatives_are_the_end_of_the_ranking_also_among_equals(rng):
    from kinrank.stages.vector_expansion import find_farthest

    gallery = rows(rng, 20, 4)
    gallery[[3, 17]] = gallery[9]
    far = find_farthest(gallery[:5], gallery, 6, np.arange(5))
    for row in range(5):
        gaps = ((gallery[row].astype(float) - gallery) ** 2).sum(axis=1).round(6)
        order = [n for n in np.lexsort((np.arange(20), gaps)) if n != row]
        assert far[row].tolist() == order[::-1][:6]


@pytest.mark.parametrize(("top", "k", "beta"), [(6, 2, 0.15), (400, 9, 0.15), (10, 0, 0.5), (1, 9, 0.15), (9, 3, 0.0)])
@pytest.mark.parametrize("everyone", [False, True])
def test_super_global_follows_its_equation(everyone, top, k, beta, rng):
    gallery = rows(rng, 25, 10)
    gallery[[11, 20]] = gallery[4]
    queries = gallery if everyone else rows(rng, 6, 10)
    items = Items.from_gallery(gallery) if everyone else Items.joint(queries, gallery)
    found = distances(kr.methods.SuperGlobal(top=top, k=k, beta=beta), items)
    assert np.isfinite(found).all()
    for row, query in enumerate(queries):
        numbers, scores, rest = super_global_order(query, gallery, row if everyone else None, top, k, beta)
        np.testing.assert_allclose(-found[row, numbers], scores, atol=2e-6)
        ordered = found[row, rest]
        assert (np.diff(ordered) >= 0).all()
        assert not rest or ordered[0] > found[row, numbers].max()


def test_super_global_does_not_depend_on_blocks_or_threads(rng, monkeypatch):
    items = Items.joint(rows(rng, 30, 16), rows(rng, 90, 16))
    method = kr.methods.SuperGlobal(top=40)
    together = distances(method, items)
    prepared = method.prepare(items, SILENT)
    apart = np.concatenate([method.distances(prepared, np.arange(s, s + 10)) for s in (0, 10, 20)])
    np.testing.assert_allclose(together, apart, atol=1e-6)
    monkeypatch.setenv("KINRANK_THREADS", "1")
    np.testing.assert_array_equal(together, distances(method, items))


@pytest.mark.parametrize("name", ALL)
def test_equal_items_tie_and_go_by_number(name, rng):
    gallery = rows(rng, 61, 37)
    copies = [7, 22, 23, 58, 60]
    gallery[copies] = gallery[7]
    ranking = kr.rerank(rows(rng, 13, 37), gallery, name)
    for row, gaps in zip(ranking.indices, ranking.distances, strict=True):
        places = [int(np.flatnonzero(row == number)[0]) for number in copies]
        assert places == sorted(places)
        assert len(set(gaps[places])) == 1  # others may tie with them, as all support vectors of DQE do


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_items_all_the_same_or_none(name, count, rng):
    one = rows(rng, 1, 5)
    for gallery in (rows(rng, count, 5), np.repeat(one, count, axis=0), -np.repeat(one, count, axis=0)):
        ranking = kr.rerank(one, gallery, name)
        assert sorted(ranking.indices[0]) == list(range(count))
        assert np.isfinite(ranking.distances).all()
        assert kr.rerank(None, gallery, name).indices.shape == (count, count - 1)
    assert len(kr.rerank(one[:0], one, name)) == 0


@pytest.mark.parametrize("weighting", ["average", "decay", "alpha", "discriminative"])
def test_augment_is_the_gallery_side_of_the_combination(weighting, rng):
    gallery, queries = rows(rng, 40, 12) * 3, rows(rng, 6, 12)
    before = gallery.copy()
    mixed = kr.augmentation.augment(gallery, kr.augmentation.DBA(k=5, weighting=weighting, alpha=2.0, negatives=3))
    np.testing.assert_array_equal(gallery, before)
    assert mixed.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(mixed, axis=1), 1, atol=1e-6)
    method = {
        "average": kr.methods.AQE(kdba=5),
        "decay": kr.methods.AQEwD(kdba=5),
        "alpha": kr.AlphaQE(kdba=5, alpha=2.0),
        "discriminative": kr.methods.DQE(kdba=5, negatives_dba=3),
    }[weighting]
    prepared = method.prepare(Items.joint(queries, to_unit_rows(gallery)), SILENT)
    np.testing.assert_allclose(prepared.gallery, mixed, atol=1e-6)
    # The difference described in the docs: after augment, the expansion uses the augmented gallery too.
    after = kr.rerank(queries, mixed, type(method)(k=4))
    assert not np.allclose(after.distances, kr.rerank(queries, gallery, method).distances[:, : after.depth], atol=1e-3)


def test_augment_with_one_item_each_changes_nothing_and_checks_its_input(rng):
    gallery = rows(rng, 10, 4)
    np.testing.assert_allclose(kr.augmentation.augment(gallery, kr.augmentation.DBA(k=1)), gallery, atol=1e-6)
    assert kr.augmentation.augment(gallery[:0]).shape == (0, 4)
    np.testing.assert_array_equal(
        kr.augmentation.augment(gallery),
        kr.augmentation.augment(gallery, kr.augmentation.DBA(k=4, weighting="average")),
    )
    with pytest.raises(ValueError, match="weighting"):
        kr.augmentation.DBA(weighting="best")
    with pytest.raises(ValueError, match="give a DBA"):
        kr.augmentation.augment(gallery, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gallery row 2 is a zero vector"):
        kr.augmentation.augment(np.where(np.arange(10)[:, None] == 2, 0, gallery))


def test_progress_is_told_and_memory_is_estimated(rng):
    reports = []
    method = kr.methods.DQE(k=3, negatives=3)
    method.prepare(Items.joint(rows(rng, 5, 8), rows(rng, 20, 8)), Progress(lambda *step: reports.append(step)))
    assert reports == [("separating planes", 1, 1)]
    for name in ALL:
        small, large = (kr.METHODS[name]().memory(n, 100, 512) for n in (1_000, 100_000))
        assert 0 < small <= large
    with pytest.raises(kr.errors.MemoryLimitError, match="adba"):
        kr.rerank(rows(rng, 2, 64), rows(rng, 5000, 64), "adba+aqe", k=5, max_memory="2MB")


def test_roxford_average_of_five_reaches_the_known_score(shared_dir):
    features = np.load(shared_dir / "data" / "roxford5k_sscd.npz")
    truth = shared_dir / "data" / "revisited" / "gnd_roxford5k.pkl"
    ranking = kr.rerank(features["q"], features["d"], kr.methods.AQE(k=4))
    for protocol, expected in (("medium", 42.6), ("hard", 16.2)):
        scores = kr.evaluate(ranking, kr.Truth.revisited(truth, protocol), ["mAP"])
        assert 100 * scores["mAP"].mean == pytest.approx(expected, abs=0.06)
