"""What happened -> numbers for Prometheus, by its own client; those of all workers together."""

from __future__ import annotations

import os
from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from kinrank.web.service import Service

MEDIA_TYPE = CONTENT_TYPE_LATEST
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # a folder in which several workers add up their numbers
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class _Gallery:
    """The facts of the gallery, read when they are asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        facts = self._service.manifold.info()
        for name, words, value in (
            ("kinrank_items", "Items in the gallery.", facts["items"]),
            ("kinrank_version", "The last change that this worker knows.", self._service.gallery.version),
            ("kinrank_stale", "How far the gallery has drifted from a rebuild, 0 to 1.", facts["stale"]),
        ):
            yield GaugeMetricFamily(name, words, value)


class Metrics:
    """Counters of one process; in several workers they are kept in files and added up."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        kept = {"registry": self._registry}
        self._requests = Counter(
            "kinrank_requests", "Requests by what was asked and how it was answered.", ["route", "status"], **kept
        )
        self._seconds = Histogram(
            "kinrank_request_seconds", "Time from the whole request to the answer.", ["route"], buckets=SECONDS, **kept
        )
        self._inside = Gauge(
            "kinrank_requests_inside",
            "Searches and re-rankings that are computed or wait.",
            multiprocess_mode="livesum",
            **kept,
        )
        if SHARED not in os.environ:
            self._inside.set_function(lambda: service.gates.computing)
        self._service = service

    def answered(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if SHARED in os.environ:
            self._inside.set(self._service.gates.computing)

    def text(self) -> bytes:
        """What `/metrics` says."""
        facts = CollectorRegistry()
        facts.register(_Gallery(self._service))
        if SHARED in os.environ:
            together = CollectorRegistry()
            MultiProcessCollector(together)
            return bytes(generate_latest(together) + generate_latest(facts))
        return bytes(generate_latest(self._registry) + generate_latest(facts))
