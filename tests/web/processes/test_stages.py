"""What a long piece of work tells -> what the page shows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kinrank.progress import Progress
from kinrank.web.processes import stages as module
from kinrank.web.processes.stages import MOST, Stages


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets so many seconds pass."""
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


def shown(stages: Stages, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(one[name] for name in names) for one in stages.facts()["stages"]]


def test_nothing_yet() -> None:
    stages = Stages("photos")
    assert stages.sentence() == "the gallery is being prepared"
    facts = stages.facts()
    assert (facts["state"], facts["title"], facts["stages"]) == ("preparing", "photos", [])


def test_speed_and_time_left(passes: Callable[[float], None]) -> None:
    stages = Stages("photos")
    stages("embedding pictures", 1000, 5000)  # what was there before counts for nothing
    assert shown(stages, "counted", "rate", "left") == [(False, None, None)]
    for done in range(1010, 1110, 10):
        passes(1.0)
        stages("embedding pictures", done, np.int64(5000))
    assert shown(stages, "counted", "rate", "left") == [(True, 10.0, 390.0)]
    assert stages.sentence() == "the gallery is being prepared: embedding pictures, 1100 of 5000"
    assert stages.sentence(known=False) == "the gallery is being prepared"
    passes(90.0)
    assert shown(stages, "rate")[0][0] == pytest.approx(1.0), "it got stuck"


def test_speed_is_that_of_the_last_half_minute(passes: Callable[[float], None]) -> None:
    stages, done = Stages("photos"), 0
    for rate in (100, 10):
        for _ in range(120):
            passes(0.5)
            done += rate
            stages("embedding", done, 10**6)
    assert shown(stages, "rate")[0][0] == pytest.approx(20.0)


def test_stages_of_a_manifold(passes: Callable[[float], None]) -> None:
    """Of a few steps each is told once; that says nothing of how far it is."""
    stages = Stages("photos")
    report = Progress(stages)
    report.stage("neighbours", 0, 4)
    for _ in report.each("neighbours", range(3), 3):
        passes(1.0)
    assert shown(stages, "label", "done", "total", "counted") == [("neighbours", 3, 3, True)]
    report.stage("diffusion", 1, 4)
    passes(2.0)
    report.stage("states", 2, 4)
    assert shown(stages, "label", "counted", "over", "seconds") == [
        ("neighbours", True, True, 3.0), ("diffusion", False, True, 2.0), ("states", False, False, 0.0),
    ]  # fmt: skip
    assert stages.sentence() == "the gallery is being prepared: states"


def test_it_does_not_grow_without_end() -> None:
    stages = Stages("photos")
    for number in range(3 * MOST):
        stages(f"stage {number}", 0, 1)
    assert [label for (label,) in shown(stages, "label")] == [f"stage {n}" for n in range(2 * MOST, 3 * MOST)]


def test_a_problem(passes: Callable[[float], None]) -> None:
    stages = Stages("photos")
    assert not stages.watched
    stages.facts()
    assert stages.watched
    stages.fail("photos is empty")
    assert not stages.seen
    assert stages.sentence() == "the gallery could not be prepared: photos is empty"
    assert stages.sentence(known=False) == "the gallery could not be prepared"
    assert (stages.facts()["state"], stages.facts()["problem"]) == ("failed", "photos is empty")
    assert stages.seen
    passes(5.0)
    assert not stages.watched
