"""Sets, methods and modes -> a matrix of scores with intervals and times, each against no re-ranking."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kinrank.bench.cache import Cache
from kinrank.bench.cells import CONFIDENCE, MODES, cell, gained
from kinrank.bench.record import chosen, record
from kinrank.datasets import benchmark as published
from kinrank.datasets.benchmark import BENCHMARKS, Benchmark, load
from kinrank.evaluation.trials import ABLATION, PLAIN
from kinrank.progress import Progress, Show

DEFAULT = (PLAIN, "lpmt")
Cell = dict[str, Any]


def accuracy(
    folder: str | os.PathLike[str],
    methods: Sequence[str] = DEFAULT,
    sets: Sequence[str] | None = None,
    progress: Show = None,
    *,
    modes: Sequence[str] = MODES,
    cache: Cache | None = None,
    most: int | None = None,
) -> dict[str, Any]:
    """A record with one result per mode, set, truth, method and measure. No re-ranking is always among them.

    Args:
        folder: where the files of the sets are, see `kinrank.datasets.benchmark`.
        methods: names, or ["all"].
        sets: names; those whose files are all in the folder unless given.
        progress: True for a bar, or a callable `f(label, done, total)`.
        modes: some of joint, candidates, online, see `kinrank.bench.cells.cell`.
        cache: where every cell of the matrix is kept as soon as it is measured: after an interruption, the same call
            goes on where the last one stopped. Nothing is kept unless given.
        most: queries of a set in mode candidates, 40 unless given.

    Returns:
        `results`: dicts with set, truth, queries, items, mode, method, parameters, measure, mean, low, high, seconds,
        worse (than no re-ranking, by the mean), gain, gain_low, gain_high, p (over no re-ranking in the same mode,
        paired by query); or with `error` where a method refused, and `unserved` where it is not made to be online.
    """
    names = wanted_methods(methods)
    wanted = wanted_sets(folder, sets)
    known_modes(modes)
    kept = Cache(None) if cache is None else cache
    jobs = [(name, mode, method) for name in wanted for mode in dict.fromkeys(modes) for method in names]
    report = Progress(progress)
    results: list[dict[str, Any]] = []
    loaded: Benchmark | None = None
    plain: Cell = {}
    for done, (name, mode, method) in enumerate(jobs):
        report.stage(f"{name}, {mode}, {method}", done, len(jobs))
        if loaded is None or loaded.name != name:
            loaded = load(name, folder)
        found = cell(loaded, method, mode, kept, most=most)
        plain = found if method == PLAIN else plain  # which comes first
        results += _rows(loaded, plain, found)
    report.stage("accuracy", len(jobs), len(jobs))
    return record("accuracy", {"confidence": CONFIDENCE, "results": results})


def wanted_methods(names: Sequence[str]) -> list[str]:
    """Each once, no re-ranking first; "all" without the ablation, which is LPMT at its defaults."""
    every = [name for name in chosen(names) if name != ABLATION or list(names) != ["all"]]
    return list(dict.fromkeys([PLAIN, *every]))


def wanted_sets(folder: str | os.PathLike[str], names: Sequence[str] | None) -> list[str]:
    """Those that are asked for, each known; or those whose files are all there."""
    if names is None:
        return present(folder)
    for name in names:
        if name not in BENCHMARKS:
            raise ValueError(f"benchmark {name!r} is not known; give some of: {', '.join(BENCHMARKS)}")
    if not names:
        raise ValueError(f"no set is named; give some of: {', '.join(BENCHMARKS)}")
    return list(dict.fromkeys(names))


def known_modes(names: Sequence[str]) -> None:
    """A ValueError for a mode that does not exist, and for none."""
    unknown = [name for name in names if name not in MODES]
    if unknown or not names:
        given = f"mode {unknown[0]!r} is not known" if unknown else "no mode is named"
        raise ValueError(f"{given}; give some of: {', '.join(MODES)}")


def present(folder: str | os.PathLike[str]) -> list[str]:
    """The sets whose files are all there, at least one."""
    found = published.present(folder)
    if not found:
        raise FileNotFoundError(f"{folder} holds none of the sets {', '.join(BENCHMARKS)}; check --data")
    return found


def _rows(bench: Benchmark, plain: Cell, found: Cell) -> list[dict[str, Any]]:
    """One result per truth and measure."""
    about = {key: value for key, value in found.items() if key != "truths"}
    if "error" in found:
        asked = bench.gallery if bench.queries is None else bench.queries
        sizes = {"queries": plain.get("queries", len(asked)), "items": plain.get("items", len(bench.gallery))}
        return [{**about, **sizes, "truth": truth} for truth in bench.truths]
    rows = []
    for truth, scores in found["truths"].items():
        for measure, score in scores.items():
            numbers = {part: score[part] for part in ("mean", "low", "high")}
            rows.append({**about, "truth": truth, "measure": measure, **numbers})
            rows[-1] |= _against(plain, found, truth, measure)
    return rows


def _against(plain: Cell, found: Cell, truth: str, measure: str) -> dict[str, Any]:
    """What a method gained over no re-ranking; None where there is no number."""
    if "error" in plain:
        return {"worse": False, "gain": None, "gain_low": None, "gain_high": None, "p": None}
    gain = gained(plain, found, truth, measure).to_dict()
    worse = bool((gain["mean_b"] or 0.0) < (gain["mean_a"] or 0.0))
    named = {"gain": gain["difference"], "gain_low": gain["low"], "gain_high": gain["high"], "p": gain["p"]}
    return {"worse": worse, **named}
