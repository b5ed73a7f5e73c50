"""Random changes of a Manifold against a simple model; `make test-faults` runs many more."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

import kinrank as kr
from manifold.machine import CHAINS, EXPANSIONS, SMALL, ManifoldMachine

EXAMPLES = int(os.environ.get("KINRANK_MODEL_EXAMPLES", "0"))  # examples per machine; 0 for the default
CASES = [("chains", CHAINS, False), ("chains, exact", [SMALL], True), ("expansions", EXPANSIONS, False)]


def run(methods: list[kr.Method], exact: bool, examples: int, steps: int) -> None:
    machine = type("Machine", (ManifoldMachine,), {"methods": methods, "exact": exact})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


@pytest.mark.parametrize(("methods", "exact"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_changes_agree_with_the_model(methods: list[kr.Method], exact: bool) -> None:
    run(methods, exact, examples=4, steps=10)
