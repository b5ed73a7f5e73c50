"""Benchmarks of kinrank: `kinrank bench`, the readers of published sets, a load generator and test servers."""
