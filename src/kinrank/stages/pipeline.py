"""The pipeline of LPMT: from neighbour lists and vectors to states, steps and prices. Written once, used four ways.

* joint: `prepare_graph` for queries and gallery together;
* Manifold: `prepare_graph` for a gallery, with the record that later changes need;
* Dask: `prepare_graph` with `run` = a cluster that fills ranges of the output arrays;
* change: graph_update.py, the same stages for the rows that changed, starting from the record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors, find_nearest
from kinrank.progress import SILENT, Progress
from kinrank.stages import diffusion, gaussian_graph, states, step_costs
from kinrank.stages.csr import Rows, order_by_locality
from kinrank.stages.distance_fusion import MIN_DIRECT_SHARE
from kinrank.stages.kernels.compiler import THREAD_RUNNER, Runner
from kinrank.stages.lpmt_settings import LpmtSettings
from kinrank.stages.states import PackedRows
from kinrank.stages.transport import TransportSettings
from kinrank.vector_input import Vectors, sample_evenly

NEAR_RANK, FAR_RANK = 1, 60  # ranks of the neighbours whose distances define the contrast
SPARE_NEIGHBORS = 10  # kept beyond the needed ones: some may be removed before a list is searched again
NEIGHBORS_COMPARED = 5  # nearest items that trust in chains is measured from
THIN_DIFFERENCE = 0.42  # mutual - common at which chains decide alone; `kinrank bench defaults` shows how it was chosen
FEW_THIN_DIFFERENCE = 0.28  # the same among few items, such as candidates, where neighbours share more by chance
MAX_DIRECT_SHARE = 0.95  # of the direct comparison; the smallest is MIN_DIRECT_SHARE
HALF_UNITS = np.float32(1024)  # F is at most 2; times this it uses the range of float16
States = TypeVar("States", Rows, PackedRows)  # of a joint graph, and of a prepared gallery
MAX_TRUST_ITEMS, BLOCK_ROWS = 20_000, 2_000  # items that trust is measured from, and rows worked on at a time


@dataclass(frozen=True)
class ListSizes:
    """Required lengths of lists, each including the item itself.

    Attributes:
        needed: neighbours that graphs, states and steps need once the powers are measured.
        kept: neighbours to search for, kept for later changes and for filling up lists by diffusion.
        diffused: items of the largest F.
    """

    needed: int
    kept: int
    diffused: int

    @classmethod
    def of(cls, settings: LpmtSettings) -> ListSizes:
        """Return the sizes for these settings."""
        k2 = settings.answer_values.k2
        needed = max(k2, max(gaussian_graph.neighbors_per_layer(settings.k)) + 1, settings.path_k + 1)
        diffused = max(settings.k1, k2, settings.path_k + 1)
        return cls(needed, needed + SPARE_NEIGHBORS, diffused)


@dataclass(frozen=True)
class Powers:
    """Values of rho, gamma, share and direct share in use: given by the user or measured from the data."""

    rho: float
    gamma: float
    share: float
    direct: float


def distance_contrast(lists: Neighbors, far: int = FAR_RANK) -> float:
    """Return log(d_far / d_1) of the median distances of the far-th and first neighbour; 1 among many duplicates."""
    return _compare_distances(lists, lists.distances[:, min(far, lists.k - 1)])


def _compare_distances(lists: Neighbors, far: NDArray[np.float32]) -> float:
    """Return the contrast of the first neighbours of the lists and far ones at these distances."""
    close, wide = float(np.median(lists.distances[:, min(NEAR_RANK, lists.k - 1)])), float(np.median(far))
    return float(np.log(wide / close)) if 0.0 < close <= wide else 1.0


def measure_contrast(lists: Neighbors, vectors: Vectors, unit: bool, products: NDArray[np.float32]) -> float:
    """Return the contrast for lists shorter than FAR_RANK: a sample of the items is compared with all vectors.

    `products`: the inner products of all vectors, or none.
    """
    count, far = len(vectors), min(FAR_RANK, len(vectors) - 1)
    rows = sample_evenly(count, diffusion.choose_sample_size(count))
    if not unit or not len(products):
        return _compare_distances(
            lists, find_nearest(vectors[rows], vectors, far + 1, own=rows, unit=unit).distances[:, far]
        )
    place = count - 1 - far  # the item itself has the largest product
    inner = products[rows]
    inner.partition(place, axis=1)
    return _compare_distances(lists, np.sqrt(np.maximum(2.0 - 2.0 * inner[:, place], 0.0)))


def measure_powers(lists: Neighbors, settings: LpmtSettings, contrast: float | None = None) -> Powers:
    """Return rho, gamma, share and direct: those given, otherwise measured without labels.

    The first three follow from the contrast of the distances, the last from the lists (`measure_trust`). If distances
    are very concentrated (contrast below 0.2), a larger rho separates near from far within one transition. If they are
    spread (pixels: 0.7 to 1.4), a larger gamma keeps chains to small steps, and the similarity F selects confident
    neighbours better than the distance. docs/decisions/ has the measurements.
    """
    c = max(distance_contrast(lists) if contrast is None else contrast, 1e-3)
    return Powers(
        rho=_choose_rho(c) if settings.rho is None else settings.rho,
        gamma=float(np.clip(2.0 + 1.4 * c, 2.0, 4.0)) if settings.gamma is None else settings.gamma,
        share=float(np.clip((c - 0.4) / 0.3, 0.0, 1.0)) if settings.share is None else settings.share,
        direct=_choose_direct_share(lists, settings),
    )


def _choose_rho(contrast: float) -> float:
    """Return rho: 1 for usual distances, more if they are concentrated, less if they are spread."""
    return float(np.clip(min(1.0, 0.55 / contrast) * max(1.0, 0.2 / contrast) ** 4, 0.4, 4.0))


def _choose_direct_share(lists: Neighbors, settings: LpmtSettings) -> float:
    """Return the share of the direct comparison; 0 if only the distance of the search counts."""
    if settings.answer_values.theta == 1:
        return 0.0
    if settings.direct is not None:
        return settings.direct
    few = len(lists.indices) <= diffusion.MAX_BLOCK_ITEMS
    return choose_direct_share(measure_trust(lists.indices), FEW_THIN_DIFFERENCE if few else THIN_DIFFERENCE)


class ChainTrust(NamedTuple):
    """Trust in chains, measured without labels over the NEIGHBORS_COMPARED nearest of every item; both from 0 to 1.

    If neighbours list each other but share few of their own neighbours, data are thin: views along a turn, photographs
    of a place from one corner to the next. There chains lead to items that no neighbourhood contains. If neighbours
    share what they list, data are round, and if few list each other, links are unreliable; in both cases comparing
    whole neighbourhoods is safer than following single links. So the weight of chains grows with mutual - common.

    Attributes:
        mutual: share of neighbours that have the item among their own nearest.
        common: mean share of their nearest that are also among those of the item.
    """

    mutual: float
    common: float


def measure_trust(lists: NDArray[np.int32]) -> ChainTrust:
    """Measure lists (n, k), each starting with its own item, padded with -1; at most MAX_TRUST_ITEMS items are used.

    Example:
        >>> measure_trust(np.array([[0, 1], [1, 0], [2, 1]], np.int32))
        ChainTrust(mutual=0.6666666666666666, common=0.0)
    """
    near = np.ascontiguousarray(lists[:, 1 : NEIGHBORS_COMPARED + 1])
    rows = sample_evenly(len(lists), MAX_TRUST_ITEMS)
    pairs, mutual, common = gaussian_graph.count_shared_neighbors(near, rows).tolist()
    return ChainTrust(mutual / max(pairs, 1), common / max(pairs * near.shape[1], 1))


def choose_direct_share(trust: ChainTrust, thin: float = THIN_DIFFERENCE) -> float:
    """Return the largest share of the direct comparison: 1 - ((mutual - common) / thin)^2, within its limits."""
    ratio = max(trust.mutual - trust.common, 0.0) / thin
    return float(np.clip(1.0 - ratio**2, MIN_DIRECT_SHARE, MAX_DIRECT_SHARE))


def transport_settings(settings: LpmtSettings, powers: Powers, unit: bool = True) -> TransportSettings:
    """Return the settings for pricing steps; 0 iterations mean exact transport. `unit`: vectors have length one."""
    iterations = settings.iterations if settings.transport == "sinkhorn" else 0
    return TransportSettings(float(powers.rho), float(powers.gamma), float(settings.epsilon), int(iterations), unit)


@dataclass(frozen=True, eq=False)
class UpdateRecord:
    """Data kept so that a later change can stay local: about 0.7 kB per item by default.

    Attributes:
        near: (n, w) neighbours, the item first: exact, or as returned by the store. If some were removed, lists are
            shorter, padded with -1 and inf; at least `ListSizes.needed` remain.
        nearest, similar: (n, k1) the items of the largest F, and F; the item itself if F reaches fewer. F is float32
            while a graph is built or changed, and HALF_UNITS F as float16 when it is kept.
        graph: a S_beta, the graph that F spreads over.
        beta: weights of the graphs, as built.
        drift: (n, 3) how far F, state and costs of an item may be from those of a rebuild: total L1 change of mass that
            was seen but not followed; see graph_update.py.
    """

    near: Neighbors
    nearest: NDArray[np.int32]
    similar: NDArray[Any]
    graph: Rows
    beta: NDArray[np.float64]
    drift: NDArray[np.float32]

    @property
    def diffused(self) -> diffusion.DiffusedLists:
        """The lists by F."""
        return diffusion.DiffusedLists(self.nearest, self.similar)

    def pack(self) -> UpdateRecord:
        """Return the record as it is kept. A positive F stays positive."""
        if self.similar.dtype == np.float16:
            return self
        halves = np.empty(self.similar.shape, np.float16)
        for first in range(0, len(halves), BLOCK_ROWS):  # blocks, to take little memory
            block = self.similar[first : first + BLOCK_ROWS]
            positive = np.maximum(block * HALF_UNITS, np.finfo(np.float16).smallest_subnormal)
            halves[first : first + BLOCK_ROWS] = np.where(block > 0, positive, 0)
        return replace(self, similar=halves)

    def unpack(self) -> UpdateRecord:
        """Return the record as it is computed with."""
        return replace(self, similar=self.similar.astype(np.float32) / HALF_UNITS)


@dataclass(frozen=True, eq=False)
class LpmtGraph(Generic[States]):
    """Graph that chains run over.

    Attributes:
        vectors: (n, d) rows.
        states: p_i, one distribution over items per item; packed in a prepared gallery.
        steps: allowed transitions between states, symmetric; the data are the prices.
        wide: the wide states r_i, compared directly; no entries if their share is 0. Packed like the states.
        lengths: (n,) the kernel lengths l_i.
        powers: rho, gamma, share and direct in use.
        record: data for later changes, if requested.
    """

    vectors: Vectors
    states: States
    steps: Rows
    wide: States
    lengths: NDArray[np.float64]
    powers: Powers
    record: UpdateRecord | None = None

    def pack(self) -> LpmtGraph[PackedRows]:
        """Return the graph with packed states."""
        record = None if self.record is None else self.record.pack()
        packed = {"states": PackedRows.pack(self.states), "wide": PackedRows.pack(self.wide), "record": record}
        return LpmtGraph(**vars(self) | packed)


def prepare_graph(
    lists_of: Callable[[int], Neighbors],
    vectors: Vectors,
    settings: LpmtSettings,
    run: Runner = THREAD_RUNNER,
    keep: bool = False,
    progress: Progress = SILENT,
    unit: bool = True,
    products: NDArray[np.float32] = step_costs.NO_PRODUCTS,
    pack: bool = False,
) -> LpmtGraph[Any]:
    """Compute graphs, BCD, LSE, steps and their prices. Each large array is freed as soon as the next one is built.

    `lists_of(k)`: (n, min(k, n)) neighbours, each item first in its own list; it is called once and may return longer
    lists. `keep` adds the record that later changes need. `unit`: the vectors have length one. `products`: the inner
    products of all vectors, if they are known; they are overwritten. `pack` packs the states, once the prices are
    computed, and wide states.
    """
    widths = ListSizes.of(settings)
    progress.stage("neighbours", 0, 4)
    near = lists_of(widths.kept).first(widths.kept)
    progress.stage("diffusion", 1, 4)
    powers = measure_powers(near, settings, measure_contrast(near, vectors, unit, products))
    lengths = gaussian_graph.kernel_lengths(near, settings.k)
    layers = gaussian_graph.build_layers(near, lengths, gaussian_graph.LayerSettings(settings.k, settings.sigma), run)
    beta = diffusion.fit_graph_weights(layers, settings.mu, settings.lam, settings.cycles, settings.tolerance, run)
    graph = diffusion.build_diffusion_graph(layers, beta, settings.mu)
    del layers
    order = None  # runners other than threads need the rows of a range in one piece
    if run is THREAD_RUNNER and len(vectors) > diffusion.MAX_BLOCK_ITEMS:
        order = order_by_locality(graph)
    spread = diffusion.Spread.over(graph, settings.mu, settings.tolerance)
    diffused = diffusion.list_nearest_by_diffusion(spread, near.indices, min(widths.diffused, len(vectors)), run, order)
    record = None
    if keep:
        record = UpdateRecord(near, *diffused, graph, beta, np.zeros((len(vectors), 3), np.float32))
        record = record.pack() if pack else record
    k2 = settings.answer_values.k2
    confident = states.confident_lists(near.indices, diffused.nearest, k2, settings.kappa, powers.share)
    progress.stage("states", 2, 4)
    shared = record is not None and record.similar is diffused.similar
    embedded = states.locality_states(confident, diffused, settings.k1, settings.support, None, run, not shared)
    nearest = diffused.nearest
    del diffused, confident
    wide: Any = states.empty_states(len(vectors))
    if powers.direct > 0:
        build = pack_wide_states if pack else states.build_wide_states
        wide = build(np.arange(len(vectors)), graph, embedded, settings, powers.direct, run, order)
    del near, graph, spread
    progress.stage("steps", 3, 4)
    pattern = step_costs.build_step_pattern(nearest, settings.path_k)
    del nearest
    transport = transport_settings(settings, powers, unit)
    prices = step_costs.price_steps(pattern, embedded, vectors, transport, run, products, order)
    progress.stage("steps", 4, 4)
    prepared = LpmtGraph(vectors, embedded, Rows(*pattern, prices), wide, lengths, powers, record)
    return prepared.pack() if pack else prepared


def pack_wide_states(
    rows: NDArray[np.int64],
    graph: Rows,
    embedded: Rows,
    settings: LpmtSettings,
    direct: float,
    run: Runner = THREAD_RUNNER,
    order: NDArray[np.int64] | None = None,
) -> PackedRows:
    """Return the wide states of these items, packed block by block; arguments as of `states.build_wide_states`."""
    blocks = (rows[first : first + run.together] for first in range(0, len(rows), run.together))
    built = (states.build_wide_states(block, graph, embedded, settings, direct, run, order) for block in blocks)
    entries = min(len(rows), settings.answer_values.direct_support) + len(rows) // states.MAX_GAP
    return PackedRows.pack_parts(built, len(rows), len(rows) * entries)


def prepare_single_item(vectors: Vectors) -> LpmtGraph[PackedRows]:
    """Return the graph of at most one item: its state is the item itself, and there are no steps."""
    count = len(vectors)
    own = Rows(np.arange(count + 1, dtype=np.int64), np.zeros(count, np.int32), np.ones(count, np.float32))
    no_steps = Rows(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    powers = Powers(1.0, 1.0, 0.0, 0.0)
    return LpmtGraph(vectors, own, no_steps, states.empty_states(count), np.ones(count), powers).pack()
