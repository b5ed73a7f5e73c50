"""Store: base class of everything that holds and searches vectors; store URLs; order and ids of its results."""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.feature_combination import Combination
from kinrank.filters import parse_mask
from kinrank.ids import to_list
from kinrank.neighbors import find_nearest
from kinrank.ranking import Ranking
from kinrank.vector_input import Vectors, to_unit_rows
from kinrank.vector_space import METRICS, Space, check_metric

if TYPE_CHECKING:
    from kinrank.stores.engine import EngineStore

IndicesAndDistances = tuple[NDArray[np.int64], NDArray[np.float32]]


class Store(ABC):
    """A collection of vectors that can be searched. Items are numbered 0, 1, 2, ...

    A subclass implements `search`, `vectors` and `__len__`, and overrides attributes that differ from their defaults.

    Attributes:
        metric: "cosine", or "euclidean" if vectors are compared and returned without being normalised.
        exact: True if a search always returns the nearest items.
        filters: True if `search` accepts `where`, a mask or item numbers. Otherwise kinrank filters the results.
        in_units: True if vectors and distances are divided by the scale of a Manifold.
        how: the features that the vectors were combined from, see `combine`; None for a single feature.
    """

    metric: str = "cosine"
    exact: bool = False
    filters: bool = False
    in_units: bool = False
    how: Combination | None = None

    @abstractmethod
    def search(self, queries: ArrayLike, k: int) -> Ranking:
        """Return the (q, <= k) nearest items by Euclidean distance. Shorter rows are padded with -1."""

    @abstractmethod
    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
        """Return the (len(ids), d) vectors of these item numbers, in this order."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of items."""

    def rebuild(self, vectors: Vectors) -> Store | None:
        """Return a store of the same kind over other vectors; None if this is impossible. `refresh` calls it."""
        return None

    @property
    def engine(self) -> EngineStore | None:
        """The vector database that is searched; None if there is none."""
        return None


def resolve_metric(gallery: Any, metric: str | None = None) -> str:
    """Return `metric`, or that of the store if it is None. Raise InputError if the two differ."""
    wanted = None if metric is None else check_metric(metric)
    if not isinstance(gallery, Store):
        if callable(getattr(gallery, "search", None)) and callable(getattr(gallery, "vectors", None)):
            raise InputError(f"{type(gallery).__name__} is not a Store", remedy="let its class extend kinrank.Store")
        return wanted or METRICS[0]
    own = gallery.metric
    if wanted is not None and wanted != own:
        raise InputError(
            f"differs from the metric of the store, {own!r}",
            parameter="metric",
            given=metric,
            remedy=f"give `metric={own!r}` or leave it out",
        )
    return own


def check_same_metric(store: Store, space: Space) -> None:
    """Raise InputError if the metric of the store differs from that of the manifold."""
    if store.metric != space.metric:
        raise InputError(
            f"the store searches by {store.metric}, but the manifold was built with {space.metric}",
            remedy="give a store with the metric of the manifold",
        )


def describe_if_approximate(store: Store | None) -> str | None:
    """Describe an approximate store, for example "FaissStore(hnsw)"; return None for an exact store and for None."""
    if store is None or store.exact:
        return None
    words = " ".join(repr(store).split())[:100]
    if " object at 0x" not in words:
        return words
    plain = re.match(r"<(?:[\w.<>]*\.)?(\w+) object at 0x", words)  # leave out the memory address
    return plain[1] if plain else type(store).__name__


class EngineEntry(NamedTuple):
    """Module and class of the store of an engine, and an example of its URL."""

    module: str
    name: str
    example: str


ENGINES = {
    "postgresql": EngineEntry(
        "pgvector", "PgvectorStore", "postgresql://user@host/db?table=items&vector=embedding&key=id"
    ),
    "qdrant": EngineEntry("qdrant", "QdrantStore", "qdrant://localhost:6333/collection"),
    "lancedb": EngineEntry("lancedb", "LanceDBStore", "lancedb:///folder?key=id#table"),
    "chroma": EngineEntry("chroma", "ChromaStore", "chroma:///folder#collection"),
    "duckdb": EngineEntry("duckdb", "DuckDBStore", "duckdb:///file.db?table=items&vector=embedding&key=id"),
    "sqlite": EngineEntry("sqlite_vec", "SqliteVecStore", "sqlite:///file.db?table=items&vector=embedding&key=id"),
    "faiss": EngineEntry("faiss", "FaissIndexStore", "faiss:index.faiss"),
    "usearch": EngineEntry("usearch", "UsearchStore", "usearch:index.usearch"),
}
# Options whose names end like this are never printed, except `key`
SECRET_SUFFIXES = ("password", "secret", "token", "key")
ALIASES = {"postgres": "postgresql"}


@dataclass(frozen=True)
class StoreUrl:
    """The parts of a store URL.

    Attributes:
        scheme: name of the engine, such as "qdrant".
        host, port, user, password: of a server; None for a file or folder.
        path: the part after the server, without its first slash; the path itself for a file or folder.
        fragment: the part after "#": a table or collection in a folder.
        options: the parameters after "?", by name.
    """

    scheme: str
    host: str | None
    port: int | None
    user: str | None
    password: str | None = field(repr=False)
    path: str
    fragment: str
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> StoreUrl:
        """Parse a URL such as postgresql://me@host:5432/db?table=items, lancedb:///folder#table or faiss:file.

        Three slashes start an absolute path; `scheme:path` is a relative path.
        """
        if not isinstance(url, str) or ":" not in url:
            raise InputError(
                f"{url!r:.80} is not a store URL", remedy="give one such as qdrant://localhost:6333/collection"
            )
        scheme, rest = url.split(":", 1)
        try:
            parts = urlsplit(f"store:{rest}")  # the same rules for all schemes
            port = parts.port
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:  # its message may contain a part of the password
            raise InputError(
                f"the store URL {scheme}:... cannot be parsed",
                remedy="write characters such as @ : / and % in a password as percent codes (%40 for @), the port as a "
                "number, and options as name=value",
            ) from None
        options = dict(pairs)
        if len(options) < len(pairs):
            raise InputError(f"the store URL {scheme}:... contains an option twice", remedy="give each option once")
        server = parts.netloc != ""
        path = unquote(parts.path)
        return cls(
            scheme,
            parts.hostname if server else None,
            port,
            parts.username and unquote(parts.username),
            parts.password and unquote(parts.password),
            path.removeprefix("/") if server else path,
            unquote(parts.fragment),
            options,
        )

    def __str__(self) -> str:
        """Return the URL without password and other secrets, for messages."""
        port = f":{self.port}" if self.port else ""
        server = "" if self.host is None else f"//{self.host}{port}/"
        printable = {name: value for name, value in self.options.items() if not _is_secret(name)}
        shown = "&".join(f"{name}={quote(value, safe='/')}" for name, value in printable.items())
        options, fragment = f"?{shown}" if shown else "", f"#{self.fragment}" if self.fragment else ""
        return f"{self.scheme}:{server}{self.path}{options}{fragment}"

    def check_options(self, *allowed: str) -> dict[str, str]:
        """Return the options. Raise InputError if one is not among those allowed."""
        unknown = [name for name in self.options if name not in allowed]
        if unknown:
            raise InputError(f"{self.scheme}: has no option {unknown[0]!r}", allowed=", ".join(allowed))
        return dict(self.options)

    def require(self, name: str, where: str) -> str:
        """Return the path, the fragment or an option. Raise InputError if it is missing; `where` describes it."""
        value = {"path": self.path, "fragment": self.fragment}.get(name) or self.options.get(name)
        if not value:
            raise InputError(f"{self.scheme}: needs {where}")
        return value


def parse_timeout(given: Any) -> float | None:
    """Return the parameter `timeout` in seconds, from a number or a text; None for no limit."""
    if given is None:
        return None
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise InputError(parameter="timeout", given=given, allowed="a number of seconds > 0")
    return value


def _is_secret(option: str) -> bool:
    return option != "key" and option.endswith(SECRET_SUFFIXES)


def open_store(url: str) -> Store:
    """Open the store at a URL. Close a database store after use, or use it in a `with` block.

    Args:
        url: the scheme selects the engine. A password can be part of the URL or set in the environment variable that
            the tools of the engine read, such as PGPASSWORD. It is never printed.

    Example:
        >>> with kinrank.open_store("postgresql://me@localhost/shop?table=items&vector=embedding&key=id") as store:
        ...     ranking = kinrank.rerank(queries, store, candidates=500)
    """
    parsed = StoreUrl.parse(url)
    engine = ENGINES.get(ALIASES.get(parsed.scheme, parsed.scheme))
    if engine is None:
        raise InputError(f"{parsed.scheme!r} is not a supported engine", allowed=f"one of: {', '.join(ENGINES)}")
    kind: Any = getattr(importlib.import_module(f"kinrank.stores.{engine.module}"), engine.name)
    try:
        store: Store = kind.from_url(parsed)
    except InputError as error:
        if "needs" not in error.problem:
            raise
        raise InputError(f"{error} (example of a URL: {engine.example})") from error
    return store


def sort_and_dedupe(
    indices: NDArray[np.int64], distances: NDArray[np.float32], k: int, own: NDArray[np.int64] | None = None
) -> IndicesAndDistances:
    """Return (q, k) item numbers and distances, sorted by distance, then by number, padded with -1 and inf.

    Approximate indexes pad with -1 and may list an item twice, out of order, or not at all. `own` (q,) is put first in
    its row, at distance 0, even if the index did not return it.
    """
    if own is None and _is_tidy(indices, distances, k):
        return indices, distances
    numbers = indices.astype(np.int64)
    lengths = np.maximum(distances.astype(np.float32), 0.0)  # a copy; rounding may produce small negative distances
    lengths[(numbers < 0) | ~np.isfinite(lengths)] = np.inf
    if own is not None:
        lengths[numbers == own[:, None]] = np.inf
        numbers = np.concatenate([own[:, None], numbers], axis=1)
        lengths = np.concatenate([np.full((len(own), 1), -1.0, np.float32), lengths], axis=1)
    numbers, lengths = _take_in_order(numbers, lengths, np.lexsort((numbers, lengths), axis=1))
    by_number = np.argsort(numbers, axis=1, kind="stable")  # stable: of equal numbers the nearest comes first
    ordered = np.take_along_axis(numbers, by_number, axis=1)
    repeated = np.zeros(numbers.shape, np.bool_)
    np.put_along_axis(repeated, by_number[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    lengths[repeated] = np.inf
    numbers[np.isinf(lengths)] = -1
    numbers, lengths = _take_in_order(numbers, lengths, np.argsort(lengths, axis=1, kind="stable")[:, :k])
    missing = k - numbers.shape[1]
    if missing > 0:
        numbers = np.pad(numbers, ((0, 0), (0, missing)), constant_values=-1)
        lengths = np.pad(lengths, ((0, 0), (0, missing)), constant_values=np.inf)
    return numbers, np.maximum(lengths, 0.0)


def _is_tidy(indices: NDArray[Any], distances: NDArray[Any], k: int) -> bool:
    """Return True if every row has k items, ascending by distance, then by number, and no duplicates."""
    if indices.shape[1] != k or not k or int(indices.min(initial=0)) < 0 or float(distances[:, 0].min(initial=0)) < 0:
        return False
    step, ahead = np.diff(distances, axis=1), np.diff(indices, axis=1)
    ascending = bool(((step > 0) | ((step == 0) & (ahead > 0))).all())
    return ascending and bool(np.isfinite(distances[:, -1]).all()) and not bool((np.diff(np.sort(indices)) == 0).any())


def _take_in_order(
    numbers: NDArray[np.int64], lengths: NDArray[np.float32], order: NDArray[np.int64]
) -> IndicesAndDistances:
    return np.take_along_axis(numbers, order, axis=1), np.take_along_axis(lengths, order, axis=1)


class QueryHits(NamedTuple):
    """Results of one query, nearest first: (n,) ids, (n,) distances, (n, d) vectors."""

    ids: NDArray[Any]
    distances: NDArray[np.float32]
    rows: Vectors


def rank_by_distance(
    query: Vectors, ids: NDArray[Any], rows: NDArray[Any], k: int, metric: str, dimensions: int
) -> QueryHits:
    """Return the k nearest of the items `ids` with the vectors `rows` (n, d), which may be unsorted and repeated.

    Items without a comparable vector are left out, see `drop_incomparable`.
    """
    ids, first = np.unique(ids, return_index=True)  # ascending: ties go to the lower id
    ids, rows = drop_incomparable(ids, rows[first], metric, dimensions)
    found = find_nearest(query[None, :], rows, k, unit=metric == "cosine")
    order = found.indices[0]
    return QueryHits(ids[order], found.distances[0], rows[order])


def drop_incomparable(
    ids: NDArray[Any], rows: NDArray[Any], metric: str, dimensions: int | None
) -> tuple[NDArray[Any], Vectors]:
    """Return the items with comparable vectors, and these vectors, normalised if the metric is cosine.

    A vector is not comparable if it is missing (NaN), not finite, or zero under cosine.
    """
    if rows.ndim != 2 or (dimensions and len(rows) and rows.shape[1] != dimensions):
        raise InputError(
            f"the store returned vectors of shape {rows.shape}, but they must have {dimensions} dimensions"
        )
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(rows, np.float32)
    good = np.isfinite(rows).all(axis=1)
    if metric == "cosine":
        good &= rows.any(axis=1)
    if not good.all():
        ids, rows = ids[good], rows[good]
    return ids, to_unit_rows(rows) if metric == "cosine" else rows


def to_id_array(keys: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """Return the ids of an engine as an (n,) array: int64, uint64 if a number requires it, or str (dtype object).

    UUIDs become strings. If an engine mixes integers and strings, all become strings. -1 and "" are refused because
    they mean "no item".
    """
    entries = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    if all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in set(map(type, entries))):
        try:
            found = np.array(entries, np.int64)
        except OverflowError:
            found = np.array(entries, np.uint64)
        nothing: Any = -1
        wrong = bool((found == -1).any()) if found.dtype == np.int64 else False
    else:
        wrong_types = [entry for entry in entries if not isinstance(entry, (int, str, UUID)) or isinstance(entry, bool)]
        if wrong_types:
            kind = type(wrong_types[0]).__name__
            raise InputError(
                f"the store has the id {wrong_types[0]!r}, a {kind}", remedy="use ids that are integers, texts or UUIDs"
            )
        found = np.empty(len(entries), object)
        found[:] = list(map(str, entries))
        nothing, wrong = "", "" in entries
    if wrong:
        raise InputError(
            f"an item of the store has the id {nothing!r}, which means that there is no item",
            remedy="give it another id",
        )
    return found


def unify_id_types(lists: Sequence[QueryHits]) -> list[NDArray[Any]]:
    """Return the ids of every list in one type: int64, or objects if there are texts or integers beyond int64."""
    texts = any(hits.ids.dtype.kind == "O" for hits in lists)
    if texts:
        return [hits.ids if hits.ids.dtype.kind == "O" else hits.ids.astype(str).astype(object) for hits in lists]
    large = any(hits.ids.dtype.kind == "u" for hits in lists)
    return [hits.ids.astype(object) if large else hits.ids for hits in lists]


def ranking_from_lists(
    lists: Sequence[QueryHits], meta: dict[str, Any], width: int = 0, has_ids: bool = True
) -> Ranking:
    """Build a Ranking from one list per query, padded to the longest list or to `width`.

    `indices` equals `ids` if these are integers >= 0. Otherwise `indices` numbers the ids of this ranking in ascending
    order and is meaningful within this ranking only. Without `has_ids` the lists hold item numbers.
    """
    width = max([width, *(len(hits.ids) for hits in lists)])
    texts = any(hits.ids.dtype.kind == "O" for hits in lists)
    unified = unify_id_types(lists)
    kind = object if any(entries.dtype == object for entries in unified) else np.int64
    ids: NDArray[Any] = np.full((len(lists), width), "" if texts else -1, kind)
    distances = np.full(ids.shape, np.inf, np.float32)
    filled = np.zeros(ids.shape, np.bool_)
    for row, (entries, hits) in enumerate(zip(unified, lists, strict=True)):
        size = len(entries)
        ids[row, :size], distances[row, :size], filled[row, :size] = entries, hits.distances, True
    if ids.dtype == np.int64 and int(ids.min(initial=0, where=filled)) >= 0:
        return Ranking(ids, distances, meta, ids=ids.copy() if has_ids else ids)
    indices = np.full(ids.shape, -1, np.int64)
    indices[filled] = np.unique(ids[filled], return_inverse=True)[1]
    return Ranking(indices, distances, meta, ids=ids)


def check_item_numbers(ids: Sequence[int] | NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return ids as int64. Raise InputError if one of them is not in 0 to count - 1."""
    numbers = np.asarray(ids, dtype=np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise InputError(
            f"must be item numbers from 0 to {count - 1}; got {numbers.min()}..{numbers.max()}", parameter="ids"
        )
    return numbers


def parse_item_numbers(count: int, entries: Any, parameter: str) -> NDArray[np.int64]:
    """Return the item numbers of `parameter`, one or several. Raise InputError for an entry that is not an item."""
    entries = to_list(entries, parameter)
    for entry in entries:
        whole = isinstance(entry, (int, np.integer)) and not isinstance(entry, bool)
        if not whole or not 0 <= entry < count:
            raise InputError(
                f"contains {entry!r}, which is not an item",
                parameter=parameter,
                allowed=f"numbers from 0 to {count - 1}",
            )
    return np.array(entries, np.int64)


def mask_from_filter(where: Any, count: int) -> NDArray[np.bool_]:
    """Return a (count,) mask of the items that a filter allows. The filter is a mask or a list of item numbers."""
    return parse_mask(where, count, partial(parse_item_numbers, count))
