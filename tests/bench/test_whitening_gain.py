"""`kinrank bench whitening`: numbers equal to the library's, and the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank_bench.class_halves import class_pairs, split_classes
from kinrank_bench.datasets.benchmark import load
from kinrank_bench.whitening_gain import SPLIT_COUNT, _format_change, whitening, whitening_table
from reference.commands import bad, good

pytestmark = [
    pytest.mark.filterwarnings("ignore::kinrank.errors.BenchmarkMismatchWarning"),
    pytest.mark.slow,
]  # the sets are synthetic


@pytest.fixture(scope="module")
def record(two_sets: Path) -> dict[str, Any]:
    return whitening(two_sets, ["orl", "lfw"], [0.25, 0.5])


def test_numbers_equal_those_of_the_library(two_sets: Path, record: dict[str, Any]) -> None:
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


def test_changes_are_relative_to_the_original_vectors(record: dict[str, Any]) -> None:
    assert len(record["results"]) == 2 * 2 * 3
    plain = {(row["set"], row["method"]): row["mean"] for row in record["results"] if row["power"] is None}
    for row in record["results"]:
        assert row["change"] == pytest.approx(row["mean"] - plain[row["set"], row["method"]])
        assert row["low"] <= row["change"] + 1e-12
        assert row["high"] >= row["change"] - 1e-12


def test_each_half_is_whitened_with_the_other(two_sets: Path) -> None:
    found = whitening(two_sets, ["orl"], [0.25], "others")
    assert [(row["kind"], row["power"]) for row in found["results"]][:3] == [
        ("as it is", None), ("pca", 0.25), ("learned", 0.25),
    ]  # fmt: skip
    bench = load("orl", two_sets)
    for way, row in zip((None, "pca", "learned"), found["results"], strict=False):
        scores = np.empty((SPLIT_COUNT, 48))
        for deal in range(SPLIT_COUNT):
            first, second = split_classes(bench, deal)
            assert sorted([*first.asks, *second.asks]) == list(range(48))
            for one, other in ((first, second), (second, first)):
                learned = kr.whitening.Whitening.fit(
                    other.vectors, power=0.25, pairs=other.pairs if way == "learned" else None
                )
                rows = one.bench.gallery if way is None else learned.apply(one.bench.gallery)
                ranked = kr.evaluate(kr.rerank(None, rows, "none"), one.bench.truths["class"])
                scores[deal, one.asks] = ranked["mAP"].per_query
        assert row["mean"] == pytest.approx(scores.mean(), abs=1e-9)
        if way is None:
            plain = scores
        np.testing.assert_allclose(row["by_deal"], (scores - plain).mean(axis=1), atol=1e-9)


def test_an_asterisk_needs_every_split(record: dict[str, Any]) -> None:
    row = {**record["results"][1], "change": 0.02, "low": 0.01, "high": 0.03}
    assert _format_change(row | {"by_deal": [0.03, 0.01]}) == "+2.0*"
    assert _format_change(row | {"by_deal": [0.05, -0.01]}) == "+2.0"
    assert _format_change(row | {"by_deal": [0.03, 0.01], "low": -0.01}) == "+2.0"


def test_halves_share_no_class(two_sets: Path) -> None:
    with np.load(two_sets / "lfw_dlib.npz") as arrays:
        rows, label, asked = arrays["x"], arrays["label"], arrays["is_query"]
    kinds = []
    for half in split_classes(load("lfw", two_sets)):
        labels = [label[~asked][np.flatnonzero((rows[~asked] == row).all(axis=1))[0]] for row in half.vectors]
        assert (np.array(labels)[half.pairs[:, 0]] == np.array(labels)[half.pairs[:, 1]]).all()
        assert (half.pairs[:, 0] != half.pairs[:, 1]).all()
        assert len(np.unique(np.sort(half.pairs, axis=1), axis=0)) == len(half.pairs)
        truth = half.bench.truths["class"]
        assert len(truth) == len(half.bench.queries) == 8
        for query, row in enumerate(half.bench.queries):
            own = label[asked][np.flatnonzero((rows[asked] == row).all(axis=1))[0]]
            right = np.flatnonzero(np.array(labels) == own)
            np.testing.assert_array_equal(truth.positives[query], right)  # every item has a class here
        kinds.append(set(labels))
    assert not kinds[0] & kinds[1]
    assert kinds[0] | kinds[1] == set(range(8))


def test_pairs_of_small_classes() -> None:
    assert class_pairs(np.array([0, 1, 0, 2, 2, 2])).tolist() == [[0, 2], [3, 4], [4, 5], [5, 3]]
    assert class_pairs(np.arange(3)).shape == (0, 2)


def test_table(record: dict[str, Any]) -> None:
    table = whitening_table(record, {"orl": "ORL"})
    assert table.head == ["set", "method", "as it is", "pca 0.25", "pca 0.5"]
    assert [row[:2] for row in table.rows] == [("ORL", "none"), ("ORL", "lpmt"), ("lfw", "none"), ("lfw", "lpmt")]
    first = record["results"][1]
    marked = "" if first["low"] <= 0 <= first["high"] else "*"
    assert table.rows[0][3] == f"{100 * first['change']:+.1f}{marked}"


def test_command(two_sets: Path) -> None:
    words = ("bench", "whitening", "--data", "@", "--sets", "orl", "--powers", "0.25", "--no-cache", "--quiet")
    said = good(two_sets, *words, "--on", "others", "-o", "@r.jsonl")
    assert "mAP in percent, joint, and its change by whitening learned on other classes" in said
    assert json.loads((two_sets / "r.jsonl").read_text())["bench"] == "whitening"
    for wrong, why in (
        (("--powers", "half"), "--powers 'half' is not allowed; give numbers"),
        (("--powers", "0.7"), "is not allowed; give a number from 0 (none)"),
        (("--sets", "elsewhere"), "set 'elsewhere' is not known"),
        (("--sets", ","), "no set is named; give some of"),
        (("--on", "nothing"), "--on 'nothing' is not allowed; give one of: gallery, others"),
        (("--sets", "mpeg7"), "mpeg7_masks.npz does not exist"),
    ):
        assert why in bad(two_sets, *words, *wrong)
