"""Space: how vectors that users give become rows that can be compared, the same for a gallery and its queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.combine import Combination, Combined, combination_of, per_feature
from kinrank.features import Vectors, bounded, check, scale_of, unit

METRICS = ("cosine", "euclidean")
SCALE = "scale"  # name of a saved number
LEAST, MOST = 2.0**-149, float(np.finfo(np.float32).max)  # the smallest and the largest float32 above 0
SIZE, WEIGHT = "feature_size_", "feature_weight_"  # names of saved numbers, with the place of the feature behind them


@dataclass(frozen=True)
class Space:
    """How the vectors of a gallery were made comparable.

    Attributes:
        combination: the features they were combined from; None where there is one.
        scale: what all of them are divided by, where lengths matter (metric "euclidean"); None where each is brought to
            length one (metric "cosine").
    """

    combination: Combination | None = None
    scale: float | None = None

    @classmethod
    def of(cls, gallery: Any, rows: Vectors | None = None) -> Space:
        """That of a gallery, or of a store: combined if it is. `rows`: the gallery as it is, where lengths matter."""
        how = combination_of(gallery)
        return cls(how, None if rows is None else scale_of(rows))

    @property
    def metric(self) -> str:
        return METRICS[self.scale is not None]

    @property
    def unit(self) -> bool:
        """Whether all rows have length one."""
        return self.scale is None

    @property
    def meta(self) -> dict[str, Any]:
        """What a Ranking says of it."""
        return {"metric": self.metric} | ({} if self.scale is None else {"scale": self.scale})

    def rows(self, vectors: Any, name: str, dimensions: int | None = None) -> Vectors:
        """(n, d) float32 rows of vectors: one array, or a list of one array per feature."""
        rows = check(self._combined(vectors, name), name, dimensions)
        return unit(rows, name) if self.scale is None else self.scaled(rows, name)

    def scaled(self, rows: Vectors, name: str) -> Vectors:
        """The rows in units of the scale."""
        assert self.scale is not None
        with np.errstate(over="ignore"):
            return bounded(rows / np.float32(self.scale), name)

    def _combined(self, vectors: Any, name: str) -> Any:
        how = self.combination
        if how is None:
            if per_feature(vectors):
                raise ValueError(
                    f"{name} must be 2-d, one row per item; got a list of {len(vectors)} arrays, but the gallery has "
                    "one feature; give several for both, the gallery's made one by kinrank.combine"
                )
            return vectors
        if isinstance(vectors, Combined):
            same = vectors.how.sizes == how.sizes and np.allclose(vectors.how.weights, how.weights, 1e-6, 1e-9)
            if not same:
                raise ValueError(
                    f"{name} were combined as {vectors.how.in_words} but the gallery as {how.in_words}; give a list of "
                    "one array per feature, which is combined as the gallery was"
                )
            return vectors
        return how.rows(vectors, name) if per_feature(vectors) else vectors

    def single(self, vector: Any) -> Any:
        """One vector, (d,) or (1, d), or one per feature, as `rows` takes it."""
        if self.combination is not None and isinstance(vector, (list, tuple)):
            parts = [np.asarray(part) for part in vector]
            if all(part.ndim in (1, 2) for part in parts):
                return [part[None, :] if part.ndim == 1 else part for part in parts]
        row = np.asarray(vector)
        return row[None, :] if row.ndim == 1 else row

    @property
    def in_words(self) -> str | None:
        """The features that were combined; None where there is one."""
        return None if self.combination is None else self.combination.in_words

    @property
    def facts(self) -> dict[str, float]:
        """Single numbers to be saved."""
        how, scale = self.combination, {} if self.scale is None else {SCALE: self.scale}
        if how is None:
            return scale
        sizes = {f"{SIZE}{place}": float(size) for place, size in enumerate(how.sizes)}
        return scale | sizes | {f"{WEIGHT}{place}": weight for place, weight in enumerate(how.weights)}

    @classmethod
    def restored(cls, facts: dict[str, float], dimensions: int) -> Space:
        """The space that was saved; its numbers are taken out of `facts`. A ValueError if they do not fit."""
        sizes = [float(facts[f"{SIZE}{place}"]) for place in range(len(facts)) if f"{SIZE}{place}" in facts]
        weights = [facts.get(f"{WEIGHT}{place}", -1.0) for place in range(len(sizes))]
        for name in [name for name in facts if name.startswith((SIZE, WEIGHT))]:
            del facts[name]
        scale = facts.pop(SCALE, None)
        if scale is not None and not LEAST <= scale <= MOST:
            raise ValueError(f"the scale of its vectors must be a float32 number above 0; it is {scale}")
        if not sizes:
            return cls(None, scale)
        whole = all(size.is_integer() and size >= 1 for size in sizes) and sum(sizes) == dimensions
        if not (whole and all(weight >= 0 for weight in weights) and abs(sum(weights) - 1.0) <= 1e-6):
            raise ValueError(f"features of {sizes} columns with the weights {weights} do not make {dimensions} columns")
        return cls(Combination(tuple(map(int, sizes)), tuple(weights)), scale)


def check_metric(metric: Any) -> str:
    """The metric, if it is one."""
    if not isinstance(metric, str) or metric not in METRICS:
        raise ValueError(f"metric={metric!r} is not allowed; give one of: {', '.join(METRICS)}")
    return metric


def rows_by(metric: str, vectors: Any, name: str, dimensions: int | None = None) -> Vectors:
    """(n, d) float32 rows as a store keeps them: of length one, or as they are where lengths matter."""
    rows = check(vectors, name, dimensions)
    return unit(rows, name) if metric == METRICS[0] else bounded(rows, name)
