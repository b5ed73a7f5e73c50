"""Map: two layouts of the same points, exact for few points, and better after re-ranking than before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank.files import safe_pickle
from kinrank.web.collection import Collection
from kinrank.web.page_data.neighborhood_map import compute_layouts, measure_mutual_ranks, rank_within_rows
from kinrank.web.page_data.page_json import build_chain_page
from kinrank.web.page_data.question import Question
from kinrank.web.settings import Files
from web.page_gallery import LENGTH, arcs, collection, gallery, names, queries


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return collection(tmp_path_factory.mktemp("known"))


def mapped(manifold: kinrank.Manifold, known: Collection, question: Question, item: Any) -> dict[str, Any]:
    answer = build_chain_page(manifold, known, question, item)
    found: dict[str, Any] = json.loads(json.dumps(answer, allow_nan=False))["map"]
    for one in found["points"]:
        assert all(0.04 <= part <= 0.96 for part in (*one["before"], *one["after"]))
    return found


def spread(found: dict[str, Any], side: str) -> float:
    """Return the mean distance of right points, including the query, relative to the mean distance of all."""
    places = np.array([one[side] for one in found["points"]])
    right = [place for place, one in enumerate(found["points"]) if one["right"] or one["role"] == "query"]
    gaps = np.sqrt(np.square(places[:, None] - places[None]).sum(axis=2))
    return float(gaps[np.ix_(right, right)].sum() / (len(right) * (len(right) - 1)) / gaps.sum() * gaps.size)


@pytest.mark.parametrize("how", [{}, {"parameters": {"theta": 0.3}}, {"method": "k-reciprocal"}])
def test_points_that_are_near_after_reranking_move_together(known: Collection, how: dict[str, Any]) -> None:
    found = mapped(gallery(), known, Question(("query", 0), **how), "a15")
    assert spread(found, "after") < 0.8 * spread(found, "before")


def test_points_have_cards_and_roles(known: Collection) -> None:
    found = mapped(gallery(), known, Question(("query", 0)), "a15")
    points, roles = found["points"], [one["role"] for one in found["points"]]
    assert roles[0] == "query"
    assert roles.count("query") == 1
    assert set(roles) <= {"query", "chain", "both", "before", "after"}
    assert found["chain"][0] == 0
    assert [roles[place] for place in found["chain"][1:]] == ["chain"] * (len(found["chain"]) - 1)
    assert points[found["chain"][-1]]["card"]["id"] == "a15"
    ids = [one["card"]["id"] for one in points[1:]]
    assert len(set(ids)) == len(ids) <= 71
    assert [one["right"] for one in points[1:]] == [name[0] == "a" for name in ids]


def test_the_same_question_has_the_same_map(known: Collection) -> None:
    first, second = (mapped(gallery(), known, Question(("item", "b03")), "b15") for _ in range(2))
    assert first == second


def test_the_query_item_appears_once(known: Collection) -> None:
    found = mapped(gallery(), known, Question(("item", "b03")), "b03")
    assert [one["card"]["id"] for one in found["points"]].count("b03") == 1
    assert found["chain"] == [0]


@pytest.mark.parametrize("how", [{}, {"method": "aqe"}, {"parameters": {"theta": 0.3}}])
@pytest.mark.parametrize(
    "rows",
    [
        arcs()[:1],
        arcs()[:2],
        arcs()[:3],
        np.repeat(arcs()[:1], 20, axis=0),
        np.repeat(arcs()[:2], 15, axis=0),
        np.concatenate([arcs()[:1], -arcs()[:1], arcs()[:1]]),
    ],
    ids=["one", "two", "three", "copies", "copies of two", "opposite"],
)
def test_few_items_and_copies_can_be_laid_out(known: Collection, rows: Any, how: dict[str, Any]) -> None:
    manifold, last = kinrank.Manifold.build(rows), len(rows) - 1
    for query in (("item", 0), ("vector", queries()[3]), ("vector", rows[0])):
        assert mapped(manifold, known, Question(query, **how), last)["points"]


def test_over_candidates_only_those_are_shown(known: Collection) -> None:
    found = mapped(gallery(), known, Question(("query", 0), k=5, method="aqe", candidates=6), "a15")
    assert len(found["points"]) == 7


def test_remembered_queries_and_lengths(known: Collection) -> None:
    manifold = kinrank.Manifold.build(arcs() * np.float32(3), ids=names(), metric="euclidean")
    manifold.observe(arcs(5)[: 2 * LENGTH : 2] * np.float32(3))
    assert len(mapped(manifold, known, Question(("query", 0)), "a15")["points"]) > 20


# the arithmetic


def test_ranks_along_rows() -> None:
    distances = np.array([[0.0, 3.0, 1.0, 1.0], [5.0, 0.0, 7.0, np.inf], [2.0, 1.0, 0.0, 9.0], [1.0, 2.0, 3.0, 0.0]])
    ranks = rank_within_rows(distances)
    assert ranks.tolist() == [[0, 3, 1, 1], [1, 0, 2, 3], [2, 1, 0, 3], [1, 2, 3, 0]]
    assert measure_mutual_ranks(ranks)[0].tolist() == [0.0, 1.0, 2 / 3, 1 / 3]


def test_a_rotated_plane_keeps_its_layout() -> None:
    places = np.random.default_rng(2).random((30, 2))
    apart = np.sqrt(np.square(places[:, None] - places[None]).sum(axis=2))
    before, after = compute_layouts(apart, 7.0 * apart)
    assert after == pytest.approx(before, abs=1e-6)
    shown = np.sqrt(np.square(before[:, None] - before[None]).sum(axis=2))
    assert shown / shown.max() == pytest.approx(apart / apart.max(), abs=1e-6)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_layout_of_no_points_and_of_equal_points(count: int) -> None:
    before, after = compute_layouts(np.zeros((count, count)), np.zeros((count, count)))
    assert before == pytest.approx(np.full((count, 2), 0.5))
    assert after.shape == (count, 2)


# real pictures


def test_on_real_pictures_right_ones_come_together(shared_dir: Path) -> None:
    data = shared_dir / "data"
    features = np.load(data / "roxford5k_sscd.npz")
    truth = data / "revisited" / "gnd_roxford5k.pkl"
    ids: Any = safe_pickle.load(truth)["imlist"]  # type: ignore[index]
    manifold = kinrank.Manifold.build(features["d"], ids=ids)
    files = Files(truth=str(truth), queries=f"{data / 'roxford5k_sscd.npz'}:q")
    known = Collection.open(files, manifold.ids, None)
    spreads = []
    for number in (2, 12, 16, 33, 44, 55):
        question = Question(("query", number), level="medium")
        item = manifold.search(features["q"][number : number + 1], 20).ids[0, 9]
        found = mapped(manifold, known, question, item)
        spreads.append([spread(found, side) for side in ("before", "after")])
    before, after = np.mean(spreads, axis=0)
    assert after < 0.8 * before
