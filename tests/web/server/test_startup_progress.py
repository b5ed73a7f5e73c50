"""Progress reports of a long task, and the data of the wait page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kinrank.progress import Progress
from kinrank.web.server import wait_page as module
from kinrank.web.server.wait_page import MAX_STAGES, StartupProgress


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that advances the clock."""
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


def shown(progress: StartupProgress, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(one[name] for name in names) for one in progress.to_dict()["stages"]]


def test_nothing_yet() -> None:
    progress = StartupProgress("photos")
    assert progress.describe() == "the gallery is being prepared"
    facts = progress.to_dict()
    assert (facts["state"], facts["title"], facts["stages"]) == ("preparing", "photos", [])


def test_speed_and_time_left(passes: Callable[[float], None]) -> None:
    progress = StartupProgress("photos")
    progress("embedding pictures", 1000, 5000)  # earlier work does not count for the rate
    assert shown(progress, "counted", "rate", "left") == [(False, None, None)]
    for done in range(1010, 1110, 10):
        passes(1.0)
        progress("embedding pictures", done, np.int64(5000))
    assert shown(progress, "counted", "rate", "left") == [(True, 10.0, 390.0)]
    assert progress.describe() == "the gallery is being prepared: embedding pictures, 1100 of 5000"
    assert progress.describe(with_details=False) == "the gallery is being prepared"
    passes(90.0)
    assert shown(progress, "rate")[0][0] == pytest.approx(1.0), "it got stuck"


def test_speed_is_that_of_the_last_half_minute(passes: Callable[[float], None]) -> None:
    progress, done = StartupProgress("photos"), 0
    for rate in (100, 10):
        for _ in range(120):
            passes(0.5)
            done += rate
            progress("embedding", done, 10**6)
    assert shown(progress, "rate")[0][0] == pytest.approx(20.0)


def test_stages_of_a_manifold(passes: Callable[[float], None]) -> None:
    """Each of a few steps is reported once, which does not say how far the work is."""
    progress = StartupProgress("photos")
    report = Progress(progress)
    report.stage("neighbours", 0, 4)
    for _ in report.each("neighbours", range(3), 3):
        passes(1.0)
    assert shown(progress, "label", "done", "total", "counted") == [("neighbours", 3, 3, True)]
    report.stage("diffusion", 1, 4)
    passes(2.0)
    report.stage("states", 2, 4)
    assert shown(progress, "label", "counted", "over", "seconds") == [
        ("neighbours", True, True, 3.0),
        ("diffusion", False, True, 2.0),
        ("states", False, False, 0.0),
    ]
    assert progress.describe() == "the gallery is being prepared: states"


def test_it_does_not_grow_without_end() -> None:
    progress = StartupProgress("photos")
    for number in range(3 * MAX_STAGES):
        progress(f"stage {number}", 0, 1)
    assert [label for (label,) in shown(progress, "label")] == [
        f"stage {n}" for n in range(2 * MAX_STAGES, 3 * MAX_STAGES)
    ]


def test_a_problem(passes: Callable[[float], None]) -> None:
    progress = StartupProgress("photos")
    assert not progress.is_watched
    progress.to_dict()
    assert progress.is_watched
    progress.fail("photos is empty")
    assert not progress.problem_was_read
    assert progress.describe() == "the gallery could not be prepared: photos is empty"
    assert progress.describe(with_details=False) == "the gallery could not be prepared"
    assert (progress.to_dict()["state"], progress.to_dict()["problem"]) == ("failed", "photos is empty")
    assert progress.problem_was_read
    passes(5.0)
    assert not progress.is_watched
