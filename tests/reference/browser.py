"""Pages in a real browser. Tests are skipped if chromium is not installed."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def seen_in(page: str, look: str, folder: Path, width: int, dark: bool = False) -> Any:
    """Run the body of a JavaScript function in the page at this width; return its result. No network, no other file."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(PROGRAMS)} is installed")
    frame = folder / "frame.html"
    (folder / "page.html").write_text(page, encoding="utf-8")
    # a headless window is never narrower than 500, but a frame can be
    frame.write_text(
        f'<iframe id="page" src="page.html" style="border:0;width:{width}px;height:900px"></iframe>'
        '<pre id="said"></pre>'
        "<script>onload = () => {"
        'const inner = document.getElementById("page").contentWindow;'
        f"const found = inner.eval({json.dumps(f'(() => {{{look}}})()')});"
        'document.getElementById("said").textContent = JSON.stringify(found); };</script>',
        encoding="utf-8",
    )
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    flags += [f"--user-data-dir={folder / 'browser'}", "--virtual-time-budget=10000", "--window-size=1600,1000"]
    flags += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    done = subprocess.run([program, *flags, frame.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    message = re.search(r'<pre id="said">(.+?)</pre>', done.stdout)
    assert message, done.stderr[-2000:]
    return json.loads(html.unescape(message[1]))
