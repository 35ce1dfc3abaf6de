"""What the figures of studies share: colours, axes, and curves with the scatter of seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from gsnobench.drawing.page import Page
from gsnobench.drawing.rules import FAINT, GRID, LARGE, NORMAL, SMALL
from gsnobench.studies.statistics import geometric_mean

NARROW = 4.0  # a range below this factor has too few plain numbers for a logarithmic axis
MARKERS = "osD^vPX*<>"
Curve = Mapping[float, Sequence[float]]  # x -> errors of the seeds


def new_page(width: float, height: float, heading: str, title: str) -> Page:
    """A sheet with its heading, and below it what was studied."""
    page = Page(width, height)
    page.text(0.75, 0.25, heading, fontsize=LARGE, fontweight="bold")
    page.text(0.75, 0.5, title, fontsize=SMALL, color=FAINT)
    return page


def colours(labels: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Label -> colour and marker, the same in every panel."""
    shades = [to_hex(colour) for colour in matplotlib.colormaps["tab10"](range(10))]
    return dict(zip(dict.fromkeys(labels), zip(cycle(shades), cycle(MARKERS)), strict=False))


def style(axes: Axes, x_label: str, y_label: str) -> None:
    """Light grid, no frame on the right and at the top."""
    axes.set_xlabel(x_label, fontsize=NORMAL)
    axes.set_ylabel(y_label, fontsize=NORMAL)
    axes.grid(True, color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL)


def log_x(axes: Axes, values: Iterable[float]) -> None:
    """A logarithmic axis with a tick at each of few values."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sorted({float(value) for value in values})))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def log_y(axes: Axes) -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5; a linear one for a narrow range."""
    low, high = axes.dataLim.y0, axes.dataLim.y1
    if not 0 < NARROW * low < high:
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def log_ratios(axes: Axes) -> None:
    """A logarithmic x axis around 1, with as many plain numbers as it has room for."""
    low, high = axes.get_xlim()
    axes.set_xscale("log")
    low, high = min(max(low, 1e-3), 0.9) / 1.05, max(high, 1.1) * 1.05  # room for a marker
    axes.set_xlim(low, high)
    wide = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
    near = (0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5)
    ticks = [tick for tick in (wide if high / low > NARROW else near) if low <= tick <= high]
    axes.xaxis.set_major_locator(FixedLocator([float(tick) for tick in ticks]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def draw_curve(axes: Axes, curve: Curve, *, label: str, colour: str, marker: str = "o") -> None:
    """Geometric mean over seeds with the range of the seeds."""
    known = {x: list(errors) for x, errors in sorted(curve.items()) if errors}
    if not known:
        return
    low, high = ([end(errors) for errors in known.values()] for end in (min, max))
    axes.fill_between(list(known), low, high, color=colour, alpha=0.15, linewidth=0)
    means = [geometric_mean(errors).value for errors in known.values()]
    axes.plot(list(known), means, marker=marker, color=colour, ms=4, linewidth=1.3, label=label)


def legend_right(axes: Axes, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """A legend beside the panel, where it hides nothing."""
    corner: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.04, 1.0)}
    axes.legend(handles, labels, frameon=False, fontsize=SMALL, borderaxespad=0, **corner)
