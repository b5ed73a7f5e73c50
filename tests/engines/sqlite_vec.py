"""Harness of sqlite-vec: a vec0 table in a file, changed through one connection and read through that of the store."""

from __future__ import annotations

from typing import Any

import apsw
import sqlite_vec

from engines.harness import Harness, Rows
from kinrank.stores.engine import EngineStore
from kinrank.stores.sqlite_vec import SqliteVecStore


def connected(path: str = ":memory:") -> apsw.Connection:
    connection = apsw.Connection(path)
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    return connection


class Engine(Harness):
    name = "sqlite_vec"
    connection: Any = None

    def make(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:
        self.connection = self.connection or connected(str(self.folder / "pictures.db"))
        key = "text" if ids and isinstance(ids[0], str) else "integer"
        self.connection.execute("DROP TABLE IF EXISTS pictures")
        self.connection.execute(
            f"CREATE VIRTUAL TABLE pictures USING vec0(id {key} primary key, embedding float[{rows.shape[1]}] "
            f"distance_metric={'cosine' if metric == 'cosine' else 'L2'}, kind text, year integer)"
        )
        self.put(ids, rows, kinds, years)
        return SqliteVecStore(self.connection, "pictures")

    def url(self) -> str:
        return f"sqlite://{self.folder}/pictures.db?table=pictures&vector=embedding&key=id"

    def own_filter(self, kind: str) -> tuple[str, list[Any]]:
        return "kind = ? AND (year > ? OR year IS NULL)", [kind, 0]

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None, years: list[int] | None = None) -> None:
        with self.connection:
            self.delete(ids)
            for place, name in enumerate(ids):
                fields = "" if kinds is None else kinds[place], 0 if years is None else years[place]
                self.connection.execute(
                    "INSERT INTO pictures VALUES (?, ?, ?, ?)", (name, rows[place].tobytes(), *fields)
                )

    def delete(self, ids: list[Any]) -> None:
        for name in ids:
            self.connection.execute("DELETE FROM pictures WHERE id = ?", (name,))

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
