"""The declarations of all methods -> what the page makes its sliders and switches from."""

from __future__ import annotations

import inspect
from typing import Any

from kinrank.manifold import Manifold
from kinrank.methods import METHODS, Method
from kinrank.methods.learned import Learned
from kinrank.parameters import Parameter
from kinrank.web.asked.chains import has_chains
from kinrank.web.asked.sliders import slider_of


def declarations(manifold: Manifold) -> list[dict[str, Any]]:
    """Every method that this service can run, with its parameters, for JSON.

    A learned method is among them only where the gallery was prepared by it: its weights are a file, and strangers name
    no files. `served`: a gallery can be prepared by it. `chains`: it has chains to show. Of a parameter what its
    declaration says; `measured`, the number in force where the prepared gallery has measured it; and `slider`, None
    where a slider makes no sense. An `optional` parameter may be None, which is to have it measured from the data.
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
                if not one.file
            ],
        }
        for kind in METHODS.values()
        if kind is type(prepared) or not issubclass(kind, Learned)
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
        "slider": slider_of(one, [one.default, value, measured]),
    }
