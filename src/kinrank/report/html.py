"""Parts of self-contained HTML pages: styles, embedded pictures, headers. Pages need no network and no other file."""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.files.atomic import atomic_write
from kinrank.plots import DARK, LIGHT, css_colors

PRODUCT_SUMMARY = (
    "re-ranks the results of a vector search: it follows chains of near neighbours, so that right answers come first."
)


ASSETS = Path(__file__).with_name("page")  # styles and scripts


@functools.cache
def read_asset(name: str) -> str:
    """Return a style or a script of the pages."""
    return (ASSETS / name).read_text(encoding="utf-8")


def _theme_style() -> str:
    """Return the colours as CSS variables, for light and dark mode."""
    light, dark = css_colors(LIGHT), css_colors(DARK)
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media print {{ :root {{ color-scheme: light; {light} }} }}\n"
    )


def encode_png(image: NDArray[np.uint8]) -> bytes:
    r"""Encode an image as PNG: (height, width) grey or (height, width, 3) red, green, blue, uint8.

    Each row is stored as the difference to the row above (filter 2), which compresses smooth pictures well.

    Example:
        >>> encode_png(np.zeros((2, 2), np.uint8))[:4]
        b'\x89PNG'
    """
    pixels = np.asarray(image)
    colors = {2: 1, 3: 3}.get(pixels.ndim)
    if pixels.dtype != np.uint8 or colors is None or (colors == 3 and pixels.shape[2] != 3) or not pixels.size:
        raise InputError(
            f"has shape {pixels.shape} and dtype {pixels.dtype}",
            parameter="image",
            allowed="(height, width) or (height, width, 3) uint8 with at least one pixel",
        )
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, width * colors)
    lines = np.empty((height, 1 + rows.shape[1]), np.uint8)
    lines[:, 0] = 2
    lines[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=lines[1:, 1:])  # modulo 256, as the format requires
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if colors == 1 else 2, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    chunks = _png_chunk(b"IHDR", header) + _png_chunk(b"IDAT", body) + _png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def reduce_shades(images: NDArray[np.uint8], shades: int = 16) -> NDArray[np.uint8]:
    """Reduce the shades of each colour: noisy pictures take half the bytes and look the same when small."""
    step = 255 / (shades - 1)
    table = np.rint(np.rint(np.arange(256) / step) * step).astype(np.uint8)
    return np.asarray(table[images])


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def masthead(title: str, body: str) -> str:
    """Return the top of a page: product, title (escaped here) and a body that is already HTML."""
    brand = f'<p class="brand"><b>kinrank</b> {escape(PRODUCT_SUMMARY)}</p>'
    return f"<header><div>{brand}<h1>{escape(title)}</h1>{body}</div></header>"


def number_card(kind: str, heading: str, number: str, words: str, facts: Sequence[tuple[str, str]]) -> str:
    """Return a card with a large number, its meaning, and facts (term, value) below; all texts are already HTML."""
    rows = "".join(f"<dt>{term}</dt><dd>{value}</dd>" for term, value in facts)
    return (
        f'<section class="number {kind}"><h3>{heading}</h3><strong>{number}</strong> {words}<dl>{rows}</dl></section>'
    )


def document(title: str, body: str, style: str = "") -> str:
    """Return the whole page around a body that is already HTML; the title is escaped here."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_theme_style()}{read_asset('page.css')}{style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def write_page(path: Path, text: str) -> Path:
    """Write the page atomically: readers see the old page or the complete new one. A folder gets index.html."""
    path = Path(path)
    if path.is_dir():
        path = path / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))
    return path


def query_choice_style(queries: list[int]) -> str:
    """Show only the chosen query, if the browser supports :has(); other browsers show all queries."""
    shown = ", ".join(f".chooser:has(#pick-{query}:checked) #query-{query}" for query in queries)
    return f"@supports selector(:has(*)) {{ .chooser article {{ display: none; }} {shown} {{ display: grid; }} }}\n"
