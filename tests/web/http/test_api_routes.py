"""Versioned API: responses and error messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from fastapi.testclient import TestClient

import kinrank
from web.small_service import SMALL, client, names, settings_in, vectors

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Service whose gallery is not changed by the tests of this module."""
    with client(settings_in(tmp_path_factory.mktemp("served"))) as found:
        yield found


@pytest.fixture(scope="module")
def manifold() -> kinrank.Manifold:
    return kinrank.Manifold.build(vectors(), ids=names())


def rows(count: int = 2) -> Any:
    return vectors(count, seed=1)


def test_search_equals_the_manifold(api: TestClient, manifold: kinrank.Manifold) -> None:
    found = api.post("/v1/search", json={"vectors": rows().tolist(), "k": 5})
    assert found.status_code == 200
    answer, expected = found.json(), manifold.search(rows(), k=5)
    assert answer["ids"] == expected.ids.tolist()
    np.testing.assert_array_equal(np.float32(answer["distances"]), expected.distances)
    assert answer["mode"] == "online"
    assert answer["method"] == "LPMT()"
    assert answer["version"] == 0


def test_a_query_item_is_not_its_own_result(api: TestClient) -> None:
    answer = api.post("/v1/search", json={"ids": ["item_003", "item_010"], "k": 4}).json()
    assert [len(row) for row in answer["ids"]] == [4, 4]
    assert "item_003" not in answer["ids"][0]
    assert "item_010" not in answer["ids"][1]


def test_where_and_marks_and_groups(api: TestClient, manifold: kinrank.Manifold) -> None:
    some = names()[:20]
    answer = api.post("/v1/search", json={"vectors": rows().tolist(), "k": 5, "where": some}).json()
    assert answer["ids"] == manifold.search(rows(), k=5, where=some).ids.tolist()
    marks = {"positives": ["item_001"], "negatives": ["item_030"]}
    answer = api.post("/v1/search", json={"vectors": rows(1).tolist(), "k": 5, **marks}).json()
    assert answer["ids"] == manifold.search(rows(1), k=5, **marks).ids.tolist()
    answer = api.post("/v1/search", json={"vectors": rows().tolist(), "k": 3, "groups": ["a", "a"]}).json()
    assert answer["query_ids"] == ["a"]
    assert answer["ids"] == manifold.search(rows(), k=3, groups=["a", "a"]).ids.tolist()


def test_another_method_reranks_candidates(api: TestClient) -> None:
    body = {"vectors": rows(1).tolist(), "k": 5, "method": "k-reciprocal", "parameters": {"k1": 10}, "candidates": 30}
    answer = api.post("/v1/search", json=body).json()
    assert answer["mode"] == "candidates"
    expected = kinrank.rerank(rows(1), vectors(), kinrank.KReciprocal(k1=10), candidates=30, k=5)
    assert answer["ids"][0] == [names()[number] for number in expected.indices[0]]


def test_rerank_has_the_shape_of_other_services(api: TestClient) -> None:
    body = {"query": rows(1)[0].tolist(), "vectors": vectors(20).tolist(), "top_n": 3}
    answer = api.post("/v1/rerank", json=body).json()
    expected = kinrank.rerank(rows(1), vectors(20), k=3)
    assert [entry["index"] for entry in answer["results"]] == expected.indices[0].tolist()
    scores = [entry["relevance_score"] for entry in answer["results"]]
    assert scores == sorted(scores, reverse=True)


def test_explain(api: TestClient, manifold: kinrank.Manifold) -> None:
    answer = api.post("/v1/explain", json={"vector": rows(1)[0].tolist(), "item": "item_009"}).json()
    version = answer.pop("version")
    assert version == 0
    assert answer == manifold.explain(rows(1), "item_009").to_dict()


def test_one_item_and_its_neighbours(api: TestClient) -> None:
    answer = api.get("/v1/items/item_003?vector=true").json()
    assert answer["id"] == "item_003"
    assert len(answer["vector"]) == 8
    assert len(answer["neighbors"]) == 12
    assert api.get("/v1/items/nobody").status_code == 404


def test_info_health_ready_metrics(api: TestClient) -> None:
    facts = api.get("/v1/info").json()
    assert facts["items"] == 60
    assert facts["writable"] is True
    assert api.get("/health").json() == {"status": "alive"}
    assert api.get("/ready").json() == {"status": "ready"}
    text = api.get("/metrics").text
    assert "kinrank_items 60.0" in text
    assert 'kinrank_requests_total{route="/v1/info",status="200"}' in text


def test_the_description_has_examples_that_work(api: TestClient) -> None:
    described = api.get("/openapi.json").json()
    assert set(described["paths"]["/v1/items"]) >= {"post", "delete"}
    for model in ("Search", "Rerank", "Explain", "Put", "Remove", "Observe"):
        assert described["components"]["schemas"][model]["examples"]
    for model, path in (("Rerank", "rerank"), ("Search", "search"), ("Explain", "explain")):
        example = described["components"]["schemas"][model]["examples"][0]
        assert api.post(f"/v1/{path}", json=example).status_code == 200, example


def test_changes_are_seen_and_stay(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    new = vectors(3, seed=5)
    with client(settings) as api:
        added = api.post("/v1/items", json={"vectors": new.tolist(), "ids": ["a", "b", "c"]}).json()
        assert (added["version"], added["added"], added["items"], added["ids"]) == (1, 3, 63, ["a", "b", "c"])
        again = api.post("/v1/items", json={"vectors": new[:1].tolist(), "ids": ["a"]})
        assert again.status_code == 422
        assert "'a' exists already" in again.json()["detail"]
        put = {"vectors": new[::-1][:1].tolist(), "ids": ["a"], "replace": True}
        assert api.post("/v1/items", json=put).json()["replaced"] == 1
        gone = api.request("DELETE", "/v1/items", json={"ids": ["b", "item_000"]}).json()
        assert (gone["version"], gone["removed"], gone["items"]) == (3, 2, 61)
        body = {"vectors": new[2:].tolist(), "k": 2, "min_version": 3}
        answer = api.post("/v1/search", json=body).json()
        assert set(answer["ids"][0]) == {"a", "c"}
        assert answer["version"] == 3
        unknown = api.request("DELETE", "/v1/items", json={"ids": ["b"]})
        assert unknown.status_code == 422
    found = kinrank.Manifold.load(settings.manifold)
    assert len(found) == 61
    assert {"a", "c"} <= set(found.ids.tolist())


def test_items_without_names_get_numbers(tmp_path: Path) -> None:
    with client(settings_in(tmp_path, ids=[])) as api:
        added = api.post("/v1/items", json={"vectors": vectors(2, seed=3).tolist()}).json()
        assert added["ids"] == [60, 61]
        assert api.get("/v1/items/61?min_version=1").json()["id"] == 61
        assert api.get("/v1/items/6x").status_code == 404
        assert api.request("DELETE", "/v1/items", json={"ids": [60]}).json()["items"] == 61


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("search", {}, "give exactly one of vectors, ids, queries, texts, images"),
        ("search", {"vectors": [[1.0] * 8], "ids": ["item_001"]}, "vectors and ids were given"),
        ("search", {"vectors": [[1.0, 2.0]]}, "8"),
        ("search", {"vectors": [[1.0] * 8, [1.0] * 7]}, "7 to 8 numbers"),
        ("search", {"vectors": [[0.0] * 8]}, "zero"),
        ("search", {"vectors": [[1e39] * 8]}, "beyond float32"),
        ("search", {"vectors": [["1"] * 8]}, "vectors.0.0"),
        ("search", {"vectors": [[True] * 8]}, "vectors.0.0"),
        ("search", {"vectors": [[1.0] * 8] * 5}, "at most 4"),
        ("search", {"vectors": [[1.0] * 8], "k": 0}, "from 1 to 20"),
        ("search", {"vectors": [[1.0] * 8], "k": 21}, "from 1 to 20"),
        ("search", {"vectors": [[1.0] * 8], "k": 10**30}, "from 1 to 20"),
        ("search", {"vectors": [[1.0] * 8], "candidates": 51}, "from 1 to 50"),
        ("search", {"ids": ["nobody"]}, "nobody"),
        ("search", {"queries": [0]}, "quer"),
        ("search", {"vectors": [[1.0] * 8], "where": ["nobody"]}, "nobody"),
        ("search", {"vectors": [[1.0] * 8], "where": [1] * len(names())}, "where looks like a mask of 0 and 1"),
        ("search", {"vectors": [[1.0] * 8], "positives": [1] * len(names())}, "positives looks like a mask of 0 and 1"),
        ("search", {"vectors": [[1.0] * 8], "method": "nothing"}, "nothing"),
        ("search", {"vectors": [[1.0] * 8], "method": "aqe", "parameters": {"k": -3}}, "k=-3"),
        ("search", {"vectors": [[1.0] * 8], "wher": []}, "wher"),
        ("search", {"vectors": [[1.0] * 8], "method": "lpmt", "parameters": {"k1": 241}}, "at most 240"),
        ("rerank", {"query": [1.0], "vectors": [[1.0]], "parameters": {"iterations": 1000}}, "at most 10"),
        ("search", {"vectors": [[1.0] * 8], "where": {"kind": "shoe"}}, "give a list of ids"),
        ("rerank", {"query": [1.0], "vectors": [[1.0, 2.0]]}, "2 numbers"),
        ("rerank", {"query": [1.0], "vectors": [[1.0]] * 51}, "at most 50"),
        ("explain", {"item": "item_001"}, "give exactly one of vector, id, query"),
        ("explain", {"id": "item_001", "item": "nobody"}, "nobody"),
        ("items", {"vectors": [[1.0] * 8] * 6, "ids": list("abcdef")}, "at most 5"),
        ("items", {"vectors": [[1.0] * 8]}, "ids"),
        ("items", {"vectors": [[1.0] * 8], "ids": [7]}, "texts"),
        ("items", {"vectors": [[1.0] * 8] * 2, "ids": ["x", "x"]}, "x"),
        ("items", {"vectors": [[0.0] * 8], "ids": ["x"]}, "zero"),
        ("items", {"vectors": [[1.0] * 8], "ids": ["item_001"]}, "exists already"),
        ("sync", None, "--store"),
    ],
)
def test_invalid_requests_have_an_error_message(path: str, body: Any, words: str, limited: TestClient) -> None:
    found = limited.post(f"/v1/{path}", json=body)
    assert found.status_code == 422, found.text
    assert words in found.json()["detail"]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client(settings_in(tmp_path_factory.mktemp("limited"), limits=SMALL)) as found:
        yield found
        assert found.get("/v1/info").json()["version"] == 0, "nothing of this changed anything"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"vectors": [[NaN]]}', 400),
        (b'{"vectors": [[Infinity]]}', 400),
        (b'{"vectors": [[1e999, 1, 1, 1, 1, 1, 1, 1]]}', 422),
        (b'{"ids": ["\\ud800"]}', 400),
        (b"[" * 9000, 400),
        (b'{"k": ' + b"1" * 5000 + b"}", 400),
        (b"\xff\xfe", 400),
        (b"", 422),
        (b'{"vectors": [[' + b"1," * 20_000 + b"1]]}", 413),
    ],
)
def test_invalid_json_is_refused(content: bytes, status: int, limited: TestClient) -> None:
    found = limited.post("/v1/search", content=content, headers={"Content-Type": "application/json"})
    assert found.status_code == status, found.text
    assert found.json()["detail"]


def test_a_gallery_of_this_run_only_is_not_changed(tmp_path: Path) -> None:
    with client(settings_in(tmp_path, writable=False)) as api:
        found = api.post("/v1/items", json={"vectors": vectors(1).tolist(), "ids": ["x"]})
        assert found.status_code == 422
        assert "kinrank build" in found.json()["detail"]
        assert api.get("/v1/info").json()["writable"] is False


def test_a_gallery_without_re_ranking_is_served(tmp_path: Path) -> None:
    plain = kinrank.methods.NoReranking()
    kinrank.Manifold.build(vectors(), plain, ids=names()).save(tmp_path / "gallery.manifold")
    gallery, queries = vectors(), rows(2)
    with client(settings_in(tmp_path)) as api:
        body = {"vectors": queries.tolist(), "k": 5}
        expected = kinrank.rerank(queries, gallery, plain).indices[:, :5]
        answer = api.post("/v1/search", json=body).json()
        assert answer["ids"] == [[names()[item] for item in row] for row in expected.tolist()]
        assert answer["method"] == "NoReranking()"
        some = api.post("/v1/search", json={**body, "where": ["item_007", "item_030"]}).json()["ids"]
        assert [sorted(row) for row in some] == [["item_007", "item_030"]] * 2
        api.post("/v1/items", json={"vectors": queries[:1].tolist(), "ids": ["new"]}).raise_for_status()
        api.request("DELETE", "/v1/items", json={"ids": [answer["ids"][0][0]]}).raise_for_status()
        changed = api.post("/v1/search", json={**body, "min_version": 2}).json()["ids"][0]
        assert changed == ["new", *answer["ids"][0][1:]]
        refused = api.post("/v1/explain", json={"vector": queries[0].tolist(), "item": "new"})
        assert (refused.status_code, "ranks without chains" in refused.json()["detail"]) == (422, True), refused.text
        assert api.get("/v1/info").json()["method"] == "none"
