"""Settings: the numbers that the stages of LPMT read, under the names of `kinrank.LPMT`, which says what they mean."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Settings:
    """LPMT's hyper-parameters without their meanings and ranges. None: measured from the data."""

    k1: int
    k2: int
    kappa: float
    theta: float
    rho: float | None
    gamma: float | None
    share: float | None
    k: int
    sigma: float
    mu: float
    lam: float
    path_k: int
    support: int
    cycles: int
    tolerance: float
    transport: str
    epsilon: float
    iterations: int
    direct: float | None
    direct_k: int
    direct_mu: float
    direct_support: int
