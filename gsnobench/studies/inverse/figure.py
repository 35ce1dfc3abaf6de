"""The figure of an inversion: one line per sampler with fields, traces and ranks of the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from gsnobench.data import Array, Mesh
from gsnobench.drawing.rules import FAINT, INPUT_COLOURS, SMALL
from gsnobench.drawing.scales import Scale
from gsnobench.drawing.views import view_of
from gsnobench.studies.figures import GRID, colours, new_page

LEFT, TOP, LINE, WIDTH = 1.35, 0.95, 1.3, 1.35  # inches
BINS = 10
BAND = 0.99


def draw(
    title: str,
    mesh: Mesh,
    pictures: Mapping[str, Any],
    shares: Mapping[str, Sequence[float]],
    path: Path,
) -> None:
    """Truth, posterior mean, deviation and error of the first problem; chains; rank histogram."""
    page = new_page(11.4, TOP + LINE * max(len(pictures), 1) + 0.75, "Posteriors by sampler", title)
    if not pictures:
        page.text(LEFT, TOP + 0.5, "no run has ended well", fontsize=SMALL, color=FAINT)
        page.save(path)
        return
    view = view_of(mesh, np.ones(mesh.size, dtype=bool))
    fields = {label: _fields(own) for label, own in pictures.items()}
    truth = next(iter(fields.values()))["truth"]
    scales = {
        "truth": Scale.spanning(truth, "", INPUT_COLOURS).reached_by(truth),
        "deviation": Scale.rising(_median_line(fields, "deviation"), ""),
        "error": Scale.symmetric(_median_line(fields, "error"), ""),
    }
    columns = {"truth": "truth", "mean": "truth", "deviation": "deviation", "error": "error"}
    for place, (name, scale) in enumerate(columns.items()):
        page.text(LEFT + place * WIDTH + 0.6, TOP - 0.15, name, fontsize=SMALL, ha="center")
        for line, own in enumerate(fields.values()):
            box = (LEFT + place * WIDTH, TOP + line * LINE, WIDTH - 0.1, LINE - 0.1)
            page.panel(box, view, own[name], scales[scale])
        if place:
            foot = (LEFT + place * WIDTH + 0.1, TOP + LINE * len(fields) + 0.05, 1.0, 0.09)
            page.bar(foot, scales[scale])
    page.text(LEFT + 4 * WIDTH + 0.75, TOP - 0.15, "first coefficient", fontsize=SMALL)
    page.text(LEFT + 5 * WIDTH + 1.45, TOP - 0.15, "ranks of the truths", fontsize=SMALL)
    for line, (label, own) in enumerate(pictures.items()):
        top = TOP + line * LINE
        page.text(0.15, top + 0.5 * LINE, label.replace(" from", "\nfrom").replace(", ", ",\n"))
        _traces(page.axes(LEFT + 4 * WIDTH + 0.4, top + 0.05, 1.75, LINE - 0.35), own)
        _ranks(page.axes(LEFT + 5 * WIDTH + 1.25, top + 0.05, 1.6, LINE - 0.35), shares[label])
    page.save(path)


def _fields(own: Mapping[str, Any]) -> dict[str, Array]:
    truth, mean, deviation = (np.array(own[name]) for name in ("truth", "mean", "deviation"))
    return {"truth": truth, "mean": mean, "deviation": deviation, "error": mean - truth}


def _median_line(fields: Mapping[str, Mapping[str, Array]], name: str) -> Array:
    """Values of the samplers that agree: those of a wrong one may leave the scale."""
    sizes = {label: float(np.abs(own[name]).max()) for label, own in fields.items()}
    limit = 1.5 * float(np.median(list(sizes.values())))
    return np.concatenate([own[name] for label, own in fields.items() if sizes[label] <= limit])


def _traces(axes: Axes, own: Mapping[str, Any]) -> None:
    """Some chains of the first coefficient."""
    shades = colours(map(str, range(len(own["traces"]))))
    for trace, (colour, _) in zip(own["traces"], shades.values(), strict=True):
        x = np.arange(len(trace)) * own["thinning"]
        axes.plot(x, trace, color=colour, linewidth=0.5)
    _plain(axes)


def _ranks(axes: Axes, shares: Sequence[float]) -> None:
    """Counts per tenth, and the band where 99 % of the bars of a right posterior are."""
    low, high = stats.binom.interval(BAND, len(shares), 1.0 / BINS)
    axes.axhspan(float(low), float(high), color=GRID)
    axes.hist(shares, bins=BINS, range=(0.0, 1.0), color="#4c72b0", rwidth=0.9)
    axes.set_xlim(0.0, 1.0)
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL - 1.5, length=2, width=0.4)
    axes.locator_params(nbins=4)
