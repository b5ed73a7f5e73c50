"""`kinrank bench`: the command of the package kinrank-bench, or a message that tells how to install it."""

from __future__ import annotations

from typing import Any

import typer

from kinrank.errors import MissingExtraError

ENTRY_POINT_GROUP = "kinrank.commands"


def bench() -> None:
    """Measure accuracy, speed, memory and scale on this machine."""
    raise MissingExtraError(
        "kinrank bench needs the package kinrank-bench; install it in a clone of kinrank with: pip install ./bench"
    )


def load_command(name: str) -> Any:
    """Return the command that another package declares as an entry point of this name; None if there is none."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return typer.main.get_command(entry.load())
    return None
