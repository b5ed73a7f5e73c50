"""`kinrank bench defaults`: the constant is fitted without the set it is evaluated on, and LPMT does well there."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kinrank.methods import METHODS
from kinrank_bench.baseline_parameters import GRIDS, choose_setting, default_settings, list_settings
from kinrank_bench.default_parameters import GRID, defaults, fit_thin, mean_places
from kinrank_bench.registry import format_record

pytestmark = pytest.mark.slow

ELSEWHERE = dict.fromkeys(GRID, 9.0)


def test_the_middle_of_nearly_equal_values_is_taken() -> None:
    left = ELSEWHERE | {0.36: 0.3, 0.38: 0.0, 0.4: 0.4}
    right = ELSEWHERE | {0.46: 0.0, 0.48: 0.0}
    assert fit_thin({"a": left}) == 0.38
    assert fit_thin({"a": left, "b": right}, left_out="b") == 0.38
    assert fit_thin({"a": left, "b": right}, left_out="a") == 0.47


def test_the_largest_loss_decides() -> None:
    flat = dict.fromkeys(GRID, 0.1)
    steep = {value: 100 * abs(value - 0.42) for value in GRID}
    assert fit_thin({"flat": flat, "steep": steep}) == 0.42


def test_places_are_means_over_sets_of_means_over_truths() -> None:
    def row(name: str, truth: str, method: str, mean: float) -> dict[str, object]:
        return {"set": name, "truth": truth, "method": method, "mean": mean}

    rows = [row("x", "medium", "a", 0.5), row("x", "medium", "b", 0.6), row("x", "hard", "a", 0.3)]
    rows += [row("x", "hard", "b", 0.2), row("y", "class", "a", 0.9), row("y", "class", "b", 0.1)]
    rows.append({"set": "y", "truth": "class", "method": "refused", "error": "too large"})
    assert mean_places(rows) == {"a": (1.5 + 1) / 2, "b": (1.5 + 2) / 2}


def test_a_single_set_is_refused(shared_dir) -> None:
    with pytest.raises(ValueError, match="cannot be evaluated without another set"):
        defaults(shared_dir / "data", ["orl"])
    with pytest.raises(ValueError, match="part 'alone' is not known"):
        defaults(shared_dir / "data", ["orl", "mpeg7"], parts=["alone"])


def test_defaults_hold_on_sets_left_out(shared_dir) -> None:
    record = defaults(shared_dir / "data", ["orl", "esc50", "mousebladder"], ["bcd"], ["joint", "online"])
    json.dumps(record)
    text = format_record(record)
    assert "mean place: lpmt 1.0" in text
    assert {row["set"] for row in record["fitted"]} == {"esc50", "mousebladder", None}
    for name in ("orl", "esc50", "mousebladder"):
        for mode in ("joint", "online"):
            found = {row["method"]: row for row in record["results"] if (row["set"], row["mode"]) == (name, mode)}
            assert found["lpmt"]["mean"] > found["none"]["mean"]
            assert found["lpmt"]["first"] > found["none"]["first"] - 0.015
        assert found.keys() >= {"none", "lpmt"}


def test_the_setting_nearest_to_the_published_one_is_chosen_among_nearly_equal_ones() -> None:
    settings = [{"k": 48}, {"k": 2}, {"k": 4}, {"k": 8}]
    assert choose_setting(np.array([[4.0, 0.0, 0.0, 3.0], [4.0, 0.0, 0.4, 0.0]]), settings) == 2
    words = [{"k": 20, "variant": "paper"}, {"k": 20, "variant": "published"}, {"k": 30, "variant": "paper"}]
    assert choose_setting(np.array([[1.0, 0.1, 0.0]]), words) == 2


def test_grids_of_baselines_contain_the_defaults() -> None:
    for name in GRIDS:
        settings = list_settings(name)
        assert settings[0] == {parameter: values[0] for parameter, values in GRIDS[name].items()}
        assert METHODS[name](**default_settings(name)) == METHODS[name]()
        assert settings.count(default_settings(name)) == 1


def test_baselines_are_chosen_without_the_set_that_is_tested(shared_dir) -> None:
    record = defaults(shared_dir / "data", ["orl", "mousebladder"], ["aqe", "stml"], ["baselines"])
    json.dumps(record)
    rows = {(row["method"], row["set"]): row for row in record["baselines"]}
    assert rows.keys() == {(method, name) for method in ("aqe", "stml") for name in ("orl", "mousebladder")}
    assert all(row["best"] >= max(row["chosen"], row["default"]) for row in rows.values())
    assert rows["stml", "orl"]["settings"].startswith("k=50")  # best on the other set, whose classes are large
    assert "mean loss to the best setting" in format_record(record)
    with pytest.raises(ValueError, match="cannot be combined"):
        defaults(shared_dir / "data", ["orl", "mousebladder"], parts=["joint", "baselines"])
    with pytest.raises(ValueError, match="method 'cas' is not known"):
        defaults(shared_dir / "data", ["orl", "mousebladder"], ["cas"], ["baselines"])


def test_the_cautious_setting_stays_close_to_the_search(shared_dir) -> None:
    record = defaults(shared_dir / "data", ["lfw", "scifact"], parts=["cautious"])
    assert (record["fitted"], record["results"]) == ([], [])
    assert [(row["set"], row["mode"], row["queries"]) for row in record["cautious"]] == [
        ("lfw", "joint", 722), ("lfw", "candidates", 200), ("lfw", "online", 722),
        ("scifact", "joint", 300), ("scifact", "candidates", 200), ("scifact", "online", 300),
    ]  # fmt: skip
    for row in record["cautious"]:
        assert min(row["change"]["nDCG@10"], row["change"]["R@1"]) > -0.3
    assert 'the cautious setting, LPMT(answers="one")' in format_record(record)
