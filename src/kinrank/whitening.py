"""Whitening: vectors whose strong directions count less, by variance or by matching pairs; learned, applied, saved.

Vectors of any size are read as float64 rows of length one, a block at a time, so that a memory map is never copied as a
whole.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import ConstantVectorsError, InputError, MemoryLimitError
from kinrank.files import checksummed_npz
from kinrank.memory_limit import default_limit_bytes, format_bytes
from kinrank.parameters import check_whole_number
from kinrank.vector_input import Vectors, check_vectors

__all__ = ["Whitening", "whiten"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
BLOCK_NUMBERS = 2**22  # numbers per block, 32 MB
MAX_FLOAT32 = float(np.finfo(np.float32).max)
MIN_VARIANCE_SHARE = 1e-6  # of the largest variance; directions with less are left out
ROUNDING_LENGTH = 1e-6  # remainders of a row of length one up to this length are rounding errors
FIRST_JITTER = 1e-10  # added to a matrix without Cholesky factor; ten times as much at each further attempt
KINDS = ("pca", "learned", "given")
FULL_POWER = 0.5
ROUNDING_SHARE = 1e-12  # of the length of a row: a projection up to this length is a rounding error
FILE_VERSION = 1
ARRAY_NAMES = ("mean", "projection")
FILE_ENTRIES = (*ARRAY_NAMES, *checksummed_npz.SEAL_KEYS)
FILE_WORDING = checksummed_npz.FileWording(
    "saved whitening", "a whitening", "Whitening.save or `kinrank whiten --save`", "learn and save it again"
)


@dataclass(frozen=True, eq=False, repr=False)
class Whitening:
    """Transform that makes directions count alike: y = l2((l2(x) - mean) projection). Learn it with `Whitening.fit`.

    Attributes:
        mean: (d,) float64, subtracted from rows of length one.
        projection: (d, r) float64, multiplied with them; columns by descending variance.
        power: variances were raised to -power: 0.5 whitens fully, 0.25 half, 0 only rotates.
        kind: "pca" (by variance), "learned" (by matching pairs) or "given" (a projection from elsewhere).
        facts: single numbers: vectors and pairs it was learned from, share of their variance that is kept.

    Example:
        >>> whitening = kinrank.whitening.Whitening.fit(other_gallery, dimensions=256)
        >>> ranking = kinrank.rerank(whitening.apply(queries), whitening.apply(gallery))
    """

    mean: Floats
    projection: Floats
    power: float = FULL_POWER
    _: KW_ONLY
    kind: str = "given"
    facts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mean, projection = np.array(self.mean, np.float64), np.array(self.projection, np.float64)
        if mean.ndim != 1 or projection.ndim != 2 or len(mean) != len(projection) or not projection.size:
            raise InputError(
                f"mean has shape {mean.shape} and projection {projection.shape}", allowed="(d,) and (d, r) with r >= 1"
            )
        for name, array in (("mean", mean), ("projection", projection)):
            if not np.abs(array).max() <= MAX_FLOAT32:
                raise InputError(
                    "contains NaN or Inf (or a number beyond float32)", parameter=name, remedy="learn it again"
                )
            array.setflags(write=False)
        if self.kind not in KINDS:
            raise InputError("is unknown", parameter="kind", given=self.kind, allowed=f"one of {', '.join(KINDS)}")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "projection", projection)
        object.__setattr__(self, "power", _check_power(self.power))
        object.__setattr__(self, "facts", {str(key): float(value) for key, value in dict(self.facts).items()})

    @classmethod
    def fit(
        cls,
        vectors: ArrayLike,
        *,
        dimensions: int | None = None,
        power: float = FULL_POWER,
        pairs: ArrayLike | None = None,
        name: str = "vectors",
    ) -> Whitening:
        """Learn a whitening from vectors, which are first normalised to length one.

        Learn it on another set than the one you search and evaluate: on a gallery itself, directions that separate its
        classes may be damped. Try it on labelled queries first, and power 0.25 before 0.5: descriptors that are already
        whitened get worse; docs/whitening.md has measurements on others.

        Cost: O(n d^2) time, O(d^2) memory; vectors are read in blocks, so that a memory map stays on disk.

        Args:
            vectors: (n, d) rows; not changed. Give several times d rows to get meaningful directions.
            dimensions: number of directions to keep, the strongest first. Default: all that vary. Directions with less
                than a millionth of the largest variance are never kept.
            power: 0.5 gives every direction the same variance, 0.25 its square root, 0 leaves it unchanged.
            pairs: (m, 2) numbers of rows that show the same thing: damps directions in which these differ, instead of
                directions of large variance. Give more pairs than dimensions.
            name: name of the vectors in error messages.

        Example:
            >>> kinrank.whitening.Whitening.fit(vectors, dimensions=128, power=0.25)
        """
        power, rows = _check_power(power), check_readable(vectors, name)
        count = None if dimensions is None else check_whole_number(dimensions, "dimensions")
        if not len(rows):
            raise InputError(f"{name} has no rows", allowed="rows that differ, best thousands")
        if pairs is None:
            return cls(**fit_by_variance(rows, name, count, power)._asdict(), power=power, kind="pca")
        chosen = _check_pairs(pairs, len(rows), name)
        return cls(**fit_by_pairs(rows, name, chosen, count, power)._asdict(), power=power, kind="learned")

    def apply(self, vectors: ArrayLike, *, name: str = "vectors") -> Vectors:
        """Return (n, r) whitened float32 rows of length one; a row equal to the mean gets the first direction."""
        rows = check_readable(vectors, name, len(self.mean))
        whitened: Vectors = np.empty((len(rows), self.projection.shape[1]), np.float32)
        start = 0
        for block in self.blocks(rows, name=name):
            whitened[start : start + len(block)] = block
            start += len(block)
        return whitened

    def blocks(self, vectors: ArrayLike, *, name: str = "vectors") -> Iterator[Vectors]:
        """Yield the whitened rows in blocks, for more rows than fit into memory."""
        for block in iterate_blocks(check_readable(vectors, name, len(self.mean)), name):
            projected = self.project(block)
            yield (projected / np.linalg.norm(projected, axis=1, keepdims=True)).astype(np.float32)

    def project(self, rows: NDArray[Any]) -> Floats:
        """Return (x - mean) projection of rows of length one, (n, r) float64, not normalised again."""
        moved = np.asarray(rows, np.float64) - self.mean
        projected: Floats = moved @ self.projection
        before, after = np.linalg.norm(moved, axis=1), np.linalg.norm(projected, axis=1)
        gone = (before <= ROUNDING_LENGTH) | (after <= ROUNDING_SHARE * before * np.linalg.norm(self.projection))
        projected[gone] = 0.0
        projected[gone, 0] = 1.0
        return projected

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz of plain arrays with a checksum, atomically."""
        about = {"power": self.power, "kind": self.kind, "facts": dict(self.facts)}
        checksummed_npz.check_ending(Path(path), FILE_WORDING)
        arrays = {"mean": self.mean, "projection": self.projection}
        checksummed_npz.write_npz(path, arrays, about, FILE_VERSION)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Whitening:
        """Read a file that `save` wrote. Raises an InputError if it is damaged, of another version, or another file.

        Example:
            >>> kinrank.whitening.Whitening.load("whitening.npz").apply(queries)
        """
        arrays, about, _ = checksummed_npz.read_checked_npz(Path(path), FILE_WORDING, FILE_VERSION, ARRAY_NAMES)
        try:
            return cls(**arrays, power=about["power"], kind=about["kind"], facts=about["facts"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path} contains no usable whitening: {error}") from error

    def __repr__(self) -> str:
        learned = f", learned on {self.facts['vectors']:.0f} vectors" if "vectors" in self.facts else ""
        turned = " -> ".join(map(str, self.projection.shape))
        return f"Whitening({self.kind}, {turned} dimensions, power {self.power:g}{learned})"


def whiten(
    vectors: ArrayLike,
    on: ArrayLike | None = None,
    *,
    dimensions: int | None = None,
    power: float = FULL_POWER,
    pairs: ArrayLike | None = None,
) -> Vectors:
    """Return (n, r) whitened float32 rows of length one: y = l2((l2(x) - mean) projection).

    Whiten a gallery and its queries by the same vectors, preferably those of another set: see `Whitening.fit`, which
    also explains the parameters. Descriptors that are already whitened get worse.

    Args:
        vectors: (n, d) rows; not changed.
        on: (m, d) rows to learn from. Default: the vectors themselves.
        dimensions: number of directions to keep. Default: all that vary.
        power: 0.5 whitens fully, 0.25 half, 0 only centres and rotates.
        pairs: (p, 2) numbers of rows of `on` that show the same thing: learned whitening.

    Example:
        >>> gallery, queries = kinrank.whiten(gallery, power=0.25), kinrank.whiten(queries, on=gallery, power=0.25)
    """
    source, name = (vectors, "vectors") if on is None else (on, "on")
    return Whitening.fit(source, dimensions=dimensions, power=power, pairs=pairs, name=name).apply(vectors)


def _check_power(power: Any) -> float:
    """Check the power."""
    if isinstance(power, Real) and not isinstance(power, bool) and 0 <= float(power) <= FULL_POWER:
        return float(power)
    raise InputError(parameter="power", given=power, allowed="a number from 0 (none) through 0.25 (half) to 0.5 (full)")


def _check_pairs(pairs: ArrayLike, count: int, name: str) -> Numbers:
    """Return (m, 2) checked numbers of rows."""
    try:
        rows = np.asarray(pairs)
    except ValueError:  # rows of different lengths
        rows = np.empty(0)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu" or not len(rows):
        raise InputError(
            f"has shape {rows.shape} and dtype {rows.dtype}",
            parameter="pairs",
            allowed=f"(m, 2) whole numbers, rows of {name}",
        )
    low, high = int(rows.min()), int(rows.max())
    if low < 0 or high >= count:
        raise InputError(
            f"contains row {low if low < 0 else high}, but {name} has the rows 0 to {count - 1}",
            parameter="pairs",
            remedy="check the numbers",
        )
    return rows.astype(np.int64)


def check_readable(vectors: ArrayLike, name: str, dimensions: int | None = None) -> NDArray[Any]:
    """Return a 2-d array of numbers that can be read in blocks; refuse what `vector_input.check_vectors` refuses.

    An array is used without conversion or copy; everything else (lists, tensors, tables) is converted to float32.
    """
    if not isinstance(vectors, np.ndarray) or isinstance(vectors, np.ma.MaskedArray):
        return check_vectors(vectors, name, dimensions)
    fits = vectors.ndim == 2 and vectors.dtype.kind in "fiub" and vectors.shape[1] == (dimensions or vectors.shape[1])
    return np.asarray(vectors) if fits and vectors.shape[1] else check_vectors(vectors, name, dimensions)


def iterate_blocks(rows: NDArray[Any], name: str) -> Iterator[Floats]:
    """Yield all rows, normalised to length one, in blocks whose size depends only on the number of columns."""
    for numbers in split_ranges(len(rows), rows.shape[1]):
        yield normalize_rows(rows[numbers[0] : numbers[-1] + 1], name, numbers)


def split_ranges(count: int, columns: int) -> Iterator[Numbers]:
    """Yield the numbers below `count` in ranges, so that a block has about 32 MB."""
    size = max(1, BLOCK_NUMBERS // columns)
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def normalize_rows(rows: NDArray[Any], name: str, numbers: Numbers) -> Floats:
    """Return the rows as float64, divided by their length; `numbers` are their row numbers for error messages."""
    unit = np.array(rows, np.float64, order="C")
    peak = np.abs(unit).max(axis=1, keepdims=True)
    bad = np.flatnonzero(~(peak[:, 0] <= MAX_FLOAT32))  # False for NaN
    if bad.size:
        raise InputError(
            f"{name} row {numbers[bad[0]]} contains NaN or Inf (or a number beyond float32)", remedy="drop or repair it"
        )
    zero = np.flatnonzero(peak[:, 0] == 0)
    if zero.size:
        raise InputError(f"{name} row {numbers[zero[0]]} is a zero vector and has no direction", remedy="drop it")
    unit /= peak  # before squaring, to avoid overflow and underflow
    unit /= np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None]
    return unit


class Projection(NamedTuple):
    """A learned whitening: (d,) mean, (d, r) projection, and single numbers about it."""

    mean: Floats
    projection: Floats
    facts: dict[str, float]


def fit_by_variance(rows: NDArray[Any], name: str, dimensions: int | None, power: float) -> Projection:
    """PCA: directions by descending variance v, each multiplied by v^-power; the covariance divides by the rows."""
    count, columns = rows.shape
    _check_memory(min(count, columns), columns)
    mean = _sum_blocks(iterate_blocks(rows, name), lambda block: block.sum(axis=0)) / count
    if count < columns:  # at most as many directions as rows: use the small matrix of inner products
        moved = np.concatenate([block - mean for block in iterate_blocks(rows, name)])
        values, vectors = _sort_eigenvectors(moved @ moved.T / count)
        values, vectors = _drop_flat_directions(values, vectors, name)
        vectors = moved.T @ (vectors / np.sqrt(count * values))
    else:
        values, vectors = _sort_eigenvectors(
            _sum_blocks(iterate_blocks(rows, name), lambda block: _inner_products(block - mean)) / count
        )
        values, vectors = _drop_flat_directions(values, vectors, name)
    wanted = _count_directions(dimensions, len(values), rows.shape, name)
    if power > 0.25 and wanted >= count - 1:
        warnings.warn(
            f"{name} has {count} rows for {wanted} directions: at power {power:g} all rows are nearly equally far from "
            "each other; give more rows, fewer dimensions or a lower power",
            stacklevel=3,
        )
    facts = {"vectors": float(count), "variance": float(values[:wanted].sum() / values.sum())}
    return Projection(mean, _fix_signs(vectors[:, :wanted] * values[:wanted] ** -power), facts)


def fit_by_pairs(rows: NDArray[Any], name: str, pairs: Numbers, dimensions: int | None, power: float) -> Projection:
    """Learned whitening: damp directions in which matching rows differ, then apply PCA to the result.

    With S the mean of (x_i - x_j)(x_i - x_j)' over the pairs, not centred, rows are multiplied by S^-power and rotated
    to the principal directions of all rows about the mean of the first rows of the pairs.
    """
    count, columns = rows.shape
    _check_memory(columns, columns)
    if len(pairs) < columns:
        warnings.warn(
            f"pairs has {len(pairs)} rows for {columns} dimensions: directions in which no pair differs count most; "
            "give more pairs than dimensions",
            stacklevel=3,
        )
    ranges = list(split_ranges(len(pairs), columns))
    left, right = ([pairs[numbers, side] for numbers in ranges] for side in (0, 1))
    firsts = (normalize_rows(rows[first], name, first) for first in left)
    mean = _sum_blocks(firsts, lambda block: block.sum(axis=0)) / len(pairs)
    differences = (
        normalize_rows(rows[first], name, first) - normalize_rows(rows[second], name, second)
        for first, second in zip(left, right, strict=True)
    )
    lower, jitter = factor_with_jitter(_sum_blocks(differences, _inner_products) / len(pairs))
    axes, lengths, _ = np.linalg.svd(lower)  # S = lower lower', so its variances are the squares of these lengths
    damped = axes * lengths ** (-2.0 * power)
    values, vectors = _sort_eigenvectors(
        _sum_blocks(iterate_blocks(rows, name), lambda block: _inner_products((block - mean) @ damped)) / count
    )
    values, vectors = _drop_flat_directions(values, vectors, name)
    wanted = _count_directions(dimensions, len(values), rows.shape, name)
    share = float(values[:wanted].sum() / values.sum())
    facts = {"vectors": float(count), "pairs": float(len(pairs)), "variance": share, "jitter": jitter}
    return Projection(mean, _fix_signs(damped @ vectors[:, :wanted]), facts)


def factor_with_jitter(matrix: Floats) -> tuple[Floats, float]:
    """Return the (d, d) lower Cholesky factor, and the jitter added to the diagonal: 0, 1e-10, 1e-9, ..."""
    jitter = 0.0
    while True:
        try:
            return np.asarray(np.linalg.cholesky(matrix + jitter * np.eye(len(matrix))), np.float64), jitter
        except np.linalg.LinAlgError:
            jitter = 10.0 * jitter or FIRST_JITTER


def _sum_blocks(parts: Iterable[Floats], function: Callable[[Floats], Floats]) -> Floats:
    """Sum a function of every block, with one block in memory at a time."""
    total: Any = 0.0
    for block in parts:
        total = total + function(block)
    return np.asarray(total, np.float64)


def _inner_products(block: Floats) -> Floats:
    """Return the inner products of all columns."""
    return np.asarray(block.T @ block)


def _sort_eigenvectors(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues of a symmetric matrix, largest first, and their vectors as columns."""
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1]


def _drop_flat_directions(values: Floats, vectors: Floats, name: str) -> tuple[Floats, Floats]:
    """Drop the directions with almost no variance."""
    if values[0] <= ROUNDING_LENGTH**2:
        raise ConstantVectorsError(
            f"{name} has {'one row' if len(values) == 1 else 'rows that are all the same'}, but a whitening is learned "
            "from rows that differ",
            allowed="the rows of a gallery, best thousands",
        )
    strong = values > MIN_VARIANCE_SHARE * values[0]
    return values[strong], vectors[:, strong]


def _count_directions(dimensions: int | None, available: int, shape: tuple[int, ...], name: str) -> int:
    """Return the number of directions to keep."""
    if dimensions is None:
        return available
    if dimensions > shape[1]:
        raise InputError(
            parameter="dimensions", given=dimensions, allowed=f"at most {shape[1]}, the number of columns of {name}"
        )
    if dimensions > available:
        raise InputError(
            f"is not allowed, because the {shape[0]} rows of {name} differ in only {available} directions",
            parameter="dimensions",
            given=dimensions,
            allowed=f"at most {available}, or more rows",
        )
    return dimensions


def _fix_signs(projection: Floats) -> Floats:
    """Flip columns so that the entry of largest size is positive: the same rows always give the same bits."""
    largest = np.abs(projection).argmax(axis=0)
    return projection * np.where(projection[largest, np.arange(projection.shape[1])] < 0, -1.0, 1.0)


def _check_memory(side: int, columns: int) -> None:
    """Refuse a problem that does not fit into memory."""
    needed, free = 8 * side * (4 * side + columns), default_limit_bytes()
    if needed > free:
        raise MemoryLimitError(
            f"learning a whitening of {columns} dimensions takes {format_bytes(needed)}, but only {format_bytes(free)} "
            "are free; give vectors of fewer dimensions"
        )
