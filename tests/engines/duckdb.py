"""Harness of DuckDB: a file, changed through one connection and read through that of the store."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import duckdb

from engines.harness import Harness, Rows
from kinrank.stores.duckdb import DuckDBStore
from kinrank.stores.engine import EngineStore


class Engine(Harness):
    name = "duckdb"
    connection: Any = None

    def make(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:
        self.metric = metric
        self.connection = self.connection or duckdb.connect(str(self.folder / "pictures.db"))
        uuids = bool(ids) and isinstance(ids[0], str) and _is_uuid(ids[0])
        key = "UUID" if uuids else "VARCHAR" if ids and isinstance(ids[0], str) else "BIGINT"
        self.connection.execute("DROP TABLE IF EXISTS pictures")
        self.connection.execute(
            f"CREATE TABLE pictures (id {key} PRIMARY KEY, embedding FLOAT[{rows.shape[1]}], kind VARCHAR, year INT)"
        )
        self.put(ids, rows, kinds, years)
        return DuckDBStore(self.connection, "pictures", metric=metric)

    def url(self) -> str:
        return f"duckdb://{self.folder}/pictures.db?table=pictures&vector=embedding&key=id&metric={self.metric}"

    def own_filter(self, kind: str) -> tuple[str, list[Any]]:
        return "kind = ? AND year > ?", [kind, 0]

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None, years: list[int] | None = None) -> None:
        for place, name in enumerate(ids):
            fields = [None if kinds is None else kinds[place], None if years is None else years[place]]
            self.connection.execute(
                "INSERT OR REPLACE INTO pictures VALUES (?, ?, ?, ?)", [name, rows[place].tolist(), *fields]
            )

    def delete(self, ids: list[Any]) -> None:
        for name in ids:
            self.connection.execute("DELETE FROM pictures WHERE id = ?", [name])

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False
