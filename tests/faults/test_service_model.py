"""A service under random changes, searches and kills, against the records of its clients; `make soak` runs longer."""

from __future__ import annotations

import os
import sys

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install '.[web]'")

from faults.service_soak import soak

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="it is /proc that says which processes there are"),
    pytest.mark.slow,
]

SECONDS = float(os.environ.get("KINRANK_SOAK_SECONDS", "45"))


AT_LEAST = {
    "acknowledged": 20,
    "searches": 20,
    "kills of the service": 1,
    "checks of the whole state": 4,
    "checks of remembered queries": 1,
}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_service_agrees_with_its_clients(workers: int) -> None:
    counts = soak(SECONDS / 2, workers, workers, AT_LEAST)
    print(dict(counts))
    assert {what: count for what, count in AT_LEAST.items() if counts[what] < count} == {}
