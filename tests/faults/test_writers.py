"""Writers that are killed, and several at once: acknowledged changes are there, and nothing else."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import kinrank as kr
from kinrank.manifold.verify import verify
from reference.writers import a_gallery, as_given, at_once, killed, left_by_lines

pytestmark = [pytest.mark.faults, pytest.mark.slow]

KILLS = int(os.environ.get("KINRANK_KILLS", "40"))
SECONDS = float(os.environ.get("KINRANK_WRITERS_SECONDS", "15"))


def test_killed_during_add(tmp_path: Path) -> None:
    """Half of them in a gallery of few arrays, which is written quickly, half in one of many."""
    hit = Counter[str]()
    for method, kills in ((kr.methods.AQE(k=3), KILLS // 2), (kr.LPMT(), KILLS - KILLS // 2)):
        folder = tmp_path / method.name / "gallery"
        folder.parent.mkdir()
        a_gallery(folder, method)
        hit += killed(folder, "by_command", kills, seed=13, both=True)
    assert hit.total() >= KILLS
    assert hit["append"] > 0, hit
    assert hit["rewrite"] > 0, hit


def test_four_writers_and_their_readers(tmp_path: Path) -> None:
    folder = tmp_path / "gallery"
    names = a_gallery(folder, kr.methods.AQE(k=3))
    writers = ["by_command", "by_command", "in_turn", "by_trying"]
    output = at_once(folder, [*writers, "read", "read_by_command"], SECONDS, enough=True)
    assert all(output)  # each of them was used
    assert verify(folder).whole
    assert set(kr.Manifold.load(folder).ids.tolist()) == names | left_by_lines(output[:4])
    assert as_given(folder)
    assert all(any(line.startswith("-") for line in each) for each in output[:4])
