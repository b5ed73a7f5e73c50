"""Transition figure: drawing, self-containment, and button, slider and keys in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank.report.html import document
from kinrank.report.transition import MAX_ITEMS_PER_SIDE, MAX_TRANSFERS, transition_figure
from kinrank.thermodynamics import Stage
from kinrank_bench.paper.thermodynamics import stage
from reference.browser import seen_in

LINE = abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))


def small() -> Stage:
    return stage([0.6, 0.4, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4], LINE)


def large(n: int = 60) -> Stage:
    rng = np.random.default_rng(0)
    points = rng.random((n, 2))
    p, q = rng.dirichlet(np.full(n, 0.5), 2)
    return stage(p, q, np.linalg.norm(points[:, None] - points, axis=2))


def names(one: Stage) -> list[str]:
    return [f"item {number}" for number in one.items]


def data_of(figure: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', figure)[0])
    return found


def test_numbers_equal_those_of_the_flow() -> None:
    one = small()
    data = data_of(transition_figure(one, names(one)))
    entropy = one.entropy_production()
    assert data["at"][0] == 0.0
    assert data["at"][-1] == 1.0
    assert data["values"][0] == [0.0] * 5
    np.testing.assert_allclose(
        data["values"][-1], [one.moved, one.cost(), entropy.total, entropy.states, entropy.environment], rtol=1e-4
    )
    assert set(data["gone"][-1]) == {1.0}
    np.testing.assert_allclose(sorted(data["masses"][0]), sorted(one.start), atol=1e-5)
    np.testing.assert_allclose(sorted(data["masses"][-1]), sorted(one.end), atol=1e-5)


def test_large_transfers_are_drawn_and_the_rest_is_mentioned() -> None:
    one = large()
    figure = transition_figure(one, names(one))
    drawn = figure.count('class="gone"')
    assert 1 <= drawn <= MAX_TRANSFERS < len(one.masses)
    assert figure.count("<li>") <= 2 * MAX_ITEMS_PER_SIDE
    assert f"the first {drawn} of {len(one.masses)} transfers" in figure
    assert len(figure) < 40_000
    assert figure == transition_figure(large(), names(one))


def test_it_is_self_contained_and_names_are_escaped() -> None:
    one, bad = small(), '<script>alert("1")</script>'
    figure = transition_figure(one, [bad] * 4, ["data:image/png;base64,AA==", None, None, None], bad)
    assert bad not in figure
    assert "&lt;script&gt;" in figure
    assert figure.count("<script") == 2  # the data, and the script
    assert not re.search(r"https?://|url\(|@import", figure)
    assert figure.count("<img") == 1
    for tag in ("style", "figure", "ul", "svg", "p", "span"):
        assert len(re.findall(rf"<{tag}[ >]", figure)) == figure.count(f"</{tag}>"), tag


def test_states_that_are_equal_have_nothing_to_play() -> None:
    one = stage([0.5, 0.5], [0.5, 0.5], [[0, 1], [1, 0]])
    figure = transition_figure(one, ["a", "b"], title="Still")
    assert "nothing moves" in figure
    assert "<script" not in figure


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"names": ["a"]}, "names has 1 entries, but there are 4 items"),
        ({"pictures": [None]}, "pictures has 1 entries"),
        ({"pictures": ["http://a/b.png", None, None, None]}, "is not a data URL"),
    ],
)
def test_wrong_input(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        transition_figure(small(), **({"names": list("abcd")} | changed))


LOOK = """
const press = key => slider.dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
const figure = document.querySelectorAll("figure")[1], slider = figure.querySelector("input");
const button = figure.querySelector("button");
const values = () => [...figure.querySelectorAll(".values b")].map(word => word.textContent);
const found = {end: values(), button: button.textContent, hidden: button.hidden || slider.hidden};
slider.value = 0; slider.dispatchEvent(new Event("input"));
found.start = values();
press("ArrowRight");
found.step = [Number(slider.value), figure.querySelectorAll(".gone")[0].style.strokeDashoffset];
press("ArrowLeft");
found.back = Number(slider.value);
button.click(); found.playing = button.textContent; button.click(); found.paused = button.textContent;
found.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
found.others = document.querySelector("figure .values b").textContent;
return found;
"""


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (400, True)])
def test_it_plays_in_a_browser(width: int, dark: bool, tmp_path: Path) -> None:
    one = small()
    figures = transition_figure(large(), names(large()), title="Other") + transition_figure(one, names(one))
    found = seen_in(document("Two", f"<main>{figures}</main>"), LOOK, tmp_path, width, dark)
    entropy = one.entropy_production()
    assert found["end"][0] == f"{100 * one.moved:.1f}%"
    assert found["end"][2:] == [f"{entropy.total:.3f}", f"{entropy.states:+.3f}", f"{entropy.environment:+.3f}"]
    assert found["start"][0] == "0.0%"
    assert found["step"] == [pytest.approx(1 / len(one.masses)), "0"]
    assert found["back"] == 0.0
    assert [found["button"], found["playing"], found["paused"]] == ["Play", "Pause", "Play"]
    assert found["wide"] <= 0
    assert not found["hidden"]
    assert found["others"] != "0.0%"  # each figure has its own slider
