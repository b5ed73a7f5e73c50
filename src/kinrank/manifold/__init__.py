"""A gallery prepared once -> new queries answered in milliseconds."""

from __future__ import annotations

from kinrank.manifold.manifold import Manifold

__all__ = ["Manifold"]
