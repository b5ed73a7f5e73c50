"""Query expansion: base class, and methods that average a query with its nearest items (AQE, AQEwD, alpha-QE)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Answer, Arrays, Facts, GalleryIndex, MethodState, PreparedMethod
from kinrank.methods.capabilities import Capabilities
from kinrank.methods.prepared_search import (
    answer_by_half_squares,
    group_by_found_count,
    half_squared_distances,
    search_rows_exactly,
)
from kinrank.neighbors import Integers, Neighbors, find_first_equal
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import SILENT, Progress
from kinrank.stages.request import UNRESTRICTED, Request
from kinrank.vector_input import Vectors, are_unit

KDBA_MEANING = (
    "number of items to mix into each gallery item, itself included (database-side augmentation); "
    "0 leaves the gallery unchanged"
)


AQEWD_K_MEANING = "number of nearest gallery items to mix into each query, with weights that fall with their rank"
ALPHA_QE_K_MEANING = "number of nearest gallery items to mix into each query, weighted by a power of their similarity"
ALPHA_MEANING = "power of the similarity that becomes the weight; larger favours the nearest, 0 gives equal weights"


class ExpansionTask(NamedTuple):
    """Rows to expand and the items to mix into them.

    rows (m, d); gallery (g, d), the original one; others (m, <= k) positions in it, without the row itself; k as
    declared; own: the gallery item that each row is, None for external queries; augmenting: True if the rows are those
    of the gallery; unit: True if rows have length one; network: result of `Expansion.network`.
    """

    rows: Vectors
    gallery: Vectors
    others: Neighbors
    k: int
    own: Integers | None
    augmenting: bool
    unit: bool
    network: Any = None


class ExpandedQueries(NamedTuple):
    """Prepared data: expanded queries, the gallery to compare them with, first equal gallery items, `unit` as above."""

    queries: Vectors
    gallery: Vectors
    first: Integers
    unit: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpansionState(MethodState):
    """Prepared gallery: the augmented vectors (n, d), None without augmentation, and the network, if any."""

    augmented: Vectors | None = None
    network: Any = None

    @classmethod
    def from_arrays(cls, method: Any, vectors: Vectors, arrays: Arrays, facts: Facts) -> ExpansionState:
        if not method.kdba:
            return cls(facts=facts)
        checks = stages.array_storage
        augmented = checks.require_array(arrays, "augmented", np.float32, vectors.shape)
        check = checks.check_unit if are_unit(vectors) else checks.check_finite
        check("augmented", augmented)
        return cls(augmented=augmented, facts=facts)


@dataclass(frozen=True, kw_only=True)
class Expansion(PreparedMethod):
    """Replace every query by a mixture of itself and its nearest gallery items, then search again.

    Subclasses implement `neighbor_weights`, or the whole mixture in `expand`. With `kdba` > 0 every gallery item is
    replaced by the same kind of mixture. Queries are always expanded from the original gallery; the augmented one is
    only used in the final comparison.

    Distances are -q'.x' between unit vectors, the negated score of the published programs, as for every method that
    computes scores. If the length of vectors matters (metric "euclidean"), a mixture has the mean length of its parts,
    and distances are |q' - x'|^2 / 2 - 1, which is the same for unit vectors.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(prepared_search=True, filters=True, changes=True)
    state: ClassVar[type[MethodState]] = ExpansionState

    k: int = parameter(4, "number of nearest gallery items to mix into each query", low=1)
    kdba: int = parameter(0, KDBA_MEANING, low=0)

    def expand(self, around: ExpansionTask, progress: Progress) -> Vectors:
        """Return (m, d) unit rows: the mixture of each row and its neighbours."""
        weights = self.neighbor_weights(around)
        return stages.vector_expansion.weighted_sum(around.rows, around.gallery, around.others, weights, around.unit)

    def neighbor_weights(self, around: ExpansionTask) -> Vectors:
        """Return (m, k) the weights of the neighbours; a row itself has the weight 1."""
        raise NotImplementedError

    def network(self) -> Any:
        """Load the data that `expand` needs in addition to the vectors."""
        return None

    def prepare(self, items: Items, progress: Progress) -> ExpandedQueries:
        own = items.queries if items.self_query else None
        vectors, network = (items.query_vectors, items.gallery_vectors), self.network()
        near = items.query_neighbors(self.k)
        queries = self.expand(ExpansionTask(*vectors, near, self.k, own, False, items.unit, network), progress)
        first = find_first_equal(items.gallery_vectors)
        gallery = self.augment(items, progress, network)[first] if self.kdba else items.gallery_vectors
        return ExpandedQueries(queries, gallery, first, items.unit)

    def augment(self, items: Items, progress: Progress, network: Any = None) -> Vectors:
        """Return (g, d) unit rows: every gallery item mixed with its kdba - 1 nearest others."""
        lists = items.gallery_neighbors(self.kdba)
        others = Neighbors(np.ascontiguousarray(lists.indices[:, 1:]), np.ascontiguousarray(lists.distances[:, 1:]))
        rows = items.gallery_vectors
        around = ExpansionTask(rows, rows, others, self.kdba - 1, np.arange(len(rows)), True, items.unit, network)
        return self.expand(around, progress)

    def distances(self, prepared: ExpandedQueries, queries: NDArray[np.int64]) -> NDArray[Any]:
        return half_squared_distances(prepared.queries[queries], prepared.gallery, prepared.first, prepared.unit)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Estimate expanded rows while they are divided by their length, neighbour lists, and one block of products."""
        queried = queries * (dimensions * 12 + (min(self.k, items) + 9) * 24)
        augmented = items * (dimensions * 16 + (min(self.kdba, items) + 9) * 24) if self.kdba else 0
        return queried + augmented + min(items, 1024) * min(items, 4096) * 4

    def prepare_gallery(self, gallery: GalleryIndex, progress: Progress, changes: bool = True) -> ExpansionState:
        return self.prepare_gallery_with(self.network(), gallery, progress)

    def prepare_gallery_with(self, network: Any, gallery: GalleryIndex, progress: Progress) -> ExpansionState:
        """Prepare the gallery with a network that is already loaded."""
        if not self.kdba:
            return ExpansionState(network=network)
        items = Items.from_gallery(gallery.vectors, gallery.unit)
        items.use_neighbors(gallery.lists(self.kdba))
        augmented = self.augment(items, progress, network)[find_first_equal(gallery.vectors)]
        return ExpansionState(augmented=augmented, network=network)

    def neighbors_needed(self, depth: int) -> int:
        return self.k

    def search_gallery(self, gallery: GalleryIndex, state: ExpansionState, request: Request) -> Answer:
        """Expand queries from the original gallery, then search again.

        With an augmented gallery the second search is exact, because its vectors are not in a store.
        """
        expanded, unit = np.empty_like(request.queries), gallery.unit
        for rows, others in group_by_found_count(request.neighbors, self.k):
            queries = request.queries[rows]
            around = ExpansionTask(queries, gallery.vectors, others, self.k, None, False, unit, state.network)
            expanded[rows] = self.expand(around, SILENT)
        if state.augmented is not None:
            again = replace(request, queries=expanded)
            return answer_by_half_squares(search_rows_exactly(again, state.augmented, unit))
        if request.masks is UNRESTRICTED:
            return answer_by_half_squares(gallery.search(expanded, request.depth))
        return answer_by_half_squares(gallery.search_among(expanded, request.depth, request.masks.results))


@dataclass(frozen=True, kw_only=True)
class AQE(Expansion):
    """Replace each query by the average of itself and its k nearest gallery items, and search again.

    The first results are usually right, and their mean is a cleaner representation of the target than the query
    alone. It is the simplest re-ranking method and the usual baseline.

        q' = l2(q + sum_{i=1..k} x_i),    distance(q, x) = -q'.x

    With kdba > 0 the gallery is averaged too, x' = l2(sum of the kdba nearest of x, x included), and q'
    (still made from the original gallery) is compared with x': the published ADBA + AQE.

    Cost: one search and O(q k d) time; O(q d) memory, and O(n d) more with kdba.

    Helps if the first k results are mostly right: recall then rises at almost no cost. Hurts if they are
    not (hard queries, large k), because a wrong item has the same weight as a right one: use a smaller k, AQEwD or
    AlphaQE. A query and items that cancel out leave the query unchanged.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.methods.AQE(k=4))
    """

    name: ClassVar[str] = "aqe"
    paper: ClassVar[str] = (
        "Chum, Philbin, Sivic, Isard, Zisserman: Total Recall: Automatic Query Expansion with a Generative "
        "Feature Model for Object Retrieval, ICCV 2007"
    )

    def neighbor_weights(self, around: ExpansionTask) -> Vectors:
        return np.ones(around.others.indices.shape, np.float32)


@dataclass(frozen=True, kw_only=True)
class AugmentedAQE(AQE):
    """ADBA + AQE: average each gallery item and each query with its nearest items, and compare the averages.

    This removes noise on both sides of the comparison. The queries are averaged with the
    original gallery items; only the comparison uses the averaged ones.

        q' = l2(q + sum_{i=1..k} x_i),    x' = l2(sum of the kdba nearest of x, x included),    distance(q, x) = -q'.x'

    Cost: AQE, plus one search of the gallery in itself, O(n^2 d) time and O(n d) memory, shared by all
    queries.

    Helps if each item has several good neighbours in the gallery. Hurts rare items: an item whose neighbours
    belong to another class is drawn to them, which happens to classes with fewer than kdba items.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.methods.AugmentedAQE(k=4, kdba=8))
    """

    name: ClassVar[str] = "adba+aqe"

    kdba: int = parameter(8, KDBA_MEANING, low=0)


@dataclass(frozen=True, kw_only=True)
class AQEwD(Expansion):
    """Replace each query by a mean of itself and its k nearest gallery items with weights that fall with the rank.

    The weight falls in equal steps from 1 for the query to 1 / (k + 1) for the last item. Later results are
    more often wrong, so this can use more of them than the plain average of AQE.

        q' = l2(q + sum_{i=1..k} (k + 1 - i) / (k + 1) x_i),    distance(q, x) = -q'.x

    With kdba > 0 the gallery is mixed as well, as in `adbawd+aqewd`, and q', still made from the original
    gallery, is compared with the result.

    Cost: one search and O(q k d) time; O(q d) memory, and O(n d) more with kdba.

    Helps like AQE, and suffers less from a k beyond the number of right results. Hurts if even the first
    result is wrong. The weight depends on the rank only, not on the distance of an item; see AlphaQE.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.methods.AQEwD(k=8))
    """

    name: ClassVar[str] = "aqewd"
    paper: ClassVar[str] = (
        "Gordo, Almazan, Revaud, Larlus: End-to-end Learning of Deep Visual Representations for Image "
        "Retrieval, IJCV 2017"
    )

    k: int = parameter(8, AQEWD_K_MEANING, low=1)

    def neighbor_weights(self, around: ExpansionTask) -> Vectors:
        """Weigh ranks by the declared k alone, even if there are fewer neighbours."""
        ranks = np.arange(1, around.others.k + 1, dtype=np.float64)
        weights = ((around.k + 1 - ranks) / (around.k + 1)).astype(np.float32)
        return np.broadcast_to(weights, around.others.indices.shape)


@dataclass(frozen=True, kw_only=True)
class AugmentedAQEwD(AQEwD):
    """ADBAwD + AQEwD: mix gallery items and queries with their nearest by falling weights, then compare.

    This removes noise on both sides of the comparison. The queries are mixed with the original
    gallery items; only the comparison uses the mixed ones.

        q' as in AQEwD,    x' = l2(sum_{i=0..kdba-1} (kdba - i) / kdba x_i),    distance(q, x) = -q'.x'

    Cost: AQEwD, plus one search of the gallery in itself, O(n^2 d) time and O(n d) memory, shared by all
    queries.

    Helps if each item has several good neighbours in the gallery; the falling weights make it milder than
    ADBA. Hurts rare items, which are drawn to neighbours of another class.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.methods.AugmentedAQEwD(k=6, kdba=8))
    """

    name: ClassVar[str] = "adbawd+aqewd"

    k: int = parameter(6, AQEWD_K_MEANING, low=1)
    kdba: int = parameter(8, KDBA_MEANING, low=0)


@dataclass(frozen=True, kw_only=True)
class AlphaQE(Expansion):
    """Replace each query by a mean of itself and its k nearest gallery items, weighted by their similarity.

    The weight is the cosine similarity to the power alpha, 1 for the query itself, so distant items get small weights.

        q' = l2(q + sum_{i=1..k} max(q.x_i, 0)^alpha x_i),    distance(q, x) = -q'.x

    Negative similarities count as 0: the plain power would subtract such items (odd alpha) or be undefined
    (fractional alpha). alpha = 0 is AQE. With kdba > 0 the gallery is mixed as well, as in
    `alpha-dba+alpha-qe`, and q', still made from the original gallery, is compared with the result.

    Cost: one search and O(q k d) time; O(q d) memory, and O(n d) more with kdba.

    Helps if the number of right results differs a lot between queries, and similarities tell right from wrong.
    Hurts if all similarities are alike (descriptors crowded in a cone): the weights then separate nothing; raise alpha
    or lower k. The published k=48, for landmarks, is too large for most other data.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.AlphaQE(k=4, alpha=3))
    """

    name: ClassVar[str] = "alpha-qe"
    paper: ClassVar[str] = (
        "Radenovic, Tolias, Chum: Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019"
    )

    k: int = parameter(4, ALPHA_QE_K_MEANING, low=1)
    alpha: float = parameter(3.0, ALPHA_MEANING, low=0, high=100)

    def neighbor_weights(self, around: ExpansionTask) -> Vectors:
        return stages.affinity.similarity_power(around.others.distances, self.alpha).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class AugmentedAlphaQE(AlphaQE):
    """Alpha-DBA + alpha-QE: mix gallery items and queries with their nearest items by similarity, then compare.

    This removes noise on both sides of the comparison. The queries are mixed with the original
    gallery items; only the comparison uses the mixed ones.

        q' as in AlphaQE,    x' = l2(sum_{i=0..kdba-1} max(x.x_i, 0)^alpha x_i),    distance(q, x) = -q'.x'

    Cost: AlphaQE, plus one search of the gallery in itself, O(n^2 d) time and O(n d) memory, shared by all
    queries.

    Helps if each item has good neighbours in the gallery, few or many: the power separates them. Hurts
    rare items close to items of another class, and galleries in which all similarities are alike.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.methods.AugmentedAlphaQE(k=4, kdba=16, alpha=3))
    """

    name: ClassVar[str] = "alpha-dba+alpha-qe"

    kdba: int = parameter(16, KDBA_MEANING, low=0)
