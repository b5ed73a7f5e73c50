"""A folder of mapped arrays and a range of rows -> those rows of the next array. Run by workers; nothing is kept.

Every function gives the same bits whichever process runs it and however often, on processors of one kind: rows do not
depend on each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.distributed.files import read, sheet
from kinrank.manifold.gallery import lists_of
from kinrank.stores import Store

Span = tuple[int, int]
Rows = NDArray[Any]
Factory = Callable[[], Store]

_opened: dict[str, Store] = {}
_opening = threading.Lock()


def opened(token: str, factory: Factory) -> Store:
    """The store of a run, opened once per worker; the one of an earlier run is let go."""
    with _opening:
        if token not in _opened:
            _opened.clear()
            _opened[token] = factory()
        return _opened[token]


def neighbours(folder: str, span: Span, k: int, token: str, factory: Factory | None) -> tuple[Rows, Rows]:
    """Neighbour lists of a block: numbers and distances, (rows, k)."""
    store = None if factory is None else opened(token, factory)
    lists = lists_of(read(folder, "vectors"), store, np.arange(*span), k)
    return lists.indices, lists.distances


def layer_weights(folder: str, span: Span, sigma: float, sizes: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """W of every layer on the entries of the rows, and their sums (rows, layers)."""
    from kinrank.stages.kernels.offline import layer_weights as kernel

    starts, ends = read(folder, "starts"), read(folder, "ends")
    values, degrees = (
        sheet((len(ends), len(sizes)), np.float32),
        sheet((len(starts) - 1, len(sizes)), np.float64),
    )
    near, gaps, lengths = (read(folder, name) for name in ("near", "gaps", "lengths"))
    kernel(*span, near, gaps, lengths, sigma, sizes, starts, ends, values, degrees)
    return _entries(values, starts, span), degrees[slice(*span)].copy()


def normalised(folder: str, span: Span) -> tuple[Rows]:
    """S = D^-1/2 W D^-1/2 of every layer on the entries of the rows."""
    from kinrank.stages.kernels.offline import normalise_layers

    starts, ends, weights = (read(folder, name) for name in ("starts", "ends", "weights"))
    values = sheet(weights.shape, np.float32)
    some = slice(int(starts[span[0]]), int(starts[span[1]]))
    values[some] = weights[some]
    normalise_layers(*span, starts, ends, read(folder, "degrees"), values)
    return (_entries(values, starts, span),)


def energies(folder: str, span: Span, mu: float, tolerance: float) -> tuple[Rows]:
    """<f, f> - <f, S_v f> of the rows of F that are sampled, (rows, layers)."""
    from kinrank.stages.kernels.diffusion import resolvent_rows

    rows, values = read(folder, "sample")[slice(*span)], read(folder, "layers")
    found = np.zeros((len(rows), values.shape[1]), np.float32)
    nowhere = np.zeros(len(rows) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
    resolvent_rows(
        0, len(rows), rows, read(folder, "starts"), read(folder, "ends"), read(folder, "step"), _restart(mu),
        np.float32(tolerance), *nowhere, np.zeros(len(rows), np.float32), values, found,
    )  # fmt: skip
    return (found,)


def kindred(folder: str, span: Span, mu: float, tolerance: float, width: int) -> tuple[Rows, Rows]:
    """Rows of the diffusion: the items of the largest F, itself first, and F along them."""
    from kinrank.stages.kernels.diffusion import resolvent_nearest

    lists = read(folder, "fill")
    shape = len(lists), width
    found, similar = sheet(shape, np.int32), sheet(shape, np.float32)
    rows = np.arange(*span)
    resolvent_nearest(
        0, len(rows), rows, read(folder, "starts"), read(folder, "ends"), read(folder, "step"), _restart(mu),
        np.float32(tolerance), lists, found, similar,
    )  # fmt: skip
    return found[slice(*span)].copy(), similar[slice(*span)].copy()


def regions(folder: str, span: Span, k1: int, reciprocal: bool) -> tuple[Rows, Rows]:
    """F along the lists, negative outside the region of each item; its sum inside."""
    from kinrank.stages.kernels.offline import mark_regions

    kin, similar, some = (
        read(folder, "kin"),
        read(folder, "similar"),
        slice(*span),
    )  # copied where it is written
    totals, rows = sheet((len(kin),), np.float32), np.arange(*span)
    mark_regions(0, len(rows), rows, kin, k1, reciprocal, similar, totals)
    return similar[some].copy(), totals[some].copy()


def states(folder: str, span: Span, support: int) -> tuple[Rows, Rows, Rows]:
    """States of the rows: items and masses (rows, support), and how many of them count."""
    from kinrank.stages.kernels.online import mean_states

    near, weights, kin, values = (read(folder, name) for name in ("close", "confidence", "kin", "regions"))
    n, some = len(kin), slice(*span)
    places, masses, sizes = (
        sheet((n, support), np.int32), sheet((n, support), np.float32), sheet((n,), np.int64)
    )  # fmt: skip
    mean_states(
        *span, near, weights, read(folder, "region_starts"), kin.reshape(-1), values.reshape(-1), support,
        sheet((n,), np.float32), places, masses, sizes,
    )  # fmt: skip
    return places[some].copy(), masses[some].copy(), sizes[some].copy()


def costs(folder: str, span: Span, rho: float, gamma: float, epsilon: float, iterations: int) -> tuple[Rows]:
    """W(p_i, p_j; d^rho)^gamma of the steps from the rows to higher items; 0 for the others, which mirror them.

    Exact transport for iterations = 0.
    """
    from kinrank.stages.kernels.compiled import one_blas_thread
    from kinrank.stages.kernels.online import first_higher, step_costs
    from kinrank.stages.kernels.transport import exact_transitions

    links, ends, vectors = (read(folder, name) for name in ("links", "step_ends", "vectors"))
    parts = [read(folder, name) for name in ("state_starts", "state_items", "state_masses")]
    begin, end = int(links[span[0]]), int(links[span[1]])
    with one_blas_thread():
        if iterations == 0:
            rows = np.arange(*span, dtype=np.int32)
            origins = np.repeat(rows, np.diff(links[span[0] : span[1] + 1]))
            forward = np.flatnonzero(origins < ends[begin:end])
            pairs = np.stack([origins[forward], ends[begin:end][forward]], axis=1)
            exact = np.zeros(len(pairs), np.float32)
            exact_transitions(0, len(pairs), pairs, *parts, vectors, rho, exact)
            prices = np.zeros(end - begin, np.float32)
            prices[forward] = exact ** np.float32(gamma)
            return (prices,)
        mirror, found = sheet(ends.shape, np.int64), sheet(ends.shape, np.float32)
        mirror[begin:end] = np.arange(begin, end)  # to itself: the other end belongs to another block
        firsts = sheet((len(links) - 1,), np.int64)
        first_higher(*span, links, ends, firsts)
        step_costs(
            *span, firsts, links, ends, mirror, *parts, vectors, rho, np.float32(gamma), epsilon,
            iterations, found,
        )  # fmt: skip
    return (found[begin:end].copy(),)


def _entries(values: Rows, starts: NDArray[np.int64], span: Span) -> Rows:
    some: Rows = values[int(starts[span[0]]) : int(starts[span[1]])].copy()
    return some


def _restart(mu: float) -> Any:
    return np.float32(1.0 - 1.0 / (1.0 + mu))
