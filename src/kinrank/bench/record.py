"""Measured numbers -> a record that says when, with what, and on how many cores they were measured."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from typing import Any

import kinrank
from kinrank import stages
from kinrank.methods import METHODS, method_named
from kinrank.methods.learned import Learned


def record(kind: str, results: dict[str, Any]) -> dict[str, Any]:
    """The results with date, versions and machine; nothing that names a host, a user or a folder."""
    system = {"system": platform.system(), "python": platform.python_version()}
    return {
        "bench": kind,
        "date": now(),
        "version": kinrank.__version__,
        "machine": {**surroundings(), **system},
        **results,
    }


def now() -> str:
    """The time at Greenwich, to the minute."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def surroundings() -> dict[str, Any]:
    """What numbers and times depend on beside data and code: threads, architecture, and the libraries below."""
    import numba
    import numpy as np
    import scipy

    return {
        "threads": stages.kernels.compiled.threads(),
        "architecture": platform.machine(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "scipy": scipy.__version__,
    }


def chosen(names: Sequence[str]) -> list[str]:
    """Names of methods, each known; "all" stands for every one that runs as it is, without weights."""
    if list(names) == ["all"]:
        return [name for name, kind in METHODS.items() if not issubclass(kind, Learned)]
    return list(dict.fromkeys(method_named(name).name for name in names))
