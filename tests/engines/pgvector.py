"""Harness of pgvector: a separate database in a real PostgreSQL, and one table per collection."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from engines.harness import Harness, Rows
from engines.postgres import running
from kinrank.stores.engine import EngineStore

NUMBERS = count()


def written(row: Any) -> str:
    """Return a vector as SQL text."""
    return "[" + ",".join(map(repr, row.tolist())) + "]"


class Engine(Harness):
    name = "pgvector"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        server = running()
        import psycopg

        self.dsn = server.database(f"harness_{next(NUMBERS)}")
        self.connection = psycopg.connect(self.dsn, autocommit=True)
        self.table, self.metric = "", "cosine"

    def create(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        column: str = "vector",
    ) -> str:
        """Create a table with these rows; return its name."""
        texts, uuids = bool(ids) and isinstance(ids[0], str), bool(ids) and str(ids[0]).count("-") == 4
        key = "uuid" if uuids else "text" if texts else "bigint"
        self.table = f"items_{next(NUMBERS)}"
        self.connection.execute(
            f"CREATE TABLE {self.table} (id {key} PRIMARY KEY, kind text, year int, "  # type: ignore[arg-type]
            f"embedding {column}({rows.shape[1]}))"
        )
        self.put(ids, rows, kinds, years)
        return self.table

    def make(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:
        from kinrank.stores.pgvector import PgvectorStore

        self.metric = metric
        return PgvectorStore(self.dsn, self.create(rows, ids, kinds, years), metric=metric)

    def url(self) -> str | None:
        return f"{self.dsn}&table={self.table}&vector=embedding&key=id&metric={self.metric}&timeout=180"

    def own_filter(self, kind: str) -> Any:
        return ("kind = %s", [kind])

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None, years: list[int] | None = None) -> None:
        given = [
            (name, None if kinds is None else kinds[place], None if years is None else years[place], written(row))
            for place, (name, row) in enumerate(zip(ids, rows, strict=True))
        ]
        with self.connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self.table} VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE "  # type: ignore[arg-type]
                "SET embedding = EXCLUDED.embedding, kind = EXCLUDED.kind",
                given,
            )

    def delete(self, ids: list[Any]) -> None:
        self.connection.execute(f"DELETE FROM {self.table} WHERE id = ANY(%s)", [ids])  # type: ignore[arg-type]

    def close(self) -> None:
        self.connection.close()
