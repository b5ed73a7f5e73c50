"""Real vector databases for tests: one module per engine, each with a `Harness`."""
