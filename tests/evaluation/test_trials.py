"""compare: order, gains, refusals, failures and verdict."""

from __future__ import annotations

import csv
import io
import json
import math
import warnings
from dataclasses import dataclass, replace
from html import escape
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
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress
from kinrank.report import comparison

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
class Copy(Backwards):
    """Method that ranks as no re-ranking does."""

    name: ClassVar[str] = "copy"
    number: int = parameter(0, "makes the copies differ", low=0)

    def distances(self, prepared: Items, queries: NDArray[np.int64]) -> NDArray[Any]:
        return prepared.query_distances(queries)


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
            assert replace(trial.gains[measure], p=0.0) == replace(gain, p=0.0)  # p is corrected
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
    assert "Holm's method corrects each column of p" in trials.notes[0]
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods=methods, resamples=100, correction="none")
    assert "by chance, one in twenty is below 0.05" in trials.notes[0]


def test_a_sentence_names_only_the_worst(data: tuple[Rows, NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = data
    monkeypatch.setattr("kinrank.evaluation.trials.MAX_LISTED_METHODS", 1)
    methods = [kr.methods.AQE(k=40), Backwards()]
    trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods=methods)
    assert trials.verdict[1] == "Best in mAP: no re-ranking, significantly better than all others."
    assert "Re-ranking hurts mAP here with backwards (-" in trials.verdict[2]
    assert " and 1 more: " in trials.verdict[2]


@pytest.fixture
def tests_of(data: tuple[Rows, NDArray[np.int64]]) -> kr.evaluation.Trials:
    rows, labels = data
    methods = [kr.methods.AQE(k=2), kr.methods.AQE(k=3), Backwards(), Broken()]
    return kr.compare(None, rows, kr.Truth.from_labels(labels), methods=methods, measures=["mAP", "R@1"])


def test_every_method_is_tested_against_the_best(tests_of: kr.evaluation.Trials) -> None:
    for measure in tests_of.measures:
        best = tests_of.best(measure)
        assert best.scores[measure].mean == max(trial.scores[measure].mean for trial in tests_of)
        for trial in tests_of:
            p, same = trial.p_to_best[measure], kr.evaluation.compare_scores(best.scores, trial.scores, measure)
            assert p >= same.p * 0.9  # Holm's correction never makes it smaller
            assert (trial.method in tests_of.ties(measure)) == (trial is not best and p >= 0.05)
        assert "backwards" in best.beats[measure]
        (worst,) = (trial for trial in tests_of if trial.method == "backwards")
        assert worst.beats[measure] == []
    sentence = next(sentence for sentence in tests_of.verdict if sentence.startswith("Best in mAP: "))
    assert all(name in sentence for name in tests_of.ties("mAP") if name != "none")


def test_all_outputs_say_the_same(tests_of: kr.evaluation.Trials) -> None:
    document = json.loads(json.dumps(tests_of.to_dict(), allow_nan=False))
    lines = list(csv.DictReader(io.StringIO(comparison.comparison_csv(tests_of))))
    page, markdown = comparison.comparison_page(tests_of), comparison.comparison_markdown(tests_of)
    heading, *rows = tests_of.table()
    column = heading.index("p to best")
    assert document["best"]["mAP"] == tests_of[0].method
    assert document["ties"] == {measure: tests_of.ties(measure) for measure in tests_of.measures}
    for entry, row in zip(document["methods"], rows, strict=True):
        line = next(one for one in lines if (one["method"], one["measure"]) == (entry["method"], "mAP"))
        p = entry["p_to_best"]["mAP"]
        assert float(line["p_to_best"]) == pytest.approx(p, rel=1e-5)
        assert float(line["p"]) == pytest.approx(entry["gains"]["mAP"]["p"], rel=1e-5)
        assert (line["beats"], line["correction"]) == (";".join(entry["beats"]["mAP"]), "holm")
        tie = ", tie" if entry["method"] in document["ties"]["mAP"] else ""
        assert row[column] == ("best" if entry["method"] == document["best"]["mAP"] else f"{p:.4f}{tie}")
        assert f"<td>{row[column]}</td>" in page
        assert f"| {row[column]} |" in markdown
    for sentence in (*tests_of.verdict, *tests_of.notes):
        assert f"* {sentence}" in markdown
        assert sentence in str(tests_of)
        assert escape(sentence) in page


def test_superscripts_are_the_letters_of_the_methods_that_it_beats(tests_of: kr.evaluation.Trials) -> None:
    text = comparison.comparison_latex(tests_of)
    letters = {trial.method: letter for trial, letter in zip(tests_of, "abcd", strict=True)}
    for trial in tests_of:
        row = next(line for line in text.splitlines() if line.startswith(f"{letters[trial.method]} & "))
        for cell, measure in zip(row.split(" & ")[2:], tests_of.measures, strict=False):
            beaten = "".join(letters[name] for name in letters if name in trial.beats[measure])
            assert cell.endswith(rf"$^{{\mathrm{{{beaten}}}}}$") == bool(beaten)
            assert (r"\textbf" in cell) == (trial is tests_of.best(measure))
    assert "Superscripts: the methods that a method is significantly better than" in text
    assert "broken failed: ValueError" in text


def test_one_method_and_equal_methods(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, labels = data
    truth = kr.Truth.from_labels(labels)
    alone = kr.compare(None, rows, truth, methods="none")
    assert (alone.verdict, alone.notes, alone.ties("mAP"), alone.to_dict()["best"]["mAP"]) == ([], [], [], "none")
    assert comparison.comparison_latex(alone).count("\\textbf") == 2
    two = kr.compare(None, rows, truth, methods="aqe")
    assert not any(sentence.startswith("Best in") for sentence in two.verdict)
    (method,) = (trial for trial in two if trial.method == "aqe")
    assert two[1].p_to_best["mAP"] == method.gains["mAP"].p  # the same two methods
    equal = kr.compare(None, rows, truth, methods=[Copy(number=number) for number in range(3)])
    assert len(equal.ties("mAP")) == 3
    assert all(trial.p_to_best["mAP"] == 1.0 and trial.beats["mAP"] == [] for trial in equal)
    assert "Not significantly different from it: " in equal.verdict[1]
    untested = kr.compare(None, rows, truth, methods=["aqe", "dfs"], resamples=0)
    assert math.isnan(untested[0].gains["mAP"].p)
    assert (untested.verdict, untested.notes) == ([], [])
    json.dumps(untested.to_dict(), allow_nan=False)


def test_queries_without_positives_take_no_part_in_tests(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, labels = data
    odd = labels.copy()
    odd[:5] = np.arange(100, 105)  # the only item of their label
    trials = kr.compare(None, rows, kr.Truth.from_labels(odd), methods=["aqe", "dfs"])
    assert np.isnan(trials[0].scores["mAP"].per_query).sum() == 5
    assert {trial.gains["mAP"].queries for trial in trials} == {55}
    assert all(trial.p_to_best["mAP"] <= 1 for trial in trials)


def test_tuned_parameters_are_chosen_without_the_query_they_are_scored_on(
    data: tuple[Rows, NDArray[np.int64]],
) -> None:
    rows, labels = data
    truth = kr.Truth.from_labels(labels)
    told: list[tuple[str, int, int]] = []
    trials = kr.compare(
        None, rows, truth, methods=["aqe", Broken()], tune=True, progress=lambda *step: told.append(step)
    )
    tuned = next(trial for trial in trials if trial.method == "aqe")
    found = kr.tune(None, rows, truth, methods=["aqe"], prepare=False)
    candidates = [entry for entry in found.candidates if entry.method.name == "aqe"]
    values = {repr(entry.method): entry.scores["mAP"].per_query for entry in candidates}
    fold = np.random.default_rng(0).permutation(60) % 5
    for number, chosen in enumerate(tuned.tuned):
        assert values[chosen][fold != number].mean() == max(rest[fold != number].mean() for rest in values.values())
        np.testing.assert_array_equal(tuned.scores["mAP"].per_query[fold == number], values[chosen][fold == number])
    assert tuned.tried == len(values) == 3
    assert tuned.parameters == full_repr(candidates[0].method)
    assert list(trials.failed) == ["broken"]
    assert "each query is scored with parameters that were chosen without it" in str(trials)
    assert "aqe: " in str(trials)
    assert told == [("methods", done, 3) for done in (1, 2, 3)]
    with pytest.raises(InputError, match="relevant items for 4 queries, but 5 folds need at least 10"):
        kr.compare(rows[:4], rows, kr.Truth.from_labels(labels[:4], labels), methods="aqe", tune=True)


def test_short_rankings_are_told_once(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, labels = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trials = kr.compare(None, rows, kr.Truth.from_labels(labels), methods="aqe", k=5)
    assert str(trials).count("mAP is incomplete and may be too low") == 1
    assert trials.to_dict()["truncated"]["depth"] == 5
    assert kr.compare(None, rows, kr.Truth.from_labels(labels), methods="aqe").to_dict()["truncated"] is None


def test_without_anything_right_there_are_no_numbers_and_no_error(data: tuple[Rows, NDArray[np.int64]]) -> None:
    rows, _ = data
    trials = kr.compare(None, rows, kr.Truth.from_labels(np.arange(60)), methods="aqe")
    assert all(math.isnan(trial.scores["mAP"].mean) for trial in trials)
    json.dumps(trials.to_dict(), allow_nan=False)
    assert "No method is clearly better" in str(trials)
