"""Compiled loops, one file per stage. Each has a slow twin in tests/reference."""
