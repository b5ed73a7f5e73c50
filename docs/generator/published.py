"""Paragraphs about the published program of each method, from published.md in this folder."""

from __future__ import annotations

import re
from pathlib import Path


def read_published_notes() -> dict[str, str]:
    """Name of a method -> a paragraph; a heading may name several methods."""
    text = Path(__file__).with_name("published.md").read_text("utf-8")
    sections = re.findall(r"^## ([^\n]+)\n\n(.+?)(?=\n\n## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for names, text in sections for name in names.split()}
