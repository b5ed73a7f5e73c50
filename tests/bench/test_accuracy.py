"""`kinrank bench accuracy`: matrix, interruptions, refusals, failures and tables."""

from __future__ import annotations

import csv
import io
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import kinrank as kr
from kinrank.cli.app import app
from kinrank.errors import InputError, MemoryLimitError, MissingExtraError
from kinrank.methods.base import full_repr
from kinrank.vector_input import sample_evenly
from kinrank_bench import accuracy as accuracy_bench
from kinrank_bench import measurement
from kinrank_bench.accuracy import accuracy, select_sets
from kinrank_bench.datasets.benchmark import Benchmark, load
from kinrank_bench.measurement import MODES, compare_cells, measure_cell, separate_queries
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.record import count_failures
from kinrank_bench.registry import format_record

METHODS = ("none", "aqe", "gnn")
pytestmark = [pytest.mark.filterwarnings("ignore::kinrank.errors.BenchmarkMismatchWarning"), pytest.mark.slow]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with two small sets, in the formats of ORL (every item is a query) and LFW (separate queries)."""
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    label = np.arange(80) % 5
    rows = (rng.normal(size=(5, 8))[label] + 0.7 * rng.normal(size=(80, 8))).astype(np.float32)
    np.savez(folder / "orl_pixels.npz", x=rows, label=label)
    np.savez(folder / "lfw_dlib.npz", x=rows, label=label, is_query=np.arange(80) < 15)
    return folder


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Return a list of the cells that are measured rather than read."""
    real, seen = measurement._measure, []

    def counted(bench: Benchmark, method: kr.Method, mode: str, *rest: Any) -> dict[str, Any]:
        seen.append((bench.name, mode, method.name))
        return real(bench, method, mode, *rest)

    monkeypatch.setattr(measurement, "_measure", counted)
    return seen


def test_a_matrix_of_sets_modes_and_methods(data: Path) -> None:
    record = accuracy(data, METHODS, most=6)
    rows = [row for row in record["results"] if row.get("measure", "mAP") == "mAP"]
    assert [(row["set"], row["mode"], row["method"]) for row in rows] == [
        (name, mode, method) for name in ("orl", "lfw") for mode in MODES for method in METHODS
    ]
    assert [row["measure"] for row in record["results"] if (row["set"], row["mode"]) == ("lfw", "joint")][:2] == [
        "mAP", "R@1",
    ]  # fmt: skip
    sizes = {(row["set"], row["mode"]): (row["queries"], row["items"]) for row in rows}
    assert sizes == {
        ("orl", "joint"): (80, 80), ("orl", "candidates"): (6, 60), ("orl", "online"): (20, 60),
        ("lfw", "joint"): (15, 65), ("lfw", "candidates"): (6, 65), ("lfw", "online"): (15, 65),
    }  # fmt: skip
    for row in rows:
        if (row["mode"], row["method"]) == ("online", "gnn"):
            assert row["unserved"] is True
            assert "cannot use it" in row["error"]
        else:
            assert row["low"] <= row["mean"] <= row["high"]
            assert row["gain_low"] <= row["gain"] <= row["gain_high"]
            assert row["worse"] == (row["gain"] < 0)
            assert row["seconds"] > 0
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("mode", MODES)
def test_a_cell_equals_the_result_of_the_library(data: Path, mode: str) -> None:
    bench = load("lfw", data)
    found = measure_cell(bench, "aqe", mode, Cache(None), most=6)
    assert bench.queries is not None
    truth = bench.truths["class"]
    if mode == "online":
        ranking = kr.Manifold.build(bench.gallery, kr.methods.AQE()).search(bench.queries, k=len(bench.gallery))
    elif mode == "joint":
        ranking = kr.rerank(bench.queries, bench.gallery, "aqe")
    else:
        some = sample_evenly(15, 6)
        truth = truth.subset(some)
        ranking = kr.rerank(bench.queries[some], bench.gallery, "aqe", candidates=500)
    score = kr.evaluate(ranking, truth, ["R@1"])["R@1"]
    mine = found["truths"]["class"]["R@1"]
    assert (mine["mean"], mine["low"], mine["high"]) == (score.mean, score.low, score.high)
    assert mine["per_query"] == score.per_query.tolist()
    assert found["parameters"] == full_repr(kr.methods.AQE())


def test_a_gain_is_paired(data: Path) -> None:
    bench = load("lfw", data)
    plain, other = (measure_cell(bench, name, "joint", Cache(None)) for name in ("none", "aqe"))
    scores = [
        kr.evaluate(kr.rerank(bench.queries, bench.gallery, name), bench.truths["class"]) for name in ("none", "aqe")
    ]
    assert compare_cells(plain, other, "class", "mAP") == kr.evaluation.compare_scores(*scores, resamples=2000)
    with pytest.raises(ValueError, match="gnn refused lfw"):
        compare_cells(plain, measure_cell(bench, "gnn", "online", Cache(None)), "class", "mAP")


def test_queries_without_positives_do_not_count() -> None:
    rows = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    bench = Benchmark("made", rows[:3], rows[3:], {"t": kr.Truth.from_lists([[0], [], [2]], gallery_size=17)}, ("mAP",))
    plain = measure_cell(bench, "none", "joint", Cache(None))
    assert plain["truths"]["t"]["mAP"]["per_query"][1] is None
    assert compare_cells(plain, measure_cell(bench, "aqe", "joint", Cache(None)), "t", "mAP").queries == 2


def test_an_interrupted_run_continues(data: Path, tmp_path: Path, measured: list[tuple[str, str, str]]) -> None:
    labels = []

    def stop(label: str, done: int, total: int) -> None:
        labels.append((label, done, total))
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        accuracy(data, METHODS, progress=stop, cache=Cache(tmp_path / "kept"))
    assert labels[4] == ("orl, candidates, aqe", 4, 18)
    first = list(measured)
    assert len(first) == 7
    record = accuracy(data, METHODS, cache=Cache(tmp_path / "kept"))
    assert len(measured) == 16  # 18 cells, but gnn does not support mode online
    assert not set(first) & set(measured[7:])
    again = accuracy(data, METHODS, cache=Cache(tmp_path / "kept"))
    assert len(measured) == 16
    assert again["results"] == record["results"]


def test_what_changed_is_measured_again(data: Path, tmp_path: Path, measured: list[tuple[str, str, str]]) -> None:
    cache = Cache(tmp_path / "kept")
    bench = load("lfw", data)
    for _ in range(2):
        measure_cell(bench, "aqe", "candidates", cache)
        measure_cell(load("lfw", data), "AQE", "candidates", cache)
    assert len(measured) == 1
    measure_cell(bench, kr.methods.AQE(k=3), "candidates", cache)
    measure_cell(bench, "aqe", "candidates", cache, most=5)
    measure_cell(bench, "aqe", "candidates", cache, measures=["R@5"])
    measure_cell(bench, "aqe", "joint", cache)
    assert len(measured) == 5
    measure_cell(bench, "aqe", "joint", cache, most=5)  # `most` does not matter in mode joint
    assert len(measured) == 5
    with np.load(data / "lfw_dlib.npz") as arrays:
        changed = {name: arrays[name].copy() for name in arrays.files}
    changed["x"][3, 2] += 0.01
    np.savez(data / "lfw_dlib.npz", **changed)
    measure_cell(load("lfw", data), "aqe", "joint", cache)
    assert len(measured) == 6
    renamed = Benchmark("other", bench.queries, bench.gallery, bench.truths, bench.measures)
    assert measure_cell(renamed, "aqe", "joint", cache)["set"] == "other"
    assert len(measured) == 6


def test_a_damaged_cell_is_measured_again(data: Path, tmp_path: Path, measured: list[tuple[str, str, str]]) -> None:
    first = accuracy(data, ["none"], ["orl"], modes=["joint"], cache=Cache(tmp_path / "kept"))
    (path,) = (tmp_path / "kept").iterdir()
    path.write_text("{")
    with pytest.warns(UserWarning, match="is damaged; measuring again"):
        second = accuracy(data, ["none"], ["orl"], modes=["joint"], cache=Cache(tmp_path / "kept"))
    assert len(measured) == 2
    assert first["results"][0]["mean"] == second["results"][0]["mean"]


@pytest.mark.parametrize("part", ["threads", "architecture", "numpy", "numba", "scipy"])
def test_another_machine_measures_again(
    data: Path, tmp_path: Path, measured: list[Any], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    bench, cache = load("lfw", data), Cache(tmp_path / "kept")
    measure_cell(bench, "none", "joint", cache)
    real = measurement.describe_environment()
    assert real.keys() == {"threads", "architecture", "numpy", "numba", "scipy"}
    monkeypatch.setattr(measurement, "describe_environment", lambda: {**real, part: "other"})
    measure_cell(bench, "none", "joint", cache)
    assert len(measured) == 2


def test_a_record_counts_new_and_cached_cells(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(methods: list[str]) -> dict[str, Any]:
        return accuracy(data, methods, ["lfw"], modes=["joint"], cache=Cache(tmp_path / "kept"))

    monkeypatch.setattr(measurement, "utc_now", lambda: "2001-02-03 04:05 UTC")
    first = run(["none"])
    assert (first["cells_measured"], first["cells_kept"]) == (1, 0)
    monkeypatch.undo()
    second = run(["none", "aqe"])
    assert (second["cells_measured"], second["cells_kept"]) == (1, 1)
    assert second["wall_seconds"] > 0
    dates = {row["method"]: row["date"] for row in second["results"]}
    assert dates["none"] == "2001-02-03 04:05 UTC" < dates["aqe"] <= second["date"]
    said = "1 cells were measured now and 1 were kept from before, the oldest of 2001-02-03 04:05 UTC; this run took"
    assert said in format_record(second)
    for ending in (".md", ".tex"):
        assert said in accuracy_bench.render_accuracy(second, ending)


def test_a_set_that_cannot_be_read_does_not_stop_the_others(data: Path) -> None:
    (data / "orl_pixels.npz").write_bytes(b"PK nothing")
    record = accuracy(data, ["none"], modes=["joint"])
    failed = record["results"][0]
    assert failed.keys() == {"set", "error"}
    assert failed["error"].startswith("orl_pixels.npz is truncated, damaged or not an .npz file")  # without the folder
    assert {row["set"] for row in record["results"][1:]} == {"lfw"}
    text = format_record(record)
    assert "orl could not be read: orl_pixels.npz is truncated" in text
    assert "orl" not in accuracy_bench.render_accuracy(record, ".csv")
    json.dumps(record, allow_nan=False)
    with pytest.raises(ValueError, match=r"orl_pixels\.npz is truncated"):
        accuracy(data, ["none"], ["orl"], modes=["joint"])


@pytest.fixture
def landmarks(data: Path, rng: np.random.Generator) -> Path:
    """Return the folder with features that are not in BENCHMARKS, and distractors."""
    rows = rng.normal(size=(14, 6)).astype(np.float32)
    gnd = [{"easy": [0], "hard": [1, 2], "junk": [3]}, {"easy": [], "hard": [4], "junk": []}]
    content = {"imlist": [f"i{number}" for number in range(12)], "qimlist": ["q", "r"], "gnd": gnd}
    (data / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(content))
    np.savez(data / "roxford5k_xyz.npz", q=rows[:2], d=rows[2:])
    np.save(data / "distractors_xyz.npy", rng.normal(size=(30, 6)).astype(np.float32))
    return data


@pytest.mark.parametrize("kept", [True, False])
def test_any_features_in_the_folder_are_measured(landmarks: Path, tmp_path: Path, kept: bool) -> None:
    assert select_sets(landmarks, None) == ["orl", "lfw", "roxford5k_xyz", "roxford5k_xyz+distractors"]
    before = sorted(path.name for path in landmarks.iterdir())
    cache = Cache(tmp_path / "kept" if kept else None)
    names = ["roxford5k_xyz", "roxford5k_xyz+distractors", "orl"]
    record = accuracy(landmarks, ["none"], names, modes=["joint"], cache=cache)
    items = {row["set"]: row["items"] for row in record["results"]}
    assert items == {"roxford5k_xyz": 12, "roxford5k_xyz+distractors": 42, "orl": 80}
    assert sorted(path.name for path in landmarks.iterdir()) == before  # nothing is written next to the features
    joined = tmp_path / "kept" / "joined"
    assert sorted(path.name for path in joined.glob("*.npy")) == ["roxford5k_xyz_joined.npy"] * kept
    assert "roxford5k_xyz.npz has 2 queries, but ROxford5k as published has 70" in record["notes"]["roxford5k_xyz"][0]
    assert str(landmarks) not in json.dumps(record)
    with pytest.raises(ValueError, match=r"set 'roxford5k_abc' is not known; give some of: .*roxford5k_xyz"):
        accuracy(landmarks, ["none"], ["roxford5k_abc"])


def test_features_of_a_fixed_set_are_taken_once(landmarks: Path) -> None:
    (landmarks / "roxford5k_xyz.npz").rename(landmarks / "roxford5k_sscd.npz")
    (landmarks / "distractors_xyz.npy").rename(landmarks / "distractors_sscd.npy")
    assert select_sets(landmarks, None) == ["orl", "lfw", "roxford5k_sscd", "roxford5k_sscd+distractors"]
    (landmarks / "revisited").mkdir()
    (landmarks / "gnd_roxford5k.pkl").rename(landmarks / "revisited" / "gnd_roxford5k.pkl")
    assert select_sets(landmarks, None) == ["roxford5k", "orl", "lfw", "roxford5k_sscd+distractors"]
    (landmarks / "revisited" / "gnd_roxford5k.pkl").unlink()
    with pytest.warns(UserWarning, match="roxford5k_sscd.npz has no gnd_roxford5k.pkl next to it"):
        assert select_sets(landmarks, None) == ["orl", "lfw"]


def test_tables_describe_the_conditions_of_a_mode(data: Path) -> None:
    record = accuracy(data, ["none"], modes=["joint", "candidates"], most=6)
    overview, orl, lfw = [table for table in accuracy_bench.build_tables(record) if "candidates" in table.title]
    about = "candidates (at most 6 queries of a set, each over its 500 nearest"
    assert overview.title == (
        f"Overview, {about}; where every item of a set queries the others, every fourth item is a query and the rest "
        "is the gallery)"
    )
    assert (
        orl.title
        == f"orl, class: 6 queries, 60 items; {about}; every fourth item is a query and the rest is the gallery)"
    )
    assert lfw.title == f"lfw, class: 6 queries, 65 items; {about})"
    assert overview.head == ["method", "orl class, mAP, 6 queries", "lfw class, mAP, 6 queries"]
    assert "with 95 % intervals" not in overview.notes[0]
    assert "one in twenty is marked by chance" in overview.notes[0]
    lines = list(csv.DictReader(io.StringIO(accuracy_bench.render_accuracy(record, ".csv"))))
    assert {line["conditions"] for line in lines if line["set"] == "orl"} == {
        "joint (queries and gallery in one graph)",
        f"{about}; every fourth item is a query and the rest is the gallery)",
    }


def test_refusals_are_shown_and_not_cached(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = measurement.rerank

    def refusing(queries: Any, gallery: Any, method: kr.Method, **limits: Any) -> kr.Ranking:
        if method.name == "aqe":
            raise MemoryLimitError("AQE needs 9 GB, but 1 GB is free")
        return real(queries, gallery, method, **limits)

    monkeypatch.setattr(measurement, "rerank", refusing)
    record = accuracy(data, ["aqe"], ["lfw"], modes=["joint"], cache=Cache(tmp_path / "kept"))
    assert record["results"][-1] | {"parameters": 0} == {
        "set": "lfw", "mode": "joint", "method": "aqe", "truth": "class", "queries": 15, "items": 65, "parameters": 0,
        "error": "AQE needs 9 GB, but 1 GB is free",
    }  # fmt: skip
    (table,) = accuracy_bench.build_tables(record)
    assert table.rows[1][:2] == ["aqe", "refused"]
    assert "aqe refused: AQE needs 9 GB, but 1 GB is free" in table.notes
    monkeypatch.setattr(measurement, "rerank", real)
    record = accuracy(data, ["aqe"], ["lfw"], modes=["joint"], cache=Cache(tmp_path / "kept"))
    assert "error" not in record["results"][-1]


def raise_in_aqe(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let `rerank` raise the error for AQE."""
    real = measurement.rerank

    def failing(queries: Any, gallery: Any, method: kr.Method, **limits: Any) -> kr.Ranking:
        if method.name == "aqe":
            raise error
        return real(queries, gallery, method, **limits)

    monkeypatch.setattr(measurement, "rerank", failing)


@pytest.mark.parametrize(
    "error",
    [
        InputError("k is too large"),
        MemoryLimitError("9 GB"),
        MemoryError("9 GB"),
        MissingExtraError("torch"),
        OSError("no disk"),
    ],
)
def test_declared_exceptions_are_refusals(data: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    raise_in_aqe(monkeypatch, error)
    (row,) = [row for row in accuracy(data, ["aqe"], ["lfw"], modes=["joint"])["results"] if row["method"] == "aqe"]
    assert row["error"] == str(error)
    assert "failed" not in row


@pytest.mark.parametrize("kind", [ValueError, TypeError, ImportError, KeyError])
def test_other_exceptions_are_failures(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    raise_in_aqe(monkeypatch, kind("operands could not be broadcast"))
    record = accuracy(data, ["aqe"], ["lfw"], modes=["joint"], cache=Cache(tmp_path / "kept"))
    (row,) = [row for row in record["results"] if row["method"] == "aqe"]
    assert row["failed"] is True
    assert row["error"] == f"{kind.__name__}: {kind('operands could not be broadcast')}"
    assert "Traceback" in caplog.text
    (table,) = accuracy_bench.build_tables(record)
    assert table.rows[1][:2] == ["aqe", "failed"]
    assert f"aqe failed: {row['error']}" in table.notes
    assert count_failures(record) == 1
    with pytest.raises(RuntimeError, match=r"aqe failed on lfw \(joint\)"):
        measurement.require_scores(row)
    monkeypatch.undo()
    assert count_failures(accuracy(data, ["aqe"], ["lfw"], modes=["joint"], cache=Cache(tmp_path / "kept"))) == 0


def test_a_failure_ends_the_command_with_code_1(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_in_aqe(monkeypatch, ValueError("operands could not be broadcast"))
    words = ["bench", "accuracy", "--data", data, "--methods", "aqe", "--sets", "lfw", "--modes", "joint", "--no-cache"]
    record = tmp_path / "record.jsonl"
    result = CliRunner().invoke(app, [*map(str, words), "-o", str(record)], prog_name="kinrank")
    assert result.exit_code == 1
    assert "aqe failed: ValueError: operands could not be broadcast" in result.stdout
    assert "1 measurements failed because of a bug in kinrank" in result.stderr
    assert json.loads(record.read_text())["results"][-1]["failed"] is True
    raise_in_aqe(monkeypatch, InputError("k is too large"))
    assert CliRunner().invoke(app, [*map(str, words)], prog_name="kinrank").exit_code == 0


def test_a_set_whose_reader_fails_is_a_failure(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = accuracy_bench.load

    def failing(name: str, folder: Path) -> Benchmark:
        if name == "orl":
            raise ValueError("operands could not be broadcast")
        return real(name, folder)

    monkeypatch.setattr(accuracy_bench, "load", failing)
    record = accuracy(data, ["none"], modes=["joint"])
    assert record["results"][0] == {
        "set": "orl",
        "error": "ValueError: operands could not be broadcast",
        "failed": True,
    }
    assert {row["set"] for row in record["results"][1:]} == {"lfw"}
    assert count_failures(record) == 1


def test_every_fourth_leaves_the_gallery(data: Path) -> None:
    bench = load("orl", data)
    queries, gallery, truths = separate_queries(bench)
    rows = np.asarray(bench.gallery)
    np.testing.assert_array_equal(queries, rows[::4])
    labels = np.arange(80) % 5
    for query in range(20):
        right = np.flatnonzero(labels[np.arange(80) % 4 != 0] == labels[4 * query])
        assert truths["class"].positives[query].tolist() == right.tolist()
    assert len(gallery) == 60
    assert separate_queries(bench)[0] is queries


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"modes": ["alone"]}, "mode 'alone' is not known; give some of: joint, candidates, online"),
        ({"modes": []}, "no mode is named"),
        ({"sets": ["faces"]}, "'faces' is not known"),
        ({"sets": []}, "no set is named"),
        ({"methods": ["magic"]}, "'magic' is not known"),
    ],
)
def test_wrong_input_is_refused_before_measuring(data: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        accuracy(data, progress=lambda *_: pytest.fail("measured"), **{"methods": ["none"], **more})
    with pytest.raises(ValueError, match="mode='alone' is not allowed"):
        measure_cell(load("orl", data), "none", "alone", Cache(None))


def row(method: str, mean: float, gain: tuple[float, float, float], **more: Any) -> dict[str, Any]:
    about = {"set": "s_1", "truth": "50 % & more", "queries": 9, "items": 30, "mode": "joint", "measure": "mAP"}
    numbers = {"mean": mean, "low": mean - 0.1, "high": mean + 0.1, "seconds": 1.0, "worse": gain[0] < 0, "p": 0.5}
    named = dict(zip(("gain", "gain_low", "gain_high"), gain, strict=True))
    return {**about, **numbers, **named, "method": method, "parameters": f"{method}(k=3)", **more}


@pytest.fixture
def record() -> dict[str, Any]:
    rows = [
        row("none", 0.5, (0.0, 0.0, 0.0)),
        row("up", 0.75, (0.25, 0.1, 0.4)),
        row("a_b", 0.4, (-0.1, -0.2, -0.01)),
        row("same", 0.49, (-0.01, -0.1, 0.1)),
    ]
    error = {"set": "s_1", "truth": "50 % & more", "queries": 9, "items": 30, "mode": "joint", "method": "big"}
    rows.append({**error, "error": "needs 9 GB | {more}"})
    rows.append(row("none", 0.5, (0.0, 0.0, 0.0), mode="online"))
    rows.append({**error, "mode": "online", "method": "sca", "error": "not served", "unserved": True})
    return {"bench": "accuracy", "results": rows}


def test_tables_show_mode_interval_gain_and_harm(record: dict[str, Any]) -> None:
    joint, online = accuracy_bench.build_tables(record)
    assert joint.title == "s_1, 50 % & more: 9 queries, 30 items; joint (queries and gallery in one graph)"
    assert joint.head == ["method", "mAP", "95 % interval", "gained", "95 % interval", "seconds"]
    assert [list(line[:4]) for line in joint.rows] == [
        ["none", "50.00", "40.0 to 60.0", ""],
        ["up", "**75.00**", "65.0 to 85.0", "↑ +25.00"],
        ["a_b", "40.00", "30.0 to 50.0", "↓ -10.00"],
        ["same", "49.00", "39.0 to 59.0", "-1.00"],
        ["big", "refused", "", ""],
    ]
    assert joint.notes[1:] == ["Re-ranking hurts mAP with: a_b (-10.00).", "big refused: needs 9 GB | {more}"]
    assert "online (queries in no graph)" in online.title
    assert online.rows[1][1] == "-"
    assert online.notes[-1] == "- : does not support queries outside the gallery: sca."


def test_an_overview_of_several_sets(record: dict[str, Any]) -> None:
    record["results"].append(row("none", 0.5, (0.0, 0.0, 0.0), set="t"))
    overview = accuracy_bench.build_tables(record)[0]
    assert overview.title == "Overview, joint (queries and gallery in one graph)"
    assert overview.head == ["method", "s_1 50 % & more, mAP, 9 queries", "t 50 % & more, mAP, 9 queries"]
    assert overview.rows[:3] == [
        ["none", "50.0", "**50.0**"],
        ["up", "**75.0 ↑**", ""],
        ["a_b", "40.0 ↓", ""],
    ]


def test_latex_escapes_special_characters(record: dict[str, Any]) -> None:
    text = accuracy_bench.render_accuracy(record, ".tex")
    assert r"\caption{s\_1, 50 \% \& more: 9 queries" in text
    assert r"a\_b & 40.00 & 30.0 to 50.0 & $\downarrow$ $-$10.00 & $-$20.00 to $-$1.00 & 1.00 \\" in text
    assert r"\textbf{75.00}" in text
    assert r"needs 9 GB | \{more\}" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2


def test_markdown_keeps_its_columns(record: dict[str, Any]) -> None:
    text = accuracy_bench.render_accuracy(record, ".md")
    assert "| a\\_b | 40.00 |" in text
    assert "| up | **75.00** |" in text
    assert "needs 9 GB \\| {more}" in text


def test_csv_has_a_line_per_number(record: dict[str, Any]) -> None:
    lines = list(csv.DictReader(io.StringIO(accuracy_bench.render_accuracy(record, ".csv"))))
    assert len(lines) == 7
    assert [line["verdict"] for line in lines[:4]] == ["", "better", "worse", ""]
    assert [line["method"] for line in lines if line["best"]] == ["up", "none"]
    assert float(lines[1]["gain_low"]) == 0.1
    assert lines[4]["error"] == "needs 9 GB | {more}"


def test_the_documentation_reads_every_mode(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "docs"))
    for name in [name for name in sys.modules if name.split(".")[0] == "generator"]:
        monkeypatch.delitem(sys.modules, name)
    from generator import readme, which  # type: ignore[import-not-found]
    from generator.records import read  # type: ignore[import-not-found]

    (tmp_path / "r.jsonl").write_text(json.dumps(accuracy(data, ["aqe", "lpmt", "gnn"], most=6)))
    found = read(tmp_path)
    assert set(found.apart) == {"candidates", "online"}
    assert all(row["mode"] == "joint" for results in found.scores.values() for row in results.values())
    page = which.page(found)
    assert "at most 6 queries" in page
    online = page.split("## Accuracy online")[1]
    assert "[`aqe`](methods/aqe.md)" in online
    assert "gnn" not in online
    assert "| gain, with its 95 % interval |" in readme.parts(found)[0].splitlines()[0]
    for results in found.scores.values():
        results["lpmt"] |= {"gain_low": -0.2, "gain_high": -0.1}
    found.scores["lfw", "class", "mAP"]["lpmt"] |= {"gain_low": 0.1, "gain_high": 0.2}
    found.scores["lfw", "class", "R@1"]["lpmt"] |= {"gain_low": -0.1, "gain_high": 0.2}
    lines = readme.parts(found)[0].splitlines()[2:]
    assert lines
    assert ["**" in line for line in lines] == ["| LFW |" in line for line in lines]
