"""A filter as users give it -> in Chroma's own form, which has one name at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinrank.stores.filters import conditions


def filter_of(where: Any) -> dict[str, Any] | None:
    """A mapping of metadata names to values, or to conditions as Chroma has them; all of them must hold.

    Example:
        >>> filter_of({"kind": "cat", "year": {"$gt": 2000}})
        {'$and': [{'kind': {'$in': ['cat']}}, {'year': {'$gt': 2000}}]}
    """
    if where is None:
        return None
    if not isinstance(where, Mapping):
        raise ValueError(
            f'where is {where!r:.60}; give a mapping of metadata names to values, such as {{"kind": "cat"}}, or a '
            "filter as Chroma has them"
        )
    own = {name for name, value in where.items() if str(name).startswith("$") or isinstance(value, Mapping)}
    plain = {name: value for name, value in where.items() if name not in own}
    parts = [{name: where[name]} for name in where if name in own]
    for name, values in conditions(plain) if plain or not own else []:
        if None in values:
            raise ValueError(f"where[{name!r}] holds None; Chroma cannot look for items without a value")
        kinds = dict.fromkeys(map(type, values))  # a list of Chroma's has one type
        ways = [{name: {"$in": [value for value in values if type(value) is kind]}} for kind in kinds]
        parts.append(ways[0] if len(ways) == 1 else {"$or": ways})
    return parts[0] if len(parts) == 1 else {"$and": parts}
