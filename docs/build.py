"""Write docs/methods/*.md and docs/which-method-when.md with its figures, from METHODS and the records in benchmarks/,
the numbers in README.md and in other pages of docs/, and the pictures of the README.

`python docs/build.py` writes the pages that changed; `--check` only lists them, and exits with 1 if there are any.
`--numbers` renews only the numbers, in seconds: after a measurement, or to mark the numbers of code that has changed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

from generator import (  # noqa: E402
    before_and_after,
    diagnosis,
    figure,
    learned,
    pages,
    paper,
    photos,
    readme,
    results,
    service,
    stores,
    which,
    whitening,
)
from generator.records import Measurements, read  # noqa: E402

from kinrank import METHODS  # noqa: E402

RESULTS = DOCS.parent / "benchmarks"
README = DOCS.parent / "README.md"
RESULTS_PAGE = DOCS / "results.md"
STORES = DOCS / "stores" / "README.md"
SERVICE = DOCS / "service" / "README.md"
PAPER = DOCS / "paper.md"
DIAGNOSE = DOCS / "diagnose.md"
PHOTOS = DOCS / "photos.md"
WHITENING = DOCS / "whitening.md"
LEARNED = DOCS / "learned.md"
PICTURE = DOCS / "figures" / "accuracy-against-time.svg"
REMEMBERED = DOCS / "figures" / "remembered-queries.svg"


def build(found: Measurements) -> dict[Path, str]:
    """Every generated page by its path."""
    made = build_numbers(found) | {DOCS / "methods" / "README.md": pages.index(METHODS)}
    for name, kind in METHODS.items():
        made[DOCS / "methods" / f"{name}.md"] = pages.page(kind, which.list_scores(found, name))
    return made


def build_numbers(found: Measurements) -> dict[Path, str]:
    """Every page with numbers by its path; on the pages of the methods, everything else stays as it is."""
    made = {
        DOCS / "which-method-when.md": which.page(found),
        README: readme.insert_numbers(README.read_text("utf-8"), readme.parts(found)),
        RESULTS_PAGE: readme.insert_numbers(RESULTS_PAGE.read_text("utf-8"), results.parts(found)),
        STORES: readme.insert_numbers(STORES.read_text("utf-8"), stores.parts(found)),
        SERVICE: readme.insert_numbers(SERVICE.read_text("utf-8"), service.parts(found)),
        PAPER: readme.insert_numbers(PAPER.read_text("utf-8"), paper.parts(found)),
        DIAGNOSE: readme.insert_numbers(DIAGNOSE.read_text("utf-8"), diagnosis.parts(found)),
        PHOTOS: readme.insert_numbers(PHOTOS.read_text("utf-8"), photos.parts(found)),
        LEARNED: readme.insert_numbers(LEARNED.read_text("utf-8"), learned.parts(found)),
        WHITENING: readme.insert_numbers(WHITENING.read_text("utf-8"), whitening.parts(found)),
    }
    for name in METHODS:
        path = DOCS / "methods" / f"{name}.md"
        if path.is_file():
            made[path] = pages.with_measured(path.read_text("utf-8"), which.list_scores(found, name))
    return made


def read_until() -> str:
    """The date of the newest record in the committed pages."""
    page = (DOCS / "which-method-when.md").read_text("utf-8")
    return str(re.findall(r"<!-- records until: (.*) -->", page)[0])


def main(arguments: list[str]) -> int:
    found = read(RESULTS)
    whole = "--numbers" not in arguments
    made = build(found) if whole else build_numbers(found)
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text("utf-8") != text]
    gone = [path for path in (DOCS / "methods").glob("*.md") if path not in made] if whole else []
    for path in stale + gone:
        print(path.relative_to(DOCS.parent), "is not up to date" if "--check" in arguments else "written")
    if "--check" in arguments:
        return 1 if stale or gone else 0
    (DOCS / "methods").mkdir(exist_ok=True)
    for path in stale:
        path.write_text(made[path], "utf-8")
    for path in gone:
        path.unlink()
    if whole:
        for path in before_and_after.update_pictures(DOCS / "figures"):
            content = before_and_after.read_description(path)
            print(f"{path.relative_to(DOCS.parent)} drawn; README.md has its content as alternative text: {content}")
    if found.panels:
        figure.draw_accuracy(found, PICTURE)
    if found.remembered:
        figure.draw_observed_queries(found, REMEMBERED)
    print(f"{len(made)} pages, {len(stale)} of them new")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
