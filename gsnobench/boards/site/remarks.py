"""Remarks of a person on a track or a board: a little Markdown, and nothing else of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gsnobench.boards.site.html import Html, coded, tag
from gsnobench.boards.site.surroundings import Surroundings


def paragraphs(remarks: str, around: Surroundings) -> Iterator[Html]:
    """Remarks of a person, each a paragraph."""
    return (tag("p", _remark(text, around)) for text in remarks.split("\n\n"))


def _remark(text: str, around: Surroundings) -> Iterator[Html | str]:
    """A remark in Markdown: backticks are code, and a link to a file that is there is a link."""
    for part in re.split(r"(\[[^\]]*\]\([^)]*\))", text):
        if link := re.fullmatch(r"\[([^\]]*)\]\(([^)]*)\)", part):
            address = around.linked_note(link[2])
            yield tag("a", link[1], href=address) if address else link[1]
        else:
            yield from _emphasised(part)


def _emphasised(words: str) -> Iterator[Html | str]:
    """Words in which stars mark emphasis; other text is shown as it is."""
    for part in re.split(r"(?<![\w*])(\*\w[^*`]*\w\*)(?![\w*])", words):
        is_marked = len(part) > 2 and part[0] == part[-1] == "*"
        yield tag("em", part[1:-1]) if is_marked else coded(part)
