"""Schema of methods and parameters for the page, derived only from the declarations of the methods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kinrank
from kinrank.methods import METHODS
from kinrank.methods.learned_method import LearnedMethod
from kinrank.parameters import Parameter
from kinrank.web.page_data.method_schema import describe_methods, make_slider
from kinrank_bench.random_weights import add_random_weights
from web.page_gallery import arcs, gallery

RUNNING = [name for name, kind in METHODS.items() if not issubclass(kind, LearnedMethod)]


def test_a_learned_method_is_listed_only_for_its_gallery_and_without_its_file(tmp_path: Path) -> None:
    rows = arcs()
    method = add_random_weights("lattqe", tmp_path / "w.npz", rows.shape[1])
    output = {one["name"]: one for one in describe_methods(kinrank.Manifold.build(rows, method))}
    assert set(output) == {*RUNNING, "lattqe"}
    assert [one["name"] for one in output["lattqe"]["parameters"]] == ["k", "kdba"]


def test_every_method_and_parameter_is_there_and_fits_into_json() -> None:
    output = json.loads(json.dumps(describe_methods(gallery()), allow_nan=False))
    assert [one["name"] for one in output] == RUNNING
    for one, kind in zip(output, [METHODS[name] for name in RUNNING], strict=True):
        assert [part["name"] for part in one["parameters"]] == [part.name for part in kind.parameters()]
        assert one["summary"].endswith(".")
        assert len(one["summary"]) < 150
        assert all(part["meaning"] for part in one["parameters"])


@pytest.mark.parametrize("name", RUNNING)
def test_sliders_hold_allowed_values_and_the_default(name: str) -> None:
    for output, declared in zip(_told(name), METHODS[name].parameters(), strict=True):
        slider = output["slider"]
        if declared.choices is not None or declared.kind is bool or declared.low == declared.high:
            assert slider is None
            continue
        for end in (slider["min"], slider["max"]):
            assert declared.check(name, end) == end
        assert 0 < slider["step"] < slider["max"] - slider["min"]
        assert not slider["log"] or slider["min"] > 0
        if declared.default is not None:
            assert slider["min"] <= declared.default <= slider["max"]
            steps = (declared.default - (0 if slider["log"] else slider["min"])) / slider["step"]
            assert steps == pytest.approx(round(steps), abs=1e-6)


def _told(name: str) -> list[dict[str, object]]:
    return next(one["parameters"] for one in describe_methods(gallery()) if one["name"] == name)  # type: ignore[no-any-return]


def test_measured_values_are_those_of_the_prepared_method() -> None:
    lpmt = {one["name"]: one for one in _told("lpmt")}
    assert lpmt["rho"]["optional"]
    assert lpmt["rho"]["measured"] == gallery().info()["facts"]["rho"]
    assert (lpmt["theta"]["measured"], lpmt["theta"]["follows"]) == (0.4, "answers")
    assert lpmt["answers"]["choices"] == ["one", "few", "some", "many"]
    assert lpmt["epsilon"]["measured"] is None
    assert all(one["measured"] is None for one in _told("lpmt-ablation") if not one["follows"])


def test_a_slider_includes_the_prepared_value() -> None:
    manifold = kinrank.Manifold.build(arcs(), kinrank.LPMT(k2=33, rho=2.0))
    lpmt = {
        one["name"]: one for one in next(e["parameters"] for e in describe_methods(manifold) if e["name"] == "lpmt")
    }
    assert lpmt["k2"]["slider"]["max"] >= 33
    assert lpmt["rho"]["measured"] is None


@pytest.mark.parametrize(
    ("low", "high", "default", "kind", "expected"),
    [
        (1, None, 4, int, {"min": 1, "max": 16, "step": 1, "log": False}),
        (0, None, 0, int, {"min": 0, "max": 10, "step": 1, "log": False}),
        (1, None, 400, int, {"min": 1, "max": 1600, "step": 1, "log": True}),
        (0, 1, 0.4, float, {"min": 0.0, "max": 1.0, "step": 0.01, "log": False}),
        (0.01, 10_000, 0.5, float, {"min": 0.01, "max": 2.0, "step": 0.01, "log": True}),
        (0, 1, 1e-6, float, {"min": 1e-8, "max": 1.0, "step": 1e-8, "log": True}),
        (0, 0, 0.0, float, None),
        (None, None, None, float, None),
    ],
)
def test_ends_of_sliders(
    low: float | None, high: float | None, default: float | None, kind: type, expected: dict[str, object] | None
) -> None:
    assert make_slider(Parameter("x", kind, default, "", low, high, None, False), [default]) == expected


def test_sliders_start_above_an_excluded_low_end() -> None:
    slider = make_slider(Parameter("x", float, 3.0, "", 0, 100, None, True), [3.0])
    assert slider == {"min": 0.1, "max": 12.0, "step": 0.1, "log": False}
