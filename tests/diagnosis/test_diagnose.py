"""`diagnose`: what it says of data whose answer is known, of small and odd data, and of mistakes."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank_bench.synthetic import curves

LOOKS_LIKE_NOISE = "the data look like noise"
APART = "Queries are farther from the items"


def noise(items: int = 300, dimensions: int = 64, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal((items, dimensions)), np.float32)


def groups(count: int, size: int, noisy: float, dimensions: int = 32) -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.standard_normal((count, dimensions)), size, axis=0)
    return np.asarray(rows + noisy * rng.standard_normal(rows.shape), np.float32)


def test_twins_lose() -> None:
    found = kr.diagnose(groups(120, 2, 0.1))
    assert not found.helps
    assert found.gain is None
    assert kr.diagnose(groups(120, 2, 0.1), right=1).gain.points < 0  # type: ignore[union-attr]
    assert found.facts.kin == 1
    assert found.parameters() == found.parameters("lpmt") == kr.LPMT(answers="few")
    assert found.parameters("aqe").k == 2  # type: ignore[attr-defined]
    assert found.parameters(kr.LPMT(k1=20)) == kr.LPMT(k1=20, answers="few")
    assert found.sentences[1].startswith("  1 relevant item: -4 points of mAP (between -8 and +0")
    assert "Distances grow sharply after about 1 neighbour (drop" in str(found)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(60, 8), (300, 64), (1000, 16)])
def test_noise_promises_nothing(shape: tuple[int, int], seed: int) -> None:
    found = kr.diagnose(noise(*shape, seed))
    assert found.helps is False
    assert all(gain.points < 3 for gain in found.by_right.values())
    assert LOOKS_LIKE_NOISE in str(found)


def test_curves_gain() -> None:
    found = kr.diagnose(curves(300, 32))
    assert found.helps is None
    assert found.by_right[16].points > 5
    assert found.facts.thin > 0.2
    assert found.parameters() == kr.LPMT()
    assert kr.diagnose(curves(300, 32), right=16).sentences[0].startswith("Re-ranking with LPMT is expected to help: +")
    assert LOOKS_LIKE_NOISE not in str(found)
    assert "Distances grow sharply" not in str(found)


def test_what_is_predicted_happens_on_made_up_classes() -> None:
    rows, labels = groups(40, 10, 1.0), np.repeat(np.arange(40), 10)
    truth = kr.Truth.from_labels(labels)
    none, lpmt = (kr.evaluate(kr.rerank(None, rows, name), truth, resamples=0)["mAP"].mean for name in ("none", "lpmt"))
    found = kr.diagnose(rows, right=9)
    assert found.gain is not None
    assert found.helps == (lpmt > none)
    assert found.gain.low <= 100 * (lpmt - none) <= found.gain.high
    assert found.parameters() == kr.diagnose(rows).parameters() == kr.LPMT()


def test_right_answers_decide() -> None:
    rows = curves(300, 32)
    found_gains = [kr.diagnose(rows, right=right).gain for right in (1, 1.5, 2, 3, 4, 8, 16, 100)]
    gains = [gain.points for gain in found_gains if gain is not None]
    assert len(gains) == 8
    assert all(a <= b for a, b in itertools.pairwise(gains))
    assert gains[0] < 0
    assert gains[-1] > 5
    one, two, many = (kr.diagnose(rows, right=right) for right in (1, 2, 100))
    assert not one.helps
    assert not two.helps
    assert many.helps
    for found, answers in ((one, "one"), (two, "few")):
        assert "With so few relevant items, there are hardly others" in str(found)
        assert f"`answers={answers}` is chosen here" in str(found)
        assert found.parameters() == kr.LPMT(answers=answers)
    assert many.parameters() == kr.LPMT()
    assert "depends on the number" not in str(many)
    assert two.sentences[0].startswith("Re-ranking with LPMT is expected to change little: +0 points")
    assert {count: gain.points for count, gain in many.by_right.items()}[1] == gains[0]
    assert kr.diagnose(rows, right=np.int64(2)).right == 2  # type: ignore[arg-type]
    json.dumps(kr.diagnose(rows, right=np.float32(2)).to_dict(), allow_nan=False)  # type: ignore[arg-type]


def test_what_it_depends_on_is_told() -> None:
    output = str(kr.diagnose(curves(300, 32)))
    lines = output.splitlines()
    assert lines[0].startswith("Whether re-ranking with LPMT helps depends on the number of relevant items per query")
    assert [line.split(":")[0] for line in lines[1:6]] == [
        "  1 relevant item",
        "  2 relevant items",
        "  4 relevant items",
        "  8 relevant items",
        "  16 relevant items or more",
    ]
    assert lines[6].startswith("Give `right`, the number of relevant items per query")
    assert not any("expected to" in line or "likely" in line for line in lines)  # there is no other prediction


def test_queries_that_lie_apart() -> None:
    rows = curves(300, 32)
    apart = kr.diagnose(rows, queries=noise(20, 32))
    assert apart.facts.query_gap is not None
    assert apart.facts.query_gap > 1.05
    assert APART in str(apart)
    assert APART not in str(kr.diagnose(rows, queries=rows[:20]))
    assert APART not in str(kr.diagnose(rows, queries=noise(20, 32), right=20))  # the message names the cause
    assert kr.diagnose(rows, queries=rows[:0]).facts.query_gap is None


def test_lengths_matter_where_they_should() -> None:
    rows = noise(60, 6) * np.random.default_rng(1).uniform(0.1, 5, (60, 1)).astype(np.float32)
    found = kr.diagnose(rows, metric="euclidean")
    assert found.preparations == ()
    assert "If they were" not in str(found)
    assert found.facts != kr.diagnose(rows).facts
    larger = kr.diagnose(100 * rows, metric="euclidean")
    assert larger.facts.drop == pytest.approx(found.facts.drop, rel=1e-4)
    assert larger.facts.mutual == found.facts.mutual
    assert kr.diagnose(7 * rows).facts.mutual == kr.diagnose(rows).facts.mutual


def test_any_kind_of_array(tmp_path: Path) -> None:
    rows = noise(50, 6)
    expected = kr.diagnose(rows).to_dict()
    np.save(tmp_path / "rows.npy", rows)
    assert kr.diagnose(np.load(tmp_path / "rows.npy", mmap_mode="r")).to_dict() == expected
    assert kr.diagnose(rows.astype(np.float64)).to_dict() == expected
    assert kr.diagnose(np.asfortranarray(rows)).to_dict() == expected
    assert kr.diagnose(rows.tolist()).to_dict() == expected


def test_several_features(rng: np.random.Generator) -> None:
    parts = [rng.standard_normal((40, 5)), rng.standard_normal((40, 3))]
    gallery = kr.combine(parts, check_rows=False)
    asked = [part[:4] for part in parts]
    found = kr.diagnose(gallery, queries=asked)  # type: ignore[arg-type]
    assert found.facts.dimensions == 8
    assert found.facts.query_gap is not None


def test_the_same_bits_twice_and_nothing_is_changed() -> None:
    rows, asked = noise(40, 6), noise(5, 6)
    for array in (rows, asked):
        array.setflags(write=False)
    first, second = (kr.diagnose(rows, queries=asked, metric=metric) for metric in ("cosine", "cosine"))
    assert first.to_dict() == second.to_dict()
    np.testing.assert_array_equal(rows, noise(40, 6))


@pytest.mark.parametrize(
    "rows",
    [noise(20, 5), noise(30, 2), noise(25, 1), np.ones((40, 8)), np.repeat(noise(12, 8), 5, axis=0), np.eye(30)],
    ids=["20 items", "2 dimensions", "1 dimension", "all the same", "copies", "all as far"],
)
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_small_and_odd_data(rows: Any, metric: str) -> None:
    found = kr.diagnose(rows, queries=rows[:3], metric=metric, right=3)
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.gain is not None
    assert found.gain.low <= found.gain.points <= found.gain.high
    assert f"{len(rows)} items of {rows.shape[1]} dimension" in str(found)
    assert not re.search(r"-0(\.0+)?(?![.\d])", str(found)), "less than nothing"


def test_a_diagnosis_is_told_in_many_ways() -> None:
    found = kr.diagnose(curves(100, 16))
    assert str(found).splitlines() == found.sentences == found.to_dict()["sentences"]
    assert repr(found).startswith("Diagnosis(100 items, expected gain -4 to +")
    known = kr.diagnose(curves(100, 16), right=8)
    assert repr(known) == f"Diagnosis(100 items, expected gain {known.gain})"
    assert known.to_dict()["gain"] == known.by_right[8].to_dict()
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["helps"] is found.helps is document["gain"] is None
    assert document["facts"]["items"] == 100
    assert document["by_right"]["4"] == found.by_right[4].to_dict()
    assert [change["way"] for change in document["preparations"]] == ["centred", "half-whitened"]
    assert "Centring the vectors (subtracting their mean) would change links " in str(found)


def test_progress_is_told() -> None:
    seen: list[tuple[str, int, int]] = []
    kr.diagnose(noise(30, 4), progress=lambda *step: seen.append(step))
    assert seen[0] == ("neighbours", 0, 2)
    assert seen[-1][1:] == (2, 2)


BROKEN = noise(30, 4)
BROKEN[7, 2] = np.nan
ZERO = noise(30, 4)
ZERO[3] = 0


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (noise(30, 4), {"right": 0}, "right=0 is not allowed; give the number of right answers per query, at least 1"),
        (noise(30, 4), {"right": float("nan")}, "right=nan is not allowed"),
        (noise(30, 4), {"right": float("inf")}, "right=inf is not allowed"),
        (noise(30, 4), {"right": True}, "right=True is not allowed"),
        (noise(30, 4), {"right": "many"}, "right='many' is not allowed"),
        (noise(19, 4), {}, "features has 19 rows, but a diagnosis needs at least 20"),
        (noise(0, 4), {}, "features has 0 rows, but a diagnosis needs at least 20"),
        (BROKEN, {}, "features row 7 contains NaN or Inf"),
        (ZERO, {}, "features row 3 is a zero vector"),
        (noise(30, 4), {"queries": noise(2, 5)}, "queries has shape .2, 5. but 4 dimensions are needed"),
        (noise(30, 4), {"queries": BROKEN}, "queries row 7 contains NaN"),
        (noise(30, 4), {"metric": "manhattan"}, "metric='manhattan' is not allowed; give one of: cosine, euclidean"),
        (noise(30, 4)[0], {}, "features must be 2-d"),
        ("rows.npy", {}, "rows.npy does not exist"),
    ],
)
def test_mistakes(rows: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kr.diagnose(rows, **more)
