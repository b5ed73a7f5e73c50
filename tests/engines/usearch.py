"""Harness of usearch: an index in memory."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

with suppress(ImportError):
    import faiss  # noqa: F401  # its index_factory crashes where usearch was imported first

from usearch.index import Index

from engines.harness import Harness, Rows
from kinrank.stores.engine import EngineStore
from kinrank.stores.usearch import UsearchStore


class Engine(Harness):
    name = "usearch"
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
        self.index = Index(ndim=rows.shape[1], metric="cos" if metric == "cosine" else "l2sq", dtype="f32")
        if ids:
            self.index.add(np.array(ids, np.uint64), rows)
        return UsearchStore(self.index, exact=True)

    def url(self) -> str:
        self.index.save(self.folder / "index.usearch")
        return f"usearch://{self.folder}/index.usearch?exact=true"

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None) -> None:
        for name, row in zip(ids, rows, strict=True):
            if name in self.index:
                self.index.remove(name)
            self.index.add(name, row)

    def delete(self, ids: list[Any]) -> None:
        for name in ids:
            self.index.remove(name)
