"""All methods by their command line name. A new method is one file and one line here."""

from __future__ import annotations

from kinrank.methods.base import Method
from kinrank.methods.baseline import NoReranking
from kinrank.methods.bidirectional_diffusion import BCD, BSD
from kinrank.methods.cas import CAS
from kinrank.methods.conaff import ConAff
from kinrank.methods.csa import CSA
from kinrank.methods.dfs import DFS
from kinrank.methods.dqe import DQE, AugmentedDQE
from kinrank.methods.ecn import ECN
from kinrank.methods.egt import EGT
from kinrank.methods.eir import EIR
from kinrank.methods.fsr import FSR
from kinrank.methods.gnn import GNN
from kinrank.methods.gss import GSS
from kinrank.methods.k_reciprocal import KReciprocal
from kinrank.methods.knn import KNN
from kinrank.methods.lattqe import AugmentedLAttQE, LAttQE
from kinrank.methods.lpmt import LPMT
from kinrank.methods.query_expansion import AQE, AlphaQE, AQEwD, AugmentedAlphaQE, AugmentedAQE, AugmentedAQEwD
from kinrank.methods.rdp import RDP
from kinrank.methods.registry import MethodRegistry
from kinrank.methods.sca import SCA
from kinrank.methods.ssr import SSR
from kinrank.methods.stml import STML
from kinrank.methods.super_global import SuperGlobal

METHODS = MethodRegistry(
    (method.name, method)
    for method in (
        NoReranking,
        AQE,
        AQEwD,
        AlphaQE,
        DQE,
        AugmentedAQE,
        AugmentedAQEwD,
        AugmentedAlphaQE,
        AugmentedDQE,
        LAttQE,
        AugmentedLAttQE,
        SuperGlobal,
        CSA,
        SSR,
        KNN,
        KReciprocal,
        SCA,
        ECN,
        GNN,
        ConAff,
        STML,
        CAS,
        GSS,
        DFS,
        FSR,
        RDP,
        EIR,
        EGT,
        BSD,
        BCD,
        LPMT,
    )
)

find_method, resolve_method = METHODS.find, METHODS.resolve
TEXT_METHOD = LPMT(answers="one")  # default for texts: a question usually has one right passage

__all__ = [
    "AQE",
    "BCD",
    "BSD",
    "CAS",
    "CSA",
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
    "TEXT_METHOD",
    "AQEwD",
    "AlphaQE",
    "AugmentedAQE",
    "AugmentedAQEwD",
    "AugmentedAlphaQE",
    "AugmentedDQE",
    "AugmentedLAttQE",
    "ConAff",
    "KReciprocal",
    "LAttQE",
    "Method",
    "NoReranking",
    "SuperGlobal",
    "find_method",
    "resolve_method",
]
