"""Harness of Chroma: a local folder."""

from __future__ import annotations

from typing import Any

import chromadb
from chromadb.config import Settings

from engines.harness import Harness, Rows
from kinrank.stores.chroma import ChromaStore
from kinrank.stores.engine import EngineStore

SPACES = {"cosine": "cosine", "euclidean": "l2"}


class Engine(Harness):
    name = "chroma"
    ids = ("text", "uuid")
    made = 0
    client: Any = None

    def make(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:
        if self.client is None:
            self.client = chromadb.PersistentClient(str(self.folder), Settings(anonymized_telemetry=False))
        self.made += 1
        self.collection = self.client.create_collection(
            f"pictures{self.made}", configuration={"hnsw": {"space": SPACES[metric]}}, embedding_function=None
        )
        if ids:
            fields = [{"kind": kind, "year": year} for kind, year in zip(kinds or [], years or [], strict=True)]
            self.collection.add(ids=ids, embeddings=rows, metadatas=fields or None)
        return ChromaStore(self.collection)

    def url(self) -> str:
        return f"chroma:{self.folder}?table={self.collection.name}"

    def own_filter(self, kind: str) -> dict[str, Any]:
        return {"$and": [{"kind": {"$eq": kind}}, {"year": {"$gt": 0}}]}

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None) -> None:
        fields = None if kinds is None else [{"kind": kind, "year": 2000} for kind in kinds]
        self.collection.upsert(ids=ids, embeddings=rows, metadatas=fields)

    def delete(self, ids: list[Any]) -> None:
        self.collection.delete(ids=ids)

    def close(self) -> None:
        if self.client is not None:
            self.client.close()
