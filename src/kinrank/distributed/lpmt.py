"""LPMT's offline half in blocks: neighbour lists -> states, steps and their costs, as files.

The stages of methods/lpmt_served/offline.py in the same order. What needs every row at once and takes little time
(medians, the weights of the graphs, who lists whom) is done by the client; the rest by tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.distributed import tasks
from kinrank.distributed.cluster import Output, Run
from kinrank.distributed.files import create, read, remove, write
from kinrank.methods.lpmt import LPMT, Fitted, fit_to
from kinrank.methods.lpmt_served.offline import kept_width_of, kin_width_of, width_of
from kinrank.neighbors import Neighbors

Arrays = dict[str, NDArray[Any]]


def prepared_parts(
    method: LPMT, n: int, lists_of: Callable[[int], Neighbors], run: Run
) -> tuple[Arrays, dict[str, float]]:
    """The arrays and numbers that `LPMT.keep` gives."""
    from kinrank.stages import graph

    lists = lists_of(width_of(method))
    fitted = fit_to(lists, method.rho, method.gamma, method.share)
    lengths = write(run.folder, "lengths", graph.kernel_scale(lists, method.scale, method.k))
    _graphs(method, lists, run)
    kin = _diffusion(method, lists, run)
    states = _states(method, lists, kin, fitted, run)
    steps = _steps(method, kin, fitted, run)
    return states | steps | {"lengths": lengths.astype(np.float32)}, {
        "rho": fitted.rho,
        "gamma": fitted.gamma,
    }


def _graphs(method: LPMT, lists: Neighbors, run: Run) -> None:
    """Files `starts`, `ends`, `layers`: as `stages.offline.layered`."""
    from kinrank.stages import graph, offline

    scales = (1.0,) if method.similarity == "bsd" else graph.SCALES
    n = len(lists.indices)
    sizes = np.array([min(max(1, round(method.k * scale)), lists.k - 1) for scale in scales])
    near = write(run.folder, "near", lists.indices[:, 1 : int(sizes.max()) + 1])
    write(run.folder, "gaps", lists.distances[:, 1 : int(sizes.max()) + 1])
    starts, ends = offline._either(near)
    write(run.folder, "starts", starts)
    write(run.folder, "ends", ends)
    entries = len(ends), len(sizes)
    outputs = [
        Output("weights", entries, np.float32, starts),
        Output("degrees", (n, len(sizes)), np.float64),
    ]
    run.fill("graphs", tasks.layer_weights, n, outputs, float(method.sigma), sizes)
    run.fill("graphs", tasks.normalised, n, [Output("layers", entries, np.float32, starts)])
    remove(run.folder, "near", "gaps", "weights", "degrees")


def _diffusion(method: LPMT, lists: Neighbors, run: Run) -> NDArray[np.int32]:
    """Files `kin` and `similar`: beta as `stages.offline.graph_weights`, then the rows as `kindred`."""
    from kinrank.stages.diffusion import weights_of_graphs
    from kinrank.stages.graph import Layers
    from kinrank.stages.offline import SAMPLE

    n = len(lists.indices)
    graphs = Layers(*(read(run.folder, name) for name in ("starts", "ends", "layers")))
    count, a = graphs.count, 1.0 / (1.0 + method.mu)
    sample = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64))
    write(run.folder, "sample", sample)
    beta = np.full(count, 1.0 / count)

    def mix() -> None:
        write(run.folder, "step", graphs.blended(a * beta))

    for _ in range(method.cycles if count > 1 else 0):
        mix()
        outputs = [Output("energies", (len(sample), count), np.float32)]
        (found,) = run.fill("graphs", tasks.energies, len(sample), outputs, method.mu, method.tolerance)
        total = found.sum(axis=0, dtype=np.float64) * (n / len(sample))
        beta = weights_of_graphs(total, method.lam * n)
    mix()
    write(run.folder, "fill", lists.first(kept_width_of(method)).indices)
    width = min(kin_width_of(method), n)
    shape = n, width
    outputs = [Output("kin", shape, np.int32), Output("similar", shape, np.float32)]
    kin, _ = run.fill("diffusion", tasks.kindred, n, outputs, method.mu, method.tolerance, width)
    remove(run.folder, "layers", "step", "starts", "ends", "distances", "fill")
    return kin


def _states(method: LPMT, lists: Neighbors, kin: NDArray[np.int32], fitted: Fitted, run: Run) -> Arrays:
    """As `stages.offline.states_of`: csr in files `state_starts`, `state_items`, `state_masses`."""
    from kinrank.stages import offline

    (n, width), support = kin.shape, method.support
    close, weights = offline.confident_lists(lists.indices, kin, method.k2, method.kappa, fitted.share)
    region = [Output("regions", kin.shape, np.float32), Output("totals", (n,), np.float32)]
    reciprocal = method.region == "reciprocal"
    _, totals = run.fill("states", tasks.regions, n, region, min(method.k1, width), reciprocal)
    write(run.folder, "close", close)
    write(run.folder, "confidence", weights / totals[close])
    write(run.folder, "region_starts", np.arange(n + 1, dtype=np.int64) * width)
    outputs = [
        Output("places", (n, support), np.int32),
        Output("masses", (n, support), np.float32),
        Output("sizes", (n,), np.int64),
    ]
    places, masses, sizes = run.fill("states", tasks.states, n, outputs, support)
    starts = write(run.folder, "state_starts", np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    total = (int(starts[-1]),)
    items = create(run.folder, "state_items", total, np.int32)
    values = create(run.folder, "state_masses", total, np.float32)
    for first in range(0, n, run.block):
        some = slice(first, min(first + run.block, n))
        there = np.arange(support) < sizes[some, None]
        entries = slice(int(starts[some.start]), int(starts[some.stop]))
        items[entries], values[entries] = places[some][there], masses[some][there]
    for made in (items, values):
        made.flush()  # type: ignore[attr-defined]
    remove(run.folder, "close", "confidence", "region_starts", "regions", "totals", "similar", "places", "masses")
    return {name: read(run.folder, name) for name in ("state_starts", "state_items", "state_masses")}


def _steps(method: LPMT, kin: NDArray[np.int32], fitted: Fitted, run: Run) -> Arrays:
    """Steps as `stages.offline.steps_between`, their costs as `stages.online.all_costs`."""
    from kinrank.stages import offline

    n = len(kin)
    steps = offline.steps_between(np.ascontiguousarray(kin[:, : method.path_k + 1]), method.steps)
    write(run.folder, "links", steps.links)
    write(run.folder, "step_ends", steps.ends)
    iterations = method.iterations if method.transport == "sinkhorn" else 0
    outputs = [Output("step_costs", (len(steps.ends),), np.float32, steps.links)]
    how = float(fitted.rho), float(fitted.gamma), float(method.epsilon), int(iterations)
    (costs,) = run.fill("chains", tasks.costs, n, outputs, *how)
    backward = np.flatnonzero(steps.origins > steps.ends)  # each step was solved once, from its lower end
    costs[backward] = costs[steps.mirror[backward]]  # copy-on-write: the file stays as the tasks left it
    return {"step_starts": steps.links, "step_ends": steps.ends, "step_costs": costs}
