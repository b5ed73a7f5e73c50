"""Ledger: which items of a source are in a Manifold, as they were then, and which encoder made their vectors.

A JSON file that stands beside the folder of a Manifold, as gallery.manifold.source.json. It is written after the
Manifold, so that what a crash leaves undone is done again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinrank.encoders import Recipe
from kinrank.encoders.base import PICTURES, TEXTS
from kinrank.encoders.opening import source_of
from kinrank.encoders.sources import Source
from kinrank.files.atomic import replacing
from kinrank.files.opening import fits, regular
from kinrank.files.paths import resolved

VERSION = 1


@dataclass
class Ledger:
    """What is known of a source that is followed.

    Attributes:
        source: its path.
        content: PICTURES or TEXTS.
        columns: the column with the texts and that with their ids, where these were named.
        recipe: the encoder.
        facts: of the encoder, see `Encoder`.
        items: name -> stamp, of those that are in the Manifold.
        skipped: name -> (stamp, why), of those that could not be encoded.
        pending: names of those that were being put into the Manifold when this was written: they are in it or not.
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
        """The source as it is now."""
        column, id_column = self.columns
        return source_of(self.source, self.content, [self.content], column=column, id_column=id_column)

    def knows(self, name: str, stamp: str) -> bool:
        """Whether the item was taken, or could not be encoded, as it is now."""
        skipped = self.skipped.get(name)
        return self.items.get(name) == stamp or (skipped is not None and skipped[0] == stamp)

    def stamps_of(self, names: Iterable[str]) -> dict[str, str]:
        """name -> stamp of those that were taken."""
        return {name: self.items[name] for name in names if name in self.items}

    @staticmethod
    def beside(manifold: str | Path) -> Path:
        """Where the ledger of a folder stands."""
        home = resolved(manifold)
        return home.with_name(f"{home.name}.source.json")

    def save(self, path: Path) -> None:
        told = {
            "version": VERSION, "source": self.source, "content": self.content, "columns": self.columns,
            "encoder": self.recipe.to_dict(), "facts": self.facts, "items": self.items, "skipped": self.skipped,
            "pending": self.pending,
        }  # fmt: skip
        with replacing(path) as file:
            file.write(json.dumps(told, ensure_ascii=False).encode("utf-8", "surrogatepass"))

    @classmethod
    def load(cls, path: Path) -> Ledger | None:
        """The ledger at a path; None where there is none, a ValueError where it cannot be one."""
        if not path.exists():
            return None
        fits(path, 8 * regular(path).stat().st_size)
        try:
            told = json.loads(path.read_bytes())
            if told["version"] != VERSION:
                raise ValueError(f"its version is {told['version']!r}, and this kinrank reads {VERSION}")
            ledger = cls(
                _text(told["source"]), _text(told["content"]), Recipe.from_dict(told["encoder"]), dict(told["facts"]),
                (told["columns"][0], told["columns"][1]),
                {_text(name): _text(stamp) for name, stamp in told["items"].items()},
                {_text(name): (_text(stamp), _text(why)) for name, (stamp, why) in told["skipped"].items()},
                [_text(name) for name in told["pending"]],
            )  # fmt: skip
            if ledger.content not in (PICTURES, TEXTS):
                raise ValueError(f"its content is {ledger.content!r:.40}")
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            said = " ".join(str(error).split())[:120]
            raise ValueError(
                f"{path} is damaged or no ledger of kinrank ({said}); delete it and the gallery beside it to begin anew"
            ) from None
        return ledger


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value
