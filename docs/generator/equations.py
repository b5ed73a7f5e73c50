"""Formulas of the methods in TeX, from equations.md in this folder."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple


class Formula(NamedTuple):
    """A formula as Markdown with TeX, and the checksum of the plain text that it was made from."""

    checksum: str
    text: str


def read_formulas() -> dict[str, Formula]:
    """The formula of every method by its name."""
    text = Path(__file__).with_suffix(".md").read_text("utf-8")
    sections = re.findall(r"^## (\S+) (\w+)\n\n(.+?)(?=\n\n## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return {name: Formula(checksum, text.strip()) for name, checksum, text in sections}


def compute_checksum(plain: str) -> str:
    """The checksum of a formula in a docstring; layout does not count."""
    return hashlib.sha256(" ".join(plain.split()).encode()).hexdigest()[:8]
