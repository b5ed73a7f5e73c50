"""Static files of the page, and the cookie that holds a token."""

from __future__ import annotations

from importlib import resources

from fastapi import HTTPException, Response

from kinrank.web.http.request_guard import COOKIE, find_role
from kinrank.web.settings import Settings

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
STATIC_FOLDER = resources.files("kinrank.web") / "page"


def read_static_file(name: str) -> Response:
    """Return a file of the page. The name is compared with the existing files and never used as a path."""
    file = next((entry for entry in STATIC_FOLDER.iterdir() if entry.name == name and entry.is_file()), None)
    media_type = MEDIA_TYPES.get("." + name.rpartition(".")[2])
    if file is None or media_type is None:
        raise HTTPException(404, "the page has no such file")
    return Response(file.read_bytes(), 200, {"Cache-Control": "no-cache"}, media_type)


def set_token_cookie(settings: Settings, token: str) -> Response:
    """Return a response that stores a valid token in a cookie."""
    if not find_role(token, settings) or not token.isascii() or not token.isprintable():
        raise HTTPException(401, "this token is not valid; ask the operator of the service for another")
    response = Response(status_code=204)
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")
    return response
