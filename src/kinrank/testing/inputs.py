"""Input of every type and shape -> converted to the same answer, or refused with the row or the shapes named.

These promises are kept by `rerank` for all methods; one method is enough to test them.
"""

from __future__ import annotations

import numpy as np

from kinrank.methods.base import Method
from kinrank.rerank import rerank
from kinrank.testing.comparing import ranked, refused, require_identical
from kinrank.testing.toys import toy


def types_are_converted(method: Method, rtol: float) -> None:
    """float16, float32, float64, integers, big-endian: the same numbers give the same bits."""
    data = toy("spread")
    queries, gallery = np.round(data.queries * 16), np.round(data.gallery * 16)  # exact in all of these types
    expected = ranked(method, queries, gallery, "float64")
    for kind in ("f2", "f4", "f8", ">f2", ">f4", ">f8", "i2", "i4", "i8", ">i4", "i1"):
        got = ranked(method, queries.astype(kind), gallery.astype(kind), kind)
        require_identical(expected, got, f"dtype {kind}")
    require_identical(expected, rerank(queries.tolist(), gallery.tolist(), method), "lists of lists")


def layouts_are_converted(method: Method, rtol: float) -> None:
    """Fortran order, strided, reversed and transposed views: the same numbers give the same bits."""
    data = toy("spread")
    queries, gallery = data.queries.astype(np.float32), data.gallery.astype(np.float32)
    expected = ranked(method, queries, gallery, "contiguous")
    wide = np.repeat(gallery, 2, axis=1)
    layouts = {
        "Fortran order": np.asfortranarray(gallery),
        "every second column": wide[:, ::2],
        "every second row": np.repeat(gallery, 2, axis=0)[::2],
        "reversed twice": gallery[::-1].copy()[::-1],
        "transposed": np.ascontiguousarray(gallery.T).T,
    }
    for what, rows in layouts.items():
        require_identical(expected, ranked(method, queries, rows, what), what)
        require_identical(expected, ranked(method, np.asfortranarray(queries), rows, what), f"both sides, {what}")


def bad_rows_are_named(method: Method, rtol: float) -> None:
    """NaN, Inf, numbers beyond float32 and zero vectors: a ValueError with the side and the first bad row."""
    data = toy("clusters", items=30)
    for side in ("queries", "gallery"):
        for value in (np.nan, np.inf, -np.inf, 1e300):
            sides = {"queries": data.queries.copy(), "gallery": data.gallery.copy()}
            sides[side][2:4, 1] = value
            for candidates in (None, 5):
                refused(
                    lambda sides=sides, candidates=candidates: rerank(  # type: ignore[misc]
                        sides["queries"], sides["gallery"], method, candidates=candidates
                    ),
                    ValueError,
                    (side, "row 2"),
                    f"{value} in {side}, candidates={candidates}",
                )
        sides = {"queries": data.queries.copy(), "gallery": data.gallery.copy()}
        sides[side][3] = 0
        refused(
            lambda sides=sides: rerank(sides["queries"], sides["gallery"], method),  # type: ignore[misc]
            ValueError,
            (side, "row 3", "zero"),
            f"a zero vector in {side}",
        )


def bad_shapes_are_named(method: Method, rtol: float) -> None:
    """Another dimension, 1-d, 3-d, no columns, not numbers: a ValueError with the shapes."""
    data = toy("clusters", items=30)
    queries, gallery = data.queries, data.gallery
    cases = (
        (
            "fewer columns",
            queries[:, :5],
            gallery,
            ("queries", str(queries[:, :5].shape), str(gallery.shape[1])),
        ),
        ("1-d queries", queries[0], gallery, ("queries", str(queries[0].shape), "2-d")),
        ("1-d gallery", queries, gallery[0], ("gallery", str(gallery[0].shape), "2-d")),
        ("3-d gallery", queries, gallery[None], ("gallery", str(gallery[None].shape), "2-d")),
        ("no columns", queries[:, :0], gallery[:, :0], ("gallery", str(gallery[:, :0].shape))),
        ("words", queries, gallery.astype(str), ("gallery", "numbers")),
        ("complex numbers", queries, gallery.astype(complex), ("gallery", "numbers")),
        ("unequal rows", queries, [[1.0, 2.0], [1.0]], ("gallery", "equal rows")),
    )
    for what, left, right, words in cases:
        refused(
            lambda left=left, right=right: rerank(left, right, method),  # type: ignore[misc]
            ValueError,
            words,
            what,
        )


def bad_options_are_named(method: Method, rtol: float) -> None:
    """candidates, depth and max_memory outside their range: a ValueError with the name and the value."""
    data = toy("clusters", items=30)
    cases = [(name, value) for name in ("candidates", "depth") for value in (0, -1, 1.5, "5", True)]
    cases += [("max_memory", value) for value in (0, -1, 1.5, "lots", True)]
    for name, value in cases:
        refused(
            lambda name=name, value=value: rerank(data.queries, data.gallery, method, **{name: value}),  # type: ignore
            ValueError,
            (name, repr(value)),
            f"{name}={value!r}",
        )
