"""Checks of the declaration of a method: frozen, comparable, printable, with validated parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

from kinrank.methods.base import Method
from kinrank.parameters import Parameter
from kinrank.testing.assertions import require, require_refusal


def is_a_frozen_value(method: Method, rtol: float) -> None:
    """A method equals its copy, is hashable and immutable, and has a name and a paper."""
    kind = type(method)
    require(method.name, f"{kind.__name__}: name is empty, give it one for METHODS and the command line")
    require(method.paper, f"{kind.__name__}: paper is empty, cite the source of the method")
    copy = dataclasses.replace(method)
    require(copy == method and hash(copy) == hash(method), f"{kind.__name__}: a copy should be equal and hash equally")
    for declared in kind.parameters():
        try:
            setattr(method, declared.name, getattr(method, declared.name))
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError(f"{kind.__name__}: {declared.name} can be assigned; use @dataclass(frozen=True)")


def prints_as_code(method: Method, rtol: float) -> None:
    """`eval(repr(method)) == method`, also with other than default parameters."""
    for value in (method, *(dataclasses.replace(method, **{p.name: other}) for p, other in _other_values(method))):
        copy = eval(repr(value), {type(value).__name__: type(value)})
        require(copy == value, f"{value!r} evaluates to {copy!r}, which is not equal to it")


def parameters_are_guarded(method: Method, rtol: float) -> None:
    """Every parameter has a meaning and a range, and other values are refused with its name."""
    kind = type(method)
    for declared in kind.parameters():
        where = f"{kind.__name__}.{declared.name}"
        require(len(declared.meaning) > 3, f"{where} has no meaning; declare it with parameter(default, meaning, ...)")
        require(declared.kind in (int, float, bool, str), f"{where} is {declared.kind}; use int, float, bool or str")
        if declared.kind is str:
            require(declared.choices or declared.file, f"{where} has no choices and is not a file")
        if declared.kind in (int, float):
            require(declared.low is not None, f"{where} has no low; declare the start of its range")
        for value in _values_outside(declared):
            words = declared.name, kind.__name__
            require_refusal(f"{where}={value!r}", ValueError, words, kind, **{declared.name: value})


def _values_outside(declared: Parameter) -> list[Any]:
    nothing = [] if declared.optional else [None]
    if declared.file:
        return ["", 1, *nothing]
    if declared.kind is str:
        return ["no such choice", 1, *nothing]
    if declared.kind is bool:
        return ["yes", *nothing]
    values: list[Any] = [float("nan"), float("inf"), "many", True, *nothing]
    if declared.low is not None:
        values += [declared.low - 1, *([declared.low] if declared.above_low else [])]
    if declared.high is not None:
        values.append(declared.high + 1)
    return [*values, 1.5] if declared.kind is int else values


def _other_values(method: Method) -> list[tuple[Parameter, Any]]:
    """Return another allowed value for every parameter."""
    values = []
    for declared in type(method).parameters():
        current = getattr(method, declared.name)
        if declared.choices is not None:
            options: list[Any] = list(declared.choices)
        elif declared.file:
            options = ["another.npz", "one more.npz"]
        elif declared.kind is bool:
            options = [True, False]
        else:
            near = declared.low or 0 if current is None else current
            options = [near + 1, near / 3, near - 1, declared.high]
        for value in options:
            try:
                declared.check("", value)
            except (ValueError, TypeError):
                continue
            if value != current:
                values.append((declared, value))
                break
    return values
