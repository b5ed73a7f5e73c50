"""Chain from a query to an item: its links, the cost of each step and the mass it moves, as text, JSON or SVG."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any, NamedTuple

from kinrank import plots
from kinrank.errors import InputError
from kinrank.lazy_import import import_extra

FLOW_KEYS = ("from", "to", "mass", "cost")  # of a flow in JSON
SCALAR_KEYS = ("distance", "shared", "direct", "rank_before", "rank_after")  # the same in JSON
PER_STEP_KEYS = ("costs", "moved", "entropy_of_states")
ROW_HEIGHT, LABEL_WIDTH, BAR_WIDTH, NOTE_WIDTH = 26.0, 190.0, 300.0, 150.0  # of the drawing
MAX_LABEL_CHARACTERS = 26

Flow = tuple[Any, Any, float, float]  # name of the giving and of the receiving link, mass, cost of one unit


class Link(NamedTuple):
    """One link of a chain.

    Attributes:
        kind: "query", "item", or "remembered" for an observed query of a prepared gallery.
        number: number among the queries, the items of the gallery, or the observed queries, the oldest first.
        name: id of an item; a text such as "query 3" for others.
    """

    kind: str
    number: int
    name: Any


@dataclass(frozen=True)
class Chain:
    """The reason for the place of an item in a ranking: the cheapest chain from the query to the item.

    A step moves the mass of one neighbourhood to the next. `kinrank.thermodynamics` describes such a flow and the
    entropy it produces: log 2 times the moved mass, of which the states gain one part and the environment the rest.

    Attributes:
        links: the query, the links between, and the item; only the item if no chain leads to it. In a joint graph other
            queries can be links.
        costs: contribution of each step to d', W(p_i, p_j; d^rho)^gamma; one fewer than links.
        total: their sum, d' of the result; infinite if no chain leads to the item.
        flows: for each step, (from, to, mass, cost of one unit), largest masses first, with the names of links.
        moved: share of all mass that each step moves.
        entropy_of_states: part of the produced entropy that the states gain; negative if a step concentrates them.
        shared: overlap of the wide states of query and item, from 0 to 1, which is compared in addition to the chain.
        direct: weight of that overlap against the chain, from 0 to 1.
        distance: the Euclidean distance of the search.
        rank_before, rank_after: rank of the item in the search and after re-ranking, from 1; None if it is unknown.
    """

    links: tuple[Link, ...]
    costs: tuple[float, ...] = ()
    total: float = math.inf
    flows: tuple[tuple[Flow, ...], ...] = ()
    moved: tuple[float, ...] = ()
    entropy_of_states: tuple[float, ...] = ()
    shared: float = 0.0
    direct: float = 0.0
    distance: float = 0.0
    rank_before: int | None = None
    rank_after: int | None = None

    @property
    def reached(self) -> bool:
        """True if any chain leads to the item."""
        return self.total < math.inf

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kind of every link."""
        return tuple(link.kind for link in self.links)

    @property
    def items(self) -> tuple[int, ...]:
        """Number of every link."""
        return tuple(link.number for link in self.links)

    @property
    def names(self) -> tuple[Any, ...]:
        """Names of the links after the query; the last is the item."""
        return tuple(link.name for link in (self.links[1:] if self.reached else self.links))

    @property
    def entropy(self) -> tuple[float, ...]:
        """Entropy that each step produces."""
        return tuple(math.log(2.0) * moved for moved in self.moved)

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of each step in the total cost."""
        return tuple(cost / self.total if self.total else 0.0 for cost in self.costs)

    def rename(self, query: Link, describe: Callable[[int], Link]) -> Chain:
        """Return the chain with other names: `query` comes first, `describe` turns the numbers of all others to links.

        The names in `flows` must be numbers.
        """
        later = [describe(number) for number in (self.items[1:] if self.reached else self.items)]
        flows = tuple(
            tuple((describe(start).name, describe(end).name, mass, cost) for start, end, mass, cost in step)
            for step in self.flows
        )
        return replace(self, links=(query, *later) if self.reached else tuple(later), flows=flows)

    def to_dict(self) -> dict[str, Any]:
        """Convert to a dict for JSON, which has no infinity: `total` is None if no chain leads to the item."""
        return {
            "chain": [link._asdict() for link in self.links],
            "costs": list(self.costs),
            "total": self.total if self.reached else None,
            "distance": self.distance,
            "shared": self.shared,
            "direct": self.direct,
            "moved": list(self.moved),
            "entropy": list(self.entropy),
            "entropy_of_states": list(self.entropy_of_states),
            "flows": [[dict(zip(FLOW_KEYS, flow, strict=True)) for flow in step] for step in self.flows],
            "rank_before": self.rank_before,
            "rank_after": self.rank_after,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Chain:
        """Rebuild a chain from `to_dict`, possibly sent as JSON; other keys are ignored."""
        try:
            fields: dict[str, Any] = {name: content[name] for name in SCALAR_KEYS}
            fields |= {name: tuple(content[name]) for name in PER_STEP_KEYS}
            fields["links"] = tuple(Link(**link) for link in content["chain"])
            fields["total"] = math.inf if content["total"] is None else content["total"]
            fields["flows"] = tuple(
                tuple(tuple(flow[key] for key in FLOW_KEYS) for flow in step) for step in content["flows"]
            )
            return cls(**fields)
        except (KeyError, TypeError) as error:
            raise InputError(f"this is not the output of to_dict: {error!s:.80} does not fit") from None

    def __str__(self) -> str:
        distance = f"distance of the search {self.distance:.4f}"
        ranks = "" if self.rank_after is None else f"; rank {self.rank_before} -> {self.rank_after}"
        if not self.reached:
            return f"no chain leads to {self.links[-1].name}; {distance}{ranks}"
        lines = [str(self.links[0].name)]
        steps = zip(self.names, self.shares, self.moved, self.entropy, strict=True)
        for name, share, moved, entropy in steps:
            lines.append(f"  -> {name}   {share:.0%} of the cost, moves {moved:.0%}, entropy {entropy:.3g}")
        count = "1 step" if len(self.costs) == 1 else f"{len(self.costs)} steps"
        direct = ""
        if self.direct:
            direct = (
                f"; wide neighbourhoods have {self.shared:.0%} in common: this counts {self.direct:.0%}, the chain "
                f"{1.0 - self.direct:.0%}"
            )
        summary = f"d' {self.total:.4g} in {count}; entropy {sum(self.entropy):.3g}; {distance}{direct}{ranks}"
        return "\n".join([*lines, summary])

    @property
    def _title(self) -> str:
        ranks = "" if self.rank_after is None else f"rank {self.rank_before} → {self.rank_after}, "
        return ranks + (f"d' {self.total:.3g}" if self.reached else f"no chain leads to {self.links[-1].name}")

    def to_svg(self) -> str:
        """Return the content of an .svg file with one bar per step: its share of the cost, and the mass it moves."""
        highest, rows = max(self.costs, default=0.0) or 1.0, []
        for place, (name, cost, share, moved) in enumerate(
            zip(self.names, self.costs, self.shares, self.moved, strict=False)
        ):
            y, width = ROW_HEIGHT * (place + 1.5), BAR_WIDTH * cost / highest
            label = plots.shorten_text(f"→ {name}", MAX_LABEL_CHARACTERS)
            rows.append(
                plots.svg_text(LABEL_WIDTH - 8, y + 4, label, "end", "name")
                + f'<path d="M{LABEL_WIDTH:g} {y - 8:g}h{width:.1f}v16h{-width:.1f}z" fill="var(--after)"/>'
                + plots.svg_text(LABEL_WIDTH + width + 6, y + 4, f"{share:.0%}, moves {moved:.0%}", "start")
            )
        head = plots.svg_text(8.0, ROW_HEIGHT * 0.7, f"{self.links[0].name}: {self._title}", "start", "name")
        size = LABEL_WIDTH + BAR_WIDTH + NOTE_WIDTH, ROW_HEIGHT * (len(rows) + 1.5)
        return plots.standalone_svg(plots.svg_element(*size, self._title, head + "".join(rows), "chart"))

    def _repr_html_(self) -> str:
        content = base64.b64encode(self.to_svg().encode("utf-8")).decode("ascii")
        return f'<img alt="{escape(str(self))}" src="data:image/svg+xml;base64,{content}">'

    def figure(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Return a matplotlib figure with one bar per step: its share of the cost, and moved mass. Save to `path`."""
        matplotlib = import_extra("matplotlib.figure", "a figure", "plot")
        labels = [f"→ {name}" for name in self.names] if self.reached else []
        figure = matplotlib.Figure(figsize=(7, 1.2 + 0.4 * max(len(labels), 1)), layout="constrained")
        axes, places = figure.subplots(), range(len(labels))
        bars = axes.barh(places, [100 * share for share in self.shares], color=plots.LIGHT["after"])
        axes.bar_label(bars, [f"moves {moved:.0%}" for moved in self.moved], padding=3, fontsize=8)
        axes.set_yticks(places, labels)
        axes.invert_yaxis()
        axes.margins(x=0.18)
        axes.set_xlabel("share of the cost, %")
        axes.set_title(self._title, fontsize=10)
        if path is not None:
            figure.savefig(path)
        return figure
