"""LPMT's offline half: a gallery -> states, steps and kernel lengths, in little room or in the method's own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.lpmt import FAR, LPMT, Fitted, fit_to
from kinrank.neighbors import Neighbors
from kinrank.progress import Progress

SPARE = 10  # neighbours kept beyond those that are needed

if TYPE_CHECKING:
    from kinrank.stages.paths import Steps

    Parts = tuple[Any, Steps, NDArray[np.float64], Fitted]


def is_small(method: LPMT) -> bool:
    """Whether the loops of stages/offline.py cover these hyper-parameters; the defaults, and most others."""
    return (
        method.similarity in ("bcd", "bsd")
        and method.solver == "resolvent"
        and method.neighbors == "diffused"
        and method.scale in ("local", "raw")
        and method.support > 0
        and not method.loops
    )


def width_of(method: LPMT) -> int:
    """How many neighbours of every item are needed, itself included."""
    return max(method.k1, kept_width_of(method), FAR + 1)


def kin_width_of(method: LPMT) -> int:
    """How many items of the largest F are needed, itself included."""
    return max(method.k1, method.k2, method.path_k + 1)


def least_width_of(method: LPMT) -> int:
    """How many neighbours are needed once powers are measured: those of the graphs, states and steps."""
    from kinrank.stages.graph import SCALES

    widest = max(round(method.k * scale) for scale in SCALES)
    return max(method.k2, widest + 1, method.path_k + 1)


def kept_width_of(method: LPMT) -> int:
    """How many neighbours are kept: some may leave before the others have to be searched again."""
    return least_width_of(method) + SPARE


def small_parts(
    method: LPMT,
    vectors: Vectors,
    lists_of: Callable[[int], Neighbors],
    progress: Progress,
    keep: dict[str, NDArray[Any]] | None = None,
) -> Parts:
    """(states, steps, lengths, powers); every large array is freed as soon as the next one is made of it.

    Unless `keep` is given, which takes what later changes need: see `lpmt_served.record`.
    """
    from kinrank.stages import graph, offline

    progress.stage("neighbours", 0, 4)
    lists = lists_of(width_of(method))
    progress.stage("diffusion", 1, 4)
    fitted = fit_to(lists, method.rho, method.gamma, method.share)
    lengths = graph.kernel_scale(lists, method.scale, method.k)
    scales = (1.0,) if method.similarity == "bsd" else graph.SCALES
    layers = offline.layered(lists, lengths, method.k, method.sigma, scales)
    held = lists.first(kept_width_of(method))
    near = np.ascontiguousarray(lists.indices[:, : method.k2])
    del lists
    beta = offline.graph_weights(layers, method.mu, method.lam, method.cycles, method.tolerance)
    width = min(kin_width_of(method), len(vectors))
    kin, similar = offline.kindred(layers, beta, method.mu, method.tolerance, held.indices, width)
    if keep is not None:
        from kinrank.methods.lpmt_served.record import Record

        keep |= Record.of(method, held, kin, similar, layers, beta).arrays()
    del held, layers
    progress.stage("states", 2, 4)
    near, weights = offline.confident_lists(near, kin, method.k2, method.kappa, fitted.share)
    states = offline.states_of(near, weights, kin, similar, method.k1, method.region, method.support)
    del similar, near, weights
    progress.stage("chains", 3, 4)
    near = np.ascontiguousarray(kin[:, : method.path_k + 1])
    del kin
    steps = offline.steps_between(near, method.steps)
    progress.stage("chains", 4, 4)
    return states, steps, lengths, fitted


def plain_parts(method: LPMT, vectors: Vectors, lists_of: Callable[[int], Neighbors], progress: Progress) -> Parts:
    """The same from the method itself, as it prepares a joint graph."""
    from kinrank.stages import graph

    lists = lists_of(width_of(method))
    items = Items.everyone(vectors)
    items._lists["joint"] = lists
    fitted = fit_to(lists, method.rho, method.gamma, method.share)
    prepared = method.prepare(items, progress)
    assert prepared.chains is not None
    lengths = graph.kernel_scale(lists, method.scale, method.k, method._farthest(items))
    return prepared.states, prepared.chains.steps, lengths, fitted
