"""The ledger detects a service that loses, invents, splits or reorders changes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from faults.acknowledged_changes import LIMIT, WIDTH, Change, Ledger, Rows, row_of
from faults.service_soak import next_change
from kinrank.vector_input import to_unit_rows

pytestmark = pytest.mark.slow


@pytest.fixture
def ledger() -> Ledger:
    """Return items a and b, and c, which was added as version 1."""
    made = Ledger(["a", "b"])
    change = Change({"c": None}, {"c": 0})
    made.begin(change)
    made.acknowledge(change, 1)
    return made


def vectors(names: Iterable[str], edition: int = 0) -> dict[str, Rows]:
    return {name: to_unit_rows(row_of(name, edition)[None])[0] for name in names}


def resolve(ledger: Ledger, *names: str, version: int = 1) -> None:
    ledger.resolve(set(names), vectors(names), version)


def in_doubt(ledger: Ledger) -> Change:
    """Begin a change that replaces item a and adds d, or neither."""
    change = Change({"a": 0, "d": None}, {"a": 1, "d": 1})
    ledger.begin(change)
    ledger.doubt(change)
    return change


def test_acknowledged_changes_must_exist(ledger: Ledger) -> None:
    resolve(ledger, "a", "b", "c")
    with pytest.raises(AssertionError, match="missing: \\['c'\\]"):
        resolve(ledger, "a", "b")
    with pytest.raises(AssertionError, match="unexpected: \\['d'\\]"):
        ledger.resolve({"a", "b", "c", "d"}, {}, 1)
    with pytest.raises(AssertionError, match="never acknowledged"):
        ledger.resolve({"a", "b", "c"}, vectors("a", edition=1), 1)
    with pytest.raises(AssertionError, match="older than 1"):
        resolve(ledger, "a", "b", "c", version=0)


def test_versions_are_given_once(ledger: Ledger) -> None:
    change = Change({"a": 0}, {"a": None})
    ledger.begin(change)
    with pytest.raises(AssertionError, match="acknowledged as version 1"):
        ledger.acknowledge(change, 1)


@pytest.mark.parametrize("made", [True, False])
def test_a_doubtful_change_is_made_or_not(ledger: Ledger, made: bool) -> None:
    in_doubt(ledger)
    assert ledger.doubtful == {"a", "d"}
    found = vectors("bc") | (vectors("ad", edition=1) if made else vectors("a"))
    ledger.resolve(set(found), found, 2)
    assert ledger.counts["in doubt and made"] == made
    assert ledger.view().editions == {"a": int(made), "b": 0, "c": 0, "d": 1 if made else None}
    assert not ledger.doubtful


@pytest.mark.parametrize("half", [vectors("a") | vectors("d", edition=1), vectors("a", edition=1)])
def test_a_doubtful_change_is_never_half_made(ledger: Ledger, half: dict[str, Rows]) -> None:
    in_doubt(ledger)
    found = vectors("bc") | half
    with pytest.raises(AssertionError, match="half made"):
        ledger.resolve(set(found), found, 2)


def test_a_dropped_change_was_not_made(ledger: Ledger) -> None:
    change = Change({"a": 0}, {"a": None})
    ledger.begin(change)
    ledger.drop(change)
    with pytest.raises(AssertionError, match="missing: \\['a'\\]"):
        resolve(ledger, "b", "c")


def test_searches_return_existing_items(ledger: Ledger) -> None:
    remove = Change({"c": 0}, {"c": None})
    before = ledger.view()
    ledger.begin(remove)
    during = ledger.view()
    ledger.acknowledge(remove, 2)
    after = ledger.view()
    for found in (["a", "b", "c"], ["a", "b"]):
        ledger.check_search(before, found, everything=True)
        ledger.check_search(during, found, everything=True)
    ledger.check_search(after, ["b", "a"], everything=True)
    ledger.check_search(after, ["b"], everything=False)
    for wrong, message in (
        (["a", "b", "c"], "removed before"),
        (["a"], "lacks \\['b'\\]"),
        (["a", "a", "b"], "twice"),
        (["a", "b", "z"], "never put there"),
    ):
        with pytest.raises(AssertionError, match=message):
            ledger.check_search(after, wrong, everything=True)


def test_observed_queries_are_the_newest_sent(ledger: Ledger) -> None:
    queries = to_unit_rows(np.random.default_rng(0).normal(size=(LIMIT + 6, WIDTH)).astype(np.float32))
    for number in range(0, len(queries), 2):
        ledger.observed(queries[number : number + 2], number + 2)
    ledger.check_remembered(queries[6:])
    with pytest.raises(AssertionError, match="not remembered"):
        ledger.check_remembered(queries[:LIMIT])
    with pytest.raises(AssertionError, match="never sent"):
        ledger.check_remembered(-queries[6:])
    ledger.observed(-queries[:4], None)  # unknown outcome: the oldest four may have been dropped
    ledger.check_remembered(queries[6:])
    ledger.check_remembered(np.concatenate([queries[10:], -queries[:4]]))


def test_writers_change_their_own_items_only() -> None:
    from random import Random

    ledger, random, kinds = Ledger(["base"]), Random(0), set()
    for version in range(1, 200):
        view = ledger.view()
        change = next_change(random, view.editions, view.changing, "t0-")
        assert change is not None
        assert all(name.startswith("t0-") for name in change.after)
        assert all(view.editions.get(name) == edition for name, edition in change.before.items())
        assert all(change.before[name] != edition for name, edition in change.after.items())
        kinds.add((change.removes, set(change.before.values()) == {None}))
        ledger.begin(change)
        ledger.acknowledge(change, version)
    assert kinds == {(True, False), (False, True), (False, False)}
