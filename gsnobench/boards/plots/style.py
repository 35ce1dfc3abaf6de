"""One look for all plots of boards: a colour a model, a marker a row, SVG that takes its ink from
the page it stands in.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Sheet
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from gsnobench.boards.board import Row
from gsnobench.boards.wording import number
from gsnobench.files import digest

INK = "#010203"  # stands for the colour of the page's text, and is replaced by it
PAPER_INK = "#222222"  # of a picture that brings its own page
SMALL, NORMAL, LARGE = 7.5, 9.0, 11.5  # points
GREY = "#808080"  # floors: readable on white and on black
# Okabe and Ito without yellow, which white paper swallows, and with ink for their black
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h", "<", ">", "d")
# chosen so that the models of the first boards fall on different looks; a change recolours
# everything
SALT = 166717
LONGEST = 28  # letters of a label


@dataclass(frozen=True)
class Figure:
    """A plot ready to be put into a page; the caption is what a reader who cannot see it is told."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Look:
    """How a row is drawn, in whichever plot."""

    colour: str
    marker: str


def look(row: Row) -> Look:
    """By name alone, so that a model keeps its colour on every board, a stranger's too."""
    return named_look(row.model, row.entries[0].spec.row, is_floor=row.is_floor)


def named_look(model: str, row: str, *, is_floor: bool) -> Look:
    colour = GREY if is_floor else COLOURS[_draw(model) % len(COLOURS)]
    return Look(colour, MARKERS[_draw(row) % len(MARKERS)])


def _draw(name: str) -> int:
    return int(digest([SALT, name])[:8], 16)


def label(text: str) -> str:
    """One short line."""
    line = printable(text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def printable(text: str) -> str:
    """On one line, without what XML cannot hold."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


# ------------------------------------------------------------------------------------------- sheets


class Drawing:
    """A sheet measured in inches from its lower left corner; ink is that of the page, or that of
    paper.
    """

    def __init__(self, width: float, height: float, ink: str = INK) -> None:
        self.width, self.height, self.ink = width, height, ink
        self.sheet = Sheet(figsize=(width, height), dpi=72)
        self.sheet.patch.set_alpha(0.0)

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Axes with the two spines that carry numbers."""
        place = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        axes = self.sheet.add_axes(place)
        axes.patch.set_alpha(0.0)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(self.ink)
            spine.set_linewidth(0.6)
        axes.tick_params(colors=self.ink, labelsize=SMALL, width=0.6, length=3)
        return axes

    def text(self, axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
        """Text in data coordinates; dollars are dollars, not formulas."""
        settings: dict[str, Any] = {
            "fontsize": SMALL,
            "color": self.ink,
            "va": "center",
            "parse_math": False,
            **style,
        }
        axes.text(x, y, text, **settings)

    def name_axis(self, axes: Axes, text: str, side: str = "x") -> None:
        (axes.set_xlabel if side == "x" else axes.set_ylabel)(
            text, fontsize=SMALL + 0.5, color=self.ink
        )

    def svg(self, name: str, caption: str) -> str:
        """Text stays text, no date, no random ids: the same drawing is the same bytes."""
        FigureCanvasSVG(self.sheet)
        out = io.StringIO()
        settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": name}
        with matplotlib.rc_context(settings), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # glyphs that our font lacks: the reader's has them
            self.sheet.savefig(
                out,
                format="svg",
                metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
            )
        return _inlined(out.getvalue(), caption)


def _inlined(svg: str, caption: str) -> str:
    """The bare element: scalable, in the page's ink and font, without the names that two plots of a
    page would share.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->|<defs>\s*</defs>",
        "",
        body,
        flags=re.DOTALL,
    )
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r"<[^>]*>", lambda tag: _lighter(tag[0]), body)
    body = re.sub(r">\s+<", "><", body)
    box = re.search(r'viewBox="([^"]*)"', body)
    assert box is not None
    # a small plot is not blown up, a large one not shrunk until nobody can read it
    wide = float(box[1].split()[2])
    opening = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{box[1]}" role="img" '
        f'style="min-width: {wide:.0f}px; max-width: {1.7 * wide:.0f}px" '
        f'aria-label="{escape(printable(caption))}">'
    )
    return opening + body[body.index(">") + 1 :].strip()


def _lighter(tag: str) -> str:
    """Two decimals are enough on a screen; the sentinel gives way to the page's ink, our font to
    the page's.
    """
    tag = re.sub(r"(\d\.\d\d)\d+", r"\1", tag).replace(INK, "currentColor")
    # how older matplotlib writes it
    tag = re.sub(r"font: (?:\w+ )*?([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
    return re.sub(r' transform="rotate\(-0 [^"]*"|font-family: [^;"]*; ', "", tag)


def readable_on(colour: Sequence[float]) -> str:
    """Black or white, whichever stands out more from a colour (relative luminance as WCAG has it):
    4.5 at the least.
    """
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]
    ]
    return "black" if np.dot(parts, (0.2126, 0.7152, 0.0722)) > 0.179 else "white"


# --------------------------------------------------------------------------------------------- axes


def log_axis(axes: Axes, side: str, values: Sequence[float]) -> None:
    """Decades, or 1-2-5 steps where there are few; limits a little outside the values."""
    low, high = min(values), max(values)
    margin = max((high / low) ** 0.06, 1.08)
    axis = axes.xaxis if side == "x" else axes.yaxis
    (axes.set_xscale if side == "x" else axes.set_yscale)("log")
    (axes.set_xlim if side == "x" else axes.set_ylim)(low / margin, high * margin)
    decades = np.log10(high / low)
    axis.set_major_locator(
        LogLocator(
            subs=(1.0,) if decades > 2.2 else (1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)
        )
    )
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def short(value: float) -> str:
    """A tick: 0.002, 30, 4k, 2M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}" if value >= 1e-4 or value == 0 else number(value, 1)


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places for labels as near to their heights as a gap between them allows, in the order given
    (rising).
    """
    if not heights:
        return []
    gap = min(gap, (high - low) / max(len(heights) - 1, 1))
    groups: list[tuple[float, int]] = []  # (place of the first, how many)
    for height in heights:
        groups.append((height, 1))
        while len(groups) > 1 and groups[-2][0] + groups[-2][1] * gap > groups[-1][0]:
            (one, many), (other, more) = groups[-2:]
            centre = (
                many * (one + gap * (many - 1) / 2) + more * (other + gap * (more - 1) / 2)
            ) / (many + more)
            groups[-2:] = [(centre - gap * (many + more - 1) / 2, many + more)]
    places = [first + gap * place for first, many in groups for place in range(many)]
    last = len(places) - 1
    return [
        min(max(place, low + gap * below), high - gap * (last - below))
        for below, place in enumerate(places)
    ]
