"""Harness of Qdrant in local mode: the client itself searches, in memory or in a folder."""

from __future__ import annotations

import shutil
from typing import Any

from qdrant_client import QdrantClient, models

from engines.harness import Harness, Rows
from kinrank.stores.engine import EngineStore
from kinrank.stores.qdrant import QdrantStore

DISTANCES = {"cosine": models.Distance.COSINE, "euclidean": models.Distance.EUCLID}


def filled(
    client: QdrantClient, rows: Rows, ids: list[Any], fields: list[dict[str, Any]], distance: models.Distance
) -> None:
    client.create_collection("pictures", vectors_config=models.VectorParams(size=12, distance=distance))
    if ids:
        client.upsert("pictures", models.Batch(ids=ids, vectors=rows.tolist(), payloads=fields))


class Engine(Harness):
    name = "qdrant"
    ids = ("int", "uuid")

    def make(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:
        fields = [{"kind": kind, "year": year} for kind, year in zip(kinds or [], years or [], strict=True)]
        self.content = rows, ids, fields or [{}] * len(ids), DISTANCES[metric]
        self.client = QdrantClient(":memory:")
        filled(self.client, *self.content)
        return QdrantStore(self.client, "pictures")

    def url(self) -> str:
        """Return the URL of a folder with the same points, which one client at a time can open."""
        shutil.rmtree(self.folder / "qdrant", ignore_errors=True)
        client = QdrantClient(path=str(self.folder / "qdrant"))
        filled(client, *self.content)
        client.close()
        return f"qdrant:{self.folder}/qdrant?table=pictures"

    def own_filter(self, kind: str) -> models.Filter:
        return models.Filter(must=[models.FieldCondition(key="kind", match=models.MatchValue(value=kind))])

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None) -> None:
        fields = [{"kind": kind} for kind in kinds or [None] * len(ids)]
        self.client.upsert("pictures", models.Batch(ids=ids, vectors=rows.tolist(), payloads=fields))

    def delete(self, ids: list[Any]) -> None:
        self.client.delete("pictures", ids)
