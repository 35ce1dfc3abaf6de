"""Lines of a flow: the stream function solves Poisson's equation, streamlines follow a velocity."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence
from problems import square

from gsnobench.data import Array, Field, Mesh, Samples, Task
from gsnobench.drawing.flow import Contours, Streamlines, explained, lines_of, stream_functions
from gsnobench.drawing.page import Page
from gsnobench.drawing.quantities import quantities
from gsnobench.drawing.scales import Scale
from gsnobench.drawing.tasks import Shown, draw_moving, draw_task
from gsnobench.drawing.views import View, view_of

VORTICITY = Task(
    id="cells@1-1",
    dataset="cells",
    fields=(Field("vorticity", "s-1", boundary={"boundary": "neumann"}),),
    dim=2,
    tags=("boundary",),
    t_in=1,
    t_out=1,
    times=(0.0, 1.0),
)


def cells(side: int) -> tuple[Mesh, Array]:
    """Four counter-rotating cells in [0, 2 pi]^2: psi = sin x sin y is 0 on the border."""
    unit = square(side)
    mesh = Mesh(2 * np.pi * unit.points, unit.cells, unit.tags)
    x, y = mesh.points.T
    return mesh, np.sin(x) * np.sin(y)


def test_the_stream_function_of_2_sin_x_sin_y_is_sin_x_sin_y() -> None:
    errors = []
    for side in (21, 41, 81):
        mesh, psi = cells(side)
        found = stream_functions(mesh, 2 * psi)  # -Laplace psi = 2 psi
        errors.append(np.abs(found - psi).max())
    assert errors[-1] < 0.004
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert (orders > 1.5).all()  # linear elements: 2, less what moved nodes cost


def test_many_frames_are_solved_at_once() -> None:
    mesh, psi = cells(11)
    frames = np.stack([psi, -3 * psi, 0 * psi])
    together = stream_functions(mesh, frames)
    alone = [stream_functions(mesh, frame) for frame in frames]
    assert together.shape == frames.shape
    assert together == pytest.approx(np.stack(alone), abs=1e-12)


def whole(mesh: Mesh) -> View:
    return view_of(mesh, np.ones(mesh.size, dtype=bool))


def test_truth_and_prediction_have_the_same_levels() -> None:
    mesh, psi = cells(11)
    (quantity,) = quantities(VORTICITY)
    truth, prediction = (scale * 2 * psi[None, :, None] for scale in (1.0, 0.5))
    (right,) = lines_of(VORTICITY, quantity, mesh, whole(mesh), truth)
    (ours,) = lines_of(VORTICITY, quantity, mesh, whole(mesh), prediction, like=truth)
    assert isinstance(right, Contours) and isinstance(ours, Contours)
    assert (right.levels == ours.levels).all() and (np.diff(right.levels) > 0).all()
    assert ours.values == pytest.approx(0.5 * right.values)
    assert explained(ours) == "lines: stream function"


@pytest.mark.parametrize("change", ["inlet", "name", "cloud"])
def test_no_lines_where_the_border_is_not_a_wall_or_nothing_flows(change: str) -> None:
    mesh, psi = cells(11)
    task = VORTICITY
    if change == "inlet":  # a part of the border without a condition
        mesh = replace(mesh, tags={"boundary": mesh.tags["boundary"] & (mesh.points[:, 0] > 0)})
    if change == "name":
        task = replace(task, fields=(replace(task.fields[0], name="height"),))
    if change == "cloud":
        mesh = Mesh(mesh.points, None, mesh.tags)
    (quantity,) = quantities(task)
    (lines,) = lines_of(task, quantity, mesh, whole(mesh), psi[None, :, None])
    assert lines is None and explained(lines) == ""


def test_a_steady_velocity_has_streamlines_and_one_that_changes_has_none() -> None:
    mesh = square()
    fields = tuple(Field(f"velocity_{axis}", "m/s", vector="velocity") for axis in "xy")
    steady = Task(id="duct", dataset="duct", fields=fields, dim=2)
    (quantity,) = quantities(steady)
    frames = np.random.default_rng(0).normal(size=(1, mesh.size, 2))
    (lines,) = lines_of(steady, quantity, mesh, whole(mesh), frames)
    assert isinstance(lines, Streamlines) and (lines.velocity == frames[0]).all()
    moving = replace(steady, times=(0.0, 1.0))
    assert lines_of(moving, quantity, mesh, whole(mesh), frames) == [None]
    cloud = Mesh(mesh.points, None, mesh.tags)
    assert lines_of(steady, quantity, cloud, whole(cloud), frames) == [None]


def dark(flow: Contours | Streamlines | None, mesh: Mesh) -> Array:
    """Where a white panel with these lines is dark, (height, width), without its border."""
    page, view = Page(2.0, 2.0), whole(mesh)
    scale = Scale.about(np.array([-1.0, 1.0]), "w", 0.0)
    page.panel((0.0, 0.0, 2.0, 2.0), view, np.zeros(mesh.size), scale, flow=flow)
    return np.asarray(page.pixels().convert("L"))[12:-12, 12:-12] < 200


def test_lines_are_drawn_where_they_belong() -> None:
    mesh, psi = cells(41)
    assert not dark(None, mesh).any()
    contours = dark(Contours(psi, np.array([-0.5, 0.5])), mesh)
    assert 0.01 < contours.mean() < 0.2
    half = contours.shape[0] // 2
    assert not contours[half - 4 : half + 4].any()  # psi = 0 there
    uniform = np.tile([1.0, 0.0], (mesh.size, 1))
    along = dark(Streamlines(uniform), mesh)
    assert along.any(axis=1).sum() < 0.6 * len(along)  # horizontal lines leave rows free
    assert along.mean(axis=1).max() > 0.9  # and cross the panel


def inked(path: Path) -> int:
    """Dark pixels of all frames."""
    with Image.open(path) as image:
        frames = [frame.convert("L") for frame in ImageSequence.Iterator(image)]
    return sum(int((np.asarray(frame) < 100).sum()) for frame in frames)


def test_pictures_of_a_task_have_lines(tmp_path: Path) -> None:
    mesh, psi = cells(21)
    frames, empty = np.stack([2 * psi, psi])[None, :, :, None], np.zeros((1, mesh.size, 0))
    part = replace(mesh, tags={"boundary": mesh.tags["boundary"] & (mesh.points[:, 0] > 0)})
    for name, own in {"closed": mesh, "open": part}.items():
        samples = Samples(VORTICITY, (own,), frames, empty, np.zeros((1, 0)))
        shown = Shown.of(samples, 0, title="A title", time_unit="s")
        draw_task(tmp_path / f"{name}.png", shown)
        draw_moving(tmp_path / f"{name}.gif", shown)
    for kind in ("png", "gif"):
        closed, without = (inked(tmp_path / f"{name}.{kind}") for name in ("closed", "open"))
        assert closed > without + 1000
