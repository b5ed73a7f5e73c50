"""What the page asks for: what there is, pictures, before and after, the chain.

This is not versioned: it changes with the page.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi import Path as InPath

import kinrank
from kinrank.web.asked.looking import Asked, chained, looked
from kinrank.web.http.answering import PROBLEMS, JsonRoute, answered
from kinrank.web.http.guard import COOKIE, role_of
from kinrank.web.http.models import Chain, Picture, Rank, Token
from kinrank.web.service import Service
from kinrank.web.shown.encoding import encoded
from kinrank.web.shown.pictures import SIZES

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGES = resources.files("kinrank.web") / "page"
DAY = 86_400


def view(service: Service) -> APIRouter:
    """The routes that only the page uses."""
    router = APIRouter(tags=["page"], route_class=JsonRoute, responses=PROBLEMS)
    limits, gates = service.settings.limits, service.gates

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

    @router.post("/view/encode", summary="The vector of a picture", response_model=dict[str, Any])
    async def encode(given: Picture) -> Response:
        if service.encoder is None:
            raise ValueError(
                "pictures cannot be encoded here; start the service with --encoder package.module:function"
            )
        width = service.manifold._snapshot.vectors.shape[1]
        return answered({"vector": await gates.searches.run(encoded, service.encoder, given.image, width)})

    @router.post("/view/enter", status_code=204, summary="Show a token once, and be known by a cookie")
    async def enter(given: Token) -> Response:
        settings = service.settings
        if not role_of(given.token, settings) or not given.token.isascii() or not given.token.isprintable():
            raise HTTPException(401, "this token is not known here; ask who runs the service for another")
        response = Response(status_code=204)
        response.set_cookie(COOKIE, given.token, httponly=True, samesite="strict", path="/")
        return response

    @router.get("/pictures/item/{id:path}", response_class=Response, summary="The picture of an item")
    async def picture(
        request: Request, id: Annotated[str, InPath(max_length=1000)], size: Annotated[int, Query()] = 192
    ) -> Response:
        found = await gates.pictures.run(service.collection.picture, service.id_meant(id), _size(size))
        return _picture(request, found)

    @router.get("/pictures/query/{number}", response_class=Response, summary="The picture of a query")
    async def query_picture(
        request: Request, number: Annotated[int, InPath(ge=0, lt=2**31)], size: Annotated[int, Query()] = 192
    ) -> Response:
        found = await gates.pictures.run(service.collection.query_picture, number, _size(size))
        return _picture(request, found)

    def _asked(service: Service, asked: Rank) -> Asked:
        ways = {"item": asked.query.item, "query": asked.query.query, "vector": asked.query.vector}
        named = [(name, value) for name, value in ways.items() if value is not None]
        if len(named) != 1:
            raise ValueError(f"query has {len(named)} of item, query and vector; give one of them")
        for name, value, most in (("k", asked.k, limits.k), ("candidates", asked.candidates, limits.candidates)):
            if not 1 <= value <= most:
                raise ValueError(f"{name}={value} is not allowed; give a whole number from 1 to {most}")
        level = asked.level
        if level is not None and level not in service.collection.levels:
            known = ", ".join(service.collection.levels) or "none"
            raise ValueError(f"level={level!r} is not known; known here: {known}")
        return Asked(
            named[0], asked.k, asked.method, dict(asked.parameters), asked.candidates, list(asked.positives),
            list(asked.negatives), level,
        )  # fmt: skip

    return router


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
        "encoder": service.encoder is not None,
        "limits": {"k": settings.limits.k, "candidates": settings.limits.candidates},
        "example": example,
    }


def _size(size: int) -> int:
    if size not in SIZES:
        raise ValueError(f"size={size} is not allowed; give one of {', '.join(map(str, SIZES))}")
    return size


def _picture(request: Request, found: tuple[bytes, str] | None) -> Response:
    if found is None:
        raise HTTPException(404, "there is no picture of it")
    content, kind = found
    return _tagged(request, content, kind, f"private, max-age={DAY}")


def _tagged(request: Request, content: bytes, kind: str, keep: str) -> Response:
    """The content, or word that the browser has it already."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": keep}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, kind)


def _static(file: str, keep: str) -> Response:
    """A file of the page, by one of the names that are there: nothing of the name is taken as a path."""
    found = next((one for one in PAGES.iterdir() if one.name == file and one.is_file()), None)
    kind = KINDS.get("." + file.rpartition(".")[2])
    if found is None or kind is None:
        raise HTTPException(404, "the page has no such part")
    return Response(found.read_bytes(), 200, {"Cache-Control": keep}, kind)
