"""kinrank re-ranks what a vector search found, along the manifold of the data.

Example:
    >>> import kinrank as kr
    >>> ranking = kr.rerank(queries, gallery)  # LPMT, queries and gallery in one graph
"""

from kinrank.augment import DBA, augment
from kinrank.client import Client
from kinrank.combine import Combined, combine
from kinrank.diagnosis import Diagnosis, Tuned, diagnose, tune
from kinrank.encoders import Embedded, embed
from kinrank.evaluation import Truth, compare, compare_methods, evaluate
from kinrank.explain import Explanation, explain
from kinrank.files import load_ranking, save_ranking
from kinrank.fuse import fuse
from kinrank.learned import fit, import_weights
from kinrank.manifold import Manifold, groups
from kinrank.memory import NotEnoughMemory
from kinrank.methods import (
    AQE,
    BCD,
    BSD,
    CAS,
    CSA,
    DFS,
    DQE,
    ECN,
    EGT,
    EIR,
    FSR,
    GNN,
    GSS,
    KNN,
    LPMT,
    METHODS,
    RDP,
    SCA,
    SSR,
    STML,
    AlphaQE,
    AQEwD,
    AugmentedAlphaQE,
    AugmentedAQE,
    AugmentedAQEwD,
    AugmentedDQE,
    AugmentedLAttQE,
    ConAff,
    KReciprocal,
    LAttQE,
    LPMTAblation,
    Method,
    NoReranking,
    SuperGlobal,
)
from kinrank.ranking import Ranking
from kinrank.rerank import rerank
from kinrank.stores import ArrayStore, Store
from kinrank.stores.opening import open_store
from kinrank.whitening import Whitening, whiten

__version__ = "0.2.0"

__all__ = [
    "AQE",
    "BCD",
    "BSD",
    "CAS",
    "CSA",
    "DBA",
    "DFS",
    "DQE",
    "ECN",
    "EGT",
    "EIR",
    "FSR",
    "GNN",
    "GSS",
    "KNN",
    "LPMT",
    "METHODS",
    "RDP",
    "SCA",
    "SSR",
    "STML",
    "AQEwD",
    "AlphaQE",
    "ArrayStore",
    "AugmentedAQE",
    "AugmentedAQEwD",
    "AugmentedAlphaQE",
    "AugmentedDQE",
    "AugmentedLAttQE",
    "Client",
    "Combined",
    "ConAff",
    "Diagnosis",
    "Embedded",
    "Explanation",
    "KReciprocal",
    "LAttQE",
    "LPMTAblation",
    "Manifold",
    "Method",
    "NoReranking",
    "NotEnoughMemory",
    "Ranking",
    "Store",
    "SuperGlobal",
    "Truth",
    "Tuned",
    "Whitening",
    "augment",
    "combine",
    "compare",
    "compare_methods",
    "diagnose",
    "embed",
    "evaluate",
    "explain",
    "fit",
    "fuse",
    "groups",
    "import_weights",
    "load_ranking",
    "open_store",
    "rerank",
    "save_ranking",
    "tune",
    "whiten",
]
