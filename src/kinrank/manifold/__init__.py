"""A gallery prepared once -> new queries answered in milliseconds."""

from __future__ import annotations

from kinrank.manifold.export import export
from kinrank.manifold.groups import Group, groups
from kinrank.manifold.manifold import Manifold

__all__ = ["Group", "Manifold", "export", "groups"]
