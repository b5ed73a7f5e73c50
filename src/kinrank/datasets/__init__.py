"""Sets to try out: toys on a turntable, and access to the published sets that the package kinrank-bench reads."""
