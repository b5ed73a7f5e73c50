"""Rankings and the truth -> scores with confidence intervals, and paired comparisons of them."""

from __future__ import annotations

from kinrank.evaluation.compare import Comparison, compare
from kinrank.evaluation.evaluate import Score, Scores, evaluate
from kinrank.evaluation.measures import MEASURES, Measure
from kinrank.evaluation.truth import Truth

__all__ = ["MEASURES", "Comparison", "Measure", "Score", "Scores", "Truth", "compare", "evaluate"]
