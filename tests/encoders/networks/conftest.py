"""Fixtures for published networks: golden images, and files in the published layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from encoders.networks import invented_weights
from kinrank.encoders.base import use_one_thread

BOXES = {"A": (4.6, 3.5, 60.2, 90.5), "B": (10.7, 5.2, 100.9, 70.4)}
Write = Callable[[Any], str]


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    """Use one torch thread, as encoding does; several are many times slower on a busy machine."""
    pytest.importorskip("torch")
    with use_one_thread():
        yield


@pytest.fixture(scope="module")
def images(shared_dir: Path) -> dict[str, Any]:
    """Return the two golden images by name."""
    image = pytest.importorskip("PIL.Image")
    return {name: image.fromarray(pixels) for name, pixels in invented_weights.arrays(shared_dir, "images").items()}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Write]:
    """Return a function that writes a checkpoint and returns its path. The large files are deleted after the module."""
    torch = pytest.importorskip("torch")
    paths: list[Path] = []

    def write(content: Any) -> str:
        paths.append(tmp_path_factory.mktemp("weights") / "published.pth")
        torch.save(content, paths[-1])
        return str(paths[-1])

    yield write
    for path in paths:
        path.unlink(missing_ok=True)
