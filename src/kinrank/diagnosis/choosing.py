"""Facts and a method -> its parameters, chosen without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kinrank.diagnosis.expected import FEW
from kinrank.diagnosis.facts import Facts
from kinrank.evaluation.trials import labelled
from kinrank.methods import LPMT, Method
from kinrank.parameters import Parameter, parameters_of

LPMT_SIZES = ("k2",)  # LPMT measures what depends on the rest itself
FEW_RIGHT = 3  # right answers up to which kin are few
NOT_HALVED = ("dqe",)  # trains on its nearest: half as many examples made it worse on every set with few kin


def chosen(method: Method, facts: Facts, right: float | None = None) -> Method:
    """The method with neighbourhoods of half the size where items have few kin, and as it is elsewhere.

    Few: `right` is FEW_RIGHT or less, or, where it is not given, the drop of the distances is above FEW. A parameter
    that differs from its default was somebody's choice and stays. LPMT measures rho, gamma and shares itself.
    """
    if method.name in NOT_HALVED or not few_kin(facts, right):
        return method
    changed = {
        declared.name: max(1, (declared.default + 1) // 2)
        for declared in sizes_of(method)
        if (declared.default or 0) > 1
        and getattr(method, declared.name) == declared.default
        and (not isinstance(method, LPMT) or declared.name in LPMT_SIZES)
    }
    return replace(method, **changed)


def few_kin(facts: Facts, right: float | None = None) -> bool:
    """Whether items have about three kin or less."""
    return facts.drop > FEW if right is None else right <= FEW_RIGHT


def named(methods: Sequence[Method | str] | str) -> list[Method]:
    """Methods or their names as Methods; "all" for every one that re-ranks, at its defaults."""
    if not len(methods):
        raise ValueError("no method is named; give one at least, such as lpmt")
    return list(labelled(methods).values())


def sizes_of(method: Method) -> list[Parameter]:
    """The parameters of a method that say how many neighbours it looks at."""
    return [declared for declared in parameters_of(type(method)) if declared.counts and declared.name.startswith("k")]
