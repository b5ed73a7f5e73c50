"""Griffe extension that converts our docstrings to the style of the API reference.

`Example:` becomes an Examples section, whose lines are code. A line `queries, gallery: as in rerank` about
several parameters becomes one line for each.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

SHARED = re.compile(
    r"^(?P<indent> +)(?P<names>\w+(?:, \w+)+): (?P<text>.*(?:\n(?P=indent) +\S.*)*)", flags=re.MULTILINE
)


class GoogleStyle(Extension):
    """griffe calls this for every function and class."""

    def on_function(self, *, func: Any, **_: Any) -> None:
        _rewrite(func, {parameter.name.lstrip("*") for parameter in func.parameters})

    def on_class(self, *, cls: Any, **_: Any) -> None:
        _rewrite(cls, set(cls.members))

    def on_module(self, *, mod: Any, **_: Any) -> None:
        _rewrite(mod, set())


def _rewrite(thing: Any, known: set[str]) -> None:
    if thing.docstring:
        thing.docstring.value = to_google_style(thing.docstring.value, known)


def to_google_style(text: str, known: set[str]) -> str:
    """The docstring in Google's style; only names that exist are split."""

    def split_names(found: re.Match[str]) -> str:
        names = found["names"].split(", ")
        if not known.issuperset(names):
            return found[0]
        return "\n".join(f"{found['indent']}{name}: {found['text']}" for name in names)

    return re.sub(r"^Example:$", "Examples:", SHARED.sub(split_names, text), flags=re.MULTILINE)
