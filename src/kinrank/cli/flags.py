"""`--k1 60 --theta=0.3` and the name of a method -> the Method, by the declarations of its parameters."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kinrank.methods import Method, method_named
from kinrank.parameters import Parameter

WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def method_from(name: str, arguments: Sequence[str]) -> Method:
    """The method with the parameters of the command line.

    Example:
        >>> method_from("aqe", ["--k", "5"])
        AQE(k=5)
    """
    kind = method_named(name)
    return kind(**values_from(kind.name, kind.parameters(), arguments))


def values_from(owner: str, parameters: Iterable[Parameter], arguments: Sequence[str]) -> dict[str, Any]:
    """The values that flags give to declared parameters; a ValueError for a flag that is none of them."""
    declared = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    for flag, text in _pairs(arguments, declared):
        field = flag.replace("-", "_")
        if field in declared:
            values[field] = _value(declared[field], text, flag)
        elif field.startswith("no_") and _is_switch(declared.get(field[3:])) and text is None:
            values[field[3:]] = False
        else:
            takes = ", ".join(f"--{entry.replace('_', '-')}" for entry in declared) or "no parameters"
            raise ValueError(f"--{flag} is not a parameter of {owner}; it takes {takes}")
    return values


def flags_of(method: Method) -> str:
    """The method as `kinrank rerank` takes it: its name, and the parameters that differ from its defaults.

    Example:
        >>> flags_of(AQE(k=5))
        '--method aqe --k 5'
    """
    usual, words = type(method)(), [f"--method {method.name}"]
    for entry in method.parameters():
        value = getattr(method, entry.name)
        if value != getattr(usual, entry.name):
            written = shlex.quote(value) if entry.file else str(value).lower()
            words.append(f"--{entry.name.replace('_', '-')} {written}")
    return " ".join(words)


def _pairs(arguments: Sequence[str], declared: dict[str, Parameter]) -> Iterator[tuple[str, str | None]]:
    """Flags and their values; None for a flag that has none."""
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("--") or word == "--":
            raise ValueError(f"{word!r} is out of place; parameters are written --name value")
        flag, equals, text = word[2:].partition("=")
        if equals:
            yield flag, text
        elif (
            not waiting
            or waiting[0].startswith("--")
            or (
                _is_switch(declared.get(flag.replace("-", "_").removeprefix("no_"))) and waiting[0].lower() not in WORDS
            )
        ):
            yield flag, None
        else:
            yield flag, waiting.pop(0)


def _is_switch(parameter: Parameter | None) -> bool:
    return parameter is not None and parameter.kind is bool


def _value(parameter: Parameter, text: str | None, flag: str) -> Any:
    """The text as the parameter's kind; what cannot be one stays text and is refused by the declaration."""
    if parameter.kind is bool:
        return True if text is None else WORDS.get(text.lower(), text)
    if text is None:
        raise ValueError(f"--{flag} needs a value: {parameter.allowed} ({parameter.meaning})")
    if parameter.choices is not None:
        return text
    if parameter.optional and text.lower() in ("none", "auto"):
        return None
    if parameter.file:
        return text
    try:
        return int(text) if parameter.kind is int else float(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
