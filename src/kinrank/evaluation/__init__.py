"""Evaluation of rankings: ground truth, measures with confidence intervals, and paired comparisons."""

from __future__ import annotations

from kinrank.evaluation.measures import MEASURES, Measure
from kinrank.evaluation.scores import Score, Scores, evaluate
from kinrank.evaluation.significance import Comparison, compare_scores
from kinrank.evaluation.trials import Trial, Trials, compare
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
    "compare_scores",
    "evaluate",
]
