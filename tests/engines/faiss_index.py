"""Harness of FAISS: a flat index with explicit ids."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np

from engines.harness import Harness, Rows
from kinrank.stores.engine import EngineStore
from kinrank.stores.faiss import FaissIndexStore
from kinrank.vector_input import to_unit_rows


class Engine(Harness):
    name = "faiss_index"
    ids = ("int",)
    filters, listed = False, True

    def make(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:
        self.unit = metric == "cosine"
        self.index = faiss.IndexIDMap2((faiss.IndexFlatIP if self.unit else faiss.IndexFlatL2)(rows.shape[1]))
        if ids:
            self.put(ids, rows)
        return FaissIndexStore(self.index)

    def url(self) -> str:
        faiss.write_index(self.index, str(self.folder / "index.faiss"))
        return f"faiss://{self.folder}/index.faiss"

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None) -> None:
        self.index.remove_ids(np.array(ids, np.int64))
        self.index.add_with_ids(to_unit_rows(rows) if self.unit else rows, np.array(ids, np.int64))

    def delete(self, ids: list[Any]) -> None:
        self.index.remove_ids(np.array(ids, np.int64))
