"""Checks of invariance: order, rotation, scale, threads and blocks do not change the result."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np

from kinrank.methods.base import Method
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.ranking import Ranking
from kinrank.reranking import rerank
from kinrank.testing.assertions import rank_and_check, require, require_identical, require_same
from kinrank.testing.sample_data import toy
from kinrank.vector_input import check_vectors, to_unit_rows


def gallery_order_is_irrelevant(method: Method, rtol: float) -> None:
    """Shuffling the gallery changes item numbers and nothing else."""
    data = toy("spread")
    order = np.random.default_rng(1).permutation(len(data.gallery))
    expected = rank_and_check(method, data.queries, data.gallery, "spread")
    got = rank_and_check(method, data.queries, data.gallery[order], "spread, gallery shuffled")
    require_same(expected, got, "gallery shuffled", rtol, names=order)


def query_order_is_irrelevant(method: Method, rtol: float) -> None:
    """Shuffling the queries shuffles the rows and nothing else."""
    data = toy("spread")
    order = np.random.default_rng(2).permutation(len(data.queries))
    expected = rank_and_check(method, data.queries, data.gallery, "spread")
    got = rank_and_check(method, data.queries[order], data.gallery, "spread, queries shuffled")
    back = np.argsort(order)
    require_same(expected, Ranking(got.indices[back], got.distances[back]), "queries shuffled", rtol)


def rotation_is_irrelevant(method: Method, rtol: float) -> None:
    """A rotation keeps all distances, so it changes nothing beyond rounding."""
    data = toy("spread")
    size = data.gallery.shape[1]
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(size, size)))[0]
    expected = rank_and_check(method, data.queries, data.gallery, "spread")
    got = rank_and_check(method, data.queries @ rotation, data.gallery @ rotation, "spread, rotated")
    require_same(expected, got, "features rotated", rtol)


def length_is_irrelevant(method: Method, rtol: float) -> None:
    """Only directions count: rows may have different lengths, however large or small."""
    data = toy("spread")
    rng = np.random.default_rng(4)
    expected = rank_and_check(method, data.queries, data.gallery, "spread")
    lengths = 10.0 ** rng.uniform(-3, 3, size=(len(data.gallery), 1))
    got = rank_and_check(method, data.queries * 1e-20, data.gallery * lengths, "spread, rows scaled")
    require_same(expected, got, "rows scaled", rtol)


def inputs_stay_untouched(method: Method, rtol: float) -> None:
    """Read-only arrays are accepted, and writable ones keep their bytes."""
    data = toy("clusters", items=30)
    queries, gallery = np.array(data.queries, np.float32), np.array(data.gallery, np.float32)
    gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)  # normalized rows could be used without a copy
    before = queries.tobytes(), gallery.tobytes()
    writable = rank_and_check(method, queries, gallery, "writable input")
    rank_and_check(method, None, gallery, "writable input, every item a query")
    require((queries.tobytes(), gallery.tobytes()) == before, "the input arrays were changed; work on a copy")
    queries.setflags(write=False)
    gallery.setflags(write=False)
    require_identical(writable, rank_and_check(method, queries, gallery, "read-only input"), "read-only input")


def same_bits_every_time(method: Method, rtol: float) -> None:
    """Repeated calls, with one thread or many, give the same bits."""
    for kind in ("spread", "duplicates"):
        data = toy(kind, items=150)
        expected = rank_and_check(method, data.queries, data.gallery, kind)
        require_identical(expected, rank_and_check(method, data.queries, data.gallery, kind), f"{kind}, called twice")
        for count in (1, 3):
            with mock.patch.dict(os.environ, KINRANK_THREADS=str(count)):
                got = rank_and_check(method, data.queries, data.gallery, kind)
            require_identical(expected, got, f"{kind}, KINRANK_THREADS={count}")
        everyone = rerank(None, data.gallery, method)
        for count in (1, 3):
            with mock.patch.dict(os.environ, KINRANK_THREADS=str(count)):
                got = rerank(None, data.gallery, method)
            require_identical(everyone, got, f"{kind}, every item a query, KINRANK_THREADS={count}")


def blocks_are_irrelevant(method: Method, rtol: float) -> None:
    """`distances` gives the same result for single queries as for a block, in any order and repeatedly."""
    for kind in ("spread", "duplicates"):
        data = toy(kind)
        items = Items.joint(to_unit_rows(check_vectors(data.queries)), to_unit_rows(check_vectors(data.gallery)))
        prepared = method.prepare(items, SILENT)
        queries = np.arange(len(data.queries))
        together = np.array(method.distances(prepared, queries), dtype=np.float64)
        shape = (len(queries), len(data.gallery))
        require(
            together.shape == shape,
            f"{kind}: distances have shape {together.shape}, should be (queries, gallery) = {shape}",
        )
        repeated = np.array(method.distances(prepared, queries), dtype=np.float64)
        require(
            repeated.tobytes() == together.tobytes(),
            f"{kind}: a second call of distances gave other bits; `prepared` was changed",
        )
        extent = np.maximum(np.ptp(together, axis=1), 1e-12)
        prepared = method.prepare(items, SILENT)  # nothing may be left over from other queries
        for query in queries[::-1]:
            alone = np.array(method.distances(prepared, queries[query : query + 1]), dtype=np.float64)
            gap = float(np.abs(alone[0] - together[query]).max() / extent[query])
            require(
                gap <= rtol, f"{kind}: query {query} alone differs by {gap:.2g} of the range of the row from the block"
            )
