"""Bench of the LPMT paper: its tables and figures measured on the user's features, next to the printed numbers."""
