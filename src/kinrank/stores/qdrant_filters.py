"""What users give, filters and ids -> what Qdrant takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kinrank.stores.filters import conditions


def filter_of(where: Any, models: Any) -> Any:
    """A mapping of payload names to values as a Filter of `models`, the module of the client; a Filter as it is."""
    if where is None or isinstance(where, models.Filter):
        return where
    if not isinstance(where, Mapping):
        raise ValueError(
            f'where is {where!r:.60}; give a mapping of payload names to values, such as {{"kind": "cat"}}, or a '
            "qdrant_client.models.Filter"
        )
    return models.Filter(must=[models.Filter(should=_ways(name, values, models)) for name, values in conditions(where)])


def _ways(name: str, values: list[Any], models: Any) -> list[Any]:
    """The conditions of which one must hold, so that the field has one of the values."""
    ways = [models.IsEmptyCondition(is_empty=models.PayloadField(key=name))] if None in values else []
    for kind in (str, int):
        some = [value for value in values if type(value) is kind]
        if some:
            ways.append(models.FieldCondition(key=name, match=models.MatchAny(any=some)))
    for value in values:
        if isinstance(value, bool):
            ways.append(models.FieldCondition(key=name, match=models.MatchValue(value=value)))
        elif isinstance(value, float):
            ways.append(models.FieldCondition(key=name, range=models.Range(gte=value, lte=value)))
    return ways


def point_id(key: Any) -> int | str | None:
    """An id as Qdrant has it, a number or the text of a UUID; None for what cannot be one."""
    if isinstance(key, str) and not key.isdecimal():
        try:
            return str(UUID(key))
        except ValueError:
            return None
    return int(key) if 0 <= int(key) < 1 << 64 else None
