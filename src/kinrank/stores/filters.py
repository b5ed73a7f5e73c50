"""A filter that every engine with columns or fields understands: a mapping of names to values -> its conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

PAIR = 'a pair of a condition with placeholders and its values, such as ("price < {}", [10])'


class Condition(NamedTuple):
    """The column holds one of these values; None among them means that it holds nothing."""

    column: str
    values: list[Any]


def conditions(where: Mapping[str, Any]) -> list[Condition]:
    """The conditions of a mapping, all of which must hold: a value, or a list of which one must be there."""
    if not where:
        raise ValueError("where is empty; give at least one name with its value, or leave it out")
    found = []
    for column, value in where.items():
        if not isinstance(column, str):
            raise ValueError(f"where names the column {column!r}, a {type(column).__name__}; give its name as text")
        several = isinstance(value, (list, tuple, set, frozenset, np.ndarray))
        values = [_plain(one) for one in (value if several else [value])]
        strange = [one for one in values if not (one is None or isinstance(one, (str, int, float, bool)))]
        if strange or not values:
            said = f"{strange[0]!r}, a {type(strange[0]).__name__}" if strange else "no value"
            raise ValueError(f"where[{column!r}] holds {said}; give texts, numbers, true, false or None")
        found.append(Condition(column, values))
    return found


def sql_where(where: Any, placeholder: str, quoted: Callable[[str], str]) -> tuple[str, list[Any]]:
    """A filter as the text behind WHERE, without values, and the values to be bound; "" for no filter.

    Args:
        where: a mapping, or a pair of a condition with placeholders and a list of values.
        placeholder: how the engine writes one, "?" or "%s".
        quoted: how it writes the name of a column.
    """
    if where is None:
        return "", []
    if isinstance(where, Mapping):
        texts, bound = [], []
        for column, values in conditions(where):
            name, given = quoted(column), [value for value in values if value is not None]
            ways = [f"{name} IN ({', '.join([placeholder] * len(given))})"] if given else []
            ways += [f"{name} IS NULL"] if len(given) < len(values) else []
            texts.append(f"({' OR '.join(ways)})")
            bound += given
        return " AND ".join(texts), bound
    text, values = pair(where, placeholder)
    return f"({text}\n)", values  # a comment in the text ends before the bracket


def pair(where: Any, placeholder: str) -> tuple[str, list[Any]]:
    """A condition and its values as users give them; text alone is refused, because nobody can see what is in it."""
    if isinstance(where, (tuple, list)) and len(where) == 2 and isinstance(where[0], str):
        text, values = where
        if isinstance(values, (list, tuple)) and text.strip():
            return text, [_plain(value) for value in values]
    said = f"the text {where!r:.60}" if isinstance(where, str) else f"{where!r:.60}"
    raise ValueError(
        f'where is {said}; give a mapping of columns to values, such as {{"kind": "cat"}}, or '
        f"{PAIR.format(placeholder)}, so that values are bound and never read as SQL"
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
