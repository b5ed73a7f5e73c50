"""A folder of tiny landmark features in the published format, and one complete run over it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank.errors import BenchmarkMismatchWarning
from kinrank_bench import measurement
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.paper.paper_bench import paper
from kinrank_bench.paper.variants import Grids
from kinrank_bench.random_weights import add_random_weights

SMALL = Grids(
    neighbors=(5,), parameters={"k1": (10, 60), "theta": (0.5,)}, candidates=(20, 5000), timed=2, items=60, cycles=2
)
PLACES, PICTURES, ASK = 6, 14, 2


def landmarks(folder: Path, name: str, features: str, seed: int) -> None:
    """Return some pictures of each place; the last ones are queries."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(PLACES, 16))
    place = np.repeat(np.arange(PLACES), PICTURES)
    rows = (centres[place] + 0.9 * rng.normal(size=(len(place), 16))).astype(np.float32)
    asks = np.arange(len(place)) % PICTURES >= PICTURES - ASK
    gallery = place[~asks]
    gnd = []
    for one in place[asks]:
        right = np.flatnonzero(gallery == one).tolist()
        gnd.append({"bbx": [0.0] * 4, "easy": right[:5], "hard": right[5:10], "junk": right[10:]})
    images = [f"image{number}" for number in range(len(gallery))]
    content = {"imlist": images, "qimlist": [f"query{number}" for number in range(len(gnd))], "gnd": gnd}
    (folder / f"gnd_{name}.pkl").write_bytes(pickle.dumps(content))
    np.savez(folder / f"{name}_{features}.npz", q=rows[asks], d=rows[~asks])


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with revisited Oxford, features that the paper has (rgem) and lacks (toy), and a class split."""
    place = tmp_path_factory.mktemp("features")
    landmarks(place, "roxford5k", "rgem", 1)
    landmarks(place, "roxford5k", "toy", 1)
    rng = np.random.default_rng(3)
    label = np.arange(60) % 6
    rows = (3 * np.eye(6, 8)[label] + rng.normal(size=(60, 8))).astype(np.float32)
    np.savez(place / "caltech101_toy.npz", x=rows, label=label, is_query=np.arange(60) < 20)
    return place


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="session", autouse=True)
def cold() -> Iterator[None]:
    """Skip compilation and training, because times of tiny sets are not checked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurement, "_warm_up", lambda method, mode: None)
        patch.setattr(
            measurement, "fit", lambda method, rows, labels, path: add_random_weights(method, path, rows.shape[1])
        )
        yield


@pytest.fixture(scope="session")
def measured(folder: Path, kept: Path, cold: None) -> dict[str, Any]:
    """Return the record of a complete run over small grids."""
    with pytest.warns(BenchmarkMismatchWarning):
        return paper(folder, cache=Cache(kept), grids=SMALL)
