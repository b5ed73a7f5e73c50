"""LPMT: neighbours, graphs, BCD, LSE, TMT and fusion, as in Section 4 of the paper."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.chain import Chain, Link
from kinrank.errors import InputError
from kinrank.methods.base import Answer, Arrays, Facts, GalleryIndex, MethodState, PreparedMethod
from kinrank.methods.capabilities import Capabilities
from kinrank.neighbors import Neighbors, pairwise_distances
from kinrank.problem import Items
from kinrank.progress import SILENT, Progress
from kinrank.stages.item_change import ItemChange
from kinrank.stages.lpmt_settings import BY_ANSWERS, AnswerValues, LpmtSettings
from kinrank.stages.request import Marks, Request
from kinrank.vector_input import Vectors

if TYPE_CHECKING:
    from kinrank.stages.csr import Rows
    from kinrank.stages.distance_fusion import Mixture
    from kinrank.stages.online_query import SearchGraph
    from kinrank.stages.pipeline import LpmtGraph, Powers
    from kinrank.stages.states import PackedRows

BUDGET_PER_RESULT = 50  # visited items per requested item
MIN_BUDGET = 5000
GRAPH_EDGES = 2.8  # per neighbour k: the widest graph has k sqrt 2, in both directions
SINKHORN_SECONDS, EXACT_SECONDS = 2.5e-10, 7e-9  # of one step, per pair of entries and round (see `SEARCH_SECONDS`)
SINKHORN_START = 4  # cost of the initialisation, in rounds


@dataclass(frozen=True, eq=False)
class JointState:
    """Queries and gallery in one graph: states, steps between them (or None), wide states, the powers, and LPMT's k."""

    items: Items
    states: Rows
    steps: Rows | None
    wide: Rows
    powers: Powers
    k: int


@dataclass(frozen=True, eq=False, kw_only=True)
class LPMTState(MethodState):
    """Prepared gallery: its graph and the method that made it. Only searches compute what they read of both."""

    method: LPMT
    prepared: LpmtGraph[PackedRows]

    @cached_property
    def graph(self) -> SearchGraph:
        """The graph with what searches read of the method."""
        return stages.online_query.SearchGraph.over(self.prepared, self.method)

    @property
    def has_change_record(self) -> bool:  # type: ignore[override]
        return len(self.prepared.lengths) <= 1 or self.prepared.record is not None

    def to_arrays(self) -> Arrays:
        return stages.array_storage.graph_to_arrays(self.prepared)

    @classmethod
    def from_arrays(cls, method: LPMT, vectors: Vectors, arrays: Arrays, facts: Facts) -> LPMTState:
        _check_facts(method, arrays, facts)
        stages.array_storage.check_graph_arrays(len(vectors), arrays, facts, method)
        return method.make_state(stages.array_storage.graph_from_arrays(vectors, arrays, facts), facts)

    def staleness(self, items: int) -> float:
        """The largest of: the share of items that came or went, the mean total variation not followed, and how far the
        contrast moved. 0 right after a build; from 0 to 1."""
        facts, record = self.facts, self.prepared.record
        if "changed" not in facts or record is None:
            return 0.0
        share = facts["changed"] / max(facts["built"], items, 1.0)
        drift = float(record.drift.sum(axis=1).mean()) / 2.0
        contrast = abs(facts["contrast_now"] / max(facts["contrast"], 1e-3) - 1.0)
        return float(np.clip(max(share, drift, contrast), 0.0, 1.0))


def _check_facts(method: LPMT, arrays: Arrays, facts: Facts) -> None:
    """Raise an InputError if saved numbers are missing or out of range."""
    declared = {entry.name: entry for entry in method.parameters()}
    for name in stages.array_storage.POWER_NAMES:
        if name == "direct" and name not in facts:
            continue  # saved before there were wide states
        if name not in facts:
            raise InputError(f"the number {name} is missing")
        power, value = declared[name], facts[name]
        low, high = power.low or 0.0, power.high or np.inf
        if not low <= value <= high or (power.above_low and value == low):
            raise InputError(parameter=name, given=value, allowed=power.allowed, context="facts")
    recorded = {"built", "contrast"} if "nearest" in arrays else set()
    if not recorded <= set(facts) or ("changed" in facts) != ("contrast_now" in facts):
        raise InputError("numbers of the change record are missing")
    for name in ("built", "changed"):
        if not facts.get(name, 0.0) >= 0.0:
            raise InputError(parameter=name, given=facts[name], allowed="a number of items", context="facts")


@dataclass(frozen=True, kw_only=True)
class LPMT(PreparedMethod, LpmtSettings):
    """An item is near if a chain of small transitions between neighbourhoods leads to it.

    A similarity smoothed over several neighbour graphs (BCD) turns every item into a probability distribution over its
    neighbourhood (LSE). The cost of one transition is the optimal transport between two such distributions. The
    distance is the cost of the cheapest chain of local transitions (TMT), mixed with the distance of the search and,
    if chains are unreliable, with a direct comparison of wide neighbourhoods.

    Equation, over queries and gallery together:

        F    = (1 - a)(I - a sum_v beta_v S_v)^-1,  a = 1/(1 + mu)     S_v: Gaussian graph on 7, 10, 14 neighbours
        p^_i = F_i on the reciprocal region R(i, k1), summing to one
        p_i  = sum over j in N(i, k2) of (1 + kappa [j in R(i, k2)]) p^_j, summing to one
        d'   = min over chains i_0 .. i_K of sum_k W1(p_{i_k}, p_{i_k+1}; d^rho)^gamma
        r_i  = sum_j w_ij p_j, weights of a wider diffusion            t = 1 - sum_c min(r_q(c), r_x(c))
        d*   = theta d + (1 - theta) ((1 - direct) d' + direct t)      (on the scales of stages/distance_fusion.py)

    R is taken by F, N by distance, and if distances are spread (pixels), a share of N by F too. That share, rho and
    gamma are measured from the data, without labels, unless given; see stages/pipeline.py. So is `direct`, the largest
    share of a direct comparison of wide neighbourhoods, which the paper does not have (direct=0). A query has this
    share if its wide state overlaps with those of its nearest items, and less if it does not. For variants of each
    stage, as in the paper's ablations, see `lpmt-ablation`.

    Cost: the neighbour search, then O(n) small problems: about 6 transports of `support` x `support` and two local
    diffusions per item; a search over 12 steps per item for each query. Memory about 2 kB per item besides the vectors,
    twice; up to 6000 items a table of 4 n^2 bytes in addition.

    Helps if right results are connected, however far from the query: views of an object, photographs of a place,
    classes. Hurts R@1 a little if an item has only one or two right results, and gains little there and if
    distances express no more than topics (text).

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.LPMT(k2=7, theta=0.3))
    """

    name: ClassVar[str] = "lpmt"
    paper: ClassVar[str] = (
        "Luo, Wu, Yao, Yu, Xu: Locality Preserving Markovian Transition for Instance Retrieval, ICML 2025"
    )
    capabilities: ClassVar[Capabilities] = Capabilities(
        prepared_search=True, filters=True, changes=True, feedback=True, explain=True, observe=True
    )
    state: ClassVar[type[MethodState]] = LPMTState

    def prepare(self, items: Items, progress: Progress) -> JointState:
        few = len(items) <= stages.step_costs.MAX_TABLE_ITEMS
        search, products = items.neighbors, stages.step_costs.NO_PRODUCTS
        if few:
            products = stages.kernels.nearest_search.multiply_pairs(items.vectors)
            search = partial(items.neighbors, products=products)
        prepared = stages.pipeline.prepare_graph(
            search, items.vectors, self, progress=progress, unit=items.unit, products=products
        )
        return JointState(items, prepared.states, prepared.steps, prepared.wide, prepared.powers, self.k)

    def distances(self, prepared: JointState, queries: NDArray[np.int64]) -> NDArray[Any]:
        items = prepared.items
        assert prepared.steps is not None
        chained = stages.step_costs.find_chains(items.queries[queries], prepared.steps)[0][:, items.gallery]
        mixture, wide_gaps = self._mixture(prepared.powers), stages.distance_fusion.NO_VALUES
        if mixture.direct:
            wide_gaps = stages.states.wide_distances(prepared.wide, items.queries[queries], items.gallery)
        return stages.distance_fusion.fuse_distances(
            items.query_distances(queries), chained, mixture, items.self_query, wide_gaps
        )

    def distances_with_marks(self, prepared: JointState, query: int, marks: Marks) -> NDArray[Any]:
        items = prepared.items
        assert prepared.steps is not None
        marked = Marks(items.gallery[marks.positives], items.gallery[marks.negatives])
        query_row = items.query_distances(np.array([query]))
        distances = np.concatenate(
            [query_row, pairwise_distances(items.vectors[marked.all], items.gallery_vectors, items.unit)]
        )
        marked_item = stages.feedback_search.MarkedItem(int(items.queries[query]), marked, distances, items.gallery)
        score, reached = stages.feedback_search.score_with_marks(
            marked_item, prepared.steps, prepared.wide, self._mixture(prepared.powers), items.self_query
        )
        last = float(score[reached].max(initial=0.0)) + 1.0
        return np.where(reached, score, last + query_row[0]).astype(np.float64)

    @cached_property
    def answer_values(self) -> AnswerValues:
        given = {name: value for name in AnswerValues._fields if (value := getattr(self, name)) is not None}
        return BY_ANSWERS[self.answers]._replace(**given)

    def value_in_use(self, name: str) -> Any:
        return getattr(self.answer_values if name in AnswerValues._fields else self, name)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        width = max(self.k1, 61)
        support = min(items, self.support or self.answer_values.k2 * self.k1)
        table = 4 * items * items if items <= stages.step_costs.MAX_TABLE_ITEMS else 0
        per_item = 8 * width * 4 + 12 * support * 3 + 4 * dimensions + 60 * self.path_k + 40 * self.k
        per_item += self._wide_bytes(items)
        return items * per_item + 64 * 2**20 + table

    def seconds(self, items: int, dimensions: int) -> float:
        diffusion, degree = stages.diffusion, GRAPH_EDGES * self.k
        spread = diffusion.estimate_diffusion_seconds(items, items, degree, self.mu, self.tolerance)
        weighed = diffusion.estimate_weighing_seconds(items, degree, self.mu, self.cycles, self.tolerance)
        wide = 0.0
        if self.direct != 0:
            wide = diffusion.estimate_diffusion_seconds(items, items, degree, self.direct_mu, self.tolerance)
        size = min(items, self.support or self.answer_values.k2 * self.k1)
        rounds = size if self.transport == "exact" else SINKHORN_START + self.iterations
        price = (EXACT_SECONDS if self.transport == "exact" else SINKHORN_SECONDS) * rounds * size**2
        return super().seconds(items, dimensions) + spread + weighed + wide + price * items * self.path_k

    # search of a prepared gallery

    def prepared_bytes(self, items: int, dimensions: int, changes: bool) -> int:
        widths = stages.pipeline.ListSizes.of(self)
        lists = 8 * (widths.kept + widths.diffused)  # by distance and by F, numbers and values
        record = 24 * self.k if changes else 0
        support = 0 if self.support else 8 * min(items, self.answer_values.k2 * self.k1)
        table = 4 * items * items if items <= stages.step_costs.MAX_TABLE_ITEMS else 0
        wide = self._wide_bytes(items)
        return items * (4 * dimensions + lists + record + support + wide + 32 * self.k + 64) + 64 * 2**20 + table

    def prepare_gallery(self, gallery: GalleryIndex, progress: Progress, changes: bool = True) -> MethodState:
        """Return per item its state (`support` entries), wide state (`direct_support`), about 12 steps, kernel length.

        With `changes` also the record that later changes need, about 0.7 kB per item.
        """
        if len(gallery) < 2:
            return self.make_state(stages.pipeline.prepare_single_item(gallery.vectors))
        run = stages.kernels.compiler.THREAD_RUNNER if gallery.run is None else gallery.run
        prepared = stages.pipeline.prepare_graph(
            gallery.lists, gallery.vectors, self, run, changes, progress, gallery.unit, pack=True
        )
        facts = {}
        if prepared.record is not None:
            facts = {"built": float(len(gallery)), "contrast": self._contrast(prepared.record.near)}
        return self.make_state(prepared, facts)

    def make_state(self, prepared: LpmtGraph[PackedRows], facts: Facts | None = None) -> LPMTState:
        """Return the state of a gallery with this graph; `facts` are saved together with the measured powers."""
        prepared = replace(prepared, lengths=prepared.lengths.astype(np.float32, copy=False))  # as they are saved
        measured = {name: getattr(prepared.powers, name) for name in stages.array_storage.POWER_NAMES}
        return LPMTState(method=self, prepared=prepared, facts=(facts or {}) | measured)

    def neighbors_needed(self, depth: int) -> int:
        return max(stages.online_query.FIRST_STEPS_FACTOR * self.path_k, self.answer_values.k2, self.k, depth) + 1

    def search_gallery(self, gallery: GalleryIndex, state: LPMTState, request: Request) -> Answer:
        graph = state.graph
        k = max(1, min(request.k, len(gallery), request.masks.possible))
        budget = max(MIN_BUDGET, BUDGET_PER_RESULT * k) if request.budget is None else request.budget
        limited = replace(request, k=k, budget=budget)
        if request.marks:
            parts = stages.feedback_search.search_with_marks(graph, limited)
        else:
            parts = stages.online_query.search_in_blocks(graph, limited)
        facts = {"certain": float(parts.certain.mean()), "budget": budget, "settled": float(np.median(parts.settled))}
        return Answer(parts.indices, parts.distances, facts, parts.certain)

    def explain_result(self, gallery: GalleryIndex, state: LPMTState, request: Request, item: int, flows: int) -> Chain:
        transport, graph, query = stages.transport, state.graph, request.queries
        chain, totals, own = stages.online_query.find_chain(graph, request, item)
        if not chain:
            return Chain((Link("item", item, item),))
        states = [own, *(graph.states.state(node) for node in chain)]
        rho, direct, shared = graph.pricing.rho, graph.mixture.direct, 0.0
        if direct:
            gaps = stages.online_query.wide_distances_to_items(graph, request)
            direct = stages.distance_fusion.measure_direct_share(direct, gaps[None], graph.mixture.k, False)
            shared = 1.0 - float(gaps[item]) if (query[0] != gallery.vectors[item]).any() else 1.0
        plans = [
            transport.solve_exact_flows(a, b, gallery.vectors, rho, gallery.unit) for a, b in itertools.pairwise(states)
        ]
        entropies = [transport.state_entropy(mass) for _, mass in states]
        return Chain(
            links=(Link("query", 0, "query"), *(Link("item", node, node) for node in chain)),
            costs=tuple(b - a for a, b in itertools.pairwise([0.0, *totals])),
            total=totals[-1],
            flows=tuple(tuple(plan[:flows]) for plan in plans),
            moved=tuple(sum(flow[2] for flow in plan) for plan in plans),
            entropy_of_states=tuple(b - a for a, b in itertools.pairwise(entropies)),
            shared=shared,
            direct=direct,
        )

    def change(
        self, before: LPMTState, gallery: GalleryIndex, turnover: ItemChange, tolerance: float | None
    ) -> MethodState:
        """Recompute the parts that the change affects; prepare from scratch if too few items remain."""
        if min(turnover.before, turnover.after, len(turnover.stay)) < 2:
            return self.prepare_gallery(gallery, SILENT)
        changed = stages.graph_update.ChangedGallery(
            turnover, gallery.vectors, gallery.lists_of, gallery.exact, gallery.unit
        )
        after = stages.graph_update.update_graph(before.prepared, changed, self, tolerance)
        assert after.record is not None
        moved = before.facts.get("changed", 0.0) + turnover.moved
        facts = {"changed": moved, "contrast_now": self._contrast(after.record.near)}
        return self.make_state(after, before.facts | facts)

    def _contrast(self, near: Neighbors) -> float:
        """Compute the contrast of the saved lists, over the length that all of them have."""
        pipeline = stages.pipeline
        return pipeline.distance_contrast(near, pipeline.ListSizes.of(self).needed - 1)

    def _wide_bytes(self, items: int) -> int:
        """Estimate the bytes per item of wide states."""
        values = self.answer_values
        return 0 if self.direct == 0 else 16 * min(items, values.direct_k) + 24 * min(items, values.direct_support)

    def _mixture(self, powers: Powers) -> Mixture:
        """Return the weights of d, chains and wide states."""
        return stages.distance_fusion.make_mixture(self.answer_values.theta, powers.gamma, self.k, direct=powers.direct)
