"""A filter as users give it -> a condition of a LanceDB query."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import Any

from kinrank.stores.filters import Condition, conditions


def condition(where: Any, expressions: Any, columns: list[str]) -> Any:
    """What `query.where` takes. LanceDB has no bound values; its expressions, which are no text, take their place.

    Args:
        where: a mapping of columns to values, an expression, or a text as LanceDB writes it.
        expressions: the module lancedb.expr.
        columns: of the table.
    """
    if isinstance(where, Mapping):
        wanted = conditions(where)
        strange = [column for column, _ in wanted if column not in columns]
        if strange:
            raise ValueError(f"where names the column {strange[0]!r}; the table has {', '.join(columns)}")
        if all(None not in values for _, values in wanted):
            return reduce(and_, (expressions.col(column).isin(values) for column, values in wanted))
        return " AND ".join(map(_text, wanted))  # no expression says IS NULL
    if isinstance(where, expressions.Expr) or (isinstance(where, str) and where.strip()):
        return where
    raise ValueError(
        f'where is {where!r:.60}; give a mapping of columns to values, such as {{"kind": "cat"}}, an expression of '
        'lancedb.col and lancedb.lit, or a condition as LanceDB writes it, such as "price < 10"'
    )


def _text(one: Condition) -> str:
    """A condition as text. `Expr.to_sql` would not do: it leaves a quote behind a backslash as it is."""
    name = "`" + one.column.replace("`", "``") + "`"
    given = [_literal(value) for value in one.values if value is not None]
    ways = [f"{name} IN ({', '.join(given)})"] if given else []
    return f"({' OR '.join([*ways, f'{name} IS NULL'] if None in one.values else ways)})"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else repr(value)
