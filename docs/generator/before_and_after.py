"""The picture of the README: one query of the toys of `make demo`, before and after re-ranking, and a chain."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kinrank as kr
from kinrank.chain import Chain
from kinrank.datasets.turntable import turntable
from kinrank.plots import DARK, LIGHT
from kinrank.report.demo import embed_pixels

QUERY, ITEM = 743, 752  # two views of the castle, 45 degrees apart
NAMES = {"light": LIGHT, "dark": DARK}
WIDTH, HEIGHT, SCALE = 1200, 590, 1.6  # of the drawing, in units; pixels per unit
SHOWN = 13  # results in a row
THUMB = 62
COLORS = 256


class Example(NamedTuple):
    """Numbers of items, the first results first; `right` tells which items show the toy of the query."""

    images: Any
    right: Any
    before: Any
    after: Any
    chain: Chain

    @property
    def relevant(self) -> int:
        return int(self.right.sum()) - 1  # without the query

    def count(self, ranking: Any) -> int:
        """The relevant items among as many results as there are relevant items."""
        return int(self.right[ranking[: self.relevant]].sum())

    @property
    def ranks(self) -> tuple[int, int]:
        """The rank of ITEM before and after, from 1."""
        first, last = (int(np.flatnonzero(ranking == ITEM)[0]) + 1 for ranking in (self.before, self.after))
        return first, last

    def describe(self) -> str:
        """The content of the picture in sentences: its alternative text, which is stored in the file."""
        first, last = self.ranks
        return (
            f"Before re-ranking, {self.count(self.before)} of the first {self.relevant} results show the toy of the "
            f"query, afterwards {self.count(self.after)}. A chain of {len(self.chain.costs)} small steps moves another "
            f"view from rank {first} to rank {last}."
        )


def compute_example() -> Example:
    """Render the toys, rank them without and with LPMT, and explain one result."""
    images, labels, _ = turntable()
    vectors = embed_pixels(images)
    before, after = (kr.rerank(None, vectors, method).indices[QUERY] for method in ("none", "lpmt"))
    chain = kr.explain(None, vectors, query=QUERY, item=ITEM)
    return Example(images, labels == labels[QUERY], before, after, chain)


def update_pictures(folder: Path) -> list[Path]:
    """Draw the pictures whose content has changed, or that are missing; return their paths."""
    example, written = compute_example(), []
    for name, theme in NAMES.items():
        path = folder / f"before-and-after-{name}.png"
        if not path.is_file() or read_description(path) != example.describe():
            _draw(example, theme, path)
            written.append(path)
    return written


def read_description(path: Path) -> str:
    """The sentence that is stored in a picture."""
    from PIL import Image

    with Image.open(path) as picture:
        return str(picture.info.get("Description", ""))


def _draw(example: Example, theme: dict[str, str], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyBboxPatch
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    figure = plt.figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100 * SCALE)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    axes.axis("off")
    card = FancyBboxPatch((2, 2), WIDTH - 4, HEIGHT - 4, boxstyle="round,pad=0,rounding_size=18", lw=1.2)
    card.set(facecolor=theme["card"], edgecolor=theme["line"])
    axes.add_patch(card)
    page = _Page(axes, example, theme)
    page.results(34, "Plain search", "before", example.before)
    page.results(220, "Re-ranked by kinrank", "after", example.after)
    page.chain(414)
    drawn = io.BytesIO()
    figure.savefig(drawn, transparent=True)
    plt.close(figure)
    about = PngInfo()
    about.add_text("Description", example.describe())
    palette = Image.open(drawn).quantize(COLORS, method=Image.Quantize.FASTOCTREE)  # a third of the size
    palette.save(path, optimize=True, pnginfo=about)


class _Page:
    """Rows of the picture, drawn in units from the upper left corner."""

    def __init__(self, axes: Any, example: Example, theme: dict[str, str]) -> None:
        self.axes, self.example, self.theme = axes, example, theme

    def text(self, x: float, y: float, text: str, size: float, color: str = "ink", **more: Any) -> None:
        self.axes.text(x, y, text, size=size, color=self.theme[color], va="center", **more)

    def picture(self, x: float, y: float, item: int, size: float, color: str, width: float = 3) -> None:
        """Draw an item with a frame."""
        from matplotlib.patches import Rectangle

        place = (x, x + size, y + size, y)
        self.axes.imshow(self.example.images[item], extent=place, interpolation="lanczos", aspect="auto", zorder=2)
        frame = Rectangle((x, y), size, size, fill=False, edgecolor=self.theme[color], linewidth=width, zorder=3)
        self.axes.add_patch(frame)

    def results(self, top: float, title: str, color: str, ranking: Any) -> None:
        """A heading with the count, the first results, and a mark for as many results as there are relevant items."""
        from matplotlib.patches import Rectangle

        example, left = self.example, 190
        self.text(left, top + 10, title, 15, color, weight="bold")
        count = f"{example.count(ranking)} of {example.relevant} right"
        self.text(WIDTH - 36, top + 10, count, 19, color, weight="bold", ha="right")
        self.picture(36, top + 30, QUERY, 110, "ink", 3.5)
        self.text(91, top + 10, "query", 11.5, "soft", ha="center")
        step = (WIDTH - 36 - left - THUMB) / (SHOWN - 1)
        for place, item in enumerate(ranking[:SHOWN]):
            self.picture(left + place * step, top + 34, item, THUMB, "good" if example.right[item] else "bad")
        cell = (WIDTH - 36 - left) / example.relevant
        for place, item in enumerate(ranking[: example.relevant]):
            good = example.right[item]
            high = 24 if good else 12
            mark = Rectangle((left + place * cell, top + 136 - high), cell - 3, high)
            mark.set(facecolor=self.theme["good" if good else "bad"], edgecolor="none")
            self.axes.add_patch(mark)
        self.text(left, top + 150, f"rank 1 to {example.relevant}, green: the toy of the query", 10.5, "soft")

    def chain(self, top: float) -> None:
        """The items of the chain, with arrows and the share of each step."""
        chain, size, left = self.example.chain, 78, 36
        first, last = self.example.ranks
        self.text(left, top + 8, "Why? A chain of small steps", 15, "ink", weight="bold")
        self.text(WIDTH - 36, top + 8, f"this view: rank {first} → {last}", 15, "after", weight="bold", ha="right")
        links = chain.items
        gap = (WIDTH - 72 - size * len(links)) / max(len(links) - 1, 1)
        for place, item in enumerate(links):
            x = left + place * (size + gap)
            self.picture(x, top + 34, item, size, "ink" if place == 0 else "good")
            if place:
                arrow = {"arrowstyle": "-|>", "color": self.theme["after"], "lw": 2, "shrinkA": 2, "shrinkB": 2}
                self.axes.annotate("", (x - 3, top + 73), (x - gap + 3, top + 73), arrowprops=arrow)
                self.text(x - gap / 2, top + 57, f"{chain.shares[place - 1]:.0%}", 10.5, "soft", ha="center")
        note = "Each step is between near neighbours. Percentages are shares of the cost of the chain."
        self.text(left, top + 136, note, 10.5, "soft")
