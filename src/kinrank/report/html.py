"""Pictures and texts -> one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinrank.files.atomic import replacing

WHAT = "re-ranks what a vector search found: it follows chains of near neighbours, so that right answers come first."
LIGHT = {
    "ink": "#1c2530", "soft": "#56616e", "line": "#dde3ea", "paper": "#f6f8fa", "card": "#ffffff", "good": "#137a46",
    "bad": "#c5322c", "before": "#7b8695", "after": "#2458c5", "grid": "#e6eaef", "guide": "#8c97a5",
}  # fmt: skip
DARK = {
    "ink": "#e4e9ef", "soft": "#a5b0bd", "line": "#303a46", "paper": "#0f141a", "card": "#182029", "good": "#3cc282",
    "bad": "#ff7b72", "before": "#8d99a9", "after": "#7fa9ff", "grid": "#2a333e", "guide": "#67758a",
}  # fmt: skip


def _colors(colors: dict[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in colors.items())


STYLE = (
    f"""
:root {{ color-scheme: light dark; {_colors(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_colors(DARK)} }} }}
@media print {{ :root {{ color-scheme: light; {_colors(LIGHT)} }} }}
"""
    + """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header > div { max-width: 1120px; margin: 0 auto; padding: 0 20px; }
main { padding-bottom: 56px; }
header { background: var(--card); border-bottom: 1px solid var(--line); padding: 22px 0 28px; }
.brand { max-width: none; margin: 0 0 26px; padding-bottom: 14px; border-bottom: 1px solid var(--line);
  color: var(--soft); }
.brand b { color: var(--after); font-size: 1.25rem; letter-spacing: -.01em; margin-right: .15em; }
h1 { font-size: clamp(1.6rem, 4vw, 2.3rem); line-height: 1.2; margin: 0 0 .4em; letter-spacing: -.02em; }
h2 { font-size: 1.35rem; margin: 2.2em 0 .3em; letter-spacing: -.01em; }
h3 { font-size: 1.02rem; margin: 0 0 .2em; }
p { margin: .3em 0 .9em; max-width: 75ch; }
.soft, figcaption, small { color: var(--soft); }
code, pre { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
code { overflow-wrap: anywhere; }
pre { margin: .3em 0 1.3em; padding: 12px 16px; overflow-x: auto; line-height: 1.6; background: var(--card);
  border: 1px solid var(--line); border-radius: 10px; }
pre code { font-size: 1em; overflow-wrap: normal; }
svg { max-width: 100%; height: auto; }
:focus-visible { outline: 3px solid var(--after); outline-offset: 2px; }
"""
)


def png(image: NDArray[np.uint8]) -> bytes:
    """A PNG file: (height, width) grey or (height, width, 3) red, green, blue, uint8.

    Each row is stored as the difference to the row above (filter 2), which compresses smooth pictures well.

    Example:
        >>> png(np.zeros((2, 2), np.uint8))[:4]
        b'\\x89PNG'
    """
    pixels = np.asarray(image)
    colors = {2: 1, 3: 3}.get(pixels.ndim)
    if pixels.dtype != np.uint8 or colors is None or (colors == 3 and pixels.shape[2] != 3) or not pixels.size:
        raise ValueError(
            f"image has shape {pixels.shape} and dtype {pixels.dtype}; give (height, width) or "
            "(height, width, 3) uint8 with at least one pixel"
        )
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, width * colors)
    lines = np.empty((height, 1 + rows.shape[1]), np.uint8)
    lines[:, 0] = 2
    lines[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=lines[1:, 1:])  # modulo 256, as the format wants it
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if colors == 1 else 2, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def coarse(images: NDArray[np.uint8], shades: int = 16) -> NDArray[np.uint8]:
    """The images with so many shades of each colour: noisy pictures take half the bytes, and look alike when small."""
    step = 255 / (shades - 1)
    table = np.rint(np.rint(np.arange(256) / step) * step).astype(np.uint8)
    return np.asarray(table[images])


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def picture(image: NDArray[np.uint8], text: str, *, mark: str = "") -> str:
    """An <img> with the picture inside the page; `text` for those who do not see it, `mark` its CSS class."""
    height, width = image.shape[:2]
    data = base64.b64encode(png(image)).decode("ascii")
    kind = f' class="{escape(mark)}"' if mark else ""
    size = f'width="{width}" height="{height}"'
    return f'<img{kind} alt="{escape(text)}" {size} src="data:image/png;base64,{data}">'


def masthead(title: str, body: str) -> str:
    """The top of every page: the product and what it is, the title (escaped here), and a body that is HTML already."""
    return (
        f'<header><div><p class="brand"><b>kinrank</b> {escape(WHAT)}</p><h1>{escape(title)}</h1>{body}</div></header>'
    )


def number_card(kind: str, heading: str, number: str, words: str, facts: Sequence[tuple[str, str]]) -> str:
    """A number to be seen from afar, what it is, and facts (term, value) below; all of it is HTML already."""
    rows = "".join(f"<dt>{term}</dt><dd>{value}</dd>" for term, value in facts)
    return (
        f'<section class="number {kind}"><h3>{heading}</h3><strong>{number}</strong> {words}<dl>{rows}</dl></section>'
    )


def document(title: str, body: str, style: str = "") -> str:
    """The whole page around a body that is HTML already; the title is escaped here."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def write_page(path: Path, text: str) -> Path:
    """Write the page beside its place and rename it there: readers see the old page or the whole new one."""
    path = Path(path)
    if path.is_dir():
        path = path / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
    return path
