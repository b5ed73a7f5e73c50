"""Building and re-ranking on a Dask cluster, with the same Manifold and Ranking as on one machine.

Work is cut into blocks of rows. A task gets a folder, a range and a few numbers, reads its input from memory-mapped
files, and returns its rows; one process, the client, writes them where the next tasks read. The work of a lost worker
is repeated with the same result. Extra `[dask]`.
"""

from __future__ import annotations

from kinrank.distributed.build import build
from kinrank.distributed.rerank import rerank

__all__ = ["build", "rerank"]
