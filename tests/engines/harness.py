"""Harness: what tests need of an engine, a new collection and ways to change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.stores.engine import EngineStore

Rows = NDArray[np.float32]


class Harness:
    """A local engine. There is one subclass per engine, and `tests/stores/test_every_engine.py` tests all of them.

    `make` creates a collection with a text field `kind` and an integer field `year` for each vector, if the engine
    has fields (`filters`), and opens a store over it. `close` stops everything that was started.
    """

    name: ClassVar[str]
    ids: ClassVar[tuple[str, ...]] = ("int", "text", "uuid")  # kinds of ids that it supports
    metrics: ClassVar[tuple[str, ...]] = ("cosine", "euclidean")
    filters: ClassVar[bool] = True  # True if it has fields to filter by
    listed: ClassVar[bool] = False  # True if `where` is a list of ids instead
    changes: ClassVar[bool] = True  # True if rows can be deleted

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:
        """Create a collection of these rows and ids, and open a store over it."""
        raise NotImplementedError

    def url(self) -> str | None:
        """Return the URL of the last collection for `kinrank.open_store`; None if there is none."""
        return None

    def own_filter(self, kind: str) -> Any:
        """Return the filter "kind is this" in the syntax of the engine, other than a mapping; None if there is none."""
        return None

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None) -> None:
        """Add rows to the last collection, or replace those with these ids."""
        raise NotImplementedError

    def delete(self, ids: list[Any]) -> None:
        """Remove rows from the last collection."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop everything that was started."""
