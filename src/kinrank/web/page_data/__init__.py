"""Data behind the page: results before and after re-ranking, the chain to an item, and the map."""
