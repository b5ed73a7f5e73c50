"""Neighbour lists and vectors -> what LPMT's chains run over: states, steps, prices. Written once, run four ways.

* joint: `prepare` for queries and gallery together;
* Manifold: `prepare` for a gallery, with the record that later changes need;
* Dask: the same with `run` = a cluster that fills ranges of the output arrays;
* change: stages/changes.py, the same stages for the rows that moved, from the record of what was there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.progress import SILENT, Progress
from kinrank.stages import costs, diffusion, direct, graph, states, trust
from kinrank.stages.csr import Rows
from kinrank.stages.kernels.transport import Transport
from kinrank.stages.run import THREADS, Run
from kinrank.stages.settings import Settings

NEAR, FAR = 1, 60  # the neighbours whose distances tell the contrast
SPARE = 10  # neighbours kept beyond those that are needed: some may leave before the others are searched again


@dataclass(frozen=True)
class Widths:
    """How long lists have to be, each item itself included.

    Attributes:
        searched: neighbours that are searched for.
        needed: neighbours that graphs, states and steps need once the powers are measured.
        kept: neighbours that are kept for later changes, and that fill up lists by diffusion.
        diffused: items of the largest F.
    """

    searched: int
    needed: int
    kept: int
    diffused: int

    @classmethod
    def of(cls, settings: Settings) -> Widths:
        needed = max(settings.k2, max(graph.widths(settings.k)) + 1, settings.path_k + 1)
        kept = needed + SPARE
        diffused = max(settings.k1, settings.k2, settings.path_k + 1)
        return cls(max(settings.k1, kept, FAR + 1), needed, kept, diffused)


@dataclass(frozen=True)
class Measured:
    """rho, gamma, the share and the direct share in force: those given, or else measured from the data."""

    rho: float
    gamma: float
    share: float
    direct: float


def contrast(lists: Neighbors, far: int = FAR) -> float:
    """log(d_far / d_1) of the median distances of the far-th and the first neighbour; 1 among many duplicates."""
    columns = min(far, lists.k - 1), min(NEAR, lists.k - 1)
    wide, close = (float(np.median(lists.distances[:, column])) for column in columns)
    return float(np.log(wide / close)) if 0.0 < close <= wide else 1.0


def measured(lists: Neighbors, settings: Settings) -> Measured:
    """rho, gamma, share and direct in force: those given, or else measured without labels.

    The first three from the contrast of the distances, the last from the lists (stages/trust.py). Where distances are
    concentrated (deep features: contrast 0.1 to 0.4), a larger rho tells near from far within one transition.
    Where they are spread (pixels: 0.7 to 1.4), a larger gamma keeps chains to small steps, and the similarity F is a
    better judge of confident neighbours than the distance. docs/decisions/ has the measurements.
    """
    c = max(contrast(lists), 1e-3)
    return Measured(
        rho=float(np.clip(0.55 / c, 0.4, 4.0)) if settings.rho is None else settings.rho,
        gamma=float(np.clip(2.0 + 1.4 * c, 2.0, 4.0)) if settings.gamma is None else settings.gamma,
        share=float(np.clip((c - 0.4) / 0.3, 0.0, 1.0)) if settings.share is None else settings.share,
        direct=_direct(lists, settings),
    )


def _direct(lists: Neighbors, settings: Settings) -> float:
    """The share of the direct comparison; none where only the distance of the search counts."""
    if settings.theta == 1:
        return 0.0
    return trust.share_of(trust.trust_of(lists.indices)) if settings.direct is None else settings.direct


def pricing(settings: Settings, powers: Measured, unit: bool = True) -> Transport:
    """How steps are priced; no iterations stand for exact transport. `unit`: vectors have length one."""
    iterations = settings.iterations if settings.transport == "sinkhorn" else 0
    return Transport(float(powers.rho), float(powers.gamma), float(settings.epsilon), int(iterations), unit)


@dataclass(frozen=True, eq=False)
class Record:
    """What is kept beside states and steps so that a change can stay local: about 0.9 kB per item by default.

    Attributes:
        near: (n, w) neighbours, the item first: exact, or as the store found them. Where some left, lists end sooner,
            with -1 and inf behind; `Widths.needed` are always there.
        nearest, similar: (n, k1) the items of the largest F, and F; the item itself where F reaches fewer.
        graph: a S_beta, the graph that F spreads over.
        beta: weights of the graphs, as built.
        drift: (n, 3) how far F, state and costs of an item may be from those of a rebuild, as total L1 change of mass
            that was seen and not followed; see stages/changes.py.
    """

    near: Neighbors
    nearest: NDArray[np.int32]
    similar: NDArray[np.float32]
    graph: Rows
    beta: NDArray[np.float64]
    drift: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Prepared:
    """What chains run over.

    Attributes:
        vectors: (n, d) rows.
        states: p_i, one distribution over items per item.
        steps: which states may follow which, symmetric; data are the prices.
        wide: the wide states r_i, compared directly; without entries where their share is 0.
        lengths: (n,) the kernel lengths l_i.
        powers: rho, gamma, share and direct in force.
        record: what later changes need, where it was asked for.
    """

    vectors: Vectors
    states: Rows
    steps: Rows
    wide: Rows
    lengths: NDArray[np.float64]
    powers: Measured
    record: Record | None = None


def prepare(
    lists_of: Callable[[int], Neighbors],
    vectors: Vectors,
    settings: Settings,
    run: Run = THREADS,
    keep: bool = False,
    progress: Progress = SILENT,
    unit: bool = True,
) -> Prepared:
    """Graphs, BCD, LSE, steps and their prices. Large arrays are freed as soon as the next one is made of them.

    `lists_of(k)`: (n, min(k, n)) neighbours, each item first in its own list; it is called once, and may give longer
    lists. `keep` adds the record that later changes need. `unit`: the vectors have length one.
    """
    widths = Widths.of(settings)
    progress.stage("neighbours", 0, 4)
    lists = lists_of(widths.searched)
    progress.stage("diffusion", 1, 4)
    powers = measured(lists, settings)
    lengths = graph.kernel_lengths(lists, settings.k)
    layers = graph.layered_graphs(lists, lengths, settings.k, settings.sigma, run=run)
    near = lists.first(widths.kept)
    del lists
    beta = diffusion.graph_weights(layers, settings.mu, settings.lam, settings.cycles, settings.tolerance, run)
    spreading = diffusion.spreading_graph(layers, beta, settings.mu)
    del layers
    width = min(widths.diffused, len(vectors))
    nearest, similar = diffusion.nearest_by_diffusion(
        spreading, settings.mu, settings.tolerance, near.indices, width, run
    )
    record = None
    if keep:
        record = Record(near, nearest, similar, spreading, beta, np.zeros((len(vectors), 3), np.float32))
    confident, weights = states.confident_lists(near.indices, nearest, settings.k2, settings.kappa, powers.share)
    progress.stage("states", 2, 4)
    embedded = states.locality_states(confident, weights, nearest, similar, settings.k1, settings.support, run=run)
    np.abs(similar, out=similar)
    del similar, confident, weights
    wide = direct.no_states(len(vectors))
    if powers.direct > 0:
        wide = direct.wide_states(np.arange(len(vectors)), spreading, near.indices, embedded, settings, run)
    del near, spreading
    progress.stage("steps", 3, 4)
    indptr, indices = costs.step_pattern(nearest, settings.path_k)
    del nearest
    prices = costs.step_costs(indptr, indices, embedded, vectors, pricing(settings, powers, unit), run)
    progress.stage("steps", 4, 4)
    return Prepared(vectors, embedded, Rows(indptr, indices, prices), wide, lengths, powers, record)


def alone(vectors: Vectors) -> Prepared:
    """What there is to prepare of no item or of one: its state is itself, and it has nowhere to go."""
    count = len(vectors)
    own = Rows(np.arange(count + 1, dtype=np.int64), np.zeros(count, np.int32), np.ones(count, np.float32))
    nowhere = Rows(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    return Prepared(vectors, own, nowhere, direct.no_states(count), np.ones(count), Measured(1.0, 1.0, 0.0, 0.0))
