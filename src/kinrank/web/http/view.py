"""What the page asks for: its own files, what there is, before and after, the chain.

This is not versioned: it changes with the page.
"""

from __future__ import annotations

from importlib import resources
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request, Response

import kinrank
from kinrank.web.asked.asking import Asked, only_one
from kinrank.web.asked.looking import chained, looked
from kinrank.web.http.answering import PROBLEMS, JsonRoute, answered
from kinrank.web.http.guard import COOKIE, role_of
from kinrank.web.http.models import Chain, Rank, Token, Upload
from kinrank.web.service import Service
from kinrank.web.shown.encoding import refused

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGES = resources.files("kinrank.web") / "page"


def view(service: Service) -> APIRouter:
    """The routes that only the page uses."""
    router = APIRouter(tags=["page"], route_class=JsonRoute, responses=PROBLEMS)
    gates = service.gates

    @router.get("/", response_class=Response, summary="The page")
    async def page() -> Response:
        return _static("index.html", "no-cache")

    @router.get("/page/{file}", response_class=Response, summary="A part of the page")
    async def part(file: str) -> Response:
        return _static(file, "no-cache")

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
        return await gates.searches.run(
            lambda: answered(looked(service.manifold, service.collection, question, service.address))
        )

    @router.post("/view/chain", summary="Why an item moved", response_model=dict[str, Any])
    async def chain(asked: Chain) -> Response:
        question = _asked(service, asked)
        return await gates.searches.run(
            lambda: answered(chained(service.manifold, service.collection, question, asked.item))
        )

    @router.post("/view/encode", summary="The vector of a picture, or of a text", response_model=dict[str, Any])
    async def encode(given: Upload) -> Response:
        return await gates.searches.run(lambda: answered(_encoded(service, given)))

    @router.post("/view/enter", status_code=204, summary="Show a token once, and be known by a cookie")
    async def enter(given: Token) -> Response:
        return _entered(service, given.token)

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
        "prepared": {"method": facts["method"], "parameters": facts["parameters"]},
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


def _entered(service: Service, token: str) -> Response:
    """A cookie that holds the token, if it is one of those that are known."""
    if not role_of(token, service.settings) or not token.isascii() or not token.isprintable():
        raise HTTPException(401, "this token is not known here; ask who runs the service for another")
    response = Response(status_code=204)
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")
    return response


def _static(file: str, keep: str) -> Response:
    """A file of the page, by one of the names that are there: nothing of the name is taken as a path."""
    found = next((one for one in PAGES.iterdir() if one.name == file and one.is_file()), None)
    kind = KINDS.get("." + file.rpartition(".")[2])
    if found is None or kind is None:
        raise HTTPException(404, "the page has no such part")
    return Response(found.read_bytes(), 200, {"Cache-Control": keep}, kind)
