"""`kinrank bench whitening`: the same numbers as the library's, whitened by the gallery; its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.bench.whitening import rows_of, whitening
from reference.commands import bad, good

pytestmark = pytest.mark.filterwarnings("ignore::kinrank.datasets.published.NotAsPublished")  # the sets are made up


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small sets: every item asks (ORL), queries apart (LFW)."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    label = np.arange(96) % 8
    rows = (rng.normal(size=(8, 16))[label] + rng.normal(size=(96, 16)) + 0.5).astype(np.float32)
    np.savez(folder / "orl_pixels.npz", x=rows[:48], label=label[:48])
    np.savez(folder / "lfw_dlib.npz", x=rows, label=label, is_query=np.arange(96) < 16)
    return folder


@pytest.fixture(scope="module")
def record(data: Path) -> dict[str, Any]:
    return whitening(data, ["orl", "lfw"], [0.25, 0.5])


def test_numbers_are_those_of_the_library(data: Path, record: dict[str, Any]) -> None:
    with np.load(data / "lfw_dlib.npz") as arrays:
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


def test_fewer_directions(data: Path) -> None:
    found = whitening(data, ["orl"], [0.5], dimensions=4)
    assert {row["dimensions"] for row in found["results"]} == {16, 4}
    assert found["dimensions"] == 4


def test_table(record: dict[str, Any]) -> None:
    rows = rows_of(record, {"orl": "ORL"})
    assert rows[0] == (
        "set", "none, as it is", "none, power 0.25", "none, power 0.5",
        "lpmt, as it is", "lpmt, power 0.25", "lpmt, power 0.5",
    )  # fmt: skip
    assert [row[0] for row in rows[1:]] == ["ORL", "lfw"]
    first = record["results"][1]
    marked = "" if first["low"] <= 0 <= first["high"] else "*"
    assert rows[1][2] == f"{100 * first['change']:+.1f}{marked}"


def test_command(data: Path) -> None:
    words = ("bench", "whitening", "--data", "@", "--sets", "orl", "--powers", "0.25", "--no-cache", "--quiet")
    said = good(data, *words, "--dimensions", "8", "-o", "@r.jsonl")
    assert "mAP in percent, joint, and what whitening by the gallery (at most 8 directions) changes" in said
    assert json.loads((data / "r.jsonl").read_text())["bench"] == "whitening"
    for wrong, why in (
        (("--powers", "half"), "--powers 'half' is not allowed; give numbers"),
        (("--powers", "0.7"), "is not allowed; give a number from 0 (none)"),
        (("--sets", "elsewhere"), "benchmark 'elsewhere' is not known"),
        (("--sets", ","), "none is named; give some of"),
        (("--sets", "mpeg7"), "mpeg7_masks.npz is not there"),
    ):
        assert why in bad(data, *words, *wrong)
