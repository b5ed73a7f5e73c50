"""What SQLite says of a table -> the names in it, and how a vec0 table compares."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

MASTER = "SELECT name, sql FROM sqlite_master UNION ALL SELECT name, sql FROM sqlite_temp_master"
METRICS = {"cosine": "cosine", "l2": "euclidean"}


class Table(NamedTuple):
    """A table and its columns, with names quoted where they stand in SQL.

    Attributes:
        columns: the names, by the same in small letters.
        metric: of a vec0 table, as kinrank calls it, or as the table does; None for an ordinary table.
        dimensions: of a vec0 table; 0 for an ordinary one, whose BLOBs tell.
    """

    name: str
    vector: str
    key: str
    columns: dict[str, str]
    metric: str | None
    dimensions: int

    @classmethod
    def of(cls, ask: Callable[..., list[Any]], who: Any, table: str, vector: str, key: str | None) -> Table:
        """The table of that name; a ValueError for columns that cannot be searched."""
        made = ask(f"SELECT name, sql FROM ({MASTER}) WHERE lower(name) = lower(?) AND sql IS NOT NULL", table)
        if not made:
            raise ValueError(f"the database has no table {table!r}")
        (name, text), *_ = made
        told = ask("SELECT name, pk FROM pragma_table_xinfo(?)", name)
        columns = {column.lower(): column for column, _ in told} | {"rowid": "rowid"}
        primary = [column for column, place in told if place]
        ids = primary[0] if len(primary) == 1 else "rowid"
        for given, what in ((vector, "vector"), (key or ids, "key")):
            if given.lower() not in columns:
                raise ValueError(f"{who!r} has no column {given!r}; give {what}= one of: {', '.join(columns.values())}")
        metric, dimensions = None, 0
        if re.search(r"\busing\s+vec0\b", text, re.IGNORECASE):
            metric, dimensions = _vec0(text, who, vector)
            if key is not None and key.lower() != ids.lower():
                raise ValueError(f"the ids of {who!r} are its primary key, {ids!r}; leave key= out, or give that")
        names = quoted(columns[vector.lower()]), quoted(columns[(key or ids).lower()])
        return cls(quoted(name), *names, columns, metric, dimensions)

    def sizes(self) -> str:
        """A SELECT of the types and lengths of some values, the usual one first."""
        some = f"SELECT typeof({self.vector}) AS kind, length({self.vector}) AS size FROM {self.name}"
        some = f"{some} WHERE {self.vector} IS NOT NULL LIMIT 100"
        return f"SELECT kind, size FROM ({some}) GROUP BY kind, size ORDER BY count(*) DESC"


def _vec0(text: str, who: Any, vector: str) -> tuple[str, int]:
    """How the column compares, and its dimensions, from the text that made the table."""
    shape = re.search(rf"\b{re.escape(vector)}\s+(\w+)\s*\[\s*(\d+)\s*\]([^,]*)", text, re.IGNORECASE)
    if shape is None or shape[1].lower() not in ("float", "f32"):
        raise ValueError(f"the column {vector!r} of {who!r} holds no vectors of float32; give vector= one that does")
    said = re.search(r"distance_metric\s*=\s*(\w+)", shape[3], re.IGNORECASE)
    metric = said[1].lower() if said else "l2"
    return METRICS.get(metric, metric), int(shape[2])


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
