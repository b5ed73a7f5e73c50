"""Every parameter of every method at both ends of its range: a finite ranking, in time, and without a warning."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank.methods import METHODS, Method
from kinrank.methods.base import full_repr, limit_counts
from kinrank.parameters import MAX_COUNT, Parameter

pytestmark = pytest.mark.slow

SECONDS = 90.0  # on a busy machine; most cases take a tenth of a second, 10,000 epochs of GSS five
ROWS = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
TINY = 1e-300


def ends(declared: Parameter) -> list[float]:
    """Return its smallest and its largest value; for a number of items far more than there are."""
    assert declared.low is not None, f"{declared.name} has no lower end"
    if declared.kind is int:
        return [int(declared.low), *([10**9, 10**400] if declared.counts else [int(declared.high or 0)])]
    assert declared.high is not None, f"{declared.name} has no upper end"
    least = [np.nextafter(declared.low, np.inf), 1e-6] if declared.above_low else [declared.low]
    return [*map(float, least), *([TINY] if declared.low == 0 < declared.high else []), declared.high]


def cases() -> Iterator[Any]:
    """Yield one case per end of each numeric parameter."""
    for name, kind in METHODS.items():
        for declared in kind.parameters():
            if declared.kind in (int, float):
                for value in ends(declared):
                    shown = f"{value:.3g}" if value < 1e300 else "beyond every float"
                    yield pytest.param(kind, {declared.name: value}, id=f"{name} {declared.name}={shown}")


def in_time(work: Any) -> None:
    """Run the work in a thread, so that an endless loop fails the test instead of blocking it."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # reported by the test itself
            failed.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(SECONDS)
    assert not worker.is_alive(), f"not done after {SECONDS:g} s"
    if failed:
        raise failed[0]


def use(method: Method) -> None:
    """Rank jointly, with every item as a query, per query, and in a prepared gallery if the method supports it."""
    joint = kinrank.rerank(ROWS[:5], ROWS[5:], method)
    assert np.isfinite(joint.distances).all()
    assert (np.sort(joint.indices, axis=1) == np.arange(35)).all()
    assert np.isfinite(kinrank.rerank(None, ROWS, method).distances).all()
    assert np.isfinite(kinrank.rerank(ROWS[:2], ROWS[5:], method, candidates=10).distances).all()
    if method.capabilities.prepared_search:
        manifold = kinrank.Manifold.build(ROWS[5:], method)
        found = manifold.search(ROWS[:5], k=10**9)
        assert found.indices.shape == (5, 35)
        assert np.isfinite(found.distances[found.indices >= 0]).all()


@pytest.mark.parametrize(("kind", "given"), list(cases()))
def test_both_ends_of_every_parameter_give_a_ranking(
    kind: type[Method], given: dict[str, Any], ready: Callable[..., Method]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_time(lambda: use(replace(ready(kind.name, ROWS.shape[1]), **given)))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("bsd", {"mu": 1e-6}),
        ("bcd", {"mu": 1e-4}),
        ("bsd", {"tolerance": 1e-300}),
        ("lpmt", {"iterations": 10**9}),
        ("lpmt", {"mu": 1e-6}),
        ("cas", {"sigma": 1e300}),
        ("rdp", {"sigma": 1e300}),
        ("dfs", {"maxiter": 10**30}),
        ("lpmt", {"sigma": 1e-300}),
    ],
)
def test_what_would_not_end_or_not_be_a_number_is_refused(name: str, given: dict[str, Any]) -> None:
    (parameter,) = given
    with pytest.raises(ValueError, match=rf"{parameter}=.* is not allowed; give a .* >= .* and <= "):
        METHODS[name](**given)


def test_more_than_there_are_means_all() -> None:
    """In every mode, and before memory is estimated."""
    many = kinrank.LPMT(k1=10**9, k2=10**9, k=10**9, path_k=10**9, support=10**9)
    all_there = kinrank.LPMT(k1=40, k2=40, k=80, path_k=40, support=40)
    for candidates in (None, 10**9):
        mine, theirs = (
            kinrank.rerank(ROWS[:5], ROWS[5:], method, candidates=candidates) for method in (many, all_there)
        )
        np.testing.assert_array_equal(mine.indices, theirs.indices)
        np.testing.assert_array_equal(mine.distances, theirs.distances)
    manifold = kinrank.Manifold.build(ROWS[5:], many)
    manifold.add(ROWS[:3])
    manifold.remove([4])
    assert manifold.search(ROWS[:2], k=10**9, depth=10**9).indices.shape == (2, 37)
    assert kinrank.rerank(ROWS[:2], ROWS[5:], "aqe", candidates=10**9, k=10**9).depth == 35


@pytest.mark.parametrize("kind", METHODS.values(), ids=list(METHODS))
def test_memory_is_estimated_for_the_items_there_are(kind: type[Method]) -> None:
    counts = {entry.name: 10**9 for entry in kind.parameters() if entry.counts}
    limited = limit_counts(kind(**counts), 40)
    assert all(getattr(limited, name) == 40 for name in counts)
    assert limited.memory(40, 5, 8) < 2**30
    assert limit_counts(kind(), 10**6) == kind()


def test_a_number_beyond_everything_is_kept_as_a_plain_one() -> None:
    assert kinrank.methods.AQE(k=10**400).k == MAX_COUNT
    with pytest.raises(ValueError, match="alpha="):
        kinrank.AlphaQE(alpha=10**400)
    with pytest.raises(ValueError, match="k="):
        kinrank.methods.AQE(k=-(10**400))


def test_what_is_printed_is_what_differs_from_the_defaults() -> None:
    assert repr(kinrank.LPMT()) == "LPMT()"
    assert repr(kinrank.LPMT(k2=7, rho=2)) == "LPMT(k2=7, rho=2.0)"
    assert str(kinrank.methods.AugmentedAQE(kdba=2)) == "AugmentedAQE(kdba=2)"
    assert kinrank.rerank(ROWS[:2], ROWS[2:], kinrank.methods.AQE(k=3)).meta["method"] == "AQE(k=3)"
    whole = full_repr(kinrank.LPMT(k2=7))
    assert all(f"{entry.name}=" in whole for entry in kinrank.LPMT.parameters())
    assert eval(whole, {"LPMT": kinrank.LPMT}) == kinrank.LPMT(k2=7)


@pytest.mark.parametrize("name", ["LPMT", "lpmt", " Lpmt "])
def test_a_method_has_one_name_however_it_is_written(name: str) -> None:
    assert kinrank.methods.resolve_method(name) == kinrank.LPMT()


@pytest.mark.parametrize("name", ["k-reciprocal", "K_Reciprocal", "KReciprocal", "kreciprocal"])
def test_dashes_underscores_and_class_names_do(name: str) -> None:
    assert kinrank.methods.find_method(name) is kinrank.KReciprocal
