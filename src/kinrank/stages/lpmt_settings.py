"""Hyper-parameters of `kinrank.LPMT`, declared where its stages can read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kinrank.parameters import follow, parameter


class AnswerValues(NamedTuple):
    """Values of parameters that follow `answers`, the number of right answers of a query."""

    k2: int
    theta: float
    direct_k: int
    direct_support: int


BY_ANSWERS = {
    "one": AnswerValues(k2=2, theta=0.97, direct_k=180, direct_support=140),
    "few": AnswerValues(k2=3, theta=0.7, direct_k=180, direct_support=140),
    "some": AnswerValues(k2=5, theta=0.4, direct_k=180, direct_support=140),
    "many": AnswerValues(k2=5, theta=0.3, direct_k=320, direct_support=256),
}
MOST_RIGHT = {"one": 1, "few": 4, "some": 100}  # right answers per query, at most; from there on "many"


def choose_answers(right: float) -> str:
    """Return the value of `answers` for this number of right answers per query.

    Example:
        >>> choose_answers(2)
        'few'
    """
    return next((name for name, most in MOST_RIGHT.items() if round(right) <= most), "many")


@dataclass(frozen=True, kw_only=True)
class LpmtSettings:
    """Hyper-parameters of LPMT. None: measured from the data, or set by `answers`."""

    answers: str = parameter(
        "some",
        "how many right answers a query usually has: `one` keeps close to the order of the search; `few` are 2 to 4, "
        "`some` up to 100, `many` more",
        choices=tuple(BY_ANSWERS),
    )
    k1: int = parameter(60, "largest number of items in the local region of an item, the item itself included", low=1)
    k2: int | None = follow(
        "answers",
        parameter(
            None, "number of nearest items that are averaged into the state of an item, the item itself included", low=1
        ),
    )
    kappa: float = parameter(
        3.0,
        "extra weight, in that average, of neighbours that list each other among their k2 nearest",
        low=0,
        high=1000,
    )
    theta: float | None = follow(
        "answers",
        parameter(
            None, "share of the original distance in the result; the rest is the cost of the chain", low=0, high=1
        ),
    )
    rho: float | None = parameter(
        None,
        "power of the distance that mass is moved between items; large powers penalise long moves",
        low=0,
        above_low=True,
        high=16,
    )
    gamma: float | None = parameter(
        None, "power of the cost of one step; above 1, many small steps are cheaper than a large one", low=0.1, high=16
    )
    share: float | None = parameter(
        None, "share of the k2 averaged neighbours chosen by diffused similarity instead of distance", low=0, high=1
    )
    k: int = parameter(
        10, "neighbours of an item in the middle one of three graphs; the others have k / sqrt 2 and k sqrt 2", low=1
    )
    sigma: float = parameter(
        0.5, "width of the Gaussian edge weights, in units of the distance of the k-th neighbour", low=0.01, high=10_000
    )
    mu: float = parameter(
        0.23, "strength of the tie to the starting item; smaller spreads similarity further", low=0.01, high=1000
    )
    lam: float = parameter(
        0.2, "lambda / n: evenness of the weights of the three graphs; 0 keeps only the smoothest one", low=0, high=1000
    )
    path_k: int = parameter(10, "number of nearest items, by diffused similarity, to which a chain may step", low=1)
    support: int = parameter(40, "number of largest entries of a state to keep; 0 keeps all", low=0)
    cycles: int = parameter(
        1, "rounds of adapting the diffusion and the weights of the graphs to each other", low=0, high=50
    )
    tolerance: float = parameter(
        2.5e-3,
        "largest residual left unspread when a diffusion row is computed; smaller is more exact and slower",
        low=1e-9,
        high=1,
    )
    transport: str = parameter(
        "sinkhorn",
        "computation of step costs: a few rounds of `sinkhorn`, or `exact`, many times slower",
        choices=("sinkhorn", "exact"),
    )
    epsilon: float = parameter(
        0.05,
        "Sinkhorn's regularisation as a share of the mean cost; smaller is nearer to exact transport",
        low=0.02,
        high=1000,
    )
    iterations: int = parameter(2, "rounds of Sinkhorn per step; more are nearer to exact transport", low=1, high=1000)
    direct: float | None = parameter(
        None,
        "largest share of a direct comparison of wide states, which the paper does not have; a query gets less if its "
        "wide state overlaps little with those of its nearest items; 0: chains only",
        low=0,
        high=1,
    )
    direct_k: int | None = follow(
        "answers",
        parameter(
            None,
            "number of items, by a wider diffusion, whose states are averaged into a wide state; all among up to 1,024",
            low=1,
        ),
    )
    direct_mu: float = parameter(
        0.02,
        "strength of the tie of that wider diffusion to its start; smaller reaches further; 1.5 times for up to 1,024",
        low=0.01,
        high=1000,
    )
    direct_support: int | None = follow(
        "answers", parameter(None, "number of largest entries of a wide state to keep", low=1)
    )

    @property
    def answer_values(self) -> AnswerValues:
        """The values in use: those that are given, otherwise those of `answers`."""
        raise NotImplementedError
