"""Changes of a gallery <-> bytes; and many changes, one after the other -> one that has the same effect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

PUT, REMOVE, OBSERVE = "put", "remove", "observe"  # kinds of changes; logs of version 0.1.0 have only the first two


class Change(NamedTuple):
    """One change that a client asked for.

    Attributes:
        version: how many changes there were in all, this one included.
        ids: names of the items that are put or removed; None for new items that get numbers.
        vectors: (n, d) rows that are put; None for a removal.
        first: the number of the first new item, where there are no names.
        queries: (n, d) queries to remember; such a change has no ids and no vectors.
    """

    version: int
    ids: list[Any] | None
    vectors: Vectors | None = None
    first: int | None = None
    queries: Vectors | None = None

    @property
    def rows(self) -> Vectors | None:
        """The vectors or the queries; None for a removal."""
        return self.vectors if self.queries is None else self.queries

    @property
    def kind(self) -> str:
        if self.queries is not None:
            return OBSERVE
        return REMOVE if self.vectors is None else PUT

    @property
    def items(self) -> int:
        """How many items or queries it is about."""
        return len(self.ids or ()) if self.rows is None else len(self.rows)


def packed(changes: Sequence[Change]) -> bytes:
    """Each as a line of JSON, and the numbers of its vectors behind it."""
    parts = []
    for change in changes:
        rows = change.rows
        shape = None if rows is None else rows.shape
        line = {"kind": change.kind, "version": change.version, "ids": change.ids}
        parts.append(json.dumps(line | {"first": change.first, "shape": shape}, separators=(",", ":")).encode() + b"\n")
        if rows is not None:
            parts.append(np.ascontiguousarray(rows, "<f4").tobytes())
    return b"".join(parts)


def unpacked(content: bytes, first: int) -> list[Change]:
    """What `packed` wrote, of changes numbered from `first`; a ValueError for anything else."""
    changes, offset = list[Change](), 0
    while offset < len(content):
        end = content.find(b"\n", offset)
        if end < 0:
            raise ValueError("a line has no end")
        change, offset = _change(content[offset:end], content, end + 1)
        if change.version != first + len(changes):
            raise ValueError(f"change {first + len(changes)} says that it is change {change.version}")
        changes.append(change)
    return changes


def _change(line: bytes, content: bytes, offset: int) -> tuple[Change, int]:
    """A change from its line and the numbers at `offset`, and where these end."""
    try:
        said = json.loads(line)
        version, ids, first, shape = (said[key] for key in ("version", "ids", "first", "shape"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"a line is no JSON of a change ({type(error).__name__})") from error
    if type(version) is not int or not _names(ids) or said.get("kind") not in _kinds(shape):
        raise ValueError("a line does not describe a change")
    if shape is None:
        if ids is None:
            raise ValueError("a removal does not say of what")
        return Change(version, ids), offset
    rows, columns = shape
    observed = said["kind"] == OBSERVE
    if observed and (ids is not None or first is not None):
        raise ValueError("queries to remember have no names")
    if not observed and ((ids is None) != (type(first) is int) or (ids is not None and len(ids) != rows)):
        raise ValueError("a change does not name its items")
    count = rows * columns
    if offset + 4 * count > len(content):
        raise ValueError("a change says that it has more numbers than there are")
    vectors = np.frombuffer(content, "<f4", count, offset).reshape(rows, columns)
    end = offset + 4 * count
    if observed:
        return Change(version, None, queries=vectors), end
    return Change(version, ids, vectors, first if ids is None else None), end


def _kinds(shape: Any) -> tuple[str, ...]:
    """The kinds of changes that can have rows of this shape."""
    if shape is None:
        return (REMOVE,)
    two = isinstance(shape, list) and len(shape) == 2 and all(type(size) is int and size >= 0 for size in shape)
    return (PUT, OBSERVE) if two else ()


def _names(ids: Any) -> bool:
    return ids is None or (isinstance(ids, list) and all(type(name) in (str, int) for name in ids))


class Merged(NamedTuple):
    """The effect of many changes: these items leave, then those come, then queries are remembered.

    Attributes:
        gone: names of items that leave, if they are there.
        vectors: (n, d) rows that come, in the place of items of the same names.
        ids: their names; None where they get the next numbers.
        queries: (q, d) queries to remember, oldest first.
    """

    gone: list[Any]
    vectors: Vectors
    ids: list[Any] | None
    queries: Vectors


def merged(changes: Sequence[Change], columns: int, following: int | None) -> Merged:
    """One change instead of many: of every name, what happened to it last; the items in the order they came last.

    Queries are remembered after all puts and removals, so that a query never misses items that came before it and a
    mixed batch costs two changes of the gallery, however often kinds alternate.

    Args:
        changes: one after the other.
        columns: of the vectors.
        following: the number that the next new item gets; None where items have names.
    """
    if any(change.rows is not None and change.rows.shape[1] != columns for change in changes):
        raise ValueError(f"vectors of a change do not have {columns} columns, as those of the gallery do")
    none = np.empty((0, columns), np.float32)
    rows = np.concatenate([none, *(change.vectors for change in changes if change.vectors is not None)])
    queries = np.concatenate([none, *(change.queries for change in changes if change.queries is not None)])
    if following is not None:
        return Merged(_gone_by_number(changes, following), rows, None, queries)
    last: dict[Any, int] = {}  # the row that a name got last; -1 where it was removed
    row = 0
    for change in changes:
        for name in change.ids or []:
            last.pop(name, None)  # so that it stands last
            last[name] = -1 if change.vectors is None else row
            row += change.vectors is not None
    came = {name: place for name, place in last.items() if place >= 0}
    gone = [name for name, place in last.items() if place < 0]
    return Merged(gone, rows[list(came.values())], list(came), queries)


def _gone_by_number(changes: Sequence[Change], following: int) -> list[int]:
    """Numbers that leave. A new item whose number somebody else took meanwhile gets another, and leaves by that one."""
    gone, taken = [], dict[int, int]()
    for change in changes:
        if change.vectors is None:
            gone += [taken.get(number, number) for number in change.ids or []]
            continue
        if change.first is None:
            raise ValueError("items of a change have names, but those of the gallery numbers")
        if change.first != following:
            taken |= {change.first + place: following + place for place in range(len(change.vectors))}
        following += len(change.vectors)
    return gone
