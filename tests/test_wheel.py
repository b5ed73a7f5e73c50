"""The wheel with machine code in a fresh environment: fast from the first call. `make test-wheel` runs this."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from kinrank.stages.kernels import shipped_code
from test_distributions import check_links

WHEEL = os.environ.get("KINRANK_WHEEL", "")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not WHEEL, reason="needs a wheel: make test-wheel")]

FIRST_USE_SECONDS = 3.0
LARGEST_DIFFERENCE = 1e-3  # of a distance, between code for the baseline and code for this processor
FIRST_USE = """
import sys, time
start = time.process_time()
import numpy as np
import kinrank as kr
rows = np.random.default_rng(0).standard_normal((1300, 24)).astype(np.float32)
rankings = [kr.rerank(rows[:20], rows[20:500])]
print(time.process_time() - start)
rankings.append(kr.rerank(rows[:20], rows[20:]))
rankings.append(kr.rerank(rows[:3], rows[20:], candidates=100))
rankings.append(kr.rerank(rows[:20], rows[20:500], "k-reciprocal"))
gallery = kr.Manifold.build(rows[20:500])
rankings.append(gallery.search(rows[:3], k=20))
np.savez(sys.argv[1], *(part for ranking in rankings for part in (ranking.distances, ranking.indices)))
"""


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that holds the wheel, what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", WHEEL], check=True)
    return python


def test_readme_in_the_wheel_has_absolute_links() -> None:
    with zipfile.ZipFile(WHEEL) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode("utf-8").partition("\n\n")[2]
    check_links(text, "https://github.com/kinrank/kinrank")


def use(interpreter: Path, output: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    hidden = ("NUMBA_", "PYTHON", "KINRANK_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    command = [str(interpreter), "-c", FIRST_USE, str(output)]
    done = subprocess.run(
        command, env={**environment, **variables}, cwd=output.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_first_use_is_fast_and_has_the_bits_of_a_local_compilation(interpreter: Path, tmp_path: Path) -> None:
    places = [interpreter.parents[1], tmp_path / "home"]
    before = {path for place in places for path in place.rglob("*.nb?")}
    shipped = use(interpreter, tmp_path / "shipped.npz", HOME=str(tmp_path / "home"))
    assert shipped.stderr == ""
    assert {path for place in places for path in place.rglob("*.nb?")} == before
    assert float(shipped.stdout) < FIRST_USE_SECONDS
    processor = shipped_code.BASELINES[platform.machine()][0]
    choice = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path / "baseline")}
    assert "compiling" in use(interpreter, tmp_path / "compiled.npz", **choice).stderr
    there, here = np.load(tmp_path / "shipped.npz"), np.load(tmp_path / "compiled.npz")
    assert len(there.files) == 10
    assert all(np.array_equal(there[name], here[name]) for name in there.files)


def test_other_code_for_this_processor_differs_in_the_last_bits_only(interpreter: Path, tmp_path: Path) -> None:
    import llvmlite.binding

    use(interpreter, tmp_path / "shipped.npz")
    choice = {"NUMBA_CPU_NAME": llvmlite.binding.get_host_cpu_name(), "NUMBA_CACHE_DIR": str(tmp_path / "host")}
    use(interpreter, tmp_path / "host.npz", **choice)
    there, here = np.load(tmp_path / "shipped.npz"), np.load(tmp_path / "host.npz")
    for name in there.files[::2]:
        difference = np.abs(np.sort(there[name]) - np.sort(here[name])).max()
        print(f"{name}: {difference:.2g}")
        assert difference < LARGEST_DIFFERENCE
