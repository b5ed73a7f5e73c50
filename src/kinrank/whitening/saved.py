"""A whitening <-> an .npz file without objects, sealed with a checksum of what it holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kinrank.files import sealed

VERSION = 1
NAMES = ("mean", "projection")
ARRAYS = (*NAMES, *sealed.SEAL)
WORDS = sealed.Words(
    "saved whitening", "a whitening", "Whitening.save or `kinrank whiten --save`", "learn and save it again"
)


def write(path: str | os.PathLike[str], mean: Any, projection: Any, about: dict[str, Any]) -> None:
    """Written beside the path and renamed, so never half there."""
    sealed.ends_well(Path(path), WORDS)
    sealed.write(path, {"mean": mean, "projection": projection}, about, VERSION)


def read(path: str | os.PathLike[str]) -> tuple[Any, Any, dict[str, Any]]:
    """Mean, projection and what is said about them; one sentence for everything that is no such file."""
    arrays, about, _ = sealed.read(Path(path), WORDS, VERSION, NAMES)
    return arrays["mean"], arrays["projection"], about
