"""LPMT as the paper prints it: its equations and settings to the letter, without anything that kinrank added."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from kinrank.methods.capabilities import Capabilities
from kinrank_bench.paper.lpmt_ablation import LPMTAblation


def _with_default(name: str, default: Any) -> Any:
    """Declare a parameter of LPMTAblation again, with another default."""
    return dataclasses.field(default=default, metadata=LPMTAblation.__dataclass_fields__[name].metadata)


@dataclass(frozen=True, kw_only=True)
class LPMTAsPublished(LPMTAblation):
    """LPMT with the equations and settings that the paper prints, as a baseline for LPMT with kinrank's defaults.

    It differs from `lpmt` in what kinrank added or changed: no wide states, no powers of distances and costs, the
    unscaled sum of both distances, regions and steps by Euclidean distance within the k1 nearest, states with all their
    entries, a Gaussian without a local scale, and k2 7, kappa 2 and theta 0.5. The paper plots mu and sigma but does
    not print them: mu is 0.23 and sigma 0.3, as in CAS, an earlier method of the authors. It mentions that a power of
    the distance does better, without a number; `rho` and `gamma` set one. The diffusion is solved until it converges,
    where the paper stops after three iterations per cycle.

    Equation, over queries and gallery together:

        F    = (1 - a)(I - a sum_v beta_v S_v)^-1,  a = 1/(1 + mu)     S_v: Gaussian graph on 7, 10, 14 neighbours
        p^_i = F_i on the reciprocal region R(i, k1), summing to one
        p_i  = sum over j in N(i, k2) of (1 + kappa [j in R(i, k2)]) p^_j, summing to one
        d'   = min over chains i_0 .. i_K of sum_k W1(p_{i_k}, p_{i_k+1}; d)
        d*   = theta d + (1 - theta) d'

    Cost: ten to thirty times that of LPMT, because chains may step to 60 items and states are not cut.

    Helps to compare with the published method. Hurts where LPMT helps: without a power of the cost, a direct step is
    never longer than a chain.

    Example:
        >>> from kinrank_bench.paper.literal_lpmt import LPMTAsPublished
        >>> ranking = kinrank.rerank(queries, gallery, LPMTAsPublished())
    """

    name: ClassVar[str] = "lpmt-as-published"
    capabilities: ClassVar[Capabilities] = Capabilities(explain=True)  # joint graphs only

    k2: int | None = _with_default("k2", 7)
    kappa: float = _with_default("kappa", 2.0)
    theta: float | None = _with_default("theta", 0.5)
    rho: float | None = _with_default("rho", 1.0)
    gamma: float | None = _with_default("gamma", 1.0)
    sigma: float = _with_default("sigma", 0.3)
    path_k: int = _with_default("path_k", 59)
    support: int = _with_default("support", 0)
    cycles: int = _with_default("cycles", 3)
    iterations: int = _with_default("iterations", 10)
    neighbors: str = _with_default("neighbors", "euclidean")
    scale: str = _with_default("scale", "raw")
    fusion: str = _with_default("fusion", "plain")
