"""The compiled loops of the stages, imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinrank.deferred import modules_of

if TYPE_CHECKING:
    from kinrank.stages.kernels import (
        attach as attach,
        cas as cas,
        chains as chains,
        changes as changes,
        compiled as compiled,
        context as context,
        costs as costs,
        diffusion as diffusion,
        divergence as divergence,
        fastmath as fastmath,
        fusion as fusion,
        graph as graph,
        heap as heap,
        margin as margin,
        products as products,
        search as search,
        states as states,
        transport as transport,
        traverse as traverse,
        truncated as truncated,
        within as within,
    )

__getattr__ = modules_of(
    "kinrank.stages.kernels",
    "attach",
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
    "heap",
    "margin",
    "products",
    "search",
    "states",
    "transport",
    "traverse",
    "truncated",
    "within",
)
