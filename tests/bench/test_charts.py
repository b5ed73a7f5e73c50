"""Line charts: for any values, the drawing is complete and inside its frame."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from kinrank.plots import standalone_svg
from kinrank_bench.charts import HEIGHT, WIDTH, Axis, Series, draw_chart


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([3], [5]),
        ([1, 2], [0, 0]),
        ([1, 2, 3], [1e-9, 1, 1e9]),
        ([0, 1], [-5, 5]),
        ([250, 5000], [0.05, 4.8]),
        ([], []),
    ],
)
@pytest.mark.parametrize("factors", [False, True])
def test_every_dot_is_inside(x: list[float], y: list[float], factors: bool) -> None:
    text = standalone_svg(
        draw_chart([Series("one", x, y)], Axis("k", factors), Axis("%", factors), "a chart", [(2, "default")])
    )
    found = ElementTree.fromstring(text)
    dots = found.findall("{http://www.w3.org/2000/svg}circle")
    assert len(dots) == len(x)
    for dot in dots:
        if not factors or min(*x, *y) > 0:
            assert 0 <= float(dot.attrib["cx"]) <= WIDTH
            assert 0 <= float(dot.attrib["cy"]) <= HEIGHT


def test_names_are_escaped_and_lines_differ_without_colour() -> None:
    text = draw_chart([Series("<b>", [1, 2], [1, 2]), Series("&", [1, 2], [2, 1])], Axis("<x>"), Axis("y"), "t<i>tle")
    ElementTree.fromstring(text)
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    assert "t&lt;i&gt;tle" in text
    assert len(re.findall("stroke-dasharray", text)) == 2  # the second line, and its sample in the legend


def test_two_guides_do_not_write_over_each_other() -> None:
    text = draw_chart([Series("", [1, 9], [1, 2])], Axis("x"), Axis("y"), "t", [(5, "default"), (4, "paper")])
    assert re.search(r'text-anchor="end">paper<', text)
    assert re.search(r'text-anchor="start">default<', text)
