"""Formulas and units: MathML that is rebuilt element by element, and units with superscripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from gsnobench.boards.site.html import Html, tag

# what a formula is made of; anything else becomes its text
ELEMENTS = frozenset({"math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "msub", "msup"})
ELEMENTS |= {"msubsup", "mfrac", "msqrt", "mover", "munder", "mstyle", "mtable", "mtr", "mtd"}
HIGH = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def formula(mathml: str) -> Html:
    """The formula; a text that is no MathML is shown as it is."""
    try:
        root = ElementTree.fromstring(mathml)
    except ElementTree.ParseError:
        return tag("code", mathml)
    return tag("math", _children(root), display="block")


def _children(element: ElementTree.Element) -> Iterator[Html | str]:
    yield element.text or ""
    for child in element:
        name = child.tag.rpartition("}")[2]
        if name in ELEMENTS:
            yield tag(name, _children(child), stretchy=child.get("stretchy"))
        else:
            yield from _children(child)
        yield child.tail or ""


def unit(text: str) -> str:
    """m s-1 becomes m s⁻¹; a pure number has no unit."""
    if text in ("", "1"):
        return "no unit"
    return re.sub(r"(?<=[A-Za-z])-?\d+", lambda power: power[0].translate(HIGH), text)
