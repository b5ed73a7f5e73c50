"""BCD: all solvers against the Kronecker closed form, rows of F by both kernels, their bounds, graph weights."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from kinrank.errors import MemoryLimitError
from kinrank.neighbors import Neighbors
from kinrank.problem import Items
from kinrank.stages import diffusion, gaussian_graph
from kinrank.stages.csr import Rows, matrix_from_rows, rows_from_matrix
from kinrank.stages.diffusion import Spread
from kinrank.stages.sparse_rows import Pattern
from kinrank.vector_input import to_unit_rows
from kinrank_bench.paper import dense_diffusion
from reference import lpmt as twin

pytestmark = pytest.mark.slow

MU = 0.23
BETA = np.array([0.2, 0.5, 0.3])


@pytest.fixture(params=["from all items", "spread"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use both ways to compute rows of F, regardless of the number of items."""
    monkeypatch.setattr(diffusion, "MAX_BLOCK_ITEMS", 10**9 if request.param == "from all items" else 0)
    return str(request.param)


def layers_of(
    lists: Neighbors, k: int, scales: tuple[float, ...] = gaussian_graph.SCALES
) -> gaussian_graph.GraphLayers:
    return gaussian_graph.build_layers(
        lists, gaussian_graph.kernel_lengths(lists, k), gaussian_graph.LayerSettings(k, 0.7, scales)
    )


def problem(
    n: int, seed: int = 1, k: int = 4
) -> tuple[gaussian_graph.GraphLayers, list[NDArray[Any]], list[NDArray[Any]]]:
    """Return the library's layers, and the same graphs S and W as dense matrices of the transcription."""
    rows = to_unit_rows(np.random.default_rng(seed).standard_normal((n, 5)).astype(np.float32))
    layers = layers_of(Items.from_gallery(rows).neighbors(n), k)
    d = twin.euclidean(rows)
    rank = twin.nearest_first(d)
    weights = twin.gaussian(d, rank, 0.7, "local", k)
    W = [twin.adjacency(weights, rank, size) for size in twin.graph_sizes(k)]
    return layers, [twin.normalised(matrix) for matrix in W], W


def everywhere(layers: gaussian_graph.GraphLayers, mu: float, tolerance: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return (F, bounds): all rows on all items, by spreading."""
    n = len(layers.indptr) - 1
    pattern = Pattern(np.arange(n + 1) * n, np.tile(np.arange(n, dtype=np.int32), n))
    spread = Spread.over(diffusion.build_diffusion_graph(layers, BETA, mu), mu, tolerance)
    values, bounds = diffusion.compute_resolvent_values(spread, np.arange(n), pattern)
    return values.reshape(n, n), bounds


def listed(layers: gaussian_graph.GraphLayers, beta: NDArray[Any], mu: float, tolerance: float) -> NDArray[Any]:
    """Return F from lists as long as the number of items."""
    n = len(layers.indptr) - 1
    lists = np.arange(n, dtype=np.int32)[:, None]
    spread = Spread.over(diffusion.build_diffusion_graph(layers, beta, mu), mu, tolerance)
    nearest, similar = diffusion.list_nearest_by_diffusion(spread, lists, n)
    F = np.zeros((n, n))
    np.maximum.at(F, (np.arange(n)[:, None], nearest), similar)  # items that F does not reach are filled in at 0
    return F


def exact(layers: gaussian_graph.GraphLayers, mu: float, beta: NDArray[Any] = BETA) -> NDArray[np.float64]:
    """Return the resolvent of the library's own graph by a dense inverse."""
    return twin.resolvent(matrix_from_rows(layers.mix(beta), len(layers.indptr) - 1), mu)


def positive(n: int, seed: int = 0) -> NDArray[np.float64]:
    """Return a random positive semi-definite matrix of half the rank."""
    half = np.random.default_rng(seed).standard_normal((n, n // 2))
    return half @ half.T


def mixed(S: list[NDArray[Any]]) -> NDArray[np.float64]:
    return np.asarray(sum(weight * matrix for weight, matrix in zip(BETA, S, strict=True)))


@pytest.mark.parametrize("n", [8, 10, 12])
@pytest.mark.parametrize("mu", [0.05, MU, 2.0])
def test_every_solver_finds_the_kronecker_closed_form_for_the_identity(n: int, mu: float) -> None:
    layers, S, _ = problem(n)
    want = twin.kronecker_solution(S, list(BETA), mu, np.eye(n))
    np.testing.assert_allclose(everywhere(layers, mu, 1e-8)[0], want, atol=2e-6)
    np.testing.assert_allclose(listed(layers, BETA, mu, 1e-7), want, atol=2e-6)
    np.testing.assert_allclose(twin.resolvent(mixed(S), mu), want, atol=1e-13)
    np.testing.assert_allclose(dense_diffusion.solve_by_fixed_point(mixed(S), mu, np.eye(n), 800), want, atol=1e-12)
    solved = dense_diffusion.solve_by_conjugate_gradient(mixed(S), mu, np.eye(n), tolerance=1e-13)
    np.testing.assert_allclose(solved, want, atol=1e-12)
    np.testing.assert_allclose(dense_diffusion.solve_by_eigenvectors(mixed(S), mu, np.eye(n)), want, atol=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_general_solvers_find_the_closed_form_for_any_positive_matrix(seed: int) -> None:
    _, S, _ = problem(10, seed)
    E = positive(10, seed)
    want = twin.kronecker_solution(S, list(BETA), MU, E)
    np.testing.assert_allclose(want, twin.lyapunov_solution(S, list(BETA), MU, E), atol=1e-12)
    np.testing.assert_allclose(dense_diffusion.solve_by_fixed_point(mixed(S), MU, E, 300), want, atol=1e-10)
    np.testing.assert_allclose(
        dense_diffusion.solve_by_conjugate_gradient(mixed(S), MU, E, tolerance=1e-13), want, atol=1e-10
    )
    np.testing.assert_allclose(dense_diffusion.solve_by_eigenvectors(mixed(S), MU, E), want, atol=1e-11)


def test_solvers_take_sparse_and_dense_graphs_alike() -> None:
    _, S, _ = problem(9)
    E, thin = positive(9), sparse.csr_array(mixed(S))
    for solve in (
        dense_diffusion.solve_by_eigenvectors,
        dense_diffusion.solve_by_conjugate_gradient,
        lambda S, mu, E: dense_diffusion.solve_by_fixed_point(S, mu, E, 5),
    ):
        np.testing.assert_allclose(solve(thin, MU, E), solve(mixed(S), MU, E), atol=1e-12)


def test_solution_minimises_the_objective() -> None:
    """Eq. 5 is convex: no small change of F reduces it."""
    _, S, W = problem(8)
    E = positive(8)
    F = dense_diffusion.solve_by_eigenvectors(mixed(S), MU, E)

    def objective(X: NDArray[Any]) -> float:
        smooth = sum(weight * twin.energy(matrix, X) for weight, matrix in zip(BETA, W, strict=True))
        return float(smooth + MU * ((X - E) ** 2).sum())

    best, rng = objective(F), np.random.default_rng(0)
    for _ in range(10):
        assert objective(F + 1e-2 * rng.standard_normal(F.shape)) > best


def kronecker_means(S: list[NDArray[Any]]) -> list[NDArray[np.float64]]:
    """Return (S x I + I x S)/2 of every graph, as in Eq. 6."""
    identity = np.eye(len(S[0]))
    return [(np.kron(matrix, identity) + np.kron(identity, matrix)) / 2 for matrix in S]


def test_gradient_of_equation_6_is_equation_a_9_but_not_equation_7() -> None:
    """Eq. 7 is printed with 2I - S where the derivative has 2(I - S)."""
    _, S, W = problem(6)
    E, F = positive(6), positive(6, 1)
    f, e, means = F.flatten(order="F"), E.flatten(order="F"), kronecker_means(S)

    def objective(x: NDArray[Any]) -> float:
        smooth = sum(weight * (x @ x - x @ mean @ x) for weight, mean in zip(BETA, means, strict=True))
        return float(smooth + MU * ((x - e) ** 2).sum())

    def gradient(identities: float, graphs: float) -> NDArray[np.float64]:
        terms = (weight * (identities * f - graphs * mean @ f) for weight, mean in zip(BETA, means, strict=True))
        return np.asarray(sum(terms) + 2 * MU * (f - e))

    literal = sum(weight * twin.energy(matrix, F) for weight, matrix in zip(BETA, W, strict=True))
    assert objective(f) == pytest.approx(literal + MU * ((F - E) ** 2).sum())
    steps = 1e-5 * np.eye(len(f))
    measured = np.array([(objective(f + step) - objective(f - step)) / 2e-5 for step in steps])
    np.testing.assert_allclose(gradient(2, 2), measured, atol=1e-6)
    assert abs(gradient(2, 1) - measured).max() > 0.1
    f = twin.kronecker_solution(S, list(BETA), MU, E).flatten(order="F")
    np.testing.assert_allclose(gradient(2, 2), 0, atol=1e-12)


def test_iterates_are_powers_of_the_mixed_graph_unlike_equation_a_16() -> None:
    """Eq. A.16 is printed with the sum of the powers of the graphs where the power of their sum is right."""
    _, S, _ = problem(6)
    E, F, count = positive(6), positive(6, 1), 3
    start, e = F.flatten(order="F"), E.flatten(order="F")
    for _ in range(count):
        F = twin.iterate(F, S, list(BETA), MU, E)
    parts = [weight / (1 + MU) * mean for weight, mean in zip(BETA, kronecker_means(S), strict=True)]
    together = np.asarray(sum(parts))
    added = MU / (1 + MU) * sum(np.linalg.matrix_power(together, i) for i in range(count)) @ e
    right = np.linalg.matrix_power(together, count) @ start + added
    printed = sum(np.linalg.matrix_power(part, count) for part in parts) @ start + added
    np.testing.assert_allclose(F.flatten(order="F"), right, atol=1e-12)
    assert abs(printed - right).max() > 0.1


def test_fixed_point_makes_the_steps_of_equation_9() -> None:
    _, S, _ = problem(9)
    E = positive(9)
    want = E
    for steps in range(1, 4):
        want = twin.iterate(want, S, list(BETA), MU, E)
        np.testing.assert_allclose(dense_diffusion.solve_by_fixed_point(mixed(S), MU, E, steps), want, atol=1e-12)


def test_three_fixed_point_steps_are_not_converged() -> None:
    _, S, _ = problem(12)
    exact = dense_diffusion.solve_by_eigenvectors(mixed(S), MU, np.eye(12))

    def error(steps: int) -> float:
        gap = dense_diffusion.solve_by_fixed_point(mixed(S), MU, np.eye(12), steps) - exact
        return float(np.linalg.norm(gap) / np.linalg.norm(exact))

    assert error(3) > 0.05
    assert error(9) < error(3) / 2
    assert error(200) < 1e-12


def test_algorithm_2_corrected_is_exact_and_as_printed_is_far_off() -> None:
    """Line 1 puts alpha into S; lines 2, 5 and 7 multiply by it again (design, fact 4)."""
    _, S, _ = problem(10)
    exact = twin.kronecker_solution(S, list(BETA), MU, np.eye(10))
    corrected = twin.algorithm_2(mixed(S), MU, np.eye(10), 200, as_printed=False)
    printed = twin.algorithm_2(mixed(S), MU, np.eye(10), 200, as_printed=True)
    np.testing.assert_allclose(corrected, exact, atol=1e-12)
    assert np.linalg.norm(printed - exact) / np.linalg.norm(exact) > 0.15
    np.testing.assert_allclose(
        dense_diffusion.solve_by_conjugate_gradient(mixed(S), MU, np.eye(10), tolerance=1e-13), corrected, atol=1e-12
    )


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("mu", [0.05, MU, 1.0])
def test_stated_bound_is_never_below_the_true_error(tolerance: float, mu: float) -> None:
    layers, S, _ = problem(60, k=6)
    want = twin.resolvent(mixed(S), mu)
    found, bounds = everywhere(layers, mu, tolerance)
    errors = np.linalg.norm(found - want, axis=1)
    assert (errors <= bounds + 1e-6).all()  # float32 rounding in addition to the bound
    assert (bounds <= tolerance * np.sqrt(60)).all()
    assert (found <= want + 1e-6).all()  # waiting mass is missing, never in excess


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("mu", [0.05, MU, 1.0])
def test_rows_from_all_items_are_as_exact_as_stated(tolerance: float, mu: float) -> None:
    """The norm of a row's error is below that of a quarter of the tolerance at every item: spreading leaves more."""
    layers, S, _ = problem(60, k=6)
    errors = np.linalg.norm(listed(layers, BETA, mu, tolerance) - twin.resolvent(mixed(S), mu), axis=1)
    assert (errors <= 0.25 * tolerance * np.sqrt(60) + 2e-6).all()


@pytest.mark.parametrize("tolerance", [0.5, 1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("mu", [1e-3, 0.05, MU, 3.0])
def test_chebyshev_weights_bring_the_error_below_the_tolerance_for_every_spectrum(tolerance: float, mu: float) -> None:
    """x = G x + b in float64 for G = a w, b = 1 - a, at every eigenvalue w from -1 to 1."""
    a = 1 / (1 + mu)
    w = np.linspace(-1, 1, 2001)
    weights = diffusion.chebyshev_weights(mu, tolerance).astype(np.float64)
    before, x = np.zeros_like(w), np.full_like(w, 1 - a)
    for weight in weights:
        before, x = x, weight * (a * w * x + (1 - a) - before) + before
    assert np.abs(x - (1 - a) / (1 - a * w)).max() <= tolerance + 1e-6
    rate = a / (1 + np.sqrt(1 - a * a))
    assert len(weights) <= 1 + max(0.0, np.log(tolerance / 2) / np.log(rate)) + 1e-9 or len(weights) == 1


def test_rows_are_read_off_where_asked_and_only_there() -> None:
    layers, _, _ = problem(30)
    rng = np.random.default_rng(4)
    region = sparse.csr_array((rng.random((12, 30)) < 0.2).astype(np.float32))
    rows = rng.permutation(30)[:12]
    spreading = diffusion.build_diffusion_graph(layers, BETA, MU)
    pattern, spread = rows_from_matrix(region), Spread.over(spreading, MU, 1e-7)
    values, bounds = diffusion.compute_resolvent_values(spread, rows, Pattern(pattern.indptr, pattern.indices))
    full, all_bounds = everywhere(layers, MU, 1e-7)
    part = sparse.csr_array((values, region.indices, region.indptr), shape=region.shape)
    np.testing.assert_array_equal(part.toarray(), np.where(region.toarray() > 0, full[rows], 0))
    np.testing.assert_array_equal(bounds, all_bounds[rows])
    block = diffusion.compute_resolvent_block(spread, rows, np.array([5, 3, 29]))
    np.testing.assert_array_equal(block, full[rows][:, [5, 3, 29]])


def test_a_looser_tolerance_settles_less() -> None:
    layers, _, _ = problem(40)
    sums = [float(everywhere(layers, MU, tolerance)[0].sum()) for tolerance in (1e-1, 1e-2, 1e-3, 1e-5)]
    assert sums == sorted(sums)


@pytest.mark.parametrize("n", [6, 9, 70])
def test_energy_by_rows_is_the_literal_sum_of_equation_4(n: int, loops: str) -> None:
    layers, S, W = problem(n)
    spreading = diffusion.build_diffusion_graph(layers, BETA, MU)
    found = diffusion._estimate_energies(layers, Spread.over(spreading, MU, 1e-8), diffusion.THREAD_RUNNER)
    F = twin.resolvent(mixed(S), MU)
    want = [twin.energy(matrix, F) for matrix in W]
    np.testing.assert_allclose(found, want, rtol=1e-4)
    np.testing.assert_allclose(dense_diffusion.measure_energies(S, F), want, rtol=1e-10)


def test_energy_of_a_matrix_that_is_not_symmetric_is_the_literal_sum() -> None:
    _, S, W = problem(7)
    F = np.random.default_rng(2).standard_normal((7, 7))
    np.testing.assert_allclose(
        dense_diffusion.measure_energies(S, F), [twin.energy(matrix, F) for matrix in W], rtol=1e-10
    )


def random_energies(count: int) -> list[tuple[NDArray[np.float64], float]]:
    rng = np.random.default_rng(8)
    return [
        (rng.normal(size=rng.integers(2, 6)) * 10 ** rng.uniform(-1, 2), 10 ** rng.uniform(-1, 2)) for _ in range(count)
    ]


@pytest.mark.parametrize(("energies", "lam"), random_energies(12))
def test_weights_are_projection_valid_set_and_coordinate_descent_at_once(
    energies: NDArray[np.float64], lam: float
) -> None:
    beta = diffusion.weigh_graphs(energies, lam)
    assert beta.sum() == pytest.approx(1.0)
    assert beta.min() >= 0
    np.testing.assert_allclose(beta, twin.valid_set_weights(list(energies), lam), atol=1e-12)
    np.testing.assert_allclose(beta, twin.coordinate_descent_weights(list(energies), lam), atol=1e-8)
    np.testing.assert_allclose(beta, diffusion.project_to_simplex(-energies / lam), atol=1e-14)
    np.testing.assert_allclose(diffusion.weigh_graphs(energies + 1234.5, lam), beta, atol=1e-9)


def test_simplex_is_the_nearest_point_of_the_simplex() -> None:
    """No point of a grid over the simplex is nearer."""
    rng = np.random.default_rng(6)
    grid = np.array([x for x in itertools.product(range(41), repeat=3) if sum(x) == 40]) / 40
    for _ in range(20):
        point = rng.normal(size=3) * 2
        found = diffusion.project_to_simplex(point)
        assert found.sum() == pytest.approx(1)
        assert ((grid - point) ** 2).sum(axis=1).min() >= ((found - point) ** 2).sum() - 1e-12


def test_weights_are_even_for_a_large_lambda_and_single_for_none() -> None:
    energies = np.array([3.0, 1.0, 2.0])
    np.testing.assert_allclose(diffusion.weigh_graphs(energies, 1e9), 1 / 3, atol=1e-6)
    np.testing.assert_array_equal(diffusion.weigh_graphs(energies, 0.0), [0, 1, 0])
    np.testing.assert_array_equal(diffusion.weigh_graphs(np.array([1.0, 1.0, 2.0]), 0.0), [0.5, 0.5, 0])


@pytest.mark.parametrize("cycles", [0, 1, 3])
@pytest.mark.parametrize("lam", [0.02, 0.2])
def test_algorithm_1_by_rows_by_dense_solvers_and_literally(cycles: int, lam: float, loops: str) -> None:
    n = 20
    layers, S, W = problem(n, k=5)
    F, beta = twin.algorithm_1(S, W, MU, lam * n, cycles)
    np.testing.assert_allclose(diffusion.fit_graph_weights(layers, MU, lam, cycles, 1e-7), beta, atol=1e-5)
    for solver in ("dense", "conjugate_gradient"):
        smoothed, weights = dense_diffusion.diffuse_collaboratively(layers, MU, lam, cycles, solver)
        np.testing.assert_allclose(weights, beta, atol=1e-4)
        np.testing.assert_allclose(smoothed, F, atol=1e-5)
    smoothed, weights = dense_diffusion.diffuse_collaboratively(layers, MU, lam, cycles, "fixed_point", steps=200)
    np.testing.assert_allclose(weights, beta, atol=1e-4)
    np.testing.assert_allclose(smoothed, F, atol=1e-5)


def test_algorithm_1_keeps_its_matrix_between_cycles() -> None:
    """Three steps per cycle with F carried over, as in the paper: even weights, 6 steps after one cycle."""
    layers, S, _ = problem(12)
    F, beta = dense_diffusion.diffuse_collaboratively(layers, MU, 1e9, 1, "fixed_point")
    np.testing.assert_allclose(beta, 1 / 3, atol=1e-6)
    want = np.eye(12)
    for _ in range(6):
        want = twin.iterate(want, S, [1 / 3] * 3, MU, np.eye(12))
    np.testing.assert_allclose(F, want, atol=1e-6)


def test_regulariser_of_another_shape_and_too_many_items_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    layers, _, _ = problem(8)
    with pytest.raises(ValueError, match=r"\(8, 8\)"):
        dense_diffusion.diffuse_collaboratively(layers, MU, 0.2, 1, "dense", np.eye(3))
    monkeypatch.setattr(dense_diffusion, "MAX_ITEMS", 7)
    with pytest.raises(MemoryLimitError, match="resolvent"):
        dense_diffusion.diffuse_collaboratively(layers, MU, 0.2, 1, "dense")


@pytest.mark.parametrize("n", [600, 1500])
def test_weights_from_sampled_rows_are_those_of_all_rows(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On both sides of MAX_BLOCK_ITEMS; every fourth row gives beta to 0.003, at a tenth of the default lambda."""
    rng = np.random.default_rng(2)
    rows = to_unit_rows(
        (rng.standard_normal((n // 25, 8)).repeat(25, axis=0) + 0.5 * rng.standard_normal((n, 8))).astype("f4")
    )
    layers = layers_of(Items.from_gallery(rows).neighbors(15), 10)
    tolerance = 2e-3 / diffusion.WEIGHING_FACTOR
    sampled = diffusion.fit_graph_weights(layers, MU, 0.02, 2, tolerance)
    monkeypatch.setattr(diffusion, "SAMPLE_ROWS", (n, n))
    every = diffusion.fit_graph_weights(layers, MU, 0.02, 2, tolerance)
    np.testing.assert_allclose(sampled, every, atol=3e-3)
    want = np.full(3, 1 / 3)
    for _ in range(2):
        energies = dense_diffusion.measure_energies([layers.layer(v) for v in range(3)], exact(layers, MU, want))
        want = twin.valid_set_weights(list(energies), 0.02 * n)
    np.testing.assert_allclose(every, want, atol=1e-3)
    assert np.ptp(want) > 0.1  # the weights differ


def test_one_graph_has_the_whole_weight(loops: str) -> None:
    lists = Items.from_gallery(
        to_unit_rows(np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32))
    ).neighbors(8)
    assert diffusion.fit_graph_weights(layers_of(lists, 5, (1.0,)), MU, 0.2, 3, 1e-3).tolist() == [1.0]


def test_diffused_neighbours_are_the_largest_of_each_row_itself_first(loops: str) -> None:
    n = 40
    rows = to_unit_rows(np.random.default_rng(3).standard_normal((n, 5)).astype(np.float32))
    lists = Items.from_gallery(rows).neighbors(12)
    layers = layers_of(lists, 5)
    spreading = diffusion.build_diffusion_graph(layers, BETA, MU)
    found, similar = diffusion.list_nearest_by_diffusion(Spread.over(spreading, MU, 1e-7), lists.indices, 12)
    F = dense_diffusion.solve_by_eigenvectors(matrix_from_rows(layers.mix(BETA), n).astype(np.float64), MU, np.eye(n))
    np.testing.assert_allclose(similar, np.take_along_axis(F, found, axis=1), atol=1e-6)
    order, along = dense_diffusion.list_nearest(F, lists)
    assert np.array_equal(order[:, 0], np.arange(n))
    np.testing.assert_allclose(along, similar, atol=1e-6)
    np.fill_diagonal(F, np.inf)
    assert np.array_equal(found[:, 0], np.arange(n))
    largest = -np.sort(-F, axis=1)[:, :12]
    np.testing.assert_allclose(np.take_along_axis(F, found, axis=1)[:, 1:], largest[:, 1:], atol=1e-6)


@pytest.mark.parametrize("n", [diffusion.MAX_BLOCK_ITEMS, diffusion.MAX_BLOCK_ITEMS + 1])
@pytest.mark.parametrize("tolerance", [2e-3, 1e-6])
def test_lists_of_many_items_are_those_of_a_dense_inverse(n: int, tolerance: float) -> None:
    """Just below and above the number of items at which the kernel changes, which must not be noticeable."""
    rows = to_unit_rows(np.random.default_rng(5).standard_normal((n, 6)).astype(np.float32))
    rows[n - 20 :] = rows[:20]  # duplicates
    lists = Items.from_gallery(rows).neighbors(15)
    layers = layers_of(lists, 10)
    spreading = diffusion.build_diffusion_graph(layers, BETA, MU)
    found, similar = diffusion.list_nearest_by_diffusion(Spread.over(spreading, MU, tolerance), lists.indices, 60)
    F = exact(layers, MU)
    error = 0.5 * np.sqrt(n) * tolerance
    gap = np.abs(similar - np.take_along_axis(F, found, axis=1))
    assert gap.max() <= error + 1e-6
    assert gap.max() <= tolerance + 1e-6  # far below the bound on the norm
    np.fill_diagonal(F, np.inf)
    assert (found[:, 0] == np.arange(n)).all()
    assert (np.diff(similar[:, 1:], axis=1) <= 0).all()
    assert all(len(set(row)) == 60 for row in found.tolist())
    largest = -np.sort(-F, axis=1)[:, 1:60]
    assert np.abs(np.take_along_axis(F, found, axis=1)[:, 1:] - largest).max() <= 2 * tolerance + 1e-6


def test_equal_similarities_go_by_number(loops: str) -> None:
    """0 - 1 - 4 and 0 - 2 - 3: 3 and 4 are equally near, and only one of them fits the list."""
    S = np.zeros((5, 5), np.float32)
    for i, j in [(0, 1), (0, 2), (1, 4), (2, 3)]:
        S[i, j] = S[j, i] = 0.4
    own = np.arange(5, dtype=np.int32)[:, None]
    found, _ = diffusion.list_nearest_by_diffusion(Spread.over(rows_from_matrix(sparse.csr_array(S)), MU, 1e-6), own, 4)
    assert found[0].tolist() == [0, 1, 2, 3]


def test_diffused_neighbours_are_filled_up_from_the_lists_where_the_graph_ends(loops: str) -> None:
    """Two distant clusters of 4, 2 neighbours each: the diffusion reaches 4 items, the lists provide the others."""
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(3)[:2], 4, axis=0)
    rows = to_unit_rows((centres + 0.05 * rng.standard_normal((8, 3))).astype(np.float32))
    lists = Items.from_gallery(rows).neighbors(8)
    spreading = diffusion.build_diffusion_graph(layers_of(lists, 2, (1.0,)), np.ones(1), MU)
    found, similar = diffusion.list_nearest_by_diffusion(Spread.over(spreading, MU, 1e-6), lists.indices, 8)
    assert all(sorted(row) == list(range(8)) for row in found.tolist())
    for i, row in enumerate(found.tolist()):
        assert {*row[:4]} == ({0, 1, 2, 3} if i < 4 else {4, 5, 6, 7})
        assert row[4:] == [j for j in lists.indices[i].tolist() if (j < 4) != (i < 4)]  # nearest first
    assert (similar[:, :4] > 0).all()
    assert not similar[:, 4:].any()
    short = np.where(np.arange(8) < 5, lists.indices, -1).astype(np.int32)  # padded lists: then the item itself
    found, similar = diffusion.list_nearest_by_diffusion(Spread.over(spreading, MU, 1e-6), short, 8)
    for i, row in enumerate(found.tolist()):
        assert row[4:] == [int(lists.indices[i, 4]), i, i, i]
    assert not similar[:, 4:].any()


def test_some_rows_are_renewed_and_the_others_left_alone(loops: str) -> None:
    lists = Items.from_gallery(
        to_unit_rows(np.random.default_rng(7).standard_normal((90, 5)).astype(np.float32))
    ).neighbors(15)
    spreading = diffusion.build_diffusion_graph(layers_of(lists, 8), BETA, MU)
    nearest, similar = diffusion.list_nearest_by_diffusion(Spread.over(spreading, MU, 1e-3), lists.indices, 20)
    rows = np.array([3, 88, 40])
    some, values = np.full_like(nearest, -7), np.full_like(similar, -7)
    diffusion.update_nearest_rows(
        rows, Spread.over(spreading, MU, 1e-3), lists.indices, diffusion.DiffusedLists(some, values)
    )
    np.testing.assert_array_equal(some[rows], nearest[rows])
    np.testing.assert_array_equal(values[rows], similar[rows])
    others = np.delete(np.arange(90), rows)
    assert (some[others] == -7).all()
    assert (values[others] == -7).all()


def test_resolvent_does_not_depend_on_how_items_are_numbered(loops: str) -> None:
    n = 50
    rows = to_unit_rows(np.random.default_rng(9).standard_normal((n, 5)).astype(np.float32))
    shuffle = np.random.default_rng(1).permutation(n)

    def similarity(vectors: NDArray[np.float32]) -> NDArray[Any]:
        return listed(layers_of(Items.from_gallery(vectors).neighbors(20), 6), BETA, MU, 1e-3)

    np.testing.assert_allclose(similarity(rows[shuffle]), similarity(rows)[np.ix_(shuffle, shuffle)], atol=1e-6)


def test_spreading_graph_is_a_times_the_mixture() -> None:
    layers, S, _ = problem(20)
    spreading = diffusion.build_diffusion_graph(layers, BETA, MU)
    assert isinstance(spreading, Rows)
    np.testing.assert_allclose(matrix_from_rows(spreading, 20).toarray(), mixed(S) / (1 + MU), atol=1e-6)
    assert diffusion.restart_share(MU) == pytest.approx(1 - 1 / (1 + MU), rel=1e-6)
