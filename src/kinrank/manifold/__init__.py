"""A gallery that is prepared once and then answers new queries in milliseconds."""

from __future__ import annotations

from kinrank.errors import ConcurrentSaveError, ExactSearchWarning, LogAppliedWarning, UnappliedChangesWarning
from kinrank.manifold.manifold import Manifold
from kinrank.manifold.matrix_export import export
from kinrank.manifold.near_duplicates import Group, near_duplicates

__all__ = [
    "ConcurrentSaveError",
    "ExactSearchWarning",
    "Group",
    "LogAppliedWarning",
    "Manifold",
    "UnappliedChangesWarning",
    "export",
    "near_duplicates",
]
