"""What is being prepared -> the application that says so until the service is there."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from starlette.middleware import Middleware

from kinrank.web.http.answering import AGAIN, JsonRoute, answered, handle_problems
from kinrank.web.http.guard import Guard
from kinrank.web.http.models import Token
from kinrank.web.http.parts import entered, static
from kinrank.web.processes.stages import Stages
from kinrank.web.settings import Settings

ALL = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class Uncounted:
    """Nobody counts what is answered before the service is there."""

    def answered(self, route: str, status: int, seconds: float) -> None:
        pass


def preparing_app(settings: Settings, stages: Stages) -> FastAPI:
    """The page at `/`, what it asks for once a second, and 503 for everything else; guarded as the service is."""
    guard = Middleware(Guard, settings=settings, metrics=Uncounted())
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, middleware=[guard])
    app.router.route_class = JsonRoute
    handle_problems(app, settings)

    @app.get("/")
    async def page() -> Response:
        return static("preparing.html")

    @app.get("/page/{file}")
    async def part(file: str) -> Response:
        return static(file)

    @app.get("/view/progress")
    async def progress() -> Response:
        return answered(stages.facts(), headers={"Cache-Control": "no-store"})

    @app.post("/view/enter")
    async def enter(given: Token) -> Response:
        return entered(settings, given.token)

    @app.get("/health")
    async def health() -> Response:
        return answered({"status": "alive"})

    @app.api_route("/{path:path}", methods=ALL)
    async def later(request: Request, path: str) -> Response:
        """Whoever shows no token where one is needed comes this far with `/ready` only, and is told no numbers."""
        return answered({"detail": stages.sentence(bool(request.scope["kinrank.role"]))}, 503, AGAIN)

    return app
