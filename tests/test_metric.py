"""metric="euclidean": vectors whose length matters; on unit vectors equal to "cosine"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.neighbors import Neighbors, find_nearest, pairwise_distances
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.stages import reciprocal_sets as stage
from kinrank.stages.graph_update import ChangedGallery, update_lists
from kinrank.stages.item_change import ItemChange
from kinrank.vector_input import compute_rms_length, to_unit_rows
from reference import cas as cas_twin
from reference import context, diffusion
from reference import lpmt as lpmt_twin
from reference import neighbors as twin
from reference.commands import bad, good
from reference.expansion import expansion_distances
from reference.vectors_of_any_length import EUCLIDEAN, made, same_but_for_ties

pytestmark = pytest.mark.slow

Ready = Callable[..., kr.Method]


def scaled(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.float32(compute_rms_length(rows))


@pytest.mark.parametrize("name", list(kr.METHODS))
def test_unit_vectors_are_ranked_as_by_cosine(name: str, ready: Ready) -> None:
    rows, method = to_unit_rows(made(90)), ready(name)
    cosine = kr.rerank(rows[:15], rows[15:], method)
    lengths = kr.rerank(rows[:15], rows[15:], method, metric=EUCLIDEAN)
    assert same_but_for_ties(cosine, lengths)
    assert (cosine.meta["metric"], lengths.meta["metric"]) == ("cosine", EUCLIDEAN)
    assert lengths.meta["scale"] == 1.0


@pytest.mark.parametrize("name", list(kr.METHODS))
def test_lengths_matter_and_units_do_not(name: str, ready: Ready) -> None:
    rows, method = made(90), ready(name)
    lengths = kr.rerank(rows[:15], rows[15:], method, metric=EUCLIDEAN)
    other_units = kr.rerank(1000 * rows[:15], 1000 * rows[15:], method, metric=EUCLIDEAN)
    assert same_but_for_ties(lengths, other_units, 1e-3)
    cosine = kr.rerank(rows[:15], rows[15:], method, metric="cosine")
    assert (cosine.indices[:, :5] != lengths.indices[:, :5]).mean() > 0.2
    assert (cosine.indices == kr.rerank(rows[:15], rows[15:], method).indices).all()


@pytest.mark.parametrize("name", ["none", "lpmt", "cas", "k-reciprocal"])
def test_where_the_origin_lies_does_not_matter(name: str) -> None:
    rows = made(90)
    moved = kr.rerank(rows[:15] + 3, rows[15:] + 3, name, metric=EUCLIDEAN)
    assert same_but_for_ties(kr.rerank(rows[:15], rows[15:], name, metric=EUCLIDEAN), moved, 1e-2)


def matrix(method: kr.Method, rows: NDArray[np.float32], queries: int) -> NDArray[Any]:
    items = Items.joint(rows[:queries], rows[queries:], unit=False)
    return np.asarray(method.distances(method.prepare(items, SILENT), np.arange(queries)))


@pytest.mark.parametrize(
    ("method", "transcribed"),
    [
        (kr.methods.NoReranking(), lambda q, g: twin.distances(q, g)),
        (kr.methods.KNN(k=5), lambda q, g: -context.knn(q, g, 5)),
        (kr.KReciprocal(k1=6, k2=3), lambda q, g: context.k_reciprocal(q, g, 6, 3, kr.KReciprocal().lam)),
        (kr.methods.SCA(k1=6, k2=3), lambda q, g: context.sca(q, g, 6, 3)),
        (kr.CAS(k1=8, k2=4, k3=6, k4=3, k5=8), lambda q, g: cas_twin.cas(q, g, 8, 4, 6, 3, 8)),
        (
            kr.DFS(k=8, kq=4, alpha=0.99, tol=1e-9, maxiter=99),
            lambda q, g: -diffusion.dfs(q, g, 8, 4, 3.0, 0.99, 1e-9, 99),
        ),
        (kr.methods.AQE(k=4), lambda q, g: expansion_distances(q, g, "average", 4)),
        (kr.methods.AQEwD(k=5, kdba=3), lambda q, g: expansion_distances(q, g, "decay", 5, 3)),
        (kr.AlphaQE(k=6, kdba=4, alpha=2.5), lambda q, g: expansion_distances(q, g, "alpha", 6, 4, alpha=2.5)),
        (
            kr.methods.DQE(k=3, negatives=3, kdba=3, negatives_dba=2),
            lambda q, g: expansion_distances(q, g, "discriminative", 3, 3, 2, negatives=3),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, kr.Method) else "",
)
def test_slow_twins_agree_on_rows_of_any_length(method: kr.Method, transcribed: Any) -> None:
    rows = scaled(made(60))
    found, expected = matrix(method, rows, 9), transcribed(rows[:9], rows[9:])
    if isinstance(method, kr.DFS):  # unreached items follow the others
        reached = expected < 0
        found, expected = found[reached], expected[reached]
    np.testing.assert_allclose(found, expected, atol=2e-3 if isinstance(method, kr.methods.DQE) else 2e-4)


def test_the_slow_twin_of_lpmt_agrees_on_rows_of_any_length() -> None:
    rows = scaled(made(40, spread=0.4))
    setting: dict[str, Any] = {
        "k1": 12,
        "k2": 3,
        "kappa": 2.0,
        "rho": 2.0,
        "gamma": 2.0,
        "k": 5,
        "sigma": 0.5,
        "mu": 0.23,
        "lam": 0.2,
        "path_k": 5,
        "cycles": 1,
        "support": 0,
        "share": 0.5,
    }
    method = kr.LPMT(**setting, theta=0.0, transport="exact", tolerance=1e-9)
    items = Items.joint(rows[:6], rows[6:], unit=False)
    prepared = method.prepare(items, SILENT)
    from kinrank.stages.step_costs import find_chains

    chained = find_chains(items.queries, prepared.steps)[0]
    d, expected = lpmt_twin.chained(rows, **setting, neighbors="diffused")
    np.testing.assert_allclose(items.query_distances(np.arange(6)), d[:6, 6:], atol=1e-5)
    np.testing.assert_allclose(chained, expected[:6], rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("count", [90, 1500])
def test_neighbours_of_rows_of_any_length(count: int, factor: float) -> None:
    rows = made(count, 6, spread=1.0)
    rows[[3, 50]] = 0.0
    rows[20:32] = rows[7]  # more duplicates than the margin of the search holds
    rows *= np.float32(factor)
    own = np.arange(len(rows))
    some = own[::37]
    found = find_nearest(rows, rows, 12, own=own, unit=False)
    expected = twin.nearest(rows[some], rows, 12, own=some)
    for row, wanted in zip(some, expected, strict=True):
        np.testing.assert_allclose(found.distances[row], [gap for gap, _ in wanted], rtol=1e-4, atol=1e-6 * factor)
    assert found.indices[7, :12].tolist() == [7, *range(20, 31)]
    assert found.distances[3, 1] == 0.0
    table = pairwise_distances(rows[some], rows, unit=False)
    np.testing.assert_allclose(table, twin.distances(rows[some], rows), rtol=1e-3, atol=1e-4 * factor)
    assert (table[np.arange(len(some)), some] == 0).all()
    far = stage.find_farthest_squared(rows, unit=False)
    np.testing.assert_allclose(np.sqrt(far[some]), twin.distances(rows[some], rows).max(axis=1), rtol=1e-3)


def test_digits_are_kept_far_from_the_origin() -> None:
    rows = made(300, 6, spread=0.0) + np.float32(1000)
    found = find_nearest(rows, rows, 8, own=np.arange(300), unit=False)
    expected = twin.nearest(rows[:20], rows, 8, own=np.arange(20))
    assert [[item for _, item in row] for row in expected] == found.indices[:20].tolist()


def test_zero_vectors_have_a_place_but_no_direction(ready: Ready) -> None:
    rows = made(60)
    rows[4] = 0.0
    with pytest.raises(ValueError, match="row 4 is a zero vector"):
        kr.rerank(None, rows)
    for name in kr.METHODS:
        ranking = kr.rerank(None, rows, ready(name), metric=EUCLIDEAN)
        assert np.isfinite(ranking.distances).all(), name
    assert len(kr.rerank(rows[:3], np.zeros((5, 12)), "none", metric=EUCLIDEAN)) == 3


@pytest.mark.parametrize("name", ["none", "lpmt", "aqe"])
def test_candidates_from_stores_of_either_metric(name: str) -> None:
    rows = made(150)
    queries, gallery = rows[:10], rows[10:]
    ranking = kr.rerank(queries, gallery, name, candidates=40, metric=EUCLIDEAN)
    store = kr.stores.ArrayStore(gallery, EUCLIDEAN)
    assert ranking.meta["metric"] == EUCLIDEAN
    assert (kr.rerank(queries, store, name, candidates=40).indices == ranking.indices).all()
    first = set(store.search(queries, 40).indices[0].tolist())
    assert set(ranking.indices[0].tolist()) == first
    whole = kr.rerank(queries, gallery, name, candidates=len(gallery), metric=EUCLIDEAN)
    assert whole.indices.shape == (10, 140)
    everyone = kr.rerank(None, store, name, candidates=20)
    assert (everyone.indices != np.arange(140)[:, None]).all()
    units = to_unit_rows(rows)
    cosine = kr.rerank(units[:10], units[10:], name, candidates=40)
    assert same_but_for_ties(cosine, kr.rerank(units[:10], units[10:], name, candidates=40, metric=EUCLIDEAN))


def test_unknown_metrics_and_numbers_too_large() -> None:
    rows = made(30)
    truth = kr.Truth.from_labels(np.arange(30) % 3)
    calls: list[Any] = [
        lambda metric: kr.rerank(None, rows, metric=metric),
        lambda metric: kr.rerank(None, rows, candidates=5, metric=metric),
        lambda metric: kr.Manifold.build(rows, metric=metric),
        lambda metric: kr.stores.ArrayStore(rows, metric),
        lambda metric: kr.explain(None, rows, query=0, item=1, metric=metric),
        lambda metric: kr.augmentation.augment(rows, metric=metric),
        lambda metric: kr.near_duplicates(rows, metric=metric),
        lambda metric: kr.compare(None, rows, truth, methods="aqe", metric=metric),
    ]
    for call in calls:
        for name in ("manhattan", 3):
            with pytest.raises(ValueError, match=f"metric={name!r} is not allowed; give one of: cosine, euclidean"):
                call(name)
    huge = rows.copy()
    huge[7] *= 1e25
    with pytest.raises(ValueError, match=r"row 7 holds numbers beyond 1e.15, too large to compute distances"):
        kr.stores.ArrayStore(huge, EUCLIDEAN)
    with pytest.raises(ValueError, match="queries row 7 holds numbers beyond"):
        kr.rerank(huge, rows, metric=EUCLIDEAN)
    tiny = kr.rerank(None, rows * np.float32(1e-30), "none", metric=EUCLIDEAN)
    assert same_but_for_ties(kr.rerank(None, rows, "none", metric=EUCLIDEAN), tiny)


def test_augment_groups_and_comparisons() -> None:
    rows = made(80)
    mixed = kr.augmentation.augment(rows, metric=EUCLIDEAN)
    lengths, before = np.linalg.norm(mixed, axis=1), np.linalg.norm(rows, axis=1)
    assert before.min() < lengths.min() < lengths.max() < before.max()
    assert (np.abs(np.linalg.norm(kr.augmentation.augment(rows), axis=1) - 1) < 1e-5).all()
    near = np.concatenate([rows, rows[:3] + np.float32(1e-3), rows[3:6] * 2])
    found = kr.near_duplicates(near, 0.05, metric=EUCLIDEAN)
    assert [group.items.tolist() for group in found] == [[0, 80], [1, 81], [2, 82]]
    assert found[0].distances[0] == pytest.approx(1e-3 * np.sqrt(12), rel=1e-2)
    manifold = kr.Manifold.build(near, "aqe", metric=EUCLIDEAN)
    assert len(kr.near_duplicates(manifold, 0.05)) == 3
    with pytest.raises(ValueError, match="max_distance=None is not allowed; give a distance >= 0"):
        kr.near_duplicates(manifold)
    with pytest.raises(ValueError, match="metric='cosine' differs from that of the manifold, which is 'euclidean'"):
        kr.near_duplicates(manifold, 0.05, metric="cosine")
    labels = np.arange(80) % 4
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods="aqe", metric=EUCLIDEAN)
    expected = kr.evaluate(kr.rerank(None, rows, "aqe", metric=EUCLIDEAN), kr.Truth.from_labels(labels), ["mAP"])
    assert trials.about == "percent, 80 queries, 80 items, joint, euclidean; best mAP first"
    scores = {trial.method: trial.scores["mAP"].mean for trial in trials}
    assert scores["aqe"] == expected["mAP"].mean


def test_the_command_line_takes_a_metric(tmp_path: Path) -> None:
    rows = made(60)
    np.save(tmp_path / "g.npy", rows[:50])
    np.save(tmp_path / "q.npy", rows[50:])
    (tmp_path / "labels.csv").write_text("\n".join(str(row % 5) for row in range(50)))
    both = ["--gallery", "@g.npy", "--metric", "euclidean"]
    good(tmp_path, "build", *both, "-o", "@m")
    good(tmp_path, "search", "@m", "--queries", "@q.npy", "-o", "@found.npz")
    good(
        tmp_path, *["rerank", "--gallery", "@g.npy", "--queries", "@q.npy", "--metric", "euclidean", "-o", "@joint.npz"]
    )
    manifold = kr.Manifold.build(rows[:50], metric=EUCLIDEAN)
    assert (kr.Ranking.load(tmp_path / "found.npz").indices == manifold.search(rows[50:]).indices).all()
    joint = kr.rerank(rows[50:], rows[:50], metric=EUCLIDEAN)
    assert (kr.Ranking.load(tmp_path / "joint.npz").indices == joint.indices).all()
    assert "euclidean" in good(tmp_path, "info", "@m")
    assert "(distance at most 0.3)" in good(tmp_path, "near-duplicates", "@m", "--max-distance", "0.3")
    assert "(distance at most 0.3)" in good(
        tmp_path, *["near-duplicates", "--gallery", "@g.npy", "--metric", "euclidean", "--max-distance", "0.3"]
    )
    words = "compare --gallery @g.npy --labels @labels.csv --methods aqe --metric"
    assert good(tmp_path, *words.split(), "euclidean") != good(tmp_path, *words.split(), "cosine")
    for command in ("build --gallery @g.npy -o @n", "rerank --gallery @g.npy -o @r.npz", words[:-9]):
        message = bad(tmp_path, *command.split(), "--metric", "manhattan")
        assert "--metric 'manhattan' is not allowed; give one of: cosine, euclidean" in message
    assert "--max-distance" in bad(tmp_path, "near-duplicates", "@m")


def test_neighbour_lists_follow_changes() -> None:
    rows = scaled(made(400, 6, spread=1.0))
    before, stay = rows[:300], np.arange(20, 300)
    near = find_nearest(before, before, 20, own=np.arange(300), unit=False)
    after = np.concatenate([before[stay], rows[300:]])

    def search(items: NDArray[np.int64], k: int) -> Neighbors:
        return find_nearest(after[items], after, k, own=items, unit=False)

    gallery = ChangedGallery(ItemChange(300, stay, 100), after, search, exact=True, unit=False)
    found = update_lists(near, gallery, 20, 10)
    expected = find_nearest(after, after, 20, own=np.arange(380), unit=False)
    assert np.array_equal(found.indices[:, :10], expected.indices[:, :10])
    np.testing.assert_allclose(found.distances[:, :10], expected.distances[:, :10], atol=1e-6)
