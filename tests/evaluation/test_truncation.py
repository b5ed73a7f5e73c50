"""Rankings that stop early: which measures are incomplete, and when nothing is missing."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import TruncatedRankingWarning

LABELS = np.arange(60) % 3
EVERYONE = kr.Truth.from_labels(LABELS)
MEASURES = ("mAP", "mAP@9", "mINP", "nDCG", "nDCG@9", "bullseye@9", "mP@9", "recall@9", "P@9")


def order() -> np.ndarray:
    """Rank items of the same class first, the query itself at the first rank."""
    return np.array([np.argsort((label != LABELS) + 0.5 * (np.arange(60) != i)) for i, label in enumerate(LABELS)])


def truncated(ranking: object, truth: kr.Truth, measure: str) -> kr.evaluation.truncation.Truncation | None:
    """Return what is missing, and check that there is a warning exactly if something is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = kr.evaluate(ranking, truth, [measure], resamples=0)  # type: ignore[arg-type]
    assert [entry.category for entry in caught] == ([] if scores.truncated is None else [TruncatedRankingWarning])
    return scores.truncated


@pytest.mark.filterwarnings("ignore::kinrank.errors.TruncatedRankingWarning")
@pytest.mark.parametrize("measure", MEASURES)
def test_a_short_ranking_is_noticed_where_it_changes_the_value(measure: str) -> None:
    short, whole = order()[:, :6], order()
    assert truncated(whole, EVERYONE, measure) is None
    found = truncated(short, EVERYONE, measure)
    assert found is not None
    assert found.measures == [measure]
    assert (found.depth, found.queries, found.relevant, found.unlisted) == (5, 60, 60 * 19, 60 * 14)  # without itself
    scores = [kr.evaluate(ranking, EVERYONE, [measure], resamples=0)[measure].mean for ranking in (short, whole)]
    assert scores[0] < scores[1]


@pytest.mark.parametrize("measure", ["R@1", "CMC@1", "R@9", "MRR", "MRR@9", "mAP@5", "P@5", "nDCG@5", "bullseye@6"])
def test_measures_within_the_depth_are_complete(measure: str) -> None:
    assert truncated(order()[:, :6], EVERYONE, measure) is None


def test_first_positives_that_are_not_listed() -> None:
    truth = kr.Truth.from_lists([[9], [1]], gallery_size=10)
    for measure in ("R@5", "CMC@5", "MRR@5"):
        found = truncated([[0, 1], [0, 1]], truth, measure)
        assert found is not None
        assert (found.queries, found.unlisted) == (1, 1)
        assert truncated([[0, 1], [0, 1]], truth, measure.replace("5", "2")) is None
    assert truncated([[0, 1], [0, 1]], truth, "MRR") is None


def test_nothing_is_missing_if_the_gallery_or_all_positives_are_listed() -> None:
    everything = kr.Truth.from_lists([[0, 3]], [[1]], gallery_size=4)
    assert truncated([[3, 2, 0]], everything, "mAP") is None  # only junk is not listed
    assert truncated([[3, 0, -1]], everything, "mINP") is None  # all positives are
    assert truncated([[3, 1, -1]], everything, "mAP") is not None
    unknown_size = kr.Truth.from_lists([[0, 3], []])
    assert truncated([[3, 0], [1, 2]], unknown_size, "mAP") is None
    found = truncated([[3, 1], [1, 2]], unknown_size, "mAP")
    assert found is not None
    assert (found.needed, found.queries) == (None, 1)
    assert "it needs all items, or all relevant ones" in found.describe()


def test_lists_of_different_lengths() -> None:
    truth = kr.Truth.from_lists([[0, 3], [0, 3]], [[], [1]], gallery_size=9)
    found = truncated([[5, 6, 0], [5, 1, 0]], truth, "P@5")  # junk takes no rank
    assert found is not None
    assert (found.depth, found.shortest, found.alternative) == (3, 2, "P@2")
    assert "the ranking lists 2 to 3 items per query" in found.describe()
    assert truncated([[5, 6, 0], [5, 1, 0]], truth, "P@2") is None
    found = truncated([[1, -1], [1, -1]], kr.Truth.from_lists([[0], [0]], [[1], [1]], gallery_size=9), "P@5")
    assert found is not None
    assert found.alternative is None


def test_queries_that_the_ranking_does_not_have_are_not_cut_off() -> None:
    truth = kr.Truth.from_qrels({"a": {"x": 1}, "b": {"x": 1}})
    ranking = kr.Ranking(
        np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float32), ids=np.array([["x"]]), query_ids=["a"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = kr.evaluate(ranking, truth, ["mAP"])
    assert (scores.missing, scores.truncated) == (1, None)


def test_the_sentence_says_what_to_do() -> None:
    sentence = (
        "mAP and mINP are incomplete and may be too low: the ranking lists 5 items per query, but they need 59, or all "
        "relevant ones; 840 of 1140 relevant items of 60 queries are not listed and count as not found; rank more items"
    )
    with pytest.warns(TruncatedRankingWarning, match=re.escape(f"{sentence} (k=len(gallery) ranks all)")) as caught:
        scores = kr.evaluate(order()[:, :6], EVERYONE, ["mAP", "mINP", "R@1"])
    assert str(caught[0].message).endswith(", or use mAP@5")
    assert caught[0].filename == __file__
    assert f"{sentence}, or use mAP@5" in str(scores)
    document = json.loads(json.dumps(scores.to_dict()))["truncated"]
    assert document["measures"] == ["mAP", "mINP"]
    assert (document["depth"], document["needed"], document["alternative"]) == (5, 59, "mAP@5")
    assert kr.evaluate(order(), EVERYONE).to_dict()["truncated"] is None
    with pytest.warns(TruncatedRankingWarning, match="relevant items of 60 queries .* rank more items .*ranks all.$"):
        kr.evaluate(order()[:, :6], EVERYONE, ["mINP"])
