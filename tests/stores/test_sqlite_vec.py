"""SqliteVecStore: vec0 and ordinary tables, BLOBs of any length, filters that vec0 applies too late."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sqlite_vec", reason="sqlite_vec is not installed: make test-stores installs every engine")
pytest.importorskip("apsw", reason="apsw is not installed: make test-stores installs every engine")

import apsw

import kinrank as kr
from engines.sqlite_vec import connected
from kinrank.stores.sqlite_vec import SqliteVecStore
from kinrank.vector_input import to_unit_rows

RNG = np.random.default_rng(5)
ROWS = (RNG.normal(size=(60, 6)) * RNG.uniform(0.5, 2.0, size=(60, 1))).astype(np.float32)
QUERIES = RNG.normal(size=(4, 6)).astype(np.float32)
COLUMNS = "id integer primary key, embedding float[6] distance_metric=cosine, kind text"
VEC0 = f"CREATE VIRTUAL TABLE pictures USING vec0({COLUMNS})"
PLAIN = "CREATE TABLE pictures (id INTEGER PRIMARY KEY, embedding BLOB, kind TEXT)"


def made(table: str = VEC0, rows: Any = ROWS, path: Any = ":memory:", ids: Any = None) -> apsw.Connection:
    connection = connected(str(path))
    connection.execute(table)
    names = range(len(rows)) if ids is None else ids
    with connection:
        for place, (name, row) in enumerate(zip(names, rows, strict=True)):
            vector = row.tobytes() if isinstance(row, np.ndarray) else row
            connection.execute("INSERT INTO pictures VALUES (?, ?, ?)", (name, vector, "cat" if place % 3 else "dog"))
    return connection


def test_tables_that_cannot_be_searched() -> None:
    connection = made()
    connection.execute("CREATE VIRTUAL TABLE small USING vec0(embedding int8[6], other float[3])")
    connection.execute("CREATE VIRTUAL TABLE streets USING vec0(embedding float[6] distance_metric=L1)")
    connection.execute("CREATE TABLE words (id INTEGER PRIMARY KEY, embedding)")
    connection.execute("INSERT INTO words VALUES (1, '[1, 2, 3]')")
    for words, change in {
        "the database has no table 'nothing'": {"table": "nothing"},
        "vector='vector' is not a column of .*; give one of: id, embedding, kind": {"vector": "vector"},
        "key='name' is not a column of .*; give one of": {"key": "name"},
        "key='kind' is not the primary key 'id' of .*; leave it out": {"key": "kind"},
        r"SqliteVecStore\(pictures\): vector='kind' is not a column of float32 vectors": {"vector": "kind"},
        r"SqliteVecStore\(small\): vector='embedding' is not a column of float32 vectors": {"table": "small"},
        "compares by l1; give `metric=cosine`": {"table": "streets"},
        "contains text values; give `vector`, a column of float32 BLOBs": {"table": "words"},
        "metric='dot' is not allowed; give cosine or euclidean": {"metric": "dot"},
    }.items():
        with pytest.raises(ValueError, match=words):
            SqliteVecStore(connection, **{"table": "pictures"} | change)
    with pytest.raises(ValueError, match="connection must be a connection of sqlite3 or apsw, or a path; got a int"):
        SqliteVecStore(7, "pictures")
    assert SqliteVecStore(connection, "small", "OTHER").dimensions == 3


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("kind", ["vec0", "vec0 without a key", "plain", "plain without a key"])
def test_every_kind_of_table(kind: str, metric: str) -> None:
    table = VEC0 if kind.startswith("vec0") else PLAIN
    table = table.replace(
        "distance_metric=cosine", "distance_metric = L2" if metric == "euclidean" else "DISTANCE_METRIC=Cosine"
    )
    if kind.endswith("without a key"):
        table = table.replace("id integer primary key, ", "").replace("id INTEGER PRIMARY KEY, ", "")
        connection = connected()
        connection.execute(table)
        for place, row in enumerate(ROWS):
            sql = "INSERT INTO pictures(rowid, embedding, kind) VALUES (?, ?, ?)"
            connection.execute(sql, (place, row.tobytes(), "cat" if place % 3 else "dog"))
    else:
        connection = made(table)
    store = SqliteVecStore(connection, "Pictures", **{} if kind.startswith("vec0") else {"metric": metric})
    truth = kr.stores.ArrayStore(ROWS, metric).search(QUERIES, 20)
    for found in (store.search(QUERIES, 20), store.nearest_ids(QUERIES, 20)):
        assert found.ids.tolist() == truth.indices.tolist()
        np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-3, atol=1e-4)
    assert (store.dimensions, store.exact, store.metric, len(store)) == (6, True, metric, 60)
    for k in (100, 5000, 10**9):  # vec0 returns at most 4096 items
        for where in (None, {"kind": ["cat", "dog"]}):
            truth = kr.stores.ArrayStore(ROWS, metric).search(QUERIES, 60)
            assert store.search(QUERIES, k, where=where).ids.tolist() == truth.indices.tolist()
    with pytest.raises(ValueError, match="but 6 dimensions are needed"):
        store.search(QUERIES[:, :3], 2)


def test_another_metric_than_that_of_the_table() -> None:
    with pytest.warns(UserWarning, match="compares by cosine, not by euclidean: searches compare every row"):
        store = SqliteVecStore(made(), "pictures", metric="euclidean")
    truth = kr.stores.ArrayStore(ROWS, "euclidean").search(QUERIES, 9)
    assert store.search(QUERIES, 9).ids.tolist() == truth.indices.tolist()


@pytest.mark.parametrize("table", [VEC0, VEC0.replace("=cosine", "=L2"), PLAIN])
def test_unusable_vectors_do_not_hide_others(table: str) -> None:
    rows = RNG.normal(size=(3000, 6)).astype(np.float32)
    rows[[0, 1100, 2999]], rows[1024], rows[2048] = 0.0, np.nan, np.inf
    euclidean = "L2" in table
    gone = [1024, 2048] if euclidean else [0, 1024, 1100, 2048, 2999]
    store = SqliteVecStore(made(table, rows), "pictures")
    left = np.setdiff1d(np.arange(3000), gone)
    truth = kr.stores.ArrayStore(rows[left], "euclidean" if euclidean else "cosine").search(QUERIES, 3000)
    for k in (5, 2000, 3000):
        for found in (store.search(QUERIES, k), store.nearest_ids(QUERIES, k)):
            assert [set(row) for row in found.ids] == [set(row[:k]) for row in left[truth.indices]]
    with pytest.warns(UserWarning, match=f"{len(gone)} items are left out because their vector is missing"):
        assert store.everything()[0].tolist() == left.tolist()


def test_values_that_are_not_vectors() -> None:
    rows = [*ROWS, None, b"", b"abc", ROWS[0].tobytes()[:-4], ROWS[0].tobytes() * 2, "[1, 2, 3, 4, 5, 6]", 7, 0.5]
    store = SqliteVecStore(made(PLAIN, rows), "pictures")
    assert store.dimensions == 6
    for found in (store.search(QUERIES, 100), store.nearest_ids(QUERIES, 100)):
        assert {*found.ids[0].tolist()} == {*range(60)}
    with pytest.warns(UserWarning, match="8 items are left out because"):
        assert store.everything()[0].tolist() == list(range(60))
    assert store.find_vectors(np.array([3, 60, 62, 65]))[0].tolist() == [True, False, False, False]
    assert len(store) == 68


def test_a_table_of_blobs_that_was_empty() -> None:
    connection = made(PLAIN, [])
    store = SqliteVecStore(connection, "pictures")
    assert store.search(QUERIES, 3).ids.shape == (4, 0)
    assert store.everything()[0].tolist() == []
    assert store.find_vectors(np.array([1]))[0].tolist() == [False]
    for place, row in enumerate(ROWS):
        connection.execute("INSERT INTO pictures VALUES (?, ?, NULL)", (place, row.tobytes()))
    assert store.search(QUERIES, 3).ids.tolist() == kr.stores.ArrayStore(ROWS).search(QUERIES, 3).indices.tolist()


@pytest.mark.parametrize("table", [VEC0.replace("integer", "text"), PLAIN.replace("INTEGER PRIMARY KEY", "TEXT")])
def test_ids_that_are_texts(table: str) -> None:
    names = [f'it\'s "{place}" \\ é \U0001f600 %s ?' for place in range(60)]
    connection = made(table, ids=names)
    store = SqliteVecStore(connection, "pictures", key="id")
    truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 9, where=list(range(0, 60, 3)))
    assert store.search(QUERIES, 9, where={"kind": "dog"}).ids.tolist() == [
        [names[place] for place in row] for row in truth.indices
    ]
    np.testing.assert_allclose(store.vectors(names[7:9]), to_unit_rows(ROWS[7:9]), atol=1e-6)
    for stranger in ("nobody", 7):
        with pytest.raises(ValueError, match="does not hold"):
            store.vectors([stranger])


def test_ids_that_are_numbers() -> None:
    for table in (VEC0, PLAIN):
        store = SqliteVecStore(made(table, ROWS[:3], ids=[0, 7, 2**63 - 1]), "pictures")
        assert sorted(store.search(QUERIES[:1], 3).ids[0].tolist()) == [0, 7, 2**63 - 1]
        np.testing.assert_allclose(store.vectors([2**63 - 1, 0]), to_unit_rows(ROWS[[2, 0]]), atol=1e-6)
        for stranger in ("nobody", "7.5", 2**64 - 1, "9" * 30):
            with pytest.raises(ValueError, match="does not hold"):
                store.vectors([stranger])


@pytest.mark.parametrize("virtual", [True, False])
def test_filters_in_every_form(virtual: bool) -> None:
    fields = "kind text, year integer, +note text" if virtual else "kind text, year integer, note text"
    connection = connected()
    start = "CREATE VIRTUAL TABLE pictures USING vec0" if virtual else "CREATE TABLE pictures"
    vector = "embedding float[6] distance_metric=cosine" if virtual else "embedding BLOB"
    connection.execute(f"{start}(id integer primary key, {vector}, {fields})")
    for place, row in enumerate(ROWS):
        values = place, row.tobytes(), "cat" if place % 3 else "dog", place % 7, None if place == 5 else "it's"
        connection.execute("INSERT INTO pictures VALUES (?, ?, ?, ?, ?)", values)
    store = SqliteVecStore(connection, "pictures")
    dogs = list(range(0, 60, 3))
    for where, left in (
        ({"kind": "dog"}, dogs),
        ({"KIND": ["dog", "bird"], "note": ["it's", None]}, dogs),
        ({"note": None}, [5]),
        (("kind = ? AND id < ?", ["dog", np.int64(30)]), dogs[:10]),
        (("kind = ? OR year = ?", ["dog", 1]), [place for place in range(60) if place % 3 == 0 or place % 7 == 1]),
        (("kind LIKE 'd%' OR note IS NULL", []), sorted([*dogs, 5])),
        (("id IN (?, ?)", [3, 4]), [3, 4]),
    ):
        assert sorted(store.ids_where(where).tolist()) == left
        truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 9, where=left)
        assert store.search(QUERIES, 9, where=where).ids.tolist() == truth.indices.tolist()
    for wrong, message in (
        ("kind = 'dog'", r"where is the text .* values are bound and never interpreted as SQL"),
        ({"nobody": "nobody"}, "where has the column 'nobody'"),  # SQLite would treat the quoted name as a text
        ({'kind" OR "1" = "1': "1"}, "where has the column"),
        (("kind = ?", []), "refused"),
        (("kind =", []), "refused"),
        (("nobody = ?", [1]), "refused: .*no such column"),
    ):
        for ask in (lambda where: store.search(QUERIES, 3, where=where), store.ids_where):
            with pytest.raises(ValueError, match=message):
                ask(wrong)
    for hostile in ("x' OR '1'='1", 'x" OR "1"="1', "'; DROP TABLE pictures; --", "\\' OR 1=1 --"):
        assert store.search(QUERIES, 3, where={"note": hostile}).depth == 0


def test_a_path_is_opened_for_reading_and_closed_on_every_path(tmp_path: Path) -> None:
    path = tmp_path / "a name?#%20.db"
    made(path=path).close()
    for table, vector in (("nothing", "embedding"), ("pictures", "kind")):
        with pytest.raises(ValueError, match=r"no table|not of vectors|not a column"):
            SqliteVecStore(path, table, vector)
    with SqliteVecStore(path, "pictures") as store:
        assert store.search(QUERIES, 3).ids.tolist() == kr.stores.ArrayStore(ROWS).search(QUERIES, 3).indices.tolist()
        with pytest.raises(ValueError, match=r"refused: .*read"):
            store._call(store._query, "DELETE FROM pictures")
        connection = store._connection
    with pytest.raises((apsw.ConnectionClosedError, sqlite3.ProgrammingError)):
        connection.cursor()
    with pytest.raises(ValueError, match=r"there is no file .*nowhere"):
        SqliteVecStore(tmp_path / "nowhere.db", "pictures")
    assert not (tmp_path / "nowhere.db").exists()
    (tmp_path / "text.db").write_text("no database at all, but some text that is long enough to look at" * 100)
    with pytest.raises(ValueError, match=r"refused: .*not a database"):
        SqliteVecStore(tmp_path / "text.db", "pictures")


def test_a_lost_connection_and_a_database_that_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "pictures.db"
    writer = made(path=path)
    with SqliteVecStore(path, "pictures") as store:
        expected = store.search(QUERIES, 3).ids.tolist()
        store._connection.close()
        assert store.search(QUERIES, 3).ids.tolist() == expected
        store._connection.close()
        path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(ValueError, match="there is no file"):
            store.search(QUERIES, 3)
        (tmp_path / "elsewhere.db").rename(path)
    reader = apsw.Connection(str(path))
    store = SqliteVecStore(reader, "pictures")
    with writer:
        writer.execute("DELETE FROM pictures WHERE id = 1")
        assert 1 in store.search(ROWS[1:2], 60).ids  # not committed yet
        writer.execute("PRAGMA locking_mode = EXCLUSIVE")
    writer.execute("BEGIN EXCLUSIVE")
    for ask in (lambda: store.search(QUERIES, 3), store.everything, lambda: len(store)):
        with pytest.raises(TimeoutError, match=r"SqliteVecStore\(pictures\) did not answer in time"):
            ask()
    writer.execute("COMMIT")
    writer.close()
    assert 1 not in store.search(ROWS[1:2], 60).ids
    store.close()
    assert list(reader.execute("SELECT count(*) FROM pictures")) == [(59,)]
    store = SqliteVecStore(reader, "pictures")
    reader.close()
    with pytest.raises(ConnectionError, match=r"SqliteVecStore\(pictures\) cannot be reached, tried twice"):
        store.search(QUERIES, 3)


def test_a_scan_is_read_in_parts_while_others_search() -> None:
    connection = made(PLAIN, np.tile(ROWS, (200, 1)))
    store = SqliteVecStore(connection, "pictures")
    blocks = store.blocks()
    first = next(blocks)
    assert len(first[0]) == 4096
    assert store.search(QUERIES, 3).ids.shape == (4, 3)
    assert len(first[0]) + sum(len(ids) for ids, _ in blocks) == 12_000
    blocks = store.blocks()
    next(blocks)
    blocks.close()
    connection.execute("DROP TABLE pictures")  # SQLite refuses this while a reader is open


def test_many_threads_share_a_store(tmp_path: Path) -> None:
    made(path=tmp_path / "pictures.db").close()
    with SqliteVecStore(tmp_path / "pictures.db", "pictures") as store:
        expected = store.search(QUERIES, 20).ids.tolist()
        with ThreadPoolExecutor(8) as pool:
            asked = list(pool.map(lambda _: store.search(QUERIES, 20).ids.tolist(), range(32)))
        assert all(found == expected for found in asked)


def test_only_one_sqlite_loads_the_extension(tmp_path: Path) -> None:
    """Loading the extension with both libraries would crash the process."""
    made(path=tmp_path / "pictures.db").close()
    SqliteVecStore(tmp_path / "pictures.db", "pictures").close()
    with closing(sqlite3.connect(tmp_path / "pictures.db")) as connection:
        with pytest.raises(ValueError, match="sqlite-vec is in use with apsw; loading it with sqlite3"):
            SqliteVecStore(connection, "pictures")
        assert connection.execute("SELECT 7").fetchone()[0] == 7


SCRIPT = """
import sqlite3, sys
import kinrank as kr
from kinrank.stores.sqlite_vec import SqliteVecStore
path, queries = sys.argv[1], [[1, 2, 3, 4, 5, 6]]
able, connection = hasattr(sqlite3.Connection, "enable_load_extension"), sqlite3.connect(path)
connection.row_factory = sqlite3.Row
def error_of(given):
    try:
        return SqliteVecStore(given, "pictures")
    except ValueError as error:
        return str(error)
if able:
    store = error_of(connection)
    assert store.search(queries, 60).ids.shape == (1, 60) and len(store.everything()[0]) == 60
    assert "apsw" not in sys.modules
    with SqliteVecStore(path, "pictures") as opened:
        assert isinstance(opened._connection, sqlite3.Connection)
        assert opened.search(queries, 9).ids.tolist() == store.search(queries, 9).ids.tolist()
    import apsw
    assert "is in use with sqlite3" in error_of(apsw.Connection(path))
else:
    assert "the sqlite3 of this Python cannot load extensions; give the path" in error_of(connection)
    connection.create_function("vec_version", 0, lambda: "v0.1.6")
    assert "sqlite-vec v0.1.6 is too old; install 0.1.7 or newer" in error_of(connection)
    with SqliteVecStore(path, "pictures") as opened:
        assert opened.search(queries, 60).ids.shape == (1, 60)
print("good", able)
"""


def test_the_sqlite3_of_python(tmp_path: Path) -> None:
    made(path=tmp_path / "pictures.db").close()
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "pictures.db")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.startswith("good"), result.stderr


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(path=tmp_path / "pictures.db").close()
    monkeypatch.chdir(tmp_path)
    with kr.open_store("sqlite:pictures.db?table=pictures&vector=embedding&key=id&metric=cosine") as store:  # type: ignore[attr-defined]
        assert isinstance(store, SqliteVecStore)
        assert (store.metric, repr(store)) == ("cosine", "SqliteVecStore(pictures)")
    for wrong, message in {
        "sqlite:pictures.db": "needs the name of a table .*a complete URL: sqlite:///folder/file.db",
        "sqlite:?table=pictures": "needs a file",
        "sqlite://pictures.db/?table=pictures": "needs a file",
        "sqlite:pictures.db?table=pictures&timeout=3": "has no option 'timeout'",
    }.items():
        with pytest.raises(ValueError, match=message):
            kr.open_store(wrong)
