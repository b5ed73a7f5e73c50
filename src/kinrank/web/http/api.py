"""`/v1`: search, re-ranking, explanations and changes of items, over HTTP."""

from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body, HTTPException, Response
from fastapi import Path as InPath
from fastapi import Query as InQuery

from kinrank.integrations.order import ordered
from kinrank.manifold import Manifold
from kinrank.methods import LPMT, Method
from kinrank.ranking import Ranking
from kinrank.web.asked.asking import method_asked, only_one, told_parameters, worded
from kinrank.web.asked.cost import check_cost
from kinrank.web.asked.looking import searched, vector_of
from kinrank.web.asked.searching import CANDIDATES
from kinrank.web.http.answering import PROBLEMS, JsonRoute, answered
from kinrank.web.http.gate import Gate
from kinrank.web.http.models import Changed, Explain, Observe, Put, Remove, Rerank, Reranked, Search, Searched
from kinrank.web.lasting.receipts import OVER_STORE, Receipt
from kinrank.web.service import Service
from kinrank.web.settings import Limits
from kinrank.web.shown.encoding import refused

NEIGHBORS = 12  # told of an item
WORK = 20_000  # vectors that one request has re-ranked, of all its queries


def api(service: Service) -> APIRouter:
    """The routes of the versioned API."""
    router = APIRouter(prefix="/v1", tags=["api"], route_class=JsonRoute, responses=PROBLEMS)
    limits, gates = service.settings.limits, service.gates

    @router.post("/search", response_model=Searched, summary="The nearest items of every query, re-ranked")
    async def search(asked: Search) -> Response:
        limits.check(asked.k, asked.depth, asked.candidates)
        await service.reached(asked.min_version)
        return await _gate_of(service, asked).run(lambda: answered(_search(service, asked)))

    @router.post("/rerank", response_model=Reranked, summary="Order the vectors that another search found")
    async def rerank(asked: Rerank) -> Response:
        _few(len(asked.vectors), limits.candidates, "vectors")
        method = method_asked(LPMT(), asked.method, dict(asked.parameters))
        check_cost(method, 1, len(asked.vectors), len(asked.query), limits.rerank_seconds)
        return await gates.reranks.run(lambda: answered(_rerank(asked, method.over_candidates())))

    @router.post("/explain", summary="The chain from a query to an item", response_model=dict[str, Any])
    async def explain(asked: Explain) -> Response:
        await service.reached(asked.min_version)
        return await gates.searches.run(lambda: answered(_explain(service, asked)))

    @router.post("/items", response_model=Changed, summary="Add items, or replace them")
    async def put(asked: Put) -> Response:
        _writable(service)
        _few(len(asked.vectors), limits.items, "vectors")
        return _changed(await gates.changes.run(_put, service, asked))

    @router.delete("/items", response_model=Changed, summary="Remove items")
    async def remove(asked: Annotated[Remove, Body()]) -> Response:
        _writable(service)
        _few(len(asked.ids), limits.items, "ids")
        return _changed(await gates.changes.run(service.gallery.remove, asked.ids))

    @router.post("/observe", response_model=Changed, summary="Remember queries, so that later ones find more")
    async def observe(asked: Observe) -> Response:
        _observing(service)
        encoded = asked.texts is not None or asked.images is not None
        rows = await (gates.reranks if encoded else gates.searches).run(_queries, service, asked)
        return _changed(await gates.changes.run(service.gallery.observe, rows))

    @router.get("/items/{id:path}", summary="One item and its neighbours", response_model=dict[str, Any])
    async def item(
        id: Annotated[str, InPath(max_length=1000)],
        vector: bool = False,
        min_version: Annotated[int | None, InQuery(ge=0, lt=2**53)] = None,
    ) -> Response:
        await service.reached(min_version)
        return await gates.searches.run(lambda: answered(_item(service, id, vector)))

    @router.post("/sync", response_model=Changed, summary="Follow the vector database that the gallery was built from")
    async def sync() -> Response:
        if service.settings.store is None:
            raise ValueError("there is no vector database to follow; start the service with --store URL")
        return _changed(await gates.changes.run(service.gallery.sync))

    @router.get("/info", summary="What is served", response_model=dict[str, Any])
    async def info(min_version: Annotated[int | None, InQuery(ge=0, lt=2**53)] = None) -> Response:
        await service.reached(min_version)
        return await gates.asking.run(lambda: answered(_info(service)))

    return router


def _gate_of(service: Service, asked: Search) -> Gate:
    """The queue of a search: the prepared gallery answers in milliseconds, and never waits for anything slower.

    Methods of the client's choice are slower, and refused with a ValueError if they would take too long. So are
    pictures and texts, which are encoded first, and a `budget`, which may take as long as the gallery is large.
    """
    gates, limits, manifold, method = service.gates, service.settings.limits, service.manifold, service.manifold.method
    if asked.method is not None or asked.parameters:
        method = method_asked(method, asked.method, asked.parameters)
    if asked.candidates is None and method == manifold.method:
        slow = any(one is not None for one in (asked.budget, asked.texts, asked.images))
        return gates.reranks if slow else gates.searches
    size, dimensions = manifold._snapshot.vectors.shape
    items = min(asked.candidates or CANDIDATES, size)
    items = items if asked.where is None else min(2 * items, size)  # the nearest of those and the nearest of all
    given = (asked.vectors, asked.ids, asked.queries, asked.texts, asked.images)
    queries = max(len(one) for one in (*given, ()) if one is not None)
    check_cost(method, queries, items, dimensions, limits.rerank_seconds)
    return gates.reranks


def _search(service: Service, asked: Search) -> dict[str, Any]:
    started, limits = time.perf_counter(), service.settings.limits
    version, manifold = service.gallery.version, service.manifold  # in this order: the gallery may be newer, not older
    rows = _rows(service, manifold, asked, limits)
    if isinstance(asked.where, dict) and service.settings.store is None:
        raise ValueError("where filters by columns of a vector database, and there is none; give a list of ids")
    if asked.method is not None or asked.parameters or asked.candidates is not None:
        _few(len(rows) * (asked.candidates or CANDIDATES), WORK, "candidates of all queries together")
    own = asked.ids  # only_one has seen to it that nothing else asks
    more = 0 if own is None else 1
    ranking = searched(
        manifold, rows, k=asked.k + more, depth=None if asked.depth is None else asked.depth + more,
        budget=asked.budget, max_distance=asked.max_distance, where=asked.where, positives=asked.positives,
        negatives=asked.negatives, groups=asked.groups, method=asked.method, parameters=asked.parameters,
        candidates=asked.candidates,
    )  # fmt: skip
    most = max(asked.k, asked.depth or 0)
    ids, distances = told(ranking, most, own)
    certain = ranking.meta.get("certain")
    return {
        "ids": ids,
        "distances": distances,
        "query_ids": None if ranking.query_ids is None else ranking.query_ids.tolist(),
        "mode": ranking.meta["mode"],
        "method": worded(manifold.method) if ranking.meta["mode"] == "online" else ranking.meta["method"],
        "certain": None if certain is None else float(certain),
        "seconds": round(time.perf_counter() - started, 6),
        "version": version,
    }


def _rows(service: Service, manifold: Manifold, asked: Search, limits: Limits) -> Any:
    """The vectors that ask, from whichever of the five was given."""
    ways = {name: getattr(asked, name) for name in ("vectors", "ids", "queries", "texts", "images")}
    name, asking = only_one(ways, "who asks? {given} was given; give one of vectors, ids, queries, texts and images")
    _few(len(asking), limits.queries, name)
    if asked.ids is not None and asked.groups is not None:
        raise ValueError("groups are for vectors; leave them out where ids ask")
    if name == "vectors":
        return _array(asking)
    if name in ("texts", "images"):
        return _encoded(service, name, asking)
    kind = "item" if name == "ids" else "query"
    found = [vector_of(manifold, service.collection, (kind, number)) for number in asking]
    width = manifold._snapshot.vectors.shape[1]
    return np.stack(found) if found else np.zeros((0, width), np.float32)


def _encoded(service: Service, name: str, given: list[str]) -> Any:
    """The vectors of texts or of pictures."""
    if service.encoding is None:
        raise refused()
    return service.encoding.texts(given) if name == "texts" else service.encoding.pictures(given)


def _array(vectors: list[list[float]]) -> Any:
    """(q, d) numbers; rows of different length are told apart from numbers that are no numbers."""
    lengths = {len(row) for row in vectors}
    if len(lengths) > 1:
        raise ValueError(f"vectors have {min(lengths)} to {max(lengths)} numbers; all must have the same length")
    return np.array(vectors, np.float64).reshape(len(vectors), lengths.pop() if lengths else 0)


def told(ranking: Ranking, most: int, own: list[Any] | None = None) -> tuple[list[list[Any]], list[list[float]]]:
    """Ids and distances per query, without padding, and without the item that asked."""
    ids, distances = [], []
    rows = zip(ranking.indices.tolist(), ranking.ids.tolist(), ranking.distances.tolist(), strict=True)
    for number, (places, names, far) in enumerate(rows):
        itself = None if own is None else own[number]
        kept = [
            (name, distance)
            for place, name, distance in zip(places, names, far, strict=True)
            if place >= 0 and (itself is None or name != itself)
        ][:most]
        ids.append([name for name, _ in kept])
        distances.append([distance for _, distance in kept])
    return ids, distances


def _rerank(asked: Rerank, method: Method) -> dict[str, Any]:
    started = time.perf_counter()
    order = ordered(asked.query, asked.vectors, method, asked.top_n, asked.metric or "cosine")
    results = [
        {"index": place, "relevance_score": score} for place, score in zip(order.places, order.scores, strict=True)
    ]
    seconds = round(time.perf_counter() - started, 6)
    return {"results": results, "mode": "candidates", "method": repr(method), "seconds": seconds}


def _explain(service: Service, asked: Explain) -> dict[str, Any]:
    ways = {"vector": asked.vector, "item": asked.id, "query": asked.query}
    query = only_one(ways, "who asks? {count} of vector, id and query were given; give one of them")
    version, manifold = service.gallery.version, service.manifold
    vector = vector_of(manifold, service.collection, query)
    return {**manifold.explain(vector, asked.item, asked.flows).to_dict(), "version": version}


def _put(service: Service, asked: Put) -> Receipt:
    return service.gallery.put(_single_precision(asked.vectors), asked.ids, asked.replace)


def _queries(service: Service, asked: Observe) -> Any:
    """The vectors of queries to remember, from whichever of the three was given."""
    ways = {"vectors": asked.vectors, "texts": asked.texts, "images": asked.images}
    name, given = only_one(ways, "{given} was given; give one of vectors, texts and images")
    if name == "vectors":
        _few(len(given), service.settings.limits.items, name)
        return _single_precision(given)
    _few(len(given), service.settings.limits.queries, name)
    return np.asarray(_encoded(service, name, given), np.float32)


def _single_precision(vectors: list[list[float]]) -> Any:
    """(n, d) float32; numbers that are too large become infinite, which is refused with a sentence later."""
    with np.errstate(over="ignore"):
        return _array(vectors).astype(np.float32)


def _changed(receipt: Receipt) -> Response:
    return answered(receipt._asdict())


def _item(service: Service, words: str, with_vector: bool) -> dict[str, Any]:
    manifold, item = service.manifold, service.id_meant(words)
    try:
        vector = vector_of(manifold, service.collection, ("item", item))
    except ValueError as error:
        raise HTTPException(404, str(error)) from None
    ids, distances = told(manifold.search(vector[None], k=NEIGHBORS + 1), NEIGHBORS, [item])
    near = [{**service.collection.card(one), "distance": far} for one, far in zip(ids[0], distances[0], strict=True)]
    more = {"vector": vector.tolist()} if with_vector else {}
    return {**service.collection.card(item), "neighbors": near, **more}


def _info(service: Service) -> dict[str, Any]:
    facts, settings = service.manifold.info(), service.settings
    return {
        **facts,
        "parameters": told_parameters(service.manifold.method),
        "version": service.gallery.version,
        "writable": settings.writable and settings.store is None,
        "queries": 0 if service.collection.queries is None else len(service.collection.queries),
        "has": service.collection.has,
        "encoder": None if service.encoding is None else service.encoding.kinds,
        "follows": settings.follows,
        "limits": {"k": settings.limits.k, "queries": settings.limits.queries, "items": settings.limits.items,
                   "candidates": settings.limits.candidates, "body": settings.limits.body},
    }  # fmt: skip


def _writable(service: Service) -> None:
    if service.settings.store is not None:
        raise ValueError("items live in a vector database; change them there, and then POST /v1/sync")
    if not service.settings.writable:
        raise ValueError(
            "this gallery was built for this run only, and cannot be changed; make a folder of it with `kinrank "
            "build`, and serve that"
        )


def _observing(service: Service) -> None:
    if service.settings.store is not None:
        raise ValueError(OVER_STORE)
    _writable(service)


def _few(count: int, most: int, name: str) -> None:
    if count > most:
        raise ValueError(f"{count} {name} are too many at a time; send at most {most}")
