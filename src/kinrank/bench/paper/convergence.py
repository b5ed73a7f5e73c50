"""A set -> how BCD approaches its solution: after every fixed-point step, three of them to a cycle (Fig. 4b)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import kinrank
from kinrank import features, stages
from kinrank.bench.cache import Cache, code, digest
from kinrank.bench.cells import data_digest
from kinrank.bench.record import surroundings
from kinrank.datasets.benchmark import Benchmark
from kinrank.features import evenly
from kinrank.items import Items
from kinrank.methods import LPMT

STEPS = 3  # fixed-point steps before the weights of the graphs are refreshed, as in the paper
SOLVED = 3  # cycles of exact solutions that lead to the target; the weights hardly move after the first


def convergence(bench: Benchmark, most: int, cycles: int, cache: Cache) -> dict[str, Any]:
    """Residuals step by step, on at most `most` items, evenly taken: the solvers need n x n matrices.

    Returns:
        items, of: how many items there were, and how many the set has.
        points: iteration, cycle, `to_target` = |F - F*| / |F*|, where F* is what exact solutions and refreshed weights
            lead to, and `residual` = |F - F before| / |(1 - a) E|, by how much the equation was missed before the step.
        beta: weights of the graphs at the end; steps: fixed-point steps to a cycle.
    """
    method = LPMT()
    key = {
        "what": "paper convergence",
        "data": data_digest(bench),
        "parameters": method.spelled_out(),
        "numbers": [most, cycles, STEPS, SOLVED],
        "surroundings": surroundings(),
        "version": kinrank.__version__,
        "code": [code(), digest(Path(__file__).read_bytes())],
    }
    return cache.kept(key, lambda: _measured(bench, most, cycles, method))


def _measured(bench: Benchmark, most: int, cycles: int, method: LPMT) -> dict[str, Any]:
    rows = bench.gallery if bench.queries is None else np.concatenate([bench.queries, bench.gallery])
    some = evenly(len(rows), most)
    items = Items.everyone(features.unit(features.check(rows[some])))
    graph, dense, weigh = stages.graph, stages.dense, stages.diffusion.weights_of_graphs
    lists = items.neighbors(1 + max(graph.widths(method.k)))
    lengths = graph.kernel_lengths(lists, method.k, "local", None)
    layers = graph.layered_graphs(lists, lengths, method.k, method.sigma, graph.SCALES, False, False)
    n, a = len(some), 1.0 / (1.0 + method.mu)
    target, _ = dense.collaborative(layers, method.mu, method.lam, SOLVED, "dense")
    matrices = [layers.layer(v).astype(np.float64) for v in range(layers.count)]
    E = F = np.eye(n)
    beta = np.full(layers.count, 1.0 / layers.count)
    points: list[dict[str, float]] = []
    for cycle in range(1, cycles + 1):
        S = sum(weight * matrix for weight, matrix in zip(beta, matrices, strict=True))
        for _ in range(STEPS):
            before, F = F, dense.fixed_point(S, method.mu, E, 1, F)
            left = float(np.linalg.norm(F - before) / (np.linalg.norm(E) * (1.0 - a)))
            away = float(np.linalg.norm(F - target) / np.linalg.norm(target))
            points.append({"iteration": len(points) + 1, "cycle": cycle, "to_target": away, "residual": left})
        beta = weigh(dense.energies_of(matrices, F), method.lam * n)
    return {"items": n, "of": len(rows), "steps": STEPS, "points": points, "beta": [float(one) for one in beta]}
