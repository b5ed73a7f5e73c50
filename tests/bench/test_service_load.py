"""`kinrank bench service`: a real service under a little load counts correctly and loses nothing."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from kinrank.web.settings import Limits
from kinrank_bench.load_generator import Load, run_load
from kinrank_bench.service_load import ServiceRuns, cpu_seconds, memory_bytes, service
from kinrank_bench.synthetic import curves


def test_a_small_service_under_a_little_load() -> None:
    rows = curves(220, 16)
    stages: list[str] = []
    found = service(
        runs=ServiceRuns(clients=(1, 4), seconds=0.5, sustained=1.0, crowd=60, changing=1.5), limits=Limits(waiting=4),
        rows=(rows[:20], rows[20:]), progress=lambda label, done, total: stages.append(label),
    )  # fmt: skip
    assert stages == ["clients", "sustained", "overload", "changes", "saving"]
    assert (found["bench"], found["items"], found["dimensions"], found["workers"]) == ("service", 200, 16, 2)

    one, four = found["clients"]
    assert (one["clients"], four["clients"]) == (1, 4)
    assert set(one["statuses"]) == {"200"}
    assert one["answered"] == one["statuses"]["200"] > 0
    assert 0 < one["search_ms"] < one["p50_ms"] <= one["p95_ms"] <= one["p99_ms"] <= one["largest_ms"]

    for part in (one, four, found["sustained"], found["overload"], found["changes"], found["changes"]["readers"]):
        assert set(part["statuses"]) <= {"200", "503"}
        assert part["errors"] == {}
    assert found["overload"]["statuses"]["503"] > 0
    assert found["overload"]["statuses"]["200"] > 0
    if os.path.exists("/proc/self/smaps_rollup"):
        start, middle, end = found["sustained"]["memory_bytes"]
        assert 0.5 * start < middle < 2 * start  # plausible numbers; tests/faults/test_flat_memory.py looks for leaks
        assert 0.5 * middle < end < 2 * middle

    changes = found["changes"]
    assert changes["present"] > 0
    assert changes["version"] > 0
    assert (changes["lost"], changes["back"], changes["lost_on_disk"]) == (0, 0, 0)
    assert changes["not_found"] == 0
    assert changes["miscounted"] in (0, None)


@pytest.mark.parametrize("address", ["http://192.0.2.1:80", "http://example.org:80", "http://127.0.0.1", "nonsense"])
def test_load_is_limited_to_this_machine(address: str) -> None:
    with pytest.raises(ValueError, match="is not on this machine; give an address on 127"):
        run_load(Load(address, 1.0, "absent.npy", 1))


def test_memory_and_cpu_time_of_processes() -> None:
    if not os.path.exists("/proc/self/smaps_rollup"):
        pytest.skip("there is no /proc here")
    assert (memory_bytes(os.getpid()) or 0) > 10**7
    assert (cpu_seconds(os.getpid()) or 0) > 0.1
