"""Vectors -> a collection of a real vector database on this machine, for `kinrank bench stores`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.deferred import needed
from kinrank.features import unit
from kinrank.stores.engine import EngineStore

Rows = NDArray[np.float32]
Put = Callable[[NDArray[np.int64], Rows], None]  # rows that are new, or take the place of those with the same ids
Delete = Callable[[NDArray[np.int64]], None]

EXACT = 20_000  # items up to which Chroma, which has no exact search, is made to look at all of them


class Filled(NamedTuple):
    """A store over a collection whose ids are the numbers of the rows, and the means to change that collection."""

    store: EngineStore
    put: Put
    delete: Delete


def filled(name: str, rows: Rows, folder: Path, index: bool = False) -> Filled:
    """The rows in a new collection of an engine; with the approximate index that people would give it, if asked for."""
    if name not in FILL:
        raise ValueError(f"engine {name!r} is not known; give some of: {', '.join(FILL)}")
    return FILL[name](np.ascontiguousarray(rows, np.float32), folder, index)


def _pgvector(rows: Rows, folder: Path, index: bool) -> Filled:
    import psycopg

    from kinrank.bench.postgres import server
    from kinrank.stores.pgvector import PgvectorStore

    dsn = server().database(f"bench_{os.getpid()}_{len(rows)}")
    dimensions = rows.shape[1]

    def put(ids: NDArray[np.int64], some: Rows) -> None:
        with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE coming (LIKE items) ON COMMIT DROP")
            with cursor.copy("COPY coming FROM STDIN") as copy:
                for name, row in zip(ids.tolist(), some.tolist(), strict=True):
                    copy.write_row((name, str(row)))
            cursor.execute(
                "INSERT INTO items SELECT * FROM coming ON CONFLICT (id) DO UPDATE SET embedding = EXCLUDED.embedding"
            )

    def delete(ids: NDArray[np.int64]) -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute("DELETE FROM items WHERE id = ANY(%s)", [ids.tolist()])

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE items (id bigint PRIMARY KEY, embedding vector({dimensions}))")
        put(np.arange(len(rows)), rows)
        if index:
            connection.execute("SET maintenance_work_mem = '1GB'")
            connection.execute("CREATE INDEX ON items USING hnsw (embedding vector_cosine_ops)")
        connection.execute("ANALYZE items")
    return Filled(PgvectorStore(dsn, "items", timeout=600.0), put, delete)


def _qdrant(rows: Rows, folder: Path, index: bool) -> Filled:
    from qdrant_client import QdrantClient, models

    from kinrank.stores.qdrant import QdrantStore

    client = QdrantClient(path=str(folder / "qdrant"))  # the client alone: its local mode has no index
    config = models.VectorParams(size=rows.shape[1], distance=models.Distance.COSINE)
    client.create_collection("items", config)

    def put(ids: NDArray[np.int64], some: Rows) -> None:
        client.upload_collection("items", some, ids=ids.tolist())

    def delete(ids: NDArray[np.int64]) -> None:
        client.delete("items", models.PointIdsList(points=ids.tolist()))

    put(np.arange(len(rows)), rows)
    return Filled(QdrantStore(client, "items"), put, delete)


def _lancedb(rows: Rows, folder: Path, index: bool) -> Filled:
    import lancedb
    import pyarrow as pa

    from kinrank.stores.lancedb import LanceDBStore

    def table_of(ids: NDArray[np.int64], some: Rows) -> Any:
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(some.ravel()), rows.shape[1])
        return pa.table({"id": ids, "vector": vectors})

    table = lancedb.connect(folder / "lancedb").create_table("items", table_of(np.arange(len(rows)), rows))
    if index:
        table.create_index(metric="cosine", index_type="IVF_FLAT")

    def put(ids: NDArray[np.int64], some: Rows) -> None:
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(table_of(ids, some))

    def delete(ids: NDArray[np.int64]) -> None:
        table.delete(f"id IN ({', '.join(map(str, ids.tolist()))})")

    return Filled(LanceDBStore(table), put, delete)


def _chroma(rows: Rows, folder: Path, index: bool) -> Filled:
    import chromadb

    from kinrank.stores.chroma import ChromaStore

    settings = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(folder / "chroma"), settings)
    most = len(rows) if len(rows) <= EXACT else 400  # its index looks at all items of a small collection then
    effort = {"space": "cosine", "ef_search": 2 * most, "ef_construction": 400, "max_neighbors": 64}
    collection = client.create_collection("items", configuration={"hnsw": effort})

    def put(ids: NDArray[np.int64], some: Rows) -> None:
        for start in range(0, len(ids), 5000):
            part = slice(start, start + 5000)
            collection.upsert([_text(name) for name in ids[part]], embeddings=some[part])

    def delete(ids: NDArray[np.int64]) -> None:
        collection.delete([_text(name) for name in ids])

    put(np.arange(len(rows)), rows)
    return Filled(ChromaStore(collection), put, delete)


def _faiss(rows: Rows, folder: Path, index: bool) -> Filled:
    from kinrank.stores.faiss_index import FaissIndexStore

    faiss, dimensions = needed("faiss", "FaissIndexStore", "faiss"), rows.shape[1]
    unit_rows = unit(rows, "rows")
    if index:
        cells = max(1, min(round(4 * len(rows) ** 0.5), len(rows) // 39))
        numbered = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimensions), dimensions, cells, faiss.METRIC_INNER_PRODUCT)
        numbered.train(unit_rows)
        numbered.nprobe = max(8, cells // 32)
    else:
        numbered = faiss.IndexIDMap2(faiss.IndexFlatIP(dimensions))

    def put(ids: NDArray[np.int64], some: Rows) -> None:
        if len(ids) and numbered.ntotal:
            delete(ids)
        numbered.add_with_ids(unit(some, "rows"), ids)

    def delete(ids: NDArray[np.int64]) -> None:
        numbered.remove_ids(ids)

    put(np.arange(len(rows)), unit_rows)
    return Filled(FaissIndexStore(numbered), put, delete)


def _text(number: Any) -> str:
    """Ids of Chroma are texts: of one length, so that their order is that of the numbers."""
    return f"{int(number):08d}"


FILL: dict[str, Callable[[Rows, Path, bool], Filled]] = {
    "pgvector": _pgvector,
    "qdrant": _qdrant,
    "lancedb": _lancedb,
    "chroma": _chroma,
    "faiss": _faiss,
}
