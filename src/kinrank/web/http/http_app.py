"""FastAPI application of a service."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Response
from starlette.middleware import Middleware

import kinrank
from kinrank.web.http.api_routes import make_api_router
from kinrank.web.http.json_responses import ERROR_RESPONSES, RETRY_HEADERS, add_error_handlers, make_json_response
from kinrank.web.http.metrics import MEDIA_TYPE, Metrics
from kinrank.web.http.page_routes import make_page_router, make_picture_router
from kinrank.web.http.request_guard import RequestGuard
from kinrank.web.http.request_models import Status
from kinrank.web.service import Service

API_DESCRIPTION = """Re-ranks the results of a vector search along the manifold of the data, and explains why an item \
moved.

Distances order the results of one query; they have no meaning between queries. An acknowledged change survives the
death of the process. Errors are `{"detail": "a sentence"}`."""


def make_app(service: Service) -> FastAPI:
    """Create the application: the page at `/`, the API under `/v1`, and its description at `/openapi.json`."""
    metrics = Metrics(service)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.queues.close()

    app = FastAPI(
        title="kinrank",
        version=kinrank.__version__,
        description=API_DESCRIPTION,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        middleware=[Middleware(RequestGuard, settings=service.settings, metrics=metrics)],
    )
    add_error_handlers(app, service.settings)
    app.include_router(make_api_router(service))
    app.include_router(make_page_router(service))
    app.include_router(make_picture_router(service))
    operation: dict[str, Any] = {"tags": ["operation"], "responses": ERROR_RESPONSES}

    @app.get("/health", response_model=Status, summary="Check that the process runs", **operation)
    async def health() -> Response:
        return make_json_response({"status": "alive"})

    @app.get("/ready", response_model=Status, summary="Check that the service answers searches", **operation)
    async def ready() -> Response:
        trouble = service.trouble
        if trouble:
            return make_json_response({"detail": trouble}, 503, RETRY_HEADERS)
        return make_json_response({"status": "ready"})

    @app.get("/metrics", response_class=Response, summary="Metrics for Prometheus", **operation)
    async def get_metrics() -> Response:
        return Response(await service.queues.facts.run(metrics.to_text), media_type=MEDIA_TYPE)

    _extend_openapi(app, service)
    return app


def _extend_openapi(app: FastAPI, service: Service) -> None:
    """Add the scheme of tokens, `Authorization: Bearer`, and examples of this gallery to the OpenAPI description."""
    make_description = app.openapi

    def openapi() -> dict[str, Any]:
        description: dict[str, Any] = make_description()
        components = description.setdefault("components", {})
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        description["security"] = [{"token": []}, {}]
        first, second = ([*service.manifold.ids[:2].tolist(), None, None])[:2]
        if second is not None:
            examples = components["schemas"]["Search"]["examples"][:1]  # vectors, which have another length than here
            if service.encoder is not None and service.encoder.kinds["texts"]:
                examples.append({"texts": ["a dog on a beach"], "k": 10})
            components["schemas"]["Search"]["examples"] = [
                {"ids": [first], "k": 10},
                {"ids": [first], "method": "k-reciprocal", "parameters": {"k1": 20}, "candidates": 500},
                *examples,
            ]
            components["schemas"]["Explain"]["examples"] = [{"id": first, "item": second, "flows": 5}]
        return description

    app.openapi = openapi
