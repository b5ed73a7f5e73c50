"""ChromaStore: spaces and filters, folders with several clients, and a real server that fails."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("chromadb", reason="chromadb is not installed: make test-stores installs every engine")

import chromadb
from chromadb.config import Settings

import kinrank as kr
from kinrank.stores.chroma import ChromaStore, to_chroma_filter

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(40, 6)).astype(np.float32)
QUERIES = RNG.normal(size=(3, 6)).astype(np.float32)
IDS = [f"i{place:02d}" for place in range(40)]
SECRET = "s3cret-token"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromadb.PersistentClient(str(tmp_path_factory.mktemp("chroma"))) as client:
        yield client


def filled(client: Any, name: str, rows: Any = ROWS, space: str | None = "cosine", **more: Any) -> Any:
    if space is not None:
        more["configuration"] = {"hnsw": {"space": space}}
    collection = client.create_collection(name, embedding_function=None, **more)
    fields = [{"year": 2000 + place, "even": place % 2 == 0} for place in range(len(rows))]
    collection.add(ids=IDS[: len(rows)], embeddings=rows, metadatas=fields)
    return collection


def named(places: Any) -> list[list[str]]:
    return [[IDS[place] for place in row] for row in np.asarray(places).tolist()]


def test_spaces(client: Any) -> None:
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    cases = [
        (filled(client, "spaces-default", space=None), "euclidean"),
        (filled(client, "spaces-l2", space="l2"), "euclidean"),
        (filled(client, "spaces-old", space=None, metadata={"hnsw:space": "cosine"}), "cosine"),
        (filled(client, "spaces-ip", unit, "ip"), "cosine"),
    ]
    for collection, metric in cases:
        store = ChromaStore(collection)
        truth = kr.stores.ArrayStore(ROWS, metric).search(QUERIES, 9)
        assert store.metric == metric
        assert store.search(QUERIES, 9).ids.tolist() == named(truth.indices)
        np.testing.assert_allclose(store.nearest_ids(QUERIES, 9).distances, truth.distances, atol=1e-5)
    store = ChromaStore(filled(client, "spaces-long", 3 * ROWS, "ip"))
    for ask in (lambda: store.search(QUERIES, 5), store.everything):
        with pytest.raises(ValueError, match="compares by inner product, but not all of its vectors have length one"):
            ask()


def test_filters(client: Any) -> None:
    store = ChromaStore(filled(client, "filters"))
    for where, left in [
        ({"year": {"$gt": 2035}}, {36, 37, 38, 39}),
        ({"$or": [{"year": 2001}, {"year": {"$lt": 2001}}]}, {0, 1}),
        ({"year": {"$gt": 2035}, "even": True}, {36, 38}),
        ({"year": [2003, "2004", 2005]}, {3, 5}),
        ({"$and": [{"year": 2001}, {"even": False}], "year": [2001, 2002]}, {1}),
    ]:
        assert set(store.ids_where(where).tolist()) == {IDS[place] for place in left}, where
        assert set(store.search(QUERIES[:1], 40, where=where).ids[0].tolist()) == {IDS[place] for place in left}
    assert to_chroma_filter({"a": 1, "b": {"$ne": 2}}) == {"$and": [{"b": {"$ne": 2}}, {"a": {"$in": [1]}}]}
    for wrong, message in [
        ({"year": None}, r"where has None for 'year', but Chroma cannot search for items without a value"),
        ("year = 1", "where is 'year = 1'; give a mapping of metadata names"),
        ({}, "where is empty"),
        ({"year": {"$gt": "x"}}, "refused: Expected operand value"),
        ({"$what": 1}, "refused"),
        ({3: 1}, "where has the column 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            store.search(QUERIES, 3, where=wrong)


def test_zero_vectors_and_ids_that_are_no_texts(client: Any) -> None:
    rows = ROWS.copy()
    rows[4] = 0.0
    store = ChromaStore(filled(client, "zero", rows))
    assert IDS[4] not in store.search(QUERIES, 40).ids
    with pytest.warns(UserWarning, match="1 items are left out because"):
        assert IDS[4] not in store.everything()[0]
    for name in (IDS[4], 4, "nobody"):
        with pytest.raises(ValueError, match="does not hold"):
            store.vectors([name])


def test_items_that_go_between_search_and_fetch(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = filled(client, "going")
    store, query, nearest = (
        ChromaStore(collection),
        collection.query,
        kr.stores.ArrayStore(ROWS).search(QUERIES[:1], 10),
    )

    def gone(**given: Any) -> Any:
        found = query(**given)
        collection.delete(ids=found["ids"][0][:3])
        return found

    monkeypatch.setattr(collection, "query", gone)
    assert store.search(QUERIES[:1], 7).ids.tolist() == named(nearest.indices[:, 3:10])


def test_more_items_than_one_call_fetches(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinrank.stores.chroma.SCAN_ROWS", 7)
    store = ChromaStore(filled(client, "blocks"))
    assert [len(ids) for ids, _ in store.blocks()] == [7, 7, 7, 7, 7, 5]
    assert store.vectors(IDS[::-1]).shape == (40, 6)
    assert store.search(QUERIES, 40).ids.tolist() == named(kr.stores.ArrayStore(ROWS).search(QUERIES, 40).indices)


def test_an_index_that_finds_too_few(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = filled(client, "few")
    store, query, most = ChromaStore(collection), collection.query, 20

    def limited(**given: Any) -> Any:
        if given["n_results"] > most:
            raise RuntimeError("Cannot return the results in a contiguous 2D array. Probably ef or M is too small")
        return query(**given)

    monkeypatch.setattr(collection, "query", limited)
    assert store.search(QUERIES, 10).depth == 10
    with pytest.raises(ValueError, match=r"cannot find 38 items; request fewer, or create .* with ef_search"):
        store.search(QUERIES, 30)


def test_a_collection_filled_later_and_one_that_is_gone(client: Any) -> None:
    collection = client.create_collection("later", embedding_function=None)
    store = ChromaStore(collection)
    assert store.dimensions == 0
    assert store.search(QUERIES, 3).depth == 0
    collection.add(ids=IDS, embeddings=ROWS)
    assert store.search(QUERIES, 3).depth == 3
    with pytest.raises(ValueError, match="but 6 dimensions are needed"):
        store.search(QUERIES[:, :4], 3)
    client.delete_collection("later")
    with pytest.raises(ValueError, match=r"ChromaStore\(later\) refused: .* does not exist"):
        store.search(QUERIES, 3)
    with pytest.raises(ValueError, match=r"collection must be a chromadb.Collection; got a str"):
        ChromaStore("later")
    with pytest.raises(ValueError, match="timeout=0 is not allowed"):
        ChromaStore(filled(client, "timeout"), timeout=0)


def test_slow_answer_times_out(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    collection, go_on = filled(client, "slow"), threading.Event()
    store, query = ChromaStore(collection, timeout=180), collection.query
    assert store.search(QUERIES, 3).depth == 3
    monkeypatch.setattr(collection, "query", lambda **given: go_on.wait(600) and query(**given))
    store.timeout = 0.2
    with pytest.raises(TimeoutError, match=r"ChromaStore\(slow\) did not answer within 0.2 s"):
        store.search(QUERIES, 3)
    go_on.set()
    store.timeout = 180
    with pytest.raises(ValueError, match="refused: Invalid where clause"):  # errors are passed on from the thread
        store.search(QUERIES, 3, where={"$what": 1})


def test_folders(tmp_path: Path) -> None:
    folder = str(tmp_path / "held")
    theirs = chromadb.PersistentClient(folder)
    collection = filled(theirs, "pictures", space="cosine")
    expected = named(kr.stores.ArrayStore(ROWS).search(QUERIES, 5).indices)
    with kr.open_store(f"chroma:{folder}#pictures") as store, ThreadPoolExecutor(4) as threads:  # type: ignore[attr-defined]
        answers = list(threads.map(lambda _: store.search(QUERIES, 5).ids.tolist(), range(12)))
        assert answers == [expected] * 12
    assert collection.count() == 40  # the client of the user is still open
    ChromaStore(collection).close()
    assert collection.count() == 40
    theirs.close()
    known = type(theirs)._identifier_to_system
    with kr.open_store(f"chroma:{folder}?timeout=9#pictures") as store:  # type: ignore[attr-defined]
        assert known[folder].settings.anonymized_telemetry is False
        assert store.search(QUERIES, 5).ids.tolist() == expected
    for url, message in [
        (f"chroma:{folder}#nothing", r"ChromaStore\(nothing\) refused: Collection \[nothing\] does not exist"),
        (f"chroma:{tmp_path}/new#pictures", "is not a Chroma folder"),
        (
            f"chroma:{folder}",
            r"needs the name of a table or collection, as in \?table=items; a complete URL: chroma:///folder\?table=items",
        ),
        (f"chroma:{folder}?https=true#pictures", "has no option 'https'"),
        ("chroma://localhost:8000", "needs the name of a table or collection"),
        (f"chroma:{folder}?table=pictures&vector=row", "vector='row' is not possible: .* it is always 'embedding'"),
    ]:
        with pytest.raises(ValueError, match=message):
            kr.open_store(url)
    assert folder not in known  # closed after every error
    assert not (tmp_path / "new").exists()


def test_another_client_that_changes_the_folder(tmp_path: Path) -> None:
    """Chroma keeps its index in memory: two clients of one folder do not see each other's additions."""
    with chromadb.PersistentClient(f"{tmp_path}/") as other:
        collection = filled(other, "pictures")
        with kr.open_store(f"chroma:{tmp_path}#pictures") as store:  # type: ignore[attr-defined]
            assert store.search(ROWS[:1], 1).ids.tolist() == [[IDS[0]]]
            collection.delete(ids=IDS[:1])
            assert IDS[0] not in store.search(ROWS[:1], 40).ids
            collection.add(ids=["new"], embeddings=ROWS[:1])
            with pytest.raises(ValueError, match="was changed by another client, and this client does not see"):
                store.everything()
        with kr.open_store(f"chroma:{tmp_path}#pictures") as store:  # type: ignore[attr-defined]
            assert store.search(ROWS[:1], 1).ids.tolist() == [["new"]]


class Server:
    """A server started with `chroma run` on a local port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for _ in range(5):  # another program can take the port before the server does
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            if self.start():
                return
        pytest.skip("the server of Chroma did not start")

    def start(self) -> bool:
        run = "import sys; from chromadb.cli.cli import app; sys.exit(app())"
        words = ["run", "--path", str(self.folder), "--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", run, *words], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 180
        while time.monotonic() < until and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self.process.poll() is None
            except OSError:
                time.sleep(0.05)
        self.stop()
        return False

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def url(self) -> str:
        return f"chroma://127.0.0.1:{self.port}/pictures"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    try:
        with chromadb.HttpClient("127.0.0.1", server.port, settings=Settings(anonymized_telemetry=False)) as client:
            filled(client, "pictures")
        yield server
    finally:
        server.stop()


def test_server_restart(server: Server) -> None:
    expected = named(kr.stores.ArrayStore(ROWS).search(QUERIES, 5).indices)
    with kr.open_store(f"{server.url}?token={SECRET}&timeout=180") as store:  # type: ignore[attr-defined]
        assert store.timeout == 180
        assert store.search(QUERIES, 5).ids.tolist() == expected
        where = {"even": True, "year": {"$lt": 2009}}
        assert set(store.ids_where(where).tolist()) == {IDS[place] for place in range(0, 9, 2)}
        server.stop()
        for ask in (lambda: store.search(QUERIES, 5), store.everything, lambda: kr.open_store(server.url)):
            with pytest.raises(
                ConnectionError, match=r"ChromaStore\(pictures\) cannot be reached, tried twice"
            ) as lost:
                ask()
            assert SECRET not in f"{lost.value!r} {store!r}"
        assert server.start()
        assert store.search(QUERIES, 5).ids.tolist() == expected
    session = store._client._server._session
    assert session.is_closed
    with pytest.raises(ValueError, match=r"ChromaStore\(nothing\) refused: .*does not exist"):
        kr.open_store(server.url.replace("pictures", "nothing"))
    with pytest.raises(ValueError, match=r"refused: Tenant \[nobody\] not found"):
        kr.open_store(f"{server.url}?tenant=nobody")


def test_a_server_that_accepts_and_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"chroma://me:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/pictures"
        with pytest.raises(TimeoutError, match=r"ChromaStore\(pictures\) did not answer within 0.3 s") as late:
            kr.open_store(f"{url}?timeout=0.3")
        assert SECRET not in str(late.value)
    monkeypatch.setenv("CHROMA_API_KEY", f"{SECRET}\n{SECRET}")
    with pytest.raises(
        ValueError, match="the token for Chroma contains a character that is not allowed in an HTTP header"
    ) as refused:
        kr.open_store(url)
    assert SECRET not in str(refused.value)
