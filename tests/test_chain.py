"""Chains survive the conversion to JSON, and are drawn as SVG."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

import kinrank as kr
from kinrank.chain import Chain, Link


@pytest.fixture(scope="module")
def manifold() -> kr.Manifold:
    rows = np.random.default_rng(3).normal(size=(60, 8))
    return kr.Manifold.build(rows, kr.LPMT(k1=8, k2=3), ids=[f"n{number}" for number in range(60)])


@pytest.mark.parametrize("item", ["n0", "n7", "n30", "n59"])
def test_sent_as_json_it_is_the_same(manifold: kr.Manifold, item: str) -> None:
    output = manifold.explain(manifold.snapshot.vectors[0], item, flows=3)
    again = Chain.from_dict(json.loads(json.dumps(output.to_dict())) | {"version": 3})
    assert again == output
    assert again.to_dict() == output.to_dict()
    assert str(again) == str(output)


def test_an_unreached_item_survives_json() -> None:
    centres = np.repeat(np.eye(8)[:2], 30, axis=0)  # two groups far apart
    rows = centres + 0.01 * np.random.default_rng(0).normal(size=centres.shape)
    output = kr.Manifold.build(rows, kr.LPMT(k1=8, k2=3)).explain(rows[0], 59)
    again = Chain.from_dict(json.loads(json.dumps(output.to_dict())))
    assert not output.reached
    assert again == output
    assert not again.reached


def test_other_dicts_are_not_explanations(manifold: kr.Manifold) -> None:
    output = manifold.explain(manifold.snapshot.vectors[0], "n5").to_dict()
    for key in set(output) - {"entropy"}:  # follows from `moved`
        with pytest.raises(ValueError, match=f"not the output of to_dict: .{key}"):
            Chain.from_dict({name: value for name, value in output.items() if name != key})
    with pytest.raises(ValueError, match="not the output of to_dict"):
        Chain.from_dict(output | {"chain": 3})


def test_the_drawing_is_an_svg_file_with_a_bar_per_step_and_no_markup_of_names() -> None:
    links = (Link("query", 0, "query"), Link("item", 1, "<b>"), Link("item", 2, "y" * 90))
    chain = Chain(links, costs=(1.0, 3.0), total=4.0, moved=(0.2, 0.4), flows=((), ()), rank_before=9, rank_after=1)
    root = ElementTree.fromstring(chain.to_svg())
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[1:] == ["→ <b>", "25%, moves 20%", "→ " + "y" * 23 + "…", "75%, moves 40%"]
    assert texts[0] == "query: rank 9 → 1, d' 4"
    assert "<b>" not in chain._repr_html_()


def test_a_chain_to_nowhere_is_drawn_without_bars() -> None:
    root = ElementTree.fromstring(Chain((Link("item", 3, "far"),)).to_svg())
    assert [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")] == ["far: no chain leads to far"]


def test_renamed_links_keep_costs_and_flows() -> None:
    links = tuple(Link("item", number, number) for number in (0, 4, 7))
    chain = Chain(links, costs=(1.0, 2.0), total=3.0, flows=(((4, 7, 0.5, 2.0),), ()))
    renamed = chain.rename(Link("query", 2, "query 2"), lambda number: Link("item", number - 4, f"n{number}"))
    assert renamed.kinds == ("query", "item", "item")
    assert renamed.items == (2, 0, 3)
    assert renamed.names == ("n4", "n7")
    assert renamed.flows == ((("n4", "n7", 0.5, 2.0),), ())
    assert (renamed.costs, renamed.total) == (chain.costs, chain.total)
