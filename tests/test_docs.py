"""The documentation matches the code: generated pages, links, Python blocks, command lines."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank_bench.paper.lpmt_ablation import LPMTAblation

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^```python\n(.*?)^```\n\n```output\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
NEEDS = re.compile(r"^<!-- needs: (.*) -->$", flags=re.MULTILINE)
FRAMEWORKS = {"langchain": "langchain_core", "llamaindex": "llama_index.core"}  # modules with another name
PAIRS = re.compile(r"[A-Z][a-z ]+ on a synthetic set of pairs: (\d+) of 30")


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == language]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    sys.path.insert(0, str(DOCS))
    try:
        import build
    finally:
        sys.path.remove(str(DOCS))
    return build


@pytest.fixture(scope="module")
def made(builder: ModuleType) -> dict[Path, str]:
    """Build the pages from the records that the committed ones were built from."""
    pages: dict[Path, str] = builder.build(builder.read(builder.RESULTS, builder.read_until()))
    return pages


def test_every_method_has_its_page(made: dict[Path, str]) -> None:
    committed = {path.stem for path in (DOCS / "methods").glob("*.md")} - {"README"}
    assert committed == set(kinrank.METHODS), "run `make docs`"


@pytest.mark.parametrize("name", [*kinrank.METHODS, "README"])
def test_pages_are_up_to_date(made: dict[Path, str], name: str) -> None:
    path = DOCS / "methods" / f"{name}.md"
    now, then = made[path], path.read_text("utf-8")
    # How many of 30 random pairs are found may differ by a few where a processor rounds differently.
    for count, before in zip(PAIRS.findall(now), PAIRS.findall(then), strict=True):
        assert abs(int(count) - int(before)) <= 3
    answer = r"\| one relevant item per query \|.*"
    assert re.sub(answer, "", now) == re.sub(answer, "", then), "run `make docs`"


@pytest.mark.parametrize("name", kinrank.METHODS)
def test_page_says_everything(name: str) -> None:
    """A page has three sentences or more, equation, every parameter, cost, odd input, slips and paper."""
    page, kind = (DOCS / "methods" / f"{name}.md").read_text("utf-8"), kinrank.METHODS[name]
    opening = page.split("## ")[0].split("Paper:")[0]
    assert len(re.findall(r"[.:](?:\s|$)", opening)) >= 3
    for heading in (
        "Equation",
        "Parameters",
        "Cost",
        "When it helps",
        "Unusual input",
        "Variants",
        "Example",
    ):
        assert f"## {heading}" in page
    for declared in kind.parameters():
        allowed = declared.allowed.replace("|", "\\|")
        row = f"| `{declared.name}` | `{declared.default!r}` | {allowed} | {declared.meaning} |"
        assert row.replace("|", "") in page.replace("|", "")
    assert "Helps" in page
    assert "Hurts" in page
    assert kind.paper in page


def test_formulas_are_those_of_the_docstrings(builder: ModuleType) -> None:
    """If a docstring's formula has changed, change the TeX in docs/generator/equations.md, then its checksum."""
    from generator.equations import compute_checksum, read_formulas
    from generator.pages import parse_docs

    plain = {name: "\n\n".join(parse_docs(kind).formula) for name, kind in kinrank.METHODS.items()}
    now = {name: compute_checksum(text) for name, text in plain.items() if text}
    assert {name: formula.checksum for name, formula in read_formulas().items()} == now


@pytest.mark.parametrize("page", [page for page in PAGES if "`$" in page.read_text("utf-8")], ids=named)
def test_formulas_become_mathml(builder: ModuleType, page: Path) -> None:
    pytest.importorskip("pypandoc", reason="`make docs` installs it")
    from generator.mathml import convert_formulas

    text = page.read_text("utf-8")
    assert len(convert_formulas(text)) == text.count("```math\n") + text.count("`$") > 0
    with pytest.raises(ValueError, match="nonsense"):
        convert_formulas(r"$`x`$ $`\nonsense{x}`$")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", text):
        target = "".join(target)
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        if page.parent.name == "generator":  # these texts become parts of pages in docs/ and docs/methods/
            assert any((folder / path).exists() for folder in (DOCS, DOCS / "methods")), target
            continue
        place = page.parent / path if path else page
        assert place.exists(), f"{target} is not there"
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{target}: no such heading"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def with_python() -> list[Path]:
    return [page for page in PAGES if blocks(page, "python")]


def modules_of(page: Path) -> list[str]:
    """Return the packages that a page about an engine or a framework needs."""
    if page.parent.name == "integrations" and page.stem != "README":
        return [FRAMEWORKS.get(page.stem, page.stem)]
    return [name.strip() for text in NEEDS.findall(page.read_text("utf-8")) for name in text.split(",")]


@pytest.mark.parametrize("page", with_python(), ids=named)
def test_python_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kinrank.testing import toy

    for module in modules_of(page):
        pytest.importorskip(module, reason=f"{module} is not installed: make test-stores installs every engine")
    monkeypatch.chdir(tmp_path)
    if "DATABASE_URL" in page.read_text("utf-8"):
        from engines.postgres import running

        monkeypatch.setenv("DATABASE_URL", running().database("docs"))
    data = toy("turntable")
    np.save("queries.npy", data.queries)
    np.save("gallery.npy", data.gallery)
    names: dict[str, Any] = {"np": np, "kinrank": kinrank, "kr": kinrank, **data._asdict()}
    printed = dict(PRINTED.findall(page.read_text("utf-8")))
    for number, block in enumerate(blocks(page, "python")):
        capsys.readouterr()
        exec(compile(block, f"{named(page)}, Python block {number}", "exec", dont_inherit=True), names)
        if block in printed:
            assert_prints(capsys.readouterr().out, printed[block])


def assert_prints(output: str, shown: str) -> None:
    """Check that a page shows what its block prints; another processor may round the last digit differently."""
    assert NUMBER.sub("#", output) == NUMBER.sub("#", shown), output
    for now, then in zip(NUMBER.findall(output), NUMBER.findall(shown), strict=True):
        assert float(now) == pytest.approx(float(then), rel=0.005), output


def commands(page: Path) -> list[str]:
    """Return lines that call kinrank, with continued lines joined; skip the output of commands."""
    lines = "\n".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    stripped = [line.strip().removeprefix("$").split(" #")[0].strip() for line in lines]
    return [line for line in stripped if line.startswith("kinrank ")]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=named)
def test_command_lines_parse(page: Path) -> None:
    for line in commands(page):
        parses(shlex.split(line)[1:])


def parses(words: list[str]) -> None:
    """Follow the verbs, let the last one parse its options without running it, and check a method's flags."""
    import typer

    from kinrank.cli.app import app
    from kinrank.cli.methods import parse_method
    from kinrank.methods import find_method

    command: Any = typer.main.get_command(app)
    if words == ["--version"]:
        return
    while hasattr(command, "commands"):
        assert words, f"{command.name} needs a verb"
        assert words[0] in command.commands, f"there is no verb {words[0]}"
        command, words = command.get_command(None, words[0]), words[1:]
    context = command.make_context(command.name, list(words))
    if command.name in ("rerank", "build"):
        parse_method(context.params["method"], context.args)
    if command.name == "methods" and context.params["name"]:
        find_method(context.params["name"])


def test_a_wrong_command_line_is_noticed() -> None:
    for line in ("rerank --gallery g.npy --theta 7 -o r.npz", "rerank --gallery g.npy --nothing 1 -o r.npz"):
        with pytest.raises(ValueError, match=r"theta|nothing"):
            parses(line.split())
    with pytest.raises(Exception, match="--depht"):
        parses(["evaluate", "r.npz", "--depht", "3"])


def test_lpmt_page_names_real_choices_and_all_of_them() -> None:
    page = (DOCS / "lpmt.md").read_text("utf-8")
    for name, value in re.findall(r'(\w+)="(\w+)"', page):
        LPMTAblation(**{name: value})  # it also has those of LPMT
    for declared in LPMTAblation.parameters():
        assert f"`{declared.name}" in page, f"{declared.name} is not explained"
        for choice in declared.choices or ():
            assert f'"{choice}"' in page, f"{declared.name}={choice!r} is not explained"


def test_citation_names_the_paper_and_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert "Locality Preserving Markovian Transition for Instance Retrieval" in text
    assert f"version: {kinrank.__version__}\n" in text
    assert re.findall(r"family-names: (\w+)", text) == ["Luo", "Wu", "Yao", "Yu", "Xu"]


def test_one_version() -> None:
    """The version is in kinrank/__init__.py; the package reads it there, and the changelog starts with it."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'dynamic = ["version", "readme"]' in project
    assert not re.search(r"^version\s*=", project, flags=re.MULTILINE)
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    assert changes[0] == kinrank.__version__


def test_only_numbers_that_were_measured(builder: ModuleType, tmp_path: Path) -> None:
    """Without records the choosing page has no table of numbers and no picture, only measuring instructions."""
    page = builder.which.page(builder.read(tmp_path))
    assert "kinrank bench accuracy" in page
    assert "figures/" not in page
    assert not re.search(r"\| \d+\.\d", page)


@pytest.fixture(scope="module")
def reference(builder: ModuleType) -> dict[str, str]:
    from generator.reference import reference

    pages: dict[str, str] = reference()
    return pages


def test_reference_holds_every_public_name_once(reference: dict[str, str]) -> None:
    """Each name of a public module has one entry, or a link to it; methods have their own pages."""
    from generator.reference import PUBLIC, names_of, path_of

    entries = re.findall(r"^::: (\S+)", "\n".join(reference.values()), flags=re.MULTILINE)
    assert len(entries) == len(set(entries)), "an object is described twice"
    for package in set(PUBLIC) - {"kinrank.methods"}:
        page = reference[path_of(package)]
        for name in names_of(package):
            assert f"heading: {name}\n" in page or f"[`{name}`][" in page, f"{package}.{name}"
    methods = reference[path_of("kinrank.methods")]
    assert all(f"\n## {kind.__name__} " in methods for kind in kinrank.METHODS.values())
    shown = {kind.__name__ for kind in kinrank.METHODS.values()} | {"Method", "METHODS"}
    assert set(names_of("kinrank")) == set(kinrank.__all__) - shown


def test_reference_holds_every_stage_and_room(reference: dict[str, str]) -> None:
    for room in ("stages", "manifold"):
        files = {path.stem for path in (ROOT / "src" / "kinrank" / room).glob("[!_]*.py")}
        assert {Path(page).stem for page in reference if page.startswith(f"reference/{room}/")} == files


def test_contributing_names_every_room() -> None:
    """The table of rooms is the list that the imports are checked against, row by row."""
    from test_imports import ORDER

    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("| module |")[1].split("\n\n")[0]
    rows = [re.findall(r"`([\w/]+)`", row.split("|")[1]) for row in table.splitlines()[2:]]
    assert rows == [[room.replace(".", "/") for room in rooms] for rooms in ORDER]


def table_under(page: Path, head: str) -> list[list[str]]:
    """Return the cells of the table that begins with this cell, without its heading."""
    rows = page.read_text("utf-8").split(f"| {head} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_table_of_fixed_sets_is_what_is_declared() -> None:
    from kinrank_bench.datasets.benchmark import BENCHMARKS

    declared = [
        [f"`{name}`", one.about, one.features, ", ".join(f"`{file}`" for file in one.files)]
        for name, one in BENCHMARKS.items()
    ]
    assert table_under(DOCS / "datasets.md", "name") == declared


def test_every_bench_is_in_the_table_of_benches() -> None:
    from kinrank_bench.commands import app as benches

    named = {row[0].strip("`") for row in table_under(ROOT / "benchmarks" / "README.md", "`kinrank bench`")}
    assert named == {command.name for command in benches.registered_commands}


def test_the_advice_about_right_answers_is_the_same_everywhere() -> None:
    advice = (DOCS / "generator" / "advice.md").read_text("utf-8").splitlines()[-1]
    assert advice.startswith("One relevant item: ")
    assert advice in (DOCS / "diagnose.md").read_text("utf-8")


def test_the_readme_is_a_landing_page() -> None:
    """It has few lines, a block whose output it shows, and the command of the tests."""
    readme = ROOT / "README.md"
    text = readme.read_text("utf-8")
    assert len(text.splitlines()) <= 150
    assert "manifold" not in text.split("\n## ")[0].lower()
    assert len(PRINTED.findall(text)) == 1
    assert re.findall(r"^\$ (make \w+)", blocks(readme, "console")[0], flags=re.MULTILINE) == ["make demo", "make test"]


def test_pages_show_the_urls_that_refusals_show() -> None:
    from kinrank.stores.url import ENGINES

    examples = [[f"`{example}`" for example in engine.load().url_examples] for engine in ENGINES.values()]
    assert [row[1] for row in table_under(ROOT / "README.md", "engine")] == [urls[0] for urls in examples]
    table = table_under(DOCS / "stores" / "README.md", "engine")
    assert [row[1] for row in table][: len(examples)] == [", ".join(urls) for urls in examples]


def test_the_home_page_has_the_picture_and_three_cards() -> None:
    text = (DOCS / "index.md").read_text("utf-8")
    hero, _, rest = text.partition('<div class="grid cards" markdown>')
    assert [f"before-and-after-{name}.png#only-{name}" in hero for name in ("light", "dark")] == [True, True]
    cards = re.findall(r"^-   \*\*(.+)\*\*$", rest, flags=re.MULTILINE)
    assert cards == ["I have vectors", "I have a vector database", "I have pictures or texts"]
    assert len(re.findall(r"^    \[[^\]]+\]\([\w/-]+\.md\)$", rest, flags=re.MULTILINE)) == len(cards), "a link each"
    sentence = re.search(r"kinrank improves .*?\.$", hero, flags=re.DOTALL | re.MULTILINE)
    assert sentence is not None
    assert " ".join(sentence[0].split()) in " ".join((ROOT / "README.md").read_text("utf-8").replace("**", "").split())


def test_the_pictures_of_the_readme_show_what_is_computed() -> None:
    pytest.importorskip("PIL", reason="reading the pictures needs Pillow: pip install '.[web]'")
    sys.path.insert(0, str(DOCS))
    from generator.before_and_after import NAMES, compute_example, read_description

    content = compute_example().describe()
    assert f'alt="{content}"' in (ROOT / "README.md").read_text("utf-8")
    for name in NAMES:
        assert read_description(DOCS / "figures" / f"before-and-after-{name}.png") == content, "run `make docs`"


def test_the_guide_lists_its_pages_and_they_are_short() -> None:
    listed = re.findall(
        r"^\| \[[^\]]+\]\(([\w-]+)\.md\)", (DOCS / "guide" / "README.md").read_text("utf-8"), flags=re.M
    )
    pages = {path.stem: path for path in (DOCS / "guide").glob("*.md") if path.stem != "README"}
    assert sorted(listed) == sorted(pages)
    assert all(len(path.read_text("utf-8").splitlines()) <= 100 for path in pages.values())


def test_the_api_lists_public_modules_only(reference: dict[str, str]) -> None:
    from generator.reference import INNER, PUBLIC, path_of

    linked = re.findall(r"\]\(([\w/]+\.md)\)", reference["reference/index.md"])
    assert linked == ["internals.md", *(path_of(name).removeprefix("reference/") for name in PUBLIC)]
    assert all(f"**{package}**" in reference["reference/internals.md"] for package in INNER)


def test_nothing_tells_to_install_from_an_index() -> None:
    """The package is not published: every command installs from a clone."""
    places = [ROOT / name for name in ("src", "bench", "docs", "examples", "benchmarks")]
    files = [path for place in places for path in place.rglob("*") if path.suffix in (".py", ".md", ".html", ".js")]
    found = [
        f"{named(path)}: {line}"
        for path in [*files, *ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "Dockerfile"]
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"pip install[^`]*[ '\"]kinrank", line)
    ]
    assert not found
