"""A ranking is scored by the ids of its items, or refused: never other items than those it lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinrank as kr

METHOD = kr.methods.AQE(k=2)
NAMES = [f"item-{number}" for number in range(60)]


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Queries and gallery of six classes with their labels, the gallery shuffled."""
    centres = rng.standard_normal((6, 8))
    asked, offered = np.arange(12) % 6, rng.permutation(np.arange(60) % 6)
    queries = (centres[asked] + 0.4 * rng.standard_normal((12, 8))).astype(np.float32)
    gallery = (centres[offered] + 0.4 * rng.standard_normal((60, 8))).astype(np.float32)
    return queries, gallery, asked, offered


def score(ranking: Any, truth: kr.Truth) -> float:
    return kr.evaluate(ranking, truth, resamples=0)["mAP"].mean


@pytest.mark.parametrize("ids", [None, NAMES, [number * 7 + 1 for number in range(60)]])
def test_after_a_removal_the_right_items_are_scored(data, ids: list[Any] | None, tmp_path) -> None:
    queries, gallery, asked, offered = data
    gone = np.array([0, 1, 2, 17, 40])
    stay = np.setdiff1d(np.arange(60), gone)
    expected = score(kr.rerank(queries, gallery[stay], METHOD, k=20), kr.Truth.from_labels(asked, offered[stay]))
    manifold = kr.Manifold.build(gallery, METHOD, ids=ids)
    manifold.remove(manifold.ids[gone])
    ranking = manifold.search(queries, k=20)
    left = kr.Truth.from_labels(asked, offered[stay], item_ids=manifold.ids)
    everything = kr.Truth.from_labels(asked, offered, item_ids=ids)
    for ending in ("npz", "trec", "csv"):
        ranking.save(tmp_path / f"r.{ending}")
        for found in (ranking, kr.Ranking.load(tmp_path / f"r.{ending}")):
            assert score(found, left) == pytest.approx(expected)
            right = kr.evaluate(found, everything, ["P@20", "R@1"], resamples=0)
            want = kr.evaluate(ranking, left, ["P@20", "R@1"], resamples=0)
            assert right["P@20"].mean == pytest.approx(want["P@20"].mean)


@pytest.mark.parametrize("ids", [NAMES, [number + 1 for number in range(60)]])
def test_ids_need_a_truth_with_ids(data, ids: list[Any]) -> None:
    queries, gallery, asked, offered = data
    ranking = kr.Manifold.build(gallery, METHOD, ids=ids).search(queries)
    with pytest.raises(ValueError, match="give `item_ids`, the ids of the whole gallery"):
        kr.evaluate(ranking, kr.Truth.from_labels(asked, offered))
    with pytest.raises(ValueError, match=r"not an item of the truth .*none of them is"):
        kr.evaluate(ranking, kr.Truth.from_labels(asked, offered, item_ids=[f"other {i}" for i in range(60)]))
    some = [*ids[:30], *(["x"] if ids is NAMES else [1000])]
    with pytest.raises(ValueError, match=r"not an item of the truth .* are not"):
        kr.evaluate(ranking, kr.Truth.from_labels(asked, offered[:31], item_ids=some))
    named = ranking.with_ids(query_ids=[f"q{i}" for i in range(12)])
    with pytest.raises(ValueError, match="give `query_ids`"):
        kr.evaluate(named, kr.Truth.from_labels(asked, offered, item_ids=ids))


def test_numbers_are_places_in_a_truth_with_names(data) -> None:
    queries, gallery, asked, offered = data
    plain, named = kr.Truth.from_labels(asked, offered), kr.Truth.from_labels(asked, offered, item_ids=NAMES)
    for ranking in (kr.rerank(queries, gallery, METHOD), kr.Manifold.build(gallery, METHOD).search(queries)):
        assert score(ranking, plain) == score(ranking, named)
        assert score(ranking.with_ids(NAMES), named) == score(ranking, plain)
    with pytest.raises(ValueError, match="item_ids has 3 ids but the truth has 60"):
        kr.Truth.from_labels(asked, offered, item_ids=["a", "b", "c"])
    with pytest.raises(ValueError, match="query_ids has 3 ids but the truth has 12"):
        kr.Truth.from_labels(asked, offered, query_ids=["a", "b", "c"])


def test_queries_are_matched_by_name_in_any_order(data) -> None:
    queries, gallery, asked, offered = data
    words = [f"q{number}" for number in range(12)]
    truth = kr.Truth.from_labels(asked, offered, query_ids=words)
    plain = kr.rerank(queries, gallery, METHOD)
    expected = kr.evaluate(plain, truth)["mAP"].per_query
    order = np.random.default_rng(0).permutation(12)
    mixed = kr.Ranking(plain.indices[order], plain.distances[order], query_ids=np.array(words)[order])
    scores = kr.evaluate(mixed, truth)
    np.testing.assert_array_equal(scores["mAP"].per_query, expected)
    assert scores.query_ids is not None
    assert scores.query_ids.tolist() == words
    few = kr.Ranking(plain.indices[:5], plain.distances[:5], query_ids=words[:5])
    scores = kr.evaluate(few, truth)
    assert scores.missing == 7
    assert scores["mAP"].per_query.tolist() == [*expected[:5], *[0.0] * 7]
    assert "7 queries are not in the ranking" in str(scores)
    strange = kr.Ranking(plain.indices[:2], plain.distances[:2], query_ids=["q0", "nobody"])
    with pytest.raises(ValueError, match="'nobody', which is not among `query_ids`"):
        kr.evaluate(strange, truth)


def test_everyone_queries_by_one_list_of_names(data) -> None:
    _, gallery, _, labels = data
    ranking = kr.rerank(None, gallery, METHOD)
    expected = score(ranking, kr.Truth.from_labels(labels))
    named = ranking.with_ids(NAMES, NAMES)
    assert score(named, kr.Truth.from_labels(labels, item_ids=NAMES)) == expected


def test_revisited_items_go_by_number_or_by_their_image(data) -> None:
    content = {
        "imlist": ["a", "b", "c"],
        "qimlist": ["q"],
        "gnd": [{"bbx": [0, 0, 1, 1], "easy": [1], "hard": [], "junk": [0]}],
    }
    truth = kr.Truth.revisited(content, "easy")
    ranking = kr.Ranking([[0, 2, 1]], [[0.0, 1.0, 2.0]])
    assert score(ranking, truth) == 0.25
    assert score(ranking.with_ids(["a", "b", "c"], ["q"]), truth) == 0.25
    assert score(ranking.with_ids(["c", "b", "a"], ["q"]), truth) == 0.25
    assert (
        score(ranking.with_ids(["x", "y", "z"]), kr.Truth.revisited(content, "easy", item_ids=["x", "y", "z"])) == 0.25
    )
    assert kr.Truth.revisited({**content, "imlist": ["a", "a", "b"]}, "easy").item_ids is None


def test_an_item_listed_twice_is_refused_right_or_not() -> None:
    truth = kr.Truth.from_lists([[0]])
    with pytest.raises(ValueError, match="lists item 5 twice"):
        kr.evaluate([[5, 5, 0]], truth)
    with pytest.raises(ValueError, match="twice"):
        kr.evaluate(kr.Ranking([[5, 6]], [[0.0, 1.0]], ids=np.array([["a", "a"]])), kr.Truth.from_qrels({"0": ["a"]}))


def test_numbers_beyond_all_bounds_take_no_memory() -> None:
    truth = kr.Truth.from_lists([[0]])
    assert score([[10**18, 0]], truth) == 0.5
    with pytest.raises(ValueError, match="item numbers from 0 to"):
        kr.Truth.from_lists([[10**15]])
    with pytest.raises(ValueError, match="gallery_size=1000000000000000 is not allowed"):
        kr.Truth.from_lists([[0]], gallery_size=10**15)


def test_masked_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="query_labels has 1 masked"):
        kr.Truth.from_labels(np.ma.array([1, 2], mask=[True, False]))
    with pytest.raises(ValueError, match="positives of query 0 has 1 masked"):
        kr.Truth.from_lists([np.ma.array([1, 2], mask=[True, False])])
    with pytest.raises(ValueError, match="ranking has 1 masked"):
        kr.evaluate(np.ma.array([[1, 2]], mask=[[True, False]]), kr.Truth.from_lists([[0]]))
