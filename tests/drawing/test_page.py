"""A page fills what it is given: also triangles that are thinner than a pixel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image
from scipy.spatial import KDTree

from gsnobench.data import Array, Mesh
from gsnobench.drawing.page import (
    CLEARLY_APART,
    RESOLUTION,
    Page,
    _apart,
    _emptiest_corner,
    _enlargement,
    _inches,
)
from gsnobench.drawing.scales import Scale
from gsnobench.drawing.views import view_of


def duct(columns: int = 17, rows: int = 33) -> Mesh:
    """A sloping duct of length 10 and height 1 whose cells are long and flat, as those of pipe."""
    x, y = np.meshgrid(np.linspace(0, 10, columns), np.linspace(0, 1, rows), indexing="ij")
    points = np.column_stack([x.ravel(), (y + 0.05 * x).ravel()])
    here = (np.arange(columns - 1)[:, None] * rows + np.arange(rows - 1)).ravel()
    over = here + rows
    cells = np.concatenate(
        [np.column_stack([here, over, over + 1]), np.column_stack([here, over + 1, here + 1])]
    )
    return Mesh(points, cells, {})


def drawn(mesh: Mesh, values: Array, *, with_lines: bool = False) -> Array:
    view, page = view_of(mesh, np.ones(mesh.size, dtype=bool)), Page(4.0, 1.0)
    page.panel((0.0, 0.0, 4.0, 1.0), view, values, Scale.spanning(values, "u", "viridis"))
    if with_lines:
        page.lines((0.0, 0.0, 4.0, 1.0), view)
    return np.asarray(page.pixels()).astype(int)


def test_a_field_has_no_steps_in_cells_that_are_flatter_than_a_pixel() -> None:
    mesh = duct()
    image = drawn(mesh, mesh.points[:, 0])
    height, width, _ = image.shape
    middle = image[height // 2, width // 10 : -width // 10]
    changes = np.abs(np.diff(middle, axis=0)).max(1)  # per pixel along a linear field
    assert changes.max() < 10  # whole flat cells of one colour differ by 18


def test_cells_without_an_area_take_no_detail_from_others() -> None:
    points = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 1.0], [0.0, 1.0], [2.0, 1e-13]])
    cells = np.array([[0, 1, 2], [0, 2, 3]])
    flat = np.repeat([[0, 1, 4]], 50, axis=0)
    values = np.array([0.0, 1.0, 1.0, 0.0, 0.5])
    meshes = [Mesh(points, table, {}) for table in (cells, np.concatenate([cells, flat]))]
    plain, sliced = (drawn(mesh, values) for mesh in meshes)
    assert (plain == sliced)[:-8].all()  # without the border below, where those cells lie


def test_colours_are_those_of_the_map_also_in_large_cells_beside_many_small_ones() -> None:
    small = duct(51, 51)  # 5000 cells
    corner = np.array([[-10.0, -0.5], [-10.0, 0.5]])
    points = np.concatenate([small.points, corner])
    large = [[len(points) - 2, 0, 50], [len(points) - 2, 50, len(points) - 1]]
    assert small.cells is not None
    mesh = Mesh(points, np.concatenate([small.cells, large]), {})
    values = (points[:, 0] < -1) * 1.0  # from 0 to 1 over the large cells
    image = drawn(mesh, values)
    height, width, _ = image.shape
    inside = image[height // 2, width // 10 : width * 9 // 20]
    assert np.ptp(inside, axis=0).max() > 100  # large cells are in view
    known = 255 * matplotlib.colormaps["viridis"](np.linspace(0, 1, 256))[:, :3]
    assert KDTree(known).query(inside)[0].max() < 8  # mixtures of both ends are 19 away


def test_lines_that_would_hide_the_values_are_left_out() -> None:
    mesh = duct()
    plain, lined = (drawn(mesh, mesh.points[:, 0], with_lines=flag) for flag in (False, True))
    assert (plain == lined).all()


def test_where_lines_of_a_mesh_would_run_together_a_lens_shows_some_cells() -> None:
    box = (0.0, 0.0, 4.0, 1.0)
    fine, coarse = (view_of(mesh, np.ones(mesh.size, dtype=bool)) for mesh in (duct(), duct(9, 5)))
    assert _enlargement(box, coarse) == 1.0
    times = _enlargement(box, fine)
    left, top, wide, high = _emptiest_corner(box, fine)
    assert (left, top) in ((0.0, 0.0), (4.0 - wide, 1.0 - high))  # the duct rises to the right
    part = fine.around_middle(np.array((wide, high)) / (times * _inches(box, fine)))
    assert RESOLUTION * _apart((left, top, wide, high), part) == pytest.approx(CLEARLY_APART)
    page = Page(4.0, 1.0)
    page.mesh(box, fine)
    shades = np.asarray(page.pixels()).astype(int).mean(-1)
    x, y = (round(RESOLUTION * start) for start in (left, top))
    lens = shades[y : y + round(RESOLUTION * high), x : x + round(RESOLUTION * wide)]
    inside = lens[5:-5, 5:-5]
    assert inside.max() > 230 and inside.min() < 190  # ground between lines
    assert (np.diff(np.sign(np.diff(inside, axis=0)), axis=0) != 0).mean() > 0.1


def test_a_lit_surface_has_no_steps_in_a_linear_field() -> None:
    points = np.random.default_rng(0).normal(size=(150, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    view = view_of(Mesh(points), np.ones(150, dtype=bool))
    assert view.light is not None
    view = replace(view, light=np.ones_like(view.light))  # faces alone
    page = Page(3.0, 3.0)
    page.panel((0, 0, 3, 3), view, points[:, 2], Scale.spanning(points[:, 2], "u", "viridis"))
    image = np.asarray(page.pixels()).astype(int)
    middle = image[60:-60, image.shape[1] // 2]
    assert np.abs(np.diff(middle, axis=0)).max() < 16  # faces cut in four once: 40


def test_lines_over_a_field_leave_its_colours_and_those_of_its_bar(tmp_path: Path) -> None:
    mesh = duct(5, 5)
    values = np.sin(3 * mesh.points[:, 0])
    view, page = view_of(mesh, np.ones(mesh.size, dtype=bool)), Page(4.0, 1.0)
    scale = Scale.spanning(values, "u", "RdBu_r")
    page.panel((0.0, 0.0, 3.0, 1.0), view, values, scale)
    page.lines((0.0, 0.0, 3.0, 1.0), view)
    page.bar((3.2, 0.1, 0.1, 0.8), scale)
    assert page.has_shades  # black over red is on no map
    page.save(tmp_path / "x.png")
    saved = np.asarray(Image.open(tmp_path / "x.png").convert("RGB")).astype(int)
    apart = np.abs(saved - np.asarray(page.pixels())).max(-1)
    assert apart.max() < 40  # 78 with the colours of the maps alone
    assert (saved[0] == 255).all()  # white stays white, without dots
    bar = saved[20:-20, round(3.25 * 110)]
    assert len(np.unique(bar, axis=0)) > 35


def test_a_curve_is_not_broken_where_it_is_level() -> None:
    """Level pieces of an outline stay between the rows of dots where their neighbours are."""
    angle = np.linspace(0, 2 * np.pi, 61)[:-1] + np.pi / 60
    rim = np.column_stack([np.cos(angle), np.sin(angle)])
    after = (np.arange(60) + 1) % 60
    cells = np.column_stack([np.full(60, 60), np.arange(60), after])
    mesh = Mesh(np.concatenate([rim, [[0.0, 0.0]]]), cells, {})
    for size in (1.0, 1.003, 1.006):  # where the top lies between two rows
        view, page = view_of(mesh, np.ones(61, dtype=bool)), Page(size, size)
        page.mesh((0.0, 0.0, size, size), view)
        dark = 255 - np.asarray(page.pixels()).astype(int).mean(-1)
        middle = dark.shape[1] // 2
        heights = [_centre(dark[:20, column]) for column in range(middle - 12, middle + 13)]
        assert np.abs(np.diff(heights, 2)).max() < 0.6  # moved to whole dots: 0.75


def _centre(column: Array) -> float:
    """Where the first dark line of a column is, in dots."""
    first = int(np.flatnonzero(column > 60)[0])
    near = column[max(first - 1, 0) : first + 2]
    return float((near * np.arange(max(first - 1, 0), first + 2)).sum() / near.sum())
