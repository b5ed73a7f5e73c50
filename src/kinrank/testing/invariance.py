"""The same items in another order, orientation, scale or block -> the same answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from kinrank.features import check, unit
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.progress import SILENT
from kinrank.ranking import Ranking
from kinrank.rerank import rerank
from kinrank.testing.comparing import ranked, require, require_identical, require_same
from kinrank.testing.toys import toy


def gallery_order_is_irrelevant(method: Method, rtol: float) -> None:
    """Shuffling the gallery changes item numbers and nothing else."""
    data = toy("spread")
    order = np.random.default_rng(1).permutation(len(data.gallery))
    expected = ranked(method, data.queries, data.gallery, "spread")
    got = ranked(method, data.queries, data.gallery[order], "spread, gallery shuffled")
    require_same(expected, got, "gallery shuffled", rtol, names=order)


def query_order_is_irrelevant(method: Method, rtol: float) -> None:
    """Shuffling the queries shuffles the rows and nothing else."""
    data = toy("spread")
    order = np.random.default_rng(2).permutation(len(data.queries))
    expected = ranked(method, data.queries, data.gallery, "spread")
    got = ranked(method, data.queries[order], data.gallery, "spread, queries shuffled")
    back = np.argsort(order)
    require_same(expected, Ranking(got.indices[back], got.distances[back]), "queries shuffled", rtol)


def rotation_is_irrelevant(method: Method, rtol: float) -> None:
    """An orthogonal matrix keeps all distances, so it changes nothing beyond rounding."""
    data = toy("spread")
    size = data.gallery.shape[1]
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(size, size)))[0]
    expected = ranked(method, data.queries, data.gallery, "spread")
    got = ranked(method, data.queries @ turn, data.gallery @ turn, "spread, rotated")
    require_same(expected, got, "features rotated", rtol)


def length_is_irrelevant(method: Method, rtol: float) -> None:
    """Only directions count: every row may have a length of its own, however large or small."""
    data = toy("spread")
    rng = np.random.default_rng(4)
    expected = ranked(method, data.queries, data.gallery, "spread")
    lengths = 10.0 ** rng.uniform(-3, 3, size=(len(data.gallery), 1))
    got = ranked(method, data.queries * 1e-20, data.gallery * lengths, "spread, rows scaled")
    require_same(expected, got, "rows scaled", rtol)


def inputs_stay_untouched(method: Method, rtol: float) -> None:
    """Read-only arrays are accepted, and writable ones keep their bytes."""
    data = toy("clusters", items=30)
    queries, gallery = np.array(data.queries, np.float32), np.array(data.gallery, np.float32)
    gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)  # already as they are used: the tempting case
    before = queries.tobytes(), gallery.tobytes()
    writable = ranked(method, queries, gallery, "writable input")
    ranked(method, None, gallery, "writable input, every item a query")
    require((queries.tobytes(), gallery.tobytes()) == before, "the input arrays were changed; work on a copy")
    queries.setflags(write=False)
    gallery.setflags(write=False)
    require_identical(writable, ranked(method, queries, gallery, "read-only input"), "read-only input")


def same_bits_every_time(method: Method, rtol: float) -> None:
    """The same call twice, and with one thread or many, gives the same bits."""
    for kind in ("spread", "duplicates"):
        data = toy(kind, items=150)
        expected = ranked(method, data.queries, data.gallery, kind)
        require_identical(expected, ranked(method, data.queries, data.gallery, kind), f"{kind}, called twice")
        for count in (1, 3):
            with _threads(count):
                got = ranked(method, data.queries, data.gallery, kind)
            require_identical(expected, got, f"{kind}, KINRANK_THREADS={count}")
        everyone = rerank(None, data.gallery, method)
        for count in (1, 3):
            with _threads(count):
                got = rerank(None, data.gallery, method)
            require_identical(everyone, got, f"{kind}, every item a query, KINRANK_THREADS={count}")


def blocks_are_irrelevant(method: Method, rtol: float) -> None:
    """`distances` answers queries one by one as it answers them together, in any order, as often as asked."""
    for kind in ("spread", "duplicates"):
        data = toy(kind)
        items = Items.joint(unit(check(data.queries)), unit(check(data.gallery)))
        prepared = method.prepare(items, SILENT)
        asked = np.arange(len(data.queries))
        together = np.array(method.distances(prepared, asked), dtype=np.float64)
        shape = (len(asked), len(data.gallery))
        require(
            together.shape == shape,
            f"{kind}: distances have shape {together.shape}, should be (queries, gallery) = {shape}",
        )
        again = np.array(method.distances(prepared, asked), dtype=np.float64)
        require(
            again.tobytes() == together.tobytes(),
            f"{kind}: distances gave other bits when called again; `prepared` was changed",
        )
        extent = np.maximum(np.ptp(together, axis=1), 1e-12)
        prepared = method.prepare(items, SILENT)  # anew: nothing may be left over from other queries
        for query in asked[::-1]:
            alone = np.array(method.distances(prepared, asked[query : query + 1]), dtype=np.float64)
            gap = float(np.abs(alone[0] - together[query]).max() / extent[query])
            require(
                gap <= rtol,
                f"{kind}: query {query} asked alone differs by {gap:.2g} of the row's extent from the block",
            )


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = os.environ.get("KINRANK_THREADS")
    os.environ["KINRANK_THREADS"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["KINRANK_THREADS"]
        else:
            os.environ["KINRANK_THREADS"] = before
