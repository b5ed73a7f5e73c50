"""`--store URL` and `--filter name=value`: a vector database, opened for one command, and which of its items count."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.mistakes import AsSaid

if TYPE_CHECKING:
    from kinrank.stores import Store

URLS = "postgresql:, qdrant:, lancedb:, chroma:, duckdb:, sqlite:, faiss:, usearch: or hnswlib:"

StoreUrl = Annotated[
    str | None, typer.Option("--store", help=f"A vector database instead of a file: a URL with {URLS}")
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="Only items whose field has this value are results, as kind=cat; of a --store. Once more for each field, "
        "or for another value of the same.",
    ),
]


@contextmanager
def opened(url: str | None) -> Iterator[Store | None]:
    """The store at a URL, closed at the end whatever happens; None for None."""
    if url is None:
        yield None
        return
    try:
        store = kinrank.open_store(url)
    except ValueError as error:
        raise AsSaid(str(error)) from error
    try:
        yield store
    finally:
        if hasattr(store, "close"):
            store.close()


def filter_of(words: Sequence[str] | None) -> dict[str, Any] | None:
    """name=value, as often as given -> a mapping: numbers, true, false and null as JSON has them, the rest as text.

    Example:
        >>> filter_of(["kind=cat", "year=2020", "year=2021"])
        {'kind': 'cat', 'year': [2020, 2021]}
    """
    if not words:
        return None
    found: dict[str, list[Any]] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign or not name:
            raise ValueError(f"--filter {word!r} is not allowed; give name=value, such as colour=red")
        found.setdefault(name, []).append(_value(text))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, (list, dict)) else value
