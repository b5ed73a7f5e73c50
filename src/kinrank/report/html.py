"""Pictures and texts -> one HTML file that needs nothing else: no network, no script, no other file."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinrank.files.atomic import replacing

STYLE = """
:root { --ink: #1c2530; --soft: #5b6673; --line: #dde3ea; --paper: #f6f8fa; --card: #fff;
  --good: #16874f; --bad: #cf3a34; --before: #8a94a3; --after: #2458c5; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header > div, footer { max-width: 1120px; margin: 0 auto; padding: 0 20px; }
header { background: var(--card); border-bottom: 1px solid var(--line); padding: 36px 0 28px; }
h1 { font-size: clamp(1.6rem, 4vw, 2.3rem); line-height: 1.2; margin: 0 0 .4em; letter-spacing: -.02em; }
h2 { font-size: 1.35rem; margin: 2.2em 0 .3em; letter-spacing: -.01em; }
h3 { font-size: 1.02rem; margin: 0 0 .2em; }
p { margin: .3em 0 .9em; max-width: 75ch; }
.soft, figcaption, small { color: var(--soft); }
a { color: var(--after); }
code { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
svg { max-width: 100%; height: auto; }
footer { padding-top: 24px; padding-bottom: 40px; color: var(--soft); font-size: .9rem; }
@media print { body { background: #fff; } }
"""


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


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def picture(image: NDArray[np.uint8], text: str, *, mark: str = "") -> str:
    """An <img> with the picture inside the page; `text` for those who do not see it, `mark` its CSS class."""
    height, width = image.shape[:2]
    data = base64.b64encode(png(image)).decode("ascii")
    kind = f' class="{escape(mark)}"' if mark else ""
    size = f'width="{width}" height="{height}"'
    return f'<img{kind} alt="{escape(text)}" {size} src="data:image/png;base64,{data}">'


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
