"""Sets to measure on: generated ones with known answers, and readers of published ones."""
