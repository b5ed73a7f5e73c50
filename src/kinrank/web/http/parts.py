"""The name of a file of the page, or a token -> the answer: the file, or a cookie that holds the token."""

from __future__ import annotations

from importlib import resources

from fastapi import HTTPException, Response

from kinrank.web.http.guard import COOKIE, role_of
from kinrank.web.settings import Settings

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGES = resources.files("kinrank.web") / "page"


def static(file: str) -> Response:
    """A file of the page, by one of the names that are there: nothing of the name is taken as a path."""
    found = next((one for one in PAGES.iterdir() if one.name == file and one.is_file()), None)
    kind = KINDS.get("." + file.rpartition(".")[2])
    if found is None or kind is None:
        raise HTTPException(404, "the page has no such part")
    return Response(found.read_bytes(), 200, {"Cache-Control": "no-cache"}, kind)


def entered(settings: Settings, token: str) -> Response:
    """A cookie that holds the token, if it is one of those that are known."""
    if not role_of(token, settings) or not token.isascii() or not token.isprintable():
        raise HTTPException(401, "this token is not known here; ask who runs the service for another")
    response = Response(status_code=204)
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")
    return response
