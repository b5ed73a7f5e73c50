"""Journal: the folders a Manifold was loaded from and saved to, and what changed since, as differences in one file.

A file of differences is a line of JSON, the names, kinds and shapes of all arrays, and behind it their bytes.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.manifold.difference import Arrays, difference
from kinrank.manifold.snapshot import Snapshot

CHANGES = 16  # in a folder at most: each is one more pass over the arrays when it is loaded
SHARE = 4  # the changes take at most the fourth part of what everything takes
KIND = re.compile(r"[<>|][biuf][1248]")  # numbers; numpy would read any other text as a piece of Python
LITTLE = 2**20  # bytes that are always allowed


class ChangedMeanwhile(ValueError):
    """Somebody else saved to the folder since this Manifold was loaded from it, or saved to it."""


class Journal:
    """Of one Manifold: the states it knows in folders, and the differences between the last of them and the present.

    Attributes:
        seals: folder -> the checksum of the manifest that this Manifold read or wrote there last.
        home: the folder that `pending` continues; None where there is none.
        pending: differences since, oldest first; None where everything has to be written.
        held: the folder that is locked for this Manifold, see `Manifold.changing`.
        position: how far the present state goes in the log of the folder that is held; None where there is no log.
        folded: how far the state in `home` goes in the log beside it.
    """

    def __init__(self, seals: dict[Path, str] | None = None) -> None:
        self.seals = dict(seals or {})
        self.home: Path | None = None
        self.pending: list[Arrays] | None = None
        self.held: Path | None = None
        self.position: int | None = None
        self.folded = 0

    def at(self, folder: Path, seal: str, folded: int) -> None:
        """The present state stands in this folder, under this seal."""
        self.seals[folder], self.home, self.pending, self.folded = seal, folder, [], folded

    def changed(self, before: Snapshot, after: Snapshot) -> None:
        """Remember what a change did, as long as that is less than everything."""
        if self.home is None or self.pending is None or after is before:
            return
        turnover = after.turnover
        found = None if turnover is None else difference(before.arrays, after.arrays, turnover)
        self.pending = None if found is None else [*self.pending, found]
        if self.pending is not None and not few(len(self.pending), size_of(self.pending), after.size):
            self.pending = None

    @property
    def unsaved(self) -> bool:
        """Whether the folder that is held holds another state than the present one."""
        moved = self.position not in (None, self.folded)
        return moved or self.home != self.held or self.pending is None or len(self.pending) > 0

    def holds(self, folder: Path) -> bool:
        """Whether this folder holds the present state."""
        return folder == self.home and self.pending == []

    def due(self, folder: Path) -> list[Arrays]:
        """The differences between what this folder holds and the present; none where everything is to be written."""
        return list(self.pending or ()) if folder == self.home else []


def few(changes: int, size: int, whole: int) -> bool:
    """Whether so many changes of so many bytes are still better kept beside everything than written into it."""
    return changes <= CHANGES and size <= max(LITTLE, whole // SHARE)


def size_of(differences: list[Arrays]) -> int:
    return sum(array.nbytes for found in differences for array in found.values())


def packed(differences: list[Arrays]) -> bytes:
    """The content of a file."""
    heads = [[[name, array.dtype.str, array.shape] for name, array in found.items()] for found in differences]
    bodies = [array.tobytes() for found in differences for array in found.values()]
    return b"".join([json.dumps(heads).encode(), b"\n", *bodies])


def unpacked(content: bytes) -> list[Arrays]:
    """The differences in a file; a ValueError for anything that `packed` does not write."""
    head, _, body = content.partition(b"\n")
    differences, offset = [], 0
    try:
        for entries in json.loads(head):
            found: Arrays = {}
            for name, kind, shape in entries:
                found[str(name)] = array = _array(body, offset, str(kind), [int(size) for size in shape])
                offset += array.nbytes
            differences.append(found)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"a file of changes is not what kinrank writes: {error}") from error
    if offset != len(body):
        raise ValueError("a file of changes is longer than it says")
    return differences


def _array(body: bytes, offset: int, name: str, shape: list[int]) -> Any:
    if not KIND.fullmatch(name) or min(shape, default=0) < 0:
        raise ValueError(f"it holds {name[:20]} of shape {shape[:20]}")
    count, kind = math.prod(shape), np.dtype(name)
    if offset + count * kind.itemsize > len(body):
        raise ValueError("it is too short")
    if not count:
        return np.zeros(shape, kind)
    return np.frombuffer(body, kind, count, offset).reshape(shape)
