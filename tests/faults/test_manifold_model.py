"""Many random changes of a Manifold against a simple model; KINRANK_MODEL_EXAMPLES=2000 runs even more."""

from __future__ import annotations

import pytest

import kinrank as kr
from manifold.test_machine import CASES, run

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.mark.parametrize(("methods", "exact"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_long_sequences_of_changes_agree_with_the_model(methods: list[kr.Method], exact: bool) -> None:
    run(methods, exact, examples=60, steps=25)
