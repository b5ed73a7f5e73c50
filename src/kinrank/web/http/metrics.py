"""Metrics for Prometheus, summed over all workers."""

from __future__ import annotations

import os
from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from kinrank.web.service import Service

MEDIA_TYPE = CONTENT_TYPE_LATEST
SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # folder in which several workers sum their numbers
LATENCY_BUCKETS_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class _GalleryCollector:
    """Metrics of the gallery, read on demand."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        facts = self._service.manifold.info()
        for name, description, value in (
            ("kinrank_items", "Items in the gallery.", facts["items"]),
            ("kinrank_version", "Version of the last change known to this worker.", self._service.gallery.version),
            ("kinrank_staleness", "Drift of the gallery from a rebuild, 0 to 1.", facts["staleness"]),
        ):
            yield GaugeMetricFamily(name, description, value)


class Metrics:
    """Counters of one process; several workers keep them in files and sum them."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        options = {"registry": self._registry}
        self._requests = Counter("kinrank_requests", "Requests by route and status.", ["route", "status"], **options)
        self._seconds = Histogram(
            "kinrank_request_seconds",
            "Time from the complete request to the response.",
            ["route"],
            buckets=LATENCY_BUCKETS_SECONDS,
            **options,
        )
        self._inside = Gauge(
            "kinrank_requests_inside",
            "Searches and re-rankings that run or wait.",
            multiprocess_mode="livesum",
            **options,
        )
        if SHARED_FOLDER_VARIABLE not in os.environ:
            self._inside.set_function(lambda: service.queues.computing)
        self._service = service

    def count_response(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if SHARED_FOLDER_VARIABLE in os.environ:
            self._inside.set(self._service.queues.computing)

    def to_text(self) -> bytes:
        """Return the content of `/metrics`."""
        facts = CollectorRegistry()
        facts.register(_GalleryCollector(self._service))
        if SHARED_FOLDER_VARIABLE in os.environ:
            all_workers = CollectorRegistry()
            MultiProcessCollector(all_workers)
            return bytes(generate_latest(all_workers) + generate_latest(facts))
        return bytes(generate_latest(self._registry) + generate_latest(facts))
