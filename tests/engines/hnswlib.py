"""hnswlib, in memory, with so many links and so much effort that it finds everything."""

from __future__ import annotations

from typing import Any

import hnswlib
import numpy as np

from engines.harness import Harness, Rows
from kinrank.stores.engine import EngineStore
from kinrank.stores.hnswlib import HnswlibStore


class Engine(Harness):
    name = "hnswlib"
    ids = ("int",)
    filters, listed = False, True

    def make(
        self, rows: Rows, ids: list[Any], kinds: list[str] | None = None, years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:  # fmt: skip
        self.index = hnswlib.Index("cosine" if metric == "cosine" else "l2", rows.shape[1])
        self.index.init_index(200, M=64, ef_construction=400)
        self.index.set_ef(200)
        if ids:
            self.index.add_items(rows, np.array(ids, np.uint64))
        return HnswlibStore(self.index)

    def url(self) -> str:
        self.index.save_index(str(self.folder / "index.bin"))
        return f"hnswlib://{self.folder}/index.bin?dimensions={self.index.dim}&space={self.index.space}"

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None) -> None:
        self.index.add_items(rows, np.array(ids, np.uint64))

    def delete(self, ids: list[Any]) -> None:
        for name in ids:
            self.index.mark_deleted(name)
