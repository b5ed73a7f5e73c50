"""Expensive requests: refused by their cost, stopped in time, and never in the way of other searches."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")
from fastapi.testclient import TestClient

import kinrank
from kinrank.manifold import Manifold
from kinrank.methods import METHODS
from kinrank.web import service as service_module
from kinrank.web.http import api_routes, page_routes
from kinrank.web.http.http_app import make_app
from kinrank.web.page_data.method_schema import check_cost
from kinrank.web.service import Service
from kinrank.web.settings import Limits, Settings
from reference.waiting import PATIENCE, soon
from web.small_service import HERE, client, listening, settings_in, vectors

ITEMS, DIMENSIONS = 2200, 16
ATTACK = {"k2": 200, "k3": 200, "k5": 200}  # parameters of CAS, each of which is allowed


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Gallery with more items than one request may re-rank."""
    folder = tmp_path_factory.mktemp("large")
    rows = np.random.default_rng(0).normal(size=(ITEMS, DIMENSIONS)).astype(np.float32)
    Manifold.build(rows, kinrank.methods.AQE()).save(folder / "gallery.manifold")
    return settings_in(folder, writable=False)


@pytest.fixture(scope="module")
def api(large: Settings) -> Iterator[TestClient]:
    with client(large) as found:
        yield found


def attack(**more: Any) -> dict[str, Any]:
    return {"ids": list(range(10)), "method": "cas", "parameters": ATTACK, "candidates": 2000, **more}


def test_the_cost_of_a_request_includes_method_parameters_candidates_and_queries(api: TestClient) -> None:
    refused = api.post("/v1/search", json=attack())
    assert refused.status_code == 422
    sentence = refused.json()["detail"]
    assert sentence.startswith("cas over 2000 candidates for 10 queries would take about "), sentence
    assert sentence.endswith(
        "and this service computes at most 10 seconds per request; give fewer queries, or fewer candidates, or a "
        "smaller k2 or k3 or k5"
    )
    less: list[dict[str, Any]] = [
        {"ids": [0], "candidates": 1000},
        {"candidates": 100},
        {"method": "aqe", "parameters": {"k": 3}},
    ]
    for one in less:
        found = api.post("/v1/search", json=attack(**one))
        assert found.status_code == 200, (one, found.text)


def test_every_route_that_reranks_has_the_limit(api: TestClient) -> None:
    costly = {"method": "lpmt", "parameters": {"tolerance": 1e-9, "transport": "exact"}}
    query = {"query": {"item": 0}, "candidates": 2000, **costly}
    rows = np.random.default_rng(1).normal(size=(2000, 4)).tolist()
    for path, content in (
        ("/v1/search", {"ids": [0], "candidates": 2000, **costly}),
        ("/v1/rerank", {"query": rows[0], "vectors": rows, **costly}),
        ("/view/rank", query),
        ("/view/chain", {**query, "item": 1}),
    ):
        found = api.post(path, json=content)
        assert found.status_code == 422, (path, found.text)
        assert "lpmt over 2000 candidates for one query would take about" in found.json()["detail"], path
        assert found.json()["detail"].endswith("give fewer candidates, or the default tolerance or transport"), path


DECLARED = [name for name in METHODS if name != "lpmt-as-published"]  # whose states are not cut: thirty times as slow


@pytest.mark.parametrize("name", DECLARED)
def test_one_query_with_declared_parameters_is_allowed_for_every_method(name: str) -> None:
    limits = Limits()
    check_cost(METHODS[name](), 1, limits.candidates, 1024, limits.rerank_seconds)


def test_a_filter_doubles_the_candidates(large: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()
    monkeypatch.setattr(api_routes, "check_cost", lambda method, queries, items, *rest: seen.append(items))
    with client(large) as found:
        content = {"ids": [0], "method": "aqe", "parameters": {"k": 3}, "candidates": 200}
        for where in (None, list(range(500))):
            assert found.post("/v1/search", json={**content, "where": where}).status_code == 200
    assert seen == [200, 400]


def test_expensive_requests_do_not_hold_up_searches_and_their_threads_stop(
    large: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attack with two read tokens, even if its cost were not recognised."""
    for module in (api_routes, page_routes):
        monkeypatch.setattr(module, "check_cost", lambda *given: None)
    opened = list[Service]()
    monkeypatch.setattr("web.small_service.make_app", lambda one: opened.append(one) or make_app(one))
    limits = Limits(seconds=4.0)
    settings = replace(large, limits=limits)
    with listening(settings) as address, concurrent.futures.ThreadPoolExecutor() as clients:
        reranks = opened[0].queues.reranks

        def send(path: str, content: Any) -> httpx.Response:
            return httpx.post(f"{address}{path}", json=content, timeout=PATIENCE)

        attacks = [clients.submit(send, "/v1/search", attack()) for _ in range(2)]
        assert soon(lambda: reranks.inside == 2)
        answers, busy = list[int](), list[bool]()
        while not all(one.done() for one in attacks):
            answers.append(send("/v1/search", {"ids": [5], "k": 3}).status_code)
            busy.append(reranks.busy)
        assert answers.count(200) == len(answers) > 0
        assert any(busy)
        for one in attacks:
            assert one.result().status_code == 504
            assert one.result().json()["detail"] == "the request was not answered within 4 seconds; ask for less"
        assert httpx.get(f"{address}/ready", timeout=PATIENCE).status_code == 200
        assert soon(lambda: not reranks.busy), "nobody waits for these threads any more"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Event that searches for 7 results wait for."""
    going, search = threading.Event(), Manifold.search

    def wait(self: Manifold, queries: Any, k: int = 10, *given: Any, **named: Any) -> Any:
        if k == 7:
            going.wait(PATIENCE)
        return search(self, queries, k, *given, **named)

    monkeypatch.setattr(Manifold, "search", wait)
    yield going
    going.set()


def test_not_ready_while_no_search_thread_becomes_free(
    tmp_path: Path, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "OCCUPIED_SECONDS", 0.3)
    with (
        listening(settings_in(tmp_path, limits=Limits(threads=2))) as address,
        concurrent.futures.ThreadPoolExecutor() as clients,
    ):

        def send() -> int:
            content = {"vectors": vectors(1).tolist(), "k": 7}
            return httpx.post(f"{address}/v1/search", json=content, timeout=PATIENCE).status_code

        def ready() -> httpx.Response:
            return httpx.get(f"{address}/ready", timeout=PATIENCE)

        first = clients.submit(send)
        time.sleep(0.6)
        assert ready().status_code == 200, "the other thread is free"
        second = clients.submit(send)
        assert soon(lambda: ready().status_code == 503)
        assert "no search thread has become free for" in ready().json()["detail"]
        held.set()
        assert (first.result(), second.result()) == (200, 200)
        assert soon(lambda: ready().status_code == 200)


def test_a_search_with_a_budget_uses_another_queue(tmp_path: Path) -> None:
    service = Service.open(settings_in(tmp_path))
    try:
        with TestClient(make_app(service), base_url=HERE) as api:
            used = list[str]()
            for name in ("searches", "reranks"):
                gate = getattr(service.queues, name)
                original = gate.run

                async def run(work: Any, *given: Any, name: str = name, run: Any = original) -> Any:
                    used.append(name)
                    return await run(work, *given)

                gate.run = run
            question: dict[str, Any] = {"vectors": vectors(1).tolist()}
            for more in ({}, {"method": "lpmt"}, {"budget": 50}, {"candidates": 20}, {"parameters": {"k2": 3}}):
                assert api.post("/v1/search", json={**question, **more}).status_code == 200
            assert used == ["searches", "searches", "reranks", "reranks", "reranks"]
    finally:
        service.close()
