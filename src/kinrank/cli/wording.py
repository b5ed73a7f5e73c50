"""A sentence of the library, in the words of Python -> the same in the words of the command line.

Errors name the parameter they are about: `depth=`, `max_memory='x'`, `LPMT: k1=0`, `EIR(variant='joint')`. Here these
become `--depth`, `--max-memory 'x'`, `--k1 0`, `eir --variant 'joint'`. Every flag of every command and every parameter
of every method is known by its declaration; only what is called otherwise on the command line stands in a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kinrank.learned import IMPORTS, RECIPES
from kinrank.methods import METHODS

NAME = r"(?<![\w/.'\"=-])([a-z][a-z0-9_]*)"  # a word, not a part of a path or of a quoted text
VALUE = r"('[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^\s;,)]+)?"
OTHERWISE = {"doc_ids": "--item-ids", "difficulty": "--protocol", "kind": "--store"}
FIRST = re.compile(
    r"^(where|groups|positives|negatives)(?: and (negatives))?(?= (?:names?|has|must|looks|leaves|both)\b)"
)
SENTENCES = {
    "rerank(queries, store, method, candidates=...)": "`kinrank rerank` with --candidates",
    "give True and False for a mask, or ids, each once, or leave where out": (
        "give the ids of the allowed items, one per line and each once, or leave --where out"
    ),
    "give the truth ": "give ",
    "give several for both, the gallery's made one by kinrank.combine": "give several files for both",
    "pass check_rows=False": "give --no-check-rows",
    ", as a manifold has them in manifold.ids": "",
    ", or cut the truth with truth.subset": "",
    "the folder that Manifold.save wrote": "the folder that `kinrank build` wrote",
    "replace it by upsert": "replace it with --replace",
    "or None for no limit": "or leave it out for no limit",
    "give a larger timeout=": "give more seconds in the URL, as ?timeout=60",
    "skip them with on_error='skip'": "leave out --strict to skip them",
    "build it with changes=True": "build it again with `kinrank build`",
    'labels="pseudo"': "--pseudo-labels",
    "labels: kinrank.tune, or ": "labels: give them here, or use ",
    "kinrank.whiten(vectors, on=gallery, power=0)": "`kinrank whiten --power 0`",
    "kinrank.whiten(vectors, on=gallery, power=0.25)": "`kinrank whiten --power 0.25`",
}


def in_flags(text: str, commands: Any, words: Sequence[str] = ()) -> str:
    """The sentence with flags for parameters. `commands` is the group of all commands, `words` what was typed."""
    flags = known_flags(commands, words)

    def flag(found: re.Match[str]) -> str:
        name, value = found[1], found[2] or ""
        return f"{flags[name]} {value}".rstrip() if name in flags else found[0]

    text = FIRST.sub(lambda found: " and ".join(_dashed(word) for word in found.groups() if word), text)
    for sentence, other in SENTENCES.items():
        text = text.replace(sentence, other)
    text = re.sub(rf"\b({'|'.join(_classes())})\(([^()]*)\)", _command, text)
    text = re.sub(NAME + "=" + VALUE, flag, text)
    text = re.sub(NAME + "()(?![\\w=(./'])", lambda found: flag(found) if "_" in found[1] else found[0], text)
    return re.sub(rf"^(?:{'|'.join(_classes())}): (?=--)", "", text)


def refused_in_flags(refused: Mapping[str, str], context: Any) -> dict[str, str]:
    """Why methods refused, with flags for the names of parameters."""
    commands = context.find_root().command
    return {name: in_flags(why, commands) for name, why in refused.items()}


def known_flags(commands: Any, words: Sequence[str] = ()) -> dict[str, str]:
    """Every parameter's flag. `key` is called after the file it belongs to: all such flags of the command typed."""
    typed = next((word for word in words if word in commands.commands), None)
    keys = [option for name, option in _options(commands.commands.get(typed)) if name.endswith("_key")]
    declared = [kind.parameters() for kinds in (METHODS, RECIPES, IMPORTS) for kind in kinds.values()]
    flags = {entry.name: _dashed(entry.name) for entries in declared for entry in entries}
    return flags | dict(_options(commands)) | OTHERWISE | {"key": " or ".join(keys) or "--gallery-key"}


def _options(command: Any) -> Iterator[tuple[str, str]]:
    """(name in Python, flag) of a command, or of all commands of a group."""
    for inner in getattr(command, "commands", {}).values():
        yield from _options(inner)
    for option in getattr(command, "params", ()):
        long = [word for word in option.opts if word.startswith("--")]
        if long:
            yield option.name, long[0]


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _classes() -> dict[str, str]:
    return {kind.__name__: kind.name for kind in METHODS.values()}


def _command(found: re.Match[str]) -> str:
    """EIR(kd=5, variant='joint') -> eir --kd 5 --variant 'joint'."""
    given = [part.partition("=") for part in found[2].split(", ") if "=" in part]
    return " ".join([_classes()[found[1]], *(f"{_dashed(name)} {value}" for name, _, value in given)])
