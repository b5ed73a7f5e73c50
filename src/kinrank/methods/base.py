"""Base classes of methods: frozen hyper-parameters that turn items into distances, and prepared galleries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinrank import deadline
from kinrank.chain import Chain
from kinrank.errors import InputError, MemoryLimitError
from kinrank.memory_limit import format_bytes
from kinrank.methods.capabilities import Capabilities, Capability, Limitation, missing_capability
from kinrank.neighbors import Neighbors, find_nearest_among
from kinrank.parameters import Parameter, list_parameters
from kinrank.problem import Items
from kinrank.progress import SILENT, Progress
from kinrank.ranking import rank_rows
from kinrank.stages.item_change import ItemChange
from kinrank.stages.request import Marks, Mask, Request
from kinrank.vector_input import Vectors

# The constants of `Method.seconds` were fitted by hand to measured times on one core of a shared virtual machine (AMD
# EPYC, 2026): curves with 500 to 2,000 candidates of 128 dimensions and 2,000 of 1,024; random directions and tight
# clusters with 2,000 of 128. The slowest of the three counted. Estimates that are known to be too small, by up to 2
# times: k-reciprocal and SCA with long lists, and LPMT with a very small tolerance, which is refused anyway.
SEARCH_SECONDS = 5e-11  # per inner product and dimension of the neighbour search
LIST_SECONDS = 5e-7  # per entry of a neighbour list
UNREACHED_STEP = 1e-6  # relative to the span of the row: far below any tolerance on values, far above float64 rounding

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, float]  # single numbers by name
AnyMethod = TypeVar("AnyMethod", bound="Method")


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base class of a re-ranking method: a frozen dataclass of hyper-parameters, `prepare`, `distances` and `memory`.

    `prepare` computes everything that is independent of the queries to rank; `distances` then ranks a block of queries.
    `rerank` calls `prepare` once and `distances` block by block, so memory stays bounded. A method that can also rank
    new queries in a prepared gallery extends `PreparedMethod`.

    Attributes:
        name: name on the command line.
        paper: authors, title and year.
        capabilities: abilities beyond `rerank`.
        limitations: values of hyper-parameters that rule out a capability.
        candidate_settings: hyper-parameters that differ for graphs of candidates, because preparing one for every query
            would take too long.
    """

    name: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities()
    limitations: ClassVar[tuple[Limitation, ...]] = ()
    candidate_settings: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # else `dataclass` would generate one that lists all parameters
            cls.__repr__ = Method.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for declared in self.parameters():
            value = declared.check(type(self).__name__, getattr(self, declared.name))
            object.__setattr__(self, declared.name, value)

    def __repr__(self) -> str:
        """Return Python code that creates the method: the parameters that differ from their defaults."""
        changed = [entry for entry in self.parameters() if getattr(self, entry.name) != entry.default]
        return _format_method(self, changed)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """List every hyper-parameter with its meaning, default and range."""
        return list_parameters(cls)

    def load_weights(self) -> None:
        """Load the weights that the method needs, if any, so that a missing file is reported at once."""

    def prepare(self, items: Items, progress: Progress) -> Any:
        """Compute everything that queries share: graphs, states, costs. The result is passed to `distances`."""
        raise NotImplementedError

    def distances(self, prepared: Any, queries: NDArray[np.int64]) -> NDArray[Any]:
        """Return (len(queries), gallery) finite distances; smaller is nearer.

        `queries` are positions in `items.queries`, the columns follow `items.gallery`. Equal distances are ordered by
        item number. A method that cannot reach some items must give them larger distances than the others.
        """
        raise NotImplementedError

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Estimate the peak memory of `prepare` in bytes, without the vectors, before anything is allocated."""
        return 0

    def seconds(self, items: int, dimensions: int) -> float:
        """Estimate how long one core works on one query and its `items` candidates, in a graph of their own.

        A service refuses requests by this estimate, so it must not be far too small; `tests/methods/test_seconds.py`
        compares it with measured times. This default holds for methods that build neighbour lists and scan each list a
        few times; methods that do more override it.
        """
        longest = max((self.value_in_use(entry.name) for entry in self.parameters() if entry.counts), default=0)
        return list_seconds(items, dimensions, longest)

    def value_in_use(self, name: str) -> Any:
        """Return the value of a hyper-parameter; if it is None and follows another one, the value that follows."""
        return getattr(self, name)

    def can(self, capability: Capability) -> bool:
        """True if the class declares the capability and these hyper-parameters do not rule it out."""
        ruled_out = any(limit.applies(self, capability) for limit in self.limitations)
        return getattr(self.capabilities, capability) and not ruled_out

    def require(self, capability: Capability, action: str = "change items") -> None:
        """Raise an InputError with the reason if the method lacks the capability.

        `action` is the requested change, such as "add items", for the message about `changes`.
        """
        if self.can(capability):
            return
        for limit in self.limitations:
            if limit.applies(self, capability):
                raise limit.error(self)
        from kinrank.methods import METHODS  # late: its classes are derived from this one

        # LPMT first
        prepared = [name for name, kind in reversed([*METHODS.items()]) if kind.capabilities.prepared_search]
        names = {"method": type(self).__name__, "action": action, "alternatives": ", ".join(prepared)}
        raise missing_capability(capability, **names)


def full_repr(method: Method) -> str:
    """Return Python code with all parameters, for records that must survive changes of the defaults."""
    return _format_method(method, method.parameters())


def _format_method(method: Method, shown: Sequence[Parameter]) -> str:
    values = ", ".join(f"{entry.name}={getattr(method, entry.name)!r}" for entry in shown)
    return f"{type(method).__name__}({values})"


def limit_counts(method: AnyMethod, items: int) -> AnyMethod:
    """Return a copy whose numbers of items are at most `items`; larger numbers mean all items anyway."""
    counts = {entry.name: getattr(method, entry.name) for entry in method.parameters() if entry.counts}
    limits = {name: max(items, 1) for name, value in counts.items() if value is not None and value > max(items, 1)}
    return replace(method, **limits) if limits else method


def for_candidates(method: Method) -> Method:
    """Return the method for small graphs of candidates: itself, unless it declares `candidate_settings`."""
    return replace(method, **method.candidate_settings) if method.candidate_settings else method


def append_unreachable(
    distances: NDArray[Any],
    reached: NDArray[np.bool_],
    original: Callable[[], NDArray[Any]],
    last: float | NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return finite distances: unreached items follow all reached ones, ordered by `original`.

    If the method knows a `last` that no reached distance of the row exceeds, an unreached item gets `last + d`, d being
    the original distance. Otherwise it gets `last + UNREACHED_STEP * span * (1 + d)`, where `last` is the largest of 0
    and the reached distances of its row and `span` is their extent including 0. These steps are so small that methods
    whose unreached items score zero keep their values. All shapes are (rows, items), `last` is a number or (rows, 1);
    `original` is called only if there are unreached items.

    Example:
        >>> reached = np.array([[True, False, False]])
        >>> append_unreachable(np.array([[-2.0, 0, 0]]), reached, lambda: np.array([[1, 3, 2]])).argsort()
        array([[0, 2, 1]])
    """
    result = np.array(distances, dtype=np.float64)
    if reached.all():
        return result
    if last is not None:
        return np.where(reached, result, last + original().astype(np.float64))
    known = np.where(reached, result, 0.0)
    largest = known.max(axis=1, keepdims=True, initial=0.0)
    span = largest - known.min(axis=1, keepdims=True, initial=0.0)
    span[span == 0] = 1.0
    return np.where(reached, result, largest + UNREACHED_STEP * span * (1.0 + original()))


def distances_from_scores(
    scores: NDArray[Any], original: Callable[[], NDArray[Any]], last: float | None = None
) -> NDArray[np.float64]:
    """Convert similarities to distances: the negated score; items with a score of exactly 0 follow the others."""
    return append_unreachable(-scores, scores != 0, original, last)


def list_seconds(items: int, dimensions: int, longest: int) -> float:
    """Estimate the seconds for lists of at most `longest` neighbours of every item."""
    return SEARCH_SECONDS * items * items * (dimensions + 100) + LIST_SECONDS * items * (min(longest, items) + 50)


@dataclass(frozen=True, eq=False)
class GalleryIndex:
    """A gallery that a method prepares and searches, and the functions that find neighbours in it.

    Attributes:
        vectors: (n, d) rows.
        lists: `lists(k)`, (n, min(k, n)) neighbours of every item, the item itself first. Each call searches again and
            caches nothing, so that the caller can free the memory.
        lists_of: `lists_of(rows, k)`, the lists of some items only, k at most n.
        search: `search(queries, k)`, (q, min(k, n)) nearest items of queries (q, d); short rows are padded with -1 and
            inf.
        exact: True if these find every neighbour; a store may miss some.
        run: execution backend of the loops; None: the threads of this process.
        unit: True if all vectors have length one, so that inner products alone determine distances.
    """

    vectors: Vectors
    lists: Callable[[int], Neighbors]
    lists_of: Callable[[NDArray[np.int64], int], Neighbors]
    search: Callable[[Vectors, int], Neighbors]
    exact: bool
    run: Any = None
    unit: bool = True

    def __len__(self) -> int:
        return len(self.vectors)

    def search_among(self, queries: Vectors, k: int, results: Mask) -> Neighbors:
        """Find the (q, k) nearest items of a mask (n,); rows are padded if it has fewer."""
        search = None if self.exact else self.search
        return find_nearest_among(queries, k, results, lambda numbers: self.vectors[numbers], search, self.unit)


@dataclass(frozen=True, eq=False, kw_only=True)
class MethodState:
    """A gallery as a method prepared it before any query is known, ready to be searched.

    Only storage converts it: `to_arrays` before saving, `from_arrays` after loading.

    Attributes:
        facts: single numbers to save.
        has_change_record: True if it holds all that `PreparedMethod.change` needs.
    """

    facts: Facts = field(default_factory=dict)
    has_change_record: ClassVar[bool] = True

    def to_arrays(self) -> Arrays:
        """Return the arrays to save by name, without copies: by default the fields that are arrays."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    @classmethod
    def from_arrays(cls, method: Any, vectors: Vectors, arrays: Arrays, facts: Facts) -> MethodState:
        """Return the state from saved arrays; raise an InputError if parts are missing or do not fit together.

        `method` has the hyper-parameters, `vectors` (n, d) are the rows of the gallery.
        """
        raise NotImplementedError

    def staleness(self, items: int) -> float:
        """Measure from 0 to 1 how far changes have moved the state from a new `prepare_gallery`."""
        return 0.0


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of a search: (q, depth) item numbers and distances, nearest first, padded with -1 and inf.

    facts: entries of `Ranking.meta`. certain: (q,) True if the first items of a query are certain; None if all are.
    """

    indices: NDArray[np.int64]
    distances: NDArray[np.float32]
    facts: dict[str, Any] = field(default_factory=dict)
    certain: NDArray[np.bool_] | None = None


@dataclass(frozen=True, kw_only=True)
class PreparedMethod(Method):
    """Base class of a method that can rank new queries in a prepared gallery.

    A Manifold calls `prepare_gallery` once, saves the state that it returns, and calls `search_gallery` for every
    search. `state` is the class of that state. `change`, `explain_result` and `distances_with_marks` belong to the
    optional capabilities `changes`, `explain` and `feedback`.
    """

    state: ClassVar[type[MethodState]] = MethodState

    def prepare_gallery(self, gallery: GalleryIndex, progress: Progress, changes: bool = True) -> MethodState:
        """Compute the state of a gallery before any query is known; with `changes` also all that `change` needs."""
        raise NotImplementedError

    def neighbors_needed(self, depth: int) -> int:
        """Return the number of nearest items of a query that `search_gallery` needs to return `depth` items."""
        raise NotImplementedError

    def search_gallery(self, gallery: GalleryIndex, state: Any, request: Request) -> Answer:
        """Return the best items for each of the queries, of which there is at least one.

        A request with marks has one query, and its masks exclude the marked items. A Manifold fills rows with fewer
        than `request.depth` items.
        """
        raise NotImplementedError

    def prepared_bytes(self, items: int, dimensions: int, changes: bool) -> int:
        """Estimate the peak memory of `prepare_gallery` in bytes, including vectors and neighbour lists."""
        return 4 * dimensions * items + self.memory(items, 0, dimensions)

    def change(self, before: Any, gallery: GalleryIndex, turnover: ItemChange, tolerance: float | None) -> MethodState:
        """Return the state of a gallery after a change; `gallery` is the one after the change.

        `tolerance` is the allowed difference from the result of `prepare_gallery`, in units of the method; None: its
        own choice. By default the whole gallery is prepared again.
        """
        return self.prepare_gallery(gallery, SILENT)

    def explain_result(self, gallery: GalleryIndex, state: Any, request: Request, item: int, flows: int) -> Chain:
        """Return the chain by which `search_gallery` ranks an item for one query; at most `flows` flows a step.

        Names of links and in flows are positions in the gallery.
        """
        raise NotImplementedError

    def distances_with_marks(self, prepared: Any, query: int, marks: Marks) -> NDArray[Any]:
        """Return (gallery,) distances of one query with items marked right or wrong, by position in the gallery."""
        raise NotImplementedError


def require_prepared(method: Method) -> PreparedMethod:
    """Return the method if it can search a prepared gallery; raise an InputError with the reason otherwise."""
    method.require("prepared_search")
    if not isinstance(method, PreparedMethod):
        raise InputError(f"{type(method).__name__} declares `prepared_search`, so it must extend PreparedMethod")
    return method


def rank_in_blocks(
    method: Method,
    items: Items,
    depth: int,
    budget: int,
    report: Progress,
    allowed: Mask | None = None,
    marks: list[Marks] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rank all queries of a problem: prepare once, then compute distances block by block within a memory budget.

    Return (q, depth) positions in the gallery and distances; rows with too few results are padded with -1 and inf.

    Args:
        budget: limit in bytes.
        allowed: (gallery,) mask of possible results.
        marks: items marked right and wrong for every query; they are no results.
    """
    count = len(items.queries)
    rows = _count_queries_per_block(method, items, depth, budget)
    indices = np.empty((count, depth), np.int64)
    distances = np.empty((count, depth), np.float32)
    if not indices.size:
        return indices, distances
    prepared, limit = method.prepare(items, report), deadline.CURRENT.get()
    blocks = [np.arange(start, min(start + rows, count)) for start in range(0, count, rows)]
    for block in report.each("queries", blocks, len(blocks)):
        if limit is not None:
            limit.check()
        if marks is None:
            values = method.distances(prepared, block)
        else:
            assert isinstance(method, PreparedMethod)  # its capability `feedback` was checked
            values = np.array([method.distances_with_marks(prepared, int(row), marks[row]) for row in block])
        if items.self_query or allowed is not None or marks is not None:
            values = np.array(values)  # the method may return an array that it keeps
        if items.self_query:
            values[np.arange(len(block)), block] = np.inf
        if allowed is not None:
            values[:, ~allowed] = np.inf
        if marks is not None:
            for place, row in enumerate(block):
                values[place, marks[row].all] = np.inf
        order, lengths = rank_rows(values, depth)
        indices[block], distances[block] = np.where(np.isinf(lengths), -1, order), lengths
    return indices, distances


def _count_queries_per_block(method: Method, items: Items, depth: int, budget: int) -> int:
    """Return how many queries fit into the budget at once; refuse before anything is allocated."""
    count, gallery = len(items.queries), len(items.gallery)
    result = count * depth * 12
    work = limit_counts(method, len(items)).memory(len(items), count, items.vectors.shape[1])
    per_row = max(1, gallery * 40)  # a block of distances, its order and the copies of sorting
    free = budget - result - work
    if free < per_row and count:
        needed = result + work + per_row
        raise MemoryLimitError(
            f"{method.name} on {len(items)} items needs about {format_bytes(needed)} but `max_memory` allows "
            f"{format_bytes(budget)}; give `k` for shorter results, `candidates` for a few items per "
            "query, or a larger `max_memory`"
        )
    return int(max(1, min(count, free // per_row, 64_000_000 // per_row + 1)))
