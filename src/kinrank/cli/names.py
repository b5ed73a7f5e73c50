"""A file of names, or standard input -> a list, one entry per item; and the ids that names mean."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinrank import given
from kinrank.cli.output import STANDARD
from kinrank.files import names
from kinrank.files.names import lines_in, names_in
from kinrank.files.opening import STANDARD_INPUT, piped

if TYPE_CHECKING:
    from kinrank.manifold import Manifold


def read_names(path: Path | None) -> list[str] | None:
    """The lines of a text file, or of standard input for `-`; None where there is no file. A blank line is refused."""
    if path == STANDARD:
        return names_in(lines_in(piped(sys.stdin.buffer), STANDARD_INPUT), STANDARD_INPUT)
    return None if path is None else names.read_names(path)


def ids_meant(manifold: Manifold, words: Iterable[str | int]) -> list[str | int]:
    """The ids that words of the command line, or of a file, mean: numbers where the ids of the manifold are numbers."""
    if manifold.ids.dtype.kind == "O":
        return [str(word) for word in words]
    # what is no number stays: the manifold says what its ids look like
    return [int(word) if given.NUMBER.fullmatch(str(word)) else word for word in words]


def places_meant(words: list[str], names: list[Any] | None) -> list[str | int] | set[int]:
    """The item numbers that lines of a --where file mean: places among the names, or numbers where there are none.

    Places come back as a set: as a list, those of the first two items could be mistaken for a mask of 0 and 1.
    """
    if names is None:
        return [int(word) if given.NUMBER.fullmatch(word) else word for word in words]
    places = {str(name): place for place, name in enumerate(names)}
    unknown = next((word for word in words if word not in places), None)
    if unknown is not None:
        raise ValueError(f"where names {unknown!r}, which is not among the names of the items")
    given.refuse_mask_of_numbers(words, len(names))
    return {places[word] for word in words}
