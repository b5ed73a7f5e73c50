"""Choice of the defaults of other methods: one setting per method, evaluated on sets that were left out of the choice.

Every method has a small grid of settings. For each set in turn, a setting is chosen on the other sets and evaluated on
the set left out:

* the loss of a setting on a set, in points: by how much its mAP (the mean over truths) is below that of the best
  setting of the grid, at most CAP_POINTS;
* among the settings whose mean loss is within CLOSE_POINTS of the smallest, the one nearest to the published setting
  is chosen: a sum over parameters, the absolute logarithm of the ratio for a number, 1 for a different word.

Decision 21 says which defaults follow from this, and why others stay as published.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.methods import METHODS, Method
from kinrank.progress import SILENT, Progress
from kinrank.vector_input import sample_evenly
from kinrank_bench.accuracy import load_set
from kinrank_bench.datasets.benchmark import Benchmark
from kinrank_bench.measurement import drop_easy
from kinrank_bench.query_samples import load_items, rank_sample, score_sample
from kinrank_bench.record import Panel, check_names
from kinrank_bench.tables import Column

CLOSE_POINTS = 0.25
CAP_POINTS = 10.0  # a set where a setting fails counts no more than this
SAMPLED_QUERIES = 300  # per set
JOINT_QUERIES = 100  # of methods that cost much per query
COSTLY = ("dfs", "eir", "rdp")
Settings = dict[str, Any]
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {  # the first value of each parameter is the published one
    "aqe": {"k": (4, 1, 2, 3, 6, 8, 10, 15, 20, 30)},
    "aqewd": {"k": (8, 2, 4, 6, 10, 12, 16, 20, 30, 48)},
    "alpha-qe": {"k": (48, 2, 3, 4, 5, 6, 8, 10, 16, 24), "alpha": (3.0,)},
    "dqe": {"k": (20, 1, 2, 3, 4, 6, 10), "negatives": (20, 5, 10, 50, 100, 200)},
    "adba+aqe": {"k": (4, 1, 2, 3, 6, 10), "kdba": (4, 2, 3, 5, 6, 8, 11)},
    "adbawd+aqewd": {"k": (8, 4, 6), "kdba": (4, 6, 8, 12, 16)},
    "alpha-dba+alpha-qe": {"k": (48, 4, 8, 16), "kdba": (32, 4, 8, 16), "alpha": (3.0,)},
    "dfs": {"k": (50, 20), "kq": (10, 3, 5), "alpha": (0.99, 0.9)},
    "rdp": {"k": (30, 5, 8, 10, 15, 20), "sigma": (0.5, 0.3), "mu": (0.3, 0.1)},
    "stml": {"k": (20, 5, 8, 10, 12, 15, 30, 50), "variant": ("corrected", "published", "loss")},
    "eir": {"kd": (50, 20), "kq": (10, 5), "alpha": (0.99, 0.9)},
    "egt": {"k": (250, 5, 10, 20, 50, 100), "tau": (0.42, 0.2, 0.6, 0.8, 0.9, 1.0)},
}
BASELINE_PANEL = Panel(
    (
        Column("method", "{method}", left=True),
        Column("left out", "{set}", left=True),
        Column("published", "{published:.2f}"),
        Column("default", "{default:.2f}"),
        Column("chosen", "{chosen:.2f}"),
        Column("best", "{best:.2f}"),
        Column("chosen on the other sets", "{settings}", left=True),
    ),
    "defaults of other methods: mAP on sets left out of the choice",
    rows="baselines",
)
BASELINE_SUMMARY = Panel(
    (
        Column("method", "{method}", left=True),
        Column("published", "{published_loss:.2f}"),
        Column("default", "{default_loss:.2f}"),
        Column("chosen, left out", "{left_out_loss:.2f}"),
        Column("chosen on all sets", "{settings}", left=True),
    ),
    "mean loss to the best setting of each set, in points",
    rows="baseline_summary",
)


def choose_baselines(
    folder: str | os.PathLike[str], set_names: Sequence[str], methods: Sequence[str], report: Progress
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of both panels; `methods` are names of GRIDS, or "all"."""
    names = list(GRIDS) if list(methods) == ["all"] else check_names("method", methods, GRIDS)
    grids = {name: list_settings(name) for name in names}
    scores: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as joined:
        for set_name in report.each("baselines", set_names, len(set_names)):
            bench = load_set(set_name, folder, Path(joined))
            for name in names:
                scores[name].append(np.array(list(_score_settings(bench, name, grids[name]))))
    rows, summary = [], []
    for name, settings in grids.items():
        own, table = settings.index(default_settings(name)), np.stack(scores[name])
        losses = np.minimum(table.max(axis=1, keepdims=True) - table, CAP_POINTS)
        chosen = [choose_setting(np.delete(losses, place, axis=0), settings) for place in range(len(set_names))]
        for place, (set_name, setting) in enumerate(zip(set_names, chosen, strict=True)):
            row = {"published": 0, "default": own, "chosen": setting, "best": int(table[place].argmax())}
            values = {key: float(table[place, column]) for key, column in row.items()}
            rows.append({"method": name, "set": set_name, **values, "settings": format_settings(settings[setting])})
        left_out = float(np.mean([losses[place, setting] for place, setting in enumerate(chosen)]))
        mean = losses.mean(axis=0)
        entries = {"published_loss": float(mean[0]), "default_loss": float(mean[own]), "left_out_loss": left_out}
        everywhere = format_settings(settings[choose_setting(losses, settings)])
        summary.append({"method": name, **entries, "settings": everywhere})
    return {"baselines": rows, "baseline_summary": summary}


def default_settings(name: str) -> Settings:
    """Return kinrank's defaults of the parameters in the grid of a method."""
    method = METHODS[name]()
    return {parameter: getattr(method, parameter) for parameter in GRIDS[name]}


def list_settings(name: str) -> list[Settings]:
    """Return the settings of a method: the published one first, then the others of its grid, and kinrank's defaults."""
    grid, default = GRIDS[name], default_settings(name)
    settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return settings if default in settings else [*settings, default]


def choose_setting(losses: NDArray[np.float64], settings: Sequence[Settings]) -> int:
    """Choose by the losses on sets, (sets, settings); the first setting is the published one."""
    mean = losses.mean(axis=0)
    close: list[int] = np.flatnonzero(mean <= mean.min() + CLOSE_POINTS).tolist()
    changes = [_measure_change(settings[place], settings[0]) for place in close]
    return close[int(np.argmin(changes))]


def _measure_change(settings: Settings, published: Settings) -> float:
    return sum(
        float(value != published[name])
        if isinstance(value, str)
        else abs(float(np.log(value) - np.log(published[name])))
        for name, value in settings.items()
    )


def _score_settings(bench: Benchmark, name: str, settings: Sequence[Settings]) -> Iterator[float]:
    """Yield the mAP of each setting in percent, on a sample of the queries.

    Only the sampled queries are ranked; if a method puts queries into its graph, the others are in it, too.
    """
    kind: type[Method] = METHODS[name]
    count = len(bench.gallery if bench.queries is None else bench.queries)
    sample = sample_evenly(count, JOINT_QUERIES if name in COSTLY else SAMPLED_QUERIES)
    alone = kind.capabilities.prepared_search and bench.queries is not None  # queries do not see each other
    items = load_items(bench, sample if alone else None)
    ranked = np.arange(len(sample)) if alone else sample
    truths = {label: truth.subset(sample) for label, truth in drop_easy(bench.truths).items()}
    for setting in settings:
        method = kind(**setting)
        values = method.distances(method.prepare(items, SILENT), ranked)
        rows = score_sample(rank_sample(values, sample, items), truths)
        yield 100 * float(np.mean([row["mean"] for row in rows]))


def format_settings(settings: Settings) -> str:
    """Return settings as they are given in a call."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())
