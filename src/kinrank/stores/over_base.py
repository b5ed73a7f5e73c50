"""What a store that stands over another one passes on of it."""

from __future__ import annotations

from typing import Any

from kinrank.stores.scaled import metric_of


class OverBase:
    """Told by the words of its base, and as exact as that one."""

    _base: Any

    def __repr__(self) -> str:
        return repr(self._base)

    @property
    def exact(self) -> bool:
        """Whether the base finds the nearest items, all of them."""
        return bool(getattr(self._base, "exact", False))

    @property
    def engine(self) -> Any:
        """The vector database that is asked in the end; None where there is none."""
        return getattr(self._base, "engine", None)

    @property
    def metric(self) -> str:
        return metric_of(self._base)

    @property
    def in_units(self) -> bool:
        """Whether rows and distances are in units of a Manifold's scale."""
        return bool(getattr(self._base, "in_units", False))
