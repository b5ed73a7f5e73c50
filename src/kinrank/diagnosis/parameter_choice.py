"""Choice of the parameters of a method without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kinrank.diagnosis.gain_model import FEW_KIN_DROP
from kinrank.diagnosis.neighborhood_facts import Facts
from kinrank.errors import InputError
from kinrank.evaluation.fold_choice import list_neighborhood_sizes
from kinrank.evaluation.trials import label_methods
from kinrank.methods import LPMT, Method
from kinrank.stages.lpmt_settings import choose_answers

FEW_RIGHT_ANSWERS = 3  # up to so many right answers per query, neighbourhoods are halved
NOT_HALVED = ("dqe",)  # trains on its nearest items: half as many examples made it worse on every such set


def choose_parameters(method: Method, facts: Facts, right: float | None = None) -> Method:
    """Return LPMT with `answers` set, and other methods with neighbourhoods of half the size if items have few kin.

    Items have few kin, similar items, if `right` is at most FEW_RIGHT_ANSWERS or, without `right`, if the drop of
    distances is above FEW_KIN_DROP. `answers` follows from `right`; without it, it is "few" if items have few kin.
    Parameters that differ from their defaults were chosen by the caller and stay.
    """
    if isinstance(method, LPMT):
        return replace(method, answers=_choose_answers(method, facts, right))
    if method.name in NOT_HALVED or not has_few_kin(facts, right):
        return method
    changed = {
        declared.name: max(1, (declared.default + 1) // 2)
        for declared in list_neighborhood_sizes(method)
        if (declared.default or 0) > 1 and getattr(method, declared.name) == declared.default
    }
    return replace(method, **changed)


def _choose_answers(method: LPMT, facts: Facts, right: float | None) -> str:
    if method.answers != LPMT().answers:
        return method.answers
    if right is None:
        return "few" if has_few_kin(facts) else method.answers
    return choose_answers(right)


def has_few_kin(facts: Facts, right: float | None = None) -> bool:
    """Return True if items have about three similar ones or fewer."""
    return facts.drop > FEW_KIN_DROP if right is None else right <= FEW_RIGHT_ANSWERS


def resolve_methods(methods: Sequence[Method | str] | str) -> list[Method]:
    """Convert names of methods to Methods. "all" stands for every method that re-ranks, with its defaults."""
    if not len(methods):
        raise InputError("is empty", parameter="methods", remedy="give at least one, such as lpmt")
    return list(label_methods(methods).values())
