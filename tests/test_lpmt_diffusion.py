"""BCD: four solvers against the Kronecker closed form, the bound of the push, the weights of the graphs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from kinrank.features import unit
from kinrank.items import Items
from kinrank.memory import NotEnoughMemory
from kinrank.stages import diffusion, graph, states
from reference import lpmt as twin

MU = 0.23
BETA = np.array([0.2, 0.5, 0.3])


def problem(n: int, seed: int = 1, k: int = 4) -> tuple[graph.Layers, list[NDArray[Any]], list[NDArray[Any]]]:
    """The library's layers, and the same graphs S and W as dense matrices of the transcription."""
    rows = unit(np.random.default_rng(seed).standard_normal((n, 5)).astype(np.float32))
    layers = graph.layered_graphs(Items.everyone(rows).neighbors(n), k, 0.7)
    d = twin.euclidean(rows)
    rank = twin.nearest_first(d)
    weights = twin.gaussian(d, rank, 0.7, "local", k)
    W = [twin.adjacency(weights, rank, size) for size in twin.graph_sizes(k)]
    return layers, [twin.normalised(matrix) for matrix in W], W


def everywhere(n: int) -> Any:
    return sparse.csr_array(np.ones((n, n), np.float32))


def positive(n: int, seed: int = 0) -> NDArray[np.float64]:
    """A random positive semi-definite matrix, of half the rank."""
    half = np.random.default_rng(seed).standard_normal((n, n // 2))
    return half @ half.T


def mixed(S: list[NDArray[Any]]) -> NDArray[np.float64]:
    return np.asarray(sum(weight * matrix for weight, matrix in zip(BETA, S, strict=True)))


@pytest.mark.parametrize("n", [8, 10, 12])
@pytest.mark.parametrize("mu", [0.05, MU, 2.0])
def test_every_solver_finds_the_kronecker_closed_form_for_the_identity(n: int, mu: float) -> None:
    layers, S, _ = problem(n)
    want = twin.kronecker_solution(S, list(BETA), mu, np.eye(n))
    pushed = diffusion.resolvent(layers, BETA, mu, everywhere(n), 1e-8).similarity.toarray()
    np.testing.assert_allclose(pushed, want, atol=2e-6)
    np.testing.assert_allclose(diffusion.fixed_point(mixed(S), mu, np.eye(n), 800), want, atol=1e-12)
    solved = diffusion.conjugate_gradient(mixed(S), mu, np.eye(n), tolerance=1e-13)
    np.testing.assert_allclose(solved, want, atol=1e-12)
    np.testing.assert_allclose(diffusion.dense_solution(mixed(S), mu, np.eye(n)), want, atol=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_general_solvers_find_the_closed_form_for_any_positive_matrix(seed: int) -> None:
    _, S, _ = problem(10, seed)
    E = positive(10, seed)
    want = twin.kronecker_solution(S, list(BETA), MU, E)
    np.testing.assert_allclose(want, twin.lyapunov_solution(S, list(BETA), MU, E), atol=1e-12)
    np.testing.assert_allclose(diffusion.fixed_point(mixed(S), MU, E, 300), want, atol=1e-10)
    np.testing.assert_allclose(diffusion.conjugate_gradient(mixed(S), MU, E, tolerance=1e-13), want, atol=1e-10)
    np.testing.assert_allclose(diffusion.dense_solution(mixed(S), MU, E), want, atol=1e-11)


def test_solvers_take_sparse_and_dense_graphs_alike() -> None:
    _, S, _ = problem(9)
    E, thin = positive(9), sparse.csr_array(mixed(S))
    for solve in (
        diffusion.dense_solution,
        diffusion.conjugate_gradient,
        lambda S, mu, E: diffusion.fixed_point(S, mu, E, 5),
    ):
        np.testing.assert_allclose(solve(thin, MU, E), solve(mixed(S), MU, E), atol=1e-12)


def test_solution_minimises_the_objective() -> None:
    """Eq. 5 is convex: no small change of F makes it smaller."""
    _, S, W = problem(8)
    E = positive(8)
    F = diffusion.dense_solution(mixed(S), MU, E)

    def objective(X: NDArray[Any]) -> float:
        smooth = sum(weight * twin.energy(matrix, X) for weight, matrix in zip(BETA, W, strict=True))
        return float(smooth + MU * ((X - E) ** 2).sum())

    best, rng = objective(F), np.random.default_rng(0)
    for _ in range(10):
        assert objective(F + 1e-2 * rng.standard_normal(F.shape)) > best


def test_fixed_point_makes_the_steps_of_equation_9() -> None:
    _, S, _ = problem(9)
    E = positive(9)
    want = E
    for steps in range(1, 4):
        want = twin.iterate(want, S, list(BETA), MU, E)
        np.testing.assert_allclose(diffusion.fixed_point(mixed(S), MU, E, steps), want, atol=1e-12)


def test_three_fixed_point_steps_are_not_converged() -> None:
    _, S, _ = problem(12)
    exact = diffusion.dense_solution(mixed(S), MU, np.eye(12))

    def error(steps: int) -> float:
        gap = diffusion.fixed_point(mixed(S), MU, np.eye(12), steps) - exact
        return float(np.linalg.norm(gap) / np.linalg.norm(exact))

    assert error(3) > 0.05
    assert error(9) < error(3) / 2
    assert error(200) < 1e-12


def test_algorithm_2_corrected_is_exact_and_as_printed_is_far_off() -> None:
    """Line 1 puts alpha into S, lines 2, 5 and 7 multiply by it once more (design, fact 4)."""
    _, S, _ = problem(10)
    exact = twin.kronecker_solution(S, list(BETA), MU, np.eye(10))
    corrected = twin.algorithm_2(mixed(S), MU, np.eye(10), 200, as_printed=False)
    printed = twin.algorithm_2(mixed(S), MU, np.eye(10), 200, as_printed=True)
    np.testing.assert_allclose(corrected, exact, atol=1e-12)
    assert np.linalg.norm(printed - exact) / np.linalg.norm(exact) > 0.15
    np.testing.assert_allclose(
        diffusion.conjugate_gradient(mixed(S), MU, np.eye(10), tolerance=1e-13), corrected, atol=1e-12
    )


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("mu", [0.05, MU, 1.0])
def test_stated_bound_is_never_below_the_true_error(tolerance: float, mu: float) -> None:
    layers, S, _ = problem(60, k=6)
    a = 1 / (1 + mu)
    exact = (1 - a) * np.linalg.inv(np.eye(60) - a * mixed(S))
    found = diffusion.resolvent(layers, BETA, mu, everywhere(60), tolerance)
    errors = np.linalg.norm(found.similarity.toarray() - exact, axis=1)
    assert (errors <= found.bounds + 1e-6).all()  # float32 beside the bound
    assert (found.bounds <= tolerance * np.sqrt(60)).all()
    assert (found.similarity.toarray() <= exact + 1e-6).all()  # what still waits is missing, never too much


def test_rows_are_read_off_on_the_region_only() -> None:
    layers, _, _ = problem(30)
    rng = np.random.default_rng(4)
    region = sparse.csr_array((rng.random((30, 30)) < 0.2).astype(np.float32))
    part = diffusion.resolvent(layers, BETA, MU, region, 1e-7).similarity
    full = diffusion.resolvent(layers, BETA, MU, everywhere(30), 1e-7).similarity.toarray()
    assert np.array_equal(part.indices, region.indices)
    np.testing.assert_array_equal(part.toarray(), np.where(region.toarray() > 0, full, 0))


def test_a_looser_tolerance_settles_less() -> None:
    layers, _, _ = problem(40)
    sums = [
        float(diffusion.resolvent(layers, BETA, MU, everywhere(40), tolerance).similarity.sum())
        for tolerance in (1e-1, 1e-2, 1e-3, 1e-5)
    ]
    assert sums == sorted(sums)


@pytest.mark.parametrize("n", [6, 9])
def test_energy_by_rows_is_the_literal_sum_of_equation_4(n: int) -> None:
    layers, S, W = problem(n)
    found = diffusion.resolvent(layers, BETA, MU, everywhere(n), 1e-8)
    F = twin.kronecker_solution(S, list(BETA), MU, np.eye(n))
    want = [twin.energy(matrix, F) for matrix in W]
    np.testing.assert_allclose(found.energies, want, rtol=1e-4)
    np.testing.assert_allclose(diffusion.energies_of(S, F), want, rtol=1e-10)


def test_energy_of_a_matrix_that_is_not_symmetric_is_the_literal_sum() -> None:
    _, S, W = problem(7)
    F = np.random.default_rng(2).standard_normal((7, 7))
    np.testing.assert_allclose(diffusion.energies_of(S, F), [twin.energy(matrix, F) for matrix in W], rtol=1e-10)


def random_energies(count: int) -> list[tuple[NDArray[np.float64], float]]:
    rng = np.random.default_rng(8)
    return [
        (rng.normal(size=rng.integers(2, 6)) * 10 ** rng.uniform(-1, 2), 10 ** rng.uniform(-1, 2)) for _ in range(count)
    ]


@pytest.mark.parametrize(("energies", "lam"), random_energies(12))
def test_weights_are_projection_valid_set_and_coordinate_descent_at_once(
    energies: NDArray[np.float64], lam: float
) -> None:
    beta = diffusion.weights_of_graphs(energies, lam)
    assert beta.sum() == pytest.approx(1.0)
    assert beta.min() >= 0
    np.testing.assert_allclose(beta, twin.valid_set_weights(list(energies), lam), atol=1e-12)
    np.testing.assert_allclose(beta, twin.coordinate_descent_weights(list(energies), lam), atol=1e-8)
    np.testing.assert_allclose(beta, diffusion.simplex(-energies / lam), atol=1e-14)
    np.testing.assert_allclose(diffusion.weights_of_graphs(energies + 1234.5, lam), beta, atol=1e-9)


def test_simplex_is_the_nearest_point_of_the_simplex() -> None:
    """Against a grid of the simplex: no point of it is nearer."""
    rng = np.random.default_rng(6)
    grid = np.array([x for x in itertools.product(range(41), repeat=3) if sum(x) == 40]) / 40
    for _ in range(20):
        point = rng.normal(size=3) * 2
        found = diffusion.simplex(point)
        assert found.sum() == pytest.approx(1)
        assert ((grid - point) ** 2).sum(axis=1).min() >= ((found - point) ** 2).sum() - 1e-12


def test_weights_are_even_for_a_large_lambda_and_single_for_none() -> None:
    energies = np.array([3.0, 1.0, 2.0])
    np.testing.assert_allclose(diffusion.weights_of_graphs(energies, 1e9), 1 / 3, atol=1e-6)
    np.testing.assert_array_equal(diffusion.weights_of_graphs(energies, 0.0), [0, 1, 0])
    np.testing.assert_array_equal(diffusion.weights_of_graphs(np.array([1.0, 1.0, 2.0]), 0.0), [0.5, 0.5, 0])


@pytest.mark.parametrize("cycles", [0, 1, 3])
@pytest.mark.parametrize("lam", [0.02, 0.2])
def test_algorithm_1_by_rows_by_dense_solvers_and_literally(cycles: int, lam: float) -> None:
    n = 20
    layers, S, W = problem(n, k=5)
    F, beta = twin.algorithm_1(S, W, MU, lam * n, cycles)
    np.testing.assert_allclose(diffusion.collaborative(layers, MU, lam, cycles, 1e-7), beta, atol=1e-3)
    for solver in ("dense", "conjugate_gradient"):
        smoothed, weights = diffusion.collaborative_dense(layers, MU, lam, cycles, solver)
        np.testing.assert_allclose(weights, beta, atol=1e-4)
        np.testing.assert_allclose(smoothed, F, atol=1e-5)
    smoothed, weights = diffusion.collaborative_dense(layers, MU, lam, cycles, "fixed_point", steps=200)
    np.testing.assert_allclose(weights, beta, atol=1e-4)
    np.testing.assert_allclose(smoothed, F, atol=1e-5)


def test_algorithm_1_keeps_its_matrix_between_cycles() -> None:
    """Three steps per cycle, F carried on, as the paper runs it: even weights, 6 steps after one cycle."""
    layers, S, _ = problem(12)
    F, beta = diffusion.collaborative_dense(layers, MU, 1e9, 1, "fixed_point")
    np.testing.assert_allclose(beta, 1 / 3, atol=1e-6)
    want = np.eye(12)
    for _ in range(6):
        want = twin.iterate(want, S, [1 / 3] * 3, MU, np.eye(12))
    np.testing.assert_allclose(F, want, atol=1e-6)


def test_regulariser_of_another_shape_and_too_many_items_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    layers, _, _ = problem(8)
    with pytest.raises(ValueError, match=r"\(8, 8\)"):
        diffusion.collaborative_dense(layers, MU, 0.2, 1, "dense", np.eye(3))
    monkeypatch.setattr(diffusion, "DENSE_LIMIT", 7)
    with pytest.raises(NotEnoughMemory, match="resolvent"):
        diffusion.collaborative_dense(layers, MU, 0.2, 1, "dense")


def test_on_region_reads_a_dense_matrix_where_asked() -> None:
    F = np.random.default_rng(1).random((6, 6))
    region = sparse.csr_array((np.arange(36).reshape(6, 6) % 3 == 0).astype(np.float32))
    np.testing.assert_allclose(
        diffusion.on_region(F, region).toarray(), np.where(region.toarray() > 0, F, 0), rtol=1e-6
    )


def test_diffused_neighbours_are_the_largest_of_each_row_itself_first() -> None:
    n = 40
    rows = unit(np.random.default_rng(3).standard_normal((n, 5)).astype(np.float32))
    lists = Items.everyone(rows).neighbors(12)
    layers = graph.layered_graphs(lists, 5, 0.7)
    found, similar = diffusion.diffused_neighbors(layers, BETA, MU, 1e-7, lists)
    F = diffusion.dense_solution(layers.mixed(BETA).astype(np.float64), MU, np.eye(n))
    np.testing.assert_allclose(similar, np.take_along_axis(F, found.indices, axis=1), atol=1e-5)
    np.testing.assert_allclose(found.distances, 1 - similar, atol=1e-6)
    dense = diffusion.neighbors_in(F, lists)
    assert np.array_equal(dense.indices[:, 0], np.arange(n))
    np.testing.assert_allclose(1 - dense.distances, similar, atol=1e-5)
    np.fill_diagonal(F, np.inf)
    assert np.array_equal(found.indices[:, 0], np.arange(n))
    largest = -np.sort(-F, axis=1)[:, :12]
    np.testing.assert_allclose(np.take_along_axis(F, found.indices, axis=1)[:, 1:], largest[:, 1:], atol=1e-5)


def test_diffused_neighbours_are_filled_up_from_the_lists_where_the_graph_ends() -> None:
    """Two far clusters of 4, 2 neighbours each: the diffusion reaches 4 items, the lists know the others."""
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(3)[:2], 4, axis=0)
    rows = unit((centres + 0.05 * rng.standard_normal((8, 3))).astype(np.float32))
    lists = Items.everyone(rows).neighbors(8)
    layers = graph.layered_graphs(lists, 2, 0.7, scales=(1.0,))
    found = diffusion.diffused_neighbors(layers, np.ones(1), MU, 1e-6, lists)[0].indices
    assert all(sorted(row) == list(range(8)) for row in found.tolist())
    assert all({*row[:4]} == ({0, 1, 2, 3} if i < 4 else {4, 5, 6, 7}) for i, row in enumerate(found.tolist()))


def test_region_and_resolvent_do_not_depend_on_how_items_are_numbered() -> None:
    n = 50
    rows = unit(np.random.default_rng(9).standard_normal((n, 5)).astype(np.float32))
    shuffle = np.random.default_rng(1).permutation(n)

    def on_region(vectors: NDArray[np.float32]) -> NDArray[Any]:
        lists = Items.everyone(vectors).neighbors(20)
        layers = graph.layered_graphs(lists, 6, 0.7)
        region = states.region_pattern(lists, 15, "reciprocal")
        return np.asarray(diffusion.resolvent(layers, BETA, MU, region, 1e-3).similarity.toarray())

    np.testing.assert_allclose(on_region(rows[shuffle]), on_region(rows)[np.ix_(shuffle, shuffle)], atol=1e-5)
