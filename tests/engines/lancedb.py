"""Harness of LanceDB: a folder, changed through a separate connection."""

from __future__ import annotations

from typing import Any

import lancedb
import pyarrow as pa

from engines.harness import Harness, Rows
from kinrank.stores.engine import EngineStore
from kinrank.stores.lancedb import LanceDBStore


def vectors(rows: Rows, kind: Any = None) -> pa.Array:
    kind = pa.float32() if kind is None else kind
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel(), kind), rows.shape[1])


class Engine(Harness):
    name = "lancedb"
    made = 0

    def make(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:
        self.made, self.metric = self.made + 1, metric
        named = pa.string() if ids and isinstance(ids[0], str) else pa.int64()
        fields = {"kind": pa.array(kinds or [None] * len(ids), pa.string()), "year": pa.array(years or [], pa.int32())}
        content = pa.table({"id": pa.array(ids, named), "vector": vectors(rows), **fields})
        table = lancedb.connect(self.folder).create_table(self.table, content)
        return LanceDBStore(table, metric=metric)

    @property
    def table(self) -> str:
        return f"pictures{self.made}"

    def url(self) -> str:
        return f"lancedb://{self.folder}?table={self.table}&vector=vector&key=id&metric={self.metric}"

    def own_filter(self, kind: str) -> str:
        return f"kind = '{kind}' AND year > 0"

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None) -> None:
        named = pa.string() if isinstance(ids[0], str) else pa.int64()
        content = pa.table(
            {
                "id": pa.array(ids, named),
                "vector": vectors(rows),
                "kind": kinds or [None] * len(ids),
                "year": pa.array([None] * len(ids), pa.int32()),
            }
        )
        table = lancedb.connect(self.folder).open_table(self.table)
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(content)

    def delete(self, ids: list[Any]) -> None:
        table = lancedb.connect(self.folder).open_table(self.table)
        table.delete(lancedb.col("id").isin(ids).to_sql())
