"""A Dask cluster and a gallery in a shared file -> the same Manifold and the same Ranking as on one machine.

Work is cut into blocks of rows. A task gets a folder, a range and a few numbers, reads what it needs from memory-mapped
files, and returns its rows; one process, the client, writes them where the next tasks read. Whatever a lost worker was
doing is simply done again, with the same result. Extra `[dask]`.
"""

from __future__ import annotations

from kinrank.distributed.build import build
from kinrank.distributed.rerank import rerank

__all__ = ["build", "rerank"]
