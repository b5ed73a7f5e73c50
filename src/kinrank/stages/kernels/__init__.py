"""The compiled loops of the stages, imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinrank.deferred import modules_of

if TYPE_CHECKING:
    from kinrank.stages.kernels import arrays as arrays
    from kinrank.stages.kernels import attach as attach
    from kinrank.stages.kernels import cache as cache
    from kinrank.stages.kernels import cas as cas
    from kinrank.stages.kernels import chains as chains
    from kinrank.stages.kernels import changes as changes
    from kinrank.stages.kernels import compiled as compiled
    from kinrank.stages.kernels import context as context
    from kinrank.stages.kernels import costs as costs
    from kinrank.stages.kernels import diffusion as diffusion
    from kinrank.stages.kernels import divergence as divergence
    from kinrank.stages.kernels import fastmath as fastmath
    from kinrank.stages.kernels import fusion as fusion
    from kinrank.stages.kernels import graph as graph
    from kinrank.stages.kernels import ground as ground
    from kinrank.stages.kernels import heap as heap
    from kinrank.stages.kernels import largest as largest
    from kinrank.stages.kernels import margin as margin
    from kinrank.stages.kernels import mutual as mutual
    from kinrank.stages.kernels import order as order
    from kinrank.stages.kernels import parts as parts
    from kinrank.stages.kernels import products as products
    from kinrank.stages.kernels import rows as rows
    from kinrank.stages.kernels import search as search
    from kinrank.stages.kernels import sources as sources
    from kinrank.stages.kernels import states as states
    from kinrank.stages.kernels import transport as transport
    from kinrank.stages.kernels import traverse as traverse
    from kinrank.stages.kernels import truncated as truncated
    from kinrank.stages.kernels import wide as wide
    from kinrank.stages.kernels import within as within

__getattr__ = modules_of(
    "kinrank.stages.kernels",
    "arrays",
    "attach",
    "cache",
    "cas",
    "chains",
    "changes",
    "compiled",
    "context",
    "costs",
    "diffusion",
    "divergence",
    "fastmath",
    "fusion",
    "graph",
    "ground",
    "heap",
    "largest",
    "margin",
    "mutual",
    "order",
    "parts",
    "products",
    "rows",
    "search",
    "sources",
    "states",
    "transport",
    "traverse",
    "truncated",
    "wide",
    "within",
)
