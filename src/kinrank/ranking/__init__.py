"""Rankings: the results of a search or a method, their files and their tables."""

from __future__ import annotations

from kinrank.ranking.ranking import Floats, Integers, QueryResult, Ranking, rank_rows, refuse_repeats, to_item_numbers

__all__ = ["Floats", "Integers", "QueryResult", "Ranking", "rank_rows", "refuse_repeats", "to_item_numbers"]
