"""One style for all plots: a colour per model, a marker per row, SVG in the page's ink."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Sheet

from gsnobench.boards.board import Row
from gsnobench.boards.evidence import printable
from gsnobench.drawing.rules import SMALL
from gsnobench.files import digest
from gsnobench.registry import read_registry

INK = "#010203"  # a placeholder that the colour of the page's text replaces
# each has a contrast of at least 4.5 to the white page, and is far from the others
GREY = "#757575"  # floors
COLOURS = (
    *("#be5400", "#0072b2", "#008457", "#c2409b", "#9b6b00"),
    *("#865dd0", "#df2949", "#008096", "#5f7f00", "#9a6a4d"),
)
# the same for the dark page
DARK_GREY = "#848484"
DARK_COLOURS = (
    *("#d55e00", "#0087d3", "#009461", "#c957a7", "#ad7800"),
    *("#936fd5", "#e44864", "#008fa8", "#6b8e00", "#ab7656"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h", "<", ">", "d")
SALT = 78  # gives the usual presets different markers; a change gives all rows others
LONGEST = 28  # letters of a label
SMALLEST = 1.4  # scale of a plot on a phone, which scrolls it: its letters have 10 pixels


@dataclass(frozen=True)
class Figure:
    """A plot ready to be put into a page; the caption is also its text for screen readers."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class RowStyle:
    """How a row is drawn, in whichever plot."""

    colour: str
    marker: str


def row_style(row: Row) -> RowStyle:
    """From its name alone, so that a model has one colour on all boards, a stranger's too."""
    return named_style(row.model, row.entries[0].spec.row, is_floor=row.is_floor)


def named_style(model: str, row: str, *, is_floor: bool) -> RowStyle:
    """The style of a row by its names alone: models of the table have colours of their own."""
    preset = row.partition("@")[2]
    if is_floor:
        return RowStyle(GREY, MARKERS[_position(model, _tables()[1]) % len(MARKERS)])
    position = _position(model, _tables()[0])
    marker = MARKERS[(position + _draw(preset)) % len(MARKERS)]
    return RowStyle(COLOURS[position % len(COLOURS)], marker)


def numbered_style(number: int) -> RowStyle:
    """The style of one of several lines that are no rows, such as tasks."""
    return RowStyle(COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)])


@cache
def _tables() -> tuple[Sequence[str], Sequence[str]]:
    """Models and floors in the order of the registry."""
    registry = read_registry()
    return registry.styled_models, registry.floors


def _position(name: str, table: Sequence[str]) -> int:
    return table.index(name) if name in table else _draw(name)


def _draw(name: str) -> int:
    return int(digest([SALT, name])[:8], 16)


def label(text: str) -> str:
    """One short line."""
    line = one_line(text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def one_line(text: str) -> str:
    """Without line breaks, repeated spaces and what XML cannot hold."""
    return " ".join(printable(text).split())


# ------------------------------------------------------------------------------------------- themes


def theme_colours(*, is_dark: bool) -> str:
    """The colours of rows as properties of a style sheet, which plots refer to."""
    colours = [DARK_GREY, *DARK_COLOURS] if is_dark else [GREY, *COLOURS]
    return " ".join(f"--row{number}: {colour};" for number, colour in enumerate(colours))


def _themed(tag: str) -> str:
    """An element with properties of the page in place of the colours of the white page."""
    for number, colour in enumerate((GREY, *COLOURS)):
        tag = tag.replace(colour, f"var(--row{number}, {colour})")
    return tag


# ------------------------------------------------------------------------------------------- sheets


class Drawing:
    """A sheet measured in inches from its lower left corner, in the ink of the page or of paper."""

    def __init__(self, width: float, height: float, ink: str = INK) -> None:
        self.width, self.height, self.ink = width, height, ink
        self.sheet = Sheet(figsize=(width, height), dpi=72)
        self.sheet.patch.set_alpha(0.0)

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Axes with the two spines that carry numbers."""
        box = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        axes = self.sheet.add_axes(box)
        axes.patch.set_alpha(0.0)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(self.ink)
            spine.set_linewidth(0.6)
        axes.tick_params(colors=self.ink, labelsize=SMALL, width=0.6, length=3)
        return axes

    def text(self, axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
        """Text in data coordinates; dollars are dollars, not formulas."""
        settings: dict[str, Any] = {"fontsize": SMALL, "color": self.ink, "va": "center", **style}
        axes.text(x, y, text, parse_math=False, **settings)

    def name_axis(self, axes: Axes, text: str, side: str = "x") -> None:
        name = axes.set_xlabel if side == "x" else axes.set_ylabel
        name(text, fontsize=SMALL + 0.5, color=self.ink)

    def figure(self, name: str, title: str, caption: str) -> Figure:
        """The finished drawing with its words."""
        return Figure(name, title, caption, self.svg(name, f"{title}. {caption}"))

    def svg(self, name: str, caption: str) -> str:
        """Text stays text, no date, no random ids: the same drawing is the same bytes."""
        FigureCanvasSVG(self.sheet)
        out = io.StringIO()
        settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": name}
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with matplotlib.rc_context(settings), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # glyphs that our font lacks: the reader's has them
            self.sheet.savefig(out, format="svg", metadata=no_metadata)
        return _inlined(out.getvalue(), caption)


def _inlined(svg: str, caption: str) -> str:
    """The bare element, scalable, in the page's ink and font.

    Without ids of groups, which two plots of a page would share.
    """
    body = svg[svg.index("<svg") :]
    unused = r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->|<defs>\s*</defs>"
    body = re.sub(unused, "", body, flags=re.DOTALL)
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
        f'style="min-width: {SMALLEST * wide:.0f}px; max-width: {1.7 * wide:.0f}px" '
        f'aria-label="{escape(one_line(caption))}">'
    )
    return opening + body[body.index(">") + 1 :].strip()


def _lighter(tag: str) -> str:
    """With two decimals, which are enough on a screen, and the page's ink and font."""
    tag = _themed(re.sub(r"(\d\.\d\d)\d+", r"\1", tag)).replace(INK, "currentColor")
    # the form of older matplotlib
    tag = re.sub(r"font: (?:\w+ )*?([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
    return re.sub(r' transform="rotate\(-0 [^"]*"|font-family: [^;"]*; ', "", tag)
