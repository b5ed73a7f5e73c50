"""Diagnosis of vectors without labels: their neighbourhoods, the expected gain of re-ranking, and parameters."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from kinrank.diagnosis import gain_model, parameter_choice, vector_preparation
from kinrank.diagnosis.gain_model import format_whole
from kinrank.diagnosis.neighborhood_facts import Facts, measure_facts
from kinrank.errors import InputError
from kinrank.methods import LPMT, Method, resolve_method
from kinrank.progress import Progress, ProgressOption
from kinrank.stages.lpmt_settings import choose_answers
from kinrank.stores.gallery import read_gallery

MIN_ITEMS = 20  # fewer items are not enough for a diagnosis
MIN_QUERY_GAP = 1.05  # from this query_gap on, queries differ in kind from items
PREPARATION_TEXTS = {  # preparation -> description, and power of the whitening that does it
    "centred": ("Centring the vectors (subtracting their mean)", 0),
    "half-whitened": (
        "Half-whitening them (also damping the strongest directions)",
        vector_preparation.HALF_WHITENING_POWER,
    ),
}
RIGHT_ANSWER_COUNTS = (1, 2, 4, 8, 16)  # numbers of relevant items to predict a gain for


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Result of `diagnose`. Prints as plain sentences.

    Attributes:
        facts: measurements, see `Facts`.
        right: number of relevant items per query, if it was given.
        gain: expected gain of LPMT over no re-ranking, joint, with its interval; None without `right`, on which the
            gain depends most.
        by_right: number of relevant items per query -> expected gain.
        preparations: effects of centring and half-whitening; empty for the euclidean metric.
    """

    facts: Facts
    right: float | None
    gain: gain_model.Gain | None
    by_right: dict[int, gain_model.Gain]
    preparations: tuple[vector_preparation.PreparationEffect, ...]

    @property
    def helps(self) -> bool | None:
        """True if the expected gain is at least a point; None if it depends on `right`, which was not given."""
        gains = self.by_right.values() if self.gain is None else [self.gain]
        positive = {round(gain.points) > 0 for gain in gains}
        return positive.pop() if len(positive) == 1 else None

    def parameters(self, method: Method | str = "lpmt") -> Method:
        """Return a method with parameters chosen for these vectors and `right`, without labels.

        Example:
            >>> ranking = kinrank.rerank(queries, gallery, kinrank.diagnose(gallery).parameters("aqe"))
        """
        return parameter_choice.choose_parameters(resolve_method(method), self.facts, self.right)

    @property
    def sentences(self) -> list[str]:
        """The prediction and the measurements behind it, as plain sentences. Parameters are in backticks."""
        return [*self._describe_gain(), *self._describe_neighborhoods(), *self._describe_preparations()]

    def _describe_gain(self) -> list[str]:
        facts, sentences = self.facts, []
        if self.gain is not None:
            sentences.append(f"{_predict(self.gain)}: {self.gain}, joint, with default parameters.")
        else:
            sentences.append(
                "Whether re-ranking with LPMT helps depends on the number of relevant items per query, which vectors "
                "do not tell. Expected gain, joint, with default parameters:"
            )
            for count, gain in self.by_right.items():
                more = " or more" * (count == max(self.by_right))
                usual = choose_answers(count) == LPMT().answers
                advice = "the default is right" if usual else f"give `answers={choose_answers(count)}`"
                sentences.append(f"  {count} relevant item{'s' * (count > 1)}{more}: {gain}; {advice}")
            sentences.append("Give `right`, the number of relevant items per query, if you know it.")
        if gain_model.measure_relatedness(facts) < 0.5:
            sentences.append(
                "Neighbours have almost nothing in common, or change with every direction: the data look like noise."
            )
        if self.right is not None:
            if self.right <= parameter_choice.FEW_RIGHT_ANSWERS:
                sentences.append(
                    "With so few relevant items, there are hardly others through which they could be found."
                )
            if choose_answers(self.right) != LPMT().answers:
                sentences.append(
                    f"For LPMT, `answers={choose_answers(self.right)}` is chosen here: on published sets with one "
                    "relevant item it stays close to the search, and with two it gains a point."
                )
            return sentences
        if facts.drop > gain_model.FEW_KIN_DROP:
            sentences.append(
                f"Distances grow sharply after about {facts.kin} neighbour{'s' * (facts.kin > 1)} (drop "
                f"{facts.drop:.1f}): queries seem to have few relevant items, so `answers=few` is chosen here."
            )
        if facts.query_gap is not None and facts.query_gap > MIN_QUERY_GAP:
            sentences.append(
                "Queries are farther from the items than items from each other, as questions are from passages. If "
                "each has one right passage, keep the search as it is."
            )
        return sentences

    def _describe_neighborhoods(self) -> list[str]:
        facts = self.facts
        spread = "concentrated" if facts.contrast < 0.45 else "spread" if facts.contrast > 0.65 else "moderately spread"
        sample = f", {facts.looked_at} of them sampled" if facts.looked_at < facts.items else ""
        hubs = "a few items are neighbours of very many" if facts.hubness > 2 else "no item is a neighbour of very many"
        links = "are reliable" if facts.mutual > 0.55 else "are fair" if facts.mutual > 0.35 else "are weak"
        return [
            f"{facts.items} items of {facts.dimensions} dimensions{sample}. Distances are {spread} (contrast "
            f"{facts.contrast:.2f}); neighbours lie in about {facts.local_dimension:.0f} independent directions.",
            f"Links between neighbours {links}: {facts.mutual:.0%} of the 5 nearest list each other (published sets: "
            f"{_format_range(gain_model.PUBLISHED_MUTUAL)}), and they share {facts.common:.0%} of their own. Hubness "
            f"{round(facts.hubness, 1) + 0.0:.1f}: {hubs}.",
            f"Two halves of the directions agree on {facts.stability:.0%} of the 10 nearest (published sets: "
            f"{_format_range(gain_model.PUBLISHED_STABILITY)}).",
        ]

    def _describe_preparations(self) -> list[str]:
        sentences = []
        for effect in self.preparations:
            mutual, common, hubness = (
                f"{round(number, 2) + 0.0:+.2f}" for number in (effect.mutual, effect.common, effect.hubness)
            )
            description, power = PREPARATION_TEXTS[effect.way]
            advice = f"worth a trial with labels: tune, or whiten with power {power}"
            sentences.append(
                f"{description} would change links {mutual}, shared {common}, hubness {hubness}: "
                f"{advice if effect.promising else 'not worth a trial'}."
            )
        return sentences

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def __repr__(self) -> str:
        few, many = (format_whole(self.by_right[count].points) for count in (min(self.by_right), max(self.by_right)))
        gain = self.gain or f"{few} to {many} points of mAP, depending on `right`"
        return f"Diagnosis({self.facts.items} items, expected gain {gain})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "facts": self.facts.to_dict(),
            "right": self.right,
            "gain": None if self.gain is None else self.gain.to_dict(),
            "by_right": {str(count): gain.to_dict() for count, gain in self.by_right.items()},
            "helps": self.helps,
            "preparations": [effect.to_dict() for effect in self.preparations],
            "sentences": self.sentences,
        }


def diagnose(
    features: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    right: float | None = None,
    metric: str = "cosine",
    progress: ProgressOption = None,
) -> Diagnosis:
    """Measure the neighbourhoods of vectors, and predict whether re-ranking will help. No labels are needed.

    Args:
        features: (n, d) vectors of the gallery, at least 20. At most 20 000 of them, evenly sampled, are measured, so
            that the neighbourhoods of larger galleries look thinner than they are.
        queries: (q, d) query vectors, if they are not part of the gallery.
        right: approximate number of relevant items per query. Nothing predicts the gain better; without it, the gain
            is predicted for 1, 2, 4, 8 and 16 of them.
        metric: "cosine" or "euclidean", as in `rerank`.
        progress: True for a bar, or a callable `f(label, done, total)`.

    Example:
        >>> print(kinrank.diagnose(gallery))
        >>> kinrank.diagnose(gallery, right=1).helps
    """
    if right is not None:
        right = _check_right(right)
    report = Progress(progress)
    gallery = read_gallery(features, metric, "features", report=report)
    rows, space = gallery.rows, gallery.space
    if len(rows) < MIN_ITEMS:
        raise InputError(f"has {len(rows)} rows, but a diagnosis needs at least {MIN_ITEMS}", parameter="features")
    query_rows = None if queries is None else gallery.convert(queries)
    report.stage("neighbours", 0, 2)
    facts = measure_facts(rows, query_rows, space.unit)
    report.stage("preparations", 1, 2)
    effects = tuple(vector_preparation.measure_effects(rows)) if space.unit else ()
    report.stage("preparations", 2, 2)
    by_right = {count: gain_model.predict_gain(facts, count) for count in RIGHT_ANSWER_COUNTS}
    gain = None if right is None else gain_model.predict_gain(facts, right)
    return Diagnosis(facts, right, gain, by_right, effects)


def _predict(gain: gain_model.Gain) -> str:
    """Return the start of the first sentence, which tells how certain the prediction is."""
    if gain.low > 0:
        return "Re-ranking with LPMT is expected to help"
    if round(gain.points) > 0:
        return "Re-ranking with LPMT is more likely to help than to hurt"
    if round(gain.points) == 0:
        return "Re-ranking with LPMT is expected to change little"
    if gain.high >= 0:
        return "Re-ranking with LPMT is more likely to hurt than to help"
    return "Re-ranking with LPMT is expected to hurt"


def _format_range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.0%} to {ends[1]:.0%}"


def _check_right(right: Any) -> float:
    """Check a number of right answers and return it as a float."""
    if isinstance(right, numbers.Real) and not isinstance(right, bool):
        number = float(right)
        if math.isfinite(number) and number >= 1:
            return number
    raise InputError(parameter="right", given=right, allowed="the number of right answers per query, at least 1")
