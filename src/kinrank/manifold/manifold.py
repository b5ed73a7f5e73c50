"""Manifold: a gallery prepared by a method, searched by queries that were never seen, saved and asked why."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import check, unit
from kinrank.manifold import files
from kinrank.manifold.changes import added, refreshed, removed
from kinrank.manifold.explanation import OnlineExplanation, explained
from kinrank.manifold.gallery import gallery_over
from kinrank.manifold.names import Names, check_ids
from kinrank.manifold.snapshot import Snapshot
from kinrank.memory import NotEnoughMemory, allowed_bytes, in_words, parse_bytes
from kinrank.methods import Method, resolve
from kinrank.parameters import whole_number
from kinrank.progress import Progress, Show
from kinrank.ranking import Ranking
from kinrank.stores import Store
from kinrank.stores.rows import unit_rows


class Manifold:
    """A gallery prepared once by a method that can be served; for LPMT: states and the costs of all local transitions.

    Many threads may search one Manifold at the same time, while another adds and removes items.

    Example:
        >>> manifold = kinrank.Manifold.build(gallery, kinrank.LPMT(), ids=names)
        >>> manifold.search(queries, k=10).ids
        >>> manifold.save("gallery.manifold")
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Not called by users: see `build` and `load`."""
        self._snapshot = snapshot
        self._changing = threading.Lock()

    @classmethod
    def build(
        cls,
        gallery_or_store: ArrayLike | Store,
        method: Method | str | None = None,
        ids: ArrayLike | None = None,
        max_memory: int | str | None = None,
        progress: Show = None,
        changes: bool = True,
    ) -> Manifold:
        """Prepare a gallery; time and memory grow with n, but for the search of its neighbours where it is exact.

        Args:
            gallery_or_store: (n, d) rows, searched exactly; or a Store that knows its length, which is then asked for
                the neighbours of its own items, and later for those of queries.
            method: a Method that can be served, or its name; LPMT() unless given.
            ids: one name per item: texts, whole numbers (up to 64 bits, also unsigned) or UUIDs, which become their
                text; no two alike, and not numbers beside texts. Item numbers unless given.
            max_memory: bytes, or words such as "2GB"; four fifths of what is free unless given.
            progress: True for a bar, or a callable `f(label, done, total)`.
            changes: whether `add` and `remove` are to be possible; LPMT keeps about 0.9 kB per item for them.
        """
        method = resolve(method)
        method.check_served()
        store = gallery_or_store if isinstance(gallery_or_store, Store) else None
        vectors = unit_rows(gallery_or_store)
        names = Names(len(vectors), check_ids(ids, len(vectors)))
        budget = allowed_bytes() if max_memory is None else parse_bytes(max_memory)
        needed = method.memory_kept(len(vectors), vectors.shape[1], changes) + names.size
        if needed > budget:
            raise NotEnoughMemory(
                f"a manifold of {len(vectors)} items needs about {in_words(needed)} to build but max_memory allows "
                f"{in_words(budget)}; build from fewer items, or pass a larger max_memory="
            )
        report = Progress(progress)
        kept = method.keep(gallery_over(vectors, store, report), report, changes)
        return cls(Snapshot.of(method, vectors, names, kept, store))

    def __len__(self) -> int:
        return len(self._snapshot)

    def __repr__(self) -> str:
        snapshot = self._snapshot
        return f"Manifold({len(snapshot)} items x {snapshot.vectors.shape[1]} dimensions, {snapshot.method!r})"

    @property
    def method(self) -> Method:
        return self._snapshot.method

    @property
    def ids(self) -> NDArray[Any]:
        """(n,) the names of the items: Python texts (dtype object), or int64 (uint64 where a number needs it).

        Where none were given, the numbers of the items, which stay what they are when others are removed.
        """
        return np.array(self._snapshot.names.all)

    def search(self, queries: ArrayLike, k: int = 10, depth: int | None = None, budget: int | None = None) -> Ranking:
        """The k best items of every query, each query on its own; queries need not be in the gallery.

        The search stops as soon as no item that is left can be among the k best, or after `budget` items.

        Args:
            queries: (q, d) rows.
            k: how many items are to be certain; those there are, where the gallery is smaller.
            depth: how many items to return, k unless given. Those behind the first k are the next ones as far as they
                are known, then the order of the search.
            budget: most items whose chain is looked at, per query; the larger of 5000 and 50 k unless given.

        Returns:
            Ranking with `ids` (q, depth), the names of the items, and in `meta`: `mode` "online",
            `certain` the share of queries whose k best are certain, `settled` the median number of items looked at,
            `budget`, `method`, `seconds`.
        """
        started = time.perf_counter()
        snapshot = self._snapshot  # read once: a change in the meantime makes another one
        k = whole_number(k, "k")
        depth = k if depth is None else whole_number(depth, "depth")
        budget = None if budget is None else whole_number(budget, "budget")
        rows = unit(check(queries, "queries", snapshot.vectors.shape[1]), "queries")
        answer = snapshot.search(rows, k, depth, budget)
        meta: dict[str, Any] = {"mode": "online", "method": repr(snapshot.method), **answer.facts}
        meta["seconds"] = time.perf_counter() - started
        return snapshot.names.ranking(answer.indices, answer.distances, meta)

    def explain(self, query: ArrayLike, item: Any, flows: int = 5) -> OnlineExplanation:
        """The cheapest chain from a query to an item, from the same computation that ranks it.

        Args:
            query: one vector, (d,) or (1, d).
            item: its id, or its number where the manifold has no ids.
            flows: how many of the largest movements of mass to keep per step.
        """
        snapshot = self._snapshot
        row = np.asarray(query)
        rows = unit(check(row[None, :] if row.ndim == 1 else row, "query", snapshot.vectors.shape[1]), "query")
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
        with self._changing:
            self._snapshot = added(self._snapshot, vectors, ids)

    def remove(self, ids: Any) -> None:
        """Remove items by their ids, or by their numbers in a manifold without: the others keep their names.

        When all are removed an empty manifold is left, whose searches find nothing and to which items can be added.
        """
        with self._changing:
            self._snapshot = removed(self._snapshot, ids)

    def refresh(self, progress: Show = None) -> None:
        """Build the present items anew, so that nothing is approximated: `stale` is 0 then.

        A FaissStore built from vectors is built anew, too; any other Store stays, with the changes beside it.
        """
        with self._changing:
            self._snapshot = refreshed(self._snapshot, Progress(progress))

    def info(self) -> dict[str, Any]:
        """Facts for people and JSON: items, dimensions, method, bytes kept, numbers measured from the data."""
        snapshot = self._snapshot
        method = snapshot.method
        return {
            "items": len(snapshot),
            "dimensions": int(snapshot.vectors.shape[1]),
            "method": method.name,
            "parameters": {declared.name: getattr(method, declared.name) for declared in method.parameters()},
            "facts": snapshot.facts,
            "bytes": snapshot.size,
            "bytes_of_vectors": int(snapshot.vectors.nbytes),
            "ids": snapshot.names.kind,
            "stale": snapshot.stale,
            "store": None if snapshot.store is None else type(snapshot.store).__name__,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a folder of arrays and a manifest; a process killed at any moment leaves the old one or the new one.

        A store is not written: `load` searches exactly unless it is given one.
        """
        files.save(self._snapshot, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], mmap: bool = True, store: Store | None = None) -> Manifold:
        """A Manifold as it was saved. Checksums are compared; a truncated, altered or foreign folder is a ValueError.

        Args:
            path: the folder.
            mmap: arrays stay on disk and are read as needed; False reads them at once.
            store: asked for the neighbours of queries instead of an exact search; it must hold the same items.
        """
        return cls(files.load(path, mmap, store))
