"""`/pictures`: those of items and of queries, as the page shows them, in one of some sizes."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi import Path as InPath

from kinrank.web.http.answering import PROBLEMS, JsonRoute
from kinrank.web.service import Service
from kinrank.web.shown.pictures import SIZES

DAY = 86_400


def pictures(service: Service) -> APIRouter:
    """The routes of pictures."""
    router = APIRouter(prefix="/pictures", tags=["page"], route_class=JsonRoute, responses=PROBLEMS)
    gates = service.gates

    @router.get("/item/{id:path}", response_class=Response, summary="The picture of an item")
    async def picture(
        request: Request, id: Annotated[str, InPath(max_length=1000)], size: Annotated[int, Query()] = 192
    ) -> Response:
        found = await gates.pictures.run(service.collection.picture, service.id_meant(id), _size(size))
        return _picture(request, found)

    @router.get("/query/{number}", response_class=Response, summary="The picture of a query")
    async def query_picture(
        request: Request, number: Annotated[int, InPath(ge=0, lt=2**31)], size: Annotated[int, Query()] = 192
    ) -> Response:
        found = await gates.pictures.run(service.collection.query_picture, number, _size(size))
        return _picture(request, found)

    return router


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
