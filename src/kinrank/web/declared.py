"""The declarations of all methods -> what the page makes its sliders and switches from."""

from __future__ import annotations

import inspect
import math
from typing import Any

from kinrank.manifold import Manifold
from kinrank.methods import METHODS, Method
from kinrank.parameters import Parameter
from kinrank.web.chains import has_chains

TIMES = 4  # a slider goes so many times as far as the default, unless less is allowed
LEAST_COUNT, LEAST_NUMBER = 10, 1.0  # but at least to here
WIDE = 100  # a slider whose end is so many times its start moves by factors
POSITIONS = 100  # of a slider, about


def declarations(manifold: Manifold) -> list[dict[str, Any]]:
    """Every method with its parameters, for JSON.

    `served`: a gallery can be prepared by it. `chains`: it has chains to show. Of a parameter what its declaration
    says; `measured`, the number in force where the prepared gallery has measured it; and `slider`, None where a slider
    makes no sense. An `optional` parameter may be None, which is to have it measured from the data.
    """
    prepared, facts = manifold.method, manifold.info()["facts"]
    return [
        {
            "name": kind.name,
            "paper": kind.paper,
            "summary": _summary(kind),
            "served": _is_served(kind),
            "chains": has_chains(kind()),
            "parameters": [
                _declared(one, getattr(prepared, one.name), facts) if kind is type(prepared) else _declared(one)
                for one in kind.parameters()
            ],
        }
        for kind in METHODS.values()
    ]


def _summary(kind: type[Method]) -> str:
    """The first sentence of its documentation."""
    paragraph = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    return paragraph.split(". ")[0].removesuffix(".") + "."


def _is_served(kind: type[Method]) -> bool:
    try:
        kind().check_served()
    except ValueError:
        return False
    return True


def _declared(one: Parameter, value: Any = None, facts: dict[str, float] | None = None) -> dict[str, Any]:
    """One parameter; `value` is that of the prepared method, `facts` what it measured."""
    measured = (facts or {}).get(one.name) if one.optional and value is None else None
    return {
        "name": one.name,
        "kind": "choice" if one.choices is not None else one.kind.__name__,
        "default": one.default,
        "low": one.low,
        "high": one.high,
        "above_low": one.above_low,
        "choices": None if one.choices is None else list(one.choices),
        "optional": one.optional,
        "meaning": one.meaning,
        "measured": measured,
        "slider": _slider(one, [one.default, value, measured]),
    }


def _slider(one: Parameter, values: list[Any]) -> dict[str, Any] | None:
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
