"""Damaged and crafted folders are refused with a message or harmless; nothing crashes or hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.corruption import failures, saved_folders

pytestmark = [pytest.mark.faults, pytest.mark.slow]

RANDOM = int(os.environ.get("KINRANK_CORRUPTIONS", "500"))
CRAFTED = RANDOM // 5


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return saved_folders(tmp_path_factory.mktemp("folders"))


def test_random_corruptions_are_noticed_or_change_no_answer(folders: list[Path]) -> None:
    outcomes, bad = failures("random", folders, RANDOM)
    assert bad == []
    assert outcomes["refused"] + outcomes["harmless"] == RANDOM
    assert outcomes["refused"] > RANDOM / 2


def test_corruptions_with_right_checksums_are_refused_or_harmless(folders: list[Path]) -> None:
    outcomes, bad = failures("crafted", folders, CRAFTED)
    assert bad == []
    assert outcomes["refused"] + outcomes["harmless"] == CRAFTED
    assert min(outcomes.values()) > 0


def test_absurd_parameters_are_refused_or_harmless(folders: list[Path]) -> None:
    outcomes, bad = failures("extreme", folders, RANDOM // 10)
    assert bad == []
    assert min(outcomes.values()) > 0
