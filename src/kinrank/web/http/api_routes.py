"""Routes under `/v1`: search, re-ranking, explanations and changes of items."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body, HTTPException, Response
from fastapi import Path as InPath
from fastapi import Query as InQuery

from kinrank.client import Receipt
from kinrank.errors import InputError
from kinrank.integrations.document_order import order_documents
from kinrank.manifold import Manifold
from kinrank.methods import LPMT, Method
from kinrank.methods.base import for_candidates
from kinrank.ranking import Ranking
from kinrank.web.http.json_responses import ERROR_RESPONSES, JsonRoute, make_json_response
from kinrank.web.http.request_models import (
    ChangeResponse,
    Explain,
    Observe,
    Put,
    Remove,
    Rerank,
    RerankResponse,
    Search,
    SearchResponse,
)
from kinrank.web.page_data.gallery_search import run_search
from kinrank.web.page_data.method_schema import check_cost
from kinrank.web.page_data.question import (
    DEFAULT_CANDIDATES,
    Question,
    get_query_vector,
    pick_exactly_one,
    public_parameters,
    public_repr,
    resolve_method,
)
from kinrank.web.request_queues import RequestQueue
from kinrank.web.service import Service
from kinrank.web.settings import Limits
from kinrank.web.writes.write_errors import OBSERVE_OVER_STORE

NEIGHBORS_SHOWN = 12  # of an item
MAX_RERANKED_VECTORS = 20_000  # per request, for all its queries


def make_api_router(service: Service) -> APIRouter:
    """Create the routes of the versioned API."""
    router = APIRouter(prefix="/v1", tags=["api"], route_class=JsonRoute, responses=ERROR_RESPONSES)
    limits, queues = service.settings.limits, service.queues

    async def acknowledge(change: Callable[..., Receipt], *arguments: Any) -> Response:
        return make_json_response((await queues.changes.run(change, *arguments))._asdict())

    @router.post("/search", response_model=SearchResponse, summary="Find the nearest items of each query, re-ranked")
    async def search(request: Search) -> Response:
        limits.check(request.k, request.depth, request.candidates)
        await service.wait_for_version(request.min_version)
        return await _choose_queue(service, request).run(lambda: make_json_response(_search(service, request)))

    @router.post("/rerank", response_model=RerankResponse, summary="Re-rank vectors that another search found")
    async def rerank(request: Rerank) -> Response:
        _check_count(len(request.vectors), limits.candidates, "vectors")
        method = resolve_method(LPMT(), request.method, dict(request.parameters))
        check_cost(method, 1, len(request.vectors), len(request.query), limits.rerank_seconds)
        return await queues.reranks.run(lambda: make_json_response(_rerank(request, for_candidates(method))))

    @router.post("/explain", summary="Return the chain from a query to an item", response_model=dict[str, Any])
    async def explain(request: Explain) -> Response:
        await service.wait_for_version(request.min_version)
        return await queues.searches.run(lambda: make_json_response(_explain(service, request)))

    @router.post("/items", response_model=ChangeResponse, summary="Add or replace items")
    async def put(request: Put) -> Response:
        _check_writable(service)
        _check_count(len(request.vectors), limits.items, "vectors")
        put_items = service.gallery.put
        return await acknowledge(lambda: put_items(_to_float32(request.vectors), request.ids, request.replace))

    @router.delete("/items", response_model=ChangeResponse, summary="Remove items")
    async def remove(request: Annotated[Remove, Body()]) -> Response:
        _check_writable(service)
        _check_count(len(request.ids), limits.items, "ids")
        return await acknowledge(service.gallery.remove, request.ids)

    @router.post("/observe", response_model=ChangeResponse, summary="Remember queries to improve later searches")
    async def observe(request: Observe) -> Response:
        if service.settings.store is not None:
            raise InputError(OBSERVE_OVER_STORE)
        _check_writable(service)
        is_encoded = request.texts is not None or request.images is not None
        queue = queues.reranks if is_encoded else queues.searches
        rows = await queue.run(_read_observed_queries, service, request)
        return await acknowledge(service.gallery.observe, rows)

    @router.get("/items/{id:path}", summary="Return an item and its neighbours", response_model=dict[str, Any])
    async def item(
        id: Annotated[str, InPath(max_length=1000)],
        vector: bool = False,
        min_version: Annotated[int | None, InQuery(ge=0, lt=2**53)] = None,
    ) -> Response:
        await service.wait_for_version(min_version)
        return await queues.searches.run(lambda: make_json_response(_describe_item(service, id, vector)))

    @router.post("/sync", response_model=ChangeResponse, summary="Apply the changes of the vector database")
    async def sync() -> Response:
        if service.settings.store is None:
            raise InputError("there is no vector database to sync with; start the service with --store URL")
        return await acknowledge(service.gallery.sync)

    @router.get("/info", summary="Return facts about the service", response_model=dict[str, Any])
    async def info(min_version: Annotated[int | None, InQuery(ge=0, lt=2**53)] = None) -> Response:
        await service.wait_for_version(min_version)
        return await queues.facts.run(lambda: make_json_response(_describe_service(service)))

    return router


def _choose_queue(service: Service, request: Search) -> RequestQueue:
    """Choose the queue of a search, so that the fast prepared gallery never waits for anything slower.

    Slower are methods chosen by the client (an InputError if they would take too long), pictures and texts, which must
    be encoded, and a `budget`, which can take as long as the gallery is large.
    """
    queues, limits, manifold = service.queues, service.settings.limits, service.manifold
    method = manifold.method
    if request.method is not None or request.parameters:
        method = resolve_method(method, request.method, request.parameters)
    if request.candidates is None and method == manifold.method:
        slow = any(value is not None for value in (request.budget, request.texts, request.images))
        return queues.reranks if slow else queues.searches
    size, dimensions = manifold.snapshot.vectors.shape
    items = min(request.candidates or DEFAULT_CANDIDATES, size)
    items = items if request.where is None else min(2 * items, size)  # nearest allowed items and nearest of all
    inputs = (request.vectors, request.ids, request.queries, request.texts, request.images)
    queries = max(len(values) for values in (*inputs, ()) if values is not None)
    check_cost(method, queries, items, dimensions, limits.rerank_seconds)
    return queues.reranks


def _search(service: Service, request: Search) -> dict[str, Any]:
    started, limits = time.perf_counter(), service.settings.limits
    version, manifold = service.gallery.version, service.manifold  # in this order: the gallery may be newer, not older
    rows = _read_queries(service, manifold, request, limits)
    if isinstance(request.where, dict) and service.settings.store is None:
        raise InputError(
            "filters by columns of a vector database, but there is none", parameter="where", allowed="a list of ids"
        )
    if request.method is not None or request.parameters or request.candidates is not None:
        count = len(rows) * (request.candidates or DEFAULT_CANDIDATES)
        _check_count(count, MAX_RERANKED_VECTORS, "candidates of all queries together")
    own = request.ids  # _read_queries has checked that there are no other queries
    extra = 0 if own is None else 1
    depth = None if request.depth is None else request.depth + extra
    question = Question.of(request, k=request.k + extra, depth=depth)
    ranking = run_search(manifold, rows, question)
    ids, distances = list_ids_and_distances(ranking, max(request.k, request.depth or 0), own)
    certain = ranking.meta.get("certain")
    return {
        "ids": ids,
        "distances": distances,
        "query_ids": None if ranking.query_ids is None else ranking.query_ids.tolist(),
        "mode": ranking.meta["mode"],
        "method": public_repr(manifold.method) if ranking.meta["mode"] == "online" else ranking.meta["method"],
        "certain": None if certain is None else float(certain),
        "seconds": round(time.perf_counter() - started, 6),
        "version": version,
    }


def _read_queries(service: Service, manifold: Manifold, request: Search, limits: Limits) -> Any:
    """Return the query vectors from the one of five inputs that was given."""
    inputs = {name: getattr(request, name) for name in ("vectors", "ids", "queries", "texts", "images")}
    name, values = pick_exactly_one(inputs)
    _check_count(len(values), limits.queries, name)
    if request.ids is not None and request.groups is not None:
        raise InputError("cannot be combined with `ids`", parameter="groups", remedy="leave it out, or give `vectors`")
    if name == "vectors":
        return _to_array(values)
    if name in ("texts", "images"):
        return service.encode(name, values)
    kind = "item" if name == "ids" else "query"
    vectors = [get_query_vector(manifold, service.collection, (kind, value)) for value in values]
    width = manifold.snapshot.vectors.shape[1]
    return np.stack(vectors) if vectors else np.zeros((0, width), np.float32)


def _to_array(vectors: list[list[float]]) -> Any:
    """Return (q, d) numbers, with a message of its own for rows of different length."""
    lengths = {len(row) for row in vectors}
    if len(lengths) > 1:
        raise InputError(
            f"have {min(lengths)} to {max(lengths)} numbers; all must have the same length", parameter="vectors"
        )
    return np.array(vectors, np.float64).reshape(len(vectors), lengths.pop() if lengths else 0)


def list_ids_and_distances(
    ranking: Ranking, limit: int, own: list[Any] | None = None
) -> tuple[list[list[Any]], list[list[float]]]:
    """Return ids and distances per query, without padding and without the query item itself."""
    ids, distances = [], []
    rows = zip(ranking.indices.tolist(), ranking.ids.tolist(), ranking.distances.tolist(), strict=True)
    for number, (places, names, row) in enumerate(rows):
        itself = None if own is None else own[number]
        results = [
            (name, distance)
            for place, name, distance in zip(places, names, row, strict=True)
            if place >= 0 and (itself is None or name != itself)
        ][:limit]
        ids.append([name for name, _ in results])
        distances.append([distance for _, distance in results])
    return ids, distances


def _rerank(request: Rerank, method: Method) -> dict[str, Any]:
    started = time.perf_counter()
    order = order_documents(request.query, request.vectors, method, request.top_n, request.metric or "cosine")
    results = [
        {"index": place, "relevance_score": score} for place, score in zip(order.places, order.scores, strict=True)
    ]
    seconds = round(time.perf_counter() - started, 6)
    return {"results": results, "mode": "candidates", "method": repr(method), "seconds": seconds}


def _explain(service: Service, request: Explain) -> dict[str, Any]:
    inputs = {"vector": request.vector, "id": request.id, "query": request.query}
    name, value = pick_exactly_one(inputs)
    version, manifold = service.gallery.version, service.manifold
    vector = get_query_vector(manifold, service.collection, ("item" if name == "id" else name, value))
    return {**manifold.explain(vector, request.item, flows=request.flows).to_dict(), "version": version}


def _read_observed_queries(service: Service, request: Observe) -> Any:
    """Return the vectors of the queries to remember, from the one of three inputs that was given."""
    name, values = pick_exactly_one({"vectors": request.vectors, "texts": request.texts, "images": request.images})
    if name == "vectors":
        _check_count(len(values), service.settings.limits.items, name)
        return _to_float32(values)
    _check_count(len(values), service.settings.limits.queries, name)
    return np.asarray(service.encode(name, values), np.float32)


def _to_float32(vectors: list[list[float]]) -> Any:
    """Return (n, d) float32; numbers that are too large become infinite, which a later check refuses."""
    with np.errstate(over="ignore"):
        return _to_array(vectors).astype(np.float32)


def _describe_item(service: Service, text: str, with_vector: bool) -> dict[str, Any]:
    manifold, item = service.manifold, service.parse_id(text)
    try:
        vector = get_query_vector(manifold, service.collection, ("item", item))
    except InputError as error:
        raise HTTPException(404, str(error)) from None
    ranking = manifold.search(vector[None], k=NEIGHBORS_SHOWN + 1)
    ids, distances = list_ids_and_distances(ranking, NEIGHBORS_SHOWN, [item])
    neighbors = [
        {**service.collection.card(name), "distance": distance}
        for name, distance in zip(ids[0], distances[0], strict=True)
    ]
    extra = {"vector": vector.tolist()} if with_vector else {}
    return {**service.collection.card(item), "neighbors": neighbors, **extra}


def _describe_service(service: Service) -> dict[str, Any]:
    facts, settings = service.manifold.info(), service.settings
    limits = settings.limits
    return {
        **facts,
        "parameters": public_parameters(service.manifold.method),
        "version": service.gallery.version,
        "writable": settings.writable and settings.store is None,
        "queries": 0 if service.collection.queries is None else len(service.collection.queries),
        "has": service.collection.has,
        "encoder": None if service.encoder is None else service.encoder.kinds,
        "follows": settings.follows,
        "limits": {
            "k": limits.k,
            "queries": limits.queries,
            "items": limits.items,
            "candidates": limits.candidates,
            "body": limits.body,
        },
    }


def _check_writable(service: Service) -> None:
    if service.settings.store is not None:
        raise InputError("the items are in a vector database; change them there, and then POST /v1/sync")
    if not service.settings.writable:
        raise InputError(
            "this gallery was built for this run only and cannot be changed; save it to a folder with `kinrank build`, "
            "and serve that"
        )


def _check_count(count: int, limit: int, name: str) -> None:
    if count > limit:
        raise InputError(f"{count} {name} are too many for one request; send at most {limit}")
