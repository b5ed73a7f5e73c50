"""A gallery, without labels -> a Diagnosis: its neighbourhoods, what re-ranking may gain, with which parameters."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from kinrank.diagnosis import choosing, expected, preparing
from kinrank.diagnosis.expected import whole
from kinrank.diagnosis.facts import Facts, facts_of
from kinrank.features import check
from kinrank.methods import Method, resolve
from kinrank.progress import Progress, Show
from kinrank.space import Space, check_metric

LEAST = 20  # items below which nothing can be said
APART = 1.05  # query_gap from which on queries are of another kind than items
MEANT = {
    "centred": ("Centring the vectors (subtracting their mean)", 0),
    "half-whitened": ("Half-whitening them (damping the strongest directions, too)", preparing.HALF),
}  # way -> what it does, and the power of a whitening that does it
RIGHT = (1, 2, 4, 8, 16)  # right answers that a gain is told for, where their number is not known


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What can be said of vectors before anything is judged. Prints as plain sentences.

    Attributes:
        facts: what was measured; see `Facts`.
        right: how many right answers a query has, if that was given.
        gain: what LPMT is expected to gain over no re-ranking, joint, with its interval.
        by_right: right answers -> the expected gain if there are so many.
        preparations: what centring and half whitening would change; empty where lengths matter (euclidean).
    """

    facts: Facts
    right: float | None
    gain: expected.Gain
    by_right: dict[int, expected.Gain]
    preparations: tuple[preparing.Change, ...]

    @property
    def helps(self) -> bool:
        """Whether re-ranking is expected to help: the sign of the expected gain."""
        return self.gain.points > 0

    def parameters(self, method: Method | str = "lpmt") -> Method:
        """A method with parameters chosen for these vectors, without labels.

        Example:
            >>> ranking = kinrank.rerank(queries, gallery, kinrank.diagnose(gallery).parameters("aqe"))
        """
        return choosing.chosen(resolve(method), self.facts, self.right)

    @property
    def sentences(self) -> list[str]:
        """The verdict, and what it rests on, in plain words."""
        return [*self._verdict(), *self._seen(), *self._prepared()]

    def _verdict(self) -> list[str]:
        facts, said = self.facts, [f"{self._opening()}: {self.gain}, joint, at its defaults."]
        if expected.related(facts) < 0.5:
            said.append(
                "Neighbours have next to nothing in common, or change with every direction: it looks like noise."
            )
        if self.right is not None:
            if self.right <= choosing.FEW_RIGHT:
                said.append(
                    "So few right answers have no others that could vouch for them. Neighbourhoods of half the size, "
                    "as chosen here, lose next to nothing."
                )
            return said
        if facts.drop > expected.NO_KIN:
            said.append(
                f"Distances drop off after about {facts.kin} neighbour{'s' * (facts.kin > 1)} (drop {facts.drop:.1f}): "
                "items seem to have few right answers, and one right answer cannot be found through others."
            )
        told = ", ".join(f"{whole(gain.points)} with {count}" for count, gain in self.by_right.items())
        said.append(f"It depends on how many right answers a query has: {told} or more. Give right= if you know it.")
        if self._queries_apart:
            said.append(
                "Queries lie farther from the items than items from each other, as questions do from passages. If each "
                "has one right passage, leave the search as it is."
            )
        return said

    @property
    def _queries_apart(self) -> bool:
        return self.facts.query_gap is not None and self.facts.query_gap > APART

    def _opening(self) -> str:
        """How sure it is, in words."""
        if self.right is None and self._queries_apart:
            return "It cannot be told whether re-ranking with LPMT will help; if queries have many right answers"
        if self.gain.low > 0:
            return "Re-ranking with LPMT is expected to help"
        if self.gain.points > 0:
            return "Re-ranking with LPMT is more likely to help than to hurt"
        if self.gain.high >= 0:
            return "Re-ranking with LPMT is more likely to hurt than to help"
        return "Re-ranking with LPMT is expected to hurt"

    def _seen(self) -> list[str]:
        facts = self.facts
        spread = "concentrated" if facts.contrast < 0.45 else "spread" if facts.contrast > 0.65 else "moderately spread"
        looked = f", {facts.looked_at} of them looked at" if facts.looked_at < facts.items else ""
        hubs = "a few items are neighbours of very many" if facts.hubness > 2 else "no item is everywhere"
        links = "can be trusted" if facts.mutual > 0.55 else "are fair" if facts.mutual > 0.35 else "are weak"
        return [
            f"{facts.items} items of {facts.dimensions} dimensions{looked}. Distances are {spread} (contrast "
            f"{facts.contrast:.2f}); neighbours lie in about {facts.local_dimension:.0f} independent directions.",
            f"Links between neighbours {links}: {facts.mutual:.0%} of the 5 nearest list each other (published sets: "
            f"{_range(expected.MUTUAL)}), and they share {facts.common:.0%} of their own. Hubness "
            f"{round(facts.hubness, 1) + 0.0:.1f}: {hubs}.",
            f"Split into two halves, the directions agree on {facts.stability:.0%} of the 10 nearest (published sets: "
            f"{_range(expected.STABILITY)}).",
        ]

    def _prepared(self) -> list[str]:
        said = []
        for change in self.preparations:
            mutual, common, hubness = (
                f"{round(number, 2) + 0.0:+.2f}" for number in (change.mutual, change.common, change.hubness)
            )
            told = f"links {mutual}, shared {common}, hubness {hubness}"
            meant, power = MEANT[change.way]
            trial = f"worth a trial with labels: kinrank.tune, or kinrank.whiten(vectors, on=gallery, power={power})"
            said.append(f"{meant} would change {told}: {trial if change.promising else 'not worth a trial'}.")
        return said

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def __repr__(self) -> str:
        return f"Diagnosis({self.facts.items} items, expected gain {self.gain})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "facts": self.facts.to_dict(),
            "right": self.right,
            "gain": self.gain.to_dict(),
            "by_right": {str(count): gain.to_dict() for count, gain in self.by_right.items()},
            "helps": self.helps,
            "preparations": [change.to_dict() for change in self.preparations],
            "sentences": self.sentences,
        }


def diagnose(
    features: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    right: float | None = None,
    metric: str = "cosine",
    progress: Show = None,
) -> Diagnosis:
    """What neighbourhoods of these vectors look like, and whether re-ranking is likely to help. No labels needed.

    Args:
        features: (n, d) vectors of the gallery, 20 at least; at most 20 000 of them, evenly taken, are looked at, so
            that neighbourhoods of more items look thinner than they are.
        queries: (q, d) vectors that ask, if they are not of the gallery.
        right: how many right answers a query has, about, if you know it: the most telling thing of all.
        metric: "cosine" or "euclidean", as in `rerank`.
        progress: True for a bar, or a callable `f(label, done, total)`.

    Example:
        >>> print(kinrank.diagnose(gallery))
        >>> kinrank.diagnose(gallery, right=1).helps
    """
    if right is not None:
        right = _count(right)
    report = Progress(progress)
    space = space_of(features, metric, "features")
    rows = space.rows(features, "features")
    if len(rows) < LEAST:
        raise ValueError(f"there are {len(rows)} items; a diagnosis needs {LEAST} or more")
    asked = None if queries is None else space.rows(queries, "queries", rows.shape[1])
    report.stage("neighbours", 0, 2)
    facts = facts_of(rows, asked, space.unit)
    report.stage("preparations", 1, 2)
    ways = tuple(preparing.changes(rows)) if space.unit else ()
    report.stage("preparations", 2, 2)
    by_right = {count: expected.expected(facts, count) for count in RIGHT}
    return Diagnosis(facts, right, expected.expected(facts, right), by_right, ways)


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.0%} to {ends[1]:.0%}"


def space_of(gallery: ArrayLike, metric: str, name: str) -> Space:
    """How vectors of this gallery are compared; where lengths matter, the scale is that of the rows as they are."""
    return Space.of(gallery, check(gallery, name) if check_metric(metric) == "euclidean" else None)


def _count(right: Any) -> float:
    """How many right answers, as a plain number."""
    if isinstance(right, numbers.Real) and not isinstance(right, bool):
        number = float(right)
        if math.isfinite(number) and number >= 1:
            return number
    raise ValueError(f"right={right!r} is not allowed; give how many right answers a query has, 1 or more")
