"""Question of a client: the query, the method and its parameters, validated and resolved against the gallery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.evaluation.relevance import QueryRef
from kinrank.manifold import Manifold
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method, find_method
from kinrank.methods.learned_method import LearnedMethod
from kinrank.parameters import check_whole_number
from kinrank.vector_input import Vectors
from kinrank.web.collection import Collection
from kinrank.web.page_data.method_schema import check_slider_limit

NO_QUERY: QueryRef = ("none", None)
DEFAULT_CANDIDATES = 1000  # re-ranked by another method than the prepared one


@dataclass(frozen=True)
class Question:
    """A question of a client: a query of the page, or the options of a search for queries that are given apart.

    Attributes:
        query: query of the page; NO_QUERY for a search.
        k: number of results.
        depth, budget, max_distance, where, groups: as in `Manifold.search`; budget and groups are only for the prepared
            gallery.
        positives, negatives: ids of items marked as right and wrong.
        method: name in METHODS; the prepared method by default.
        parameters: those that differ from the prepared method, or from the defaults of another one.
        candidates: number of nearest items to re-rank if method or parameters are not the prepared ones;
            DEFAULT_CANDIDATES if needed.
        level: ground truth by which results are judged; None for the default of the collection.
    """

    query: QueryRef = NO_QUERY
    k: int = 20
    method: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    candidates: int | None = None
    positives: Any = None
    negatives: Any = None
    level: str | None = None
    depth: int | None = None
    budget: int | None = None
    max_distance: float | None = None
    where: Any = None
    groups: Any = None

    @classmethod
    def of(cls, request: Any, **changes: Any) -> Question:
        """Take the fields of a request that has some of them, with some changes."""
        values = {one.name: getattr(request, one.name) for one in fields(cls) if hasattr(request, one.name)}
        return cls(**(values | changes))

    @property
    def candidate_count(self) -> int:
        """Number of nearest items to re-rank, checked."""
        return check_whole_number(DEFAULT_CANDIDATES if self.candidates is None else self.candidates, "candidates")

    @property
    def marked(self) -> list[Any]:
        return [*(self.positives or ()), *(self.negatives or ())]


def pick_exactly_one(inputs: Mapping[str, Any]) -> tuple[str, Any]:
    """Return name and value of the one input that is not None; an InputError if there is none or more than one."""
    given = [(name, value) for name, value in inputs.items() if value is not None]
    if len(given) != 1:
        problem = f"{' and '.join(name for name, _ in given)} were given" if given else "nothing was given"
        raise InputError(problem, remedy=f"give exactly one of {', '.join(inputs)}")
    return given[0]


def resolve_method(prepared: Method, name: str | None, parameters: dict[str, Any] | None) -> Method:
    """Create the requested method; an InputError if the method, a parameter or a value does not exist.

    Missing parameters are those of the prepared method, or the defaults of another method.
    """
    if name is not None and not isinstance(name, str):
        raise InputError(parameter="method", given=name, allowed=f"the name of a method, such as {prepared.name!r}")
    kind = type(prepared) if name is None else find_method(name)
    values = {} if parameters is None else parameters
    if not isinstance(values, dict):
        raise InputError(parameter="parameters", given=values, allowed="names with their values")
    declared = [one.name for one in kind.parameters() if not one.file]  # clients may not name files of this machine
    unknown = [parameter for parameter in values if parameter not in declared]
    if unknown:
        raise InputError(
            f"{kind.name} has no parameter {unknown[0]!r:.80}; it has: {', '.join(declared) or 'no parameters'}"
        )
    method = replace(prepared if kind is type(prepared) else kind(), **values)
    if isinstance(method, LearnedMethod) and method != prepared:
        raise InputError(
            f"{kind.name} needs the weights of a gallery that was prepared with it, and their parameters",
            remedy="leave out `method` and `parameters`, or give another method",
        )
    check_slider_limit(kind, values, prepared)
    return method


def public_repr(method: Method) -> str:
    """Return repr(method) for clients: files without their folders on this machine."""
    files = [one.name for one in method.parameters() if one.file and getattr(method, one.name) is not None]
    return repr(replace(method, **{name: Path(getattr(method, name)).name for name in files}))


def public_parameters(method: Method) -> dict[str, Any]:
    """Return the parameters of a method for clients: without files."""
    return {one.name: getattr(method, one.name) for one in method.parameters() if not one.file}


def get_query_vector(manifold: Manifold, collection: Collection, query: QueryRef) -> Vectors:
    """Return (d,) the vector of a query, as `Manifold.search` takes it."""
    snapshot, (kind, value) = manifold.snapshot, query
    if kind == "item":
        row = snapshot.remembered.items[find_item_position(snapshot, value)]
        return np.asarray(snapshot.vectors[row] * np.float32(snapshot.space.scale or 1.0))
    if kind == "query":
        return _get_numbered_query(collection.queries, value)
    if kind != "vector":
        raise InputError(parameter="query", given=kind, allowed="an item, a query or a vector")
    rows = np.atleast_2d(value)  # of a request: never a path
    checked = snapshot.space.rows(rows, "vector", snapshot.vectors.shape[1])
    if len(checked) != 1:
        raise InputError(f"has {len(checked)} rows", parameter="vector", remedy="give one")
    return np.array(rows[0], np.float32)


def _get_numbered_query(queries: NDArray[np.float32] | None, number: Any) -> Vectors:
    count = 0 if queries is None else len(queries)
    is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if queries is None or not is_whole or not 0 <= number < count:
        remedy = f"give a number from 0 to {count - 1}" if count else "this service was started without queries"
        raise InputError(f"query {number!r:.80} does not exist", remedy=remedy)
    return np.array(queries[int(number)], np.float32)


def find_item_position(snapshot: Snapshot, item: Any) -> int:
    """Return the position of an item among all items; an InputError if its id does not exist."""
    names = snapshot.names
    try:
        return int(names.places_of([item], "item")[0])
    except InputError:
        example = f"such as {names.all[:1].tolist()[0]!r:.80}" if len(snapshot) else "and there are none yet"
        raise InputError(
            f"item {item!r:.80} is not in this gallery", remedy=f"give the id of one that is, {example}"
        ) from None
