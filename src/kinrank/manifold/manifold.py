"""Manifold: a gallery prepared by a method, searched by queries that were never seen, saved and asked why."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.files.lock import WAIT, alone_in, seconds
from kinrank.files.paths import resolved
from kinrank.manifold import files, reading
from kinrank.manifold.beside import NotFolded, left_out
from kinrank.manifold.building import built
from kinrank.manifold.changes import (
    Synced,
    added,
    check_observes,
    forgotten,
    observed,
    refreshed,
    removed,
    synced,
    upserted,
)
from kinrank.manifold.explanation import OnlineExplanation, explained
from kinrank.manifold.journal import Journal
from kinrank.manifold.log import Log
from kinrank.manifold.replay import LogApplied, leftover_log, replayed_log, sentence_about
from kinrank.manifold.searching import a_distance, answered, within
from kinrank.manifold.snapshot import Snapshot
from kinrank.manifold.telling import SearchedExactly, cost_of, facts_of, in_a_line
from kinrank.manifold.travelling import Parts, parts_of, put_together
from kinrank.methods import Method
from kinrank.parameters import whole_number
from kinrank.progress import Progress, Show
from kinrank.ranking import Ranking
from kinrank.stores import Store


class Manifold:
    """A gallery prepared once by a method that can be served; for LPMT: states and the costs of all local transitions.

    Many threads may search one Manifold at the same time, while another adds and removes items. A Manifold can be
    pickled, and so be sent to other processes by joblib, Ray, Spark or Dask; it travels by its arrays.

    Example:
        >>> manifold = kinrank.Manifold.build(gallery, kinrank.LPMT(), ids=names)
        >>> manifold.search(queries, k=10).ids
        >>> manifold.save("gallery.manifold")
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Not called by users: see `build` and `load`."""
        self._snapshot = snapshot
        self._changing = threading.Lock()
        self._journal = Journal()

    @classmethod
    def build(
        cls,
        gallery_or_store: ArrayLike | Store,
        method: Method | str | None = None,
        ids: ArrayLike | None = None,
        max_memory: int | str | None = None,
        progress: Show = None,
        changes: bool = True,
        metric: str | None = None,
        observed_limit: int | None = None,
    ) -> Manifold:
        """Prepare a gallery; time and memory grow with n, but for the search of its neighbours where it is exact.

        Args:
            gallery_or_store: (n, d) rows, searched exactly; or a Store that knows its length, which is then asked for
                the neighbours of its own items, and later for those of queries. A vector database is read once, its ids
                and vectors; neighbours of items are found here, those of queries by the database.
            method: a Method that can be served, or its name; LPMT() unless given.
            ids: one name per item: texts, whole numbers (up to 64 bits, also unsigned) or UUIDs, which become their
                text; no two alike, and not numbers beside texts. Item numbers unless given.
            max_memory: bytes, or words such as "2GB"; four fifths of what is free unless given.
            progress: True for a bar, or a callable `f(label, done, total)`.
            changes: whether `add`, `remove`, `observe` are to be possible; LPMT keeps about 0.9 kB per item for them.
            metric: "cosine", or "euclidean" where the length of vectors matters, as for `rerank`.
            observed_limit: how many queries are remembered at most, see `observe`; a third of the items unless given.
        """
        report = Progress(progress)
        return cls(built(gallery_or_store, method, ids, max_memory, report, changes, metric, observed_limit))

    def __len__(self) -> int:
        return len(self._snapshot)

    def __repr__(self) -> str:
        return in_a_line(self._snapshot)

    @property
    def method(self) -> Method:
        return self._snapshot.method

    @property
    def ids(self) -> NDArray[Any]:
        """(n,) the names of the items: Python texts (dtype object), or int64 (uint64 where a number needs it).

        Where none were given, the numbers of the items, which stay what they are when others are removed.
        """
        return np.array(self._snapshot.names.all)

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        depth: int | None = None,
        budget: int | None = None,
        max_distance: float | None = None,
        *,
        where: Any = None,
        positives: Any = None,
        negatives: Any = None,
        groups: ArrayLike | None = None,
        observe: bool = False,
    ) -> Ranking:
        """The k best items of every query, each query on its own; queries need not be in the gallery.

        The search stops as soon as no item that is left can be among the k best, or after `budget` items.

        Args:
            queries: (q, d) rows; of a gallery made by `combine`, also a list of one array per feature.
            k: how many items are to be certain; those there are, where the gallery is smaller.
            depth: how many items to return, k unless given. Those behind the first k are the next ones as far as they
                are known, then the order of the search.
            budget: most items whose chain is looked at, per query and per marked item; the larger of 5000 and 50 k
                unless given.
            max_distance: items farther than this, by the distances of this search, are left out: padding (-1 and inf)
                stands in their places. None leaves out nobody.
            where: only these items are results: a mask of booleans in the order of `manifold.ids`, or a list of ids; of
                a manifold over a vector database, also a filter in its own form. A list of 0 and 1 as long as the
                gallery is refused, because it could be either; so are [0] for one item and [0, 1] for two, where
                leaving `where` out allows all. Chains pass through the others all the same, and distances stay what
                they are. Rows are padded where fewer are left.
            positives: ids of items that are right, a list for one query, or a list of such lists, one per query; LPMT
                only. Chains start from them, too. Marked items, right or wrong, are not returned.
            negatives: ids of items that are wrong, given likewise. No chain passes through them, and where there are
                positives, what is nearer to a wrong one than to the query and the right ones moves back.
            groups: one label per query row, text or whole number: rows of one label are several vectors of one query.
                The answer has one row per label, by first appearance, with the labels as `query_ids`; an item stands by
                the least of its distances, each in the units of its own vector's neighbourhood.
            observe: remember these queries, too, once they are answered; see `observe`.

        Returns:
            Ranking with `ids` (q, depth), the names of the items, and distances that order the items of one query: they
            are not comparable between queries, and copies of one vector may differ in them (see `Ranking`). In `meta`:
            `mode` "online", `certain` the share of queries whose k best are certain, `settled` the median number of
            items looked at, `budget`, `metric`, `method`, `seconds`.
        """
        started = time.perf_counter()
        if observe:
            check_observes(self._snapshot)
        snapshot = self._snapshot  # read once: a change in the meantime makes another one
        k = whole_number(k, "k")
        depth = k if depth is None else whole_number(depth, "depth")
        budget = None if budget is None else whole_number(budget, "budget")
        farthest = a_distance(max_distance)
        rows = snapshot.space.rows(queries, "queries", snapshot.vectors.shape[1])
        answer, labels = answered(snapshot, rows, k, depth, budget, where, positives, negatives, groups)
        indices, distances = within(answer, farthest)
        meta = {"mode": "online", "method": repr(snapshot.method), **snapshot.space.meta, **answer.facts}
        meta["seconds"] = time.perf_counter() - started
        if observe:
            self.observe(queries)
        return snapshot.names.ranking(indices, distances, meta).with_ids(query_ids=labels)

    def explain(self, query: ArrayLike, item: Any, flows: int = 5) -> OnlineExplanation:
        """The cheapest chain from a query to an item, from the same computation that ranks it.

        Args:
            query: one vector, (d,) or (1, d); of a gallery made by `combine`, also a list of one per feature.
            item: its id, or its number where the manifold has no ids.
            flows: how many of the largest movements of mass to keep per step.
        """
        snapshot = self._snapshot
        rows = snapshot.space.rows(snapshot.space.single(query), "query", snapshot.vectors.shape[1])
        if len(rows) != 1:
            raise ValueError(f"query has {len(rows)} rows; explain one at a time")
        return explained(snapshot, rows, snapshot.names.number_of(item), flows)

    @property
    def stale(self) -> float:
        """How far this manifold has drifted from a rebuild, in [0, 1]; 0 after `build` and `refresh`.

        The largest of: the share of items that came or went since, the mean mass (total variation) by which what is
        kept of an item may differ, and the relative move of the contrast that LPMT's powers were measured from. At 0.1
        it is time to think of `refresh()`.
        """
        return self._snapshot.stale

    def add(self, vectors: ArrayLike, ids: ArrayLike | None = None) -> None:
        """Add items; only neighbourhoods they enter are computed anew. Searches under way finish on the old state.

        Neighbours are exact, as after a rebuild; for LPMT rows, states and costs follow where they change by more than
        its TOLERANCE, and powers and weights of the graphs stay as built, until `refresh()`. A Store is not written to:
        new items are searched exactly beside it (see `stores.changed`).

        Args:
            vectors: (m, d) rows.
            ids: one new name per row; left out in a manifold without ids, whose numbers continue.
        """
        self._change(lambda snapshot: added(snapshot, vectors, ids))

    def remove(self, ids: Any) -> None:
        """Remove items by their ids, or by their numbers in a manifold without: the others keep their names.

        When all are removed an empty manifold is left, whose searches find nothing and to which items can be added.
        """
        self._change(lambda snapshot: removed(snapshot, ids))

    def upsert(self, vectors: ArrayLike, ids: ArrayLike) -> None:
        """Put items in place of those that have these ids, and add those whose ids are new: one change, all or nothing.

        An item that was replaced has the same id and another number: that of a new item.

        Args:
            vectors: (m, d) rows.
            ids: one name per row, no two alike; the manifold must have been built with ids.

        Example:
            >>> manifold.upsert(vectors, ids=["beach_17", "beach_99"])
        """
        self._change(lambda snapshot: upserted(snapshot, vectors, ids))

    def observe(self, queries: ArrayLike) -> int:
        """Remember queries, so that later ones find more: chains may pass through them. How many are kept.

        They become a part of the graph, as items do that are added, and cost what an item costs; but they are never
        results, have no names, and do not count as items. A near-copy is not remembered: a query nearer to a remembered
        one than 0.2 times the distance to its own 10th nearest item. When there are more than `observed_limit` (see
        `build`), the oldest are forgotten.

        Args:
            queries: as for `search`.
        """
        return self._change(lambda snapshot: observed(snapshot, queries))

    @property
    def observed(self) -> int:
        """How many queries are remembered."""
        return self._snapshot.remembered.count

    def forget(self) -> None:
        """Forget all remembered queries."""
        self._change(forgotten)

    def refresh(self, progress: Show = None) -> None:
        """Build the present items anew, so that nothing is approximated: `stale` is 0 then.

        A FaissStore built from vectors is built anew, too; any other Store stays, with the changes beside it.
        """
        self._change(lambda snapshot: refreshed(snapshot, Progress(progress)))

    def sync(self, progress: Show = None) -> Synced:
        """Follow the vector database that this manifold was built from: take in what changed there since. How much.

        Its ids and vectors are read, all of them, and compared with the items. Those that are new are added, those that
        are gone are removed, those with another vector are replaced; one change, all or nothing. Items that were added
        here and are not in the database leave.

        Returns:
            `added`, `removed` and `changed`, how many items each.
        """
        counts: list[Synced] = []

        def change(snapshot: Snapshot) -> Snapshot:
            after, found = synced(snapshot, Progress(progress))
            counts.append(found)
            return after

        self._change(change)
        return counts[0]

    def _change(self, change: Callable[[Snapshot], Snapshot]) -> int:
        """Replace the snapshot by the one after a change, and note what changed for the next `save`; how many came."""
        with self._changing:
            before, after = self._snapshot, change(self._snapshot)
            self._journal.changed(before, after)
            self._snapshot = after
            return 0 if after is before or after.turnover is None else after.turnover.fresh

    def info(self) -> dict[str, Any]:
        """Facts for people and JSON: items, dimensions, method, bytes kept, numbers measured from the data."""
        return facts_of(self._snapshot)

    def save(self, path: str | os.PathLike[str], wait: float = WAIT) -> None:
        """Write a folder of arrays and a manifest; a process killed at any moment leaves the old one or the new one.

        Saved to the folder it was loaded from or saved to last, only what changed since is written, as long as that is
        little. If somebody else has saved there in the meantime, or a killed service left changes in the log of the
        folder, a `ChangedMeanwhile` says so, and nothing is written. Any other manifold that is there is replaced,
        together with the changes in its log.

        A store is not written: `load` searches exactly unless it is given one.

        Args:
            path: the folder; it is made if it is not there.
            wait: seconds to wait for others who write to it; then a TimeoutError says who they are.
        """
        with self._changing:
            files.save(self._snapshot, path, self._journal, seconds(wait))

    @classmethod
    @contextlib.contextmanager
    def changing(
        cls, path: str | os.PathLike[str], wait: float = WAIT, store: Store | None = None
    ) -> Iterator[Manifold]:
        """A Manifold to be changed in a `with` block, at whose end it is saved; others who want to change it wait.

        Changes that a service acknowledged before it was killed are applied first, and saved with yours; a `LogApplied`
        warning says how many. A damaged log, or one of another gallery, is a ValueError. After an error in the block
        nothing is saved, and the log stays.

        Args:
            path: the folder.
            wait: seconds to wait for others; then a TimeoutError says who they are.
            store: as in `load`.

        Example:
            >>> with kinrank.Manifold.changing("gallery.manifold") as manifold:
            ...     manifold.add(vectors, ids=names)
        """
        folder, home = Path(path), resolved(path)
        files.check_saved(folder)
        with alone_in(home, seconds(wait), make=False):
            manifold = cls.load(folder, store=store)
            journal = manifold._journal
            with leftover_log(home, journal.folded) as log:
                journal.held = home
                try:
                    if log is not None:
                        manifold._apply(log, folder)
                    yield manifold
                    if journal.unsaved:
                        manifold.save(folder)
                    if log is not None:
                        with contextlib.suppress(OSError):  # the folder says that it is not needed any more
                            log.close(remove=True)
                finally:
                    journal.held = journal.position = None

    def _apply(self, log: Log, folder: Path) -> None:
        """Apply the changes that only the log of a folder holds, and remember how far that is for the next `save`."""
        self._change(lambda snapshot: replayed_log(snapshot, log, folder))
        self._journal.position = log.version
        if log.left:
            warnings.warn(sentence_about(log, folder), LogApplied, stacklevel=5)

    @classmethod
    def load(cls, path: str | os.PathLike[str], mmap: bool = True, store: Store | None = None) -> Manifold:
        """A Manifold as it was saved. Checksums are compared; a truncated, altered or foreign folder is a ValueError.

        Args:
            path: the folder.
            mmap: arrays stay on disk and are read as needed; False reads them at once.
            store: asked for the neighbours of queries instead of an exact search; it must hold the same items. A vector
                database may have changed in the meantime: see `sync`.
        """
        manifold = cls._opened(path, mmap, store)
        if store is None and manifold._snapshot.built_over is not None:
            warnings.warn(cost_of(Path(path), manifold._snapshot), SearchedExactly, stacklevel=2)
        if (missing := left_out(Path(path), manifold._journal.folded)) is not None:
            warnings.warn(missing, NotFolded, stacklevel=2)
        return manifold

    @classmethod
    def _opened(cls, path: str | os.PathLike[str], mmap: bool = True, store: Store | None = None) -> Manifold:
        """What `load` returns, without a warning."""
        journal = Journal()
        manifold = cls(reading.load(path, mmap, store, journal))
        manifold._journal = journal
        return manifold

    def __reduce__(self) -> tuple[Any, ...]:
        """How pickle takes it apart: `_arrived` puts it together again, with the checks that `load` makes."""
        known = {str(folder): seal for folder, seal in self._journal.seals.items()}
        return Manifold._arrived, (parts_of(self._snapshot), known)

    @classmethod
    def _arrived(cls, parts: Parts, known: dict[str, str]) -> Manifold:
        manifold = cls(put_together(parts))
        manifold._journal = Journal({Path(folder): seal for folder, seal in known.items()})
        return manifold
