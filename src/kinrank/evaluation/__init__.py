"""Rankings and the truth -> scores with confidence intervals, and paired comparisons of them."""

from __future__ import annotations

from kinrank.evaluation.compare import Comparison, compare
from kinrank.evaluation.evaluate import Score, Scores, evaluate
from kinrank.evaluation.measures import MEASURES, Measure
from kinrank.evaluation.trials import Trial, Trials, compare_methods
from kinrank.evaluation.truth import Truth

__all__ = [
    "MEASURES",
    "Comparison",
    "Measure",
    "Score",
    "Scores",
    "Trial",
    "Trials",
    "Truth",
    "compare",
    "compare_methods",
    "evaluate",
]
