"""QdrantStore: named vectors, two kinds of ids, local folders, and a server that fails.

There is no real server. A substitute answers over HTTP from a client in local mode and simulates failures.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

pytest.importorskip("qdrant_client", reason="qdrant_client is not installed: make test-stores installs every engine")

import grpc
from qdrant_client import AsyncQdrantClient, QdrantClient, models

import kinrank as kr
from kinrank.errors import InputError
from kinrank.stores.qdrant import QdrantStore

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(40, 6)).astype(np.float32)
QUERIES = RNG.normal(size=(3, 6)).astype(np.float32)
SECRET = "s3cret-key"


def client_of(
    rows: Any = ROWS,
    ids: Any = None,
    distance: models.Distance = models.Distance.COSINE,
    client: Any = None,
    **more: Any,
) -> QdrantClient:
    client = client or QdrantClient(":memory:")
    config = models.VectorParams(size=rows.shape[1], distance=distance)
    client.create_collection("pictures", vectors_config=config, **more)
    ids = list(range(len(rows))) if ids is None else ids
    points = [models.PointStruct(id=name, vector=row.tolist()) for name, row in zip(ids, rows, strict=True)]
    client.upsert("pictures", points)
    return client


def several() -> QdrantClient:
    """Points with two dense vectors and a sparse one; the last ten lack one of them."""
    client = QdrantClient(":memory:")
    shape = {
        name: models.VectorParams(size=6, distance=kind)
        for name, kind in (("front", models.Distance.EUCLID), ("back", models.Distance.MANHATTAN))
    }
    client.create_collection("pictures", shape, sparse_vectors_config={"words": models.SparseVectorParams()})
    for place, row in enumerate(ROWS):
        held: dict[str, Any] = {"back": row.tolist(), "words": models.SparseVector(indices=[1], values=[1.0])}
        held |= {"front": row.tolist()} if place < 30 else {}
        client.upsert("pictures", [models.PointStruct(id=place, vector=held)])
    return client


def test_named_vectors() -> None:
    client = several()
    with QdrantStore(client, "pictures", "front") as store:
        assert repr(store) == "QdrantStore(pictures, vector=front)"
        truth = kr.stores.ArrayStore(ROWS[:30], "euclidean").search(QUERIES, 40)
        found = store.search(QUERIES, 40)
        assert found.ids.tolist() == truth.indices[:, :30].tolist()
        np.testing.assert_allclose(store.nearest_ids(QUERIES, 5).distances, truth.distances[:, :5], rtol=1e-5)
        np.testing.assert_array_equal(store.vectors([3]), ROWS[3:4])
        with pytest.raises(ValueError, match="ids contains 35"):
            store.vectors([35])
        with pytest.warns(UserWarning, match="10 items are left out because"):
            assert len(store.everything()[0]) == 30
    with pytest.raises(ValueError, match="give one of those that the collection has: 'back', 'front'"):
        QdrantStore(client, "pictures")
    with pytest.raises(ValueError, match="give one of those that the collection has: 'back', 'front'"):
        QdrantStore(client, "pictures", "words")
    with pytest.raises(ValueError, match="compares by Manhattan"):
        QdrantStore(client, "pictures", "back")
    client.get_collections()  # the client of the user stays open


def test_a_vector_without_a_name_beside_a_sparse_one() -> None:
    client = client_of(sparse_vectors_config={"words": models.SparseVectorParams()})
    words = models.SparseVector(indices=[3], values=[1.0])
    client.upsert("pictures", [models.PointStruct(id=99, vector={"": ROWS[0].tolist(), "words": words})])
    client.upsert("pictures", [models.PointStruct(id=100, vector={"words": words})])
    store = QdrantStore(client, "pictures")
    assert store.search(ROWS[:1], 2).ids.tolist() == [[0, 99]]
    assert 100 not in store.search(ROWS[:1], 99).ids
    with pytest.raises(ValueError, match="the collection has: one without a name"):
        QdrantStore(client, "pictures", "front")


def test_numbers_and_uuids_in_one_collection() -> None:
    names: list[Any] = [place if place % 2 else str(UUID(int=place)) for place in range(40)]
    store = QdrantStore(client_of(ids=names), "pictures")
    truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 7)
    expected = [[str(names[place]) for place in row] for row in truth.indices.tolist()]
    assert store.search(QUERIES, 7).ids.tolist() == expected
    np.testing.assert_allclose(store.vectors(["1", str(UUID(int=4))]), store.vectors(["1", UUID(int=4)]))
    assert set(store.everything()[0].tolist()) == set(map(str, names))
    odd = models.Filter(must=[models.HasIdCondition(has_id=[1, 3, 5])])
    assert sorted(store.ids_where(odd).tolist()) == ["1", "3", "5"]
    manifold = kr.Manifold.build(store)
    assert set(manifold.search(QUERIES, 3, where=odd).ids[0].tolist()) == {"1", "3", "5"}


def test_ids_that_no_point_can_have() -> None:
    store = QdrantStore(client_of(ids=[(1 << 64) - 1 - place for place in range(40)]), "pictures")
    assert int(store.search(ROWS[:1], 1).ids[0, 0]) == (1 << 64) - 1
    for name in ("nobody", -5, "7", str(UUID(int=0))):
        with pytest.raises(ValueError, match="does not hold"):
            store.vectors([name])


def test_inner_products_only_of_unit_vectors() -> None:
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    store = QdrantStore(client_of(unit, distance=models.Distance.DOT), "pictures")
    assert store.metric == "cosine"
    truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 9)
    assert store.search(QUERIES, 9).ids.tolist() == truth.indices.tolist()
    np.testing.assert_allclose(store.nearest_ids(QUERIES, 9).distances, truth.distances, atol=1e-6)
    store = QdrantStore(client_of(3 * ROWS, distance=models.Distance.DOT), "pictures")
    for ask in (lambda: store.search(QUERIES, 5), lambda: store.nearest_ids(QUERIES, 5), store.everything):
        with pytest.raises(ValueError, match="compares by inner product, but not all of its vectors have length one"):
            ask()


def test_zero_vectors_are_never_results() -> None:
    rows = ROWS.copy()
    rows[4] = 0.0
    store = QdrantStore(client_of(rows), "pictures")
    assert 4 not in store.search(QUERIES, 40).ids
    with pytest.warns(UserWarning, match="1 items are left out because"):
        assert 4 not in store.everything()[0]
    with pytest.raises(ValueError, match="ids contains 4"):
        store.vectors([4])


def test_filters_of_every_kind_of_value() -> None:
    client = client_of()
    client.set_payload("pictures", {"price": 2.5, "sold": True, "a.b": 1}, [1, 2])
    client.set_payload("pictures", {"price": 3, "sold": False}, [3])
    store = QdrantStore(client, "pictures")
    for where, left in [
        ({"price": 2.5}, {1, 2}),
        ({"price": [2.5, 3]}, {1, 2, 3}),
        ({"sold": True}, {1, 2}),
        ({"sold": [True, None], "price": [None, 2.5]}, set(range(40)) - {3}),
        ({"price": None}, {0, *range(4, 40)}),
    ]:
        assert set(store.ids_where(where).tolist()) == left, where
    with pytest.raises(ValueError, match="where is 'kind = 1'; give a mapping of payload names"):
        store.search(QUERIES, 3, where="kind = 1")
    with pytest.raises(ValueError, match=r"refused|where"):
        store.search(QUERIES, 3, where={"[[": 1})


def test_wrong_collections_and_clients() -> None:
    with pytest.raises(ValueError, match=r"QdrantStore\(nothing\) refused: Collection nothing not found"):
        QdrantStore(client_of(), "nothing")
    with pytest.raises(ValueError, match=r"client must be a qdrant_client.QdrantClient or a text; got a AsyncQdrant"):
        QdrantStore(AsyncQdrantClient(":memory:"), "pictures")
    with pytest.raises(ValueError, match="a new client in memory would be empty"):
        QdrantStore(":memory:", "pictures")
    with pytest.raises(ValueError, match="timeout=-1 is not allowed"):
        QdrantStore(client_of(), "pictures", timeout=-1)
    client = QdrantClient(":memory:")
    many = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    shape = models.VectorParams(size=6, distance=models.Distance.COSINE, multivector_config=many)
    client.create_collection("pictures", shape)
    with pytest.raises(ValueError, match="a multivector"):
        QdrantStore(client, "pictures")
    client = client_of()
    store = QdrantStore(client, "pictures")
    client.delete_collection("pictures")
    with pytest.raises(ValueError, match="refused: Collection pictures not found"):
        store.search(QUERIES, 3)
    client.close()
    with pytest.raises(ValueError, match="refused: QdrantLocal instance is closed"):
        len(store)


def test_folders(tmp_path: Path) -> None:
    folder = str(tmp_path / "held")
    client = client_of(client=QdrantClient(path=folder))
    with pytest.raises(ValueError, match="is already accessed by another instance"):
        QdrantStore(folder, "pictures")
    client.close()
    with pytest.raises(ValueError, match="refused: Collection nothing not found"):
        QdrantStore(folder, "nothing")
    for _ in range(2):  # closed each time, otherwise the folder would be locked
        with QdrantStore(Path(folder), "pictures") as store, ThreadPoolExecutor(4) as threads:  # type: ignore[arg-type]
            answers = list(threads.map(lambda _: store.search(QUERIES, 5).ids.tolist(), range(12)))
            assert answers == [kr.stores.ArrayStore(ROWS).search(QUERIES, 5).indices.tolist()] * 12
            assert store.exact
    for url, message in [
        (f"qdrant:{tmp_path}/new#pictures", "is neither a folder of Qdrant's local mode"),
        (
            f"qdrant:{folder}",
            r"needs the name of a table or collection, as in \?table=items; a complete URL: qdrant://",
        ),
        ("qdrant://localhost", "needs the name of a table or collection"),
        (
            f"qdrant:{folder}?key=sku#pictures",
            "key='sku' is not possible: with qdrant: it is always 'id'; leave it out",
        ),
        (f"qdrant:{folder}?exact=1#pictures", "exact='1' is not allowed; give true or false"),
    ]:
        with pytest.raises(ValueError, match=message):
            kr.open_store(url)
    assert not (tmp_path / "new").exists()


class Server:
    """Substitute for a Qdrant server that answers from a client in local mode, or fails on request."""

    def __init__(self) -> None:
        self.client, self.go_on = client_of(), threading.Event()
        self.failures: list[str] = []
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
                outer.asked.append((self.path, self.headers.get("api-key")))
                failure = outer.failures.pop(0) if outer.failures else ""
                if failure == "drop":
                    self.close_connection = True
                    return
                if failure == "slow":
                    outer.go_on.wait(600)
                status = int(failure) if failure.isdecimal() else 200
                text = json.dumps({"result": outer.result(self.path.split("?")[0], body), "status": "ok", "time": 0.0})
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text[: 100 if failure == "cut" else None].encode())

            do_GET = do_POST = answer

            def log_message(self, *_: Any) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def result(self, path: str, body: dict[str, Any]) -> Any:
        if path.endswith("/query/batch"):
            asked = [models.QueryRequest(**one | {"params": None}) for one in body["searches"]]
            self.params = body["searches"][0]["params"]
            answers: Any = self.client.query_batch_points("pictures", asked)
        elif path.endswith("/scroll"):
            asked = {name: body.get(name) for name in ("limit", "offset", "with_vector")}
            points, later = self.client.scroll(
                "pictures", None, asked["limit"], None, asked["offset"], False, asked["with_vector"] or False
            )
            return {"points": [json.loads(one.model_dump_json()) for one in points], "next_page_offset": later}
        elif path.endswith("/count"):
            answers = self.client.count("pictures")
        elif path.endswith("/points"):
            answers = self.client.retrieve("pictures", body["ids"], False, body["with_vector"])
        else:
            answers = self.client.get_collection("pictures")
        several = isinstance(answers, list)
        found = [json.loads(one.model_dump_json()) for one in (answers if several else [answers])]
        return found if several else found[0]

    def close(self) -> None:
        self.go_on.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_batch_is_one_request(server: Server) -> None:
    with QdrantStore(server.url, "pictures") as store:
        assert not store.exact
        server.asked.clear()
        truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 5)
        assert store.search(QUERIES, 5).ids.tolist() == truth.indices.tolist()
        assert [path.split("?")[0] for path, _ in server.asked] == ["/collections/pictures/points/query/batch"]
        assert server.params == {"hnsw_ef": 128}
        store.nearest_ids(QUERIES, 300)
        assert server.params == {"hnsw_ef": 600}
        np.testing.assert_allclose(store.vectors([5, 3]), store.everything()[1][[5, 3]])
        assert len(store) == 40
    with QdrantStore(server.url, "pictures", exact=True) as store:
        store.search(QUERIES, 5)
        assert store.exact
        assert server.params == {"exact": True}


def test_large_answer_is_requested_in_parts(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinrank.stores.qdrant.MAX_ANSWER_NUMBERS", 13 * 6)
    with QdrantStore(server.url, "pictures") as store:
        server.asked.clear()
        truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 5)
        assert store.search(QUERIES, 5).ids.tolist() == truth.indices.tolist()
        assert len(server.asked) == 3
        assert [len(ids) for ids, _ in store.blocks()] == [13, 13, 13, 1]


@pytest.mark.parametrize("failure", ["drop", "cut", "503"])
def test_lost_connection_is_tried_again(server: Server, failure: str) -> None:
    with QdrantStore(server.url, "pictures") as store:
        server.failures = [failure]
        assert store.search(QUERIES, 5).depth == 5
        server.failures = [failure] * 2
        with pytest.raises(ConnectionError, match=r"QdrantStore\(pictures\) cannot be reached, tried twice"):
            store.search(QUERIES, 5)
        assert store.search(QUERIES, 5).depth == 5
        far = kr.stores.ArrayStore(ROWS).search(QUERIES[:1], 40).indices[0, -1]
        server.failures = ["", failure, failure]  # between the search and the fetch
        with pytest.raises(ConnectionError, match="cannot be reached"):
            kr.rerank(QUERIES[:1], store, candidates=10, positives=[int(far)])


def test_a_slow_answer_and_a_refusal(server: Server) -> None:
    with QdrantStore(server.url, "pictures", timeout=0.5) as store:
        server.failures = ["slow"]  # it would answer after ten minutes
        with pytest.raises(TimeoutError, match="did not answer within 1 s; give a larger timeout="):
            store.search(QUERIES, 5)
        server.failures = ["408"]
        with pytest.raises(TimeoutError):
            len(store)
        server.failures = ["400"]
        with pytest.raises(ValueError, match="refused: Unexpected Response: 400"):
            store.search(QUERIES, 5)


def test_no_server() -> None:
    with pytest.raises(
        ConnectionError, match=r"cannot be reached, tried twice: .*; a complete URL: qdrant://localhost:6333\?"
    ):
        kr.open_store("qdrant://127.0.0.1:9/pictures")


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_the_key_is_sent_and_never_printed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    port = server.url.rsplit(":", 1)[1]
    with kr.open_store(f"qdrant://127.0.0.1:{port}/pictures?api_key={SECRET}") as store:  # type: ignore[attr-defined]
        assert server.asked[-1][1] == SECRET
        server.failures = ["drop"] * 2
        with pytest.raises(ConnectionError) as raised:
            len(store)
        assert SECRET not in f"{raised.value!r} {store!r}"
    monkeypatch.setenv("QDRANT_API_KEY", f"{SECRET}\n")
    with QdrantStore(server.url, "pictures"):
        assert server.asked[-1][1] == SECRET
    monkeypatch.setenv("QDRANT_API_KEY", f"{SECRET}\n{SECRET}")
    with pytest.raises(ValueError, match="contains a character that is not allowed in an HTTP header") as refused:
        QdrantStore(server.url, "pictures")
    assert SECRET not in str(refused.value)


def test_a_client_that_was_given_stays_open(server: Server) -> None:
    client = QdrantClient(url=server.url, check_compatibility=False)
    QdrantStore(client, "pictures").close()
    assert client.count("pictures").count == 40
    client.close()
    with pytest.raises(ValueError, match="refused: Cannot send a request, as the client has been closed"):
        QdrantStore(client, "pictures")


def test_errors_of_grpc() -> None:
    class Failed(grpc.RpcError):  # type: ignore[misc]
        def __init__(self, code: grpc.StatusCode) -> None:
            self._code = code

        def code(self) -> grpc.StatusCode:
            return self._code

    store = QdrantStore(client_of(), "pictures")
    kinds = [
        store._classify(Failed(code))
        for code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.NOT_FOUND)
    ]
    assert kinds == [ConnectionError, TimeoutError, InputError]
    assert store._classify(ValueError("ours")) is None


def test_packing_of_vectors() -> None:
    from kinrank.stores.client_utils import pack_rows

    rows = RNG.normal(size=(500, 512)).astype(np.float32)
    lists: list[Any] = rows.tolist()
    times = []
    for _ in range(5):
        started = time.process_time()
        made = pack_rows(lists, 512)
        times.append(time.process_time() - started)
    np.testing.assert_array_equal(made, rows)
    assert min(times) < 0.1
    odd = pack_rows([[1, 2.5], None, [1.0], ["a", 2.0], [1e300, 0.0]], 2)  # type: ignore[list-item]
    np.testing.assert_array_equal(odd, np.array([[1, 2.5], *[[np.nan] * 2] * 3, [np.inf, 0]], np.float32))
