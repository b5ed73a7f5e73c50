"""Judgements: by name, without contradiction, within bounds, and never a silent zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinrank as kr


def ranking(rows: list[list[str]], queries: list[str] | None = None) -> kr.Ranking:
    numbers = np.array([range(len(row)) for row in rows])
    return kr.Ranking(numbers, numbers / 10.0, {}, ids=np.array(rows, object), query_ids=queries)  # type: ignore[arg-type]


def test_lines_that_contradict_each_other_are_refused(tmp_path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("q 0 a 1\nq 0 b 1\n\nq 0 a 0\n")
    with pytest.raises(ValueError, match=r"line 4 contradicts line 1: document 'a' of query 'q'"):
        kr.Truth.from_qrels(path)
    path.write_text("q 0 a 1\nq 0 b 0\nq 0 a 1\nq 0 a 1.0\n")
    assert kr.Truth.from_qrels(path).positives.counts.tolist() == [1]
    with pytest.raises(ValueError, match="contradicts"):
        kr.Truth.from_qrels({1: {"a": 1}, "1": {"a": 2}})


@pytest.mark.parametrize("relevance", ["1e308", "9" * 5000, "nan", "inf", "-inf", "1e10", "x"])
def test_a_relevance_beyond_bounds_is_refused(relevance: str, tmp_path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text(f"q 0 a {relevance}\n")
    with pytest.raises(ValueError, match=r"line 1 is .* relevance from -2147483647 to 2147483647"):
        kr.Truth.from_qrels(path)


@pytest.mark.parametrize("relevance", [pytest.param(10**5000, id="huge"), float("nan"), 1e308, None])
def test_so_it_is_in_a_mapping(relevance: Any) -> None:
    with pytest.raises(ValueError, match="is not from -2147483647"):
        kr.Truth.from_qrels({"q": {"a": relevance}})


@pytest.mark.parametrize("name", [str(10**12), "9" * 5000])
def test_a_huge_number_is_just_a_name(name: str, tmp_path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text(f"{name} 0 {name} 1\n")
    truth = kr.Truth.from_qrels(path)
    assert len(truth) == 1
    assert kr.evaluate(ranking([[name, "b"]], [name]), truth)["mAP"].mean == 1.0


def test_nothing_gives_zero_in_silence() -> None:
    truth = kr.Truth.from_qrels({"q": {"a": 1, "b": 0}, "r": {"c": 1}})
    with pytest.raises(ValueError, match=r"'A'.* not an item of the truth .*none of them is"):
        kr.evaluate(ranking([["A", "B"], ["C", "D"]], ["q", "r"]), truth)
    with pytest.raises(ValueError, match=r"no query of the ranking \(such as 'Q'\) is in the truth \(such as 'q'\)"):
        kr.evaluate(ranking([["a", "b"]], ["Q"]), truth)
    with pytest.raises(ValueError, match="query 'q' is judged, but the queries of the ranking have no ids"):
        kr.evaluate([[0, 1], [2, 3]], truth)
    with pytest.raises(ValueError, match="give `item_ids`"):
        kr.evaluate([[0, 1]], kr.Truth.from_qrels({"0": {"a": 1}}))


def test_judgements_that_count_from_1_are_noticed() -> None:
    """Rows and items without names count from 0; a file that counts from 1 must not be read one off."""
    qrels = {str(query): {str(query): 1} for query in range(1, 4)}
    rows = [[0, 1], [1, 2], [2, 0]]
    with pytest.raises(ValueError, match=r"query '3' is judged, .* row, 0 to 2; give `query_ids`"):
        kr.evaluate(rows, kr.Truth.from_qrels(qrels))
    names = ["1", "2", "3"]
    assert kr.evaluate(rows, kr.Truth.from_qrels(qrels, query_ids=names, item_ids=names))["mAP"].mean == 1.0
    assert kr.evaluate(rows, kr.Truth.from_qrels({"0": ["0"], "1": ["1"], "2": ["2"]}))["mAP"].mean == 1.0


def test_what_is_not_judged_is_not_right_and_counted() -> None:
    truth = kr.Truth.from_qrels({"q": {"a": 1}})
    scores = kr.evaluate(ranking([["x", "a"], ["y", "a"]], ["q", "unasked"]), truth)
    assert scores["mAP"].mean == 0.5
    assert (scores.queries, scores.left_out, scores.unknown, scores.missing) == (2, 1, 1, 0)
    assert "1 of the listed items are not in the judgements" in str(scores)
    assert scores.to_dict(per_query=True)["query_ids"] == ["q"]


def test_names_are_compared_as_text() -> None:
    truth = kr.Truth.from_qrels({"7": {"12": 1}})
    numbers = kr.Ranking([[0, 1]], [[0.0, 1.0]]).with_ids([5, 12], [7])
    texts = kr.Ranking([[0, 1]], [[0.0, 1.0]]).with_ids(["5", "12"], ["7"])
    assert kr.evaluate(numbers, truth)["mAP"].mean == kr.evaluate(texts, truth)["mAP"].mean == 0.5


def test_missing_queries_count_as_ir_measures_counts_them() -> None:
    ir = pytest.importorskip("ir_measures")
    qrels = {"q": {"a": 1}, "r": {"b": 1}}
    theirs = ir.calc_aggregate([ir.AP], qrels, {"q": {"a": 1.0}})[ir.AP]
    assert kr.evaluate(ranking([["a"]], ["q"]), kr.Truth.from_qrels(qrels))["mAP"].mean == theirs
