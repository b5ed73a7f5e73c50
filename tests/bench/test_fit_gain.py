"""`kinrank bench learned`: training data, evaluation data and the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank import weight_files
from kinrank_bench import measurement
from kinrank_bench.class_halves import split_classes
from kinrank_bench.datasets.benchmark import load
from kinrank_bench.fit_gain import UNTRAINED_METHODS, learned_methods, learned_table
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.random_weights import add_random_weights
from reference.commands import bad

pytestmark = [
    pytest.mark.filterwarnings("ignore::kinrank.errors.BenchmarkMismatchWarning"),
    pytest.mark.slow,
]  # the sets are synthetic


@pytest.fixture(scope="module")
def record(two_sets: Path) -> dict[str, Any]:
    pytest.importorskip("torch", reason="torch is not installed: make test-learned installs it")
    return learned_methods(two_sets, ["lfw", "orl"], ["ssr", "lattqe"], [0, 1], lists=32)


def test_training_and_evaluation_sets(record: dict[str, Any]) -> None:
    found = [(row["set"], row["way"], row["method"], row["fitted_on"]) for row in record["results"]]
    assert len(found) == len(set(found))
    for name, other in (("lfw", "orl"), ("orl", "lfw")):
        for method in ("none", *UNTRAINED_METHODS):
            assert (name, "pseudo", method, None) in found
            assert (name, "labels", method, None) in found
        for method in ("ssr", "lattqe"):
            assert (name, "pseudo", method, name) in found
            assert (name, "labels", method, name) in found
        assert (name, "carried", "ssr", other) in found
        assert (name, "carried", "lattqe", other) not in found
    assert record["seeds"] == [0, 1]


def test_numbers_equal_those_of_the_library(record: dict[str, Any], two_sets: Path, tmp_path: Path) -> None:
    row = next(row for row in record["results"] if (row["set"], row["way"], row["method"]) == ("lfw", "labels", "ssr"))
    first, second = split_classes(load("lfw", two_sets))
    assert not set(first.labels) & set(second.labels)
    scores = []
    for seed in (0, 1):
        method = kr.fit("ssr", first.vectors, first.labels, path=tmp_path / "w.npz", seed=seed, lists=32)
        ranking = kr.rerank(second.bench.queries, second.bench.gallery, method)
        scores.append(kr.evaluate(ranking, second.bench.truths["class"])["mAP"])
    assert row["by_seed"] == pytest.approx([score.mean for score in scores])
    assert row["mean"] == pytest.approx(np.mean(row["by_seed"]))
    plain = kr.evaluate(kr.rerank(second.bench.queries, second.bench.gallery, "none"), second.bench.truths["class"])
    assert row["plain"] == pytest.approx(plain["mAP"].mean)
    assert row["gain"] == pytest.approx(row["mean"] - row["plain"])
    assert row["gain_low"] <= row["gain"] <= row["gain_high"]
    spread = 12.706 * np.std(row["by_seed"], ddof=1) / np.sqrt(2)
    assert row["high"] - row["mean"] == pytest.approx(spread, rel=1e-4)
    assert row["fit_seconds"] > 0


def test_the_table_says_everything_once(record: dict[str, Any]) -> None:
    rows = learned_table(record, {"orl": "ORL"}).rows
    assert len(rows) == len(record["results"])
    labels = {row[0] for row in rows}
    assert labels == {"lfw", "lfw, half of its classes", "ORL", "ORL, half of its classes"}
    assert any(row[2] == "labels of half of the classes of ORL" and row[0] == "lfw" for row in rows)
    json.dumps(record, allow_nan=False)


def test_wrong_input(two_sets: Path, tmp_path: Path) -> None:
    assert "set 'oxford' is not known" in bad(tmp_path, "bench", "learned", "--data", str(two_sets), "--sets", "oxford")
    assert "method 'lpmt' is not known; give some of: csa, ssr, lattqe" in bad(
        tmp_path, "bench", "learned", "--data", str(two_sets), "--sets", "orl", "--methods", "lpmt"
    )
    assert "--seeds 'x' is not allowed" in bad(tmp_path, "bench", "learned", "--data", str(two_sets), "--seeds", "x")


def test_an_interrupted_fit_is_not_measured(two_sets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(method: Any, features: Any, labels: Any, path: Path) -> Any:
        made = add_random_weights(method, path, features.shape[1])
        network = made.network()  # type: ignore[attr-defined]
        weight_files.save(path, network.arrays, dict(network.sizes), {"method": "csa", "stopped_early": True})
        return made

    monkeypatch.setattr(measurement, "fit", stopped)
    monkeypatch.setattr(measurement, "_fit_cache", {})
    with pytest.raises(KeyboardInterrupt):
        measurement.measure_cell(load("lfw", two_sets), "csa", "joint", Cache(None))


def test_a_cell_of_a_learned_method_is_fitted_on_pseudo_labels_once(
    two_sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def fit(method: Any, features: Any, labels: Any, path: Path) -> Any:
        asked.append((method.name, labels, len(features)))
        return add_random_weights(method, path, features.shape[1])

    monkeypatch.setattr(measurement, "fit", fit)
    monkeypatch.setattr(measurement, "_fit_cache", {})
    bench = load("lfw", two_sets)
    found = [
        measurement.measure_cell(bench, name, "joint", Cache(None)) for name in ("csa", "lattqe", "lattdba+lattqe")
    ]
    assert asked == [("csa", "pseudo", 80), ("lattqe", "pseudo", 80)]
    for one in found:
        assert one["fitted"] == "pseudo-labels of the gallery, seed 0"
        assert one["fit_seconds"] > 0
        assert "weights=None" in one["parameters"]
    assert measurement.measure_cell(bench, "csa", "online", Cache(None))["unserved"]
    assert "truths" in measurement.measure_cell(bench, "lattqe", "online", Cache(None))
    assert len(asked) == 2
