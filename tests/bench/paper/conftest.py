"""A folder of tiny landmark features in the published format, and one whole run over it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank.bench import cells
from kinrank.bench.cache import Cache
from kinrank.bench.paper.run import paper
from kinrank.bench.paper.variants import Grids
from kinrank.datasets import NotAsPublished
from kinrank.testing import made_up

SMALL = Grids(
    neighbors=(5,), parameters={"k1": (10, 60), "theta": (0.5,)}, candidates=(20, 5000), timed=2, items=60, cycles=2
)
PLACES, PICTURES, ASK = 6, 14, 2


def landmarks(folder: Path, name: str, features: str, seed: int) -> None:
    """Some pictures of each of some places, the last ones of them queries."""
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
    """Revisited Oxford with features the paper has (rgem) and has not (toy), and a class split."""
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
    """Times of tiny sets are not looked at, so that loops need not be compiled beforehand, and nothing is trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_warm", lambda method, mode: None)
        patch.setattr(cells, "fit", lambda method, rows, labels, path: made_up(method, path, rows.shape[1]))
        yield


@pytest.fixture(scope="session")
def measured(folder: Path, kept: Path, cold: None) -> dict[str, Any]:
    """The record of a whole run over small grids."""
    with pytest.warns(NotAsPublished):
        return paper(folder, cache=Cache(kept), grids=SMALL)
