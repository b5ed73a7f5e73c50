"""compare: order, gains, refusals, failures and verdict."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.errors import InputError, MemoryLimitError
from kinrank.evaluation import trials as trials_module
from kinrank.evaluation.trials import VARIANTS
from kinrank.methods import METHODS
from kinrank.methods.base import Method, full_repr
from kinrank.problem import Items
from kinrank.progress import Progress

Rows = NDArray[np.float64]


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[Rows, NDArray[np.int64]]:
    labels = np.arange(60) % 6
    return rng.standard_normal((6, 16))[labels] + 1.2 * rng.standard_normal((60, 16)), labels


@dataclass(frozen=True, kw_only=True)
class Backwards(Method):
    """Method that ranks the farthest items first."""

    name: ClassVar[str] = "backwards"
    paper: ClassVar[str] = "none"

    def prepare(self, items: Items, progress: Progress) -> Items:
        return items

    def distances(self, prepared: Items, queries: NDArray[np.int64]) -> NDArray[Any]:
        return -prepared.query_distances(queries)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return 0


@dataclass(frozen=True, kw_only=True)
class Learned(Backwards):
    """Method that refuses, as a learned method without weights does."""

    name: ClassVar[str] = "learned"

    def prepare(self, items: Items, progress: Progress) -> Items:
        raise InputError("learned needs weights", remedy="give their file")


def test_every_number_is_that_of_its_parts(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, labels = data
    truth = kr.Truth.from_labels(labels)
    trials = kr.compare(None, rows, truth, methods=["aqe", kr.methods.AQE(k=2), "none"], measures=["mAP", "R@1"])
    assert {trial.method for trial in trials} == {"none", "aqe", repr(kr.methods.AQE(k=2))}
    plain = kr.evaluate(kr.rerank(None, rows, "none"), truth, ["mAP", "R@1"])
    for trial, method in ((trial, "none" if trial.method == "none" else trial.parameters) for trial in trials):
        chosen = {full_repr(method): method for method in (kr.methods.AQE(), kr.methods.AQE(k=2))}.get(method, "none")
        scores = kr.evaluate(kr.rerank(None, rows, chosen), truth, ["mAP", "R@1"])
        for measure in ("mAP", "R@1"):
            assert repr(trial.scores[measure]) == repr(scores[measure])
            gain = kr.evaluation.compare_scores(plain, scores, measure, resamples=2000)
            assert trial.gains[measure].to_dict() == gain.to_dict()
        assert trial.seconds > 0
    means = [trial.scores["mAP"].mean for trial in trials]
    assert means == sorted(means, reverse=True)
    assert (trials.queries, trials.items, trials.mode) == (60, 60, "joint")


def test_candidates_are_compared_with_candidates(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, labels = data
    trials = kr.compare(rows[:6], rows[6:], kr.Truth.from_labels(labels[:6], labels[6:]), methods="aqe", candidates=20)
    assert trials.mode == "candidates 20"
    assert [trial.scores.queries for trial in trials] == [6, 6]
    found = {trial.method: trial.scores["mAP"].mean for trial in trials}
    truth = kr.Truth.from_labels(labels[:6], labels[6:])
    for name in ("none", "aqe"):  # relevant items after the candidates count, as without candidates
        whole = kr.evaluate(kr.rerank(rows[:6], rows[6:], name, candidates=20, k=54), truth)
        assert found[name] == whole["mAP"].mean
    assert found["none"] == kr.evaluate(kr.rerank(rows[:6], rows[6:], "none"), truth)["mAP"].mean
    cut = kr.compare(rows[:6], rows[6:], truth, methods="aqe", candidates=20, k=20)
    assert {trial.method: trial.scores["mAP"].mean for trial in cut}["none"] < found["none"]
    assert "candidates 20" in str(trials)


def test_harm_is_said_in_a_sentence(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, labels = data
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods=[Backwards()], measures=["mAP", "R@1"])
    assert [trial.method for trial in trials] == ["none", "backwards"]
    assert trials.verdict[0] == "No method is clearly better than no re-ranking in mAP here."
    assert "Re-ranking hurts mAP here with backwards (-" in trials.verdict[1]
    assert "Re-ranking hurts R@1 here with backwards (-" in trials.verdict[2]
    assert trials.verdict[1] in str(trials)


def test_help_is_said_too(rng: np.random.Generator) -> None:
    labels = np.arange(120) % 4
    rows = rng.standard_normal((4, 16))[labels] + 1.3 * rng.standard_normal((120, 16))
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods="aqe")
    assert "Re-ranking helps here: aqe is better than no re-ranking in mAP (+" in str(trials)
    assert "hurts" not in str(trials)
    assert repr(trials).startswith("Trials(aqe mAP ")


def test_methods_that_refuse_are_listed_with_their_sentence(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, labels = data
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods=[Learned(), "lpmt", "aqe"], max_memory="1MB")
    assert {trial.method for trial in trials} == {"none", "aqe"}
    assert trials.refused["learned"] == "learned needs weights; give their file"
    assert "`max_memory` allows 1 MB" in trials.refused["lpmt"]
    assert "learned refused: learned needs weights" in str(trials)


@dataclass(frozen=True, kw_only=True)
class Broken(Backwards):
    """Method with a bug."""

    name: ClassVar[str] = "broken"

    def prepare(self, items: Items, progress: Progress) -> Items:
        raise ValueError("operands could not be broadcast together")


def test_a_method_with_a_bug_is_listed_as_failed(
    data: tuple[Rows, NDArray[np.int64]], caplog: pytest.LogCaptureFixture
) -> None:
    rows, labels = data
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods=[Broken(), "aqe"])
    assert {trial.method for trial in trials} == {"none", "aqe"}
    assert trials.refused == {}
    assert trials.failed == {"broken": "ValueError: operands could not be broadcast together"}
    assert trials.to_dict()["failed"] == trials.failed
    assert "broken failed: ValueError: operands could not be broadcast together" in str(trials)
    assert "1 failed" in repr(trials)
    assert caplog.records[-1].exc_info is not None


def test_data_that_cannot_be_ranked_is_no_refusal_of_a_method(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, labels = data
    bad = rows.copy()
    bad[3, 2] = np.nan
    with pytest.raises(ValueError, match="row 3 contains NaN"):
        kr.compare(None, bad, kr.Truth.from_labels(labels), methods="aqe")
    with pytest.raises(ValueError, match="60 queries but the truth has 59"):
        kr.compare(None, rows, kr.Truth.from_labels(labels[1:]), methods="aqe")
    with pytest.raises(ValueError, match="'nothing' is not known"):
        kr.compare(None, rows, kr.Truth.from_labels(labels), methods="nothing")
    with pytest.raises(ValueError, match="measures is empty"):
        kr.compare(None, rows, kr.Truth.from_labels(labels), methods="aqe", measures=[])


def test_all_are_all_but_the_twin_of_lpmt(
    data: tuple[Rows, NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, labels = data
    asked: list[str] = []

    real = trials_module.rerank

    def refuse(queries: Any, gallery: Any, method: Method, **more: Any) -> kr.Ranking:
        asked.append(method.name)
        if method.name != "none":
            raise MemoryLimitError("not now")
        return real(queries, gallery, method, **more)

    monkeypatch.setattr(trials_module, "rerank", refuse)
    monkeypatch.setattr(trials_module, "warm_up_method", lambda method, count: None)
    bars: list[tuple[str, int, int]] = []
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), progress=lambda *step: bars.append(step))
    learned = {"csa", "ssr", "lattqe", "lattdba+lattqe"}  # their weights have to be fitted first
    assert set(asked) == set(METHODS) - set(VARIANTS) - learned == {"none", *trials.refused}
    assert bars[-1] == ("methods", len(asked), len(asked))


def test_many_comparisons_come_with_a_warning(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, labels = data
    methods = [kr.methods.AQE(k=k) for k in range(2, 14)]
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods=methods, resamples=100)
    assert "by chance, one in twenty is below 0.05" in trials.verdict[-1]


def test_a_sentence_names_only_the_worst(data: tuple[Rows, NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = data
    monkeypatch.setattr("kinrank.evaluation.trials.MAX_LISTED_METHODS", 1)
    methods = [kr.methods.AQE(k=40), Backwards()]
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods=methods)
    assert "Re-ranking hurts mAP here with backwards (-" in trials.verdict[1]
    assert " and 1 more: " in trials.verdict[1]


def test_without_anything_right_there_are_no_numbers_and_no_error(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, _ = data
    trials = kr.compare(None, rows, kr.Truth.from_labels(np.arange(60)), methods="aqe")
    assert all(math.isnan(trial.scores["mAP"].mean) for trial in trials)
    json.dumps(trials.to_dict(), allow_nan=False)
    assert "No method is clearly better" in str(trials)
