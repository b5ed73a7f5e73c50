"""Checks of names and language over all source files; decision 17 explains the rules."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(path for folder in ("src", "bench") for path in (ROOT / folder).rglob("*.py"))
TREES = {path: ast.parse(path.read_text("utf-8")) for path in FILES}

MAX_FILES = 430
MAX_REPEATED_FILE_NAMES = 40
MAX_PARTICIPLE_FUNCTIONS = 40
MAX_PARTICIPLE_MODULES = 10
MAX_VAGUE_DOCSTRINGS = 20
MAX_FORMAT_EXCEPTIONS = 30

IRREGULAR = {
    "asked",
    "begun",
    "bought",
    "bound",
    "broken",
    "brought",
    "built",
    "caught",
    "chosen",
    "dealt",
    "done",
    "drawn",
    "driven",
    "fallen",
    "fed",
    "felt",
    "forgotten",
    "fought",
    "found",
    "frozen",
    "given",
    "gone",
    "got",
    "grown",
    "heard",
    "held",
    "hidden",
    "kept",
    "known",
    "laid",
    "led",
    "left",
    "lent",
    "lost",
    "made",
    "meant",
    "met",
    "overridden",
    "paid",
    "rewritten",
    "ridden",
    "said",
    "seen",
    "sent",
    "shown",
    "sold",
    "sought",
    "spent",
    "spoken",
    "stolen",
    "stood",
    "stuck",
    "swept",
    "sworn",
    "taken",
    "taught",
    "thought",
    "thrown",
    "told",
    "torn",
    "understood",
    "withdrawn",
    "won",
    "worn",
    "wound",
    "written",
}
NOT_PARTICIPLES = {"bed", "embed", "exceed", "feed", "hundred", "need", "proceed", "red", "seed", "shed", "speed"}
NOT_GERUNDS = {"ranking", "ring", "string", "training"}
VAGUE = re.compile(r"(What|Who|Whose|How|The same)\b")
OLD_VOCABULARY = re.compile(r"\b(anew|beside|vouch\w*|whoever|who asks|is said)\b", re.IGNORECASE)


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (word.endswith("ed") and word not in NOT_PARTICIPLES)


def outer_words(name: str) -> set[str]:
    """Return the first and the last word of a name: `open_folder` -> open, folder."""
    words = name.strip("_").lower().split("_")
    return {words[0], words[-1]}


def test_functions_are_verbs() -> None:
    names = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(is_participle, outer_words(node.name)))
    ]
    assert len(names) <= MAX_PARTICIPLE_FUNCTIONS, "\n".join(names)


def test_modules_are_nouns() -> None:
    names = [
        str(path.relative_to(ROOT))
        for path in FILES
        if any(
            is_participle(word) or (word.endswith("ing") and word not in NOT_GERUNDS) for word in outer_words(path.stem)
        )
    ]
    assert len(names) <= MAX_PARTICIPLE_MODULES, "\n".join(names)


def test_files_are_few_and_their_names_differ() -> None:
    names = Counter(path.stem for path in FILES if path.stem not in ("__init__", "__main__"))
    repeated = sorted(name for name, count in names.items() if count > 1)
    assert len(FILES) <= MAX_FILES
    assert len(repeated) <= MAX_REPEATED_FILE_NAMES, repeated


def test_docstrings_start_with_a_verb_or_a_noun() -> None:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    vague = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, kinds) and (text := ast.get_docstring(node)) and VAGUE.match(text)
    ]
    assert len(vague) <= MAX_VAGUE_DOCSTRINGS, "\n".join(vague)


def test_old_vocabulary_is_gone() -> None:
    """Words of the first version that read like a translation."""
    texts = [*FILES, *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in texts
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if OLD_VOCABULARY.search(line)
    ]
    assert not found, "\n".join(found)


def test_formatting_is_left_to_the_formatter() -> None:
    pattern = re.compile(r"# fmt: (skip|off)")
    places = [path for path in FILES for line in path.read_text("utf-8").splitlines() if pattern.search(line)]
    assert len(places) <= MAX_FORMAT_EXCEPTIONS, places


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_bare_value_error(path: Path) -> None:
    """`InputError` marks mistakes of the caller; a bare ValueError would be shown as a bug."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Raise) and node.exc is not None:
            kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            assert not (isinstance(kind, ast.Name) and kind.id == "ValueError"), f"line {node.lineno}"


def test_exceptions_end_in_error_or_warning() -> None:
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                if any(base.endswith(("Error", "Exception", "Warning")) for base in bases):
                    assert node.name.endswith(("Error", "Warning")), f"{path.relative_to(ROOT)}: {node.name}"


def test_loggers_are_named_after_their_module() -> None:
    for path in FILES:
        for line in path.read_text("utf-8").splitlines():
            if re.search(r"= logging\.getLogger\(", line):
                assert line == "log = logging.getLogger(__name__)", f"{path.relative_to(ROOT)}: {line}"
