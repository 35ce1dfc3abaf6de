"""Node values as pictures: a view of a mesh, colour scales, and a page of panels and bars.

Uses matplotlib without pyplot, that is without global state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from matplotlib.tri import Triangulation
from PIL import Image

from gsnobench.data import Array, Mesh
from gsnobench.files import atomic

INK = "#222222"
FAINT = "#8a8a8a"
SMALL, NORMAL, LARGE = 7.5, 9.0, 11.5  # points
RESOLUTION = 130  # dots per inch
FINE = 4000  # triangles per panel, at least
# A file has 256 colours, a third of the bytes of full colour: so many greys, else the colour maps.
GREYS = 24
FIELD_COLOURS, INPUT_COLOURS = "viridis", "cividis"
ERROR_COLOURS, LENGTH_COLOURS = "RdBu_r", "magma_r"


@dataclass(frozen=True, eq=False)
class View:
    """A mesh as seen on paper: what is drawn of it, and the rectangle that shows it."""

    points: Array  # (n, 2)
    nodes: Array  # (n,) their indices in the mesh, back to front
    triangles: Array | None  # (m, 3) into points
    outline: Array  # (e, 2, 2) segments of the border
    box: tuple[float, float, float, float]  # x0, x1, y0, y1

    @property
    def aspect(self) -> float:
        x0, x1, y0, y1 = self.box
        return (x1 - x0) / (y1 - y0)


@dataclass(frozen=True)
class Scale:
    """Colours and limits that panels share."""

    low: float
    high: float
    colours: str
    label: str
    cut_below: bool = False  # values lie below the low end
    cut_above: bool = False

    @classmethod
    def spanning(cls, values: Array, label: str, colours: str = FIELD_COLOURS) -> Scale:
        """From the smallest to the largest value."""
        low, high = _finite(values).min(), _finite(values).max()
        if high - low <= 1e-9 * max(abs(low), abs(high)):
            low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
        return cls(float(low), float(high), colours, label)

    @classmethod
    def symmetric(cls, values: Array, label: str) -> Scale:
        """About zero, so that white means right; a few outliers are cut off."""
        limit = _limit(values)
        return cls(-limit, limit, ERROR_COLOURS, label).reached_by(values)

    @classmethod
    def rising(cls, values: Array, label: str) -> Scale:
        """From zero up, for lengths."""
        return cls(0.0, _limit(values), LENGTH_COLOURS, label).reached_by(values)

    def reached_by(self, values: Array) -> Scale:
        """The same scale, its ends pointed where these values lie outside."""
        low, high = _finite(values).min(), _finite(values).max()
        return replace(self, cut_below=bool(low < self.low), cut_above=bool(high > self.high))


def _finite(values: Array) -> Array:
    kept = values[np.isfinite(values)]
    return kept if kept.size else np.zeros(1)


def _limit(values: Array) -> float:
    return float(np.quantile(np.abs(_finite(values)), 0.998)) or 1e-12


# -------------------------------------------------------------------------------------------- views


def view_of(mesh: Mesh, support: Array) -> View:
    """The supported part of a mesh: triangles in the plane, points seen from a corner in space."""
    if mesh.dim >= 3:
        return _view_in_space(mesh, np.flatnonzero(support))
    nodes = np.flatnonzero(support)
    points = np.column_stack([mesh.points, np.zeros(mesh.size)])[nodes, :2]
    triangles = _triangles(mesh, support)
    outline = np.zeros((0, 2, 2)) if triangles is None else points[_border(triangles)]
    return View(points, nodes, triangles, outline, _window(points))


def _view_in_space(mesh: Mesh, nodes: Array) -> View:
    """Orthographic; of a volume only a slab in the middle, or its inside would be hidden."""
    points = mesh.points[nodes]
    if mesh.cells is not None and mesh.cells.shape[1] == 4:
        height = points[:, 2]
        middle = 0.5 * (height.min() + height.max())
        thickness = np.ptp(height) / max(len(points), 8) ** (1 / 3)
        inside = np.abs(height - middle) <= thickness
        flat = points[inside][:, :2]
        return View(flat, nodes[inside], None, np.zeros((0, 2, 2)), _window(flat))
    turn, tilt = np.radians(-60.0), np.radians(25.0)
    x, y, z = (points - points.mean(0)).T
    across, away = np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y
    flat = np.column_stack([across, np.cos(tilt) * z + np.sin(tilt) * away])
    depth = np.cos(tilt) * away - np.sin(tilt) * z
    visible = _visible(flat, depth)
    order = visible[np.argsort(-depth[visible])]
    return View(flat[order], nodes[order], None, np.zeros((0, 2, 2)), _window(flat))


def _visible(flat: Array, depth: Array) -> Array:
    """Indices of the points near the front of their patch of the picture, not on the far side."""
    # about two dozen points per patch
    patch = np.sqrt(np.ptp(flat, axis=0).prod() * 24 / len(flat)) + 1e-12
    _, patches = np.unique(np.floor(flat / patch).astype(int), axis=0, return_inverse=True)
    patches = patches.reshape(-1)
    front = np.full(patches.max() + 1, np.inf)
    np.minimum.at(front, patches, depth)
    return np.flatnonzero(depth <= front[patches] + 0.25 * np.ptp(depth))


def _triangles(mesh: Mesh, support: Array) -> Array | None:
    if mesh.cells is None or mesh.cells.shape[1] not in (3, 4):
        return None
    cells = mesh.cells
    if cells.shape[1] == 4:
        cells = np.concatenate([cells[:, [0, 1, 2]], cells[:, [0, 2, 3]]])
    cells = cells[support[cells].all(1)]
    index = np.cumsum(support) - 1  # (N,) node -> index among the supported ones
    return index[cells] if len(cells) else None


def _border(triangles: Array) -> Array:
    """Edges that belong to one triangle only, (e, 2)."""
    sides = [triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]
    edges = np.sort(np.concatenate(sides), axis=1)
    unique, counts = np.unique(edges, axis=0, return_counts=True)
    return unique[counts == 1]


def _window(points: Array) -> tuple[float, float, float, float]:
    """The whole domain, or the part where most nodes are: a wing in a wide sky."""
    low, high = points.min(0), points.max(0)
    inner_low, inner_high = np.quantile(points, 0.1, axis=0), np.quantile(points, 0.9, axis=0)
    if ((inner_high - inner_low) * 1.25 < (high - low) / 3).all():
        reach = 0.15 * (inner_high - inner_low)
        low, high = inner_low - reach, inner_high + reach
    margin = 0.02 * (high - low).max() + 1e-12
    (x0, y0), (x1, y1) = low - margin, high + margin
    return float(x0), float(x1), float(y0), float(y1)


# --------------------------------------------------------------------------------------------- page


class Page:
    """A sheet measured in inches from its upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.colours: set[str] = set()
        self.figure = Figure(figsize=(width, height), dpi=RESOLUTION, facecolor="white")

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        bottom = self.height - top - height
        return self.figure.add_axes(
            (left / self.width, bottom / self.height, width / self.width, height / self.height)
        )

    def text(self, left: float, top: float, text: str, **style: Any) -> None:
        settings = {"fontsize": NORMAL, "color": INK, "va": "center", "ha": "left", **style}
        self.figure.text(left / self.width, 1 - top / self.height, text, **settings)

    def panel(self, box: Sequence[float], view: View, values: Array, scale: Scale) -> None:
        """Node values (N,) of the whole mesh in a rectangle (left, top, width, height)."""
        axes = self.axes(*box)
        self.colours.add(scale.colours)
        shown, norm = values[view.nodes], Normalize(scale.low, scale.high)
        colours: dict[str, Any] = {"cmap": scale.colours, "norm": norm, "rasterized": True}
        if view.triangles is not None:
            kept = view.triangles[np.isfinite(shown[view.triangles]).all(1)]
            if len(kept):
                corners, height = _subdivided(view.points[kept], shown[kept])
                x, y = corners[..., 0].ravel(), corners[..., 1].ravel()
                mesh = Triangulation(x, y, np.arange(height.size).reshape(-1, 3))
                axes.tripcolor(mesh, height.ravel(), shading="gouraud", **colours)
            axes.add_collection(LineCollection(list(view.outline), colors=INK, linewidths=0.4))
        else:
            # square inches per disc: they overlap and close the gaps
            covered = 3.0 * box[2] * box[3] / max(len(shown), 1)
            size = 72.0**2 * min(covered, 0.02)
            x, y = view.points[:, 0], view.points[:, 1]
            axes.scatter(x, y, c=shown, s=size, linewidths=0, clip_on=False, **colours)
        x0, x1, y0, y1 = view.box
        axes.set(xlim=(x0, x1), ylim=(y0, y1), aspect="equal")
        axes.set_axis_off()

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
        count = 5 if max(box[2:]) > 1.2 else 3 if is_upright else 2
        bar.locator = MaxNLocator(count, symmetric=scale.low == -scale.high)
        bar.formatter = _short_numbers()
        bar.update_ticks()
        bar.outline.set_linewidth(0.4)
        axes.tick_params(labelsize=SMALL, length=2, width=0.4, colors=INK, pad=1.5)
        axes.yaxis.get_offset_text().set(fontsize=SMALL, ha="left")
        axes.xaxis.get_offset_text().set(fontsize=SMALL)
        bar.set_label(scale.label, fontsize=SMALL, color=INK, labelpad=2)

    def picture(self) -> Image.Image:
        """The sheet as pixels, in the colours of its maps."""
        canvas = FigureCanvasAgg(self.figure)
        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        if not self.colours:
            return picture
        return picture.quantize(palette=_palette(sorted(self.colours)), dither=Image.Dither.NONE)

    def save(self, path: Path) -> None:
        """Write the PNG; a reader never sees half of it."""
        with atomic(path) as part:
            self.picture().save(part, format="png", optimize=True)


def _subdivided(corners: Array, values: Array) -> tuple[Array, Array]:
    """Smaller triangles with linear values, (m, 3, 2) and (m, 3).

    Gouraud shading mixes colours, not values: in small triangles it hardly leaves the colour map.
    """
    while len(corners) < FINE:
        pieces = []
        for whole in (corners, values):
            half = 0.5 * (whole + whole[:, [1, 2, 0]])  # at the middle of the sides 01, 12, 20
            a, b, c = (whole[:, corner] for corner in range(3))
            ab, bc, ca = (half[:, side] for side in range(3))
            four = ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))
            pieces.append(np.concatenate([np.stack(three, axis=1) for three in four]))
        corners, values = pieces
    return corners, values


def _palette(names: Sequence[str]) -> Image.Image:
    """Equal shares of the colour maps on a page, and greys for the text."""
    share = (256 - GREYS) // len(names)
    rows = [matplotlib.colormaps[name](np.linspace(0, 1, share))[:, :3] for name in names]
    rows.append(np.repeat(np.linspace(0.133, 1, GREYS)[:, None], 3, axis=1))
    image = Image.new("P", (1, 1))
    image.putpalette((np.concatenate(rows) * 255).round().astype(np.uint8).tobytes())
    return image


def _short_numbers() -> ScalarFormatter:
    formatter = ScalarFormatter(useMathText=True)
    formatter.set_powerlimits((-2, 3))
    return formatter
