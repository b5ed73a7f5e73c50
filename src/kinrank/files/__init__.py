"""Files of features and rankings: reading, writing whole or not at all, and nothing is ever executed."""

from __future__ import annotations

from kinrank.files.rankings import load_ranking, save_ranking

__all__ = ["load_ranking", "save_ranking"]
