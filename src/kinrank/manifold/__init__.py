"""A gallery prepared once -> new queries answered in milliseconds."""

from __future__ import annotations

from kinrank.manifold.beside import NotFolded
from kinrank.manifold.export import export
from kinrank.manifold.groups import Group, groups
from kinrank.manifold.journal import ChangedMeanwhile
from kinrank.manifold.manifold import Manifold
from kinrank.manifold.replay import LogApplied
from kinrank.manifold.telling import SearchedExactly

__all__ = ["ChangedMeanwhile", "Group", "LogApplied", "Manifold", "NotFolded", "SearchedExactly", "export", "groups"]
