"""Formulas on the site: TeX becomes MathML when the site is built, which browsers show without a script.

The Markdown files hold TeX as GitHub reads it: blocks between "```math" and "```", and $`x`$ within a line.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

BEFORE_CODE = 195  # priority of inline patterns: that of `code` is 190


class InlineFormulas(Extension):
    """$`x`$ within a line."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_InlineFormula(r"\$`([^`]+)`\$", md), "formula", BEFORE_CODE)


class _InlineFormula(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # type: ignore[override]
        assert self.md is not None
        return self.md.htmlStash.store(to_mathml(m[1], "inline")), m.start(), m.end()


def format_block(source: str, *_: Any, **__: Any) -> str:
    """A block, as a formatter of pymdownx.superfences."""
    return f'<div class="formula">{to_mathml(source, "block")}</div>'


def to_mathml(tex: str, display: str) -> str:
    """MathML with the TeX as its alternative text. A command that the converter does not know is an error."""
    converted = convert(tex, display=display)
    if unknown := re.findall(r"\\[a-zA-Z]+", converted):
        raise ValueError(f"unknown TeX commands {unknown} in {tex!r}")
    return converted.replace("<math ", f'<math alttext="{escape(" ".join(tex.split()))}" ', 1)
