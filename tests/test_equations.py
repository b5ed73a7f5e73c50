"""docs/equations.md lists every equation of the paper, and the code means the same equations as the page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "equations.md"
SOURCE, BENCH, TESTS = ROOT / "src" / "kinrank", ROOT / "bench" / "kinrank_bench", ROOT / "tests"
COUNTS = {"": 21, "A.": 28, "B.": 35}  # numbered equations of the paper and its appendices
NUMBERS = [f"{part}{number}" for part, count in COUNTS.items() for number in range(1, count + 1)]
ALGORITHMS = ["Algorithm 1", "Algorithm 2"]
LABELS = {  # of the paper's LaTeX source
    "eq: euclidean distance": "1",
    "eq::bidirectional collaborative diffusion": "3",
    "eq::bidirectional similarity diffusion": "4",
    "eq::iteration": "9",
    "eq::valid set": "11",
    "eq: beta result": "13",
    "eq::k reciprocal": "14",
    "eq::local consistency": "16",
    "eq: minimum cost": "18",
    "eq: appendix lyapunov equation": "A.13",
    "tmt:entropy": "B.15",
    "tmt:target": "B.16",
}
NUMBER = r"(?:[AB]\.)?\d+"
MENTION = re.compile(rf"\bEqs?\. ({NUMBER}(?:(?:, | and | to ){NUMBER})*)|\b(Algorithms? \d(?: and \d)?)")


class Row(NamedTuple):
    """One row of the tables: its functions, below kinrank or kinrank_bench, and its tests, below tests/."""

    numbers: list[str]
    functions: list[str]
    tests: list[str]


def expand(text: str) -> list[str]:
    """Return all numbers of "3", "A.3, A.4", "11 and 13", "A.16 to A.18" or "Algorithms 1 and 2"."""
    word = "Algorithm " if text.startswith("Algorithm") else ""
    found: list[str] = []
    for part in re.split(r", | and ", text.removeprefix("Algorithms").removeprefix("Algorithm").strip()):
        first, _, last = part.partition(" to ")
        prefix, count = re.fullmatch(r"([AB]\.|)(\d+)", first).groups()  # type: ignore[union-attr]
        end = int(last.removeprefix(prefix)) if last else int(count)
        found += [f"{word}{prefix}{number}" for number in range(int(count), end + 1)]
    return found


@cache
def read_rows() -> list[Row]:
    rows = []
    for line in PAGE.read_text("utf-8").splitlines():
        if not re.match(rf"\| (?:{NUMBER}|Algorithm)", line):
            continue
        number, _, functions, _, tests = (cell.strip() for cell in line.split("|")[1:-1])
        rows.append(Row(expand(number), *(re.findall(r"`([^`]+)`", cell) for cell in (functions, tests))))
    return rows


def rows_of(number: str) -> Row:
    """Return what the page says about one equation."""
    return next(row for row in read_rows() if number in row.numbers)


@cache
def definitions(path: Path) -> dict[str, range]:
    """Return the lines of every function, class, method and constant of a file."""
    found: dict[str, range] = {}

    def add(body: list[ast.stmt], owner: str) -> None:
        for node in body:
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[owner + node.name] = lines
                add(node.body if isinstance(node, ast.ClassDef) else [], f"{owner}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update({owner + target.id: lines for target in targets if isinstance(target, ast.Name)})

    add(ast.parse(path.read_text("utf-8")).body, "")
    return found


def is_defined(function: str) -> bool:
    """True for `stages.diffusion.weigh_graphs`, if kinrank or kinrank_bench has it."""
    words = function.split(".")
    for folder in (SOURCE, BENCH):
        for size in range(1, len(words)):
            path = folder.joinpath(*words[:size]).with_suffix(".py")
            if path.is_file() and ".".join(words[size:]) in definitions(path):
                return True
    return False


def mentions(path: Path) -> Iterator[tuple[int, str, str]]:
    """Return (line, innermost definition or "", number) of every equation that a file mentions."""
    for line, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        assert not re.search(r"\bEqs?\.$", text), f"{path}:{line}: keep the number on the line of `Eq.`"
        around = [name for name, lines in definitions(path).items() if line in lines]
        owner = min(around, key=lambda name: len(definitions(path)[name]), default="")
        for equations, algorithms in MENTION.findall(text):
            for number in expand(equations or algorithms):
                yield line, owner, number


def lines_of(path: Path, name: str) -> str:
    lines = definitions(path)[name]
    return "\n".join(path.read_text("utf-8").splitlines()[lines.start - 1 : lines.stop - 1])


def test_every_equation_is_listed_once() -> None:
    listed = [number for row in read_rows() for number in row.numbers]
    assert sorted(listed) == sorted(NUMBERS + ALGORITHMS)
    assert [number for number in listed if number in NUMBERS] == NUMBERS


def test_numbers_are_those_that_latex_prints(shared_dir: Path) -> None:
    text = re.sub(r"(?m)^\s*%.*$", "", (shared_dir / "paper" / "lpmt.tex").read_text("utf-8"))
    main, appendix = text.split("\\setcounter{equation}{0}\n\\numberwithin{equation}{section}")
    labels, counts = {}, dict.fromkeys(COUNTS, 0)
    for prefix, part in zip(COUNTS, [main, *appendix.split("\\section{")], strict=False):
        for body in re.findall(r"\\begin\{equation\}(.*?)\\end\{equation\}", part, flags=re.DOTALL):
            counts[prefix] += 1
            labels |= dict.fromkeys(re.findall(r"\\label\{(.*?)\}", body), f"{prefix}{counts[prefix]}")
    assert counts == COUNTS
    assert LABELS.items() <= labels.items()


def test_functions_exist() -> None:
    assert not [name for row in read_rows() for name in row.functions if not is_defined(name)]
    assert not is_defined("stages.diffusion.nothing")


def test_functions_that_are_not_computed_are_the_only_ones_missing() -> None:
    for line in PAGE.read_text("utf-8").splitlines():
        if re.match(rf"\| (?:{NUMBER}|Algorithm)", line):
            assert ("not computed" in line.split("|")[4]) == (not line.split("|")[3].strip()), line


def test_tests_exist() -> None:
    for row in read_rows():
        assert row.tests, f"no test for {row.numbers}"
        for test in row.tests:
            file, _, name = test.partition("::")
            assert name.startswith("test_")
            assert name in definitions(TESTS / file), test


@pytest.mark.parametrize("folder", [SOURCE, BENCH])
def test_mentions_in_the_code_are_about_the_functions_of_the_page(folder: Path) -> None:
    found = 0
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(folder).with_suffix("").parts)
        for line, owner, number in mentions(path):
            functions, found = rows_of(number).functions, found + 1
            fits = f"{module}.{owner}" in functions if owner else any(name.startswith(module) for name in functions)
            assert fits, f"{path}:{line}: equation {number} is computed by {functions}, not by {owner or module}"
    assert found > 5


def test_mentions_in_the_tests_are_about_the_tests_of_the_page() -> None:
    found = 0
    for path in sorted({*TESTS.rglob("*.py")} - {Path(__file__).resolve()}):
        file = path.relative_to(TESTS).as_posix()
        named = [
            (name, number.replace("_", ".").upper())
            for name in definitions(path)
            for numbers in re.findall(r"equations?((?:_(?:and_)?(?:[ab]_)?\d+)+)", name)
            for number in re.findall(r"(?:[ab]_)?\d+", numbers)
        ]
        for owner, number in [*((owner, number) for _, owner, number in mentions(path)), *named]:
            assert number in NUMBERS + ALGORITHMS, f"{path}: there is no equation {number}"
            found += 1
            tests = rows_of(number).tests
            if owner.startswith("test_"):
                assert f"{file}::{owner}" in tests, f"the page does not list {owner} for equation {number}"
            elif file.startswith("reference/") and owner:
                assert any(calls(test, owner) for test in tests), f"no test of equation {number} calls {owner}"
    assert found > 20


def calls(test: str, function: str) -> bool:
    """True if a test, or a function of its file that it calls, calls this function of tests/reference."""
    file, _, name = test.partition("::")
    path, call = TESTS / file, rf"\.{function}\("
    own = lines_of(path, name)
    helpers = [lines_of(path, helper) for helper in definitions(path) if re.search(rf"\b{helper}\(", own)]
    return any(re.search(call, text) for text in [own, *helpers])


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]), ids=lambda path: path.stem
)
def test_mentions_in_the_documentation_exist(page: Path) -> None:
    for equations, algorithms in MENTION.findall(page.read_text("utf-8")):
        assert set(expand(equations or algorithms)) <= {*NUMBERS, *ALGORITHMS}
