"""The expected content of a service, recorded by its clients: acknowledged changes, and those with unknown outcome."""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.vector_input import to_unit_rows
from reference.random_galleries import KINDS, rows_of

Rows = NDArray[np.float32]
Editions = dict[str, int | None]  # number of replacements of an item; None if it does not exist

WIDTH = 12
LIMIT = 40  # maximum number of observed queries
ALIKE = 0.4  # a query nearer than this to an observed one may be a near-copy
SHAPES = sorted(KINDS)


def row_of(name: str, edition: int) -> Rows:
    """Return the vector of an item, derived from its id and its edition: from a tight cluster, a copy, an outlier."""
    seed = zlib.crc32(f"{name}/{edition}".encode())
    rows = rows_of(SHAPES[seed % len(SHAPES)], seed, 1, WIDTH)
    return rows.reshape(WIDTH)


@dataclass(frozen=True)
class Change:
    """The editions of some items before and after a change; all of them change, or none does."""

    before: Editions
    after: Editions

    @property
    def removes(self) -> bool:
        return all(edition is None for edition in self.after.values())


class View(NamedTuple):
    """The state known at one moment: editions of all items that ever existed, and which of them were changing."""

    editions: Editions
    changing: frozenset[str]
    touches: Counter[str]


class Ledger:
    """The items and observed queries of a service, as seen by its clients. Thread-safe.

    Attributes:
        version: version of the newest acknowledged change.
        counts: numbers of acknowledged and doubtful changes, of doubtful ones that were made or not, and of checks.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.version, self.counts = 0, Counter[str]()
        self._lock = threading.Lock()
        self._editions: Editions = dict.fromkeys(names, 0)
        self._changing: set[str] = set()
        self._touches: Counter[str] = Counter()
        self._versions: set[int] = set()
        self._doubts: list[Change] = []
        self._queries: list[tuple[float, Rows, bool]] = []  # version, rows, whether it was acknowledged

    def view(self) -> View:
        with self._lock:
            return View(dict(self._editions), frozenset(self._changing), Counter(self._touches))

    def begin(self, change: Change) -> None:
        """Record that a change is about to be sent."""
        with self._lock:
            self._changing |= set(change.after)
            self._touches.update(change.after.keys())

    def acknowledge(self, change: Change, version: int) -> None:
        with self._lock:
            self._count_version(version)
            self._settle(change, change.after)

    def drop(self, change: Change) -> None:
        """Record that the service refused the change."""
        with self._lock:
            self.counts["not made, as the service said"] += 1
            self._settle(change, change.before)

    def doubt(self, change: Change) -> None:
        """Record that the outcome is unknown; its items stay as they are until `resolve` finds out."""
        with self._lock:
            self.counts["in doubt"] += 1
            self._doubts.append(change)

    def observed(self, queries: Rows, version: int | None) -> None:
        """Record that queries were sent to be observed; without a version, the outcome is unknown."""
        with self._lock:
            if version is None:
                self.counts["in doubt"] += 1
            else:
                self._count_version(version)
            self._queries.append((np.inf if version is None else version, queries, version is not None))

    def check_search(self, before: View, found: list[str], everything: bool) -> None:
        """Check the items of a search that started after `before`; `everything`: the search requested all items."""
        after = self.view()
        assert len(set(found)) == len(found), "a search returned an item twice"
        unknown = [name for name in found if name not in after.editions and name not in after.changing]
        assert not unknown, f"a search returned {unknown}, which was never put there"
        still = [
            name
            for name in before.editions
            if name not in before.changing and before.touches[name] == after.touches[name]
        ]
        there = {name for name in still if before.editions[name] is not None}
        gone = [name for name in found if name in still and name not in there]
        assert not gone, f"a search returned {gone}, which were removed before it began"
        lost = there - set(found)
        assert not (everything and lost), f"a search of everything lacks {sorted(lost)}"
        with self._lock:
            self.counts["checks of searches"] += 1

    @property
    def doubtful(self) -> set[str]:
        """Return the items of changes with unknown outcome."""
        with self._lock:
            return {name for change in self._doubts for name in change.after}

    def resolve(self, there: set[str], vectors: Mapping[str, Rows], version: int) -> None:
        """Check the existing items and some of their vectors while nothing changes; this resolves all doubts.

        Args:
            there: the ids of all items.
            vectors: those of all doubtful items that exist, and of others.
            version: version of this state.
        """
        with self._lock:
            assert version >= self.version, f"version {version} is older than {self.version}, which was acknowledged"
            assert not self._changing - {name for change in self._doubts for name in change.after}
            for change in self._doubts:
                made = [after for after in (change.after, change.before) if _holds(there, vectors, after)]
                assert made, f"a change is half made: {change}, {sorted(set(change.after) & there)} are there"
                self.counts["in doubt and made" if made[0] is change.after else "in doubt and not made"] += 1
                self._settle(change, made[0])
            self._doubts.clear()
            expected = {name for name, edition in self._editions.items() if edition is not None}
            assert there == expected, f"missing: {sorted(expected - there)}; unexpected: {sorted(there - expected)}"
            wrong = [name for name in vectors if not _holds(there, vectors, {name: self._editions[name]})]
            assert not wrong, f"{wrong} have vectors that were never acknowledged"
            self._queries = [(min(when, version), rows, sure) for when, rows, sure in self._queries]
            self.counts["checks of the whole state"] += 1

    def check_remembered(self, rows: Rows) -> None:
        """Check the observed queries of a folder, oldest first: they were sent, and are the newest of these."""
        with self._lock:
            sent = sorted(self._queries, key=lambda entry: entry[0])
        assert len(rows) <= LIMIT
        every = to_unit_rows(np.concatenate([np.ones((1, WIDTH), np.float32), *(entry[1] for entry in sent)]))[1:]
        for row in rows:
            assert (np.abs(every - row).max(axis=1) < 1e-6).any(), "a query is stored that was never sent"
        room = LIMIT
        for _, queries, sure in reversed(sent):
            room -= len(queries)
            if room < 0:
                break
            for query in to_unit_rows(queries) if sure else []:
                near = np.linalg.norm(rows - query, axis=1).min(initial=np.inf)
                assert near < ALIKE, "an acknowledged query is not remembered"
        with self._lock:
            self.counts["checks of remembered queries"] += 1

    def _count_version(self, version: int) -> None:
        assert version not in self._versions, f"two changes were acknowledged as version {version}"
        self._versions.add(version)
        self.version = max(self.version, version)
        self.counts["acknowledged"] += 1

    def _settle(self, change: Change, editions: Editions) -> None:
        self._editions.update(editions)
        self._changing -= set(change.after)
        self._touches.update(change.after.keys())


def _holds(there: set[str], vectors: Mapping[str, Rows], editions: Editions) -> bool:
    """True if all of these items exist in these editions."""
    for name, edition in editions.items():
        if (edition is None) != (name not in there):
            return False
        if edition is not None and not np.allclose(
            vectors[name], to_unit_rows(row_of(name, edition)[None])[0], atol=1e-5
        ):
            return False
    return True
