"""Every method, by its name on the command line. Adding one = one file and one line here."""

from __future__ import annotations

from difflib import get_close_matches

from kinrank.methods.alpha_qe import AlphaQE, AugmentedAlphaQE
from kinrank.methods.aqe import AQE, AugmentedAQE
from kinrank.methods.aqewd import AQEwD, AugmentedAQEwD
from kinrank.methods.base import Method
from kinrank.methods.bcd import BCD
from kinrank.methods.bsd import BSD
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
from kinrank.methods.lpmt_ablation import LPMTAblation
from kinrank.methods.none import NoReranking
from kinrank.methods.rdp import RDP
from kinrank.methods.sca import SCA
from kinrank.methods.ssr import SSR
from kinrank.methods.stml import STML
from kinrank.methods.super_global import SuperGlobal

METHODS: dict[str, type[Method]] = {
    method.name: method
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
        LPMTAblation,
    )
}


def method_named(name: str) -> type[Method]:
    """The class of a method by its name, or by that of its class; dashes, underscores and capitals do not matter.

    Example:
        >>> method_named("K_reciprocal")
        <class 'kinrank.methods.k_reciprocal.KReciprocal'>
    """
    known = {_letters(word): kind for kind in METHODS.values() for word in (kind.__name__, kind.name)}
    asked = _letters(name)
    if asked in known:
        return known[asked]
    near = get_close_matches(asked, known, 1)
    hint = f" (did you mean {known[near[0]].name}?)" if near else ""
    raise ValueError(f"method {name!r} is not known{hint}; give one of: {', '.join(METHODS)}")


def _letters(name: str) -> str:
    """What matters of a name."""
    return name.strip().replace("_", "").replace("-", "").lower()


def resolve(method: Method | str | None) -> Method:
    """A Method from itself, from its name, or the default, LPMT()."""
    if method is None:
        return LPMT()
    if isinstance(method, Method):
        return method
    if isinstance(method, str):
        return method_named(method)()
    raise ValueError(f"method={method!r} is not known; give a Method or one of: {', '.join(METHODS)}")


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
    "LPMTAblation",
    "Method",
    "NoReranking",
    "SuperGlobal",
    "method_named",
    "resolve",
]
