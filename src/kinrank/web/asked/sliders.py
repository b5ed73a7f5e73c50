"""A declared parameter -> from where to where its slider goes, and how far the service goes with it."""

from __future__ import annotations

import math
from typing import Any

from kinrank.methods import Method
from kinrank.parameters import Parameter

TIMES = 4  # a slider goes so many times as far as the default, unless less is allowed
LEAST_COUNT, LEAST_NUMBER = 10, 1.0  # but at least to here
WIDE = 100  # a slider whose end is so many times its start moves by factors
POSITIONS = 100  # of a slider, about


def check_reach(kind: type[Method], values: dict[str, Any], prepared: Method) -> None:
    """A ValueError for a whole number beyond the end of its slider: what takes minutes is no work for a service."""
    for one in kind.parameters():
        value = values.get(one.name)
        if one.kind is not int or isinstance(value, bool) or not isinstance(value, int):
            continue
        slider = slider_of(one, [one.default, getattr(prepared, one.name, None)])
        if slider is not None and value > slider["max"]:
            raise ValueError(
                f"{kind.name}: {one.name}={value} is more than this service computes; give at most {slider['max']}, or "
                "use kinrank in Python"
            )


def slider_of(one: Parameter, values: list[Any]) -> dict[str, Any] | None:
    """From where to where a slider goes: it holds these values, and no more of a wide range than makes sense.

    With `log` equal ways are equal factors, and `step` is what values are rounded to.
    """
    if one.kind not in (int, float) or one.choices is not None:
        return None
    known = [float(value) for value in values if value is not None]
    low, high = 0.0 if one.low is None else float(one.low), math.inf if one.high is None else float(one.high)
    if known:
        high = min(high, math.ceil(max(TIMES * max(known), LEAST_COUNT if one.kind is int else LEAST_NUMBER)))
    if not low < high < math.inf:
        return None
    step = 1.0 if one.kind is int else _round((high - low) / POSITIONS)
    if low == 0 and known and 0 < min(known) < step:  # too small to be seen unless it moves by factors
        low = _round(min(known) / WIDE)
    log = low > 0 and high > WIDE * low
    if log:
        step = max(1.0, low) if one.kind is int else _round(low)
    elif one.above_low:
        low += step
    number = one.kind
    return {"min": number(low), "max": number(high), "step": number(step), "log": log}


def _round(number: float) -> float:
    """The next smaller of 1, 2, 5, 10, 20, 50, ... and 0.5, 0.2, 0.1, ..."""
    power = math.floor(math.log10(number) + 1e-9)
    first = max(one for one in (1, 2, 5) if one <= number / 10.0**power * (1 + 1e-9))
    return float(f"{first}e{power}")
