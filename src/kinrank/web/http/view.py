"""What the page asks for: its own files, what there is, before and after, the chain.

This is not versioned: it changes with the page.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

import kinrank
from kinrank.web.asked.asking import Asked, method_asked, only_one, told_parameters
from kinrank.web.asked.cost import check_cost
from kinrank.web.asked.looking import chained, looked
from kinrank.web.http.answering import PROBLEMS, JsonRoute, answered
from kinrank.web.http.gate import Gate
from kinrank.web.http.models import Chain, Rank, Token, Upload
from kinrank.web.http.parts import entered, static
from kinrank.web.service import Service
from kinrank.web.shown.encoding import refused

CHAIN_PASSES = 3  # candidates are re-ranked for the list, for the chain and for the map


def view(service: Service) -> APIRouter:
    """The routes that only the page uses."""
    router = APIRouter(tags=["page"], route_class=JsonRoute, responses=PROBLEMS)
    gates = service.gates

    @router.get("/", response_class=Response, summary="The page")
    async def page() -> Response:
        return static("index.html")

    @router.get("/page/{file}", response_class=Response, summary="A part of the page")
    async def part(file: str) -> Response:
        return static(file)

    @router.get("/view/progress", summary="That nothing is being prepared any more", response_model=dict[str, Any])
    async def progress() -> Response:
        return answered({"state": "ready"})

    @router.get("/view/start", summary="What is served, and what can be asked for", response_model=dict[str, Any])
    async def start(request: Request) -> Response:
        found = await gates.searches.run(_start, service)
        return answered({**found, "role": request.scope["kinrank.role"]})

    @router.get("/view/items", summary="A part of all items, or of all queries", response_model=dict[str, Any])
    async def items(
        kind: Literal["items", "queries"] = "items",
        words: Annotated[str, Query(max_length=200)] = "",
        offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 60,
        seed: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    ) -> Response:
        found = service.collection
        if kind == "queries":
            cards, total = await gates.pictures.run(found.query_items, words, offset, limit, seed)
        else:
            ids = service.manifold.ids
            cards, total = await gates.pictures.run(found.items, ids, words, offset, limit, seed)
        return answered({"total": total, "items": cards})

    @router.post("/view/rank", summary="Before and after", response_model=dict[str, Any])
    async def rank(asked: Rank) -> Response:
        question = _asked(service, asked)
        return await _gate_of(service, question).run(
            lambda: answered(looked(service.manifold, service.collection, question, service.address))
        )

    @router.post("/view/chain", summary="Why an item moved", response_model=dict[str, Any])
    async def chain(asked: Chain) -> Response:
        question = _asked(service, asked)
        return await _gate_of(service, question, CHAIN_PASSES).run(
            lambda: answered(chained(service.manifold, service.collection, question, asked.item))
        )

    @router.post("/view/encode", summary="The vector of a picture, or of a text", response_model=dict[str, Any])
    async def encode(given: Upload) -> Response:
        return await gates.reranks.run(lambda: answered(_encoded(service, given)))

    @router.post("/view/enter", status_code=204, summary="Show a token once, and be known by a cookie")
    async def enter(given: Token) -> Response:
        return entered(service.settings, given.token)

    return router


def _asked(service: Service, asked: Rank) -> Asked:
    """The question of a request; a ValueError for what this service does not allow, or does not know."""
    ways = {"item": asked.query.item, "query": asked.query.query, "vector": asked.query.vector}
    query = only_one(ways, "query has {count} of item, query and vector; give one of them")
    service.settings.limits.check(asked.k, candidates=asked.candidates)
    level = asked.level
    if level is not None and level not in service.collection.levels:
        known = ", ".join(service.collection.levels) or "none"
        raise ValueError(f"level={level!r} is not known; known here: {known}")
    return Asked(
        query, asked.k, asked.method, dict(asked.parameters), asked.candidates, list(asked.positives),
        list(asked.negatives), level,
    )  # fmt: skip


def _gate_of(service: Service, asked: Asked, passes: int = 1) -> Gate:
    """Where a question waits: not among searches of the prepared gallery, if a method of its own is to answer it.

    A ValueError if that would take too long.
    """
    manifold = service.manifold
    method = method_asked(manifold.method, asked.method, asked.parameters)
    if method == manifold.method:
        return service.gates.searches
    size, dimensions = manifold._snapshot.vectors.shape
    check_cost(method, 1, min(asked.candidates, size), dimensions, service.settings.limits.rerank_seconds, passes)
    return service.gates.reranks


def _start(service: Service) -> dict[str, Any]:
    settings, manifold, collection = service.settings, service.manifold, service.collection
    facts = manifold.info()
    methods, example = service.opening()
    return {
        "title": settings.title,
        "items": facts["items"],
        "dimensions": facts["dimensions"],
        "version": service.gallery.version,
        "kinrank": kinrank.__version__,
        "prepared": {"method": facts["method"], "parameters": told_parameters(manifold.method)},
        "methods": methods,
        "has": collection.has,
        "levels": collection.levels,
        "queries": 0 if collection.queries is None else len(collection.queries),
        "writable": settings.writable and settings.store is None,
        "tokens": bool(settings.read_tokens or settings.write_tokens),
        "encoder": None if service.encoding is None else service.encoding.kinds,
        "limits": {"k": settings.limits.k, "candidates": settings.limits.candidates, "body": settings.limits.body},
        "example": example,
    }


def _encoded(service: Service, given: Upload) -> dict[str, Any]:
    ways = {"image": given.image, "text": given.text}
    kind, one = only_one(ways, "{count} of image and text were given; give one of them")
    if service.encoding is None:
        raise refused()
    found = service.encoding.pictures([one]) if kind == "image" else service.encoding.texts([one])
    return {"vector": found[0].tolist()}
