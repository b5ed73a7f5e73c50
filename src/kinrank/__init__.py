"""kinrank re-ranks what a vector search found, along the manifold of the data.

Everything else is in modules: all methods in `kinrank.methods`, stores in `kinrank.stores`, exceptions in
`kinrank.errors`, and so on; see `dir(kinrank)`.

Example:
    >>> import kinrank as kr
    >>> ranking = kr.rerank(queries, gallery)  # LPMT, queries and gallery in one graph
"""

import importlib
from typing import TYPE_CHECKING, Any

from kinrank.lazy_import import lazy_submodules

if TYPE_CHECKING:
    from kinrank.client import Client
    from kinrank.diagnosis import tune
    from kinrank.diagnosis.diagnose import diagnose
    from kinrank.encoders import embed
    from kinrank.evaluation import Truth, compare, evaluate
    from kinrank.feature_combination import combine
    from kinrank.file_kinds import load
    from kinrank.joint_explanation import explain
    from kinrank.learned import fit
    from kinrank.manifold import Manifold
    from kinrank.manifold.near_duplicates import near_duplicates
    from kinrank.methods import CAS, DFS, LPMT, METHODS, AlphaQE, KReciprocal, Method
    from kinrank.rank_fusion import fuse
    from kinrank.ranking import Ranking
    from kinrank.reranking import rerank
    from kinrank.stores import Store
    from kinrank.stores.url import open_store
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
ORIGINS = {  # module -> its public names here, which are imported on first use: most programs need few of them
    "client": "Client",
    "diagnosis": "diagnose tune",
    "encoders": "embed",
    "evaluation": "Truth compare evaluate",
    "feature_combination": "combine",
    "file_kinds": "load",
    "joint_explanation": "explain",
    "learned": "fit",
    "manifold": "Manifold near_duplicates",
    "methods": "AlphaQE CAS DFS KReciprocal LPMT METHODS Method",
    "rank_fusion": "fuse",
    "ranking": "Ranking",
    "reranking": "rerank",
    "stores": "Store",
    "stores.url": "open_store",
    "whitening": "whiten",
}
MODULES = [  # that users import from; they are imported on first use, too
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
import_submodule = lazy_submodules("kinrank")


def __dir__() -> list[str]:
    return sorted([*__all__, *MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    for module, names in ORIGINS.items():
        if name in names.split():
            value = globals()[name] = getattr(importlib.import_module(f"kinrank.{module}"), name)
            return value
    return import_submodule(name)
