"""Machine code of a wheel: used on a computer it fits, and otherwise treated as missing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import pytest

from kinrank.errors import InputError
from kinrank.stages.kernels import compiler, shipped_code
from kinrank.warmup import write_baseline_code

KERNEL = """
from kinrank.stages.kernels.compiler import compile_kernel


@compile_kernel
def double(start, stop, values, result):
    for place in range(start, stop):
        result[place] = 2 * values[place]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that takes the place of the one in the package."""
    place = tmp_path / "machine_code"
    place.mkdir()
    monkeypatch.setattr(shipped_code, "FOLDER", place)
    monkeypatch.setattr(shipped_code, "BASELINES", {shipped_code.platform.machine(): ("any", frozenset())})
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "local"))
    return place


@pytest.fixture
def kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Return a function that loads a kernel whose code was shipped, as a new process would."""
    (folder.parent / "loops.py").write_text(KERNEL)

    def load() -> Any:
        shipped_code.read_checksums.cache_clear()
        spec = importlib.util.spec_from_file_location("loops", folder.parent / "loops.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.double

    with monkeypatch.context() as patch:
        patch.setenv(shipped_code.WRITE_VARIABLE, "1")
        assert is_compiled(load())
    shipped_code.write_manifest(folder)
    return load


def is_compiled(kernel: Any) -> bool:
    """Use the kernel, check its result, and return whether it had to be compiled."""
    result = np.zeros(3)
    kernel(0, 3, np.arange(3.0), result)
    assert result.tolist() == [0.0, 2.0, 4.0]
    return bool(sum(kernel.stats.cache_misses.values()))


def test_shipped_code_is_used_and_nothing_is_written(kernel: Callable[[], Any], folder: Path) -> None:
    before = sorted(folder.iterdir())
    assert not is_compiled(kernel())
    assert sorted(folder.iterdir()) == before
    assert not list(folder.parent.glob("local/*/*.nb?"))
    assert str(folder.parent).encode() not in b"".join(path.read_bytes() for path in before)


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1] + b"?", lambda data: b"", lambda data: data[: len(data) // 2]]
)
def test_a_damaged_file_counts_as_missing(
    kernel: Callable[[], Any], folder: Path, suffix: str, damage: Callable[[bytes], bytes]
) -> None:
    (path,) = folder.glob(f"*.{suffix}")
    path.write_bytes(damage(path.read_bytes()))
    assert is_compiled(kernel())


@pytest.mark.parametrize("suffix", ["nbi", "nbc", "json"])
def test_a_removed_file_counts_as_missing(kernel: Callable[[], Any], folder: Path, suffix: str) -> None:
    next(folder.glob(f"*.{suffix}")).unlink()
    assert is_compiled(kernel())


def test_files_that_the_manifest_does_not_list_are_not_read(kernel: Callable[[], Any], folder: Path) -> None:
    manifest = json.loads((folder / shipped_code.MANIFEST).read_text())
    (folder / shipped_code.MANIFEST).write_text(json.dumps({**manifest, "files": {}}))
    assert is_compiled(kernel())


@pytest.mark.parametrize("key", ["processor", "system", "python", "numba", "llvmlite", "sources"])
def test_code_for_something_else_counts_as_missing(kernel: Callable[[], Any], folder: Path, key: str) -> None:
    manifest = json.loads((folder / shipped_code.MANIFEST).read_text())
    manifest["baseline"][key] += "0"
    (folder / shipped_code.MANIFEST).write_text(json.dumps(manifest))
    assert is_compiled(kernel())


@pytest.mark.parametrize("text", ["{", "null", '{"baseline": 1}', "\ud800"])
def test_a_damaged_manifest_counts_as_missing(kernel: Callable[[], Any], folder: Path, text: str) -> None:
    (folder / shipped_code.MANIFEST).write_bytes(text.encode("utf-8", "surrogatepass"))
    assert is_compiled(kernel())


def test_a_processor_without_the_features_compiles(kernel: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    machine = shipped_code.platform.machine()
    needed = frozenset({"avx2", "fma"})
    monkeypatch.setattr(shipped_code, "BASELINES", {machine: ("any", needed)})
    for host, compiled in [({"avx2": True, "fma": True}, False), ({"avx2": True, "fma": False}, True), ({}, True)]:
        monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda host=host: host)
        shipped_code.read_checksums.cache_clear()
        assert bool(shipped_code.read_checksums(shipped_code.FOLDER)) is not compiled


def test_a_processor_that_the_user_chose_is_compiled_for(
    kernel: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert is_compiled(kernel())


def test_this_kind_of_processor_has_a_baseline() -> None:
    assert shipped_code.describe_baseline()["processor"]
    assert shipped_code.describe_baseline()["sources"] == compiler.SOURCE_DIGEST


def test_an_unknown_kind_of_processor_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_code, "BASELINES", {})
    with pytest.raises(InputError, match="no baseline processor"):
        write_baseline_code()


def test_the_baseline_is_compiled_in_a_process_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "old.nbc").write_text("of an earlier version")
    runs: list[dict[str, str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, env, check: runs.append(env))
    assert write_baseline_code() == folder
    assert [path.name for path in folder.iterdir()] == [shipped_code.MANIFEST]
    assert runs[0]["NUMBA_CPU_NAME"] == "any"
    assert sys.platform in (folder / shipped_code.MANIFEST).read_text()
