"""Page of a method, from its class: summary, equation, parameters, cost, unusual input, mistakes, measurements."""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from generator.equations import compute_checksum, read_formulas
from generator.published import read_published_notes
from generator.unusual_input import list_results
from kinrank.cli.methods import name_flag
from kinrank.memory_limit import format_bytes
from kinrank.methods import Method
from kinrank.methods.learned_method import LearnedMethod
from kinrank.parameters import Parameter

NOTE = "<!-- Written by docs/build.py (`make docs`) from the source; change the docstring, not this page. -->"

COMPUTED_NOTE = "Each result was computed when this page was built; the tests compute it again."
RANDOM_WEIGHTS_NOTE = " With small random weights; other weights may give a different order."


@dataclass
class MethodDocs:
    """The paragraphs of a docstring by topic."""

    summary: list[str] = field(default_factory=list)
    formula: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cost: str = ""
    helps: str = ""
    example: str = ""


def parse_docs(kind: type[Method]) -> MethodDocs:
    """Paragraphs before the formula are the summary, those after it notes; some words start their own topic."""
    found = MethodDocs()
    for paragraph in (inspect.getdoc(kind) or "").split("\n\n"):
        if paragraph.startswith("Cost:"):
            found.cost = _line(paragraph.removeprefix("Cost:"))
        elif paragraph.startswith("Helps"):
            found.helps = _line(paragraph)
        elif paragraph.startswith("Example:"):
            found.example = "\n".join(line.strip().removeprefix(">>> ") for line in paragraph.splitlines()[1:])
        elif paragraph.startswith("    "):
            found.formula.append("```text\n" + textwrap.dedent(paragraph) + "\n```")
        elif paragraph.startswith("Equation:"):
            block, rest = _formula(_line(paragraph.removeprefix("Equation:"), escape=False))
            found.formula.append(block)
            found.notes.append(rest)
        elif paragraph.startswith("Equation,"):
            found.formula.append(_capitalize(_line(paragraph.removeprefix("Equation,"))))
        elif paragraph.startswith("Algorithm:") or found.formula or found.notes:
            found.notes.append(_capitalize(_line(paragraph.removeprefix("Algorithm:"))))
        else:
            found.summary.append(_line(paragraph))
    return found


def page(kind: type[Method], measured: list[str]) -> str:
    """The whole page; `measured` are lines from the benchmark records, empty if there are none."""
    text = parse_docs(kind)
    helps, hurts = ([*re.split(r"(?<=\.) (?=Hurts)", text.helps, maxsplit=1), ""])[:2]
    parts = [
        NOTE,
        "<!-- needs: torch -->" if issubclass(kind, LearnedMethod) else "",
        f"# {kind.__name__}: `{kind.name}`",
        *text.summary,
        f"Paper: {kind.paper}.",
        *(["## Equation", typeset_formula(kind.name, text), *text.notes] if text.formula or text.notes else []),
        "## Parameters",
        parameter_table(kind),
        "## Cost",
        _capitalize(text.cost),
        describe_memory(kind),
        *(["## When it helps, when it hurts", helps, hurts] if helps else []),
        "## Unusual input",
        COMPUTED_NOTE + (RANDOM_WEIGHTS_NOTE if issubclass(kind, LearnedMethod) else ""),
        table([("input", "result"), *list_results(kind)]),
        "For input that all methods treat alike (NaN, wrong shapes, no items, too little memory), see the "
        "[guide](../guide/bad-input.md).",
        "## Variants and the published program",
        read_published_notes().get(kind.name) or variants(kind),
        *(["## Measured", *measured] if measured else []),
        "## Example",
        f"```python\n{text.example if 'ranking = ' in text.example else f'ranking = {text.example}'}\n```",
        f"```console\n{command(kind)}\n$ kinrank methods {kind.name}\n```",
        "[All methods](README.md) · [Which method when](../which-method-when.md)",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def typeset_formula(name: str, text: MethodDocs) -> str:
    """The formula in TeX, or as plain text if the docstring has changed since the TeX was written."""
    plain = "\n\n".join(text.formula)
    formula = read_formulas().get(name)
    return formula.text if formula and formula.checksum == compute_checksum(plain) else plain


def with_measured(text: str, measured: list[str]) -> str:
    """A page with other lines from the benchmark records, and everything else as it was."""
    before, after = text.split("\n## Example\n")
    parts = [before.split("\n## Measured\n")[0].rstrip("\n"), *(["## Measured", *measured] if measured else [])]
    return "\n\n".join([*parts, "## Example\n"]) + after


def parameter_table(kind: type[Method]) -> str:
    """Name, default, allowed, meaning; each name is a keyword in Python and a flag on the command line."""
    declared = kind.parameters()
    if not declared:
        return "None."
    rows = [(f"`{entry.name}`", format_default(entry), entry.allowed, entry.meaning) for entry in declared]
    return table([("name", "default", "allowed", "meaning"), *rows])


def format_default(declared: Parameter) -> str:
    """The default as a Python expression."""
    return f"`{declared.default!r}`"


def describe_memory(kind: type[Method]) -> str:
    """The method's own estimate of its memory; some methods need an array per thread."""
    with mock.patch.dict(os.environ, KINRANK_THREADS="2"):
        estimate = kind().memory(40_100, 100, 128)
    if not estimate:
        return ""
    return (
        f"Memory estimate, which is checked against `max_memory=` before the start: {format_bytes(estimate)} "
        "of working memory for 100 queries and 40 000 items with 128 dimensions, with the defaults and two "
        "threads, in addition to the vectors and the result."
    )


def variants(kind: type[Method]) -> str:
    """For a method that is not in published.md: the sentences about variants in its docstring."""
    sentences = re.split(r"(?<=[.:;]) ", _line(inspect.getdoc(kind) or ""))
    return " ".join(sentence for sentence in sentences if "variant=" in sentence) or "No difference is known."


def command(kind: type[Method]) -> str:
    """Command lines that run the method, with its first parameter as an example; a learned method is fitted first."""
    first, before = [f"{name_flag(entry.name)} {entry.default}" for entry in kind.parameters()[:1]], ""
    if issubclass(kind, LearnedMethod):
        name = kind().weights_name
        first = [f"--weights {name}.npz"]
        before = f"$ kinrank fit {name} --features f.npy --labels l.npy -o {name}.npz\n"
    words = ["$ kinrank rerank --queries q.npy --gallery g.npy --method", kind.name, *first, "-o ranking.npz"]
    return before + " ".join(words)


def index(methods: dict[str, type[Method]]) -> str:
    """The page that lists all others."""
    rows: list[tuple[Any, ...]] = [("method", "class", "summary", "paper")]
    for name, kind in methods.items():
        sentence = re.split(r"(?<=\.) ", " ".join(parse_docs(kind).summary))[0]
        rows.append((f"[`{name}`]({name}.md)", f"`{kind.__name__}`", sentence, kind.paper))
    parts = [
        NOTE,
        "# Methods",
        "One page per method, generated from its source. [Which method when](../which-method-when.md) helps you "
        "choose one for your data. [How we read LPMT](../lpmt.md) explains our interpretation of the LPMT paper.",
        table(rows),
        "Use all of them in the same way: `kinrank.rerank(queries, gallery, kinrank.methods.AQE(k=4))`, or by name: "
        '`kinrank.rerank(queries, gallery, "aqe")`. Methods with a plus sign in their name also augment the gallery. '
        "CSA, SSR and LAttQE need weights that you [fit first](../learned.md).",
        "```console\n$ kinrank methods\n$ kinrank methods lpmt\n```",
    ]
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as a Markdown table; the first row is the header."""
    lines = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _formula(text: str) -> tuple[str, str]:
    """The first sentence, with equations, as a block with a line per clause; the other sentences as text."""
    equation, _, rest = text.partition(". ")
    clauses = [textwrap.fill(clause, 100, subsequent_indent="    ") for clause in equation.rstrip(".").split("; ")]
    return "```text\n" + "\n".join(clauses) + "\n```", _line(rest)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(paragraph: str, escape: bool = True) -> str:
    """One line of Markdown; a bare `<` would open a tag."""
    text = " ".join(paragraph.split())
    return re.sub(r"`[^`]*`|<", lambda found: "&lt;" if found[0] == "<" else found[0], text) if escape else text
