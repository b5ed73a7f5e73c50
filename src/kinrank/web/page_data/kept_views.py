"""KeptViews: uploads and marks of the page under short ids, until the service ends."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from kinrank.errors import InputError
from kinrank.files.atomic import atomic_write

MAX_VIEWS = 500  # the oldest are deleted
MAX_VIEW_BYTES = 512 * 2**10
ID_CHARACTERS = 10


class KeptViews:
    """Small texts in a folder, which several processes can share; an id is computed from its text."""

    def __init__(self, scratch: str) -> None:
        self._folder = Path(scratch, "views") if scratch else None

    def put(self, content: str) -> str:
        """Keep a text and return its id."""
        data = content.encode()
        if self._folder is None or len(data) > MAX_VIEW_BYTES:
            raise InputError(f"this service keeps no views, or none of {len(data)} bytes")
        self._folder.mkdir(exist_ok=True)
        name = hashlib.sha256(data).hexdigest()[:ID_CHARACTERS]
        with atomic_write(self._folder / name) as file:
            file.write(data)
        with contextlib.suppress(FileNotFoundError):  # another process deletes as well
            for path in sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-MAX_VIEWS]:
                path.unlink()
        return name

    def get(self, name: str) -> str | None:
        """Return the text with this id; None if it is not kept."""
        if self._folder is None or len(name) != ID_CHARACTERS or not (name.isascii() and name.isalnum()):
            return None
        path = self._folder / name
        return path.read_text("utf-8") if path.is_file() else None
