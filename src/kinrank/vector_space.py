"""Vector space of a gallery and its queries: metric, scale and combination of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.errors import InputError
from kinrank.feature_combination import Combination, Combined, is_per_feature
from kinrank.vector_input import (
    QUERY_PARAMETERS,
    Vectors,
    check_magnitude,
    check_vectors,
    compute_rms_length,
    to_unit_rows,
)

METRICS = ("cosine", "euclidean")
SCALE_KEY = "scale"  # name of a saved number
MIN_SCALE, MAX_SCALE = 2.0**-149, float(np.finfo(np.float32).max)  # the smallest and the largest float32 above 0
SIZE_PREFIX, WEIGHT_PREFIX = (
    "feature_size_",
    "feature_weight_",
)  # names of saved numbers, followed by the number of the feature


@dataclass(frozen=True)
class Space:
    """The way in which the vectors of a gallery were made comparable.

    Attributes:
        combination: the features they were combined from; None for a single feature.
        scale: divisor of all vectors if lengths matter (metric "euclidean"); None if each has length one (metric
            "cosine").
    """

    combination: Combination | None = None
    scale: float | None = None

    @classmethod
    def of(cls, gallery: Any, rows: Vectors | None = None) -> Space:
        """Return the space of a gallery or a store. `rows`: the unscaled gallery, if lengths matter."""
        return cls(find_combination(gallery), None if rows is None else compute_rms_length(rows))

    @property
    def metric(self) -> str:
        return METRICS[self.scale is not None]

    @property
    def unit(self) -> bool:
        """True if all rows have length one."""
        return self.scale is None

    @property
    def meta(self) -> dict[str, Any]:
        """Entries of `Ranking.meta`."""
        return {"metric": self.metric} | ({} if self.scale is None else {"scale": self.scale})

    def rows(self, vectors: Any, name: str, dimensions: int | None = None) -> Vectors:
        """Convert vectors to (n, d) float32 rows: one array, or a list of one array per feature."""
        rows = check_vectors(self._combine(vectors, name), name, dimensions)
        return to_unit_rows(rows, name) if self.scale is None else self.scale_rows(rows, name)

    def scale_rows(self, rows: Vectors, name: str) -> Vectors:
        """Divide the rows by the scale."""
        assert self.scale is not None
        with np.errstate(over="ignore"):
            return check_magnitude(rows / np.float32(self.scale), name)

    def _combine(self, vectors: Any, name: str) -> Any:
        how = self.combination
        if how is None:
            if isinstance(vectors, (list, tuple)) and is_per_feature(vectors):
                raise InputError(
                    f"must be 2-d, one row per item; got a list of {len(vectors)} arrays, but the gallery has one "
                    "feature",
                    parameter=name,
                    remedy="give several features for both (in Python, join those of the gallery by kinrank.combine)",
                )
            return vectors
        if isinstance(vectors, Combined):
            same = vectors.how.sizes == how.sizes and np.allclose(vectors.how.weights, how.weights, 1e-6, 1e-9)
            if not same:
                raise InputError(
                    f"were combined as {vectors.how.description} but the gallery as {how.description}",
                    parameter=name,
                    remedy="give a list of one array per feature, which is combined as the gallery was",
                )
            return vectors
        if name in QUERY_PARAMETERS and isinstance(vectors, (list, tuple)) and len(vectors) == len(how.sizes):
            parts = [np.asarray(part) for part in vectors]  # one vector per feature
            if tuple(part.shape for part in parts) == tuple((size,) for size in how.sizes):
                vectors = [part[None, :] for part in parts]
        return how.rows(vectors, name) if is_per_feature(vectors) else vectors

    @property
    def description(self) -> str | None:
        """Text of the combined features; None for a single feature."""
        return None if self.combination is None else self.combination.description

    @property
    def facts(self) -> dict[str, float]:
        """Single numbers to save."""
        how, scale = self.combination, {} if self.scale is None else {SCALE_KEY: self.scale}
        if how is None:
            return scale
        sizes = {f"{SIZE_PREFIX}{place}": float(size) for place, size in enumerate(how.sizes)}
        return scale | sizes | {f"{WEIGHT_PREFIX}{place}": weight for place, weight in enumerate(how.weights)}

    @classmethod
    def from_facts(cls, facts: dict[str, float], dimensions: int) -> Space:
        """Rebuild a saved space and remove its numbers from `facts`; raise an InputError if they do not fit."""
        sizes = [
            float(facts[f"{SIZE_PREFIX}{place}"]) for place in range(len(facts)) if f"{SIZE_PREFIX}{place}" in facts
        ]
        weights = [facts.get(f"{WEIGHT_PREFIX}{place}", -1.0) for place in range(len(sizes))]
        for name in [name for name in facts if name.startswith((SIZE_PREFIX, WEIGHT_PREFIX))]:
            del facts[name]
        scale = facts.pop(SCALE_KEY, None)
        if scale is not None and not MIN_SCALE <= scale <= MAX_SCALE:
            raise InputError(f"the scale of its vectors must be a float32 number above 0; it is {scale}")
        if not sizes:
            return cls(None, scale)
        whole = all(size.is_integer() and size >= 1 for size in sizes) and sum(sizes) == dimensions
        if not (whole and all(weight >= 0 for weight in weights) and abs(sum(weights) - 1.0) <= 1e-6):
            raise InputError(f"features of {sizes} columns with the weights {weights} do not make {dimensions} columns")
        return cls(Combination(tuple(map(int, sizes)), tuple(weights)), scale)


def find_combination(vectors: Any) -> Combination | None:
    """Return the combination of the vectors, or of the vectors inside a store; None for a single feature."""
    how = getattr(vectors, "how", None)
    return how if isinstance(how, Combination) else None


def check_metric(metric: Any) -> str:
    """Return the metric, or raise an InputError if there is no such metric."""
    if not isinstance(metric, str) or metric not in METRICS:
        raise InputError(parameter="metric", given=metric, allowed=f"one of: {', '.join(METRICS)}")
    return metric


def prepare_rows(metric: str, vectors: Any, name: str, dimensions: int | None = None) -> Vectors:
    """Convert vectors to (n, d) float32 rows for a store: of length one, or unchanged if lengths matter."""
    rows = check_vectors(vectors, name, dimensions)
    return to_unit_rows(rows, name) if metric == METRICS[0] else check_magnitude(rows, name)
