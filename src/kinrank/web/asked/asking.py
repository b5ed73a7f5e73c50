"""What was asked, as people and programs name it -> a vector, a method, a place in the gallery; or a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.manifold import Manifold
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method, method_named
from kinrank.methods.learned import Learned
from kinrank.web.asked.sliders import check_reach

Query = tuple[str, Any]  # ("item", id) | ("query", number) | ("vector", numbers): who asks


class Shown(Protocol):
    """What is known of items and queries beside their vectors; see `Collection`."""

    @property
    def levels(self) -> list[str]: ...

    @property
    def queries(self) -> NDArray[np.float32] | None: ...

    @property
    def has(self) -> dict[str, bool]: ...

    def card(self, item: Any) -> dict[str, Any]: ...

    def query_card(self, number: int) -> dict[str, Any]: ...

    def verdicts(self, asked: Query, level: str | None, items: list[Any]) -> list[bool | None] | None: ...

    def known_right(self, asked: Query, level: str | None) -> int | None: ...


@dataclass(frozen=True)
class Asked:
    """One question of the page.

    Attributes:
        query: who asks.
        k: how many results are shown.
        method, parameters: as for `searching.searched`.
        candidates: how many of the nearest items are re-ranked, where method or parameters are not the prepared ones.
        positives, negatives: ids of items that were marked right and wrong.
        level: by which truth results are judged; None for that of the collection's own choice.
    """

    query: Query
    k: int = 20
    method: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    candidates: int = 1000
    positives: list[Any] = field(default_factory=list)
    negatives: list[Any] = field(default_factory=list)
    level: str | None = None

    @property
    def marked(self) -> list[Any]:
        return [*self.positives, *self.negatives]


def only_one(ways: Mapping[str, Any], sentence: str) -> tuple[str, Any]:
    """The one way to ask that was given, by its name, and what it holds.

    Otherwise a ValueError with the sentence, in which {count} says how many were given, and {given} which.
    """
    found = [(name, value) for name, value in ways.items() if value is not None]
    if len(found) != 1:
        named = " and ".join(name for name, _ in found) or "nothing"
        raise ValueError(sentence.format(count=len(found), given=named))
    return found[0]


def method_asked(prepared: Method, name: str | None, parameters: dict[str, Any] | None) -> Method:
    """The method that was asked for; a ValueError if there is none of that name, or no such parameter or value.

    Parameters that were not given are those of the prepared method, or the declared ones of another method.
    """
    if name is not None and not isinstance(name, str):
        raise ValueError(f"method={name!r:.80} is not allowed; give the name of a method, such as {prepared.name!r}")
    kind = type(prepared) if name is None else method_named(name)
    values = {} if parameters is None else parameters
    if not isinstance(values, dict):
        raise ValueError(f"parameters={values!r:.80} is not allowed; give names with their values")
    declared = [one.name for one in kind.parameters() if not one.file]  # no stranger names a file of this machine
    unknown = [one for one in values if one not in declared]
    if unknown:
        raise ValueError(
            f"{kind.name} has no parameter {unknown[0]!r:.80}; it has: {', '.join(declared) or 'no parameters'}"
        )
    made = replace(prepared if kind is type(prepared) else kind(), **values)
    if isinstance(made, Learned) and made != prepared:
        raise ValueError(
            f"{kind.name} ranks by weights, which only a gallery has that was prepared by it, with its own parameters; "
            "leave out method and parameters, or give another method"
        )
    check_reach(kind, values, prepared)
    return made


def worded(method: Method) -> str:
    """A method as strangers see it: of files their names, not the folders of this machine they are in."""
    files = [one.name for one in method.parameters() if one.file and getattr(method, one.name) is not None]
    return repr(replace(method, **{name: Path(getattr(method, name)).name for name in files}))


def told_parameters(method: Method) -> dict[str, Any]:
    """Its parameters as strangers see them: without files."""
    return {one.name: getattr(method, one.name) for one in method.parameters() if not one.file}


def vector_of(manifold: Manifold, collection: Shown, query: Query) -> Vectors:
    """(d,) the vector that asks, as `Manifold.search` takes it; a ValueError if there is no such item or query."""
    snapshot, (kind, value) = manifold._snapshot, query
    if kind == "item":
        place = snapshot.remembered.items[place_of(snapshot, value)]
        return np.asarray(snapshot.vectors[place] * np.float32(snapshot.space.scale or 1.0))
    if kind == "query":
        return _of_query(collection.queries, value)
    if kind != "vector":
        raise ValueError(f"query={kind!r:.80} is not known; give an item, a query or a vector")
    rows = snapshot.space.single(value)
    checked = snapshot.space.rows(rows, "vector", snapshot.vectors.shape[1])
    if len(checked) != 1:
        raise ValueError(f"vector has {len(checked)} rows; give one")
    return np.array(rows[0], np.float32)


def _of_query(queries: NDArray[np.float32] | None, number: Any) -> Vectors:
    count = 0 if queries is None else len(queries)
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if queries is None or not whole or not 0 <= number < count:
        remedy = f"give a number from 0 to {count - 1}" if count else "this service was started without queries"
        raise ValueError(f"query {number!r:.80} does not exist; {remedy}")
    return np.array(queries[int(number)], np.float32)


def place_of(snapshot: Snapshot, item: Any) -> int:
    """Where an item stands among the items, by its id; a ValueError if it is not there."""
    names = snapshot.names
    try:
        return int(names.places_of([item], "item")[0])
    except (ValueError, TypeError):
        such = f"such as {names.all[:1].tolist()[0]!r:.80}" if len(snapshot) else "and there are none yet"
        raise ValueError(f"item {item!r:.80} is not in this gallery; give the id of one that is, {such}") from None
