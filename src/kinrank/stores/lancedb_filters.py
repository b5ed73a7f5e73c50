"""A filter as users give it -> conditions of a LanceDB query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinrank.stores.filters import conditions


def filtered(query: Any, where: Any, expressions: Any) -> Any:
    """The query, for rows that pass the filter only. LanceDB has no bound values; its expressions take their place.

    Args:
        query: a query builder.
        where: a mapping of columns to values, an expression, a text as LanceDB writes it, or None.
        expressions: the module lancedb.expr.
    """
    if where is None:
        return query
    if isinstance(where, Mapping):
        for column, values in conditions(where):
            name, given = expressions.col(column), [value for value in values if value is not None]
            missing = f"{name.to_sql()} IS NULL"  # there is no expression for this; names and values quoted by LanceDB
            if not given:
                query = query.where(missing)
            elif len(given) < len(values):
                query = query.where(f"({name.isin(given).to_sql()} OR {missing})")
            else:
                query = query.where(name.isin(given))
        return query
    if isinstance(where, expressions.Expr) or (isinstance(where, str) and where.strip()):
        return query.where(where)
    raise ValueError(
        f'where is {where!r:.60}; give a mapping of columns to values, such as {{"kind": "cat"}}, an expression of '
        'lancedb.col and lancedb.lit, or a condition as LanceDB writes it, such as "price < 10"'
    )
