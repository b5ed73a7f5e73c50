"""Neighbour lists and sparse matrices through pure functions, each stage imported when it is first used.

graph -> diffusion -> states -> transport -> paths -> fusion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinrank.deferred import modules_of

if TYPE_CHECKING:
    from kinrank.stages import (
        affinity as affinity,
        attach as attach,
        cas as cas,
        chains as chains,
        changed_lists as changed_lists,
        changes as changes,
        context as context,
        costs as costs,
        csr as csr,
        dense as dense,
        diffusion as diffusion,
        expansion as expansion,
        fallback as fallback,
        fusion as fusion,
        graph as graph,
        kernels as kernels,
        linear as linear,
        pipeline as pipeline,
        run as run,
        saved as saved,
        settings as settings,
        spectrum as spectrum,
        states as states,
        transport as transport,
        traversal as traversal,
        truncation as truncation,
        turnover as turnover,
    )

__getattr__ = modules_of(
    "kinrank.stages",
    "affinity",
    "attach",
    "cas",
    "chains",
    "changed_lists",
    "changes",
    "context",
    "costs",
    "csr",
    "dense",
    "diffusion",
    "expansion",
    "fallback",
    "fusion",
    "graph",
    "kernels",
    "linear",
    "pipeline",
    "run",
    "saved",
    "settings",
    "spectrum",
    "states",
    "transport",
    "traversal",
    "truncation",
    "turnover",
)
