"""The client against a real service over a real socket: it returns what the Manifold returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.client import Client, Receipt, ScoredVector
from kinrank.errors import InputError

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install '.[web]'")

from web import tiny
from web.small_service import DIMENSIONS, SMALL, listening, names, settings_in, vectors

pytestmark = pytest.mark.slow

QUERIES = vectors(5, seed=9) + np.float32(0.02)
NEW = vectors(3, seed=11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def manifold(folder: Path) -> kr.Manifold:
    return kr.Manifold.load(settings_in(folder).manifold)


@pytest.fixture(scope="module")
def address(folder: Path, manifold: kr.Manifold) -> Iterator[str]:
    """Start a service that tests only read from."""
    queries = folder / "queries.npy"
    np.save(queries, QUERIES)
    settings = settings_in(folder)
    with listening(replace(settings, files=replace(settings.files, queries=str(queries)))) as url:
        yield url


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Client]:
    with Client(address, timeout=180) as made:
        yield made


def same(found: kr.Ranking, expected: kr.Ranking) -> None:
    assert found.ids.tolist() == expected.ids.tolist()
    np.testing.assert_array_equal(found.distances, expected.distances)


def test_texts_and_pictures_ask(folder: Path, manifold: kr.Manifold) -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (20, 10), "red")
    image.save(folder / "red.png")
    with tiny.known() as recipe, listening(settings_in(folder, encoder=recipe)) as url, Client(url) as client:
        same(client.search(texts=["a dog", "a cat"]), manifold.search(tiny.Tiny().texts(["a dog", "a cat"])))
        for picture in (folder / "red.png", (folder / "red.png").read_bytes()):
            same(client.search(images=[picture], k=3), manifold.search(tiny.eight(image)[None], k=3))
        with pytest.raises(ValueError, match="give exactly one of vectors, ids, queries, texts, images"):
            client.search(QUERIES, texts=["a dog"])


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"k": 3},
        {"k": 3, "depth": 7},
        {"k": 60},
        {"budget": 20},
        {"max_distance": 0.9},
        {"max_distance": float("inf")},
        {"where": names()[:4]},
        {"where": np.array(names()[5:30], object)},
        {"positives": [["item_003"], [], [], [], ["item_050"]], "negatives": [[], ["item_004"], [], [], []]},
        {"groups": ["a", "b", "a", "c", "c"]},
        {"groups": np.array([1, 2, 1, 3, 3])},
    ],
    ids=str,
)
def test_search_equals_that_of_the_manifold(client: Client, manifold: kr.Manifold, asked: dict[str, Any]) -> None:
    expected = manifold.search(QUERIES, **asked)
    found = client.search(QUERIES, **asked)
    same(found, expected)
    if expected.query_ids is None:
        assert found.query_ids is None
    else:
        assert found.query_ids is not None
        assert found.query_ids.tolist() == expected.query_ids.tolist()
    assert found.meta["mode"] == "online"
    assert found.meta["method"] == expected.meta["method"]
    assert found.meta["certain"] == expected.meta["certain"]


def test_a_gallery_smaller_than_k_is_padded(client: Client, manifold: kr.Manifold) -> None:
    found, expected = client.search(QUERIES, k=80), manifold.search(QUERIES, k=80)
    assert found.depth == 80
    same(found.head(60), expected)
    assert (found.indices[:, 60:] == -1).all()


def test_rankings_of_both_are_evaluated_alike(client: Client, manifold: kr.Manifold) -> None:
    truth = kr.Truth.from_labels([0, 1, 0, 1, 0], np.arange(60) % 2, item_ids=names())
    scores = [kr.evaluate(one.search(QUERIES, k=20), truth, ["P@10"]).to_dict() for one in (client, manifold)]
    assert scores[0] == scores[1]


def test_items_ask(client: Client, manifold: kr.Manifold) -> None:
    found = client.search(ids=["item_003", "item_040"], k=5)
    assert found.ids.shape == (2, 5)
    assert "item_003" not in found.ids[0].tolist()
    rows = manifold.search(vectors()[[3, 40]], k=6)
    assert found.ids[0].tolist() == [name for name in rows.ids[0] if name != "item_003"][:5]


def test_known_queries_ask(client: Client) -> None:
    same(client.search(numbers=[3, 0], k=4), client.search(QUERIES[[3, 0]], k=4))


def test_another_method_works_on_candidates(client: Client) -> None:
    by_name = client.search(QUERIES, k=5, method="aqe", parameters={"k": 4}, candidates=30)
    itself = client.search(QUERIES, k=5, method=kr.methods.AQE(k=4), candidates=30)
    same(by_name, itself)
    assert by_name.meta["mode"] == "candidates"


@pytest.mark.parametrize("item", ["item_000", "item_017", "item_055"])
def test_it_explains_as_the_manifold_does(client: Client, manifold: kr.Manifold, item: str) -> None:
    expected = manifold.explain(QUERIES[0], item, flows=3)
    for query in (QUERIES[0], QUERIES[:1]):
        found = client.explain(query, item, flows=3)
        assert found == expected
        assert found.to_dict() == expected.to_dict()
    assert client.explain(None, item, flows=3, number=0) == expected
    assert client.explain(None, item, id="item_001").names[-1] == item


def test_it_reranks(client: Client) -> None:
    found = client.rerank(QUERIES[0], vectors(30), method="aqe", parameters={"k": 3}, top_n=5)
    assert all(isinstance(one, ScoredVector) for one in found)
    expected = kr.rerank(QUERIES[:1], vectors(30), kr.methods.AQE(k=3), k=5)
    assert [one.place for one in found] == expected.indices[0].tolist()
    assert sorted((one.score for one in found), reverse=True) == [one.score for one in found]
    assert len(client.rerank(QUERIES[:1], vectors(30), method=kr.LPMT(k1=10))) == 30


def test_facts(client: Client, manifold: kr.Manifold) -> None:
    assert len(client) == 60
    assert client.ready()
    assert client.info()["dimensions"] == DIMENSIONS
    output = client.get("item_007", vector=True)
    assert output["id"] == "item_007"
    assert len(output["neighbors"]) > 3
    assert "vector" not in client.get("item_007")
    near = np.array(output["vector"], np.float32)
    assert near.shape == (DIMENSIONS,)


def refused(call: Any) -> str:
    with pytest.raises(ValueError) as caught:
        call()
    assert type(caught.value) is InputError
    return str(caught.value)


def test_refusals_are_sentences(client: Client) -> None:
    assert "item_999" in refused(lambda: client.get("item_999"))
    assert "item_999" in refused(lambda: client.search(ids=["item_999"]))
    assert "item_999" in refused(lambda: client.explain(QUERIES[0], "item_999"))
    assert "item_999" in refused(lambda: client.search(QUERIES, where=["item_999"]))
    assert str(DIMENSIONS) in refused(lambda: client.search(np.ones((1, 3))))
    assert "zero" in refused(lambda: client.search(np.zeros((1, DIMENSIONS))))
    assert "k=0" in refused(lambda: client.search(QUERIES, k=0))
    assert "1000" in refused(lambda: client.search(QUERIES, k=100_000))
    assert "give exactly one of vectors, ids" in refused(client.search)
    assert "vectors and ids were given" in refused(lambda: client.search(QUERIES, ids=["item_001"]))
    assert "nothing" in refused(lambda: client.search(QUERIES, method="nothing"))
    assert "one vector at a time" in refused(lambda: client.explain(QUERIES, "item_001"))
    assert "NaN" in refused(lambda: client.search(np.full((1, DIMENSIONS), np.nan)))
    assert "store" in refused(client.sync)


@pytest.fixture
def changed(tmp_path: Path) -> Iterator[Client]:
    """Return a client of its own service."""
    with listening(settings_in(tmp_path)) as url, Client(url, timeout=180) as made:
        yield made


def test_changes_are_seen_at_once(changed: Client) -> None:
    receipt = changed.add(NEW, ["x", "y", "z"])
    assert receipt == Receipt(version=receipt.version, added=3, replaced=0, removed=0, items=63, ids=["x", "y", "z"])
    assert changed.version == receipt.version
    assert changed.search(NEW, k=1).ids.ravel().tolist() == ["x", "y", "z"]
    assert changed.explain(NEW[0], "x").names[-1] == "x"
    assert len(changed) == 63
    put = changed.upsert(NEW[::-1].copy(), ["x", "y", "w"])
    assert (put.added, put.replaced, put.items) == (1, 2, 64)
    assert changed.search(NEW, k=2).ids[2].tolist()[0] in ("x", "z")
    gone = changed.remove(["x", "y", "z", "w"])
    assert (gone.removed, gone.items) == (4, 60)
    assert changed.version == gone.version > put.version > receipt.version
    assert "x" not in changed.search(NEW, k=60).ids
    assert "x" in refused(lambda: changed.get("x"))


def test_changes_that_are_refused_change_nothing(changed: Client) -> None:
    assert "item_001" in refused(lambda: changed.add(NEW[:2], ["new", "item_001"]))
    assert "item_999" in refused(lambda: changed.remove(["item_001", "item_999"]))
    assert "ids" in refused(lambda: changed.add(NEW))
    assert "twice" in refused(lambda: changed.add(NEW[:2], ["a", "a"]))
    assert str(DIMENSIONS) in refused(lambda: changed.add(np.ones((1, 3)), ["a"]))
    assert len(changed) == 60
    assert changed.version == 0


def test_threads_see_their_own_changes(changed: Client) -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        row = np.eye(DIMENSIONS, dtype=np.float32)[2 + number][None] + 0.01
        for turn in range(3):
            name = f"new_{number}_{turn}"
            changed.add(row, [name])
            if changed.get(name)["id"] != name or name not in changed.search(row, k=5).ids:
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(changed) == 72


def test_items_without_names_go_by_numbers(tmp_path: Path) -> None:
    with listening(settings_in(tmp_path, ids=[])) as url, Client(url) as client:
        expected = kr.Manifold.load(tmp_path / "gallery.manifold").search(QUERIES, k=5)
        found = client.search(QUERIES, k=5)
        same(found, expected)
        np.testing.assert_array_equal(found.indices, expected.indices)
        assert client.add(NEW[:2]).ids == [60, 61]
        assert client.get(61)["id"] == 61
        client.remove(60)
        assert len(client) == 61


def test_tokens(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, read_tokens=("reading-secret",), write_tokens=("writing-secret",))
    with listening(settings) as url:
        with Client(url) as nobody:
            assert nobody.ready()
            with pytest.raises(PermissionError, match="token"):
                nobody.info()
        with Client(url, token="wrong-secret") as stranger, pytest.raises(PermissionError):
            stranger.search(QUERIES)
        with Client(url, token="reading-secret") as reader:
            assert len(reader.search(QUERIES)) == 5
            with pytest.raises(PermissionError, match="allows only reading"):
                reader.remove(["item_001"])
        with Client(url, token="writing-secret") as writer:
            assert writer.remove(["item_001"]).removed == 1


def test_too_much_is_refused_in_words(tmp_path: Path) -> None:
    """The body may be slightly too large, or so large that it is not sent completely before the response."""
    with listening(settings_in(tmp_path, limits=SMALL)) as url, Client(url) as client:
        assert "at most 4" in refused(lambda: client.search(QUERIES))
        assert "20000 bytes" in refused(lambda: client.add(vectors(400), names(400)))
        large = np.random.default_rng(0).normal(size=(30_000, 64))
        assert "20000 bytes" in refused(lambda: client.add(large, names(30_000)))
        assert len(client) == 60


def test_a_service_that_ended(tmp_path: Path) -> None:
    with listening(settings_in(tmp_path)) as url:
        client = Client(url)
        assert client.ready()
    assert not client.ready()
    with pytest.raises(ConnectionError, match="no service answers"):
        client.search(QUERIES)
    with listening(settings_in(tmp_path)) as other:
        again = Client(other)
        assert len(again) == 60
        again.close()
    client.close()
