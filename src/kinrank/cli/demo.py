"""`kinrank demo`: toys drawn on the spot -> a page that shows what re-ranking does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinrank.cli.output import Json, Quiet, bars, print_json, table, writable
from kinrank.report.demo import run_demo


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path("kinrank-demo.html"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Re-rank pictures of toys on a turntable and write a page that shows it. Needs no data, no network."""
    writable(output, (".html", ".htm"))
    facts = run_demo(output, bars(quiet))
    if json:
        print_json(facts)
    if json or quiet:
        return
    rows = [("method", "mAP", "95 % interval", "R@1", "seconds")]
    for name, found in facts["methods"].items():
        average, first = found["mAP"], found["R@1"]
        interval = f"{100 * average['low']:.1f} to {100 * average['high']:.1f}"
        cells = (
            f"{100 * average['mean']:.2f}",
            interval,
            f"{100 * first['mean']:.2f}",
            f"{found['seconds']:.2f}",
        )
        rows.append((name, *cells))
    print(f"{facts['items']} pictures of {facts['objects']} toys, each queries the others ({facts['mode']})\n")
    print(table(rows, right=(1, 2, 3, 4)))
    print(f"\nThe page: {facts['page']}")
