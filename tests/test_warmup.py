"""`kinrank warmup` compiles every loop, and compiled code is read from read-only folders."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import caching
from typer.testing import CliRunner

import kinrank
from kinrank import warmup
from kinrank.cli.app import app
from kinrank.stages.kernels import compiler
from kinrank.stages.kernels.compiler import NOT_CACHED_MESSAGE

pytestmark = pytest.mark.slow

LOOP = """
from kinrank.stages.kernels.compiler import compile_kernel


@compile_kernel
def double(start, stop, values, result):
    for place in range(start, stop):
        result[place] = 2 * values[place]
"""


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    monkeypatch.setattr(warmup, "_run_job", done.append)
    return done


def test_every_method_is_warmed_up_joint_and_served(jobs: list[str]) -> None:
    assert warmup.warm_up(processes=1) >= 0
    # without loops of their own:
    alike = {"lpmt-ablation", "lpmt-as-published", "csa", "ssr", "lattqe", "lattdba+lattqe"}
    assert set(kinrank.METHODS) - alike | {"steps", "prepared", "served", "changed"} == set(jobs)
    assert len(jobs) == len(set(jobs))


def test_the_command_says_how_long_it_took(jobs: list[str]) -> None:
    found = CliRunner().invoke(app, ["warmup", "--processes", "1", "--json", "-q"])
    assert json.loads(found.stdout)["seconds"] >= 0
    assert "compiled" in CliRunner().invoke(app, ["warmup", "--processes", "1"]).stdout
    assert CliRunner().invoke(app, ["warmup", "--processes", "1", "-q"]).output == ""


def test_a_method_is_warmed_up_on_both_sides_of_small() -> None:
    warmup.warm_up_method("lpmt")
    loops = kinrank.stages.diffusion
    assert loops.nearest_rows.signatures
    assert loops.block_nearest_rows.signatures


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Return a loop in a file of its own, as a new process would load it."""
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
    assert loop()._cache.cache_path == str(tmp_path / "__pycache__")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    assert isinstance(loop()._cache._source_folder, caching.NullCache)


LOCKED = """
import ctypes, os, sys

header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
if os.geteuid() == 0:  # root may write everywhere unless it drops that right
    assert ctypes.CDLL(None).capset(header, none) == 0
try:
    open(os.path.join(os.path.dirname(os.environ["PYTHONPATH"]), "note"), "w")
    sys.exit("this process can still write")
except PermissionError:
    pass
from kinrank_entry.start import main

sys.argv[0] = "kinrank"
main()
"""


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a read-only folder: the package without compiled code, a home, vectors."""
    if not hasattr(ctypes.CDLL(None), "capset") and not hasattr(os, "geteuid"):
        pytest.skip("needs permissions as Linux has them")
    folder = tmp_path_factory.mktemp("locked")
    source = Path(kinrank.__file__).parent
    shutil.copytree(source, folder / "src" / "kinrank", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "home").mkdir()
    np.save(folder / "rows.npy", np.random.default_rng(0).standard_normal((40, 8)))
    every = [folder, *folder.rglob("*")]
    for path in every:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in every:
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize(
    "places",
    [
        {"HOME": "@home", "TMPDIR": "@home"},
        {"HOME": "@home", "NUMBA_CACHE_DIR": "@home/code"},
        {"HOME": "/dev/null/x", "NUMBA_CACHE_DIR": "@rows.npy/code"},
    ],
    ids=["home is read-only", "named folder is read-only", "below a file"],
)
def test_a_locked_down_container_compiles_without_keeping_the_code(
    places: dict[str, str], locked: Path, tmp_path: Path
) -> None:
    there = {name: value.replace("@", f"{locked}/") for name, value in places.items()}
    command = ["rerank", "--gallery", str(locked / "rows.npy"), "-m", "dfs", "-o", str(tmp_path / "ranking.npz")]
    done = subprocess.run(
        [sys.executable, "-c", LOCKED, *command],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(locked / "src"), "KINRANK_THREADS": "1", **there},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ranking.npz").is_file()
    progress = re.compile(r"kinrank: \w+, \d+ of \d+, \d+ s")  # printed if it takes more than ten seconds
    first, last = (line for line in done.stderr.splitlines() if not progress.fullmatch(line))
    assert first == NOT_CACHED_MESSAGE
    assert last.startswith("kinrank: compiled ")
    assert "NUMBA_CACHE_DIR" in NOT_CACHED_MESSAGE


def test_a_disk_that_fills_up_meanwhile_is_said_once(
    loop: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiler, "COMPILATION_LOG", compiler.CompilationLog())
    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    with caplog.at_level("WARNING", "kinrank"):
        double = loop()
        assert doubled(double) == [0.0, 2.0, 4.0]
        double(0, 1, np.zeros(1, np.float32), np.zeros(1, np.float32))
        compiler.COMPILATION_LOG.report()
    first, second, last = (record.getMessage() for record in caplog.records)
    assert [first, second] == [compiler.COMPILING_MESSAGE, NOT_CACHED_MESSAGE]
    assert last.startswith("kinrank: compiled 2 kernels of loops in ")


def test_what_is_compiled_is_said_every_time(loop: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> None:
    compiler.COMPILATION_LOG.report()  # of other tests
    caplog.clear()
    with caplog.at_level("WARNING", "kinrank"):
        for kind in (np.float64, np.float32):
            loop()(0, 1, np.zeros(1, kind), np.zeros(1, kind))
            compiler.COMPILATION_LOG.report()
    said = [record.getMessage().split(" in ")[0] for record in caplog.records]
    assert said == [compiler.COMPILING_MESSAGE, "kinrank: compiled 1 kernel of loops"] * 2


JOBS = """
import sys

from kinrank import warmup

for job in sys.argv[1:]:
    warmup._run_job(job)
"""


def test_steps_are_compiled_apart_and_for_the_same_types(tmp_path: Path) -> None:
    def run(*jobs: str) -> set[str]:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "KINRANK_THREADS": "1"}
        subprocess.run([sys.executable, "-c", JOBS, *jobs], env=environment, check=True, timeout=300)
        return {path.name for path in tmp_path.rglob("*.nbc")}

    apart = run("steps")
    stages = {name.split(".")[0] for name in apart}
    assert stages == {"csr", "distance_fusion", "states", "step_costs", "transport"}
    assert {name.split(".")[0] for name in run("lpmt") - apart} >= {"diffusion", "gaussian_graph", "nearest_search"}
    later = run("prepared")
    assert not [name for name in later - apart if name.startswith(("step_costs.", "transport.", "csr."))]
    assert not [name for name in later if name.startswith(("step_costs.", "transport.", "csr.")) and ".2.nbc" in name]


@pytest.mark.parametrize("needed", [True, False])
def test_loops_are_compiled_while_something_else_is_done(
    needed: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(warmup.shipped_code, "is_stored", lambda kernel: False)
    children: list[Any] = []
    messages: list[Any] = []
    start = subprocess.Popen

    def record(command: list[str], stderr: Any, **options: Any) -> Any:
        compile(command[-1], "program", "exec")
        children.append(start([sys.executable, "-c", "import time; time.sleep(60)"], **options))
        messages.append(stderr)
        return children[-1]

    monkeypatch.setattr(subprocess, "Popen", record)
    with caplog.at_level("WARNING", "kinrank"), warmup.compile_meanwhile("lpmt", needed=needed):
        assert children[0].poll() is None
    assert children[0].poll() is not None
    with caplog.at_level("ERROR", "kinrank"), warmup.compile_meanwhile("steps", needed=needed):  # --quiet
        assert len(children) == 2
    assert messages == [None if needed else subprocess.DEVNULL, subprocess.DEVNULL]
    monkeypatch.setattr(warmup.shipped_code, "is_stored", lambda kernel: True)
    with warmup.compile_meanwhile("lpmt", needed=needed):
        assert len(children) == 2


def test_a_block_can_wait_for_the_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(warmup.shipped_code, "is_stored", lambda kernel: False)
    children: list[Any] = []
    start = subprocess.Popen
    work = [sys.executable, "-c", "import time; time.sleep(0.5)"]
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: children.append(start(work)) or children[-1])
    with warmup.compile_meanwhile("prepared", needed=True) as finish:
        assert finish() == 0
    assert children[0].returncode == 0  # it was not terminated
    monkeypatch.setattr(warmup.shipped_code, "is_stored", lambda kernel: True)
    with warmup.compile_meanwhile("prepared", needed=True) as finish:
        assert finish() is None  # nothing to compile


def full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_damaged_code_is_compiled_again(loop: Callable[[], Any], tmp_path: Path) -> None:
    doubled(loop())
    for path in tmp_path.rglob("*.nb?"):
        path.write_bytes(b"torn")
    assert doubled(loop()) == [0.0, 2.0, 4.0]


CHILD = """
from multiprocessing import get_context

def work(name):
    import kinrank, numpy as np
    kinrank.rerank(np.eye(3), np.eye(3), name)

if __name__ == "__main__":
    work("dfs")
    with get_context("spawn").Pool(2) as pool:
        pool.map(work, ["egt", "knn"])
"""


def test_compiling_is_said_by_a_process_and_not_by_those_it_starts(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(CHILD)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "code")}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "work.py")], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == compiler.COMPILING_MESSAGE
    assert [line[:17] for line in lines[1:]] == ["kinrank: compiled"]
