"""A table and its columns of vectors and keys -> what PostgreSQL's catalog says of them, and how vectors are sent."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.stores.postgres import EXTRA, STORE

KEYS = {"int2": "int8", "int4": "int8", "int8": "int8", "text": "text", "varchar": "text", "uuid": "uuid"}
VECTORS = {"vector": ">f4", "halfvec": ">f2"}  # how their numbers are sent

TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind IN ('r', 'm') AND NOT c.relhassubclass,
       (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s) AND c.relkind IN ('r', 'm', 'v', 'p', 'f')"""
COLUMNS = """
SELECT a.attname, a.attnum, t.typname, t.oid, a.atttypmod, n.nspname, pg_catalog.format_type(t.oid, a.atttypmod)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
     JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
INDEXES = """
SELECT o.opcname, i.reloptions
FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_am m ON m.oid = i.relam
     JOIN pg_catalog.pg_opclass o ON o.oid = x.indclass[0]
WHERE x.indrelid = %s AND x.indkey[0] = %s AND x.indisvalid AND m.amname IN ('hnsw', 'ivfflat') ORDER BY i.relname"""


class Packed(bytes):
    """A vector as PostgreSQL receives it."""


@dataclass(frozen=True)
class Column:
    """A vector column and its key, with names quoted for queries that have placeholders.

    Attributes:
        table, vector, key: their names.
        alone: whether it is a table and no view or partition, whose indexes would be elsewhere.
        version: of pgvector.
        schema: where pgvector is.
        keys: the type that keys are compared as.
        oid, numbers: the vectors' type, and that of their numbers.
        dimensions: 0 where any number is allowed.
        indexes: what each approximate index compares by: "cosine", "l2", "ip" or another.
        lists: of the largest ivfflat index.
    """

    table: str
    vector: str
    key: str
    alone: bool
    version: tuple[int, ...]
    schema: str
    keys: str
    oid: int
    numbers: str
    dimensions: int
    indexes: list[str]
    lists: int

    def adapt(self, cursor: Any) -> Any:
        """The same cursor: it sends packed vectors as such, and gives vectors as bytes."""
        dumper, loader = _adapters(self.oid)
        cursor.adapters.register_dumper(Packed, dumper)
        cursor.adapters.register_loader(self.oid, loader)
        return cursor

    def packed(self, row: NDArray[Any]) -> Packed:
        """Two numbers of 16 bits, the dimensions and 0; then the vector, most significant bytes first."""
        with np.errstate(over="ignore"):  # PostgreSQL says what does not fit
            return Packed(struct.pack(">HH", len(row), 0) + row.astype(self.numbers).tobytes())

    def unpacked(self, values: list[bytes], dimensions: int) -> Vectors:
        """(len(values), d) what PostgreSQL sent."""
        sizes = set(map(len, values))
        if len(sizes) > 1:
            raise ValueError(f"the column {self.vector} of {self.table} holds vectors of different dimensions; give a "
                             "filter, or a view, that leaves those of one kind")  # fmt: skip
        size = (sizes.pop() - 4) // np.dtype(self.numbers).itemsize if sizes else max(1, dimensions)
        sent = np.frombuffer(b"".join(values), np.dtype([("head", ">u2", 2), ("row", self.numbers, size)]))
        return sent["row"].astype(np.float32)

    def wanted(self, keys: list[Any]) -> list[Any]:
        """Keys as the column has them; those that it cannot have are left out."""
        return [key for key in map(self._key_of, keys) if key is not None]

    def _key_of(self, key: Any) -> Any:
        try:
            if self.keys == "int8":
                return int(key) if -(2**63) <= int(key) < 2**63 else None
            return UUID(str(key)) if self.keys == "uuid" else None if "\0" in str(key) else str(key)
        except ValueError:
            return None


@lru_cache
def _adapters(oid: int) -> tuple[Any, Any]:
    psycopg = needed("psycopg", STORE, EXTRA)
    sent = {"oid": oid, "format": psycopg.pq.Format.BINARY, "dump": lambda _, packed: bytes(packed)}
    return type("PackedDumper", (psycopg.adapt.Dumper,), sent), psycopg.types.string.ByteaBinaryLoader


def quoted(*names: str) -> str:
    """A name as SQL with placeholders has it."""
    if any("\0" in name for name in names):
        raise ValueError(f"{'.'.join(names)!r} cannot be the name of a table or column")
    text: str = needed("psycopg", STORE, EXTRA).sql.Identifier(*names).as_string(None)
    return text.replace("%", "%%")


def described(cursor: Any, table: str, vector: str, key: str) -> Column:
    """What the catalog says; a ValueError with one sentence for what is not there or cannot be used."""
    names = table.split(".") if isinstance(table, str) else []
    if len(names) not in (1, 2) or not all(names):
        raise ValueError(f"table={table!r} is no name of a table; give 'table' or 'schema.table'")
    found = cursor.execute(TABLE, [quoted(*names).replace("%%", "%")]).fetchone()
    if found is None:
        raise ValueError(f"there is no table {table!r}; give 'table' or 'schema.table', with capitals as they are")
    oid, schema, name, alone, version = found
    columns = {row[0]: row[1:] for row in cursor.execute(COLUMNS, [oid]).fetchall()}
    for parameter, column in (("vector", vector), ("key", key)):
        if column not in columns:
            raise ValueError(f"{parameter}={column!r} is no column of {table}, which has {', '.join(columns)}")
    place, kind, number, dimensions, home, called = columns[vector]
    if kind not in VECTORS:
        raise ValueError(f"the column {vector!r} of {table} is of the type {called}; vectors must be of pgvector's "
                         "type vector or halfvec")  # fmt: skip
    if columns[key][1] not in KEYS:
        raise ValueError(f"the column {key!r} of {table} is of the type {columns[key][-1]}; keys must be whole "
                         "numbers, text, varchar or uuid")  # fmt: skip
    indexes = cursor.execute(INDEXES, [oid, place]).fetchall()
    lists = [int(option[6:]) for _, options in indexes for option in options or () if option.startswith("lists=")]
    return Column(
        quoted(schema, name), quoted(vector), quoted(key), alone, _version(version), quoted(home),
        KEYS[columns[key][1]], number, VECTORS[kind], max(0, dimensions),
        [operators.split("_")[1] for operators, _ in indexes], max(lists, default=0),
    )  # fmt: skip


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text or "0")[:2])
