"""Where tests find what they share: the folder of real features, and small made-up sets."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kinrank
from kinrank.testing import made_up

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "false")

SHARED = Path(os.environ.get("KINRANK_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder with real features; tests that need it are skipped, with this message, where it is absent."""
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
    """`ready(name, dimensions=12)`: a method as it can run; a learned one with small made-up weights."""
    folder = tmp_path_factory.mktemp("weights")

    @functools.cache
    def made(name: str, dimensions: int = 12) -> kinrank.Method:
        return made_up(name, folder / f"{name}-{dimensions}.npz", dimensions)

    return made


SLOW = {
    "bench/paper/test_odd_sets.py",
    "bench/paper/test_paper.py",
    "bench/test_accuracy.py",
    "bench/test_bench.py",
    "bench/test_defaults.py",
    "bench/test_diagnosis.py",
    "bench/test_learned.py",
    "bench/test_modes.py",
    "bench/test_whitening.py",
    "cli/test_bench_accuracy.py",
    "cli/test_change.py",
    "cli/test_cli.py",
    "cli/test_embed.py",
    "cli/test_fit.py",
    "cli/test_compare.py",
    "cli/test_fuse.py",
    "cli/test_groups_and_export.py",
    "cli/test_ids.py",
    "cli/test_inputs.py",
    "cli/test_manifold.py",
    "cli/test_mistakes.py",
    "cli/test_observe.py",
    "cli/test_output.py",
    "cli/test_report.py",
    "cli/test_search_wanted.py",
    "cli/test_serve.py",
    "cli/test_together.py",
    "cli/test_tune.py",
    "cli/test_whiten.py",
    "cli/test_wording.py",
    "client/test_client.py",
    "contract/test_methods.py",
    "contract/test_suite.py",
    "datasets/test_benchmark.py",
    "datasets/test_turntable.py",
    "diagnosis/test_tuning.py",
    "distributed/test_build_and_rerank.py",
    "distributed/test_cluster.py",
    "files/test_closed_pickle.py",
    "integrations/test_every_framework.py",
    "integrations/test_haystack.py",
    "integrations/test_lancedb.py",
    "integrations/test_langchain.py",
    "integrations/test_llamaindex.py",
    "manifold/test_changes.py",
    "manifold/test_euclidean.py",
    "manifold/test_exchange.py",
    "manifold/test_export.py",
    "manifold/test_feedback.py",
    "manifold/test_files.py",
    "manifold/test_journal.py",
    "manifold/test_manifold.py",
    "manifold/test_masks.py",
    "manifold/test_observe.py",
    "manifold/test_served_methods.py",
    "manifold/test_together.py",
    "manifold/test_travelling.py",
    "manifold/test_verify.py",
    "methods/test_diffusion.py",
    "methods/test_gss.py",
    "methods/test_learned.py",
    "methods/test_lpmt.py",
    "methods/test_parameters.py",
    "report/test_demo.py",
    "report/test_evidence.py",
    "stages/kernels/test_compiled.py",
    "stages/test_diffusion.py",
    "stages/test_pipeline.py",
    "stages/test_transport.py",
    "stores/test_chroma.py",
    "stores/test_duckdb.py",
    "stores/test_engines.py",
    "stores/test_lancedb.py",
    "stores/test_pgvector.py",
    "stores/test_qdrant.py",
    "test_combine.py",
    "test_docs.py",
    "test_metric.py",
    "test_ranking.py",
    "test_rerank_wanted.py",
    "test_thermodynamics.py",
    "test_warmup.py",
    "web/http/test_api.py",
    "web/http/test_guard.py",
    "web/lasting/test_following.py",
    "web/lasting/test_writer.py",
    "web/processes/test_protocol.py",
    "web/processes/test_supervisor.py",
    "web/sources/test_source.py",
    "web/test_documented.py",
    "web/test_fuzz.py",
    "web/test_page.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests are fast unless their file stands in SLOW or in a slow folder: `make test-fast` takes under a minute."""
    root = Path(__file__).resolve().parent
    for item in items:
        path = item.path.relative_to(root)
        if path.as_posix() not in SLOW and path.parts[0] not in ("encoders", "faults", "learned", "watching"):
            item.add_marker(pytest.mark.fast)
