"""Explanations that were sent as JSON are what they were."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kinrank as kr
from kinrank.manifold.explanation import OnlineExplanation


@pytest.fixture(scope="module")
def manifold() -> kr.Manifold:
    rows = np.random.default_rng(3).normal(size=(60, 8))
    return kr.Manifold.build(rows, kr.LPMT(k1=8, k2=3), ids=[f"n{number}" for number in range(60)])


@pytest.mark.parametrize("item", ["n0", "n7", "n30", "n59"])
def test_sent_as_json_it_is_the_same(manifold: kr.Manifold, item: str) -> None:
    told = manifold.explain(manifold._snapshot.vectors[0], item, flows=3)
    again = OnlineExplanation.from_dict(json.loads(json.dumps(told.to_dict())) | {"version": 3})
    assert again == told
    assert again.to_dict() == told.to_dict()
    assert str(again) == str(told)


def test_no_chain_is_the_same_too() -> None:
    centres = np.repeat(np.eye(8)[:2], 30, axis=0)  # two groups far apart
    rows = centres + 0.01 * np.random.default_rng(0).normal(size=centres.shape)
    told = kr.Manifold.build(rows, kr.LPMT(k1=8, k2=3)).explain(rows[0], 59)
    again = OnlineExplanation.from_dict(json.loads(json.dumps(told.to_dict())))
    assert not told.reached
    assert again == told
    assert not again.reached


def test_what_is_no_explanation_is_refused(manifold: kr.Manifold) -> None:
    told = manifold.explain(manifold._snapshot.vectors[0], "n5").to_dict()
    for key in told:
        with pytest.raises(ValueError, match=f"no explanation.*{key}"):
            OnlineExplanation.from_dict({name: value for name, value in told.items() if name != key})
    with pytest.raises(ValueError, match="no explanation"):
        OnlineExplanation.from_dict(told | {"chain": 3})
