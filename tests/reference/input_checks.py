"""Checks of how `rerank` treats its input: the same for every method, so that one method is enough to test them."""

from __future__ import annotations

import numpy as np

from kinrank.methods.base import Method
from kinrank.reranking import rerank
from kinrank.testing import Check, toy
from kinrank.testing.assertions import rank_and_check, require_identical, require_refusal


def types_are_converted(method: Method, rtol: float) -> None:
    """Equal numbers as float16, float32, float64, integers or big-endian give the same bits."""
    data = toy("spread")
    queries, gallery = np.round(data.queries * 16), np.round(data.gallery * 16)  # exact in all of these types
    expected = rank_and_check(method, queries, gallery, "float64")
    for kind in ("f2", "f4", "f8", ">f2", ">f4", ">f8", "i2", "i4", "i8", ">i4", "i1"):
        got = rank_and_check(method, queries.astype(kind), gallery.astype(kind), kind)
        require_identical(expected, got, f"dtype {kind}")
    require_identical(expected, rerank(queries.tolist(), gallery.tolist(), method), "lists of lists")


def layouts_are_converted(method: Method, rtol: float) -> None:
    """Equal numbers in Fortran order, strided, reversed or transposed give the same bits."""
    data = toy("spread")
    queries, gallery = data.queries.astype(np.float32), data.gallery.astype(np.float32)
    expected = rank_and_check(method, queries, gallery, "contiguous")
    wide = np.repeat(gallery, 2, axis=1)
    layouts = {
        "Fortran order": np.asfortranarray(gallery),
        "every second column": wide[:, ::2],
        "every second row": np.repeat(gallery, 2, axis=0)[::2],
        "reversed twice": gallery[::-1].copy()[::-1],
        "transposed": np.ascontiguousarray(gallery.T).T,
    }
    for what, rows in layouts.items():
        require_identical(expected, rank_and_check(method, queries, rows, what), what)
        require_identical(
            expected, rank_and_check(method, np.asfortranarray(queries), rows, what), f"both sides, {what}"
        )


def bad_rows_are_named(method: Method, rtol: float) -> None:
    """NaN, Inf, numbers beyond float32 and zero vectors raise a ValueError with the side and the first bad row."""
    data = toy("clusters", items=30)
    for side in ("queries", "gallery"):
        for value in (np.nan, np.inf, -np.inf, 1e300):
            sides = {"queries": data.queries.copy(), "gallery": data.gallery.copy()}
            sides[side][2:4, 1] = value
            for candidates in (None, 5):
                what = f"{value} in {side}, candidates={candidates}"
                require_refusal(
                    what, ValueError, (side, "row 2"), rerank, **sides, method=method, candidates=candidates
                )
        sides = {"queries": data.queries.copy(), "gallery": data.gallery.copy()}
        sides[side][3] = 0
        words = side, "row 3", "zero"
        require_refusal(f"a zero vector in {side}", ValueError, words, rerank, **sides, method=method)


def bad_shapes_are_named(method: Method, rtol: float) -> None:
    """Other dimensions, a 1-d gallery, 3-d, no columns, or no numbers raise a ValueError with the shapes."""
    data = toy("clusters", items=30)
    queries, gallery = data.queries, data.gallery
    cases = (
        ("fewer columns", queries[:, :5], gallery, ("queries", str(queries[:, :5].shape), str(gallery.shape[1]))),
        ("3-d queries", queries[None], gallery, ("queries", str(queries[None].shape), "2-d")),
        ("1-d gallery", queries, gallery[0], ("gallery", str(gallery[0].shape), "2-d")),
        ("3-d gallery", queries, gallery[None], ("gallery", str(gallery[None].shape), "2-d")),
        ("no columns", queries[:, :0], gallery[:, :0], ("gallery", str(gallery[:, :0].shape))),
        ("words", queries, gallery.astype(str), ("gallery", "numbers")),
        ("complex numbers", queries, gallery.astype(complex), ("gallery", "numbers")),
        ("unequal rows", queries, [[1.0, 2.0], [1.0]], ("gallery", "equal rows")),
    )
    for what, left, right, words in cases:
        require_refusal(what, ValueError, words, rerank, left, right, method)


def bad_options_are_named(method: Method, rtol: float) -> None:
    """candidates, k and max_memory outside their range raise a ValueError with name and value."""
    data = toy("clusters", items=30)
    cases = [(name, value) for name in ("candidates", "k") for value in (0, -1, 1.5, "5", True)]
    cases += [("max_memory", value) for value in (0, -1, 1.5, "lots", True)]
    for name, value in cases:
        words = name, repr(value)
        require_refusal(
            f"{name}={value!r}", ValueError, words, rerank, data.queries, data.gallery, method, **{name: value}
        )


INPUT_CHECKS: tuple[Check, ...] = (
    types_are_converted,
    layouts_are_converted,
    bad_rows_are_named,
    bad_shapes_are_named,
    bad_options_are_named,
)
