"""Further pages of the site (files outside docs/, examples, public names), its navigation and working links.

The Markdown files are written to be read in the repository. mkdocs calls the functions below while it
builds the site from them.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from importlib import resources
from pathlib import Path
from typing import Any

from markdown import Extension, Markdown
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from generator.mathml import Formulas  # noqa: E402
from generator.reference import INNER, PUBLIC, modules, path_of, reference  # noqa: E402

from kinrank import METHODS, __version__  # noqa: E402

TEXTS = {  # file of the repository -> page of the site
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "VISION.md": "vision.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
COPIES = {  # the same for files that are no pages
    "CITATION.cff": "CITATION.cff",
    "benchmarks/results.jsonl": "benchmarks/results.jsonl",
    "src/kinrank/web/page/icon.svg": "theme/logo.svg",
}
LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
MATH_FONT = resources.files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"
LONG_NAME = re.compile(r"(?<=<code>)[\w.:/]{30,}(?=</code>)")
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", flags=re.MULTILINE | re.DOTALL)


class NoTags(Extension):
    """`<F, S>` in a text is a product, not an HTML tag."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.deregister("html")


def on_config(config: Any) -> Any:
    """The navigation; methods, decisions and modules are listed automatically."""
    config.nav = [
        {"Home": "index.md"},
        {
            "Guide": [
                "guide/README.md",
                *_guide(),
                "photos.md",
                "encoders.md",
                "whitening.md",
                "scale.md",
                "examples.md",
            ]
        },
        {"Results": [{"Accuracy, speed, memory": "results.md"}, "which-method-when.md", "diagnose.md", "report.md"]},
        {
            "Methods": [
                {"All methods": "methods/README.md"},
                {"Learned methods": "learned.md"},
                *({name: f"methods/{name}.md"} for name in METHODS),
            ]
        },
        {"Serve": ["service/README.md", *_pages("service")]},
        {"Stores": ["stores/README.md", *_pages("stores")]},
        {"Frameworks": ["integrations/README.md", *_pages("integrations")]},
        {"Research": ["lpmt.md", "equations.md", "paper.md", "descriptors.md", "datasets.md", "thermodynamics.md"]},
        {"API": ["reference/index.md", *({name: path_of(name)} for name in PUBLIC)]},
        {
            "Project": [
                {"Contributing": "contributing.md"},
                {"Benchmarks": "benchmarks.md"},
                {"Vision": "vision.md"},
                {"Changes": "changelog.md"},
                {"Security": "security.md"},
                {"Decisions": ["decisions/README.md", *_pages("decisions")]},
                {
                    "Internals": [
                        "reference/internals.md",
                        *({package: [{_last(name): path_of(name)} for name in modules(package)]} for package in INNER),
                    ]
                },
            ]
        },
    ]
    config.copyright = f"kinrank {__version__}, Apache-2.0"
    config.markdown_extensions += [NoTags(), Formulas()]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Pages that have no file in docs/."""
    made = {page: _adapt_links(name, (ROOT / name).read_text("utf-8")) for name, page in TEXTS.items()}
    made |= {page: (ROOT / name).read_text("utf-8") for name, page in COPIES.items()}
    made["examples.md"] = _examples()
    for path, text in (made | reference()).items():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "theme/stix-two-math.ttf", content=MATH_FONT.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Redirect links that leave docs/ to the pages generated from their targets."""
    where = page.file.src_uri
    return markdown if page.file.generated_by else _adapt_links(f"docs/{where}", markdown, where)


def on_page_content(html: str, **_: Any) -> str:
    """Let long names in tables break after their parts, so that other columns have room."""
    return LONG_NAME.sub(lambda found: re.sub(r"([_.:/])(?=\w)", r"\1<wbr>", found[0]), html)


def _pages(folder: str) -> list[str]:
    """Every page in a folder of docs/ except its README."""
    return sorted(f"{folder}/{path.name}" for path in (ROOT / "docs" / folder).glob("*.md") if path.stem != "README")


def _guide() -> list[str]:
    """The pages of the guide, in the order of the table on its first page."""
    text = (ROOT / "docs" / "guide" / "README.md").read_text("utf-8")
    return [f"guide/{name}" for name in re.findall(r"^\| \[[^\]]+\]\(([\w-]+\.md)\)", text, flags=re.MULTILINE)]


def _last(module: str) -> str:
    return module.rpartition(".")[2]


def _adapt_links(name: str, text: str, page: str | None = None) -> str:
    """The text of a file in the repository, with links adapted to the site."""
    start = posixpath.dirname(page or TEXTS[name])

    def replace_link(found: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", found[1]):
            return found[1]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), found[1]))
        return posixpath.relpath(_page_of(target), start or ".")

    parts = CODE.split(text)
    return "".join(part if number % 2 else LINK.sub(replace_link, part) for number, part in enumerate(parts))


def _page_of(target: str) -> str:
    """The page of the site for a file or folder in the repository."""
    pages = TEXTS | COPIES | {"README.md": "index.md"}
    if target in pages:
        return pages[target]
    if target.startswith("examples"):
        return "examples.md"
    if target.startswith("src/kinrank/methods"):
        return path_of("kinrank.methods")
    if target.startswith("src/"):
        module = os.path.splitext(target.removeprefix("src/"))[0].replace("/", ".")
        return path_of(module) if target.endswith(".py") else "reference/index.md"
    inside = target.removeprefix("docs/")
    return f"{inside}/README.md" if (ROOT / target).is_dir() else inside


def _examples() -> str:
    parts = ["# Examples", "Short scripts from the folder `examples/`, run by the tests."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        parts += [f"## {path.name}", f"```python\n{path.read_text('utf-8').rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"
