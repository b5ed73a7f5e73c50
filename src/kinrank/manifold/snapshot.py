"""The immutable state that a search reads: how it is built, searched and described.

An observed query is a row among the items: it has a state and steps, and chains pass through it, but it is never a
result. A position is the index of a row in the arrays, with items and observed queries in the order they came; an item
number counts items only. Ids refer to item numbers, so that observing and forgetting queries changes no id.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages
from kinrank.errors import InputError, MemoryLimitError
from kinrank.filters import parse_labels, parse_marks, parse_mask
from kinrank.ids import NEXT_NUMBER_KEY, Ids
from kinrank.memory_limit import default_limit_bytes, format_bytes, parse_bytes
from kinrank.methods import Method
from kinrank.methods.base import Answer, GalleryIndex, MethodState, PreparedMethod, limit_counts, require_prepared
from kinrank.methods.prepared_search import fill_short_rows
from kinrank.neighbors import Neighbors, find_nearest, pairwise_distances
from kinrank.parameters import check_whole_number
from kinrank.progress import SILENT, Progress
from kinrank.ranking import Ranking
from kinrank.stages.item_change import ItemChange
from kinrank.stages.request import UNRESTRICTED, Marks, Mask, Masks, Request
from kinrank.stores import Store
from kinrank.stores.base import check_same_metric, describe_if_approximate, sort_and_dedupe
from kinrank.stores.engine import EngineStore
from kinrank.stores.faiss import FaissStore
from kinrank.stores.gallery import Gallery
from kinrank.stores.view import EngineIdStore, StoreView, adapt_to_space
from kinrank.vector_input import Vectors
from kinrank.vector_space import Space

Places = NDArray[np.int64]
SearchFunction = Callable[[Vectors, int], Neighbors]  # queries, k -> nearest rows

OBSERVED_MASK_KEY = "remembered"  # the mask in a saved manifold
OBSERVED_LIMIT_KEY = "observed_limit"  # the limit in a saved manifold, if one was given
ITEMS_PER_QUERY = 3  # items per observed query, without a limit: the largest share that was measured
NEAR_COPY_RATIO = 0.2  # share of the distance to the 10th item within which two queries are near-copies
REFERENCE_RANK = 10
BLOCK_ROWS = 1024  # rows searched at once
MAX_EXACT_ITEMS = 20_000  # up to here an exact search is fast


@dataclass(frozen=True, eq=False)
class ObservedQueries:
    """Which rows of a gallery are observed queries.

    Attributes:
        mask: (n,) bool, True for observed queries, False for items.
        limit: maximum number of observed queries; None for one per ITEMS_PER_QUERY items.
    """

    mask: NDArray[np.bool_]
    limit: int | None = None

    @classmethod
    def none(cls, count: int, limit: int | None = None) -> ObservedQueries:
        """Create an empty set for `count` items."""
        return cls(np.zeros(count, np.bool_), None if limit is None else check_whole_number(limit, OBSERVED_LIMIT_KEY))

    @classmethod
    def restore(cls, count: int, mask: NDArray[Any] | None, limit: float | None) -> ObservedQueries:
        """Restore the saved state. Raises an InputError if it is not a mask of `count` rows."""
        if limit is not None and not (1 <= limit < 2**53 and limit == int(limit)):
            raise InputError(f"{OBSERVED_LIMIT_KEY}={limit} is not a number of queries")
        maximum = None if limit is None else int(limit)
        if mask is None:
            return cls.none(count, maximum)
        if mask.shape != (count,) or mask.dtype != np.bool_:
            raise InputError(
                f"{OBSERVED_MASK_KEY} must be a mask of {count} rows, but it is {mask.dtype} of shape {mask.shape}"
            )
        if mask.view(np.uint8).max(initial=0) > 1:
            raise InputError(f"{OBSERVED_MASK_KEY} contains values other than True and False")
        return cls(np.array(mask), maximum)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to save: none if no query was observed."""
        return {OBSERVED_MASK_KEY: self.mask} if self.count else {}

    @property
    def facts(self) -> dict[str, float]:
        """Single numbers to save."""
        return {} if self.limit is None else {OBSERVED_LIMIT_KEY: float(self.limit)}

    @cached_property
    def count(self) -> int:
        """Number of observed queries."""
        return int(self.mask.sum())

    @cached_property
    def items(self) -> Places:
        """Positions of the items."""
        return np.flatnonzero(~self.mask)

    @cached_property
    def queries(self) -> Places:
        """Positions of the observed queries, oldest first."""
        return np.flatnonzero(self.mask)

    @cached_property
    def _numbers(self) -> Places:
        """(n + 1,) number of the item or observed query at every position; the last entry maps -1 to -1."""
        numbers = np.full(len(self.mask) + 1, -1, np.int64)
        numbers[self.items] = np.arange(len(self.items))
        numbers[self.queries] = np.arange(self.count)
        return numbers

    def numbers(self, places: NDArray[Any]) -> Places:
        """Return item numbers at positions of any shape; observed queries have their own numbers, oldest 0."""
        return places if not self.count else self._numbers[places]

    def most(self, items: int) -> int:
        """Return the maximum number of observed queries for this many items."""
        return items // ITEMS_PER_QUERY if self.limit is None else self.limit

    def after(self, stay: Places, came: int, are_queries: bool) -> ObservedQueries:
        """Return the state after a change: the rows `stay`, then `came` rows, all queries or all items."""
        return ObservedQueries(np.concatenate([self.mask[stay], np.full(came, are_queries)]), self.limit)

    def drop_oldest(self, stay: Places, came: int, items: int) -> Places:
        """Return the rows `stay` without the oldest queries that exceed the limit with `came` new ones."""
        queries = stay[self.mask[stay]]
        over = max(0, len(queries) + came - self.most(items))
        return np.setdiff1d(stay, queries[:over]) if over else stay


def find_new_queries(rows: Vectors, known: Vectors, lengths: NDArray[Any], unit: bool = True) -> Places:
    """Return which of the queries `rows` (q, d) are new.

    A query is new if no known query and no earlier one in `rows` is within NEAR_COPY_RATIO l of it. `lengths` (q,)
    contains the l of every query, see `measure_tenth_distances`. An exact copy is never new. `unit`: all rows have
    length one.
    """
    least = NEAR_COPY_RATIO * lengths
    fresh = (
        find_nearest(rows, known, 1, unit=unit).distances[:, 0] > least if len(known) else np.ones(len(rows), np.bool_)
    )
    new: list[int] = []
    for row in np.flatnonzero(fresh).tolist():
        if not new or float(pairwise_distances(rows[row : row + 1], rows[new], unit).min()) > least[row]:
            new.append(row)
    return np.array(new, np.int64)


def measure_tenth_distances(rows: Vectors, search: SearchFunction, remembered: ObservedQueries) -> NDArray[np.float32]:
    """Return (q,) distances from queries to their 10th nearest item; to the last one if there are fewer, 0 if none."""
    neighbors = search_items(rows, search, REFERENCE_RANK, remembered)
    is_item = (neighbors.indices >= 0) & ~remembered.mask[neighbors.indices]
    within = is_item & (is_item.cumsum(axis=1) <= REFERENCE_RANK)
    return np.asarray(np.max(neighbors.distances, axis=1, where=within, initial=0.0), np.float32)


def search_items(rows: Vectors, search: SearchFunction, count: int, remembered: ObservedQueries) -> Neighbors:
    """Find the nearest rows of queries: `count` items each (or all there are), and the observed queries among them."""
    if not remembered.count:
        return search(rows, count)
    depth = count + min(count, remembered.count)
    while True:  # search deeper if observed queries leave too few items
        neighbors = search(rows, depth)
        items = ((neighbors.indices >= 0) & ~remembered.mask[neighbors.indices]).sum(axis=1)
        if depth >= count + remembered.count or bool((items >= count).all()):
            return neighbors
        depth *= 2


def make_gallery(
    vectors: Vectors, store: Store | None = None, progress: Progress = SILENT, unit: bool = True
) -> GalleryIndex:
    """Create the gallery of rows (n, d), searched by the store if given; `lists` reports to `progress`.

    `unit`: all rows have length one.
    """
    return GalleryIndex(
        vectors=vectors,
        lists=partial(_list_all_neighbors, vectors, store, progress, unit),
        lists_of=partial(list_neighbors, vectors, store, unit=unit),
        search=partial(_search_neighbors, vectors, store, unit),
        exact=store is None,
        unit=unit,
    )


def make_local_index(vectors: Vectors, store: Store | None, unit: bool) -> Store | None:
    """Return the index that finds the neighbours of all items at build time; None for an exact search.

    This is the store, unless it is a vector database, which would be queried once per item. Since the vectors are in
    memory, they are then searched here: exactly or, for many items, by FAISS if it is installed.
    """
    if store is None or store.engine is None:
        return store
    if len(vectors) <= MAX_EXACT_ITEMS or importlib.util.find_spec("faiss") is None:
        return None
    return FaissStore(vectors, "ivf", metric="cosine" if unit else "euclidean")


def _list_all_neighbors(vectors: Vectors, store: Store | None, progress: Progress, unit: bool, k: int) -> Neighbors:
    """Return (n, min(k, n)) neighbours of every item, the item itself first."""
    n = len(vectors)
    k = min(k, n)
    indices, distances = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    blocks = [np.arange(start, min(start + BLOCK_ROWS, n)) for start in range(0, n, BLOCK_ROWS)]
    for block in progress.each("neighbours", blocks, len(blocks)):
        lists = list_neighbors(vectors, store, block, k, unit)
        indices[block], distances[block] = lists.indices, lists.distances
    return Neighbors(indices, distances)


def list_neighbors(
    vectors: Vectors, store: Store | None, rows: NDArray[np.int64], k: int, unit: bool = True
) -> Neighbors:
    """Return (rows, k) neighbours of some items, the item itself first; k is at most n."""
    if store is None:
        return find_nearest(vectors[rows], vectors, k, own=rows, unit=unit)
    hits = store.search(vectors[rows], min(k + 1, len(vectors)))
    lists = tidy_neighbors(hits.indices, hits.distances, k, rows, len(vectors))
    short = np.flatnonzero(lists.indices[:, -1] < 0)
    if len(short):  # an approximate index returned too few: search these exactly
        exact = find_nearest(vectors[rows[short]], vectors, k, own=rows[short], unit=unit)
        lists.indices[short], lists.distances[short] = exact.indices, exact.distances
    return lists


def _search_neighbors(vectors: Vectors, store: Store | None, unit: bool, queries: Vectors, k: int) -> Neighbors:
    """Return (q, min(k, n)) nearest items of queries; rows are padded with -1 if the store returned fewer."""
    k = min(k, len(vectors))
    if store is None:
        return find_nearest(queries, vectors, k, unit=unit)
    hits = store.search(queries, k)
    return tidy_neighbors(hits.indices, hits.distances, k, None, len(vectors))


def tidy_neighbors(
    indices: NDArray[np.int64], distances: NDArray[np.float32], k: int, own: NDArray[np.int64] | None, n: int
) -> Neighbors:
    """Sort and deduplicate the results of a store of n items as neighbour lists (q, k)."""
    if indices.size and int(indices.max()) >= n:
        raise InputError(
            f"returned item {int(indices.max())}, but the manifold has {n} items",
            parameter="store",
            remedy="give a store with the same items",
        )
    numbers, lengths = sort_and_dedupe(indices, distances, k, own)
    return Neighbors(numbers.astype(np.int32), lengths.astype(np.float32))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One immutable state of a Manifold. A change creates a new one; running searches keep the one they started with.

    Attributes:
        method: the method, with the parameters it was prepared with.
        gallery: vectors of items and observed queries, and the search for their neighbours and those of queries.
        names: ids of the items.
        remembered: which rows of the gallery are observed queries and not items.
        state: what the method computed from the gallery, in the form in which it is searched.
        store: finds neighbours; None for an exact search over the vectors.
        built_over: description of the approximate store that found the neighbours at build time, also if the manifold
            was loaded without it. None if neighbours were found exactly.
        turnover: items removed and added since the previous snapshot; None after build or load.
        space: converts given vectors to rows like those of the gallery.
    """

    method: PreparedMethod
    gallery: GalleryIndex
    names: Ids
    remembered: ObservedQueries
    state: MethodState
    store: Store | None = None
    built_over: str | None = None
    turnover: ItemChange | None = field(default=None, repr=False)
    space: Space = field(default_factory=Space)

    @classmethod
    def from_arrays(
        cls,
        method: Method,
        arrays: dict[str, NDArray[Any]],
        facts: dict[str, float],
        store: Store | None,
        built_over: str | None,
    ) -> Snapshot:
        """Restore a snapshot from `arrays` and `facts`; raise an InputError or KeyError if they do not fit."""
        prepared = require_prepared(method)
        arrays, facts = dict(arrays), dict(facts)
        vectors, following = arrays.pop("vectors", None), facts.pop(NEXT_NUMBER_KEY, None)
        mask, limit = arrays.pop(OBSERVED_MASK_KEY, None), facts.pop(OBSERVED_LIMIT_KEY, None)
        if vectors is None or vectors.ndim != 2 or vectors.dtype != np.float32:
            raise InputError("it contains no vectors")
        remembered = ObservedQueries.restore(len(vectors), mask, limit)
        if remembered.count:
            method.require("observe")
        names = Ids.restore(len(remembered.items), arrays, following)
        space = Space.from_facts(facts, vectors.shape[1])
        check = stages.array_storage.check_unit if space.unit else stages.array_storage.check_finite
        check("vectors", vectors)
        state = prepared.state.from_arrays(prepared, vectors, arrays, facts)
        view = None if store is None else adapt_to_space(store, space)
        gallery = make_gallery(vectors, view, unit=space.unit)
        return cls(prepared, gallery, names, remembered, state, view, built_over, space=space)

    def over(self, store: Store) -> Snapshot:
        """Copy with the search done by a store that contains the items. Observed queries are searched exactly."""
        observed, view = self.remembered, self._in_space(store)
        if observed.count:
            rows = np.concatenate([observed.items, observed.queries])
            view = StoreView(view, np.arange(len(self)), self.vectors[observed.queries], numbering=rows)
        return replace(self, gallery=make_gallery(self.vectors, view, unit=self.space.unit), store=view)

    def _in_space(self, store: Store) -> Store:
        """Return the store as this snapshot searches it: a vector database by item ids, others scaled."""
        if not isinstance(store, EngineStore):
            return adapt_to_space(store, self.space)
        check_same_metric(store, self.space)
        return EngineIdStore(store, self.names.all, self.item_vectors, self.space.scale)

    @property
    def engine(self) -> EngineStore | None:
        """The vector database that is searched, if any."""
        return None if self.store is None else self.store.engine

    def __len__(self) -> int:
        """Return the number of items, without observed queries."""
        return self.names.count

    @property
    def vectors(self) -> Vectors:
        """(n, d) rows of items and observed queries, as `space` returns them."""
        return self.gallery.vectors

    @property
    def item_vectors(self) -> Vectors:
        """Rows of the items only."""
        return self.vectors[self.remembered.items] if self.remembered.count else self.vectors

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays to save: the vectors, those of the method, the ids and the mask of observed queries, if any."""
        return {"vectors": self.vectors, **self.state.to_arrays(), **self.names.arrays, **self.remembered.arrays}

    @property
    def facts(self) -> dict[str, float]:
        """Single numbers to save: those of the method (such as measured powers), of ids, limits and space."""
        return self.state.facts | self.names.facts | self.remembered.facts | self.space.facts

    @property
    def staleness(self) -> float:
        """Distance to a rebuilt snapshot, from 0 to 1."""
        return self.state.staleness(len(self.gallery))

    @property
    def size(self) -> int:
        """Size in bytes as saved, including the vectors; in memory, states are packed and take less."""
        state = sum(array.nbytes for array in self.state.to_arrays().values())
        return state + self.vectors.nbytes + self.names.size

    @property
    def can_change(self) -> bool:
        """True if items can be added and removed."""
        return self.method.can("changes") and self.state.has_change_record

    def require_changes(self, action: str) -> None:
        """Raise an InputError if the items cannot change; `action` is such as "add items"."""
        self.method.require("changes", action)
        if not self.state.has_change_record:
            raise InputError(
                f"this manifold was built without the record that is needed to {action}",
                remedy="build it with `changes=True`",
            )

    def to_ranking(self, items: NDArray[np.int64], distances: NDArray[np.float32], meta: dict[str, Any]) -> Ranking:
        """Return the ranking of items, given by position, as users see it: with ids, or with stable item numbers."""
        if self.names.stored is None:
            return Ranking(items, distances, meta)
        return Ranking(self.names.numbers(items), distances, meta, ids=self.names.of(items))

    def masks(self, allowed: Mask | None = None) -> Masks:
        """Return masks of possible results: all items, or the `allowed` ones, a mask in the order of the items."""
        if allowed is None:
            return self._items
        if not self.remembered.count:
            return Masks.of(allowed)
        spread = np.zeros(len(self.vectors), np.bool_)
        spread[self.remembered.items] = allowed
        return Masks.of(spread, ~self.remembered.mask)

    @cached_property
    def _items(self) -> Masks:
        """Masks that allow all items and no observed query."""
        return Masks.of(counted=~self.remembered.mask) if self.remembered.count else UNRESTRICTED

    def found(self, queries: Vectors, depth: int) -> Neighbors:
        """Find the nearest rows of queries (q, d): as many items as the method needs, and observed queries."""
        return search_items(queries, self.gallery.search, self.method.neighbors_needed(depth), self.remembered)

    def search(self, request: Request) -> Answer:
        """Answer checked queries with item numbers, at most as deep as there are possible results.

        The masks of the request are those of `self.masks`; all items unless given. Marked items, given by number, are
        not results. The neighbours of the queries are found here.
        """
        masks = self.masks() if request.masks is UNRESTRICTED else request.masks
        depth = min(request.depth, len(self), masks.possible)
        shape = len(request.queries), depth
        if 0 in shape:
            return Answer(np.empty(shape, np.int64), np.empty(shape, np.float32))
        marked = max((len(marks.all) for marks in request.marks), default=0)
        request = replace(request, depth=depth, masks=masks, neighbors=self.found(request.queries, depth + marked))
        return self._search_marked(request) if request.marks else self._search(request)

    def _search(self, request: Request) -> Answer:
        if request.masks is UNRESTRICTED:
            return self.method.search_gallery(self.gallery, self.state, request)
        self.method.require("filters")
        answer = self.method.search_gallery(self.gallery, self.state, request)
        answer = fill_short_rows(answer, self.gallery, request.queries, request.masks.results)
        return replace(answer, indices=self.remembered.numbers(answer.indices))

    def _search_marked(self, request: Request) -> Answer:
        """Search the queries one by one, on several threads, because each has its own marks and masks."""
        indices = np.full((len(request.queries), request.depth), -1, np.int64)
        distances = np.full(indices.shape, np.inf, np.float32)
        certain = np.ones(len(indices), np.bool_)
        places, facts = self.remembered.items, dict[int, dict[str, Any]]()

        def answer(start: int, stop: int) -> None:
            for row in range(start, stop):
                marks = Marks(*(places[items] for items in request.marks[row]))
                masks = request.masks.without(marks.all, len(self.gallery))
                count = min(request.depth, masks.possible)
                one = replace(request.select_query(row), marks=(marks,), masks=masks, depth=count)
                result = self._search(one)
                indices[row, :count], distances[row, :count] = result.indices[0], result.distances[0]
                certain[row] = result.certain is None or result.certain[0]
                facts[row] = result.facts

        compiled = stages.kernels.compiler
        compiled.run_on_threads(answer, compiled.split_rows(len(indices), 1))
        settled = float(np.median([entry["settled"] for entry in facts.values()]))
        shared = facts[0] | {"certain": float(certain.mean()), "settled": settled}
        return Answer(indices, distances, shared, certain)


def build_snapshot(
    items: Gallery,
    method: PreparedMethod,
    ids: ArrayLike | None,
    max_memory: int | str | None,
    report: Progress,
    changes: bool,
    observed_limit: int | None,
) -> Snapshot:
    """Prepare the first snapshot of a gallery, see `Manifold.build`. Memory is checked before any work."""
    vectors, space, own, source = items.rows, items.space, items.ids, items.store
    if own is not None and ids is not None:
        raise InputError(
            f"cannot be given for {source!r}, whose items have ids", parameter="ids", remedy="leave it out"
        )
    names = Ids.of_new_items(ids, len(vectors)) if own is None else Ids(len(vectors), own)
    if isinstance(source, EngineStore):
        store: Store | None = EngineIdStore(source, names.all, vectors, space.scale)
    else:
        store = None if source is None else adapt_to_space(source, space)
    remembered = ObservedQueries.none(len(vectors), observed_limit)
    if observed_limit is not None:
        method.require("observe")
        if not changes:
            raise InputError("has no effect with `changes=False`", parameter="observed_limit", remedy="leave it out")
    budget = default_limit_bytes() if max_memory is None else parse_bytes(max_memory)
    needed = limit_counts(method, len(vectors)).prepared_bytes(len(vectors), vectors.shape[1], changes) + names.size
    if needed > budget:
        raise MemoryLimitError(
            f"a manifold of {len(vectors)} items needs about {format_bytes(needed)} to build, but `max_memory` allows "
            f"{format_bytes(budget)}; build from fewer items, or give a larger `max_memory`"
        )
    index = make_local_index(vectors, store, space.unit)
    state = method.prepare_gallery(make_gallery(vectors, index, report, space.unit), report, changes)
    gallery, over = make_gallery(vectors, store, unit=space.unit), describe_if_approximate(store)
    return Snapshot(method, gallery, names, remembered, state, store, over, space=space)


def describe_snapshot(snapshot: Snapshot) -> str:
    """Return the repr() of a Manifold."""
    count = snapshot.remembered.count
    observed = f", {count} observed {'query' if count == 1 else 'queries'}" if count else ""
    return f"Manifold({len(snapshot)} items x {snapshot.vectors.shape[1]} dimensions{observed}, {snapshot.method!r})"


def collect_info(snapshot: Snapshot) -> dict[str, Any]:
    """Return the facts of `Manifold.info`."""
    method, store = snapshot.method, snapshot.store if snapshot.engine is None else snapshot.engine
    store = store.base if isinstance(store, StoreView) and not store.changed else store
    return {
        "items": len(snapshot),
        "observed": snapshot.remembered.count,
        "observed_limit": snapshot.remembered.most(len(snapshot)) if method.can("observe") else 0,
        "dimensions": int(snapshot.vectors.shape[1]),
        "method": method.name,
        "parameters": asdict(method),
        "facts": snapshot.facts,
        "bytes": snapshot.size,
        "bytes_of_vectors": int(snapshot.vectors.nbytes),
        "ids": snapshot.names.kind,
        "metric": snapshot.space.metric,
        "combined": snapshot.space.description,
        "staleness": snapshot.staleness,
        "store": None if store is None else type(store).__name__,
        "built_over": snapshot.built_over,
    }


def describe_exact_search(folder: Path, snapshot: Snapshot) -> str:
    """Describe the cost of a search without the store over which the manifold was built."""
    n, d = snapshot.vectors.shape
    products = f"{n * d:,}" if n * d < 1e6 else f"{n * d / 1e6:,.1f} million"
    return (
        f"{folder} was built over {snapshot.built_over}, which is not saved with it, so it is searched exactly: each "
        f"query is compared with all {n:,} items, which takes {products} multiplications ({n:,} x {d}); "
        "in Python, Manifold.load(path, store=...) searches that store instead"
    )


def search_snapshot(
    snapshot: Snapshot,
    request: Request,
    where: Any = None,
    positives: Any = None,
    negatives: Any = None,
    groups: ArrayLike | None = None,
) -> tuple[Answer, NDArray[Any] | None]:
    """Answer checked queries (q, d). Also return the labels of the rows if the queries are grouped.

    Rows have `request.depth` entries (or as many as there are items) and are padded if fewer items can be results.
    """
    count = len(request.queries)
    masks = make_masks(snapshot, where)
    marks = None
    if positives is not None or negatives is not None:
        marks = parse_marks(positives, negatives, count, snapshot.names.places_of, snapshot.__len__)
        snapshot.method.require("feedback")
        if groups is not None:
            raise InputError("cannot be combined with `positives` or `negatives`", parameter="groups")
    labels, members = (None, None) if groups is None else parse_labels(groups, count)
    request = replace(request, masks=masks)
    if marks is not None and any(len(items) for marked in marks for items in marked):
        request = replace(request, marks=tuple(Marks(*marked) for marked in marks))
    answer = snapshot.search(request)
    if members is not None and labels is not None:
        answer = _merge_groups(answer, members, len(labels))
    return _pad_answer(answer, min(request.depth, len(snapshot))), labels


def make_masks(snapshot: Snapshot, where: Any) -> Masks:
    """Return masks of possible results from a filter as users give it; all items for None.

    Over a vector database, anything but a mask or a list of ids is a filter of the database, which returns the ids.
    """
    if where is None:
        return snapshot.masks()
    engine = snapshot.engine
    if engine is None or _is_item_list(where):
        return snapshot.masks(parse_mask(where, len(snapshot), snapshot.names.places_of))
    allowed = np.zeros(len(snapshot), np.bool_)
    places = snapshot.names.find_known_places(engine.ids_where(where))
    allowed[places[places >= 0]] = True
    return snapshot.masks(allowed)


def _is_item_list(where: Any) -> bool:
    """True if a filter is a mask or a list of ids, and not a filter of a vector database."""
    condition = isinstance(where, (list, tuple)) and len(where) == 2 and isinstance(where[1], (list, tuple))
    listed = isinstance(where, (list, tuple, set, frozenset)) or hasattr(where, "__array__")
    return listed and not condition


def _merge_groups(answer: Answer, members: NDArray[np.int64], count: int) -> Answer:
    """Merge the rows of each group: an item has the least of its distances; certain if all rows of the group are.

    The best k of a group are among the best k of its rows: an item among the first k by the least distance is among the
    first k of the row that has this distance.
    """
    depth = answer.indices.shape[1]
    indices, distances = np.full((count, depth), -1, np.int64), np.full((count, depth), np.inf, np.float32)
    certain = np.ones(count, np.bool_)
    for group in range(count):
        rows = members == group
        items, lengths = answer.indices[rows].ravel(), answer.distances[rows].ravel()
        order = np.lexsort((items, lengths))
        order = order[items[order] >= 0]
        _, first = np.unique(items[order], return_index=True)  # the least distance of each item
        order = order[np.sort(first)][:depth]
        indices[group, : len(order)], distances[group, : len(order)] = items[order], lengths[order]
        certain[group] = answer.certain is None or bool(answer.certain[rows].all())
    facts = answer.facts | ({"certain": float(certain.mean())} if "certain" in answer.facts and count else {})
    return Answer(indices, distances, facts, certain)


def _pad_answer(answer: Answer, depth: int) -> Answer:
    """Pad rows to `depth` entries with -1 and inf."""
    missing = ((0, 0), (0, depth - answer.indices.shape[1]))
    if not missing[1][1]:
        return answer
    indices = np.pad(answer.indices, missing, constant_values=-1)
    distances = np.pad(answer.distances, missing, constant_values=np.inf)
    return Answer(indices, distances, answer.facts, answer.certain)


def apply_max_distance(answer: Answer, farthest: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return items and distances, with -1 and inf in place of items that are farther."""
    near = answer.distances <= farthest
    return np.where(near, answer.indices, -1), np.where(near, answer.distances, np.float32(np.inf))


def parse_max_distance(value: float | None) -> float:
    """Check the maximum distance; infinite for None."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or math.isnan(value):
        raise InputError(parameter="max_distance", given=value, allowed="a number, or None for no limit")
    with np.errstate(over="ignore"):  # larger than any distance
        return float(np.float32(value))
