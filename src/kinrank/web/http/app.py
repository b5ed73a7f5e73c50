"""A Service -> the application that answers its requests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Response
from starlette.middleware import Middleware

import kinrank
from kinrank.web.http.answering import PROBLEMS, answered, handle_problems
from kinrank.web.http.api import api
from kinrank.web.http.guard import Guard
from kinrank.web.http.metrics import MEDIA_TYPE, Metrics
from kinrank.web.http.models import Status
from kinrank.web.http.pictures import pictures
from kinrank.web.http.view import view
from kinrank.web.service import Service

ABOUT = """Re-ranks what a vector search finds, along the manifold of the data, and says why an item moved.

Distances order the results of one query and mean nothing beyond. A change is acknowledged when it would survive the
death of the process. Errors are `{"detail": "a sentence"}`."""


def make_app(service: Service) -> FastAPI:
    """The application, with the page at `/`, the API under `/v1`, and its description at `/openapi.json`."""
    metrics = Metrics(service)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.gates.close()

    app = FastAPI(
        title="kinrank",
        version=kinrank.__version__,
        description=ABOUT,
        docs_url=None,  # they fetch scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        middleware=[Middleware(Guard, settings=service.settings, metrics=metrics)],
    )
    handle_problems(app, service.settings)
    app.include_router(api(service))
    app.include_router(view(service))
    app.include_router(pictures(service))

    @app.get("/health", tags=["operation"], response_model=Status, responses=PROBLEMS, summary="The process runs")
    async def health() -> Response:
        return answered({"status": "alive"})

    @app.get("/ready", tags=["operation"], response_model=Status, responses=PROBLEMS, summary="It answers searches")
    async def ready() -> Response:
        trouble = service.trouble
        if trouble:
            return answered({"detail": trouble}, 503, {"Retry-After": "1"})
        return answered({"status": "ready"})

    @app.get("/metrics", tags=["operation"], response_class=Response, responses=PROBLEMS, summary="For Prometheus")
    async def told() -> Response:
        return Response(await service.gates.asking.run(metrics.text), media_type=MEDIA_TYPE)

    _describe(app, service)
    return app


def _describe(app: FastAPI, service: Service) -> None:
    """Say in the description that tokens are sent as `Authorization: Bearer`, and give examples of this gallery."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        described: dict[str, Any] = made()
        parts = described.setdefault("components", {})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}, {}]
        first, second = ([*service.manifold.ids[:2].tolist(), None, None])[:2]
        if second is not None:
            others = parts["schemas"]["Search"]["examples"][:1]  # vectors, which are not as long as those here
            if service.encoding is not None and service.encoding.kinds["texts"]:
                others.append({"texts": ["a dog on a beach"], "k": 10})
            parts["schemas"]["Search"]["examples"] = [
                {"ids": [first], "k": 10},
                {"ids": [first], "method": "k-reciprocal", "parameters": {"k1": 20}, "candidates": 500},
                *others,
            ]
            parts["schemas"]["Explain"]["examples"] = [{"id": first, "item": second, "flows": 5}]
        return described

    app.openapi = openapi
