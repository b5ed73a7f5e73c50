"""Declarations of hyper-parameters -> validation, command line flag, documentation row.

Every hyper-parameter is declared once, in its method's dataclass, with its meaning and range. Everything that
has to know about it (checks, flags, docs) reads that declaration.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST = 10**9  # items that anybody has: to ask for more of them is to ask for all


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

    @property
    def counts(self) -> bool:
        """Whether it says how many items, a whole number without an upper end: more than there are means all."""
        return self.kind is int and self.high is None

    @property
    def allowed(self) -> str:
        """The range in words, as it stands in errors, help texts and docs."""
        if self.file:
            return "the path of a file"
        return f"{self._range}, or none to have it measured from the data" if self.optional else self._range

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
        """The value as its plain Python type, or a ValueError that says what is allowed."""
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
                return min(number, MOST) if self.counts else number
        raise ValueError(f"{owner}: {self.name}={value!r} is not allowed; give {self.allowed} ({self.meaning})")

    def _number(self, value: numbers.Real) -> float | None:
        """The value as a plain int or float, whichever is declared; None if it is not a number of that kind."""
        if self.kind is int and isinstance(value, numbers.Integral):
            return int(value)
        try:
            number = float(value)
        except OverflowError:  # a whole number or a fraction beyond every float
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

    A field of type `float | None` may be None, which means that it is measured from the data. One of type `str | None`
    with `file` is the path of a file, or None; the file is looked at when it is needed, and not before.
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


_declared: dict[type, tuple[Parameter, ...]] = {}  # reading type hints takes a millisecond


def parameters_of(method: type) -> tuple[Parameter, ...]:
    """The declared hyper-parameters of a method class, in order of declaration."""
    if method not in _declared:
        _declared[method] = _read(method)
    return _declared[method]


def _read(method: type) -> tuple[Parameter, ...]:
    hints = typing.get_type_hints(method)
    declared = []
    for field in dataclasses.fields(method):
        kinds = [kind for kind in typing.get_args(hints[field.name]) if kind is not type(None)]
        kind, optional = (kinds[0], True) if kinds else (hints[field.name], False)
        found = Parameter(name=field.name, kind=kind, default=field.default, optional=optional, **field.metadata)
        declared.append(found)
    return tuple(declared)


def whole_number(value: Any, name: str, low: int = 1) -> int:
    """The value as an int from `low` to MOST, or a ValueError with its name: how many items, candidates, neighbours."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= low:
        return min(int(value), MOST)
    raise ValueError(f"{name}={value!r} is not allowed; give a whole number >= {low}")
