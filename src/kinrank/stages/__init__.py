"""Arithmetic of the methods as pure functions on neighbour lists and sparse matrices; imported on first use.

LPMT: gaussian_graph -> diffusion -> states -> step_costs -> distance_fusion;
`pipeline` runs them in this order. Each module contains its compiled kernels; those that several modules share are in
`kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinrank.lazy_import import lazy_submodules

if TYPE_CHECKING:
    from kinrank.stages import affinity as affinity
    from kinrank.stages import array_storage as array_storage
    from kinrank.stages import cas_diffusion as cas_diffusion
    from kinrank.stages import chain_search as chain_search
    from kinrank.stages import csr as csr
    from kinrank.stages import diffusion as diffusion
    from kinrank.stages import distance_fusion as distance_fusion
    from kinrank.stages import feedback_search as feedback_search
    from kinrank.stages import gaussian_graph as gaussian_graph
    from kinrank.stages import graph_traversal as graph_traversal
    from kinrank.stages import graph_update as graph_update
    from kinrank.stages import item_change as item_change
    from kinrank.stages import kernels as kernels
    from kinrank.stages import lpmt_settings as lpmt_settings
    from kinrank.stages import online_query as online_query
    from kinrank.stages import pipeline as pipeline
    from kinrank.stages import reciprocal_sets as reciprocal_sets
    from kinrank.stages import request as request
    from kinrank.stages import sparse_rows as sparse_rows
    from kinrank.stages import states as states
    from kinrank.stages import step_costs as step_costs
    from kinrank.stages import transport as transport
    from kinrank.stages import vector_expansion as vector_expansion

__getattr__ = lazy_submodules("kinrank.stages")
