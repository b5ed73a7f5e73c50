"""`Method.seconds`: an estimate before anything is computed, compared with the time that one core needs."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from kinrank.methods import BCD, CAS, EIR, LPMT, METHODS, Method
from kinrank.methods.base import for_candidates
from kinrank.methods.learned_method import LearnedMethod
from kinrank.reranking import rerank

ITEMS, DIMENSIONS = 1100, 32  # more than the small graphs of LPMT's diffusion
BUSY = 4.0  # largest slowdown against the machine of the estimates


def random(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, DIMENSIONS)).astype(np.float32)


def tight(count: int) -> np.ndarray:
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(count // 50, DIMENSIONS))[chance.integers(0, count // 50, count)]
    return (centres + 0.05 * chance.normal(size=(count, DIMENSIONS))).astype(np.float32)


SLOW = [
    (CAS(k2=200, k3=200, k5=200), random),
    (LPMT(), tight),
    (LPMT(support=160, k2=20, path_k=20), random),
    (EIR(variant="joint"), random),
    (BCD(mu=0.01), tight),
]


@pytest.mark.parametrize(
    ("method", "rows"), SLOW, ids=lambda one: repr(one) if isinstance(one, Method) else one.__name__
)
def test_slow_methods_are_known_to_be_slow(method: Method, rows: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINRANK_THREADS", "1")
    assert callable(rows)
    gallery = rows(ITEMS)
    rerank(gallery[:1], gallery, method, candidates=ITEMS)  # compiles the loops
    expected = method.seconds(ITEMS, DIMENSIONS)
    for _ in range(5):  # until it is fast enough: other programs slow down caches and memory, too
        started = time.process_time()
        rerank(gallery[:1], gallery, method, candidates=ITEMS)
        if (taken := time.process_time() - started) < BUSY * expected:
            break
    assert taken < BUSY * expected, f"took {taken:.2f} s, and {expected:.2f} s were expected"
    assert expected > 0.15, "this one is not slow, and does not belong here"


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if not issubclass(kind, LearnedMethod)])
def test_more_of_anything_takes_longer(name: str) -> None:
    method = for_candidates(METHODS[name]())
    once = method.seconds(500, 64)
    assert 0 < once < method.seconds(1000, 64) < method.seconds(2000, 64)
    assert once < method.seconds(500, 2048)
    for one in method.parameters():
        value = method.value_in_use(one.name)
        if one.counts and not (one.name == "support" and value == 0):  # 0 stands for all entries
            more = replace(method, **{one.name: 2 * value + 1})
            assert more.seconds(2000, 64) >= method.seconds(2000, 64), one.name


def test_parameters_that_are_no_counts_have_their_part() -> None:
    for slower in (LPMT(tolerance=1e-6), LPMT(mu=0.01), LPMT(direct_mu=0.01), LPMT(transport="exact")):
        assert slower.seconds(2000, 64) > 1.5 * LPMT().seconds(2000, 64), slower
    assert LPMT(direct=0.0).seconds(2000, 64) < LPMT().seconds(2000, 64)
