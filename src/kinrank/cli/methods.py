"""`kinrank methods`, and the conversion between flags and parameters of methods, by their declarations."""

from __future__ import annotations

import contextlib
import inspect
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kinrank.cli.errors import rename_parameter
from kinrank.cli.output import Json, print_json
from kinrank.encoders.base import TEXTS
from kinrank.errors import InputError
from kinrank.files.vector_files import read_content
from kinrank.methods import METHODS, TEXT_METHOD, Method, find_method
from kinrank.parameters import Parameter
from kinrank.tables import align_columns

MethodName = Annotated[
    str, typer.Option("--method", "-m", help="See `kinrank methods`; its parameters are flags: `kinrank methods NAME`.")
]
MaxMemory = Annotated[
    str | None,
    typer.Option("--max-memory", help="Refuse, before starting, to use more memory than this, such as 2GB."),
]
PREFIX = "method_"  # of parameters with the name of an option: --method-k 4
OPTION_NAMES = ("k",)  # parameters of methods with the name of an option of `kinrank rerank`
BOOLEAN_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def methods(
    name: Annotated[str | None, typer.Argument(help="Name of a method, to list its parameters.")] = None,
    json: Json = False,
) -> None:
    """List all methods, or the parameters, defaults, ranges and paper of one.

    \b
    kinrank methods
    kinrank methods lpmt
    """
    facts: Any = [describe_method(kind) for kind in (METHODS.values() if name is None else [find_method(name)])]
    if json:
        print_json(facts if name is None else facts[0])
        return
    if name is None:
        print(align_columns([("method", "paper"), *((entry["name"], entry["paper"]) for entry in facts)]))
        print("\nParameters of one: kinrank methods NAME")
        return
    facts = facts[0]
    print(f"{facts['name']}: {facts['paper']}\n\n{facts['description']}\n")
    rows = [("parameter", "default", "allowed", "meaning")]
    rows += [
        (f"--{entry['flag']}", str(entry["default"]), entry["allowed"], entry["meaning"])
        for entry in facts["parameters"]
    ]
    print(align_columns(rows) if facts["parameters"] else "It has no parameters.")


def describe_method(kind: type[Method]) -> dict[str, Any]:
    """Return the declarations of a method as plain values."""
    declared = [
        {
            "name": entry.name,
            "flag": name_flag(entry.name)[2:],
            "kind": entry.kind.__name__,
            **{fact: getattr(entry, fact) for fact in ("default", "allowed", "low", "high", "choices", "meaning")},
        }
        for entry in kind.parameters()
    ]
    description = inspect.getdoc(kind) or ""
    facts = {"name": kind.name, "class": kind.__name__, "paper": kind.paper, "description": description}
    return {**facts, "parameters": declared}


def name_flag(parameter: str) -> str:
    """Return the flag of a parameter of a method: `--path-k` of path_k, but `--method-k` of k."""
    return "--" + (PREFIX * (parameter in OPTION_NAMES) + parameter).replace("_", "-")


def parse_method(name: str, arguments: Sequence[str], vectors: Iterable[Path | None] = ()) -> Method:
    """Return the method with the parameters of the command line.

    If `kinrank embed` made one of the files of vectors from texts, the parameters of TEXT_METHOD are the defaults.

    Example:
        >>> parse_method("aqe", ["--method-k", "5"])
        AQE(k=5)
    """
    kind = find_method(name)
    try:
        given = parse_parameters(kind.name, kind.parameters(), arguments)
        if kind is type(TEXT_METHOD) and any(path is not None and read_content(path) == TEXTS for path in vectors):
            return replace(TEXT_METHOD, **given)
        return kind(**given)
    except InputError as error:
        for parameter in OPTION_NAMES:
            rename_parameter(error, parameter, f"{PREFIX}{parameter}")
        raise


def parse_parameters(owner: str, parameters: Iterable[Parameter], arguments: Sequence[str]) -> dict[str, Any]:
    """Convert flags to values of declared parameters. Raises InputError for any other flag."""
    declared = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        flag, equals, text = word.partition("=")
        if not flag.startswith("--") or flag == "--":
            raise InputError(f"{word!r} is unexpected; write parameters as --name value")
        name = flag[2:].replace("-", "_")
        entry = declared.get(name) or declared.get(name.removeprefix(PREFIX))
        if entry is not None:
            if not equals and waiting and _is_value(waiting[0], entry):
                equals, text = "=", waiting.pop(0)
            values[entry.name] = _parse_value(entry, text if equals else None, flag)
            continue
        switch = declared.get(name.removeprefix("no_"))
        if switch is None or switch.kind is not bool or equals:
            takes = ", ".join(map(name_flag, declared)) or "no parameters"
            raise InputError(f"{flag} is not a parameter of {owner}; it takes {takes}")
        values[switch.name] = False
    return values


def format_flags(method: Method) -> str:
    """Write a method as flags of `kinrank rerank`: its name, and the parameters that differ from their defaults.

    Example:
        >>> format_flags(AQE(k=5))
        '--method aqe --method-k 5'
    """
    usual, words = type(method)(), [f"--method {method.name}"]
    for entry in method.parameters():
        value = getattr(method, entry.name)
        if value != getattr(usual, entry.name):
            written = shlex.quote(value) if entry.file else str(value).lower()
            words.append(f"{name_flag(entry.name)} {written}")
    return " ".join(words)


def _is_value(word: str, parameter: Parameter) -> bool:
    """Return True if the word after a flag is its value; a switch needs none."""
    return not word.startswith("--") and (parameter.kind is not bool or word.lower() in BOOLEAN_WORDS)


def _parse_value(parameter: Parameter, text: str | None, flag: str) -> Any:
    """Convert text to the type of the parameter. Other text stays, and the declaration refuses it."""
    if parameter.kind is bool:
        return True if text is None else BOOLEAN_WORDS.get(text.lower(), text)
    if text is None:
        raise InputError(f"{flag} needs a value: {parameter.allowed} ({parameter.meaning})")
    if parameter.optional and parameter.choices is None and text.lower() in ("none", "auto"):
        return None
    if parameter.choices is not None or parameter.file:
        return text
    for convert in (int, float) if parameter.kind is int else (float,):
        with contextlib.suppress(ValueError):
            return convert(text)
    return text
