"""Access to published sets, whose readers are in the package kinrank-bench."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kinrank.lazy_import import import_extra


def import_set_display() -> Any:
    """Import the functions that prepare a published set for a page, or raise a MissingExtraError."""
    return import_extra("kinrank_bench.datasets.set_display", "a published set", "bench")


def can_read_sets() -> bool:
    """Return True if kinrank-bench is installed."""
    return find_spec("kinrank_bench") is not None


def is_set_name(name: str) -> bool:
    """Return True for the name of a published set; always False without kinrank-bench."""
    return can_read_sets() and name in import_set_display().BENCHMARKS


def list_sets(folder: Path) -> list[str]:
    """List the published sets in a folder; none without kinrank-bench."""
    names: list[str] = import_set_display().list_available(folder) if can_read_sets() else []
    return names
