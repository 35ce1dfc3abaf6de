"""A sheet of panels and colour bars, measured in inches, as a small PNG.

Uses matplotlib without pyplot, that is without global state.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from matplotlib.path import Path as Outline
from matplotlib.ticker import FixedLocator, ScalarFormatter
from matplotlib.tri import LinearTriInterpolator, Triangulation
from PIL import Image

from gsnobench.data import Array
from gsnobench.drawing.flow import Contours, Lines, Streamlines
from gsnobench.drawing.palette import in_few_colours
from gsnobench.drawing.pieces import heights, in_pieces, lengths, quarters
from gsnobench.drawing.rules import GROUND, INK, NORMAL, SMALL
from gsnobench.drawing.scales import Scale
from gsnobench.drawing.views import View
from gsnobench.files import atomic

RESOLUTION = 110  # dots per inch
PIECE = 2.0  # dots: a triangle that is longer and not of one colour is cut before it is filled
ONE_COLOUR = 1 / 128  # of the scale: values closer to each other need no cut
APART, CLEARLY_APART = 2.5, 4.0  # dots: lines of cells that are closer make a grey area
MOST_ROUNDS = 4  # in which the faces of a surface are cut in four
INSET = 0.34  # of a panel's width and height: the whole domain, where the panel shows a part
LENS = 0.34, 0.5  # of a panel's width and height: enlarged cells
TRACED = 160  # points of the longer side of the grid on which streamlines are traced
DENSITY = 0.45  # of streamlines: a panel is an inch high, and they gather behind a body


class Page:
    """A sheet measured in inches from its upper left corner."""

    def __init__(self, width: float, height: float, resolution: float = RESOLUTION) -> None:
        self.width, self.height = width, height
        self.colours: set[str] = set()
        self.has_shades = False  # colours beside those of its maps
        self.figure = Figure(figsize=(width, height), dpi=resolution, facecolor="white")

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        bottom = self.height - top - height
        return self.figure.add_axes(
            (left / self.width, bottom / self.height, width / self.width, height / self.height)
        )

    def text(self, left: float, top: float, text: str, **style: Any) -> None:
        settings = {"fontsize": NORMAL, "color": INK, "va": "center", "ha": "left", **style}
        self.figure.text(left / self.width, 1 - top / self.height, text, **settings)

    # -------------------------------------------------------------------------------------- panels

    def panel(
        self,
        box: Sequence[float],
        view: View,
        values: Array,
        scale: Scale,
        *,
        flow: Lines | None = None,
        with_inset: bool = False,
    ) -> None:
        """Node values (N,) of the whole mesh in a rectangle (left, top, width, height).

        Lines of a flow lie over the colours. The inset is the whole domain where the panel shows a
        part.
        """
        axes = self._frame(box, view)
        self.colours.add(scale.colours)
        self._fill(axes, view, view.shown(values), scale, box)
        if flow is not None:
            _draw_lines(axes, view, flow)
        if with_inset and view.whole is not None:
            self._inset(box, view, values, scale)

    def mesh(self, box: Sequence[float], view: View) -> None:
        """The cells of a mesh without values; lines are thin where cells are small.

        Where cells are so small that lines would run together, a lens in the emptiest corner shows
        some of them.
        """
        axes = self._frame(box, view)
        times = _enlargement(box, view)
        line = _line_width(box, view) if times == 1.0 else 0.0
        if view.triangles is None:
            self._scatter(axes, view, {"color": INK}, box)
        elif view.light is None:
            corners = view.points[view.triangles]
            faces: dict[str, Any] = {"facecolors": GROUND, "edgecolors": INK, "linewidths": line}
            axes.add_collection(PolyCollection(list(corners), rasterized=True, **faces))
            axes.add_collection(_border(view, 0.8))
        else:
            self.has_shades = True
            tints = np.asarray(to_rgb(GROUND)) * view.light[:, None]
            faces = {"facecolors": tints, "edgecolors": INK, "linewidths": line}
            axes.add_collection(PolyCollection(list(view.points[view.triangles]), **faces))
        if view.whole is not None:
            self._locator(box, view)
        elif times > 1.0:
            self._lens(axes, box, view, times)

    def _lens(self, axes: Axes, box: Sequence[float], view: View, times: float) -> None:
        """Some cells so many times larger, and a frame around them where they are."""
        corner = _emptiest_corner(box, view)
        part = view.around_middle(np.array(corner[2:]) / (times * _inches(box, view)))
        x0, x1, y0, y1 = part.box
        frame: dict[str, Any] = {"fill": False, "ec": INK, "lw": 0.5, "zorder": 5}
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, **frame))
        lens = self._frame(corner, part)
        lens.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fc="white", ec="none", zorder=-1))
        faces: dict[str, Any] = {"facecolors": GROUND, "edgecolors": INK}
        corners = view.points[view.triangles]
        line = _line_width(corner, part)
        lens.add_collection(
            PolyCollection(list(corners), linewidths=line, rasterized=True, **faces)
        )
        lens.add_collection(_border(view, 0.8))
        lens.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, clip_on=False, **frame))

    def lines(self, box: Sequence[float], view: View) -> None:
        """Thin lines between the nodes of triangles, over what is there; none over a slice.

        Where cells are so small that lines would hide the values, there are none either.
        """
        if view.triangles is not None and not view.note and _line_width(box, view) > 0.2:
            self.has_shades = True
            axes, corners = self._frame(box, view), list(view.points[view.triangles])
            line: dict[str, Any] = {"facecolors": "none", "edgecolors": INK, "linewidths": 0.15}
            axes.add_collection(PolyCollection(corners, alpha=0.35, **line))

    def _frame(self, box: Sequence[float], view: View) -> Axes:
        axes = self.axes(*box)
        x0, x1, y0, y1 = view.box
        axes.set(xlim=(x0, x1), ylim=(y0, y1), aspect="equal")
        axes.set_axis_off()
        return axes

    def _fill(
        self, axes: Axes, view: View, shown: Array, scale: Scale, box: Sequence[float]
    ) -> None:
        norm = Normalize(scale.low, scale.high)
        colours: dict[str, Any] = {"cmap": scale.colours, "norm": norm, "rasterized": True}
        if view.triangles is None:
            self._scatter(axes, view, {"c": shown, **colours}, box)
        elif view.light is not None:
            self._lit(axes, view, shown, norm, scale.colours, box)
        else:
            dot = 1 / (RESOLUTION * _inches(box, view))
            finest = PIECE * dot, ONE_COLOUR * (scale.high - scale.low)
            _gouraud(axes, view, shown, colours, finest)
            if view.body is not None and len(view.body):
                axes.add_patch(Polygon(view.body, facecolor=GROUND, edgecolor=INK, linewidth=0.4))
            axes.add_collection(_border(view, 0.4))

    def _lit(
        self,
        axes: Axes,
        view: View,
        shown: Array,
        norm: Normalize,
        colours: str,
        box: Sequence[float],
    ) -> None:
        """Faces of a surface, back to front, darker where they turn away from the light."""
        assert view.triangles is not None and view.light is not None
        self.has_shades = True
        is_known = np.asarray(np.isfinite(shown[view.triangles]).all(1))
        finest = PIECE / (RESOLUTION * _inches(box, view))
        corners, values, light = _quartered(view, shown, is_known, finest)
        tints = matplotlib.colormaps[colours](norm(values))[:, :3] * light[:, None]
        edges: dict[str, Any] = {"edgecolors": tints, "linewidths": 0.3, "rasterized": True}
        axes.add_collection(PolyCollection(list(corners), facecolors=tints, **edges))

    def _scatter(
        self, axes: Axes, view: View, colours: dict[str, Any], box: Sequence[float]
    ) -> None:
        """Dots as large as their distance to the next one, so that they touch but hide nothing."""
        spacing = np.zeros(1) if view.spacing is None else view.spacing
        size = np.clip(72.0 * _inches(box, view) * spacing * 1.3, 1.2, 12.0) ** 2
        x, y = view.points[:, 0], view.points[:, 1]
        axes.scatter(x, y, s=size, linewidths=0, **colours)

    def _inset(self, box: Sequence[float], view: View, values: Array, scale: Scale) -> None:
        """The whole domain in a corner, with a frame where the panel is."""
        axes, whole = self._locator(box, view), view.zoomed_out()
        self._fill(axes, whole, whole.shown(values), scale, box)

    def _locator(self, box: Sequence[float], view: View) -> Axes:
        left, top, width, height = box
        whole = view.zoomed_out()
        wide = INSET * min(width, height * whole.aspect)
        high = wide / whole.aspect
        axes = self._frame((left + width - wide, top + height - high, wide, high), whole)
        x0, x1, y0, y1 = view.whole or view.box
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fc="white", ec="none", zorder=-1))
        x0, x1, y0, y1 = view.box
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, ec=INK, lw=0.5, zorder=5))
        axes.add_collection(_border(view, 0.4))
        return axes

    # ----------------------------------------------------------------------------------- the rest

    def bar(self, box: Sequence[float], scale: Scale) -> None:
        """A colour bar with few, short numbers; pointed ends where values lie outside."""
        axes = self.axes(*box)
        is_upright = box[3] >= box[2]
        source = ScalarMappable(Normalize(scale.low, scale.high), scale.colours)
        ends = {(False, False): "neither", (True, False): "min", (False, True): "max"}
        extend = ends.get((scale.cut_below, scale.cut_above), "both")
        orientation = "vertical" if is_upright else "horizontal"
        bar = self.figure.colorbar(
            source, cax=axes, orientation=orientation, extend=extend, extendfrac=0.03
        )
        bar.locator = FixedLocator(ticks(scale, max(box[2:]), is_upright=is_upright))
        bar.formatter = _short_numbers()
        bar.update_ticks()
        bar.outline.set_linewidth(0.4)
        axes.tick_params(labelsize=SMALL, length=2, width=0.4, colors=INK, pad=1.5)
        axes.yaxis.get_offset_text().set(fontsize=SMALL, ha="left")
        axes.xaxis.get_offset_text().set(fontsize=SMALL)
        bar.set_label(scale.label, fontsize=SMALL, color=INK, labelpad=2)

    def pixels(self) -> Image.Image:
        """The sheet in full colour."""
        canvas = FigureCanvasAgg(self.figure)
        canvas.draw()
        return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")

    def picture(self) -> Image.Image:
        """The sheet as pixels, in the colours of its maps."""
        return in_few_colours(self.pixels(), sorted(self.colours), has_shades=self.has_shades)

    def save(self, path: Path) -> None:
        """Write the PNG; a reader never sees half of it."""
        save_stack(path, [self])


def stacked(pages: Sequence[Page]) -> Image.Image:
    """Sheets one below the other as one picture."""
    sheets = [page.pixels() for page in pages]
    size = max(sheet.width for sheet in sheets), sum(sheet.height for sheet in sheets)
    whole, top = Image.new("RGB", size, "white"), 0
    for sheet in sheets:
        whole.paste(sheet, (0, top))
        top += sheet.height
    maps = sorted({name for page in pages for name in page.colours})
    return in_few_colours(whole, maps, has_shades=any(page.has_shades for page in pages))


def save_stack(path: Path, pages: Sequence[Page]) -> None:
    """Write sheets one below the other as one PNG."""
    with atomic(path) as part:
        stacked(pages).save(part, format="png", optimize=True)


def panel_size(aspect: float, size: float) -> tuple[float, float]:
    """Width and height of a panel: about size x size, a long domain wider but not higher."""
    width = min(1.5 * size, size * aspect)
    width = max(width, 0.45 * size)
    return width, min(width / aspect, 1.3 * size)


def ticks(scale: Scale, inches: float, *, is_upright: bool) -> list[float]:
    """Round numbers inside a scale, as many as there is room for, but at least two.

    A scale about a round reference has it among them, where there is room for three.
    """
    most = max(2, int(inches / (0.3 if is_upright else 0.45)))
    reach = scale.high - scale.low
    power = int(np.floor(np.log10(reach)))
    steps = [digit * 10.0**p for p in range(power - 1, power + 2) for digit in (1, 2, 2.5, 5)]
    is_round = abs(scale.centre - round(scale.centre, 3)) < 1e-9 * reach
    finest: list[float] = []
    for step in steps:
        if scale.is_centred and is_round:
            count = int(0.5 * reach / step * (1 + 1e-9))
            found = [scale.centre + step * number for number in range(-count, count + 1)]
        else:
            first, last = np.ceil(scale.low / step - 1e-9), np.floor(scale.high / step + 1e-9)
            found = [float(step * number) for number in np.arange(first, last + 1)]
        if len(found) < 2 or found[0] == found[-1]:
            break
        finest = found
        if len(found) <= most and most > 2:
            return found
    return [finest[0], finest[-1]] if finest else [scale.centre]


def _line_width(box: Sequence[float], view: View) -> float:
    """Points: a quarter, less where the cells are so small that lines would fill them."""
    if view.triangles is None:
        return 0.25
    return float(np.clip(4.0 * _apart(box, view), 0.06, 0.3))


def _apart(box: Sequence[float], view: View) -> float:
    """Inches between the lines of a usual cell: of a sliver, its height."""
    return float(np.median(heights(view.points[view.triangles]))) * _inches(box, view)


def _enlargement(box: Sequence[float], view: View) -> float:
    """How much larger cells in the plane must be for the lines between them; 1: not at all."""
    if view.triangles is None or view.light is not None or view.whole is not None:
        return 1.0
    dots = RESOLUTION * _apart(box, view)
    return 1.0 if dots >= APART else CLEARLY_APART / dots


def _emptiest_corner(box: Sequence[float], view: View) -> tuple[float, float, float, float]:
    """Of a lens in a panel, on paper: where the fewest nodes are; else at the lower right."""
    left, top, width, height = box
    wide, high = LENS[0] * width, LENS[1] * height
    x0, x1, y0, y1 = view.box
    across, down = ((view.points - (x0, y1)) / (x1 - x0, y0 - y1)).T  # shares of the panel

    def covered(corner: tuple[bool, bool]) -> int:
        is_left, is_upper = corner
        column = across < LENS[0] if is_left else across > 1 - LENS[0]
        row = down < LENS[1] if is_upper else down > 1 - LENS[1]
        return int((column & row).sum())

    is_left, is_upper = min(
        ((False, False), (False, True), (True, False), (True, True)), key=covered
    )
    return (
        left if is_left else left + width - wide,
        top if is_upper else top + height - high,
        wide,
        high,
    )


def _inches(box: Sequence[float], view: View) -> float:
    """On paper, per unit of length."""
    x0, x1, y0, y1 = view.box
    return min(box[2] / (x1 - x0), box[3] / (y1 - y0))


def _border(view: View, width: float) -> LineCollection:
    """The outline; level sides are not moved to whole dots, which would break a curve there."""
    return LineCollection(list(view.outline), colors=INK, linewidths=width, snap=False)


def _gouraud(
    axes: Axes, view: View, shown: Array, colours: dict[str, Any], finest: tuple[float, float]
) -> None:
    """Triangles in view with linear values, in pieces as fine as a length and a difference."""
    assert view.triangles is not None
    x0, x1, y0, y1 = view.box
    corners = view.points[view.triangles]  # (m, 3, 2)
    low, high = corners.min(1), corners.max(1)
    is_in_view = (low < (x1, y1)).all(1) & (high > (x0, y0)).all(1)
    kept = view.triangles[is_in_view & np.isfinite(shown[view.triangles]).all(1)]
    if len(kept):
        corners, height = in_pieces(view.points[kept], shown[kept], finest)
        x, y = corners[..., 0].ravel(), corners[..., 1].ravel()
        mesh = Triangulation(x, y, np.arange(height.size).reshape(-1, 3))
        axes.tripcolor(mesh, height.ravel(), shading="gouraud", **colours)


def _draw_lines(axes: Axes, view: View, flow: Lines) -> None:
    x, y = view.points.T
    mesh = Triangulation(x, y, view.triangles)
    style: dict[str, Any] = {"linewidths": 0.45, "colors": INK, "linestyles": "solid"}
    if isinstance(flow, Contours):
        axes.tricontour(mesh, view.shown(flow.values), levels=flow.levels, **style)
    elif isinstance(flow, Streamlines):
        _draw_streamlines(axes, view, mesh, flow)


def _draw_streamlines(axes: Axes, view: View, mesh: Triangulation, flow: Streamlines) -> None:
    """Evenly spaced, through air alone: a body in the view stops them."""
    x0, x1, y0, y1 = view.box
    step = max(x1 - x0, y1 - y0) / TRACED
    x, y = np.arange(x0, x1, step), np.arange(y0, y1, step)
    grid = np.stack(np.meshgrid(x, y), axis=-1)  # (rows, columns, 2)
    along = [
        LinearTriInterpolator(mesh, view.shown(flow.velocity[:, axis]))(grid[..., 0], grid[..., 1])
        for axis in view.axes
    ]
    if view.body is not None and len(view.body):
        inside = Outline(view.body).contains_points(grid.reshape(-1, 2)).reshape(grid.shape[:2])
        along = [np.ma.masked_where(inside, part) for part in along]
    thin: dict[str, Any] = {"linewidth": 0.4, "color": INK, "arrowstyle": "-"}  # no arrow heads
    axes.streamplot(x, y, along[0], along[1], density=DENSITY, broken_streamlines=False, **thin)
    axes.set(xlim=(x0, x1), ylim=(y0, y1))


def _quartered(
    view: View, shown: Array, is_known: Array, finest: float
) -> tuple[Array, Array, Array]:
    """Known faces cut in four until a usual side is short, still back to front.

    Corners, mean values, light.
    """
    assert view.triangles is not None and view.light is not None
    faces, light = view.triangles[is_known], view.light[is_known]
    corners, values = view.points[faces], shown[faces]
    usual = np.quantile(lengths(corners).max(1), 0.9) if len(corners) else finest
    for _ in range(int(np.clip(np.ceil(np.log2(usual / finest)), 1, MOST_ROUNDS))):
        corners = np.stack(quarters(corners), axis=1).reshape(-1, 3, 2)
        values = np.stack(quarters(values), axis=1).reshape(-1, 3)
        light = np.repeat(light, 4)
    return corners, values.mean(1), light


def _short_numbers() -> ScalarFormatter:
    formatter = ScalarFormatter(useMathText=True, useOffset=False)
    formatter.set_powerlimits((-2, 3))
    return formatter
