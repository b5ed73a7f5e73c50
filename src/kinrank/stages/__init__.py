"""Neighbour lists and sparse matrices through pure functions, each stage imported when it is first used.

graph -> diffusion -> states -> direct -> costs -> chains -> fusion; `pipeline` has them in a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinrank.deferred import modules_of

if TYPE_CHECKING:
    from kinrank.stages import adam as adam
    from kinrank.stages import affinity as affinity
    from kinrank.stages import attach as attach
    from kinrank.stages import cas as cas
    from kinrank.stages import chains as chains
    from kinrank.stages import changed_lists as changed_lists
    from kinrank.stages import changes as changes
    from kinrank.stages import checks as checks
    from kinrank.stages import context as context
    from kinrank.stages import costs as costs
    from kinrank.stages import csa as csa
    from kinrank.stages import csr as csr
    from kinrank.stages import dense as dense
    from kinrank.stages import diffusion as diffusion
    from kinrank.stages import direct as direct
    from kinrank.stages import expansion as expansion
    from kinrank.stages import fallback as fallback
    from kinrank.stages import feedback as feedback
    from kinrank.stages import fusion as fusion
    from kinrank.stages import graph as graph
    from kinrank.stages import gss as gss
    from kinrank.stages import kernels as kernels
    from kinrank.stages import lattqe as lattqe
    from kinrank.stages import layers as layers
    from kinrank.stages import linear as linear
    from kinrank.stages import marks as marks
    from kinrank.stages import masks as masks
    from kinrank.stages import mutual as mutual
    from kinrank.stages import networks as networks
    from kinrank.stages import pipeline as pipeline
    from kinrank.stages import run as run
    from kinrank.stages import saved as saved
    from kinrank.stages import separation as separation
    from kinrank.stages import settings as settings
    from kinrank.stages import spectrum as spectrum
    from kinrank.stages import ssr as ssr
    from kinrank.stages import ssr_published as ssr_published
    from kinrank.stages import states as states
    from kinrank.stages import transport as transport
    from kinrank.stages import traversal as traversal
    from kinrank.stages import truncation as truncation
    from kinrank.stages import trust as trust
    from kinrank.stages import turnover as turnover

__getattr__ = modules_of(
    "kinrank.stages",
    "adam",
    "affinity",
    "attach",
    "cas",
    "chains",
    "changed_lists",
    "changes",
    "checks",
    "context",
    "costs",
    "csa",
    "csr",
    "dense",
    "diffusion",
    "direct",
    "expansion",
    "fallback",
    "feedback",
    "fusion",
    "graph",
    "gss",
    "kernels",
    "lattqe",
    "layers",
    "linear",
    "marks",
    "masks",
    "mutual",
    "networks",
    "pipeline",
    "run",
    "saved",
    "separation",
    "settings",
    "spectrum",
    "ssr",
    "ssr_published",
    "states",
    "transport",
    "traversal",
    "truncation",
    "trust",
    "turnover",
)
