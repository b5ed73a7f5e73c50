"""Declared capabilities: they match the implementation, and a missing one gives a clear error."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import InputError
from kinrank.methods.base import PreparedMethod
from kinrank.methods.capabilities import Capabilities, Capability
from kinrank_bench.paper.lpmt_ablation import LPMTAblation

NAMES: list[Capability] = [field.name for field in fields(Capabilities)]  # type: ignore[misc]
IMPLEMENTATION = {
    "prepared_search": ("prepare_gallery", "state", "neighbors_needed", "search_gallery"),
    "feedback": ("distances_with_marks",),
}


@pytest.mark.parametrize("kind", kr.METHODS.values(), ids=list(kr.METHODS))
def test_declarations_match_the_implementation(kind: type[kr.Method]) -> None:
    for capability, functions in IMPLEMENTATION.items():
        overridden = all(getattr(kind, name, None) not in (None, getattr(PreparedMethod, name)) for name in functions)
        if issubclass(kind, LPMTAblation):  # it inherits from LPMT but compares variants in joint graphs only
            assert overridden
            assert not getattr(kind.capabilities, capability)
        else:
            assert getattr(kind.capabilities, capability) == overridden


@pytest.mark.parametrize("capability", NAMES)
def test_require_raises_if_and_only_if_the_method_cannot(capability: Capability) -> None:
    for kind in kr.METHODS.values():
        method = kind()
        if method.can(capability):
            method.require(capability)
        else:
            with pytest.raises(InputError, match=kind.__name__):
                method.require(capability)


def test_hyper_parameters_can_rule_out_a_capability() -> None:
    assert kr.methods.EIR().can("prepared_search")
    assert not kr.methods.EIR(variant="joint").can("prepared_search")
    with pytest.raises(InputError, match=r"variant='joint'.*use EIR\(variant='paper'\)"):
        kr.methods.EIR(variant="joint").require("prepared_search")
    assert LPMTAblation().can("explain")
    assert not LPMTAblation(distance="jaccard").can("explain")


def test_a_prepared_state_without_record_cannot_change() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 4))
    for changes in (True, False):
        snapshot = kr.Manifold.build(rows, kr.LPMT(k1=5), changes=changes).snapshot
        assert snapshot.can_change is changes
    with pytest.raises(InputError, match="built without the record that is needed to add items; build it with"):
        snapshot.require_changes("add items")
    with pytest.raises(InputError, match="a manifold of DFS cannot add items; change the vectors"):
        kr.Manifold.build(rows, kr.DFS()).snapshot.require_changes("add items")
