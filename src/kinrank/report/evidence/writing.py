"""Vectors, what is right and a path -> the report as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from kinrank.evaluation import Truth
from kinrank.report.evidence.gathering import Evidence, gather
from kinrank.report.evidence.page import evidence_page
from kinrank.report.html import write_page


def report_page(
    output: str | Path, queries: ArrayLike | None, gallery: ArrayLike, truth: Truth, *more: Any, **settings: Any
) -> Evidence:
    """Write the report to an HTML file, whole or not at all; index.html in it where `output` is a folder.

    Args:
        output: the file.
        queries, gallery, truth: as in `compare_methods`.
        more, settings: as in `gather`.

    Returns:
        What the page shows; `evidence.trials` has the numbers.

    Example:
        >>> report_page("report.html", None, vectors, kinrank.Truth.from_labels(labels)).trials
    """
    found = gather(queries, gallery, truth, *more, **settings)
    write_page(Path(output), evidence_page(found))
    return found
