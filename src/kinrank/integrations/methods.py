"""A method as users and saved pipelines give it -> a Method, and back to plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinrank.methods import METHODS, Method, method_named, resolve

HowTo = Method | str | Mapping[str, Any]  # itself, its name, or a dict of its name and parameters


def method_of(method: Any) -> Method:
    """A Method from itself, from its name, or from what `method_in_words` made of it."""
    if not isinstance(method, Mapping):
        return resolve(method)
    if not isinstance(method.get("name"), str):
        raise ValueError(f"method={dict(method)!r:.200} has no name; give a dict such as {{'name': 'lpmt', 'k1': 20}}")
    kind = method_named(method["name"])
    chosen = {name: value for name, value in method.items() if name != "name"}
    known = [declared.name for declared in kind.parameters()]
    for name in chosen:
        if name not in known:
            raise ValueError(f"method {kind.name!r} has no parameter {name!r}; give some of: {', '.join(known)}")
    return kind(**chosen)


def method_in_words(method: HowTo) -> str | dict[str, Any]:
    """What a file can hold: the name of a method, with the parameters that differ from their defaults if some do."""
    made = method_of(method)
    if METHODS.get(made.name) is not type(made):
        raise ValueError(
            f"method={made!r:.200} can be used but not saved: it is not one of kinrank.METHODS, by whose names saved "
            "methods are loaded"
        )
    values = {declared.name: getattr(made, declared.name) for declared in made.parameters()}
    chosen = {entry.name: values[entry.name] for entry in made.parameters() if values[entry.name] != entry.default}
    return {"name": made.name, **chosen} if chosen else made.name
