"""The Manifold class: a prepared gallery that can be searched, changed, explained and saved."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.chain import Chain
from kinrank.errors import ExactSearchWarning, InputError, LogAppliedWarning, UnappliedChangesWarning
from kinrank.files.atomic import LOCK_WAIT_SECONDS, check_seconds, folder_lock, resolve_path
from kinrank.manifold import folder_reader, saved_folder
from kinrank.manifold.changes import (
    SyncCounts,
    apply_change,
    check_can_observe,
    rebuild_snapshot,
    replay_log,
    sync_with_database,
)
from kinrank.manifold.deltas import PendingChanges
from kinrank.manifold.explanation import explain_item
from kinrank.manifold.saved_folder import describe_missing_changes, has_log, log_path
from kinrank.manifold.service_log import Change, ChangeLog, Rule
from kinrank.manifold.snapshot import (
    Snapshot,
    apply_max_distance,
    build_snapshot,
    collect_info,
    describe_exact_search,
    describe_snapshot,
    parse_max_distance,
    search_snapshot,
)
from kinrank.methods import Method, resolve_method
from kinrank.methods.base import require_prepared
from kinrank.parameters import check_whole_number
from kinrank.progress import Progress, ProgressOption
from kinrank.ranking import Ranking
from kinrank.stages.request import Request
from kinrank.stores import Store
from kinrank.stores.gallery import read_gallery


class Manifold:
    """Gallery prepared once by a method that supports prepared search.

    For LPMT it holds the states of all items and the costs of all local transitions.

    Many threads can search one Manifold at the same time while another thread adds and removes items. A Manifold can be
    pickled, so joblib, Ray, Spark and Dask can send it to other processes; it is pickled as its arrays.

    Attributes:
        snapshot: the current state. It is frozen and can be read while other threads change the manifold, which
            replaces it.
        journal: the folders that this manifold was loaded from and saved to, and its unsaved changes.

    Example:
        >>> manifold = kinrank.Manifold.build(gallery, kinrank.LPMT(), ids=names)
        >>> manifold.search(queries, k=10).ids
        >>> manifold.save("gallery.manifold")
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Wrap a snapshot. Not part of the public API: use `build` or `load`."""
        self.snapshot = snapshot
        self._changing = threading.Lock()
        self.journal = PendingChanges()

    @classmethod
    def build(
        cls,
        gallery: ArrayLike | Store,
        method: Method | str | None = None,
        *,
        ids: ArrayLike | None = None,
        max_memory: int | str | None = None,
        progress: ProgressOption = None,
        changes: bool = True,
        metric: str | None = None,
        observed_limit: int | None = None,
    ) -> Manifold:
        """Prepare a gallery.

        Time and memory grow linearly with n, except for an exact neighbour search, which takes O(n^2) time.

        Args:
            gallery: (n, d) rows, which are searched exactly; or a Store that knows its length, which then
                finds the neighbours of its own items and later those of queries. A vector database is read once (ids
                and vectors; the log says first how much that is). The neighbours of items are found locally, those of
                queries by the database.
            method: a Method that supports prepared search, or its name. Default: LPMT().
            ids: one id per item: texts, whole numbers (up to 64 bits, also unsigned) or UUIDs, which are converted to
                text. Ids must be unique, and numbers and texts cannot be mixed. Default: item numbers.
            max_memory: bytes, or a text such as "2GB". Default: four fifths of the free memory.
            progress: True for a progress bar, or a callable `f(label, done, total)`.
            changes: True to allow `add`, `remove` and `observe`; LPMT keeps about 0.7 kB per item for this.
            metric: "cosine", or "euclidean" if the length of vectors matters, as for `rerank`.
            observed_limit: maximum number of observed queries, see `observe`. Default: a third of the number of items.
        """
        prepared = require_prepared(resolve_method(method))
        prepared.load_weights()
        report = Progress(progress)
        items = read_gallery(gallery, metric, max_memory=max_memory, report=report)
        return cls(build_snapshot(items, prepared, ids, max_memory, report, changes, observed_limit))

    def __len__(self) -> int:
        return len(self.snapshot)

    def __repr__(self) -> str:
        return describe_snapshot(self.snapshot)

    @property
    def method(self) -> Method:
        """The method that prepared the gallery."""
        return self.snapshot.method

    @property
    def ids(self) -> NDArray[Any]:
        """(n,) ids of the items: Python texts (dtype object), or int64 (uint64 if a number needs it).

        Without ids, these are the item numbers, which do not change when other items are removed.
        """
        return np.array(self.snapshot.names.all)

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        depth: int | None = None,
        budget: int | None = None,
        max_distance: float | None = None,
        where: Any = None,
        positives: Any = None,
        negatives: Any = None,
        groups: ArrayLike | None = None,
        observe: bool = False,
    ) -> Ranking:
        """Return the k best items of every query. Each query is independent and need not be in the gallery.

        The search stops as soon as no remaining item can be among the k best, or after `budget` items.

        Args:
            queries: (q, d) rows; for a gallery made by `combine`, also a list with one array per feature.
            k: number of items whose order is guaranteed; all items if the gallery is smaller.
            depth: number of items to return. Default: k. Items after the first k follow in the best known order, then
                in the order of the neighbour search.
            budget: maximum number of items to settle, per query and per marked item. Default: the larger of 5000 and 50
                k.
            max_distance: leave out items farther than this, measured by the distances of this search, and pad their
                positions with -1 and inf. None leaves out nothing.
            where: restrict results to these items: a boolean mask in the order of `manifold.ids`, or a list of ids; for
                a manifold over a vector database, also a filter in the database's own form. A list of 0 and 1 that is
                as long as the gallery is refused because it could be a mask or a list of ids; so are [0] for one item
                and [0, 1] for two items, where leaving `where` out allows all. Chains still pass through the other
                items, and distances do not change. Rows are padded if fewer items are left.
            positives: ids of relevant items: a list for one query, or a list of such lists, one per query. LPMT only.
                Chains also start from them. Marked items, positive or negative, are not returned.
            negatives: ids of irrelevant items, in the same form. No chain passes through them. With positives, an item
                that is nearer to a negative than to the query and the positives moves back.
            groups: one label per query row, text or whole number. Rows with the same label are several vectors of one
                query. The result has one row per label, in order of first appearance, with the labels as `query_ids`.
                The distance of an item is the least of its distances, each in units of its own vector's neighbourhood.
            observe: also observe these queries after they are answered; see `observe`.

        Returns:
            Ranking with `ids` (q, depth), the ids of the items, and distances that order the items of one query.
            Distances of different queries are not comparable, and copies of one vector may have different distances
            (see `Ranking`). `meta` contains `mode` "online", `certain` (the share of queries whose k best are certain),
            `settled` (the median number of settled items), `budget`, `metric`, `method` and `seconds`.
        """
        started = time.perf_counter()
        if observe:
            check_can_observe(self.snapshot)
        snapshot = self.snapshot  # read once, because a concurrent change replaces it
        k = check_whole_number(k, "k")
        depth = k if depth is None else check_whole_number(depth, "depth")
        budget = None if budget is None else check_whole_number(budget, "budget")
        farthest = parse_max_distance(max_distance)
        rows = snapshot.space.rows(queries, "queries", snapshot.vectors.shape[1])
        request = Request(rows, k, depth, budget)
        answer, labels = search_snapshot(snapshot, request, where, positives, negatives, groups)
        indices, distances = apply_max_distance(answer, farthest)
        meta = {"mode": "online", "method": repr(snapshot.method), **snapshot.space.meta, **answer.facts}
        meta["seconds"] = time.perf_counter() - started
        if observe:
            self.observe(queries)
        return snapshot.to_ranking(indices, distances, meta).with_ids(query_ids=labels)

    def explain(self, query: ArrayLike, item: Any, *, flows: int = 5) -> Chain:
        """Return the cheapest chain from a query to an item, from the same computation that ranks it.

        Args:
            query: one vector, (d,) or (1, d); for a gallery made by `combine`, also a list with one vector per feature.
            item: id of the item, or its number if the manifold has no ids.
            flows: number of the largest mass movements to keep per step.
        """
        snapshot = self.snapshot
        rows = snapshot.space.rows(query, "query", snapshot.vectors.shape[1])
        if len(rows) != 1:
            raise InputError(f"has {len(rows)} rows", parameter="query", remedy="explain one query at a time")
        return explain_item(snapshot, rows, snapshot.names.find_item(item), flows)

    @property
    def staleness(self) -> float:
        """Distance to a rebuilt manifold, in [0, 1]; 0 after `build` and `refresh`.

        The largest of: the share of items added or removed since the build, the mean mass (total variation) by which
        the stored state of an item may differ, and the relative change of the contrast from which LPMT's powers were
        measured. Consider `refresh()` when it reaches 0.1.
        """
        return self.snapshot.staleness

    def add(self, vectors: ArrayLike, ids: ArrayLike | None = None) -> None:
        """Add items and update only the neighbourhoods that they enter. Running searches finish on the old state.

        Neighbours are exact, as after a rebuild. For LPMT, rows, states and costs are updated where they change by more
        than its TOLERANCE; powers and graph weights stay as built until `refresh()`. A Store is not written to: new
        items are searched exactly in addition to it (see `stores.view`).

        Args:
            vectors: (m, d) rows.
            ids: one new id per row. Leave it out if the manifold has no ids: new items get the next numbers.
        """
        self.apply(Change(vectors=vectors, ids=ids, rule=Rule.ADD))

    def remove(self, ids: Any) -> None:
        """Remove items by their ids, or by their numbers if the manifold has no ids. Other items keep their ids.

        Removing all items leaves an empty manifold: searches find nothing, and items can be added again.
        """
        self.apply(Change(ids, rule=Rule.REMOVE))

    def upsert(self, vectors: ArrayLike, ids: ArrayLike) -> None:
        """Replace the items that have these ids and add the items whose ids are new, as one atomic change.

        A replaced item keeps its id and gets the number of a new item.

        Args:
            vectors: (m, d) rows.
            ids: one unique id per row; the manifold must have been built with ids.

        Example:
            >>> manifold.upsert(vectors, ids=["beach_17", "beach_99"])
        """
        self.apply(Change(vectors=vectors, ids=ids, rule=Rule.UPSERT))

    def observe(self, queries: ArrayLike) -> int:
        """Add queries to the graph, so that chains can pass through them and later queries find more.

        Observed queries are part of the graph like added items and cost as much. They are never results, have no ids
        and do not count as items. A near-copy is left out: a query that is nearer to an observed query than 0.2 times
        the distance to its own 10th nearest item. If there are more than `observed_limit` (see `build`), the oldest are
        dropped.

        Args:
            queries: as for `search`.

        Returns:
            Number of queries that were added.
        """
        return self.apply(Change(queries=queries, rule=Rule.OBSERVE))

    @property
    def n_observed(self) -> int:
        """Number of observed queries."""
        return self.snapshot.remembered.count

    def forget(self) -> None:
        """Drop all observed queries."""
        self.apply(Change(forgotten=slice(None)))

    def refresh(self, progress: ProgressOption = None) -> None:
        """Rebuild the current items, so that nothing is approximated and `staleness` is 0.

        A FaissStore built from vectors is rebuilt, too. Any other Store is kept, together with the changes since.
        """
        self.replace_snapshot(lambda snapshot: rebuild_snapshot(snapshot, Progress(progress)))

    def sync(self, progress: ProgressOption = None) -> SyncCounts:
        """Update the manifold to the current content of the vector database from which it was built.

        Reads all ids and vectors of the database and compares them with the items. Adds new items, removes items that
        are no longer in the database and replaces items whose vector differs, as one atomic change. Items that were
        added to the manifold only are removed.

        Returns:
            Numbers of items that were `added`, `removed` and `changed`.
        """
        counts: list[SyncCounts] = []

        def change(snapshot: Snapshot) -> Snapshot:
            after, count = sync_with_database(snapshot, Progress(progress))
            counts.append(count)
            return after

        self.replace_snapshot(change)
        return counts[0]

    def apply(self, change: Change) -> int:
        """Make a change as one step and return the number of added rows. `add`, `remove` and the like are shorter."""
        return self.replace_snapshot(lambda snapshot: apply_change(snapshot, change))

    def replace_snapshot(self, change: Callable[[Snapshot], Snapshot]) -> int:
        """Replace the snapshot, record the change for the next `save`, and return the number of added rows."""
        with self._changing:
            before, after = self.snapshot, change(self.snapshot)
            self.journal.record_change(before, after)
            self.snapshot = after
            return 0 if after is before or after.turnover is None else after.turnover.fresh

    def info(self) -> dict[str, Any]:
        """Return facts for display and JSON: items, dimensions, method, bytes, numbers measured from the data."""
        return collect_info(self.snapshot)

    def save(self, path: str | os.PathLike[str], wait: float = LOCK_WAIT_SECONDS) -> None:
        """Write a folder with arrays and a manifest. A process killed at any time leaves the old or the new state.

        In the folder from which the manifold was loaded or to which it was last saved, only the changes since are
        written if they are small. Raises `ConcurrentSaveError` and writes nothing if another process saved to the
        folder in the meantime or a killed service left changes in its log. Any other manifold in the folder is
        replaced, together with the changes in its log.

        A store is not written: `load` searches exactly unless it is given one.

        Args:
            path: folder, which is created if it does not exist.
            wait: seconds to wait for other writers; then a TimeoutError names them.
        """
        with self._changing:
            saved_folder.save_snapshot(self.snapshot, path, self.journal, check_seconds(wait))

    @classmethod
    @contextlib.contextmanager
    def changing(
        cls, path: str | os.PathLike[str], *, wait: float = LOCK_WAIT_SECONDS, store: Store | None = None
    ) -> Iterator[Manifold]:
        """Load a Manifold for changes in a `with` block and save it at the end. Other writers wait.

        Changes that a service acknowledged before it was killed are applied first and saved with yours; a
        `LogAppliedWarning` says how many. A damaged log, or the log of another gallery, raises an InputError. If the
        block raises an error, nothing is saved and the log is kept.

        Args:
            path: the folder.
            wait: seconds to wait for other writers; then a TimeoutError names them.
            store: as in `load`.

        Example:
            >>> with kinrank.Manifold.changing("gallery.manifold") as manifold:
            ...     manifold.add(vectors, ids=names)
        """
        folder, home = Path(path), resolve_path(path)
        saved_folder.check_changeable(folder)
        with folder_lock(home, check_seconds(wait), make=False), contextlib.ExitStack() as stack:
            manifold = cls.load(folder, store=store)
            journal, log = manifold.journal, None
            if has_log(home):
                log = stack.enter_context(contextlib.closing(ChangeLog(log_path(home), journal.folded)))
            journal.held = home
            try:
                if log is not None:
                    manifold._apply(log, folder)
                yield manifold
                if journal.unsaved:
                    manifold.save(folder)
                if log is not None:
                    with contextlib.suppress(OSError):  # the manifest records that the log is applied
                        log.close(remove=True)
            finally:
                journal.held = journal.position = None

    def _apply(self, log: ChangeLog, folder: Path) -> None:
        """Apply the changes that only the log contains, and record the log position for the next `save`."""
        self.replace_snapshot(lambda snapshot: replay_log(snapshot, log, folder))
        self.journal.position = log.version
        if log.left:
            changes = "1 change" if len(log.left) == 1 else f"{len(log.left)} changes"
            were = "was" if len(log.left) == 1 else "were"
            origin = "acknowledged by a service before it was killed"
            message = f"{changes} in {log.path}, {origin}, {were} applied to {folder} first"
            warnings.warn(message, LogAppliedWarning, stacklevel=5)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = True, store: Store | None = None) -> Manifold:
        """Load a saved Manifold and verify its checksums.

        Raises an InputError if the folder is truncated, altered or not a manifold.

        Args:
            path: the folder.
            mmap: True to memory-map the arrays, False to read them at once.
            store: finds the neighbours of queries instead of an exact search; it must contain the same items. A vector
                database may have changed in the meantime: see `sync`.
        """
        manifold = cls.open(path, mmap=mmap, store=store)
        if store is None and manifold.snapshot.built_over is not None:
            warnings.warn(describe_exact_search(Path(path), manifold.snapshot), ExactSearchWarning, stacklevel=2)
        if (missing := describe_missing_changes(Path(path), manifold.journal.folded)) is not None:
            warnings.warn(missing, UnappliedChangesWarning, stacklevel=2)
        return manifold

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, mmap: bool = True, store: Store | None = None) -> Manifold:
        """Load a Manifold as `load` does, but without warnings, for a caller that applies the log itself."""
        journal = PendingChanges()
        manifold = cls(folder_reader.load_snapshot(path, mmap, store, journal))
        manifold.journal = journal
        return manifold

    def __reduce__(self) -> tuple[Any, ...]:
        """Split the Manifold for pickle into plain arrays and numbers, which are checked as those of files are."""
        snapshot, method = self.snapshot, self.snapshot.method
        if snapshot.store is not None:
            _check_picklable(snapshot.store)
        method_parts = type(method), asdict(method)
        parts = (*method_parts, snapshot.arrays, snapshot.facts, snapshot.store, snapshot.built_over)
        known = {str(folder): checksum for folder, checksum in self.journal.manifest_checksums.items()}
        return _restore_manifold, (parts, known)


def _restore_manifold(parts: tuple[Any, ...], known: dict[str, str]) -> Manifold:
    """Rebuild a pickled Manifold. Raises an InputError if its parts do not fit together."""
    kind, parameters, *rest = parts
    try:
        manifold = Manifold(Snapshot.from_arrays(kind(**parameters), *rest))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(f"the pickle is not a manifold that this version can use: {error}") from error
    manifold.journal = PendingChanges({Path(folder): checksum for folder, checksum in known.items()})
    return manifold


class _NullFile:
    """File that discards what is written to it."""

    def write(self, content: Any) -> int:
        return len(content)


def _check_picklable(store: Store) -> None:
    """Raise a TypeError with a remedy if a store cannot be pickled."""
    from multiprocessing.reduction import ForkingPickler  # imported here, because few callers need it

    try:
        ForkingPickler(_NullFile()).dump(store)
    except Exception as error:  # the parts of a store can raise anything
        raise TypeError(
            f"this manifold cannot be pickled, because its store, a {type(store).__name__}, cannot be pickled "
            f"({error}); save the manifold, and load it where it is needed with a store opened there"
        ) from error
