"""Records: measured numbers with the date, the code, the versions and the machine, and the tables that show them."""

from __future__ import annotations

import datetime
import platform
import subprocess
import time
from collections import ChainMap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import kinrank
from kinrank import stages
from kinrank.errors import InputError
from kinrank.evaluation import Comparison, Score
from kinrank.evaluation.trials import VARIANTS
from kinrank.methods import METHODS, find_method
from kinrank.methods.learned_method import LearnedMethod
from kinrank_bench.fingerprint import fingerprint_record
from kinrank_bench.tables import Column, Table, fill

Record = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """Declaration of the tables that show one list of rows of a record.

    Attributes:
        columns: the columns; a heading may be a template for `kinrank_bench.tables.fill`, filled from the record.
        title: template, filled from the record and the first row of the table.
        rows: key of the list of rows.
        by: keys of the rows; there is one table per combination of their values.
    """

    columns: Sequence[Column]
    title: str = ""
    rows: str = "results"
    by: Sequence[str] = ()

    def build(self, record: Record) -> list[Table]:
        """Build the tables of a record; none if it has no such rows."""
        columns = [replace(column, heading=fill(column.heading, record)) for column in self.columns]
        groups: dict[tuple[Any, ...], list[Record]] = {}
        for row in record.get(self.rows) or ():
            groups.setdefault(tuple(row.get(key) for key in self.by), []).append(row)
        return [Table.from_rows(fill(self.title, ChainMap(rows[0], record)), columns, rows) for rows in groups.values()]


def build_panels(record: Record, *panels: Panel) -> list[Table]:
    """Build the tables of several panels."""
    return [table for panel in panels for table in panel.build(record)]


def make_record(kind: str, results: dict[str, Any]) -> dict[str, Any]:
    """Add date, code, versions and machine to the results; nothing that identifies a host, a user or a folder.

    `fingerprints` has one of the measured code per method and mode (`kinrank_bench.fingerprint`).
    """
    system = {"system": platform.system(), "python": platform.python_version()}
    return {
        "bench": kind,
        "date": utc_now(),
        "version": kinrank.__version__,
        "commit": describe_commit(),
        "fingerprints": fingerprint_record(kind, results),
        "machine": {**describe_environment(), **system},
        **results,
    }


def utc_now() -> str:
    """Return the time in UTC, to the minute."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def describe_commit() -> str | None:
    """Return the commit of the source, with a plus sign if files of kinrank differ from it; None without a clone."""
    folder = Path(kinrank.__file__).resolve().parent
    try:
        commit, changed = (
            subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "--", "."])
        )
        tracked = subprocess.run(["git", "ls-files", "--error-unmatch", "__init__.py"], cwd=folder, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return None if tracked.returncode else commit + "+" * bool(changed)


def describe_environment() -> dict[str, Any]:
    """Return what numbers and times depend on besides data and code: threads, architecture, libraries."""
    import numba
    import numpy as np
    import scipy

    return {
        "threads": stages.kernels.compiler.thread_count(),
        "architecture": platform.machine(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "scipy": scipy.__version__,
    }


def resolve_method_names(names: Sequence[str]) -> list[str]:
    """Return known method names without repetitions; "all" stands for those of METHODS that need no weights."""
    if list(names) == ["all"]:
        return [name for name, kind in METHODS.items() if name not in VARIANTS and not issubclass(kind, LearnedMethod)]
    return list(dict.fromkeys(find_method(name).name for name in names))


def check_names(kind: str, names: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the names without repetitions; raise InputError for an unknown name or an empty list."""
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"{kind} {unknown[0]!r} is not known" if unknown else f"no {kind} is named"
        raise InputError(problem, remedy=f"give some of: {', '.join(known)}")
    return list(dict.fromkeys(names))


def gain_entries(comparison: Comparison) -> Record:
    """Return the entries of a row for two rankings of the same queries: means, gain and its 95 % interval."""
    return {
        "queries": comparison.queries,
        "before": comparison.mean_a,
        "after": comparison.mean_b,
        "gain": comparison.difference,
        "low": comparison.low,
        "high": comparison.high,
    }


def mean_interval(score: Score | Record) -> Record:
    """Return the entries of a row for a mean and its interval; a score can be an object or part of a cell."""
    parts = ("mean", "low", "high")
    return {part: score[part] if isinstance(score, dict) else getattr(score, part) for part in parts}


def error_entries(cell: Record) -> Record:
    """Return the entries of a row for a cell without scores: `error`, and `failed` if a bug is the reason."""
    return {key: cell[key] for key in ("error", "failed") if key in cell}


def time_call(work: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def time_queries(work: Callable[[Any], object], queries: Any) -> list[float]:
    """Return the seconds of a call with each query, as a (1, d) array."""
    return [time_call(partial(work, row)) for row in queries[:, None]]


def count_failures(record: Any) -> int:
    """Count the rows of a record that an unexpected exception ended; a cell counts once, whatever its truths."""
    failures = set()

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("failed") is True:
                failures.add(tuple(str(value.get(key)) for key in ("set", "mode", "method", "engine", "error")))
            for part in value.values():
                visit(part)
        elif isinstance(value, list):
            for part in value:
                visit(part)

    visit(record)
    return len(failures)
