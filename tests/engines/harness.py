"""What a test needs of an engine: a collection made from rows, and the means to change it behind the store's back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.stores.engine import EngineStore

Rows = NDArray[np.float32]


class Harness:
    """One engine on this machine. A subclass per engine; `tests/stores/test_engines.py` runs over all of them.

    `make` creates a collection with a text field `kind` and a whole number `year` beside each vector, where the engine
    keeps such fields (`filters`), and opens a store over it. `close` ends everything that was started.
    """

    name: ClassVar[str]
    ids: ClassVar[tuple[str, ...]] = ("int", "text", "uuid")  # kinds of ids it can have
    metrics: ClassVar[tuple[str, ...]] = ("cosine", "euclidean")
    filters: ClassVar[bool] = True  # whether it has fields to filter by
    listed: ClassVar[bool] = False  # whether `where` is a list of ids instead
    changes: ClassVar[bool] = True  # whether rows can be deleted

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(
        self, rows: Rows, ids: list[Any], kinds: list[str] | None = None, years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:  # fmt: skip
        """A store over a new collection that holds these rows under these ids."""
        raise NotImplementedError

    def url(self) -> str | None:
        """The URL under which `kinrank.open_store` finds the collection made last; None where it has none."""
        return None

    def own_filter(self, kind: str) -> Any:
        """The filter "kind is this" in the engine's own form, other than a mapping; None where it has none."""
        return None

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None) -> None:
        """Add rows to the collection made last, or replace those with these ids."""
        raise NotImplementedError

    def delete(self, ids: list[Any]) -> None:
        """Remove rows from it."""
        raise NotImplementedError

    def close(self) -> None:
        """End what was started."""
