"""A sparse symmetric matrix and a block of right-hand sides -> solutions by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.stages.csr import rows_of
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.products import times_block

Block = NDArray[np.float64]
COLUMNS = 64  # right-hand sides solved together: rows of the block then fit the cache


def times(matrix: csr_array, block: Block) -> Block:
    """matrix @ block, (m, n), (n, b) -> (m, b), rows over threads: the same bits for any number of them."""
    result = np.empty((matrix.shape[0], block.shape[1]))
    rows = rows_of(matrix, matrix.dtype)
    in_chunks(times_block, len(result), rows, np.ascontiguousarray(block), result, chunk=1024)
    return result


def conjugate_gradients(product: Callable[[Block], Block], sources: Block, tol: float, maxiter: int) -> Block:
    """X with L X = sources, (n, b): each column until |residual| <= tol |source|, at most maxiter steps.

    `product` multiplies a block by the symmetric positive definite L. Starts at zero, so that what no step
    reaches stays exactly zero; a zero column is its own solution.

    Many right-hand sides share every product with one large matrix here. `kernels.truncated` has its own loop, for a
    different small matrix per right-hand side, where a call per step from Python would cost more than the step.
    """
    solution = np.zeros_like(sources)
    residual = sources.copy()
    direction = sources.copy()
    energy = np.einsum("ij,ij->j", residual, residual)
    target = tol * tol * energy
    for _ in range(maxiter):
        active = energy > target
        if not active.any():
            break
        image = product(direction)
        curvature = np.einsum("ij,ij->j", direction, image)
        active &= curvature > 0
        step = np.divide(energy, curvature, out=np.zeros_like(energy), where=active)
        solution += direction * step
        residual -= image * step
        fresh = np.einsum("ij,ij->j", residual, residual)
        turn = np.divide(fresh, energy, out=np.zeros_like(energy), where=active)
        direction *= turn
        direction += residual
        energy = np.where(active, fresh, 0.0)  # a finished column stays as it is
    return solution


def diffuse(matrix: csr_array, sources: Block, alpha: float, tol: float, maxiter: int) -> Block:
    """F with (I - alpha S) F = sources for the normalised affinity S, COLUMNS right-hand sides at a time."""

    def product(block: Block) -> Block:
        return block - alpha * times(matrix, block)

    return in_columns(lambda part: conjugate_gradients(product, part, tol, maxiter), sources)


def in_columns(solve: Callable[[Block], Block], sources: Block) -> Block:
    """The solutions of all columns, a few at a time, so that working memory stays bounded."""
    result = np.empty_like(sources)
    for start in range(0, sources.shape[1], COLUMNS):
        block = slice(start, start + COLUMNS)
        result[:, block] = solve(np.ascontiguousarray(sources[:, block]))
    return result
