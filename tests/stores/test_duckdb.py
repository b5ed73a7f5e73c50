"""DuckDBStore: column types, files that another process has opened, and slow statements."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("duckdb", reason="duckdb is not installed: make test-stores installs every engine")

import duckdb

import kinrank as kr
from kinrank.stores.duckdb import DuckDBStore
from kinrank.vector_input import to_unit_rows

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(5)
ROWS = (RNG.normal(size=(60, 6)) * RNG.uniform(0.5, 2.0, size=(60, 1))).astype(np.float32)
QUERIES = RNG.normal(size=(4, 6)).astype(np.float32)


def made(path: Any = ":memory:", column: str = "FLOAT[6]", rows: Any = ROWS, name: str = "pictures") -> Any:
    connection = duckdb.connect(str(path))
    connection.execute(f"CREATE TABLE {name} (id BIGINT, embedding {column}, kind VARCHAR)")
    put(connection, rows, name=name)
    return connection


def put(connection: Any, rows: Any, first: int = 0, name: str = "pictures") -> None:
    for place, row in enumerate(rows, first):
        vector = None if row is None else np.asarray(row).tolist()
        connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?)", [place, vector, "cat" if place % 3 else "dog"])


def test_tables_that_cannot_be_searched() -> None:
    connection = made()
    connection.execute("CREATE TEMPORARY TABLE mine AS FROM pictures")
    connection.execute("CREATE TABLE others (id DOUBLE, words VARCHAR[], matrix FLOAT[2][3], embedding FLOAT[6])")
    for words, change in {
        "the database has no table 'nothing'": {"table": "nothing"},
        r"no table 'mine' \(temporary tables of a connection are not visible\)": {"table": "mine"},
        "vector='vector' is not a column of .*; give one of: id, embedding, kind": {"vector": "vector"},
        "key='name' is not a column of .*; give one of": {"key": "name"},
        r"DuckDBStore\(pictures\): vector='kind' is a column of VARCHAR, not of vectors": {"vector": "kind"},
        r"is a column of VARCHAR\[\], not of vectors": {"table": "others", "vector": "words"},
        r"is a column of FLOAT\[2\]\[3\], not of vectors": {"table": "others", "vector": "matrix"},
        "is a column of DOUBLE; give a column of integers, texts or UUIDs": {"table": "others"},
        "metric='dot' is not allowed; give cosine or euclidean": {"metric": "dot"},
        "timeout=-1 is not allowed": {"timeout": -1},
    }.items():
        with pytest.raises(ValueError, match=words):
            DuckDBStore(connection, **{"table": "pictures"} | change)
    with pytest.raises(ValueError, match="connection must be a duckdb connection or a path; got a int"):
        DuckDBStore(7, "pictures")
    queries = ROWS  # a Python variable, not a table
    with pytest.raises(ValueError, match="the database has no table 'queries'"):
        DuckDBStore(connection, "queries")
    assert queries is ROWS


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("column", ["FLOAT[6]", "FLOAT[]", "DOUBLE[6]", "DOUBLE[]"])
def test_every_kind_of_column(column: str, metric: str) -> None:
    store = DuckDBStore(made(column=column), "pictures", metric=metric)
    truth = kr.stores.ArrayStore(ROWS, metric).search(QUERIES, 20)
    for found in (store.search(QUERIES, 20), store.nearest_ids(QUERIES, 20)):
        assert found.ids.tolist() == truth.indices.tolist()
        np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-3, atol=1e-4)
    assert (store.dimensions, store.exact, len(store)) == (6, True, 60)
    assert store.search(QUERIES, 10**9).ids.shape == (4, 60)
    with pytest.raises(ValueError, match="but 6 dimensions are needed"):
        store.search(QUERIES[:, :3], 2)


@pytest.mark.parametrize("column", ["FLOAT[6]", "DOUBLE[]"])
def test_items_without_comparable_vector_are_ignored(column: str) -> None:
    connection = made(column=column)
    put(connection, [None, np.zeros(6), np.full(6, np.nan), [np.inf, *[1] * 5], [1, None, 3, 4, 5, 6]], 100)
    if column == "DOUBLE[]":
        put(connection, [[], [1, 2], [1] * 7, [1e300] * 6], 200)
    connection.execute("INSERT INTO pictures VALUES (NULL, ?, 'cat')", [QUERIES[0].tolist()])
    for metric, zero in (("cosine", set()), ("euclidean", {101})):
        store = DuckDBStore(connection, "pictures", metric=metric)
        for queries in (QUERIES, QUERIES[:1]):
            for found in (store.search(queries, 100), store.nearest_ids(queries, 100)):
                assert {*found.ids[0].tolist()} == {*range(60), *zero}
        with pytest.warns(UserWarning, match="items are left out because their vector is missing"):
            assert {*store.everything()[0].tolist()} == {*range(60), *zero}
        assert store.find_vectors(np.array([4, 100, 102, 104, 201]))[0].tolist() == [True] + [False] * 4


def test_a_table_of_lists_that_was_empty() -> None:
    connection = made(column="FLOAT[]", rows=[])
    store = DuckDBStore(connection, "pictures")
    assert store.search(QUERIES, 3).ids.shape == (4, 0)
    assert store.everything()[0].tolist() == store.ids_where().tolist() == []
    assert store.find_vectors(np.array([1]))[0].tolist() == [False]
    assert len(store) == 0
    put(connection, ROWS)
    assert store.search(QUERIES, 3).ids.tolist() == kr.stores.ArrayStore(ROWS).search(QUERIES, 3).indices.tolist()


def test_names_and_ids_of_all_kinds() -> None:
    connection = duckdb.connect()
    connection.execute('CREATE SCHEMA "my shop"')
    name = '"my shop"."a ""table"""'
    connection.execute(f'CREATE TABLE {name} ("the ""key""" UBIGINT, "Vec tor" FLOAT[6], "order" VARCHAR)')
    for key, row in zip((0, 7, 2**64 - 3), ROWS, strict=False):
        connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?)", [key, row.tolist(), "it's"])
    store = DuckDBStore(connection, 'my shop.a "table"', "vec TOR", 'the "key"')
    assert sorted(store.search(QUERIES[:1], 9, where={"order": "it's"}).ids[0].tolist()) == [0, 7, 2**64 - 3]
    np.testing.assert_allclose(store.vectors([2**64 - 3, 0]), to_unit_rows(ROWS[[2, 0]]), atol=1e-6)
    for stranger in ("nobody", "7.5", "7.0", " 7", -7):
        with pytest.raises(ValueError, match="does not hold"):
            store.vectors([stranger])
    connection.execute(f'CREATE VIEW several AS FROM {name} WHERE "the ""key""" > 3')
    assert len(DuckDBStore(connection, "main.several", "vec tor", 'the "key"')) == 2


def test_filters_in_every_form() -> None:
    connection = made()
    connection.execute("UPDATE pictures SET kind = NULL WHERE id = 5")
    connection.execute("ALTER TABLE pictures ADD COLUMN place INTEGER DEFAULT 3")
    store = DuckDBStore(connection, "pictures")
    dogs = list(range(0, 60, 3))
    for where, left in (
        ({"kind": "dog"}, dogs),
        ({"KIND": ["dog", None], "place": 3}, sorted([*dogs, 5])),
        (("kind = ? AND id < ?", ["dog", np.int64(30)]), dogs[:10]),
        (("kind LIKE 'd%' OR id = 7 -- and no more\n", []), sorted([*dogs, 7])),
    ):
        assert sorted(store.ids_where(where).tolist()) == left
        truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 9, where=left)
        assert store.search(QUERIES, 9, where=where).ids.tolist() == truth.indices.tolist()
    for wrong, message in (
        ("kind = 'dog'", "where is the text .* values are bound and never interpreted as SQL"),
        ({"nobody": 1}, "refused: .*nobody"),
        (("kind = ?", []), "refused"),
        (("kind =", []), "refused: Parser Error"),
        ({"id": "dog"}, "refused: Conversion Error"),
        (("1 = 1); DROP TABLE pictures; SELECT (1", []), "refused"),
        (("id IN (SELECT 1)); UPDATE pictures SET id = 1; SELECT (1", []), "refused"),
    ):
        for ask in (lambda where: store.search(QUERIES, 3, where=where), store.ids_where):
            with pytest.raises(ValueError, match=message):
                ask(wrong)
    assert len(store) == 60


def test_slow_statement_is_cancelled() -> None:
    connection = made()
    connection.execute("CREATE VIEW slow AS SELECT p.* FROM pictures p, range(300_000_000_000) r WHERE r.range % 7 = 3")
    store = DuckDBStore(connection, "slow")
    store.timeout = 0.1
    for ask in (lambda: store.search(QUERIES, 3), lambda: store.nearest_ids(QUERIES, 3), lambda: len(store)):
        with pytest.raises(TimeoutError, match=r"DuckDBStore\(slow\) did not answer within 0\.1 s"):
            ask()
    assert len(DuckDBStore(connection, "pictures", timeout=180)) == 60


def test_a_path_is_opened_for_reading_and_closed_on_every_path(tmp_path: Path) -> None:
    path = tmp_path / "pictures.db"
    made(path).close()
    for table, vector in (("nothing", "embedding"), ("pictures", "kind")):
        with pytest.raises(ValueError, match=r"no table|not of vectors|not a column"):
            DuckDBStore(path, table, vector)
        duckdb.connect(str(path)).close()  # opens for writing, which DuckDB refuses while another connection is open
    with DuckDBStore(path, "pictures") as store:
        assert store.search(QUERIES, 3).ids.tolist() == kr.stores.ArrayStore(ROWS).search(QUERIES, 3).indices.tolist()
        blocks = store.blocks()
        next(blocks)
        with pytest.raises(duckdb.ConnectionException):
            duckdb.connect(str(path))
        blocks.close()
    gc.collect()
    duckdb.connect(str(path)).close()
    with pytest.raises(ValueError, match=r"DuckDBStore\(pictures\) refused: .*does not exist"):
        DuckDBStore(tmp_path / "nowhere.db", "pictures")
    assert not (tmp_path / "nowhere.db").exists()
    (tmp_path / "text.db").write_text("no database at all, but some text that is long enough to look at" * 100)
    with pytest.raises(ValueError, match="refused"):
        DuckDBStore(tmp_path / "text.db", "pictures")


def test_a_lost_connection(tmp_path: Path) -> None:
    made(tmp_path / "pictures.db").close()
    with DuckDBStore(tmp_path / "pictures.db", "pictures") as store:
        expected = store.search(QUERIES, 3).ids.tolist()
        store._connection.close()
        assert store.search(QUERIES, 3).ids.tolist() == expected
        store._connection.close()
        (tmp_path / "pictures.db").unlink()
        with pytest.raises((ConnectionError, ValueError), match=r"DuckDBStore\(pictures\)"):
            store.search(QUERIES, 3)
    connection = made()
    store = DuckDBStore(connection, "pictures")
    connection.close()
    for ask in (lambda: store.search(QUERIES, 3), store.everything, lambda: store.vectors([1])):
        with pytest.raises(ConnectionError, match=r"DuckDBStore\(pictures\) cannot be reached, tried twice"):
            ask()


def test_connection_of_the_user_stays_open_and_keeps_its_transaction() -> None:
    connection = made()
    store = DuckDBStore(connection, "pictures")
    connection.begin()
    put(connection, QUERIES[:1], 1000)
    assert store.search(QUERIES, 1).ids[0, 0] != 1000
    connection.commit()
    assert store.search(QUERIES, 1).ids[0, 0] == 1000
    blocks = store.blocks()
    first = next(blocks)
    connection.execute("DELETE FROM pictures WHERE id = 1000")
    assert 1000 in {*first[0].tolist(), *(name for ids, _ in blocks for name in ids.tolist())}
    store.close()
    assert connection.execute("SELECT count(*) FROM pictures").fetchall() == [(60,)]
    assert connection.execute("SELECT count(*) FROM duckdb_views() WHERE view_name LIKE 'kinrank%'").fetchall() == [
        (0,)
    ]


def test_many_threads_share_a_store() -> None:
    store = DuckDBStore(made(), "pictures", timeout=60)
    expected = store.search(QUERIES, 20).ids.tolist()
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda _: store.search(QUERIES, 20).ids.tolist(), range(32)))
    assert all(found == expected for found in asked)


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "pictures.db").close()
    monkeypatch.chdir(tmp_path)
    with kr.open_store("duckdb:pictures.db?table=pictures&timeout=9&metric=euclidean") as store:  # type: ignore[attr-defined]
        assert isinstance(store, DuckDBStore)
        assert (store.timeout, store.metric, repr(store)) == (9.0, "euclidean", "DuckDBStore(pictures)")
    for wrong, message in {
        "duckdb:pictures.db": "needs the name of a table .*a complete URL: duckdb:///folder/file.db",
        "duckdb:?table=pictures": "needs a file",
        "duckdb://pictures.db/?table=pictures": "needs a file",
        "duckdb:pictures.db?table=pictures&schema=x": "has no option 'schema'",
    }.items():
        with pytest.raises(ValueError, match=message):
            kr.open_store(wrong)
