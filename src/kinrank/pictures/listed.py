"""A list of paths -> an archive of the files that they name, in the order of the list."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kinrank.pictures.archives import UNREADABLE, Gone, bounded_file, stamp_of


class Listed:
    """Files by their paths, relative to a folder or absolute: whoever wrote the list may name any of their files."""

    def __init__(self, paths: Sequence[str], folder: Path) -> None:
        self._paths = {path: os.path.join(folder, path) for path in paths}
        if len(self._paths) < len(paths):
            twice = next(path for path, count in Counter(paths).items() if count > 1)
            raise ValueError(f"the list names {twice!r:.100} more than once; name every file once")
        self.names, self.identity = list(paths), os.path.realpath(folder)
        self.skipped: Counter[str] = Counter()
        self.unread: list[str] = []

    def stamp(self, name: str) -> str:
        try:
            return stamp_of(self._paths[name])
        except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a name that no file can have
            raise Gone("it is not there") from None
        except OSError as error:
            raise ValueError(f"{UNREADABLE} ({error.strerror})") from None

    def read(self, name: str) -> bytes:
        return bounded_file(self._paths[name])

    def again(self, name: str) -> bool:
        return False
