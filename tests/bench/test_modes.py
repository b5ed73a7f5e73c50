"""`kinrank bench modes`: online accuracy by observed queries, on a tiny set; no query observes itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import kinrank as kr
from kinrank.cli.app import app
from kinrank.manifold.changes import apply_change
from kinrank.manifold.service_log import Change, Rule
from kinrank.manifold.snapshot import Snapshot
from kinrank.stages.request import Request
from kinrank.vector_input import sample_evenly, to_unit_rows
from kinrank_bench import modes as module
from kinrank_bench.datasets.benchmark import load
from kinrank_bench.measurement import separate_queries
from kinrank_bench.modes import group_relatives, modes, score_by_observations

pytestmark = pytest.mark.slow

NAMES = ["none", "a quarter", "half", "all others", "unrelated", "repeated"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with one set, in the format of ORL: 6 classes of 20 items."""
    rng = np.random.default_rng(0)
    label = np.arange(120) % 6
    rows = rng.normal(size=(6, 8))[label] + 0.7 * rng.normal(size=(120, 8))
    np.savez(tmp_path / "orl_pixels.npz", x=rows.astype(np.float32), label=label)
    return tmp_path


def run(*words: str | Path) -> Any:
    return CliRunner().invoke(app, ["bench", "modes", *map(str, words)], prog_name="kinrank")


def test_the_record(data: Path) -> None:
    words = ("--data", data, "--sets", "orl", "--parts", "remembered", "--queries", "9", "-q")
    result = run(*words, "--json", "-o", data / "r.jsonl")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["bench"] == "modes"
    assert json.loads((data / "r.jsonl").read_text()) == found
    assert [row["remembered"] for row in found["results"]] == NAMES
    assert all(0 <= row["low"] <= row["mean"] <= row["high"] <= 1 for row in found["results"])
    plain = found["results"][0]
    for row in found["results"][1:]:
        assert row["change"] == pytest.approx(row["mean"] - plain["mean"])
        assert row["change_low"] <= row["change"] <= row["change_high"]
    assert [row["kept"] for row in found["results"][:4]] == [0, 7, 15, 30]
    shown = run(*words).stdout
    assert "orl, class: 9 queries ask, 90 items, online" in shown
    assert all(name in shown for name in NAMES)


def test_modes_equal_those_of_bench_scale(data: Path) -> None:
    found = modes(data, ["orl"], 4, ["ways"])
    assert found["results"] == []
    assert {row["mode"] for row in found["modes"]} == {"search", "candidates", "online", "grown", "alone", "joint"}


def test_wrong_input(data: Path) -> None:
    result = run("--data", data, "--parts", "luck")
    assert result.exit_code == 2
    assert "'luck' is not known; give some of: ways, remembered" in result.stderr


def test_none_is_mode_online_and_no_query_observes_itself(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, gallery, truths = separate_queries(load("orl", data))
    some = sample_evenly(len(queries), 9)
    seen: list[float] = []
    search = Snapshot.search

    def watched(snapshot: Snapshot, request: Request) -> Any:
        known = snapshot.vectors[snapshot.remembered.queries]
        seen.extend(np.abs(request.queries[:, None] - known[None]).max(axis=2).min(axis=1, initial=9.0))
        return search(snapshot, request)

    monkeypatch.setattr(Snapshot, "search", watched)
    monkeypatch.setattr(module, "NOISE", 0.0)  # copies are equal
    rows = score_by_observations(queries, gallery, truths, some)
    assert len(seen) == len(NAMES) * len(some)
    assert min(seen) > 1e-3
    online = kr.Manifold.build(gallery).search(queries[some], k=len(gallery))
    score = kr.evaluate(online, truths["class"].subset(some), ["mAP"])["mAP"]
    assert rows[0]["mean"] == pytest.approx(score.mean, abs=1e-6)
    half, repeated = rows[2], rows[5]
    assert (half["kept"], half["mean"]) == (repeated["kept"], pytest.approx(repeated["mean"], abs=1e-6))


def test_related_queries_share_relevant_items_also_indirectly() -> None:
    first = kr.Truth.from_lists([[0], [1], [0, 2], [5]], gallery_size=6)
    second = kr.Truth.from_lists([[], [2], [], []], gallery_size=6)
    label = group_relatives({"a": first, "b": second}, 4)
    assert label[0] == label[1] == label[2] != label[3]


def test_observed_queries_improve_the_results(shared_dir: Path) -> None:
    """Check every fifth query of ROxford5k, each searched without itself; copies of all queries change nothing."""
    queries, gallery, truths = separate_queries(load("roxford5k", shared_dir / "data"))
    queries, some = to_unit_rows(np.asarray(queries, np.float32)), sample_evenly(len(queries), 14)
    plain = kr.Manifold.build(gallery)
    full = apply_change(plain.snapshot, Change(queries=queries, rule=Rule.OBSERVE))
    assert full.remembered.count == 70
    noisy = queries + 0.02 * np.random.default_rng(0).normal(size=queries.shape) / np.sqrt(queries.shape[1])
    assert apply_change(full, Change(queries=noisy, rule=Rule.OBSERVE)) is full
    first = [
        apply_change(full, Change(forgotten=np.array([query]))).search(Request(queries[query : query + 1], 1000, 1000))
        for query in some
    ]
    alone = plain.search(queries[some], k=1000)
    together = kr.Ranking(*(np.concatenate([getattr(one, part) for one in first]) for part in ("indices", "distances")))
    truth = truths["medium"].subset(some)
    before, after = (kr.evaluate(ranking, truth, ["mAP"])["mAP"].mean for ranking in (alone, together))
    assert after > before + 0.05
