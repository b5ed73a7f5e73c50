"""LPMT: neighbours -> graphs -> BCD -> LSE -> TMT -> fusion, as in the paper's Section 4."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors, are_unit
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.methods.served import Answer, Chain, Gallery, Kept
from kinrank.neighbors import Neighbors, pairwise
from kinrank.parameters import parameter
from kinrank.progress import SILENT, Progress
from kinrank.stages.marks import Marks
from kinrank.stages.masks import EVERYONE, Masks
from kinrank.stages.settings import Settings
from kinrank.stages.turnover import Turnover

if TYPE_CHECKING:
    from kinrank.stages.attach import Attachment, Found, PreparedGraph
    from kinrank.stages.csr import Rows
    from kinrank.stages.kernels.fusion import Mixture
    from kinrank.stages.pipeline import Measured

ENTRIES = 2  # first steps of a query, in units of path_k: it has no items that list it, which double those of others
BUDGET = 50  # settled items per item asked for
LEAST_BUDGET = 5000


GRAPH_EDGES = 2.8  # per neighbour k: the widest graph has k sqrt 2, and edges go both ways
SINKHORN_SECONDS, EXACT_SECONDS = 2.5e-10, 7e-9  # of one step: per pair of entries and round (see `SEARCH_SECONDS`)
SINKHORN_START = 4  # rounds that the beginning costs


@dataclass(frozen=True, eq=False)
class Joint:
    """Queries and gallery in one graph: their states, the steps between them (or none), their wide states, and the
    powers in force."""

    items: Items
    states: Rows
    steps: Rows | None
    wide: Rows
    powers: Measured


class Opened(NamedTuple):
    """A prepared gallery, ready to be searched: its graph, and how queries enter it."""

    graph: PreparedGraph
    settings: Attachment


@dataclass(frozen=True, kw_only=True)
class LPMT(Method, Settings):
    """An item is near when a chain of small transitions between neighbourhoods leads to it.

    A similarity smoothed over several neighbour graphs (BCD) turns every item into a probability distribution over its
    neighbourhood (LSE). The cost of one transition is the optimal transport between two such distributions. The
    distance is the cost of the cheapest chain of local transitions (TMT), mixed with the distance of the search and,
    where chains cannot be trusted, with a direct comparison of wide neighbourhoods.

    Equation, over queries and gallery together:

        F    = (1 - a)(I - a sum_v beta_v S_v)^-1,  a = 1/(1 + mu)     S_v: Gaussian graph on 7, 10, 14 neighbours
        p^_i = F_i on the reciprocal region R(i, k1), summing to one
        p_i  = sum over j in N(i, k2) of (1 + kappa [j in R(i, k2)]) p^_j, summing to one
        d'   = min over chains i_0 .. i_K of sum_k W1(p_{i_k}, p_{i_k+1}; d^rho)^gamma
        r_i  = sum_j w_ij p_j, weights of a wider diffusion            t = 1 - sum_c min(r_q(c), r_x(c))
        d*   = theta d + (1 - theta) ((1 - direct) d' + direct t)      (on the scales of stages/fusion.py)

    R is taken by F, N by distance, and where distances are spread (pixels) a share of N by F too. That share, rho and
    gamma are measured from the data, without labels, unless given; see stages/pipeline.py. So is `direct`, the share
    of a direct comparison of wide neighbourhoods, which the paper does not have (direct=0): where chains cannot be
    trusted, it decides (stages/trust.py). Variants of each stage, as in the paper's ablations: `LPMTAblation`.

    Cost: the neighbour search, then O(n) small problems: about 6 transports of `support` x `support` and two local
    diffusions per item; a search over 12 steps per item for each query. Memory about 2 kB per item beside the vectors,
    twice; up to 6000 items a table of 4 n^2 bytes on top.

    Helps where right answers hang together, however far from the query: views of an object, photographs of a place,
    classes. Hurts R@1 a little where an item has one or two right answers only, and gains little there and where
    distances carry no more than topics (text).

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.LPMT(k2=7, theta=0.3))
    """

    name: ClassVar[str] = "lpmt"
    paper: ClassVar[str] = (
        "Luo, Wu, Yao, Yu, Xu: Locality Preserving Markovian Transition for Instance Retrieval, ICML 2025"
    )

    k1: int = parameter(60, "how many items the local region of an item may hold, the item itself included", low=1)
    k2: int = parameter(
        5, "how many nearest items are averaged into the state of an item, the item itself included", low=1
    )
    kappa: float = parameter(
        3.0,
        "extra weight, in that average, of neighbours that list each other among their k2 nearest",
        low=0,
        high=1000,
    )
    theta: float = parameter(
        0.4, "share of the original distance in the result; the rest is the cost of the chain", low=0, high=1
    )
    rho: float | None = parameter(
        None, "power of the distance when mass is moved between items; large powers punish far moves", low=0,
        above_low=True, high=16,
    )  # fmt: skip
    gamma: float | None = parameter(
        None, "power of the cost of one step; above 1, many small steps are cheaper than a large one", low=0.1,
        high=16,
    )  # fmt: skip
    share: float | None = parameter(
        None, "share of the k2 averaged neighbours chosen by diffused similarity instead of distance", low=0, high=1
    )
    k: int = parameter(
        10, "neighbours of an item in the middle one of three graphs; the others have k / sqrt 2 and k sqrt 2", low=1
    )
    sigma: float = parameter(
        0.5, "width of the Gaussian edge weights, in units of the distance of the k-th neighbour", low=0.01, high=10_000
    )
    mu: float = parameter(
        0.23, "how strongly the diffusion stays at its start; smaller spreads similarity further", low=0.01, high=1000
    )
    lam: float = parameter(
        0.2, "lambda / n: how evenly the three graphs are weighted; 0 keeps only the smoothest one", low=0, high=1000
    )
    path_k: int = parameter(10, "how many nearest items of an item, by diffused similarity, a chain may step to", low=1)
    support: int = parameter(40, "how many of the largest entries of a state are kept; 0 keeps all", low=0)
    cycles: int = parameter(
        1, "rounds in which diffusion and weights of the graphs are adapted to each other", low=0, high=50
    )
    tolerance: float = parameter(
        2e-3, "largest residual left unspread when a diffusion row is computed; smaller is more exact and slower",
        low=1e-9, high=1,
    )  # fmt: skip
    transport: str = parameter(
        "sinkhorn", "how a step is priced: by a few rounds of `sinkhorn`, or `exact`, many times slower",
        choices=("sinkhorn", "exact"),
    )  # fmt: skip
    epsilon: float = parameter(
        0.05,
        "Sinkhorn's regularisation as a share of the mean cost; smaller is nearer to exact transport",
        low=0.02,
        high=1000,
    )
    iterations: int = parameter(4, "rounds of Sinkhorn per step; more are nearer to exact transport", low=1, high=1000)
    direct: float | None = parameter(
        None, "share of a direct comparison of wide states beside the chains, which the paper does not have; 0: none",
        low=0, high=1,
    )  # fmt: skip
    direct_k: int = parameter(160, "how many items, by a wider diffusion, a wide state averages the states of", low=1)
    direct_mu: float = parameter(
        0.02, "how strongly that wider diffusion stays at its start; smaller reaches further", low=0.01, high=1000
    )
    direct_support: int = parameter(128, "how many of the largest entries of a wide state are kept", low=1)

    def prepare(self, items: Items, progress: Progress) -> Joint:
        prepared = stages.pipeline.prepare(items.neighbors, items.vectors, self, progress=progress, unit=items.unit)
        return Joint(items, prepared.states, prepared.steps, prepared.wide, prepared.powers)

    def distances(self, prepared: Joint, queries: NDArray[np.int64]) -> NDArray[Any]:
        items = prepared.items
        assert prepared.steps is not None
        chained = stages.chains.chains_from(items.queries[queries], prepared.steps)[0][:, items.gallery]
        mixture, apart = self._mixture(prepared.powers), stages.fusion.NOTHING
        if mixture.direct:
            apart = stages.direct.apart(prepared.wide, items.queries[queries], items.gallery)
        return stages.fusion.fused(items.query_distances(queries), chained, mixture, items.self_query, apart)

    def distances_marked(self, prepared: Joint, query: int, marks: Marks) -> NDArray[Any]:
        items = prepared.items
        assert prepared.steps is not None
        marked = Marks(items.gallery[marks.positives], items.gallery[marks.negatives])
        asked = items.query_distances(np.array([query]))
        distances = np.concatenate([asked, pairwise(items.vectors[marked.all], items.gallery_vectors, items.unit)])
        score, reached = stages.feedback.joint_marked(
            int(items.queries[query]), marked, prepared.steps, prepared.wide, distances, items.gallery,
            self._mixture(prepared.powers), items.self_query,
        )  # fmt: skip
        last = float(score[reached].max(initial=0.0)) + 1.0
        return np.where(reached, score, last + asked[0]).astype(np.float64)

    def check_marked(self) -> None:
        """Marks are sources of chains, or what chains avoid."""

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        width = max(self.k1, 61)
        support = min(items, self.support or self.k2 * self.k1)
        table = 4 * items * items if items <= stages.costs.TABLE else 0
        per_item = 8 * width * 4 + 12 * support * 3 + 4 * dimensions + 60 * self.path_k + 40 * self.k
        if self.direct != 0:
            per_item += 16 * min(items, self.direct_k) + 24 * min(items, self.direct_support)
        return items * per_item + 64 * 2**20 + table

    def seconds(self, items: int, dimensions: int) -> float:
        diffusion, degree = stages.diffusion, GRAPH_EDGES * self.k
        spread = diffusion.spreading_seconds(items, items, degree, self.mu, self.tolerance)
        weighed = diffusion.weighing_seconds(items, degree, self.mu, self.cycles, self.tolerance)
        wide = 0.0
        if self.direct != 0:
            wide = diffusion.spreading_seconds(items, items, degree, self.direct_mu, self.tolerance)
        size = min(items, self.support or self.k2 * self.k1)
        rounds = size if self.transport == "exact" else SINKHORN_START + self.iterations
        price = (EXACT_SECONDS if self.transport == "exact" else SINKHORN_SECONDS) * rounds * size**2
        return super().seconds(items, dimensions) + spread + weighed + wide + price * items * self.path_k

    # a gallery prepared once, and queries that were never seen

    def memory_kept(self, items: int, dimensions: int, changes: bool) -> int:
        widths = stages.pipeline.Widths.of(self)
        lists = 8 * (widths.searched + widths.diffused)  # by distance and by F, numbers and values
        record = 8 * widths.kept + 24 * self.k if changes else 0
        support = 0 if self.support else 8 * min(items, self.k2 * self.k1)
        table = 4 * items * items if items <= stages.costs.TABLE else 0
        wide = 0 if self.direct == 0 else 16 * min(items, self.direct_k) + 24 * min(items, self.direct_support)
        return items * (4 * dimensions + lists + record + support + wide + 32 * self.k + 64) + 64 * 2**20 + table

    def keep(self, gallery: Gallery, progress: Progress, changes: bool = True) -> Kept:
        """Per item its state (`support` entries), its wide state (`direct_support`), about 12 steps, a kernel length.

        With `changes` also the record that later changes need, about 0.9 kB per item.
        """
        if len(gallery) < 2:
            return Kept(*stages.saved.saved(stages.pipeline.alone(gallery.vectors)))
        run = stages.run.THREADS if gallery.run is None else gallery.run
        prepared = stages.pipeline.prepare(gallery.lists, gallery.vectors, self, run, changes, progress, gallery.unit)
        arrays, facts = stages.saved.saved(prepared)
        if prepared.record is not None:
            facts |= {"built": float(len(gallery)), "contrast": self._contrast(prepared.record.near)}
        return Kept(arrays, facts)

    def opened(self, vectors: Vectors, kept: Kept, checked: bool = False) -> Opened:
        if not checked:
            self._check_facts(kept)
            stages.saved.check(len(vectors), kept.arrays, kept.facts, self)
        prepared = stages.saved.restored(vectors, kept.arrays, kept.facts)
        graph = stages.attach.PreparedGraph(vectors, prepared.states, prepared.steps, prepared.wide, prepared.lengths)
        unit = self.transport == "sinkhorn" or are_unit(vectors)  # only exact transport has to know
        return Opened(graph, self._attachment(prepared.powers, len(vectors), unit))

    def _check_facts(self, kept: Kept) -> None:
        """A ValueError if numbers that were kept are missing, or not what such a number can be."""
        facts, declared = kept.facts, {one.name: one for one in self.parameters()}
        for name in stages.saved.FACTS:
            if name == "direct" and name not in facts:
                continue  # kept before there were wide states
            if name not in facts:
                raise ValueError(f"the number {name} is missing")
            declared[name].check("facts", facts[name])
        recorded = {"built", "contrast"} if "nearest" in kept.arrays else set()
        if not recorded <= set(facts) or ("changed" in facts) != ("contrast_now" in facts):
            raise ValueError("numbers that belong to the record of changes are missing")
        for name in ("built", "changed"):
            if not facts.get(name, 0.0) >= 0.0:
                raise ValueError(f"facts: {name}={facts[name]!r} is not allowed; it counts items")

    def reach(self, depth: int) -> int:
        return max(ENTRIES * self.path_k, self.k2, self.k, depth) + 1

    def answer(
        self, gallery: Gallery, opened: Opened, queries: Vectors, found: Neighbors, k: int, depth: int,
        budget: int | None, masks: Masks = EVERYONE,
    ) -> Answer:  # fmt: skip
        k = max(1, masks.at_most(min(k, len(gallery))))
        budget = max(LEAST_BUDGET, BUDGET * k) if budget is None else budget
        parts = stages.attach.search_all(opened.graph, queries, found, opened.settings, k, depth, budget, masks)
        return _answer(parts, budget)

    def answer_marked(
        self, gallery: Gallery, opened: Opened, query: Vectors, found: Neighbors, marks: Marks, k: int, depth: int,
        budget: int | None, masks: Masks = EVERYONE,
    ) -> Answer:  # fmt: skip
        k = max(1, masks.at_most(min(k, len(gallery))))
        budget = max(LEAST_BUDGET, BUDGET * k) if budget is None else budget
        graph, settings = opened
        found_marked = stages.feedback.search_marked(graph, query, found, settings, marks, k, depth, budget, masks)
        return _answer(found_marked, budget)

    def explain_answer(
        self, gallery: Gallery, opened: Opened, query: Vectors, found: Neighbors, item: int, flows: int,
        masks: Masks = EVERYONE,
    ) -> Chain:  # fmt: skip
        transport = stages.transport
        chain, totals, state = stages.attach.chain_from(opened.graph, query, found, opened.settings, item, masks)
        if not chain:
            return Chain()
        states = [state, *(transport.state_of(opened.graph.states, node) for node in chain)]
        rho, direct, shared = opened.settings.transport.rho, opened.settings.mixture.direct, 0.0
        if direct:
            gaps = stages.attach.apart_from_items(opened.graph, found, opened.settings, masks)
            shared = 1.0 - float(gaps[item]) if (query[0] != gallery.vectors[item]).any() else 1.0
        plans = [transport.exact_flows(a, b, gallery.vectors, rho, gallery.unit) for a, b in itertools.pairwise(states)]
        return Chain(
            items=tuple(chain),
            totals=tuple(totals),
            flows=tuple(tuple(plan[:flows]) for plan in plans),
            moved=tuple(sum(flow[2] for flow in plan) for plan in plans),
            entropies=tuple(transport.entropy(mass) for _, mass in states),
            shared=shared,
            direct=direct,
        )

    def check_explained(self) -> None:
        """Every LPMT has chains."""

    def check_observed(self) -> None:
        """Chains pass through remembered queries."""

    def check_changes(self, kept: Kept, verb: str) -> None:
        if len(kept.arrays["lengths"]) > 1 and "nearest" not in kept.arrays:
            raise ValueError(f"this manifold was built without what it takes to {verb}; build it with changes=True")

    def change(self, before: Kept, gallery: Gallery, turnover: Turnover, tolerance: float | None) -> Kept:
        """Computed anew where the change reaches; made from the start where there is nothing to begin with."""
        if min(turnover.before, turnover.after, len(turnover.stay)) < 2:
            return self.keep(gallery, SILENT)
        old = stages.saved.restored(gallery.vectors, before.arrays, before.facts)
        after = stages.changes.changed(
            old, turnover, gallery.vectors, gallery.lists_of, gallery.exact, self, tolerance, gallery.unit
        )
        assert after.record is not None
        arrays, facts = stages.saved.saved(after)
        facts["changed"] = before.facts.get("changed", 0.0) + turnover.moved
        facts["contrast_now"] = self._contrast(after.record.near)
        return Kept(arrays, before.facts | facts)

    def stale(self, kept: Kept, items: int) -> float:
        """The largest of: the share of items that came or went, the mean total variation not followed, and how far the
        contrast moved. 0 right after a build; from 0 to 1."""
        facts = kept.facts
        if "changed" not in facts:
            return 0.0
        share = facts["changed"] / max(facts["built"], items, 1.0)
        drift = float(kept.arrays["drift"].sum(axis=1).mean()) / 2.0
        contrast = abs(facts["contrast_now"] / max(facts["contrast"], 1e-3) - 1.0)
        return float(np.clip(max(share, drift, contrast), 0.0, 1.0))

    def _contrast(self, near: Neighbors) -> float:
        """The contrast of the lists that are kept, no farther than all of them go."""
        pipeline = stages.pipeline
        return pipeline.contrast(near, pipeline.Widths.of(self).needed - 1)

    def _attachment(self, powers: Measured, items: int, unit: bool) -> Attachment:
        """How queries enter a gallery of so many items; `unit`: their vectors have length one."""
        transport = stages.pipeline.pricing(self, powers, unit)
        mixture = self._mixture(powers, items)
        return stages.attach.Attachment(
            self.sigma, self.k2, self.k, self.support, self.direct_support, ENTRIES * self.path_k, transport, mixture
        )

    def _mixture(self, powers: Measured, items: int | None = None) -> Mixture:
        """How d, chains and wide states are mixed."""
        k = self.k if items is None else min(self.k, items)
        return stages.fusion.mixture_of(self.theta, powers.gamma, k, direct=powers.direct)


def _answer(parts: Found, budget: int) -> Answer:
    facts = {"certain": float(parts.certain.mean()), "budget": budget, "settled": float(np.median(parts.settled))}
    return Answer(parts.indices, parts.distances, facts, parts.certain)
