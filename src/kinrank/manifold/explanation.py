"""A query and an item -> the chain between them as text, JSON or figure: mass moved, entropy produced, ranks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank import thermodynamics
from kinrank.explain import Explanation
from kinrank.features import Vectors
from kinrank.manifold.gallery import rank_of
from kinrank.manifold.snapshot import Snapshot
from kinrank.stages.masks import EVERYONE

FLOW = ("from", "to", "mass", "cost")  # how JSON names what a flow holds
SINGLE = ("distance", "shared", "direct", "rank_before", "rank_after")  # what JSON holds as it is
PER_STEP = ("costs", "names", "moved", "entropy", "entropy_of_states")


@dataclass(frozen=True)
class OnlineExplanation(Explanation):
    """Why an item stands where it stands for a query outside the graph; item 0 of the chain is the query.

    Items are told by their ids, also in `flows`; `items` has the numbers of the chain's items behind the query. A chain
    may pass through a query that was remembered: its kind is "remembered", its number counts such queries, the oldest
    is 0, and its name says so.

    Attributes:
        names: the ids of the chain's items, the query's left out; "remembered query 0" is no item.
        rank_before: the item's place in the search, from 1.
        rank_after: its place in the re-ranked answer, from 1.
    """

    names: tuple[Any, ...] = ()
    rank_before: int = 0
    rank_after: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON: chain, costs, mass, entropy, the largest flows and the ranks."""
        return {
            **super().to_dict(),
            "names": list(self.names),
            "flows": [[dict(zip(FLOW, flow, strict=True)) for flow in step] for step in self.flows],
            "rank_before": self.rank_before,
            "rank_after": self.rank_after,
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> OnlineExplanation:
        """What `to_dict` made, perhaps elsewhere and sent as JSON; other keys are passed over."""
        try:
            made: dict[str, Any] = {name: told[name] for name in SINGLE}
            made |= {name: tuple(told[name]) for name in PER_STEP}
            made["kinds"] = tuple(link["kind"] for link in told["chain"])
            made["items"] = tuple(link["number"] for link in told["chain"])
            made["total"] = float("inf") if told["total"] is None else told["total"]
            made["flows"] = tuple(tuple(tuple(flow[key] for key in FLOW) for flow in step) for step in told["flows"])
            return cls(**made)
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no explanation as to_dict makes it; what does not fit: {error!s:.80}") from None

    def __str__(self) -> str:
        ranks = f"rank {self.rank_before} -> {self.rank_after}"
        if not self.reached:
            return f"no chain leads to {self.names[-1]}; distance of the search {self.distance:.4f}; {ranks}"
        lines = ["query"]
        for name, cost, moved, entropy in zip(self.names, self.costs, self.moved, self.entropy, strict=True):
            share = cost / self.total if self.total else 0.0
            lines.append(f"  -> {name}   cost {cost:.4g} ({share:.0%}), moves {moved:.0%}, entropy {entropy:.3g}")
        steps = "1 step" if len(self.costs) == 1 else f"{len(self.costs)} steps"
        lines.append(
            f"d' {self.total:.4g} in {steps}; entropy {sum(self.entropy):.3g}; distance of the search "
            f"{self.distance:.4f}{self.beside}; {ranks}"
        )
        return "\n".join(lines)

    def figure(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A matplotlib figure, one bar per step: its cost, labelled with the mass it moves; saved where `path` says."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("figures need matplotlib; install it with: pip install 'kinrank[plot]'") from error
        labels = [f"→ {name}" for name in self.names] if self.reached else []
        figure = Figure(figsize=(7, 1.2 + 0.4 * max(len(labels), 1)), layout="constrained")
        axes = figure.subplots()
        places = np.arange(len(labels))
        bars = axes.barh(places, self.costs, color="#3b6ea5")
        axes.bar_label(bars, [f"moves {moved:.0%}" for moved in self.moved], padding=3, fontsize=8)
        axes.set_yticks(places, labels)
        axes.invert_yaxis()
        axes.margins(x=0.18)
        axes.set_xlabel("cost of the step")
        axes.set_title(
            f"rank {self.rank_before} → {self.rank_after}"
            + (f", d' {self.total:.3g}" if self.reached else ", no chain leads there"),
            fontsize=10,
        )
        if path is not None:
            figure.savefig(path)
        return figure


def explained(snapshot: Snapshot, query: Vectors, item: int, flows: int) -> OnlineExplanation:
    """Why an item, by its number, stands where it stands for one query (1, d)."""
    method, gallery, place = snapshot.method, snapshot.gallery, int(snapshot.remembered.items[item])
    found = snapshot.found(query, 1)
    masks = () if snapshot.masks() is EVERYONE else (snapshot.masks(),)
    chain = method.explain_answer(gallery, snapshot.opened, query, found, place, flows, *masks)
    kinds, numbers, names = _links(snapshot, chain.items or (place,))
    gained = (b - a for a, b in itertools.pairwise(chain.entropies))
    produced = [thermodynamics.produced(*step) for step in zip(chain.moved, gained, strict=True)]
    difference = query[0] - gallery.vectors[place]
    return OnlineExplanation(
        kinds=("query", *kinds) if chain.items else kinds,
        items=(0, *numbers) if chain.items else numbers,
        costs=tuple(b - a for a, b in itertools.pairwise([0.0, *chain.totals])),
        total=chain.totals[-1] if chain.items else float("inf"),
        distance=float(np.sqrt(difference @ difference)),
        flows=tuple(
            tuple((*_links(snapshot, (start, end))[2], mass, cost) for start, end, mass, cost in step)
            for step in chain.flows
        ),
        shared=chain.shared,
        direct=chain.direct,
        names=names,
        moved=chain.moved,
        entropy=tuple(entropy.total for entropy in produced),
        entropy_of_states=tuple(entropy.states for entropy in produced),
        rank_before=rank_of(query, snapshot.item_vectors, item, gallery.unit),
        rank_after=_rank_after(snapshot, query, item),
    )


def _links(snapshot: Snapshot, places: Sequence[int]) -> tuple[tuple[str, ...], tuple[int, ...], tuple[Any, ...]]:
    """Kinds, numbers and names of what stands at these places: items, or remembered queries."""
    remembered, names = snapshot.remembered, snapshot.names
    kinds, numbers, words = [], [], []
    for place, number in zip(places, remembered.numbers(np.array(places)).tolist(), strict=True):
        asked = bool(remembered.mask[place])
        one = np.array([number])
        kinds.append("remembered" if asked else "item")
        numbers.append(number if asked else int(names.numbers(one)[0]))
        words.append(f"remembered query {number}" if asked else names.of(one).tolist()[0])
    return tuple(kinds), tuple(numbers), tuple(words)


def _rank_after(snapshot: Snapshot, query: Vectors, item: int) -> int:
    """The place of an item in the re-ranked answer, from 1."""
    k = 256
    while True:  # most explained items stand in front; look further only for the others
        answer = snapshot.search(query, k, k, None)
        places = np.flatnonzero(answer.indices[0] == item)
        if len(places):
            return int(places[0]) + 1
        if k >= len(snapshot):  # a store may never find it: then it stands behind all others
            return len(snapshot)
        k *= 16
