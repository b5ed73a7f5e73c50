"""Formulas on the site: TeX becomes MathML when the site is built, which browsers show without a script.

The Markdown files hold TeX as GitHub reads it: blocks between "```math" and "```", and $`x`$ within a line.
"""

from __future__ import annotations

import re

import pypandoc
from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

FORMULA = re.compile(r"^```math\n(?P<block>.*?)^```$|\$`(?P<inline>[^`]+)`\$", flags=re.MULTILINE | re.DOTALL)
BEFORE_CODE = 28  # priority of preprocessors: blocks of code have 25


class Formulas(Extension):
    """Replace all formulas of a page."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(_Formulas(md), "formulas", BEFORE_CODE)


class _Formulas(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        text = "\n".join(lines)
        converted = iter(convert_formulas(text))

        def store(found: re.Match[str]) -> str:
            assert self.md is not None
            html = next(converted)
            return self.md.htmlStash.store(
                f'<div class="formula" tabindex="0">{html}</div>' if found["block"] else html
            )

        return FORMULA.sub(store, text).split("\n")


def convert_formulas(text: str) -> list[str]:
    """The formulas of a page as MathML, in their order."""
    found = list(FORMULA.finditer(text))
    if not found:
        return []
    source = [f"$${formula['block'].strip()}$$" if formula["block"] else f"${formula['inline']}$" for formula in found]
    html = pypandoc.convert_text("\n\n".join(source), "html", format="markdown", extra_args=["--mathml"])
    converted: list[str] = re.findall(r"<math .*?</math>", html, flags=re.DOTALL)
    if len(converted) != len(found):
        raise ValueError(f"pandoc cannot read all formulas: {re.sub(r'<math .*?</math>', '', html, flags=re.DOTALL)}")
    converted = [re.sub(r"<annotation .*?</annotation>", "", each, flags=re.DOTALL) for each in converted]
    return [each.replace('<mo accent="true">', '<mo accent="true" stretchy="false">') for each in converted]
