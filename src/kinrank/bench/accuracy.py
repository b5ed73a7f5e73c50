"""Sets, methods and modes -> a matrix of scores with intervals and times, each against no re-ranking."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kinrank.bench.cache import Cache
from kinrank.bench.cells import CONFIDENCE, FEW, MODES, cell, gained
from kinrank.bench.record import chosen, record
from kinrank.datasets import benchmark as published
from kinrank.datasets import found, missing
from kinrank.datasets.benchmark import BENCHMARKS, Benchmark, load
from kinrank.evaluation.trials import ABLATION, PLAIN, REFUSALS
from kinrank.methods import METHODS
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
        sets: names in BENCHMARKS, or of features that are in the folder, such as roxford5k_rgem or
            roxford5k_rgem+distractors (see `kinrank.datasets.found`); all that are there unless given.
        progress: True for a bar, or a callable `f(label, done, total)`.
        modes: some of joint, candidates, online, see `kinrank.bench.cells.cell`.
        cache: where every cell of the matrix is kept as soon as it is measured: after an interruption, the same call
            goes on where the last one stopped. Nothing is kept unless given.
        most: queries of a set in mode candidates, 40 unless given.

    Returns:
        `results`: dicts with set, truth, queries, items, mode, method, parameters, measure, mean, low, high, seconds,
        worse (than no re-ranking, by the mean), gain, gain_low, gain_high, p (over no re-ranking in the same mode,
        paired by query), date, `every_fourth` where every fourth item asks and the rest is the gallery; or with `error`
        where a method refused, and `unserved` where it is not made to be online. A set that cannot be read is one
        result of set and `error`, and the others go on.
        `notes`: set -> in what it is not the published one. `wall_seconds`: what all this took; `cells_measured` and
        `cells_kept`: how many cells of the matrix were measured now, and how many were in the cache.
    """
    started = time.perf_counter()
    names = wanted_methods(methods)
    wanted = wanted_sets(folder, sets)
    known_modes(modes)
    kept = Cache(None) if cache is None else cache
    before = kept.measured, kept.read
    jobs = [(mode, method) for mode in dict.fromkeys(modes) for method in names]
    report, total = Progress(progress), len(wanted) * len(jobs)
    results: list[dict[str, Any]] = []
    notes: dict[str, list[str]] = {}
    failed: list[Exception] = []
    with kept.place_for("joined") as joined:
        for number, name in enumerate(wanted):
            try:
                bench = loaded(name, folder, joined)
            except REFUSALS as error:
                failed.append(error)
                results.append({"set": name, "error": _unplaced(str(error), folder)})
                continue
            notes |= {name: [_unplaced(note, folder) for note in bench.notes]} if bench.notes else {}
            plain: Cell = {}
            for done, (mode, method) in enumerate(jobs, start=number * len(jobs)):
                report.stage(f"{name}, {mode}, {method}", done, total)
                one = cell(bench, method, mode, kept, most=most)
                plain = one if method == PLAIN else plain  # which comes first
                results += _rows(bench, plain, one)
    if len(failed) == len(wanted):
        raise failed[0]
    report.stage("accuracy", total, total)
    work = {"cells_measured": kept.measured - before[0], "cells_kept": kept.read - before[1]}
    about = {"confidence": CONFIDENCE, "most_queries": FEW if most is None else most, "notes": notes}
    seconds = time.perf_counter() - started
    return record("accuracy", {**about, **work, "wall_seconds": seconds, "results": results})


def wanted_methods(names: Sequence[str]) -> list[str]:
    """Each once, no re-ranking first; "all" without the ablation, which takes LPMT apart.

    Learned methods are among all of them: they are fitted on pseudo-labels first, where torch is installed.
    """
    every = [name for name in METHODS if name != ABLATION] if list(names) == ["all"] else chosen(names)
    return list(dict.fromkeys([PLAIN, *every]))


def wanted_sets(folder: str | os.PathLike[str], names: Sequence[str] | None) -> list[str]:
    """Those that are asked for, each known; or all that are there, under fixed names or by their features."""
    there = Path(folder).is_dir()
    others = {entry.name: entry for entry in found(folder)} if there else {}
    if names is not None:
        return _known(names, [*BENCHMARKS, *others])
    for sentence in missing(folder) if there else ():
        warnings.warn(sentence, stacklevel=2)
    fixed = published.present(folder)
    files = {BENCHMARKS[name].files[0] for name in fixed}
    more = [name for name, entry in others.items() if entry.distractors or entry.vectors.name not in files]
    return [*fixed, *more] or present(folder)


def fixed_sets(folder: str | os.PathLike[str], names: Sequence[str] | None) -> list[str]:
    """Those of BENCHMARKS that are asked for, or whose files are all there."""
    return present(folder) if names is None else _known(names, list(BENCHMARKS))


def _known(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Each once; a ValueError for one that is not known, and for none."""
    for name in names:
        if name not in known:
            raise ValueError(f"set {name!r} is not known; give some of: {', '.join(known)}")
    if not names:
        raise ValueError(f"no set is named; give some of: {', '.join(known)}")
    return list(dict.fromkeys(names))


def loaded(name: str, folder: str | os.PathLike[str], joined: Path) -> Benchmark:
    """A set by its name in BENCHMARKS, or by that of its features; galleries with distractors go to `joined`."""
    if name in BENCHMARKS:
        return load(name, folder)
    entry = next(entry for entry in found(folder) if entry.name == name)
    if entry.distractors:
        joined.mkdir(parents=True, exist_ok=True)
    return replace(entry.load(joined if entry.distractors else None), name=name)


def _unplaced(sentence: str, folder: str | os.PathLike[str]) -> str:
    """A sentence for a record, which names no folder of this machine."""
    return sentence.replace(f"{os.fspath(folder)}{os.sep}", "")


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
    if bench.queries is None and found["mode"] != "joint":
        about["every_fourth"] = True  # asks, and the rest is the gallery
    if "error" in found:
        asked = bench.gallery if bench.queries is None else bench.queries
        sizes = {"queries": plain.get("queries", len(asked)), "items": plain.get("items", len(bench.gallery))}
        return [{**about, **sizes, "truth": truth} for truth in bench.truths]
    rows = []
    for truth in bench.truths:
        scores = found["truths"][truth]
        for measure in sorted(scores, key=bench.measures.index):  # the first is what the papers of the set report
            score = scores[measure]
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
