"""Formulas of a page as MathML: no script, no font, no request."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

# what pymdownx.arithmatex leaves: \(...\) in a line, \[...\] as a block
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def rendered(page: str) -> str:
    """The page with every formula drawn by the browser itself."""
    page = BLOCK.sub(lambda match: _mathml(match[1], "block"), page)
    return INLINE.sub(lambda match: _mathml(match[1], "inline"), page)


def _mathml(formula: str, display: str) -> str:
    return convert(html.unescape(formula).strip(), display=display)
