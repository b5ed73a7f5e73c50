"""Declarations of hyper-parameters, from which validation, command line flags and documentation follow.

Every hyper-parameter is declared once, in the dataclass of its method, with its meaning and range.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import os
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kinrank.errors import InputError

MAX_COUNT = 10**9  # more items than any gallery has; larger values mean all items


@dataclass(frozen=True)
class Parameter:
    """One declared hyper-parameter of a method."""

    name: str
    kind: type
    default: Any
    meaning: str
    low: float | None
    high: float | None
    choices: tuple[str, ...] | None
    above_low: bool
    optional: bool = False
    file: bool = False
    follows: str = ""

    @property
    def counts(self) -> bool:
        """True for a number of items, a whole number without upper limit: more than there are means all."""
        return self.kind is int and self.high is None

    @property
    def allowed(self) -> str:
        """The range as text for errors, help texts and docs."""
        if self.file:
            return "the path of a file"
        otherwise = f"follow `{self.follows}`" if self.follows else "measure it from the data"
        return f"{self._range}, or none to {otherwise}" if self.optional else self._range

    @property
    def _range(self) -> str:
        if self.choices is not None:
            return " | ".join(self.choices)
        if self.kind is bool:
            return "true | false"
        noun = "whole number" if self.kind is int else "number"
        low = None if self.low is None else f"{'> ' if self.above_low else '>= '}{self.low:g}"
        high = None if self.high is None else f"<= {self.high:g}"
        bounds = " and ".join(part for part in (low, high) if part)
        return f"a {noun} {bounds}".strip()

    def check(self, owner: str, value: Any) -> Any:
        """Convert the value to its plain Python type, or raise an InputError that says what is allowed."""
        if value is None and self.optional:
            return None
        if self.choices is not None:
            if isinstance(value, str) and value in self.choices:
                return value
        elif self.file:
            if isinstance(value, (str, os.PathLike)) and str(value):
                return str(value)
        elif self.kind is bool:
            if isinstance(value, (bool,)) or type(value).__name__ == "bool":
                return bool(value)
        elif isinstance(value, numbers.Real) and not isinstance(value, bool):
            number = self._number(value)
            if number is not None and self._inside(number):
                return min(number, MAX_COUNT) if self.counts else number
        raise InputError(parameter=self.name, given=value, allowed=f"{self.allowed} ({self.meaning})", context=owner)

    def _number(self, value: numbers.Real) -> float | None:
        """Convert the value to the declared int or float; None if it is not a number of that kind."""
        if self.kind is int and isinstance(value, numbers.Integral):
            return int(value)
        try:
            number = float(value)
        except OverflowError:  # a whole number or a fraction too large for a float
            return None
        if self.kind is int:
            return int(number) if number.is_integer() else None
        return number if math.isfinite(number) else None

    def _inside(self, number: float) -> bool:
        if self.low is not None and (number < self.low or (self.above_low and number == self.low)):
            return False
        return self.high is None or number <= self.high


def parameter(
    default: Any,
    meaning: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] | None = None,
    above_low: bool = False,
    file: bool = False,
) -> Any:
    """Declare a field of a method: default, meaning, inclusive range (`above_low`: strictly above low).

    A field of type `float | None` may be None, which means that it is measured from the data, or see `follow`. A field
    of type `str | None` with `file` is the path of a file, or None; the file is not read before it is needed.
    """
    metadata = {
        "meaning": meaning,
        "low": low,
        "high": high,
        "choices": None if choices is None else tuple(choices),
        "above_low": above_low,
        "file": file,
    }
    return dataclasses.field(default=default, metadata=metadata)


def follow(leader: str, declared: Any) -> Any:
    """Declare a field that another parameter, `leader`, sets while it is None."""
    return dataclasses.field(default=None, metadata={**declared.metadata, "follows": leader})


def _read_parameters(method: type) -> tuple[Parameter, ...]:
    """List the declared hyper-parameters of a method class in order of declaration."""
    hints = typing.get_type_hints(method)
    declared = []
    for field in dataclasses.fields(method):
        kinds = [kind for kind in typing.get_args(hints[field.name]) if kind is not type(None)]
        kind, optional = (kinds[0], True) if kinds else (hints[field.name], False)
        entry = Parameter(name=field.name, kind=kind, default=field.default, optional=optional, **field.metadata)
        declared.append(entry)
    return tuple(declared)


list_parameters: Callable[[type], tuple[Parameter, ...]] = functools.cache(_read_parameters)  # takes a millisecond


def check_whole_number(value: Any, name: str, low: int = 1) -> int:
    """Convert the value to an int from `low` to MAX_COUNT, or raise an InputError with its name."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= low:
        return min(int(value), MAX_COUNT)
    raise InputError(parameter=name, given=value, allowed=f"a whole number >= {low}")
