"""A method, its parameters and how much it is given -> about how long that takes; a sentence if it takes too long."""

from __future__ import annotations

from kinrank.methods import Method


def check_cost(method: Method, queries: int, items: int, dimensions: int, allowed: float, passes: int = 1) -> None:
    """A ValueError if re-ranking would keep one core busy for longer than allowed, as far as can be estimated.

    Args:
        method: it re-ranks the candidates of each query in a graph of their own.
        queries: how many there are.
        items: candidates of each query.
        dimensions: numbers in a vector.
        allowed: seconds.
        passes: how often the candidates of a query are re-ranked for one answer.
    """
    small = method.over_candidates().limited(items)
    needed = passes * queries * small.seconds(items, dimensions)
    if needed <= allowed:
        return
    asking = f"{queries} queries" if queries > 1 else "one query"
    raise ValueError(
        f"{method.name} over {items} candidates for {asking} would take about {needed:.2g} seconds, and this service "
        f"computes at most {allowed:.2g} seconds per request; give {_remedies(method, queries)}"
    )


def _remedies(method: Method, queries: int) -> str:
    """What to ask for instead: less of everything, and the declared values of parameters that are no counts."""
    changed = [one for one in method.parameters() if getattr(method, one.name) != one.default]
    counts = [one.name for one in changed if one.kind is int and getattr(method, one.name) > one.default]
    others = [one.name for one in changed if one.kind is not int]
    found = ["fewer queries"] if queries > 1 else []
    found += ["fewer candidates"]
    found += [f"a smaller {' or '.join(counts)}"] if counts else []
    found += [f"the default {' or '.join(others)}"] if others else []
    return ", or ".join(found)
