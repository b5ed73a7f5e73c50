"""The paper's ablations and curves as methods of kinrank, and the order of variants that the paper claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinrank.methods import LPMT, Method, NoReranking
from kinrank_bench.paper.lpmt_ablation import LPMTAblation

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> (title, parameters given to every variant)
    "defaults": ("kinrank's defaults", {}),
    "paper": ("the paper's k1 60, k2 7, kappa 2, theta 0.5", {"k1": 60, "k2": 7, "kappa": 2.0, "theta": 0.5}),
}
UNPRINTED = (
    "The paper prints k1 60, k2 7, kappa 2 and theta 0.5; mu, sigma and the power of a step are plotted or mentioned "
    "without a number, and stay at kinrank's defaults with both settings."
)
SIMILARITIES = {"Cosine": "cosine", "Gaussian": "gaussian", "BSD": "bsd", "BCD": "bcd"}
REGIONS = {"k-nn": "knn", "reciprocal": "reciprocal"}
DISTANCES = {
    "Cosine": "cosine",
    "Euclidean": "euclidean",
    "Jaccard": "jaccard",
    "Total variation": "total_variation",
    "TMT": "transport",
}
BASELINE = "Baseline"
PAPER_LPMT = "lpmt-ablation"  # name in the tables of LPMT with the paper's settings, without the direct comparison
WITHOUT_POWER = "TMT without a power"

LSE: dict[str, dict[str, Any]] = {
    f"{one} + {other}": {"similarity": SIMILARITIES[one], "region": REGIONS[other]}
    for other in REGIONS
    for one in SIMILARITIES
}
TMT: dict[str, dict[str, Any]] = {name: {"distance": distance} for name, distance in DISTANCES.items()}
EXTRA: dict[str, dict[str, Any]] = {
    WITHOUT_POWER: {"rho": 1.0, "gamma": 1.0}
}  # Eq. 20 as printed; the paper says a power does better
TABLES: dict[str, dict[str, dict[str, Any]]] = {"lse": LSE, "tmt": {**TMT, **EXTRA}}

PAIRS = {  # (weaker, stronger) as claimed in the paper
    "lse": [
        *[
            pair
            for region in REGIONS
            for pair in (
                (BASELINE, f"Cosine + {region}"),
                (f"Cosine + {region}", f"Gaussian + {region}"),
                (f"Gaussian + {region}", f"BSD + {region}"),
                (f"BSD + {region}", f"BCD + {region}"),
            )
        ],
        *[(f"{name} + k-nn", f"{name} + reciprocal") for name in SIMILARITIES],
    ],
    "tmt": list(zip([BASELINE, *DISTANCES], DISTANCES, strict=False)),
    "power": [("Total variation", WITHOUT_POWER), (WITHOUT_POWER, "TMT")],
}


@dataclass(frozen=True)
class Grids:
    """Values of the curves."""

    neighbors: tuple[int, ...] = (5, 7, 10, 14, 20, 28)  # k of BCD and BSD
    parameters: dict[str, tuple[float, ...]] = field(
        default_factory=lambda: {
            "k1": (10, 20, 40, 60, 80, 120),
            "k2": (1, 3, 5, 7, 9, 12),
            "kappa": (0, 1, 2, 3, 5, 10),
            "theta": (0, 0.2, 0.4, 0.5, 0.6, 0.8, 1),
            "mu": (0.05, 0.1, 0.23, 0.5, 1),
            "sigma": (0.2, 0.3, 0.5, 0.8, 1.5),
        }
    )
    candidates: tuple[int, ...] = (250, 500, 1000, 2000, 5000)
    timed: int = 5  # queries
    items: int = 1000  # of the dense matrices that show how BCD converges
    cycles: int = 6


PANELS = {"k1": "a", "k2": "b", "kappa": "c", "theta": "d", "mu": "e", "sigma": "f"}  # of Figure 5


def table_method(name: str) -> Method | str:
    """Return the method behind a name in the tables: kinrank's defaults, except LPMT with the paper's settings."""
    return LPMTAblation(**SETTINGS["paper"][1]) if name == PAPER_LPMT else name


def ablation_method(table: str, name: str, settings: str) -> Method:
    """Return the method of one row of Table 5 (lse) or Table 6 (tmt), or the baseline of both."""
    if name == BASELINE:
        return NoReranking()
    return LPMTAblation(**{**SETTINGS[settings][1], **TABLES[table][name]})


def lpmt_with_k(similarity: str, k: int) -> Method:
    """Return LPMT with states from BCD or BSD with this k (Fig. 4a)."""
    return LPMTAblation(similarity=similarity, k=k)


def lpmt_with_parameter(parameter: str, value: float) -> Method:
    """Return LPMT at its defaults except for one parameter (Fig. 5)."""
    given: dict[str, Any] = {parameter: int(value) if isinstance(LPMT().value_in_use(parameter), int) else float(value)}
    return LPMT(**given)


def default_value(parameter: str) -> float:
    return float(LPMT().value_in_use(parameter))
