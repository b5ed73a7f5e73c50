"""What DuckDB says of a table -> the SQL that reads its ids and vectors."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kinrank.stores.filters import sql_where

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
LENGTHS = "1e-90 AND 1e76"  # of vectors that can be compared, squared: float32 has no others
COLUMNS = """
SELECT column_name, data_type, database_name, schema_name, table_name FROM duckdb_columns()
WHERE lower(?) IN (lower(table_name), lower(concat_ws('.', schema_name, table_name)),
                   lower(concat_ws('.', database_name, schema_name, table_name)))
ORDER BY database_name = current_database() DESC, schema_name = current_schema() DESC, 3, 4, 5, column_index
"""


class Table(NamedTuple):
    """A table and the two columns that matter, their names quoted.

    Attributes:
        number: the type of the numbers in a vector, FLOAT or DOUBLE.
        size: how many there are; 0 where the column has lists of any length.
        type: of the ids.
    """

    name: str
    vector: str
    key: str
    number: str
    size: int
    type: str

    @classmethod
    def of(cls, rows: list[Any], who: Any, table: str, vector: str, key: str) -> Table:
        """That of the answer to COLUMNS; a ValueError for columns that cannot be searched."""
        if not rows:
            raise ValueError(f"the database has no table {table!r}; temporary ones of a connection do not count")
        types = {row[0].lower(): row[:2] for row in rows if row[2:] == rows[0][2:]}
        for name, what in ((vector, "vector"), (key, "key")):
            if name.lower() not in types:
                there = ", ".join(column for column, _ in types.values())
                raise ValueError(f"{who!r} has no column {name!r}; give {what}= one of: {there}")
        held, ids = types[vector.lower()][1], types[key.lower()][1]
        shape = re.fullmatch(r"(FLOAT|DOUBLE)\[(\d*)\]", held)
        if shape is None:
            raise ValueError(f"the column {vector!r} of {who!r} holds no vectors but {held}; give vector= a column of "
                             "the type FLOAT[n], FLOAT[], DOUBLE[n] or DOUBLE[]")  # fmt: skip
        if ids not in (*WHOLE, "VARCHAR", "UUID"):
            raise ValueError(f"the column {key!r} of {who!r} holds {ids}; give key= a column of whole numbers, texts "
                             "or UUIDs")  # fmt: skip
        name = ".".join(map(quoted, rows[0][2:]))
        return cls(name, quoted(vector), quoted(key), shape[1], int(shape[2] or 0), ids)

    def sizes(self) -> str:
        """A SELECT of the usual length of lists; NULL where there is none."""
        some = f"SELECT len({self.vector}) AS size FROM {self.name} WHERE len({self.vector}) > 0 LIMIT 100"
        return f"SELECT mode(size) FROM ({some})"

    def items(
        self, dimensions: int, where: Any = None, compared: bool = False, nonzero: bool = False
    ) -> tuple[str, list[Any]]:
        """A SELECT of ids (kinrank_key) and vectors (kinrank_row), and its values.

        Args:
            compared: leave out rows that functions of arrays would fail at: those in which a number is NULL.
            nonzero: leave out zero vectors and those that are not finite, too. CASE looks at whole rows only.
        """
        row = self.vector if self.size else f"CAST({self.vector} AS {self.number}[{dimensions}])"
        there = f"{self.vector} IS NOT NULL" if self.size else f"len({self.vector}) = {dimensions}"
        if compared:
            there = f"{there} AND list_count({self.vector}) = {dimensions}"
        if nonzero:
            there = f"CASE WHEN {there} THEN array_inner_product({row}, {row}) BETWEEN {LENGTHS} ELSE false END"
        condition, values = sql_where(where, "?", quoted)
        name = f"CAST({self.key} AS VARCHAR)" if self.type == "UUID" else self.key
        wanted = " AND ".join([there, f"{self.key} IS NOT NULL", *([condition] if condition else [])])
        return f"SELECT {name} AS kinrank_key, {row} AS kinrank_row FROM {self.name} WHERE {wanted}", values


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
