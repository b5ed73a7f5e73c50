"""`kinrank warmup` reaches every loop, and machine code is read from where nothing can be written."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import caching
from typer.testing import CliRunner

import kinrank
from kinrank import warmup
from kinrank.cli.app import app

LOOP = """
from kinrank.stages.kernels.compiled import compiled


@compiled
def double(start, stop, values, result):
    for place in range(start, stop):
        result[place] = 2 * values[place]
"""


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    monkeypatch.setattr(warmup, "_run", done.append)
    return done


def test_every_method_is_warmed_up_joint_and_served(jobs: list[str]) -> None:
    assert warmup.warm_up(processes=1) >= 0
    assert set(kinrank.METHODS) - {"lpmt-ablation"} | {"prepared", "served", "changed"} == set(jobs)
    assert len(jobs) == len(set(jobs))


def test_the_command_says_how_long_it_took(jobs: list[str]) -> None:
    found = CliRunner().invoke(app, ["warmup", "--processes", "1", "--json", "-q"])
    assert json.loads(found.stdout)["seconds"] >= 0
    assert "compiled" in CliRunner().invoke(app, ["warmup", "--processes", "1", "-q"]).stdout


def test_a_method_is_warmed_up_on_both_sides_of_small() -> None:
    warmup.warm("lpmt")
    loops = kinrank.stages.kernels.diffusion
    assert loops.nearest_rows.signatures
    assert loops.block_nearest_rows.signatures


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """A loop in a file of its own, as a process that starts would get it."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    path = tmp_path / "loops.py"
    path.write_text(LOOP)

    def fresh() -> Any:
        spec = importlib.util.spec_from_file_location("loops", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.double

    return fresh


def doubled(loop: Any) -> list[float]:
    values, result = np.arange(3.0), np.zeros(3)
    loop(0, 3, values, result)
    return [float(value) for value in result]


def nowhere(*_: Any) -> None:
    raise PermissionError("read-only")


def test_code_is_read_where_nothing_can_be_written(
    loop: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = loop()
    assert doubled(first) == [0.0, 2.0, 4.0]
    assert sum(first.stats.cache_misses.values()) == 1
    written = sorted(tmp_path.rglob("*.nb?"))
    assert written
    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", nowhere)
    second = loop()
    assert doubled(second) == [0.0, 2.0, 4.0]
    assert sum(second.stats.cache_hits.values()) == 1
    assert sorted(tmp_path.rglob("*.nb?")) == written


def test_without_any_folder_loops_are_compiled_for_the_process(
    loop: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", nowhere)
    assert doubled(loop()) == [0.0, 2.0, 4.0]
    assert not list(tmp_path.rglob("*.nb?"))


def test_a_named_folder_is_the_only_one_looked_into(
    loop: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubled(loop())
    assert str(tmp_path / "__pycache__") in loop()._cache.folders
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    assert isinstance(loop()._cache._beside, caching.NullCache)
