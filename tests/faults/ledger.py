"""What a service must hold, kept by its clients: changes that were acknowledged, and those whose outcome is unknown."""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.features import unit
from reference.drawn import KINDS, rows_of

Rows = NDArray[np.float32]
Editions = dict[str, int | None]  # how often an item was replaced; None where it is not there

WIDTH = 12
LIMIT = 40  # queries that the gallery remembers
ALIKE = 0.4  # a query nearer than this to a remembered one may be a near-copy of it
SHAPES = sorted(KINDS)


def row_of(name: str, edition: int) -> Rows:
    """The vector of an item, which follows from its name and its edition: from a tight cluster, a copy, an outlier."""
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
    """What was known at one moment: editions of all items that were ever there, and which of them were changing."""

    editions: Editions
    changing: frozenset[str]
    touches: Counter[str]


class Ledger:
    """The items and the remembered queries of a service, as its clients know them. Many threads may use it.

    Attributes:
        version: of the newest change that was acknowledged.
        counts: how many changes were acknowledged, in doubt, made or not made in the end, and how many checks passed.
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
        """A change is about to be sent."""
        with self._lock:
            self._changing |= set(change.after)
            self._touches.update(change.after.keys())

    def acknowledge(self, change: Change, version: int) -> None:
        with self._lock:
            self._count_version(version)
            self._settle(change, change.after)

    def drop(self, change: Change) -> None:
        """The service said that the change was not made."""
        with self._lock:
            self.counts["not made, as the service said"] += 1
            self._settle(change, change.before)

    def doubt(self, change: Change) -> None:
        """Nobody knows whether the change was made; its items stay as they are until `resolve` finds out."""
        with self._lock:
            self.counts["in doubt"] += 1
            self._doubts.append(change)

    def observed(self, queries: Rows, version: int | None) -> None:
        """Queries were sent to be remembered; without a version, nobody knows whether they will be."""
        with self._lock:
            if version is None:
                self.counts["in doubt"] += 1
            else:
                self._count_version(version)
            self._queries.append((np.inf if version is None else version, queries, version is not None))

    def check_search(self, before: View, found: list[str], everything: bool) -> None:
        """A search that began after `before` returned these items; `everything`: it was asked for all there are."""
        after = self.view()
        assert len(set(found)) == len(found), "a search returned an item twice"
        unknown = [name for name in found if name not in after.editions]
        assert not unknown, f"a search returned {unknown}, which nobody ever put there"
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
        """Items of changes that may be made or not."""
        with self._lock:
            return {name for change in self._doubts for name in change.after}

    def resolve(self, there: set[str], vectors: Mapping[str, Rows], version: int) -> None:
        """Check which items are there, and the vectors of some of them, while nobody changes anything; doubts end here.

        Args:
            there: the names of all items.
            vectors: those of all doubtful items that are there, and of others.
            version: the state that this is of.
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
            assert not wrong, f"{wrong} have vectors that nobody acknowledged"
            self._queries = [(min(when, version), rows, sure) for when, rows, sure in self._queries]
            self.counts["checks of the whole state"] += 1

    def check_remembered(self, rows: Rows) -> None:
        """The remembered queries of a folder, oldest first: those that were sent, and of these the newest."""
        with self._lock:
            sent = sorted(self._queries, key=lambda entry: entry[0])
        assert len(rows) <= LIMIT
        every = unit(np.concatenate([np.ones((1, WIDTH), np.float32), *(entry[1] for entry in sent)]))[1:]
        for row in rows:
            assert (np.abs(every - row).max(axis=1) < 1e-6).any(), "a query is remembered that nobody sent"
        room = LIMIT
        for _, queries, sure in reversed(sent):
            room -= len(queries)
            if room < 0:
                break
            for query in unit(queries) if sure else []:
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
    """Whether all of these items are there in these editions."""
    for name, edition in editions.items():
        if (edition is None) != (name not in there):
            return False
        if edition is not None and not np.allclose(vectors[name], unit(row_of(name, edition)[None])[0], atol=1e-5):
            return False
    return True
