"""Benches on tiny sets: measured numbers, and records that do not identify a machine."""

from __future__ import annotations

import json
import platform
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import kinrank
from kinrank.cli.app import app
from kinrank_bench.feedback_gain import _ignore_items, _pick_marks
from kinrank_bench.fresh_process import peak_bytes, run_fresh, use_twice
from kinrank_bench.registry import format_record
from kinrank_bench.scale import count_array_bytes, measure_size_growth, scale
from kinrank_bench.synthetic import curves
from kinrank_bench.time_and_memory import TimedItems, fit_exponent, measure_growth, speed

pytestmark = pytest.mark.slow


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["bench", *map(str, words), "--quiet"], prog_name="kinrank")
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert result.stderr == ""
    return str(result.stdout)


def mistake(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["bench", *map(str, words)], prog_name="kinrank")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("kinrank: error: ")
    assert result.stderr.count("\n") == 1
    return str(result.stderr)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty cache folder instead of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with one set, in the format of ORL: closed curves, labelled by curve."""
    angles = np.linspace(0, 2 * np.pi, 30, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = np.zeros((60, 6), np.float32)
    rows[:30, :2], rows[30:, 2:4] = circle, circle
    rows[:, 4], rows[:30, 5] = 1.0, 1.5
    np.savez(tmp_path / "orl_pixels.npz", x=rows, label=np.repeat([0, 1], 30))
    return tmp_path


def test_accuracy_agrees_with_the_library(data: Path) -> None:
    few = ("--methods", "aqe,k-reciprocal", "--modes", "joint")
    words = ("accuracy", "--data", data, *few, "--json", "-o", data / "r.jsonl")
    record = json.loads(run(*words))
    assert [row["method"] for row in record["results"]] == ["none", "aqe", "k-reciprocal"]
    with np.load(data / "orl_pixels.npz") as arrays:
        ranking = kinrank.rerank(None, arrays["x"], "aqe")
        score = kinrank.evaluate(ranking, kinrank.Truth.from_labels(arrays["label"]))["mAP"]
    found = record["results"][1]
    assert (found["mean"], found["low"], found["high"]) == (score.mean, score.low, score.high)
    assert (found["set"], found["mode"], found["items"], found["measure"]) == ("orl", "joint", 60, "mAP")
    assert found["seconds"] > 0
    run(*words)
    lines = [json.loads(line) for line in (data / "r.jsonl").read_text().splitlines()]
    assert lines[0] == record
    assert len(lines) == 2
    text = (data / "r.jsonl").read_text()
    assert str(data) not in text
    assert not platform.node() or platform.node() not in text


def test_accuracy_table_marks_the_best(data: Path) -> None:
    said = run("accuracy", "--data", data, "--methods", "aqe")
    for mode in ("joint", "candidates", "online"):
        assert re.search(rf"^orl, class: \d+ queries, \d+ items; {mode} \(", said, flags=re.MULTILINE)
    assert "*: the best mean" in said


def test_worse_is_measured(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinrank_bench import accuracy, measurement

    real = measurement.rerank

    def backwards(queries: Any, gallery: Any, method: kinrank.Method, **limits: Any) -> kinrank.Ranking:
        found = real(queries, gallery, method, **limits)
        order = found.indices[:, ::-1] if method.name == "aqe" else found.indices
        return kinrank.Ranking(order, found.distances, found.meta)

    monkeypatch.setattr(measurement, "rerank", backwards)
    rows = accuracy.accuracy(data, ["aqe"], modes=["joint"])["results"]
    assert [row["worse"] for row in rows] == [False, True]
    assert rows[1]["gain_high"] < 0


def test_speed_growth_and_import(tmp_path: Path) -> None:
    words = ["speed", "--parts", "growth,import", "--methods", "aqe", "--sizes", "300,600"]
    record = json.loads(run(*words, "--json"))
    assert record["import_seconds"] > 0
    (row,) = record["results"]
    assert [point["items"] for point in row["growth"]["points"]] == [300, 600]
    assert all(point["after_seconds"] > 0 for point in row["growth"]["points"])
    assert "aqe: random curves" in format_record(record)


def test_speed_against_an_exact_search(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    from kinrank_bench import time_and_memory as module
    from kinrank_bench.datasets.benchmark import Benchmark

    rows = curves(400, 16)
    monkeypatch.setattr(module, "load", lambda name, folder: Benchmark(name, rows[:10], rows[10:], {}, ()))
    record = speed("anywhere", ["aqe"], repetitions=2, parts=["search"])
    (row,) = record["results"]
    search = record["search"]
    assert row["multiple"] == pytest.approx(row["seconds"] / search["seconds"])
    assert row["base_multiple"] == pytest.approx(row["seconds"] / search["base_seconds"])
    assert row["product_multiple"] == pytest.approx(row["seconds"] / search["product_seconds"])
    assert search["items"] == 400
    assert search["seconds"] <= search["other_seconds"]
    assert sorted([search["library"].split()[0], search["other_library"].split()[0]]) == ["faiss", "kinrank"]
    assert "anywhere" not in json.dumps(record)
    said = format_record(record)
    assert "60 nearest of 400 items x 16" in said
    assert "lower limit: float32 matrix product of all pairs" in said
    monkeypatch.setitem(sys.modules, "faiss", None)
    record = speed("anywhere", ["aqe"], repetitions=1, parts=["search"])
    assert record["search"]["library"] == "kinrank"
    assert "slower:" not in format_record(record)


def test_the_exponent_of_a_power_is_its_power() -> None:
    points = [{"items": n, "after_seconds": 3e-6 * n**1.5} for n in (5000, 10000, 40000)]
    assert fit_exponent(points) == pytest.approx(1.5)
    assert fit_exponent(points[:1]) is None


def test_growth_excludes_the_search() -> None:
    items = TimedItems.joint(curves(300)[:5], curves(300)[5:])
    assert isinstance(items, TimedItems)
    items.neighbors(5)
    searched = items.seconds
    assert searched > 0
    again = []
    for _ in range(20):  # cached: no new search, which at least one of them shows however busy the machine is
        before = items.seconds
        items.neighbors(5)
        again.append(items.seconds - before)
    assert min(again) < searched
    assert measure_growth("aqe", [300])["exponent"] is None


def test_memory_in_fresh_processes() -> None:
    words = [
        "memory",
        "--methods",
        "none,k-reciprocal",
        "--items",
        "500",
        "--queries",
        "3",
        "--dimensions",
        "8",
    ]
    record = json.loads(run(*words, "--json"))
    for row in record["results"]:
        assert 20e6 < row["peak_bytes"] < 3e9
        assert row["within"] is True
        assert row["seconds"] > 0
    assert "500 items x 8, 3 queries, joint, limit 3 GB" in format_record(record)
    record = json.loads(run(*words[:2], "none", *words[3:], "--limit", "20KB", "--json"))
    assert "`max_memory` allows 20 KB" in record["results"][0]["error"]
    assert "`max_memory` allows 20 KB" in format_record(record)


def test_a_process_that_fails_or_takes_too_long() -> None:
    assert "ended with code 1" in run_fresh(use_twice, {"method": "nonsense"})["error"]
    assert "not done after 0.01 s" in run_fresh(use_twice, {"method": "none"}, timeout=0.01)["error"]


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_peak_is_this_process_and_counts_what_is_touched() -> None:
    before = peak_bytes()
    block = np.ones(before + 50_000_000, np.uint8)  # more than the peak so far
    assert peak_bytes() >= len(block)


def test_synthetic_curves_are_the_same_every_time_and_cluster() -> None:
    rows = curves(1000, 32)
    np.testing.assert_array_equal(rows, curves(1000, 32))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    nearest = np.sort(rows @ rows.T, axis=1)[:, -10:]
    assert nearest.mean() > 0.8
    assert np.median(rows @ rows.T) < 0.3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["accuracy"], "--data"),
        (["accuracy", "--data", "nowhere"], "has none of the sets"),
        (["accuracy", "--data", "nowhere", "--sets", "orl"], "does not exist"),
        (["accuracy", "--data", "nowhere", "--sets", "faces"], "'faces' is not known"),
        (["accuracy", "--data", "nowhere", "--methods", "magic"], "'magic' is not known"),
        (["accuracy", "--data", "nowhere", "-o", "r.txt"], "unknown ending"),
        (["speed"], "search and memory are measured on ROxford5k; give its folder with"),
        (["speed", "--parts", "luck"], "'luck' is not known"),
        (["speed", "--parts", "growth", "--sizes", "1,2"], "--sizes '1'"),
        (["memory", "--limit", "lots"], "'lots'"),
        (["memory", "--items", "0"], "--items"),
    ],
)
def test_wrong_input(words: list[str], said: str) -> None:
    assert said in mistake(*words)


def header(**more: Any) -> dict[str, Any]:
    return {"version": "1", "machine": {"threads": 2}, "date": "today", **more}


def test_scale_measures_every_way_to_run_and_every_size(shared_dir: Path) -> None:
    measured = scale(shared_dir / "data", ["orl"], [600], most=6, changed=[500])
    assert [row["store"] for row in measured["changes"]] == ["array", "ivf"]
    assert all(row["changed"] == 5 and row["add_share"] > 0 for row in measured["changes"])
    online = [row["method"] for row in measured["modes"] if row["mode"] == "online"]
    assert online == ["lpmt", "aqe", "dfs", "eir"]
    assert {row["mode"] for row in measured["modes"]} == {
        "search", "candidates", "online", "grown", "alone", "joint"
    }  # fmt: skip
    assert all(0 <= row["low"] <= row["mean"] <= row["high"] <= 1 for row in measured["modes"])
    (point,) = measured["results"]
    assert point["items"] == 600
    assert point["certain"] == 1.0
    assert point["build_seconds"] > 0
    assert 512 < point["kept_bytes_per_item"] < 8192
    assert "kept bytes per item" in format_record(measured)


def test_bytes_of_arrays_are_counted_once_and_not_if_they_are_on_disk(tmp_path: Path) -> None:
    rows = np.zeros((10, 4), np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    kept = {"rows": rows, "views": [rows[2:5], (rows.T,)], "other": np.zeros(3), "mapped": [mapped, mapped[2:]]}
    assert count_array_bytes(kept) == 160 + 24
    manifold = kinrank.Manifold.build(curves(300, 8))
    assert rows.nbytes < count_array_bytes(manifold.snapshot.state) < manifold.info()["bytes"]  # packed, as saved


def test_scale_prints_growth() -> None:
    points = [
        {"items": n, "build_seconds": 3e-4 * n, "neighbour_search_seconds": 1e-4 * n, "latency_seconds": 1e-3}
        for n in (200_000, 5_000, 1_000_000)
    ]
    growth = measure_size_growth(points)
    assert (growth["first"], growth["last"]) == (5_000, 200_000)
    assert [growth[key] for key in ("exponent", "after_exponent", "per_item", "query")] == pytest.approx([1, 1, 1, 1])
    assert measure_size_growth(points[:1]) == {}


def test_feedback_removes_marked_items(data: Path) -> None:
    record = json.loads(run("feedback", "--data", data, "--sets", "orl", "--json", "-o", data / "r.jsonl"))
    assert json.loads((data / "r.jsonl").read_text()) == record
    assert [(row["right"], row["wrong"]) for row in record["results"]] == [(1, 0), (1, 1), (2, 1), (3, 3), (0, 3)]
    assert {row["queries"] for row in record["results"]} == {15}
    for row in record["results"]:
        assert row["low"] <= row["gain"] <= row["high"]
        assert row["gain"] == pytest.approx(row["after"] - row["before"])
    assert record["means"][0]["gain"] == record["results"][0]["gain"]
    table = run("feedback", "--data", data, "--sets", "orl")
    assert "orl, class: 15 queries, online" in table
    assert "marked among the first 20, and taken out before scoring" in table


def test_marks_are_right_or_wrong_and_never_junk() -> None:
    shown, right, junk = np.arange(20), np.arange(0, 20, 2), np.array([1, 3, 5])
    good, bad = _pick_marks(shown, right, junk, 3, 3, seed=4)
    assert set(good) <= set(right)
    assert len(good) == len(bad) == 3
    assert set(bad) <= set(range(7, 20, 2))
    few, none = _pick_marks(shown[:3], right[:1], junk, 3, 3, seed=4)
    assert few.tolist() == [0]
    assert none.tolist() == [2]
    rest = _ignore_items(kinrank.Truth.from_lists([right], [junk]), [np.array([0, 7])], 20)
    assert rest.positives[0].tolist() == right[1:].tolist()
    assert rest.junk[0].tolist() == [0, 1, 3, 5, 7]
