"""`kinrank methods`: the names in METHODS -> a table; one name -> everything its declarations say."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinrank.cli.output import Json, print_json, table
from kinrank.methods import METHODS, method_named

if TYPE_CHECKING:
    from kinrank.methods import Method


def methods(
    name: Annotated[str | None, typer.Argument(help="One method, for its parameters.")] = None,
    json: Json = False,
) -> None:
    """List all methods, or the parameters, defaults, ranges and paper of one.

    \b
    kinrank methods
    kinrank methods lpmt
    """
    if name is None:
        if json:
            print_json([about(kind) for kind in METHODS.values()])
        else:
            print(table([("method", "paper"), *((key, kind.paper) for key, kind in METHODS.items())]))
            print("\nParameters of one: kinrank methods NAME")
        return
    facts = about(method_named(name))
    if json:
        print_json(facts)
        return
    print(f"{facts['name']}: {facts['paper']}\n\n{facts['description']}\n")
    rows = [("parameter", "default", "allowed", "meaning")]
    rows += [
        (f"--{entry['flag']}", str(entry["default"]), entry["allowed"], entry["meaning"])
        for entry in facts["parameters"]
    ]
    print(table(rows) if facts["parameters"] else "It has no parameters.")


def about(kind: type[Method]) -> dict[str, Any]:
    """What a method's declarations say, as plain values."""
    declared = [
        {
            "name": entry.name,
            "flag": entry.name.replace("_", "-"),
            "kind": entry.kind.__name__,
            "default": entry.default,
            "allowed": entry.allowed,
            "low": entry.low,
            "high": entry.high,
            "choices": entry.choices,
            "meaning": entry.meaning,
        }
        for entry in kind.parameters()
    ]
    description = inspect.getdoc(kind) or ""
    return {
        "name": kind.name,
        "class": kind.__name__,
        "paper": kind.paper,
        "description": description,
        "parameters": declared,
    }
