"""A service under random changes, searches and kills, against what its clients know; `make soak` runs it for long."""

from __future__ import annotations

import os
import sys

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'kinrank[web]'")

from faults.service_soak import soak

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="it is /proc that says which processes there are"),
]

SECONDS = float(os.environ.get("KINRANK_SOAK_SECONDS", "45"))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_service_agrees_with_its_clients(workers: int) -> None:
    counts = soak(SECONDS / 2, workers, seed=workers)
    print(dict(counts))
    assert counts["acknowledged"] > 20
    assert counts["searches"] > 20
    assert counts["kills of the service"] > 0
    assert counts["checks of the whole state"] > 3
    assert counts["checks of remembered queries"] > 0
