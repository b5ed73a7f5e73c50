"""Curves of the paper besides accuracy: convergence of BCD (Fig. 4b), and time of one query over its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import kinrank
from kinrank import stages, vector_input
from kinrank.methods import LPMT
from kinrank.methods.base import full_repr
from kinrank.problem import Items
from kinrank.reranking import rerank
from kinrank.stores import ArrayStore
from kinrank.vector_input import sample_evenly
from kinrank_bench.datasets.benchmark import Benchmark
from kinrank_bench.fingerprint import fingerprint_method
from kinrank_bench.measurement import data_digest, separate_queries
from kinrank_bench.measurement_cache import Cache, digest
from kinrank_bench.paper import dense_diffusion
from kinrank_bench.record import describe_environment, time_queries

STEPS_PER_CYCLE = 3  # fixed-point steps between updates of the graph weights, as in the paper
TARGET_CYCLES = 3  # cycles of exact solutions that define F*; the weights hardly change after the first


def _cache_key(what: str, bench: Benchmark, numbers: list[Any]) -> dict[str, Any]:
    return {
        "what": what,
        "data": data_digest(bench),
        "parameters": full_repr(LPMT()),
        "numbers": numbers,
        "surroundings": describe_environment(),
        "version": kinrank.__version__,
        "code": [fingerprint_method(LPMT, "joint", "paper"), digest(Path(__file__).read_bytes())],
    }


def measure_convergence(bench: Benchmark, most: int, cycles: int, cache: Cache) -> dict[str, Any]:
    """Measure the residuals step by step, on at most `most` evenly spaced items: the solvers need n x n matrices.

    Returns:
        items, of: number of items used, and number of items of the set.
        points: iteration, cycle, `to_target` = |F - F*| / |F*|, where F* results from exact solutions and refreshed
            weights, and `residual` = |F - F before| / |(1 - a) E|, the residual of the equation before the step.
        beta: weights of the graphs at the end; steps: fixed-point steps per cycle.
    """
    key = _cache_key("paper convergence", bench, [most, cycles, STEPS_PER_CYCLE, TARGET_CYCLES])
    return cache.get_or_measure(key, lambda: _run_cycles(bench, most, cycles, LPMT()))


def _run_cycles(bench: Benchmark, most: int, cycles: int, method: LPMT) -> dict[str, Any]:
    rows = bench.gallery if bench.queries is None else np.concatenate([bench.queries, bench.gallery])
    sample = sample_evenly(len(rows), most)
    items = Items.from_gallery(vector_input.to_unit_rows(vector_input.check_vectors(rows[sample])))
    graph, dense, weigh = stages.gaussian_graph, dense_diffusion, stages.diffusion.weigh_graphs
    lists = items.neighbors(1 + max(graph.neighbors_per_layer(method.k)))
    lengths = graph.kernel_lengths(lists, method.k, "local", None)
    layers = graph.build_layers(lists, lengths, graph.LayerSettings(method.k, method.sigma))
    n, a = len(sample), 1.0 / (1.0 + method.mu)
    target, _ = dense.diffuse_collaboratively(layers, method.mu, method.lam, TARGET_CYCLES, "dense")
    matrices = [layers.layer(v).astype(np.float64) for v in range(layers.count)]
    E = F = np.eye(n)
    beta = np.full(layers.count, 1.0 / layers.count)
    points: list[dict[str, float]] = []
    for cycle in range(1, cycles + 1):
        S = sum(weight * matrix for weight, matrix in zip(beta, matrices, strict=True))
        for _ in range(STEPS_PER_CYCLE):
            before, F = F, dense.solve_by_fixed_point(S, method.mu, E, 1, F)
            left = float(np.linalg.norm(F - before) / (np.linalg.norm(E) * (1.0 - a)))
            away = float(np.linalg.norm(F - target) / np.linalg.norm(target))
            points.append({"iteration": len(points) + 1, "cycle": cycle, "to_target": away, "residual": left})
        beta = weigh(dense.measure_energies(matrices, F), method.lam * n)
    return {
        "items": n,
        "of": len(rows),
        "steps": STEPS_PER_CYCLE,
        "points": points,
        "beta": [float(weight) for weight in beta],
    }


def measure_query_time(bench: Benchmark, counts: Sequence[int], queries: int, cache: Cache) -> dict[str, Any]:
    """Measure median, fastest and slowest seconds per query for each number of candidates, including the search.

    Numbers of candidates above the gallery size mean all items. Measured once per machine; other programs that run at
    the same time make it slower.
    """
    size = len(separate_queries(bench)[1])
    candidate_counts = sorted({min(count, size) for count in counts})
    key = _cache_key("paper time", bench, [candidate_counts, queries])
    return cache.get_or_measure(key, lambda: _measure_times(bench, candidate_counts, queries))


def _measure_times(bench: Benchmark, counts: Sequence[int], most: int) -> dict[str, Any]:
    queries, gallery, _ = separate_queries(bench)
    store, timed, points = ArrayStore(gallery), queries[sample_evenly(len(queries), most)], []
    for count in counts:
        search = partial(rerank, gallery=store, method=LPMT(), candidates=count)
        search(timed[:1])  # compiles, or loads compiled loops from disk
        seconds = time_queries(search, timed)
        middle, fast, slow = (float(statistic(seconds)) for statistic in (np.median, np.min, np.max))
        points.append({"candidates": count, "seconds": middle, "fastest": fast, "slowest": slow})
    return {"queries": len(timed), "items": len(gallery), "points": points}
