"""`kinrank info` and `kinrank verify`: a prepared gallery -> what it is, and whether it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import kinrank
from kinrank.cli.output import Json, print_json, table
from kinrank.manifold.verify import verify as check
from kinrank.memory import in_words

Folder = Annotated[Path, typer.Argument(help="What `kinrank build` wrote.")]


def info(folder: Folder, json: Json = False) -> None:
    """Say what a prepared gallery holds: items, method and parameters, size.

    \b
    kinrank info gallery.manifold
    """
    manifold = kinrank.Manifold.load(folder)
    facts = manifold.info()
    if json:
        print_json({"folder": str(folder), **facts})
        return
    del facts["parameters"]  # the method says which of them differ from their defaults
    facts["method"] = repr(manifold.method)
    rows = [("folder", str(folder)), *((name, text) for name, text in _words(facts).items() if text)]
    print(table(rows))


def verify(folder: Folder, json: Json = False) -> None:
    """Compare every file of a prepared gallery with its checksum, and check what it holds; exit code 1 if any is bad.

    \b
    kinrank verify gallery.manifold
    """
    found = check(folder)
    if json:
        bad = [{"file": file, "problem": problem} for file, problem in found.bad.items()]
        print_json({"folder": str(folder), "whole": found.whole, "files": len(found.checked), "bad": bad})
    elif found.whole:
        print(f"{folder}: whole, {len(found.checked)} files")
    else:
        print("\n".join(" ".join(problem.split()) for problem in found.bad.values()))
    if not found.whole:
        raise typer.Exit(1)


def _words(facts: dict[str, Any]) -> dict[str, str]:
    """The facts as a person reads them."""
    lines = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            text = ", ".join(f"{key}={_short(entry)}" for key, entry in value.items())
        elif name.startswith("bytes"):
            text = in_words(value)
        else:
            text = "" if value is None else _short(value)
        lines[name.replace("_", " ")] = text
    return lines


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
