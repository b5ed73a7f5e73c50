"""The ledger: items of a source in a Manifold, as they were when encoded, and the encoder of their vectors.

It is a JSON file next to the folder of the Manifold, such as gallery.manifold.source.json. It is written after the
Manifold, so that steps lost in a crash are repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinrank.encoders import Recipe
from kinrank.encoders.base import PICTURES, TEXTS
from kinrank.encoders.item_sources import ItemChoice, Source, open_source
from kinrank.errors import InputError
from kinrank.files.atomic import atomic_write, resolve_path
from kinrank.files.path_checks import check_fits_memory, check_regular_file

LEDGER_VERSION = 1


@dataclass
class Ledger:
    """Record of a synchronised source.

    Attributes:
        source: its path.
        content: PICTURES or TEXTS.
        columns: the columns with the texts and with their ids, if the user named them.
        recipe: the encoder.
        facts: facts of the encoder, see `Encoder`.
        items: name -> stamp of the items in the Manifold.
        skipped: name -> (stamp, reason) of the items that could not be encoded.
        pending: names of the items being put into the Manifold when this was written: they may or may not be in it.
    """

    source: str
    content: str
    recipe: Recipe
    facts: dict[str, Any]
    columns: tuple[str | None, str | None] = (None, None)
    items: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, tuple[str, str]] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)

    def opened(self) -> Source:
        """Open the source in its current state."""
        column, id_column = self.columns
        return open_source(self.source, ItemChoice(self.content, column=column, id_column=id_column), [self.content])

    def knows(self, name: str, stamp: str) -> bool:
        """True if the item was encoded, or could not be encoded, in its current state."""
        skipped = self.skipped.get(name)
        return self.items.get(name) == stamp or (skipped is not None and skipped[0] == stamp)

    def stamps_for(self, names: Iterable[str]) -> dict[str, str]:
        """Return name -> stamp of the names that are in the Manifold."""
        return {name: self.items[name] for name in names if name in self.items}

    @staticmethod
    def path_for(manifold: str | Path) -> Path:
        """Return the path of the ledger of a folder."""
        home = resolve_path(manifold)
        return home.with_name(f"{home.name}.source.json")

    def save(self, path: Path) -> None:
        """Write the ledger atomically."""
        content = {**vars(self), "version": LEDGER_VERSION, "encoder": self.recipe.to_dict()}
        del content["recipe"]
        with atomic_write(path) as file:
            file.write(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"))

    @classmethod
    def load(cls, path: Path) -> Ledger | None:
        """Read the ledger at a path; None if it does not exist. Raises an InputError if it is damaged."""
        if not path.exists():
            return None
        check_fits_memory(path, 8 * check_regular_file(path).stat().st_size)
        try:
            content = json.loads(path.read_bytes())
            if content["version"] != LEDGER_VERSION:
                raise InputError(f"its version is {content['version']!r}, but this kinrank reads {LEDGER_VERSION}")
            skipped = content["skipped"].items()
            ledger = cls(
                _check_text(content["source"]),
                _check_text(content["content"]),
                Recipe.from_dict(content["encoder"]),
                dict(content["facts"]),
                (content["columns"][0], content["columns"][1]),
                {_check_text(name): _check_text(stamp) for name, stamp in content["items"].items()},
                {_check_text(name): (_check_text(stamp), _check_text(reason)) for name, (stamp, reason) in skipped},
                [_check_text(name) for name in content["pending"]],
            )
            if ledger.content not in (PICTURES, TEXTS):
                raise InputError(f"its content is {ledger.content!r:.40}")
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            reason = " ".join(str(error).split())[:120]
            raise InputError(
                f"{path} is damaged or not a ledger of kinrank ({reason})",
                remedy="delete it and the gallery next to it to start again",
            ) from None
        return ledger


def _check_text(value: Any) -> str:
    """Return the value if it is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return value
