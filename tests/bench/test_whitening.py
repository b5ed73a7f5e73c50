"""`kinrank bench whitening`: the same numbers as the library's, whitened by the gallery; its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.bench.halves import halves, pairs_of
from kinrank.bench.whitening import DEALS, _cell, rows_of, whitening
from kinrank.datasets.benchmark import load
from reference.commands import bad, good

pytestmark = pytest.mark.filterwarnings("ignore::kinrank.datasets.published.NotAsPublished")  # the sets are made up


@pytest.fixture(scope="module")
def record(two_sets: Path) -> dict[str, Any]:
    return whitening(two_sets, ["orl", "lfw"], [0.25, 0.5])


def test_numbers_are_those_of_the_library(two_sets: Path, record: dict[str, Any]) -> None:
    with np.load(two_sets / "lfw_dlib.npz") as arrays:
        asked, rows, label = arrays["is_query"], arrays["x"], arrays["label"]
    truth = kr.Truth.from_labels(label[asked], label[~asked])
    for row in (row for row in record["results"] if row["set"] == "lfw"):
        queries, gallery = rows[asked], rows[~asked]
        if row["power"] is not None:
            queries, gallery = (kr.whiten(part, on=rows[~asked], power=row["power"]) for part in (queries, gallery))
        score = kr.evaluate(kr.rerank(queries, gallery, row["method"]), truth)["mAP"]
        assert row["mean"] == pytest.approx(score.mean, abs=1e-9)
        assert row["queries"] == 16


def test_changes_are_against_vectors_as_they_are(record: dict[str, Any]) -> None:
    assert len(record["results"]) == 2 * 2 * 3
    plain = {(row["set"], row["method"]): row["mean"] for row in record["results"] if row["power"] is None}
    for row in record["results"]:
        assert row["change"] == pytest.approx(row["mean"] - plain[row["set"], row["method"]])
        assert row["low"] <= row["change"] + 1e-12
        assert row["high"] >= row["change"] - 1e-12


def test_each_half_is_whitened_by_the_other(two_sets: Path) -> None:
    found = whitening(two_sets, ["orl"], [0.25], "others")
    assert [(row["kind"], row["power"]) for row in found["results"]][:3] == [
        ("as it is", None), ("pca", 0.25), ("learned", 0.25),
    ]  # fmt: skip
    bench = load("orl", two_sets)
    for way, row in zip((None, "pca", "learned"), found["results"], strict=False):
        scores = np.empty((DEALS, 48))
        for deal in range(DEALS):
            first, second = halves(bench, deal)
            assert sorted([*first.asks, *second.asks]) == list(range(48))
            for one, other in ((first, second), (second, first)):
                learned = kr.Whitening.fit(other.vectors, power=0.25, pairs=other.pairs if way == "learned" else None)
                rows = one.bench.gallery if way is None else learned.apply(one.bench.gallery)
                ranked = kr.evaluate(kr.rerank(None, rows, "none"), one.bench.truths["class"])
                scores[deal, one.asks] = ranked["mAP"].per_query
        assert row["mean"] == pytest.approx(scores.mean(), abs=1e-9)
        if way is None:
            plain = scores
        np.testing.assert_allclose(row["by_deal"], (scores - plain).mean(axis=1), atol=1e-9)


def test_a_star_needs_every_deal(record: dict[str, Any]) -> None:
    row = {**record["results"][1], "change": 0.02, "low": 0.01, "high": 0.03}
    assert _cell(row | {"by_deal": [0.03, 0.01]}) == "+2.0*"
    assert _cell(row | {"by_deal": [0.05, -0.01]}) == "+2.0"
    assert _cell(row | {"by_deal": [0.03, 0.01], "low": -0.01}) == "+2.0"


def test_halves_share_no_class(two_sets: Path) -> None:
    with np.load(two_sets / "lfw_dlib.npz") as arrays:
        rows, label, asked = arrays["x"], arrays["label"], arrays["is_query"]
    kinds = []
    for half in halves(load("lfw", two_sets)):
        labels = [label[~asked][np.flatnonzero((rows[~asked] == row).all(axis=1))[0]] for row in half.vectors]
        assert (np.array(labels)[half.pairs[:, 0]] == np.array(labels)[half.pairs[:, 1]]).all()
        assert (half.pairs[:, 0] != half.pairs[:, 1]).all()
        assert len(np.unique(np.sort(half.pairs, axis=1), axis=0)) == len(half.pairs)
        truth = half.bench.truths["class"]
        assert len(truth) == len(half.bench.queries) == 8
        for query, row in enumerate(half.bench.queries):
            own = label[asked][np.flatnonzero((rows[asked] == row).all(axis=1))[0]]
            right = np.flatnonzero(np.array(labels) == own)
            np.testing.assert_array_equal(truth.positives[query], right)  # no item is of no class here
        kinds.append(set(labels))
    assert not kinds[0] & kinds[1]
    assert kinds[0] | kinds[1] == set(range(8))


def test_pairs_of_small_classes() -> None:
    assert pairs_of(np.array([0, 1, 0, 2, 2, 2])).tolist() == [[0, 2], [3, 4], [4, 5], [5, 3]]
    assert pairs_of(np.arange(3)).shape == (0, 2)


def test_table(record: dict[str, Any]) -> None:
    rows = rows_of(record, {"orl": "ORL"})
    assert rows[0] == ("set", "method", "as it is", "pca 0.25", "pca 0.5")
    assert [row[:2] for row in rows[1:]] == [("ORL", "none"), ("ORL", "lpmt"), ("lfw", "none"), ("lfw", "lpmt")]
    first = record["results"][1]
    marked = "" if first["low"] <= 0 <= first["high"] else "*"
    assert rows[1][3] == f"{100 * first['change']:+.1f}{marked}"


def test_command(two_sets: Path) -> None:
    words = ("bench", "whitening", "--data", "@", "--sets", "orl", "--powers", "0.25", "--no-cache", "--quiet")
    said = good(two_sets, *words, "--on", "others", "-o", "@r.jsonl")
    assert "mAP in percent, joint, and what whitening learned on other classes changes" in said
    assert json.loads((two_sets / "r.jsonl").read_text())["bench"] == "whitening"
    for wrong, why in (
        (("--powers", "half"), "--powers 'half' is not allowed; give numbers"),
        (("--powers", "0.7"), "is not allowed; give a number from 0 (none)"),
        (("--sets", "elsewhere"), "benchmark 'elsewhere' is not known"),
        (("--sets", ","), "none is named; give some of"),
        (("--on", "nothing"), "--on 'nothing' is not allowed; give one of: gallery, others"),
        (("--sets", "mpeg7"), "mpeg7_masks.npz is not there"),
    ):
        assert why in bad(two_sets, *words, *wrong)
