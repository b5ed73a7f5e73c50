"""Shared fixtures: the folder of real features, and small synthetic sets."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import kinrank
import kinrank.progress
from kinrank_bench.random_weights import add_random_weights
from reference.waiting import PATIENCE

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "false")

PASSED = os.environ.get("KINRANK_PASSED")  # file of tests that passed; `.ci/run` shares it, so that none runs twice
kinrank.Client.__init__.__kwdefaults__["timeout"] = PATIENCE  # on a busy machine, 30 s are too short for tests
kinrank.progress.LINE_SECONDS = 86_400.0  # many tests require that a command prints nothing on stderr
SHARED = Path(os.environ.get("KINRANK_SHARED", Path(__file__).resolve().parents[2] / "shared"))

# Property tests use the same examples in every run, so that no run fails by bad luck. `make test-nightly` sets
# KINRANK_EXAMPLES: so many times as many examples, other ones every night.
EXAMPLES = int(os.environ.get("KINRANK_EXAMPLES", "0"))
settings.register_profile("kinrank", derandomize=not EXAMPLES, deadline=None, print_blob=True)
settings.load_profile("kinrank")

# Files that take longest, by CPU time. They go first: with two processes, the last file decides when both are done.
LONG = (
    "stages/test_pipeline.py",
    "methods/test_lpmt.py",
    "distributed/test_build_and_rerank.py",
    "contract/test_methods.py",
    "test_docs.py",
    "test_warmup.py",
    "test_examples.py",
    "web/server/test_supervisor.py",
    "web/server/test_wait_page.py",
    "manifold/test_saved_folders.py",
    "stages/kernels/test_compiler.py",
    "bench/test_time_and_memory.py",
    "manifold/test_manifold.py",
    "methods/test_parameters.py",
    "cli/test_entry.py",
    "bench/test_default_parameters.py",
    "bench/test_service_load.py",
    "web/server/test_hung_worker.py",
    "faults/test_writers.py",
    "faults/test_service_kills.py",
    "faults/test_flat_memory.py",
)


def pytest_configure(config: pytest.Config) -> None:
    if PASSED and not hasattr(config, "workerinput"):
        config.pluginmanager.register(PassedTests(Path(PASSED)), "passed-tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that passed before, and put files that take long first."""
    if PASSED and Path(PASSED).exists():
        before = set(Path(PASSED).read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in before])
        items[:] = [item for item in items if item.nodeid not in before]
    if EXAMPLES:
        multiply_examples(items)
    ranks = {name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0].removeprefix("tests/"), len(LONG)))


def multiply_examples(items: list[pytest.Item]) -> None:
    functions = {getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None)) for item in items}
    for function in functions:
        given = getattr(function, "_hypothesis_internal_use_settings", None)
        if given is not None:
            function._hypothesis_internal_use_settings = settings(given, max_examples=EXAMPLES * given.max_examples)


class PassedTests:
    """Writes down the tests that pass; a run in which all have passed before is a success."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._called: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._called.add(report.nodeid)
        if report.when == "teardown" and report.passed and report.nodeid in self._called:
            with self._path.open("a") as file:
                file.write(f"{report.nodeid}\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder with real features; tests that need it are skipped with this message if it is missing."""
    if not (SHARED / "data").is_dir():
        pytest.skip(
            f"real features not found at {SHARED}; set KINRANK_SHARED to the folder that holds data/ and golden/"
        )
    return SHARED


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., kinrank.Method]:
    """Return `ready(name, dimensions=12)`: a method that can run; a learned one gets small random weights."""
    folder = tmp_path_factory.mktemp("weights")

    @functools.cache
    def made(name: str, dimensions: int = 12) -> kinrank.Method:
        return add_random_weights(name, folder / f"{name}-{dimensions}.npz", dimensions)

    return made
