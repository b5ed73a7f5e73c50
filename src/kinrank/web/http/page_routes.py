"""Routes that only the page uses: its files, gallery data, results, explanations and pictures.

They are not versioned: they change with the page.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi import Path as InPath

import kinrank
from kinrank.errors import InputError
from kinrank.web.http.json_responses import ERROR_RESPONSES, JsonRoute, make_json_response
from kinrank.web.http.request_models import Chain, Rank, Token, Upload, View
from kinrank.web.http.static_files import read_static_file, set_token_cookie
from kinrank.web.page_data.kept_views import KeptViews
from kinrank.web.page_data.method_schema import check_cost
from kinrank.web.page_data.page_json import build_chain_page, build_rank_page
from kinrank.web.page_data.question import Question, pick_exactly_one, public_parameters, resolve_method
from kinrank.web.request_queues import RequestQueue
from kinrank.web.service import Service

CHAIN_PASSES = 3  # candidates are re-ranked for the list, for the chain and for the map
CACHE_SECONDS = 86_400  # of pictures in the browser
MAX_VERSIONS = 8  # of the gallery, whose ids are known to find new items
MAX_NEW_ITEMS = 12  # shown


def make_page_router(service: Service) -> APIRouter:
    """Create the routes of the page."""
    router = APIRouter(tags=["page"], route_class=JsonRoute, responses=ERROR_RESPONSES)
    queues, views, news = service.queues, KeptViews(service.settings.scratch), GalleryNews(service)

    @router.get("/", response_class=Response, summary="Return the page")
    async def page() -> Response:
        return read_static_file("index.html")

    @router.get("/page/{file}", response_class=Response, summary="Return a file of the page")
    async def part(file: str) -> Response:
        return read_static_file(file)

    @router.get("/view/progress", summary="Report that the preparation is finished", response_model=dict[str, Any])
    async def progress() -> Response:
        return make_json_response({"state": "ready"})

    @router.get("/view/start", summary="Return facts about the gallery and its methods", response_model=dict[str, Any])
    async def start(request: Request) -> Response:
        data = await queues.searches.run(_get_start_data, service)
        version = (await queues.pictures.run(news.find))["version"]
        return make_json_response({**data, "version": version, "role": request.scope["kinrank.role"]})

    @router.get("/view/items", summary="List some of the items or queries", response_model=dict[str, Any])
    async def items(
        kind: Literal["items", "queries"] = "items",
        words: Annotated[str, Query(max_length=200)] = "",
        offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 60,
        seed: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
        folder: Annotated[str, Query(max_length=1000)] = "",
    ) -> Response:
        collection, folders = service.collection, list[dict[str, Any]]()
        if kind == "queries":
            cards, total = await queues.pictures.run(collection.query_items, words, offset, limit, seed)
        else:
            ids = service.manifold.ids
            cards, total = await queues.pictures.run(collection.items, ids, words, offset, limit, seed, folder)
            folders = await queues.pictures.run(collection.folders, ids) if offset == 0 else []
        return make_json_response({"total": total, "items": cards, "folders": folders})

    @router.get("/view/news", summary="Return the items added since a version", response_model=dict[str, Any])
    async def added(version: Annotated[int, Query(ge=0, lt=2**53)]) -> Response:
        return make_json_response(await queues.pictures.run(news.find, version))

    @router.post("/view/rank", summary="Return the results before and after", response_model=dict[str, Any])
    async def rank(request: Rank) -> Response:
        question = _read_question(service, request)
        return await _choose_queue(service, question).run(
            lambda: make_json_response(build_rank_page(service.manifold, service.collection, question, service.address))
        )

    @router.post("/view/chain", summary="Explain why an item moved", response_model=dict[str, Any])
    async def chain(request: Chain) -> Response:
        question = _read_question(service, request)
        return await _choose_queue(service, question, CHAIN_PASSES).run(
            lambda: make_json_response(build_chain_page(service.manifold, service.collection, question, request.item))
        )

    @router.post("/view/encode", summary="Return the vector of a picture or a text", response_model=dict[str, Any])
    async def encode(request: Upload) -> Response:
        return await queues.reranks.run(lambda: make_json_response(_encode_upload(service, request)))

    @router.post("/view/keep", summary="Keep an upload or marks under a short id", response_model=dict[str, Any])
    async def keep(request: View) -> Response:
        return make_json_response({"id": await queues.pictures.run(views.put, request.model_dump_json())})

    @router.get("/view/kept/{id}", summary="Return a kept upload or marks", response_model=dict[str, Any])
    async def kept(id: Annotated[str, InPath(max_length=20)]) -> Response:
        content = await queues.pictures.run(views.get, id)
        if content is None:
            raise HTTPException(404, "this link is no longer kept: the service has been restarted since")
        return Response(content, media_type="application/json")

    @router.post("/view/enter", status_code=204, summary="Store a token in a cookie")
    async def enter(request: Token) -> Response:
        return set_token_cookie(service.settings, request.token)

    return router


class GalleryNews:
    """Finds the items that were added between two versions of the gallery, for a page that is open."""

    def __init__(self, service: Service) -> None:
        self._service, self._ids = service, dict[int, Any]()

    def find(self, since: int | None = None) -> dict[str, Any]:
        """Return the version, the number of items added since another one, and some of their cards.

        Nothing is found for a version that this process does not know; another one may know it.
        """
        version, ids = self._service.gallery.version, self._service.manifold.ids  # the ids may be newer, not older
        if version not in self._ids:
            self._ids = dict([*self._ids.items(), (version, ids)][-MAX_VERSIONS:])
        since = version if since is None else since
        if since == version or since not in self._ids:
            return {"version": since, "items": len(ids), "added": 0, "cards": []}
        before = set(self._ids[since].tolist())
        added = [item for item in ids.tolist() if item not in before]
        cards = [self._service.collection.card(item) for item in added[-MAX_NEW_ITEMS:]]
        return {"version": version, "items": len(ids), "added": len(added), "cards": cards}


def make_picture_router(service: Service) -> APIRouter:
    """Create the routes of pictures of items and queries, in one of several sizes."""
    router = APIRouter(prefix="/pictures", tags=["page"], route_class=JsonRoute, responses=ERROR_RESPONSES)
    queues = service.queues

    @router.get("/item/{id:path}", response_class=Response, summary="Return the picture of an item")
    async def picture(
        request: Request, id: Annotated[str, InPath(max_length=1000)], size: Annotated[int, Query()] = 192
    ) -> Response:
        content = await queues.pictures.run(service.collection.picture, service.parse_id(id), size)
        return _make_picture_response(request, content)

    @router.get("/query/{number}", response_class=Response, summary="Return the picture of a query")
    async def query_picture(
        request: Request, number: Annotated[int, InPath(ge=0, lt=2**31)], size: Annotated[int, Query()] = 192
    ) -> Response:
        content = await queues.pictures.run(service.collection.query_picture, number, size)
        return _make_picture_response(request, content)

    return router


def _read_question(service: Service, request: Rank) -> Question:
    """Convert a request to a question, and check it against the limits and levels of this service."""
    query = pick_exactly_one({"item": request.query.item, "query": request.query.query, "vector": request.query.vector})
    service.settings.limits.check(request.k, candidates=request.candidates)
    level = request.level
    if level is not None and level not in service.collection.relevance.levels:
        known = ", ".join(service.collection.relevance.levels) or "none"
        raise InputError("is not known", parameter="level", given=level, remedy=f"known here: {known}")
    return Question.of(request, query=query)


def _choose_queue(service: Service, question: Question, passes: int = 1) -> RequestQueue:
    """Choose the queue of a question: searches of the prepared gallery do not wait for other methods.

    An InputError if another method would take too long.
    """
    manifold = service.manifold
    method = resolve_method(manifold.method, question.method, question.parameters)
    if method == manifold.method:
        return service.queues.searches
    size, dimensions = manifold.snapshot.vectors.shape
    check_cost(
        method, 1, min(question.candidate_count, size), dimensions, service.settings.limits.rerank_seconds, passes
    )
    return service.queues.reranks


def _get_start_data(service: Service) -> dict[str, Any]:
    settings, manifold, collection = service.settings, service.manifold, service.collection
    facts = manifold.info()
    methods, example = service.get_methods_and_example()
    return {
        "title": settings.title,
        "items": facts["items"],
        "dimensions": facts["dimensions"],
        "kinrank": kinrank.__version__,
        "prepared": {"method": facts["method"], "parameters": public_parameters(manifold.method)},
        "methods": methods,
        "has": collection.has,
        "levels": collection.relevance.levels,
        "queries": 0 if collection.queries is None else len(collection.queries),
        "writable": settings.writable and settings.store is None,
        "tokens": bool(settings.read_tokens or settings.write_tokens),
        "encoder": None if service.encoder is None else service.encoder.kinds,
        "limits": {"k": settings.limits.k, "candidates": settings.limits.candidates, "body": settings.limits.body},
        "example": example,
    }


def _encode_upload(service: Service, upload: Upload) -> dict[str, Any]:
    kind, value = pick_exactly_one({"image": upload.image, "text": upload.text})
    return {"vector": service.encode(f"{kind}s", [value])[0].tolist()}


def _make_picture_response(request: Request, picture: tuple[bytes, str] | None) -> Response:
    """Return a picture with its ETag, or 304 if the browser has it."""
    if picture is None:
        raise HTTPException(404, "there is no picture of it")
    content, media_type = picture
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": f"private, max-age={CACHE_SECONDS}"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, media_type)
