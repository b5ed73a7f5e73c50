"""Helpers for database clients: filters, conversion of results, URL options, timeouts, origin of errors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kinrank.errors import InputError
from kinrank.vector_input import Vectors

Result = TypeVar("Result")
PAIR_HINT = 'a pair of a condition with placeholders and its values, such as ("price < {}", [10])'


def pack_rows(vectors: Sequence[Sequence[float] | None], dimensions: int) -> Vectors:
    """Return lists of numbers as (n, d) rows; NaN for a vector that is missing or has another length.

    Packing takes a quarter of the time that `numpy.array` needs for lists of lists.
    """
    numbers = struct.Struct(f"{dimensions}d")
    packed = bytearray(numbers.size * len(vectors))
    for place, vector in enumerate(vectors):
        try:
            numbers.pack_into(packed, place * numbers.size, *(vector or ()))
        except struct.error:  # wrong length, or an entry that is not a number
            numbers.pack_into(packed, place * numbers.size, *([np.nan] * dimensions))
    with np.errstate(over="ignore"):
        return np.frombuffer(packed, np.float64).reshape(len(vectors), dimensions).astype(np.float32)


def check_unit_rows(rows: Vectors, store: Any) -> Vectors:
    """Return the rows. Raise InputError if a comparable one does not have length one, as inner product requires."""
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    if (np.isfinite(lengths) & (lengths > 0) & (np.abs(lengths - 1.0) > 1e-3)).any():
        raise not_unit_error(store)
    return rows


def not_unit_error(store: Any) -> InputError:
    """Return the error for a collection that compares vectors of different lengths by inner product."""
    return InputError(
        f"{store!r} compares by inner product, but not all of its vectors have length one",
        remedy="store vectors of length one, or create the collection with cosine",
    )


def is_raised_by(error: BaseException, package: str) -> bool:
    """Return True if an error was raised in a package or in code that it called."""
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).split(".")[0] == package:
            return True
        trace = trace.tb_next
    return False


def parse_flag(options: Mapping[str, str], name: str) -> bool:
    """Return a true/false option of a URL; False by default."""
    if options.get(name, "false") not in ("true", "false"):
        raise InputError(parameter=name, given=options[name], allowed="true or false")
    return options.get(name) == "true"


def check_header(text: str | None, what: str) -> str | None:
    """Return a secret that is valid in an HTTP header. The errors of the clients would print an invalid one."""
    text = (text or "").strip()
    if not (text.isascii() and text.isprintable()):
        raise InputError(f"{what} contains a character that is not allowed in an HTTP header", remedy="check it")
    return text or None


def call_with_timeout(call: Callable[[], Result], timeout: float | None) -> Result:
    """Return the result of a call, or raise TimeoutError after `timeout` seconds, for clients without a limit.

    After a timeout the call continues in its thread, and its result is dropped.
    """
    if timeout is None:
        return call()
    answer: Future[Result] = Future()

    def ask() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    Thread(target=ask, daemon=True).start()
    if not wait([answer], timeout).done:
        raise TimeoutError("it is still busy")
    return answer.result()


class Condition(NamedTuple):
    """A condition that a column contains one of `values`; None stands for a missing value."""

    column: str
    values: list[Any]


def parse_conditions(where: Mapping[str, Any]) -> list[Condition]:
    """Parse a mapping of columns to a value or to a list of alternatives. All conditions must hold."""
    if not where:
        raise InputError("is empty", parameter="where", remedy="give at least one name and value, or leave it out")
    found = []
    for column, value in where.items():
        if not isinstance(column, str):
            raise InputError(
                f"has the column {column!r}, a {type(column).__name__}", parameter="where", allowed="its name as text"
            )
        several = isinstance(value, (list, tuple, set, frozenset, np.ndarray))
        values = [_to_python_value(entry) for entry in (value if several else [value])]
        wrong_types = [entry for entry in values if not (entry is None or isinstance(entry, (str, int, float, bool)))]
        if wrong_types or not values:
            content = f"{wrong_types[0]!r}, a {type(wrong_types[0]).__name__}" if wrong_types else "no value"
            raise InputError(
                f"has {content} for {column!r}", parameter="where", allowed="texts, numbers, true, false or None"
            )
        found.append(Condition(column, values))
    return found


def build_where_sql(where: Any, placeholder: str, quoted: Callable[[str], str]) -> tuple[str, list[Any]]:
    """Return a filter as an SQL condition with placeholders, and the values to bind; "" for no filter.

    Args:
        where: a mapping, or a pair of a condition with placeholders and a list of values.
        placeholder: placeholder of the engine, "?" or "%s".
        quoted: function that quotes the name of a column.
    """
    if where is None:
        return "", []
    if isinstance(where, Mapping):
        texts, bound = [], []
        for column, values in parse_conditions(where):
            name, present = quoted(column), [value for value in values if value is not None]
            alternatives = [f"{name} IN ({', '.join([placeholder] * len(present))})"] if present else []
            alternatives += [f"{name} IS NULL"] if len(present) < len(values) else []
            texts.append(f"({' OR '.join(alternatives)})")
            bound += present
        return " AND ".join(texts), bound
    text, values = check_pair(where, placeholder)
    return f"({text}\n)", values  # the line break ends a comment in the text before the bracket


def check_pair(where: Any, placeholder: str) -> tuple[str, list[Any]]:
    """Check a pair of a condition and its values. Text alone is refused because it may contain unescaped values."""
    if isinstance(where, (tuple, list)) and len(where) == 2 and isinstance(where[0], str):
        text, values = where
        if isinstance(values, (list, tuple)) and text.strip():
            return text, [_to_python_value(value) for value in values]
    content = f"the text {where!r:.60}" if isinstance(where, str) else f"{where!r:.60}"
    raise InputError(
        f"is {content}",
        parameter="where",
        allowed=f'a mapping of columns to values, such as {{"kind": "cat"}}, or {PAIR_HINT.format(placeholder)}, so '
        "that values are bound and never interpreted as SQL",
    )


def filter_error(where: Any, allowed: str) -> InputError:
    """Return the error for a filter that has none of the forms in `allowed`."""
    return InputError(f"is {where!r:.60}", parameter="where", allowed=allowed)


def _to_python_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
