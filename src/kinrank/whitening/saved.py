"""A whitening <-> an .npz file without objects, sealed with a checksum of what it holds."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.files.arrays import headers, read_npz
from kinrank.files.atomic import replacing
from kinrank.files.opening import FileProblem, fits, regular
from kinrank.memory import NotEnoughMemory

VERSION = 1
ENDING = ".npz"
WRITER = "Whitening.save or `kinrank whiten --save`"
ARRAYS = ("version", "mean", "projection", "about", "sha256")


def write(path: str | os.PathLike[str], mean: Any, projection: Any, about: dict[str, Any]) -> None:
    """Written beside the path and renamed, so never half there."""
    ends_well(Path(path))
    told = json.dumps(about, sort_keys=True)
    seal = _seal(VERSION, mean, projection, told)
    with replacing(path) as file:
        np.savez(
            file,
            version=np.array(VERSION),
            mean=mean,
            projection=projection,
            about=np.array(told),
            sha256=np.array(seal),
        )


def read(path: str | os.PathLike[str]) -> tuple[Any, Any, dict[str, Any]]:
    """Mean, projection and what is said about them; one sentence for everything that is no such file."""
    place = regular(ends_well(Path(path)))
    try:
        claimed = headers(place)
        missing = [name for name in ARRAYS if name not in claimed]
        if missing:
            raise FileProblem(f"{place} is no saved whitening: it has no {missing[0]!r}; give what {WRITER} wrote")
        fits(place, sum(claimed[name].size for name in ARRAYS), advice=f"give what {WRITER} wrote")
        arrays = {name: read_npz(place, name, claimed[name]) for name in ARRAYS}
        version, told = int(arrays["version"]), str(arrays["about"])
        if version != VERSION:
            raise FileProblem(
                f"{place} has version {version} of the format and this program reads {VERSION}; learn and save it again"
            )
        about = json.loads(told)
        if str(arrays["sha256"]) != _seal(version, arrays["mean"], arrays["projection"], told):
            raise FileProblem(f"{place} is damaged: its numbers do not fit its checksum; save it again")
    except (FileProblem, NotEnoughMemory):
        raise
    except Exception as error:  # zip, header, JSON: each has errors of its own
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"{place} is truncated, damaged or no saved whitening ({said})") from error
    return arrays["mean"], arrays["projection"], about


def ends_well(path: Path) -> Path:
    """The path, if it ends as such files do."""
    if path.suffix.lower() != ENDING:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; a whitening is saved as {ENDING}")
    return path


def _seal(version: int, mean: Any, projection: Any, told: str) -> str:
    digest = hashlib.sha256(f"{version} {told}".encode())
    for array in (mean, projection):
        digest.update(f" {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
