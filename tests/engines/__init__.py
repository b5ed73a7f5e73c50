"""Real vector databases for tests: one file per engine, each with a `Harness`."""
