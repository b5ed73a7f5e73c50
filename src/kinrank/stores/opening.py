"""open_store: a URL -> the store that is there."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from kinrank.stores import Store
from kinrank.stores.address import Address


class Engine(NamedTuple):
    """Where the store of an engine is defined, and how its URL is written."""

    module: str
    name: str
    example: str


ENGINES = {
    "postgresql": Engine("pgvector", "PgvectorStore", "postgresql://user@host/db?table=items&vector=embedding&key=id"),
    "qdrant": Engine("qdrant", "QdrantStore", "qdrant://localhost:6333/collection"),
    "lancedb": Engine("lancedb", "LanceDBStore", "lancedb:///folder?key=id#table"),
    "chroma": Engine("chroma", "ChromaStore", "chroma:///folder#collection"),
    "duckdb": Engine("duckdb", "DuckDBStore", "duckdb:///file.db?table=items&vector=embedding&key=id"),
    "sqlite": Engine("sqlite_vec", "SqliteVecStore", "sqlite:///file.db?table=items&vector=embedding&key=id"),
    "faiss": Engine("faiss_index", "FaissIndexStore", "faiss:index.faiss"),
    "usearch": Engine("usearch", "UsearchStore", "usearch:index.usearch"),
    "hnswlib": Engine("hnswlib", "HnswlibStore", "hnswlib:index.bin?space=cosine"),
}
ALIASES = {"postgres": "postgresql"}


def open_store(url: str) -> Store:
    """The store at a URL; close it, or use it in a `with` block, where it is one of a database.

    Args:
        url: its scheme names the engine. Passwords may stand in it, or in the environment variables that the engine's
            own tools read, such as PGPASSWORD; they are never printed.

    Example:
        >>> with kinrank.open_store("postgresql://me@localhost/shop?table=items&vector=embedding&key=id") as store:
        ...     ranking = kinrank.rerank(queries, store, candidates=500)
    """
    address = Address.of(url)
    engine = ENGINES.get(ALIASES.get(address.scheme, address.scheme))
    if engine is None:
        raise ValueError(f"{address.scheme!r} is no engine that kinrank knows; give one of: {', '.join(ENGINES)}")
    kind: Any = getattr(importlib.import_module(f"kinrank.stores.{engine.module}"), engine.name)
    try:
        store: Store = kind.at(address)
    except ValueError as error:
        raise ValueError(
            f"{error} (a URL looks like {engine.example})" if "needs" in str(error) else str(error)
        ) from error
    return store
