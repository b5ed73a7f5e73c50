"""Parameters without labels: neighbourhoods of half the size where items have few kin, for every method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kinrank as kr
from kinrank.diagnosis.neighborhood_facts import Facts
from kinrank.diagnosis.parameter_choice import NOT_HALVED, choose_parameters, has_few_kin, resolve_methods
from kinrank.methods import METHODS

MANY_KIN = Facts(500, 64, 500, 0.5, 10.0, 1.0, 0.7, 0.4, 0.8, 1.0, 20)
FEW_KIN = replace(MANY_KIN, drop=5.0, kin=2)


def test_few_kin_is_what_is_known_or_else_the_drop() -> None:
    assert has_few_kin(FEW_KIN)
    assert not has_few_kin(MANY_KIN)
    assert has_few_kin(MANY_KIN, 3)
    assert not has_few_kin(FEW_KIN, 4)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_left_alone_or_halved(name: str) -> None:
    method = METHODS[name]()
    assert choose_parameters(method, MANY_KIN) == method
    assert choose_parameters(method, FEW_KIN, 10) == method
    halved = choose_parameters(method, FEW_KIN)
    for entry in method.parameters():
        before, after = getattr(method, entry.name), getattr(halved, entry.name)
        if before != after and entry.name == "answers":
            assert (name.startswith("lpmt"), after) == (True, "few")
        elif before != after:
            assert entry.name.startswith("k")
            assert after == max(1, (before + 1) // 2)
    if name in NOT_HALVED:
        assert halved == method
    assert choose_parameters(halved, FEW_KIN) == halved  # chosen values stay


def test_lpmt_and_aqe() -> None:
    assert choose_parameters(kr.LPMT(), FEW_KIN) == kr.LPMT(answers="few")
    assert choose_parameters(kr.methods.AQE(), FEW_KIN).k == (kr.methods.AQE().k + 1) // 2
    for right, answers in ((1, "one"), (1.4, "one"), (2, "few"), (4, "few"), (5, "some"), (100, "some"), (196, "many")):
        assert choose_parameters(kr.LPMT(), MANY_KIN, right) == kr.LPMT(answers=answers)
        assert choose_parameters(kr.LPMT(), FEW_KIN, right) == kr.LPMT(answers=answers)


def test_somebodys_choice_stays() -> None:
    assert choose_parameters(kr.LPMT(answers="many"), FEW_KIN, 1) == kr.LPMT(answers="many")
    assert choose_parameters(kr.LPMT(theta=0.2), FEW_KIN) == kr.LPMT(theta=0.2, answers="few")


@pytest.mark.parametrize("name", [name for name in METHODS if name != "superglobal"])
def test_what_is_chosen_runs(name: str) -> None:
    rows = np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32)
    method = choose_parameters(METHODS[name](), FEW_KIN)
    try:
        ranking = kr.rerank(None, rows, method)
    except (ValueError, OSError, ImportError):
        with pytest.raises((ValueError, OSError, ImportError)):  # it refuses these data with its defaults, too
            kr.rerank(None, rows, name)
        return
    assert len(ranking) == 30


def test_methods_by_name() -> None:
    assert resolve_methods("aqe") == [kr.methods.AQE()]
    assert resolve_methods(["LPMT", kr.methods.AQE(k=3)]) == [kr.LPMT(), kr.methods.AQE(k=3)]
    every = [method.name for method in resolve_methods("all")]
    assert "lpmt" in every
    assert not {"none", "lpmt-ablation", "lpmt-as-published"} & set(every)
    with pytest.raises(ValueError, match="methods is empty; give at least one, such as lpmt"):
        resolve_methods([])
    with pytest.raises(ValueError, match="'magic' is not known"):
        resolve_methods(["magic"])
