"""Fast encoders without a network that count their inputs."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from kinrank.encoders.base import PICTURES, TEXTS, Encoder
from kinrank.vector_input import Vectors


class Small(Encoder):
    """Encodes images as 8 x 8 pixels of three colours, and texts as counts of letters."""

    kinds = (PICTURES, TEXTS)
    dimensions = 192

    def __init__(self, name: str = "small", kinds: Sequence[str] = kinds, pause: float = 0.0) -> None:
        self.facts = {"encoder": name}
        self.kinds, self._pause = tuple(kinds), pause
        self.calls: list[int] = []
        self.sizes: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def pictures(self, images: Sequence[Any]) -> Vectors:
        time.sleep(self._pause)
        with self._lock:
            self.calls.append(len(images))
            self.sizes += [image.size for image in images]
        assert all(image.mode == "RGB" for image in images)
        return np.stack([pixels(image) for image in images])

    def texts(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            self.calls.append(len(texts))
        return np.stack([letters(text) for text in texts])


class Pooled(Small):
    """Encodes images like Small, and as the mean colour."""

    dimensions = 195

    def __init__(self) -> None:
        super().__init__(kinds=[PICTURES])
        self.facts["pool"], self.columns = "mac+spoc", {"mac": 192, "spoc": 3}

    def pictures(self, images: Sequence[Any]) -> Vectors:
        rows = super().pictures(images)
        return np.concatenate([rows, rows.reshape(-1, 64, 3).mean(1)], axis=1)


def pixels(image: Any) -> Vectors:
    """Return the vector of an image; also usable as the encoder encoders.fake_encoders:pixels."""
    return np.asarray(image.resize((8, 8), Image.Resampling.BOX), np.float32).reshape(-1) / 255 + np.float32(0.01)


def letters(text: str) -> Vectors:
    counted = np.zeros(192, np.float32)
    for sign in text.encode():
        counted[sign % 192] += 1
    return counted


def draw(path: Path, seed: int, size: tuple[int, int] = (40, 30), **saved: Any) -> Path:
    """Write an image of coloured blocks that depends on the seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = np.random.default_rng(seed).integers(0, 255, (3, 4, 3), np.uint8)
    Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST).save(path, **saved)
    return path


def digest(rows: Vectors) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()


def slowly(image: Any) -> Vectors:
    """Call `pixels` slowly enough for a process to be killed meanwhile."""
    time.sleep(float(os.environ.get("FAKE_ENCODER_SECONDS", "0.05")))
    return pixels(image)
