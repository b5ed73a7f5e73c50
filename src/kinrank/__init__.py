"""kinrank re-ranks what a vector search found, along the manifold of the data.

Everything else is in modules: all methods in `kinrank.methods`, stores in `kinrank.stores`, exceptions in
`kinrank.errors`, and so on; see `dir(kinrank)`.

Example:
    >>> import kinrank as kr
    >>> ranking = kr.rerank(queries, gallery)  # LPMT, queries and gallery in one graph
"""

import importlib
from typing import Any

from kinrank.client import Client
from kinrank.diagnosis import diagnose, tune
from kinrank.encoders import embed
from kinrank.evaluation import Truth, compare, evaluate
from kinrank.feature_combination import combine
from kinrank.file_kinds import load
from kinrank.joint_explanation import explain
from kinrank.learned import fit
from kinrank.manifold import Manifold, near_duplicates
from kinrank.methods import CAS, DFS, LPMT, METHODS, AlphaQE, KReciprocal, Method
from kinrank.rank_fusion import fuse
from kinrank.ranking import Ranking
from kinrank.rerank import rerank
from kinrank.stores import Store
from kinrank.stores.base import open_store
from kinrank.whitening import whiten

__version__ = "0.2.0"

__all__ = [
    "CAS",
    "DFS",
    "LPMT",
    "METHODS",
    "AlphaQE",
    "Client",
    "KReciprocal",
    "Manifold",
    "Method",
    "Ranking",
    "Store",
    "Truth",
    "combine",
    "compare",
    "diagnose",
    "embed",
    "evaluate",
    "explain",
    "fit",
    "fuse",
    "load",
    "near_duplicates",
    "open_store",
    "rerank",
    "tune",
    "whiten",
]
MODULES = [  # that users import from; those that are not loaded yet are imported on first use
    "augmentation",
    "datasets",
    "diagnosis",
    "distributed",
    "encoders",
    "errors",
    "evaluation",
    "integrations",
    "learned",
    "methods",
    "stores",
    "testing",
    "thermodynamics",
    "whitening",
]


def __dir__() -> list[str]:
    return sorted([*__all__, *MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'kinrank' has no attribute {name!r}")
    return importlib.import_module(f"kinrank.{name}")
