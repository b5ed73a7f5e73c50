"""What users give to reach PostgreSQL, a DSN, a connection or a pool -> connections that are used one at a time."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from urllib.parse import unquote

from kinrank.deferred import needed
from kinrank.stores.address import Address

STORE, EXTRA = "PgvectorStore", "pgvector"
FOREVER = 1e6  # seconds


class Connections:
    """Connections for one store: of a pool opened here, of a pool of its user, or the one that its user has.

    Args:
        given: a DSN, a psycopg.Connection or a psycopg_pool.ConnectionPool.
        most: how many a pool opened here may have.
        timeout: seconds to wait for one.
    """

    def __init__(self, given: Any, most: int, timeout: float | None) -> None:
        self._psycopg = psycopg = needed("psycopg", STORE, EXTRA)
        self._most, self._timeout = most, timeout
        self._lock = threading.RLock()
        self._pool: Any = None
        self._connection: Any = None
        self._dsn: str | None = None
        if isinstance(given, str):
            self._dsn, self._options = given, self._completed(given)
        elif isinstance(given, psycopg.Connection):
            self._connection = given
        elif hasattr(given, "getconn") and not inspect.iscoroutinefunction(given.getconn):
            self._pool = given
        else:
            raise ValueError(f"{STORE} takes a DSN such as 'postgresql://user@host/db', a psycopg.Connection or a "
                             f"psycopg_pool.ConnectionPool; got a {type(given).__name__}")  # fmt: skip

    @contextmanager
    def one(self) -> Iterator[Any]:
        """A connection that nobody else uses meanwhile."""
        if self._connection is not None:
            with self._lock:
                yield self._connection
            return
        pool = self._pool if self._dsn is None else self._opened()
        try:
            connection = pool.getconn(self._timeout)
        except self._psycopg.OperationalError as error:
            if self._dsn is None or not isinstance(error, needed("psycopg_pool", STORE, EXTRA).PoolTimeout):
                raise
            self._tried()
            raise TimeoutError(f"all {self._most} connections of a {STORE} were in use for {pool.timeout:g} s; give a "
                               "larger connections= or timeout=") from error  # fmt: skip
        try:
            yield connection
        finally:
            pool.putconn(connection)

    @contextmanager
    def reading(self, settings: Mapping[str, str], pipeline: bool) -> Iterator[Any]:
        """One in a transaction that only reads, and takes its settings with it when it ends.

        With `pipeline`, queries are sent without waiting for the answers to those before them.
        """
        limit = {} if self._timeout is None else {"statement_timeout": str(math.ceil(1000 * self._timeout))}
        wanted = {**limit, **settings, "transaction_read_only": "on"}
        text = "SELECT " + ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(wanted))
        with self.one() as connection:
            together = connection.pipeline() if pipeline and self._psycopg.Pipeline.is_supported() else nullcontext()
            with together as batch, connection.transaction(force_rollback=True):
                cursor_of(connection).execute(text, [part for pair in wanted.items() for part in pair], prepare=False)
                try:
                    yield connection
                except self._psycopg.Error:
                    if batch is not None:  # let go of what was to come after the error
                        with suppress(self._psycopg.Error):
                            batch.sync()
                    raise

    def renew(self) -> None:
        """After a connection was lost: see that what is handed out next is none that was lost, too."""
        if self._connection is not None:
            if self._connection.closed:
                raise ConnectionError(f"the connection that {STORE} was given is lost, and only you can open another; "
                                      "do that, or give a DSN or a ConnectionPool instead")  # fmt: skip
            return
        try:
            self._tried()
        except self._psycopg.OperationalError:
            self.close()  # so that the next question tries anew, and says why at once
            raise
        with self._lock:
            if self._pool is not None:
                self._pool.check()

    def close(self) -> None:
        """Close the pool that was opened here."""
        with self._lock:
            pool, self._pool = (None, self._pool) if self._dsn is None else (self._pool, None)
        if pool is not None:
            pool.close()

    def _opened(self) -> Any:
        with self._lock:
            if self._pool is None:
                self._tried()
                self._pool = needed("psycopg_pool", STORE, EXTRA).ConnectionPool(
                    self._dsn, min_size=0, max_size=self._most, open=True, kwargs=self._options,
                    timeout=self._timeout or FOREVER,
                )  # fmt: skip
            return self._pool

    def _tried(self) -> None:
        """Connect once; a pool would only say that it waited in vain, not why."""
        if self._dsn is not None:
            self._psycopg.connect(self._dsn, **self._options).close()

    def _completed(self, dsn: str) -> dict[str, Any]:
        """What a DSN leaves open; errors never repeat it, there may be a password in it."""
        try:
            known = self._psycopg.conninfo.conninfo_to_dict(dsn)
        except self._psycopg.Error:
            raise ValueError(f"the DSN of the {STORE} cannot be read; it looks like postgresql://user@host:5432/db or "
                             "'host=... dbname=...', with % codes for signs such as @ and / in a password "
                             "(kinrank.open_store takes URLs with ?table=)") from None  # fmt: skip
        options: dict[str, Any] = {"fallback_application_name": "kinrank"}
        if self._timeout is not None:
            options |= {"connect_timeout": max(2, math.ceil(self._timeout)),
                        "tcp_user_timeout": math.ceil(1000 * self._timeout)}  # fmt: skip
        options = {name: value for name, value in options.items() if name not in known}
        return {**options, "autocommit": True, "prepare_threshold": None}


def cursor_of(connection: Any, name: str | None = None) -> Any:
    """A cursor that gives tuples, whatever the connection was told to give; the server's own where it has a name."""
    psycopg = needed("psycopg", STORE, EXTRA)
    rows = psycopg.rows.tuple_row
    if name is not None:
        return psycopg.ServerCursor(connection, name, row_factory=rows)
    return psycopg.Cursor(connection, row_factory=rows)


def dsn_of(address: Address, own: tuple[str, ...]) -> str:
    """The DSN of a URL whose options are libpq's, apart from our own ones."""
    psycopg = needed("psycopg", STORE, EXTRA)
    libpq = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    unknown = [name for name in address.options if name not in libpq and name not in own]
    if unknown:
        raise ValueError(f"{address.scheme}: has no option {unknown[0]!r}; it has {', '.join(own)} and those of libpq, "
                         "such as sslmode")  # fmt: skip
    parts: dict[str, Any] = {
        "host": None if address.host is None else unquote(address.host), "port": address.port, "user": address.user,
        "password": address.password, "dbname": address.path.removeprefix("/") or None,
    }  # fmt: skip
    parts |= {name: value for name, value in address.options.items() if name not in own}
    dsn: str = psycopg.conninfo.make_conninfo(**parts)
    return dsn
