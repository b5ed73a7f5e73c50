"""Methods as clients may use them: a schema for sliders and switches, and limits on the work of a request."""

from __future__ import annotations

import inspect
import math
from typing import Any

from kinrank.errors import InputError
from kinrank.manifold import Manifold
from kinrank.methods import METHODS, Method
from kinrank.methods.base import for_candidates, limit_counts
from kinrank.methods.learned_method import LearnedMethod
from kinrank.parameters import Parameter

SLIDER_FACTOR = 4  # a slider ends at this multiple of the default, unless less is allowed
MIN_COUNT_END, MIN_NUMBER_END = 10, 1.0  # smallest end of a slider of whole numbers, and of other numbers
LOG_SCALE_RATIO = 100  # a slider whose end is this multiple of its start has a logarithmic scale
SLIDER_POSITIONS = 100  # about


def check_cost(method: Method, queries: int, items: int, dimensions: int, allowed: float, passes: int = 1) -> None:
    """Raise an InputError if the re-ranking would take one core longer than allowed, as far as can be estimated.

    Args:
        method: method that re-ranks the candidates of each query in a graph of their own.
        queries: number of queries.
        items: candidates per query.
        dimensions: numbers in a vector.
        allowed: seconds.
        passes: how often the candidates of a query are re-ranked for one response.
    """
    small = limit_counts(for_candidates(method), items)
    seconds = passes * queries * small.seconds(items, dimensions)
    if seconds <= allowed:
        return
    subject = f"{queries} queries" if queries > 1 else "one query"
    raise InputError(
        f"{method.name} over {items} candidates for {subject} would take about {seconds:.2g} seconds, and this service "
        f"computes at most {allowed:.2g} seconds per request",
        remedy=f"give {_suggest_remedies(method, queries)}",
    )


def _suggest_remedies(method: Method, queries: int) -> str:
    """List what to reduce: queries, candidates, increased counts, and other parameters that are not the defaults."""
    changed = [one for one in method.parameters() if getattr(method, one.name) != one.default]
    usual = type(method)()
    counts = [
        one.name for one in changed if one.kind is int and method.value_in_use(one.name) > usual.value_in_use(one.name)
    ]
    other = [one.name for one in changed if one.kind is not int]
    remedies = ["fewer queries"] if queries > 1 else []
    remedies += ["fewer candidates"]
    remedies += [f"a smaller {' or '.join(counts)}"] if counts else []
    remedies += [f"the default {' or '.join(other)}"] if other else []
    return ", or ".join(remedies)


def check_slider_limit(kind: type[Method], values: dict[str, Any], prepared: Method) -> None:
    """Raise an InputError for a whole number beyond the end of its slider, because it could take minutes."""
    for parameter in kind.parameters():
        value = values.get(parameter.name)
        if parameter.kind is not int or isinstance(value, bool) or not isinstance(value, int):
            continue
        slider = make_slider(parameter, [kind().value_in_use(parameter.name), getattr(prepared, parameter.name, None)])
        if slider is not None and value > slider["max"]:
            raise InputError(
                "is more than this service computes",
                parameter=parameter.name,
                given=value,
                allowed=f"at most {slider['max']}, or use kinrank in Python",
                context=kind.name,
            )


def make_slider(parameter: Parameter, values: list[Any]) -> dict[str, Any] | None:
    """Return the range of a slider that contains these values, limited to a useful part of a wide range.

    With `log` the scale is logarithmic, and values are rounded to multiples of `step`. None if a slider is not useful.
    """
    if parameter.kind not in (int, float) or parameter.choices is not None:
        return None
    known = [float(value) for value in values if value is not None]
    low = 0.0 if parameter.low is None else float(parameter.low)
    high = math.inf if parameter.high is None else float(parameter.high)
    if known:
        smallest_end = MIN_COUNT_END if parameter.kind is int else MIN_NUMBER_END
        high = min(high, math.ceil(max(SLIDER_FACTOR * max(known), smallest_end)))
    if not low < high < math.inf:
        return None
    step = 1.0 if parameter.kind is int else _round_down((high - low) / SLIDER_POSITIONS)
    if low == 0 and known and 0 < min(known) < step:  # visible only on a logarithmic scale
        low = _round_down(min(known) / LOG_SCALE_RATIO)
    log = low > 0 and high > LOG_SCALE_RATIO * low
    if log:
        step = max(1.0, low) if parameter.kind is int else _round_down(low)
    elif parameter.above_low:
        low += step
    number = parameter.kind
    return {"min": number(low), "max": number(high), "step": number(step), "log": log}


def _round_down(number: float) -> float:
    """Round down to one of 1, 2, 5, 10, 20, 50, ... or 0.5, 0.2, 0.1, ..."""
    power = math.floor(math.log10(number) + 1e-9)
    first = max(digit for digit in (1, 2, 5) if digit <= number / 10.0**power * (1 + 1e-9))
    return float(f"{first}e{power}")


def describe_methods(manifold: Manifold) -> list[dict[str, Any]]:
    """Return all methods that this service can run, with their parameters, as JSON.

    A learned method is included only if the gallery was prepared with it, because its weights are a file and clients
    may not name files. A parameter has the fields of its declaration; `measured`, the value in use if
    it is None; and `slider`, None if a slider is not useful. None for an `optional` parameter means to measure it, or
    that the parameter in `follows` sets it.
    """
    prepared, facts = manifold.method, manifold.info()["facts"]
    return [
        {
            "name": kind.name,
            "paper": kind.paper,
            "summary": _get_summary(kind),
            "parameters": [
                _describe_parameter(one, prepared, facts)
                if kind is type(prepared)
                else _describe_parameter(one, kind())
                for one in kind.parameters()
                if not one.file
            ],
        }
        for kind in METHODS.values()
        if kind is type(prepared) or not issubclass(kind, LearnedMethod)
    ]


def _get_summary(kind: type[Method]) -> str:
    """Return the first sentence of a method's docstring."""
    paragraph = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    return paragraph.split(". ")[0].removesuffix(".") + "."


def _describe_parameter(parameter: Parameter, method: Method, facts: dict[str, float] | None = None) -> dict[str, Any]:
    """Return one parameter; `method` is the prepared one or has its defaults, `facts` are its measured values."""
    value, usual = getattr(method, parameter.name), type(method)().value_in_use(parameter.name)
    measured = None
    if value is None:
        measured = method.value_in_use(parameter.name) if parameter.follows else (facts or {}).get(parameter.name)
    return {
        "name": parameter.name,
        "kind": "choice" if parameter.choices is not None else parameter.kind.__name__,
        "default": parameter.default,
        "low": parameter.low,
        "high": parameter.high,
        "above_low": parameter.above_low,
        "choices": None if parameter.choices is None else list(parameter.choices),
        "optional": parameter.optional,
        "follows": parameter.follows,
        "meaning": parameter.meaning,
        "measured": measured,
        "slider": make_slider(parameter, [usual, value, measured]),
    }
