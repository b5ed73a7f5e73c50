"""Vectors -> a Whitening, learned once and applied to a gallery and its queries alike."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors
from kinrank.whitening import saved
from kinrank.whitening.blocks import LARGEST, Floats, Numbers, blocks, readable
from kinrank.whitening.fitting import NOTHING, by_pairs, by_variance

KINDS = ("pca", "learned", "given")
FULL = 0.5
ROUNDING = 1e-12  # share of its length up to which what a projection leaves of a row is rounding


@dataclass(frozen=True, eq=False, repr=False)
class Whitening:
    """A way to make directions count alike: y = l2((l2(x) - mean) projection). Learn it with `Whitening.fit`.

    Attributes:
        mean: (d,) float64, what is subtracted from rows of length one.
        projection: (d, r) float64, what they are multiplied with; columns by falling variance.
        power: what variances were raised to, negative: 0.5 whitens fully, 0.25 half, 0 turns only.
        kind: "pca" (by variance), "learned" (by matching pairs) or "given" (a projection from elsewhere).
        facts: single numbers: how many vectors and pairs it was learned on, which share of their variance is kept.

    Example:
        >>> whitening = kinrank.Whitening.fit(other_gallery, dimensions=256)
        >>> ranking = kinrank.rerank(whitening.apply(queries), whitening.apply(gallery))
    """

    mean: Floats
    projection: Floats
    power: float = FULL
    kind: str = "given"
    facts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mean, projection = np.array(self.mean, np.float64), np.array(self.projection, np.float64)
        if mean.ndim != 1 or projection.ndim != 2 or len(mean) != len(projection) or not projection.size:
            raise ValueError(
                f"mean has shape {mean.shape} and projection {projection.shape}; give (d,) and (d, r), r from 1"
            )
        for name, array in (("mean", mean), ("projection", projection)):
            if not np.abs(array).max() <= LARGEST:
                raise ValueError(f"{name} contains NaN or Inf (or a number beyond float32); learn it again")
            array.setflags(write=False)
        if self.kind not in KINDS:
            raise ValueError(f"a whitening of the kind {self.kind!r} is not known; give one of: {', '.join(KINDS)}")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "projection", projection)
        object.__setattr__(self, "power", _power(self.power))
        object.__setattr__(self, "facts", {str(key): float(value) for key, value in dict(self.facts).items()})

    @classmethod
    def fit(
        cls,
        vectors: ArrayLike,
        dimensions: int | None = None,
        power: float = FULL,
        pairs: ArrayLike | None = None,
        *,
        name: str = "vectors",
    ) -> Whitening:
        """A whitening learned on vectors, each brought to length one first.

        Learn it on another set than the one you search and judge: on a gallery itself, what tells its classes apart may
        be damped. Try it on judged queries first, and power 0.25 before 0.5: descriptors that are whitened already lose
        by it, and docs/whitening.md has what was measured on others.

        Cost: O(n d^2) time, O(d^2) memory; vectors are read in blocks, so that a memory map stays on disk.

        Args:
            vectors: (n, d) rows; not changed. Several times d of them, for directions that mean something.
            dimensions: how many directions are kept, the strongest first; all that vary unless given. Directions of
                less than a millionth of the largest variance are never kept.
            power: 0.5 gives every direction the same variance, 0.25 its square root, 0 leaves it as it is.
            pairs: (m, 2) numbers of rows that show the same thing: directions in which these differ are damped,
                instead of directions of large variance. More pairs than dimensions.
            name: what errors call the vectors.

        Example:
            >>> kinrank.Whitening.fit(vectors, dimensions=128, power=0.25)
        """
        power, rows = _power(power), readable(vectors, name)
        count = _count(dimensions)
        if not len(rows):
            raise ValueError(f"{name} has no rows; whitening is learned from rows that differ, best from thousands")
        if pairs is None:
            return cls(**by_variance(rows, name, count, power)._asdict(), power=power, kind="pca")
        chosen = _pairs(pairs, len(rows), name)
        return cls(**by_pairs(rows, name, chosen, count, power)._asdict(), power=power, kind="learned")

    def apply(self, vectors: ArrayLike, *, name: str = "vectors") -> Vectors:
        """(n, r) float32 rows of length one, whitened; a row that is the mean itself is given the first direction."""
        rows = readable(vectors, name, len(self.mean))
        made: Vectors = np.empty((len(rows), self.projection.shape[1]), np.float32)
        start = 0
        for block in self.blocks(rows, name=name):
            made[start : start + len(block)] = block
            start += len(block)
        return made

    def blocks(self, vectors: ArrayLike, *, name: str = "vectors") -> Iterator[Vectors]:
        """The same rows, some at a time: for more of them than there is memory."""
        for block in blocks(readable(vectors, name, len(self.mean)), name):
            made = self.turned(block)
            yield (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)

    def turned(self, rows: NDArray[Any]) -> Floats:
        """(n, r) float64, (x - mean) projection of rows of length one, not brought to length one again."""
        moved = np.asarray(rows, np.float64) - self.mean
        made: Floats = moved @ self.projection
        before, after = np.linalg.norm(moved, axis=1), np.linalg.norm(made, axis=1)
        gone = (before <= NOTHING) | (after <= ROUNDING * before * np.linalg.norm(self.projection))
        made[gone] = 0.0
        made[gone, 0] = 1.0
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz of plain arrays, with a checksum; written beside and renamed, so never half there."""
        about = {"power": self.power, "kind": self.kind, "facts": dict(self.facts)}
        saved.write(path, self.mean, self.projection, about)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Whitening:
        """What `save` wrote; a damaged or foreign file, or one of another version, is a ValueError.

        Example:
            >>> kinrank.Whitening.load("whitening.npz").apply(queries)
        """
        mean, projection, about = saved.read(path)
        try:
            return cls(mean, projection, about["power"], about["kind"], about["facts"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} holds no whitening that can be used: {error}") from error

    def __repr__(self) -> str:
        learned = f", learned on {self.facts['vectors']:.0f} vectors" if "vectors" in self.facts else ""
        turned = " -> ".join(map(str, self.projection.shape))
        return f"Whitening({self.kind}, {turned} dimensions, power {self.power:g}{learned})"


def whiten(
    vectors: ArrayLike,
    on: ArrayLike | None = None,
    dimensions: int | None = None,
    power: float = FULL,
    pairs: ArrayLike | None = None,
) -> Vectors:
    """(n, r) float32 rows of length one, whitened: y = l2((l2(x) - mean) projection).

    Whiten a gallery and its queries by the same vectors, best by those of another set: see `Whitening.fit`, which also
    says what the parameters mean. Descriptors that are whitened already lose by it.

    Args:
        vectors: (n, d) rows; not changed.
        on: (m, d) rows it is learned on; the vectors themselves unless given.
        dimensions: how many directions are kept; all that vary unless given.
        power: 0.5 whitens fully, 0.25 half, 0 centres and turns only.
        pairs: (p, 2) numbers of rows of `on` that show the same thing: learned whitening.

    Example:
        >>> gallery, queries = kinrank.whiten(gallery, power=0.25), kinrank.whiten(queries, on=gallery, power=0.25)
    """
    source, name = (vectors, "vectors") if on is None else (on, "on")
    return Whitening.fit(source, dimensions, power, pairs, name=name).apply(vectors)


def _power(power: Any) -> float:
    if isinstance(power, numbers.Real) and not isinstance(power, bool) and 0 <= float(power) <= FULL:
        return float(power)
    raise ValueError(f"power={power!r} is not allowed; give a number from 0 (none) through 0.25 (half) to 0.5 (full)")


def _count(dimensions: Any) -> int | None:
    whole = isinstance(dimensions, numbers.Integral) and not isinstance(dimensions, bool)
    if dimensions is None or (whole and dimensions >= 1):
        return None if dimensions is None else int(dimensions)
    raise ValueError(f"dimensions={dimensions!r} is not allowed; give a whole number from 1, or leave it out for all")


def _pairs(pairs: ArrayLike, count: int, name: str) -> Numbers:
    """(m, 2) numbers of rows, checked."""
    try:
        found = np.asarray(pairs)
    except ValueError:  # rows of different lengths
        found = np.empty(0)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu" or not len(found):
        raise ValueError(
            f"pairs has shape {found.shape} and dtype {found.dtype}; give (m, 2) whole numbers, rows of {name}"
        )
    low, high = int(found.min()), int(found.max())
    if low < 0 or high >= count:
        raise ValueError(
            f"pairs names row {low if low < 0 else high} but {name} has the rows 0 to {count - 1}; check the numbers"
        )
    return found.astype(np.int64)
