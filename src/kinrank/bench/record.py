"""Measured numbers -> a record that says when, with what, and on how many cores they were measured."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from typing import Any

import kinrank
from kinrank import stages
from kinrank.methods import METHODS, method_named


def record(kind: str, results: dict[str, Any]) -> dict[str, Any]:
    """The results with date, versions and machine; nothing that names a host, a user or a folder."""
    import numba
    import numpy as np

    return {
        "bench": kind,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "version": kinrank.__version__,
        "machine": {
            "threads": stages.kernels.compiled.threads(),
            "architecture": platform.machine(),
            "system": platform.system(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
        },
        **results,
    }


def chosen(names: Sequence[str]) -> list[str]:
    """Names of methods, each known; "all" stands for every one."""
    if list(names) == ["all"]:
        return list(METHODS)
    return list(dict.fromkeys(method_named(name).name for name in names))
