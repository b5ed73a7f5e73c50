"""`tune`: the nested number against loops over folds, luck shown as luck, refusals, mistakes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.diagnosis import Tuned, cross_validation
from kinrank.diagnosis.vector_preparation import fit_preparation
from kinrank.errors import MemoryLimitError
from kinrank.evaluation.fold_choice import LPMT_GRID
from kinrank.testing.sample_data import toy
from kinrank.vector_input import to_unit_rows
from reference.diagnosis import nested

pytestmark = pytest.mark.slow

Rows = np.ndarray


def classes(noisy: float = 1.0, shift: float = 0.0) -> tuple[Rows, Rows]:
    rng, labels = np.random.default_rng(0), np.arange(72) % 8
    rows = rng.standard_normal((8, 12))[labels] + noisy * rng.standard_normal((72, 12)) + shift
    return np.asarray(rows, np.float32), labels


@pytest.fixture(scope="module")
def tuned() -> Tuned:
    rows, labels = classes()
    return kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe", "dfs"], folds=4, seed=3)


def first_order(found: Tuned, rows: Rows) -> list[Any]:
    """The candidates as they were tried: `candidates` has the best first."""
    ways = (cross_validation.AS_THEY_ARE, *cross_validation.WAYS)
    methods = cross_validation.resolve_methods(["aqe", "dfs"])
    tried = [
        (method, way) for way in ways for method in cross_validation._list_candidates(methods, found.diagnosis, way)
    ]
    return [next(one for one in found.candidates if (one.method, one.way) == pair) for pair in tried]


def test_the_nested_number_is_that_of_loops_over_folds(tuned: Tuned) -> None:
    tried = first_order(tuned, classes()[0])
    assert len(tried) == len(tuned.candidates)
    values = np.stack([one.scores["mAP"].per_query for one in tried])
    scored, winners = nested(values, 4, 3)
    assert tuned.nested.mean_b == pytest.approx(np.mean(scored))
    assert tuned.nested.mean_a == pytest.approx(values[0].mean())
    assert tuned.nested.better == sum(a < b for a, b in zip(values[0], scored, strict=True))
    assert tuned.folds == [tried[winner].label for winner in winners]
    assert tried[0].label == "NoReranking()"


def test_the_best_on_all_is_chosen(tuned: Tuned) -> None:
    means = [one.scores["mAP"].mean for one in tuned.candidates]
    assert means == sorted(means, reverse=True)
    best = tuned.candidates[0]
    assert (tuned.method, tuned.way) == (best.method, best.way)
    assert tuned.on_all.mean_b == pytest.approx(means[0])
    assert tuned.on_all.difference >= tuned.nested.difference


def test_every_candidate_is_scored_as_the_library_does(tuned: Tuned) -> None:
    rows, labels = classes()
    truth = kr.Truth.from_labels(labels)
    for one in tuned.candidates:
        made = (
            to_unit_rows(rows)
            if one.way == cross_validation.AS_THEY_ARE
            else fit_preparation(one.way, to_unit_rows(rows))(to_unit_rows(rows))
        )
        score = kr.evaluate(kr.rerank(None, made, one.method), truth, resamples=0)["mAP"]
        np.testing.assert_array_equal(score.per_query, one.scores["mAP"].per_query)


def test_what_is_tried() -> None:
    rows, labels = classes()
    found = kr.tune(None, rows, kr.Truth.from_labels(labels), prepare=False)
    labels_seen = [one.label for one in found.candidates]
    assert len(labels_seen) == len(set(labels_seen)) == 1 + len(LPMT_GRID)
    assert {"NoReranking()", "LPMT()", "LPMT(answers='one')", "LPMT(direct=0.9)"} <= set(labels_seen)
    found = kr.tune(None, rows, kr.Truth.from_labels(labels), methods=kr.methods.AQE(k=6).name, prepare=False)
    assert {one.label for one in found.candidates} == {"NoReranking()", "AQE()", "AQE(k=2)", "AQE(k=8)"}
    found = kr.tune(None, rows, kr.Truth.from_labels(labels), methods=[kr.methods.AQE(k=6)], prepare=False)
    assert {one.label for one in found.candidates} == {"NoReranking()", "AQE(k=6)", "AQE(k=3)", "AQE(k=12)"}
    found = kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe"])
    assert {one.label for one in found.candidates if one.way == "centred"} == {
        "NoReranking(), vectors centred",
        "AQE(), vectors centred",
    }


def test_labels_that_mean_nothing_gain_nothing() -> None:
    """Over many draws, the chosen candidate looks better on the queries it was chosen on, but is not."""
    rows, _ = classes()
    honest, flattering = [], []
    for seed in range(6):
        labels = np.random.default_rng(seed).integers(0, 8, len(rows))
        found = kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe", "dfs"], seed=seed)
        honest.append(found.nested.difference)
        flattering.append(found.on_all.difference)
        assert flattering[-1] >= honest[-1]
        assert flattering[-1] >= 0
    assert np.mean(flattering) > np.mean(honest) + 0.002
    assert abs(np.mean(honest)) < 0.01


def test_luck_is_told() -> None:
    rows, _ = classes()
    labels = np.random.default_rng(1).integers(0, 8, len(rows))
    output = str(kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe", "dfs"]))
    assert "That is not clearly better than no re-ranking: label more queries, or keep the search as it is." in output
    assert "which is optimistic" in output


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_prepared_vectors_give_the_ranking_that_was_scored(shift: float) -> None:
    rows, labels = classes(1.3, shift)
    queries, gallery = rows[:16], rows[16:]
    truth = kr.Truth.from_labels(labels[:16], labels[16:])
    found = kr.tune(queries, gallery, truth, methods=["dfs"])
    assert (found.way != cross_validation.AS_THEY_ARE) == (found.preparation is not None)
    assert shift == 0.0 or found.preparation is not None  # far from the origin, centring helps
    ranking = kr.rerank(found.prepared(queries), found.prepared(gallery), found.method)
    score = kr.evaluate(ranking, truth, resamples=0)["mAP"]
    np.testing.assert_array_equal(score.per_query, found.candidates[0].scores["mAP"].per_query)
    np.testing.assert_array_equal(found.prepared(gallery.astype(np.float64)), found.prepared(gallery))
    if found.preparation is not None:
        with pytest.raises(ValueError, match="but 12 dimensions are needed"):
            found.prepared(gallery[:, :5])


def test_rows_of_any_length_are_prepared_alike() -> None:
    rows, labels = classes(shift=2.0)
    longer = rows * np.random.default_rng(0).uniform(0.5, 9, (len(rows), 1)).astype(np.float32)
    first, second = (kr.tune(None, one, kr.Truth.from_labels(labels), methods=["aqe"]) for one in (rows, longer))
    assert first.candidates[0].label == second.candidates[0].label
    np.testing.assert_allclose(first.prepared(rows), second.prepared(longer), atol=1e-5)


def test_several_features() -> None:
    rows, labels = classes()
    gallery = kr.combine([rows[16:, :6], rows[16:, 6:]], check_rows=False)
    asked = [rows[:16, :6], rows[:16, 6:]]
    truth = kr.Truth.from_labels(labels[:16], labels[16:])
    found = kr.tune(asked, gallery, truth, methods=["aqe"])  # type: ignore[arg-type]
    ranking = kr.rerank(found.prepared(asked), found.prepared(gallery), found.method)  # type: ignore[arg-type]
    assert kr.evaluate(ranking, truth, resamples=0)["mAP"].mean == found.on_all.mean_b


def test_where_lengths_matter_vectors_stay_as_they_are() -> None:
    rows, labels = classes()
    found = kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe"], metric="euclidean")
    assert {one.way for one in found.candidates} == {cross_validation.AS_THEY_ARE}
    ranking = kr.rerank(None, rows, found.method, metric="euclidean")
    score = kr.evaluate(ranking, kr.Truth.from_labels(labels), resamples=0)["mAP"].mean
    assert score == pytest.approx(found.on_all.mean_b)


def test_queries_without_positives_do_not_count() -> None:
    rows, labels = classes()
    lists = [np.flatnonzero(labels == label) for label in labels[:30]]
    lists = [[item for item in row if item != query] for query, row in enumerate(lists)]
    some = [[] if query % 3 == 0 else row for query, row in enumerate(lists)]
    truth = kr.Truth.from_lists(some, [[query] for query in range(30)], gallery_size=72)
    found = kr.tune(rows[:30], rows, truth, methods=["aqe"])
    assert found.nested.queries == found.on_all.queries == 20
    values = np.stack([one.scores["mAP"].per_query for one in found.candidates])
    assert np.isnan(values[:, ::3]).all()
    assert "on 20 labelled queries" in str(found)


def test_a_method_that_refuses_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = cross_validation.rerank

    def refusing(queries: Any, gallery: Any, method: kr.Method, **more: Any) -> kr.Ranking:
        if method.name == "dfs":
            raise MemoryLimitError("DFS needs 9 GB, but 1 GB is free")
        return real(queries, gallery, method, **more)

    monkeypatch.setattr(cross_validation, "rerank", refusing)
    rows, labels = classes()
    found = kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe", "dfs"])
    assert "DFS()" in found.refused
    assert "DFS(), vectors centred" in found.refused
    assert not any(one.method.name == "dfs" for one in found.candidates)
    assert "DFS() refused: DFS needs 9 GB, but 1 GB is free" in str(found)
    assert found.to_dict()["refused"] == found.refused


def test_a_method_with_a_bug_is_listed_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = cross_validation.rerank

    def fail(queries: Any, gallery: Any, method: kr.Method, **more: Any) -> kr.Ranking:
        if method.name == "dfs":
            raise ValueError("operands could not be broadcast together")
        return real(queries, gallery, method, **more)

    monkeypatch.setattr(cross_validation, "rerank", fail)
    rows, labels = classes()
    found = kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe", "dfs"])
    assert found.refused == {}
    assert found.failed["DFS()"] == "ValueError: operands could not be broadcast together"
    assert "DFS() failed: ValueError" in str(found)
    assert found.to_dict()["failed"] == found.failed


def test_what_no_re_ranking_refuses_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: Any, **__: Any) -> kr.Ranking:
        raise MemoryLimitError("NoReranking needs 9 GB")

    monkeypatch.setattr(cross_validation, "rerank", refusing)
    rows, labels = classes()
    with pytest.raises(MemoryError, match="NoReranking needs 9 GB"):
        kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe"])


def test_the_same_bits_twice_and_another_seed_deals_otherwise(tuned: Tuned) -> None:
    rows, labels = classes()
    rows.setflags(write=False)
    again = kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe", "dfs"], folds=4, seed=3)
    assert again.to_dict() == tuned.to_dict()
    np.testing.assert_array_equal(rows, classes()[0])


def test_a_clear_winner_wins_everywhere() -> None:
    made = toy("turntable", 120)
    rows, labels = (
        np.concatenate(pair) for pair in ((made.queries, made.gallery), (made.query_labels, made.gallery_labels))
    )
    found = kr.tune(None, rows, kr.Truth.from_labels(labels), prepare=False)
    assert found.nested.low > 0
    assert found.method.name == "lpmt"
    assert "not clearly better" not in str(found)
    assert f"Chosen by mAP on {len(rows)} labelled queries: {found.candidates[0].label}." in str(found)


def test_in_words_and_as_json(tuned: Tuned) -> None:
    document = json.loads(json.dumps(tuned.to_dict(), allow_nan=False))
    assert document["method"] == tuned.method.name
    assert document["vectors"] == tuned.way
    assert document["measure"] == "mAP"
    assert document["nested"]["difference"] == tuned.nested.difference
    assert [one["candidate"] for one in document["tried"]] == [one.label for one in tuned.candidates]
    lines = str(tuned).splitlines()
    assert lines[1].startswith("On queries that had no part in the choice: mAP ")
    assert len(lines) >= len(tuned.candidates) + 4


def test_any_measure() -> None:
    rows, labels = classes()
    found = kr.tune(None, rows, kr.Truth.from_labels(labels), methods=["aqe"], measure="R@1")
    assert found.measure == found.nested.measure == "R@1"
    assert "Chosen by R@1" in str(found)


ROWS, LABELS = classes()
TRUTH = kr.Truth.from_labels(LABELS)


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        ((None, ROWS, TRUTH), {"folds": 1}, "folds=1 is not allowed; give a whole number from 2 to 50"),
        ((None, ROWS, TRUTH), {"folds": 51}, "folds=51 is not allowed"),
        ((None, ROWS, TRUTH), {"folds": 2.5}, "folds=2.5 is not allowed"),
        ((None, ROWS, TRUTH), {"folds": 40}, "relevant items for 72 queries, but 40 folds need at least 80"),
        ((None, ROWS, TRUTH), {"measure": "quality"}, "quality"),
        ((None, ROWS, TRUTH), {"methods": []}, "methods is empty"),
        ((None, ROWS, TRUTH), {"methods": ["magic"]}, "'magic' is not known"),
        ((None, ROWS, TRUTH), {"metric": "manhattan"}, "metric='manhattan' is not allowed"),
        ((None, ROWS[:10], TRUTH), {}, "has 10 rows, but a diagnosis needs at least 20"),
        ((None, ROWS[:60], TRUTH), {}, "60"),
        ((ROWS[:5], ROWS, kr.Truth.from_labels(LABELS[:5], LABELS)), {}, "relevant items for 5 queries"),
        ((ROWS[:, :5], ROWS, TRUTH), {}, "but 12 dimensions are needed"),
        ((None, np.full((30, 4), np.nan), TRUTH), {}, "gallery row 0 contains NaN"),
    ],
)  # fmt: skip
def test_mistakes(given: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kr.tune(*given, **{"methods": ["aqe"], **more})


def test_too_few_judged_queries_are_told_before_anything_else_is_tried() -> None:
    lists = [[1]] * 4 + [[]] * 68
    steps: list[int] = []
    with pytest.raises(ValueError, match="label more queries, or choose without labels"):
        kr.tune(
            None, ROWS, kr.Truth.from_lists(lists, gallery_size=72), progress=lambda _, done, __: steps.append(done)
        )
    assert max(steps, default=0) <= 1
