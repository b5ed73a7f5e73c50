"""Combined features: weights, refused input, and the combination that a manifold remembers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.stores.faiss import FaissStore
from reference.commands import bad, good


def made(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Return two features of the same items, of different widths and lengths: noisy views of one hidden point each."""
    hidden = np.random.default_rng(7).standard_normal((count, 6))
    random = np.random.default_rng(seed)
    return tuple(
        (
            scale * (hidden @ np.random.default_rng(width).standard_normal((6, width)))
            + 0.3 * random.standard_normal((count, width))
        ).astype(np.float32)
        for width, scale in ((8, 1.0), (5, 40.0))
    )


def cosines(left: Any, right: Any) -> Any:
    return (left / np.linalg.norm(left, axis=1, keepdims=True)) @ (
        right / np.linalg.norm(right, axis=1, keepdims=True)
    ).T


def test_products_are_weighted_means_of_cosines() -> None:
    first, second = made(40)
    for given, weights in ((None, (0.5, 0.5)), ([3, 1], (0.75, 0.25)), ([1e308, 1e308], (0.5, 0.5))):
        combined = kr.combine([first, second], given)
        assert combined.how.sizes == (8, 5)
        assert combined.how.weights == pytest.approx(weights)
        rows = np.asarray(combined)
        expected = weights[0] * cosines(first, first) + weights[1] * cosines(second, second)
        assert np.allclose(rows @ rows.T, expected, atol=1e-5)
    assert len(combined) == 40
    assert repr(combined) == "Combined(40 items x 8 dimensions (weight 0.5) + 5 (0.5))"


def test_a_weight_of_zero_leaves_a_feature_out() -> None:
    first, second = made(60)
    alone = kr.rerank(None, first, "none")
    both = kr.rerank(None, kr.combine([first, second], [1, 0]), "none")
    assert np.array_equal(alone.indices, both.indices)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1], "numbers >= 0"),
        ([0, 0], "at least one of them above 0"),
        ([1, float("nan")], "numbers >= 0"),
        ([1, float("inf")], "numbers >= 0"),
        ([1, 2, 3], "give 2 numbers, one per feature"),
        (1.0, "give 2 numbers"),
        ("equal", "give 2 numbers"),
    ],
)
def test_bad_weights(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match="weights=.* is not allowed; .*" + message):
        kr.combine(list(made(20)), weights)


def test_bad_features() -> None:
    first, second = made(20)
    with pytest.raises(ValueError, match="features have different numbers of items: 20, 19; row i"):
        kr.combine([first, second[:19]])
    with pytest.raises(ValueError, match="features is empty"):
        kr.combine([])
    with pytest.raises(ValueError, match="features must be a list of arrays, one per feature; got ndarray"):
        kr.combine(first)
    second[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"features\[1\] row 3 contains NaN"):
        kr.combine([first, second])
    with pytest.raises(ValueError, match=r"features\[0\] row 2 is a zero vector"):
        kr.combine([np.where(np.arange(20)[:, None] == 2, 0, first), made(20)[1]])


def test_rows_that_are_not_aligned_are_refused() -> None:
    first, second = made(1500)
    kr.combine([first, second])  # aligned
    mixed = second[np.random.default_rng(0).permutation(len(second))]
    with pytest.raises(ValueError, match=r"features\[0\] and features\[1\] do not seem to belong to the same items"):
        kr.combine([first, mixed])
    assert len(kr.combine([first, mixed], check_rows=False)) == 1500
    assert len(kr.combine([first, mixed], [1, 0])) == 1500  # a feature with weight 0 does no harm
    assert len(kr.combine([first[:500], mixed[:500]])) == 500  # too few items to check


def test_a_manifold_remembers_how_its_vectors_were_combined(tmp_path: Path) -> None:
    first, second = made(130)
    gallery = kr.combine([first[:100], second[:100]], [2, 1])
    queries = [first[100:], second[100:]]
    manifold = kr.Manifold.build(gallery)
    expected = manifold.search(np.asarray(kr.combine(queries, [2, 1])))
    manifold.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m")
    assert loaded.info()["combined"] == "8 dimensions (weight 0.6667) + 5 (0.3333)"
    assert kr.Manifold.build(first).info()["combined"] is None
    for one in (manifold, loaded):
        for given in (queries, tuple(queries), kr.combine(queries, [2, 1]), [part.tolist() for part in queries]):
            assert np.array_equal(one.search(given).indices, expected.indices)
        best = int(expected.indices[0, 0])
        singles = [[part[0] for part in queries], [part[:1] for part in queries]]
        assert [one.explain(single, best).items[-1] for single in singles] == [best, best]
    loaded.add([first[100:110], second[100:110]])
    loaded.refresh()
    again = kr.Manifold.build(kr.combine([first[:110], second[:110]], [2, 1]))
    assert np.array_equal(loaded.search(queries).indices, again.search(queries).indices)
    assert loaded.info()["combined"] is not None


def test_queries_that_do_not_fit() -> None:
    first, second = made(60)
    manifold = kr.Manifold.build(kr.combine([first, second]), "aqe")
    with pytest.raises(ValueError, match="queries holds 3 features but the gallery was combined from 2"):
        manifold.search([first, second, second])
    with pytest.raises(ValueError, match=r"queries\[0\] has shape \(60, 5\) but 8 dimensions are needed"):
        manifold.search([second, first])
    with pytest.raises(ValueError, match="queries have different numbers of items: 3, 2"):
        manifold.search([first[:3], second[:2]])
    with pytest.raises(ValueError, match=r"queries were combined as .* but the gallery as .*; give a list"):
        manifold.search(kr.combine([first, second], [3, 1]))
    with pytest.raises(ValueError, match=r"queries has shape .* but 13 dimensions are needed"):
        manifold.search(first)
    with pytest.raises(ValueError, match=r"queries must be 2-d.*a list of 2 arrays, but the gallery has one"):
        kr.Manifold.build(first, "aqe").search([first, first])


def test_rerank_and_explain_combine_queries_as_the_gallery() -> None:
    first, second = made(90)
    gallery = kr.combine([first[20:], second[20:]], [1, 2])
    queries = [first[:20], second[:20]]
    expected = kr.rerank(kr.combine(queries, [1, 2]), gallery)
    assert np.array_equal(kr.rerank(queries, gallery).indices, expected.indices)
    few = kr.rerank(queries, gallery, candidates=20)
    assert np.array_equal(few.indices, kr.rerank(kr.combine(queries, [1, 2]), gallery, candidates=20).indices)
    assert kr.explain(queries, gallery, query=0, item=int(expected.indices[0, 0])).items[0] == 0


def test_a_second_view_helps() -> None:
    """Two noisy views of the same points are better than either, which is the reason to combine them."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 8)
    centres = random.standard_normal((20, 16))
    views = [centres[labels] + 1.2 * random.standard_normal((160, 16)) for _ in range(2)]
    truth = kr.Truth.from_labels(labels)

    def score(vectors: Any) -> float:
        return float(kr.evaluate(kr.rerank(None, vectors, "none"), truth, ["mAP"])["mAP"].mean)

    assert score(kr.combine(views)) > max(map(score, views)) + 0.05


@pytest.fixture
def files(tmp_path: Path) -> Path:
    first, second = made(60)
    for name, rows in {"a": first[:50], "b": second[:50], "qa": first[50:], "qb": second[50:]}.items():
        np.save(tmp_path / f"{name}.npy", rows)
    (tmp_path / "labels.csv").write_text("\n".join(str(row % 5) for row in range(50)))
    return tmp_path


def test_commands_take_several_files(files: Path) -> None:
    first, second = made(60)
    both = "--gallery @a.npy --gallery @b.npy --feature-weights 2,1"
    queries = "--queries @qa.npy --queries @qb.npy"
    good(files, "build", *both.split(), "-o", "@m")
    good(files, "search", "@m", *queries.split(), "-o", "@found.npz")
    good(files, "rerank", *both.split(), *queries.split(), "-o", "@joint.npz")
    gallery = kr.combine([first[:50], second[:50]], [2, 1])
    asked = [first[50:], second[50:]]
    found = kr.Manifold.build(gallery).search(asked)
    assert np.array_equal(kr.Ranking.load(files / "found.npz").indices, found.indices)
    assert np.array_equal(kr.Ranking.load(files / "joint.npz").indices, kr.rerank(asked, gallery).indices)
    item = str(found.indices[1, 0])
    assert "cost" in good(files, "explain", "@m", *queries.split(), "--query", "1", "--item", item)
    assert "8 dimensions (weight 0.6667) + 5 (0.3333)" in good(files, "info", "@m")
    assert "60 items" in good(files, "add", "@m", "--vectors", "@qa.npy", "--vectors", "@qb.npy")
    shown = good(files, "compare", *both.split(), "--labels", "@labels.csv", "--methods", "aqe")
    assert "50 queries" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("build --gallery @a.npy --gallery @qb.npy -o @m", "different numbers of items: 50, 10"),
        (
            "build --gallery @a.npy --gallery @b.npy --feature-weights 1,-1 -o @m",
            "--feature-weights [1.0, -1.0] is not allowed",
        ),
        ("build --gallery @a.npy --gallery @b.npy --feature-weights 1 -o @m", "give 2 numbers, one per feature"),
        (
            "build --gallery @a.npy --gallery @b.npy --feature-weights one -o @m",
            "--feature-weights 'one' is not allowed",
        ),
        ("build --gallery @a.npy --feature-weights 1 -o @m", "--feature-weights is for several features"),
        ("rerank --gallery @a.npy --queries @qa.npy --queries @qb.npy -o @r.npz", "give several features for both"),
        ("rerank --gallery @a.npy --gallery @b.npy --queries @qa.npy -o @r.npz", "13 dimensions are needed"),
    ],
)
def test_commands_refuse_what_does_not_fit(words: str, message: str, files: Path) -> None:
    assert message in bad(files, *words.split())


def test_rows_that_are_not_aligned_at_the_command_line(tmp_path: Path) -> None:
    first, second = made(1200)
    np.save(tmp_path / "a.npy", first)
    np.save(tmp_path / "b.npy", second[::-1])
    words = "build --gallery @a.npy --gallery @b.npy -m aqe -o @m"
    message = bad(tmp_path, *words.split())
    assert "do not seem to belong to the same items" in message
    assert "--no-check-rows" in message
    good(tmp_path, *words.split(), "--no-check-rows")


@pytest.mark.parametrize("make", [kr.stores.ArrayStore, FaissStore])
def test_a_store_remembers_how_its_vectors_were_combined(make) -> None:
    first, second = made(80)
    both = kr.combine([first, second], weights=[2, 1])
    manifold = kr.Manifold.build(make(both))
    assert manifold.info()["combined"] == kr.Manifold.build(both).info()["combined"] is not None
    found = manifold.search([first[:5], second[:5]], k=3)
    assert (found.indices == kr.Manifold.build(both).search([first[:5], second[:5]], k=3).indices).all()
    ranking = kr.rerank([first[:5], second[:5]], make(both), candidates=20)
    assert (ranking.indices == kr.rerank([first[:5], second[:5]], both, candidates=20).indices).all()
