"""Pictures: what is drawn is what was given, on scales that are shared or symmetric as they say."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from problems import square

from gsnobench.data import Array, Field, Mesh, Task
from gsnobench.drawing.quantities import quantities
from gsnobench.runs.gallery import Case, drawn_of, gallery

STEADY = Task(id="poisson", dataset="poisson", fields=(Field("head", "m"),), dim=2)
FLOW = Task(
    id="flow@1-7",
    dataset="flow",
    fields=(
        Field("u", "m/s", vector="velocity"),
        Field("v", "m/s", vector="velocity"),
        Field("p", "Pa"),
    ),
    dim=2,
    t_in=1,
    t_out=7,
)


def make_case(mesh: Mesh, task: Task, wrong: float = 0.1) -> Case:
    x = mesh.points[:, 0]
    times = np.linspace(0.5, 2.0, task.t_out)
    truth = np.stack(
        [np.sin(3 * x + time + channel) for time in times for channel in range(len(task.fields))],
        -1,
    )
    truth = truth.reshape(mesh.size, task.t_out, len(task.fields)).transpose(1, 0, 2)  # (T, N, C)
    return Case(
        "best",
        0.0123,
        mesh,
        {"source": x**2},
        truth,
        truth + wrong * np.cos(5 * x)[None, :, None],
        tuple(times),
    )


def pixels(path: Path) -> Array:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def saturation(image: Array) -> Array:
    return image.max(-1) - image.min(-1)


def test_one_picture_holds_every_scored_quantity(tmp_path: Path) -> None:
    cases = [make_case(square(), FLOW)]
    gallery(tmp_path / "cases.png", FLOW, cases, title="gsno@plus on flow@1-7")
    single = replace(FLOW, fields=(Field("p", "Pa"),))
    gallery(tmp_path / "one.png", single, [make_case(square(), single)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cases.png", "one.png"]
    both, one = (pixels(tmp_path / name).shape[0] for name in ("cases.png", "one.png"))
    assert both == 2 * one


def test_a_right_prediction_looks_like_the_truth_and_leaves_the_error_white(tmp_path: Path) -> None:
    task = Task(id="poisson", dataset="poisson", fields=(Field("head", "m"),), dim=2)
    right, off = make_case(square(), task, wrong=0.0), make_case(square(), task, wrong=0.2)
    for case in (right, off):
        object.__setattr__(case, "inputs", {})
    gallery(tmp_path / "right.png", task, [right])
    gallery(tmp_path / "off.png", task, [off])
    first, second = pixels(tmp_path / "right.png"), pixels(tmp_path / "off.png")
    width = first.shape[1]
    error = slice(int(0.68 * width), int(0.84 * width))  # the column of the error
    rows = slice(int(0.4 * first.shape[0]), int(0.85 * first.shape[0]))
    assert saturation(first[rows, error]).max() < 12
    assert saturation(second[rows, error]).max() > 90
    assert not np.array_equal(first, second)


def test_a_picture_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        gallery(tmp_path / f"{name}.png", STEADY, [make_case(square(), STEADY)])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("kind", ["points", "quadrilaterals", "space"])
def test_other_kinds_of_mesh_are_drawn_in_colour(tmp_path: Path, kind: str) -> None:
    mesh = square()
    if kind == "points":
        mesh = Mesh(mesh.points)
    if kind == "quadrilaterals":
        number = np.arange(121).reshape(11, 11)
        corners = (number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1])
        mesh = Mesh(mesh.points, np.stack([corner.ravel() for corner in corners], axis=1))
    if kind == "space":
        mesh = Mesh(np.column_stack([mesh.points, mesh.points[:, 0] ** 2]))
    gallery(tmp_path / "cases.png", STEADY, [make_case(mesh, STEADY)])
    assert (saturation(pixels(tmp_path / "cases.png")) > 60).mean() > 0.04


def test_a_prediction_that_is_not_finite_is_drawn_as_a_gap(tmp_path: Path) -> None:
    case = make_case(square(), STEADY)
    case.prediction[:] = np.nan
    gallery(tmp_path / "cases.png", STEADY, [case])
    assert (saturation(pixels(tmp_path / "cases.png")) > 60).mean() > 0.05


def test_a_given_frame_has_the_colours_of_the_truth_and_a_uniform_one_no_panel(
    tmp_path: Path,
) -> None:
    case = make_case(square(), STEADY)
    given = replace(case, inputs={}, given=case.truth[0], given_time=0.5)
    uniform = replace(given, given=np.full_like(case.truth[0], 3.0))
    (quantity,) = quantities(STEADY)
    (panel,) = drawn_of(given, STEADY, quantity, signed=True).inputs
    assert panel.heading == "given, t = 0.5 s"
    assert panel.scale == drawn_of(given, STEADY, quantity, signed=True).truth[0].scale
    assert drawn_of(uniform, STEADY, quantity, signed=True).inputs == []


def test_frames_of_a_decaying_field_have_scales_of_their_own(tmp_path: Path) -> None:
    task = replace(FLOW, fields=(Field("p", "Pa"),))
    case = make_case(square(), task)
    fading = replace(case, truth=case.truth * np.geomspace(1, 1e-6, 7)[:, None, None])
    (quantity,) = quantities(task)
    drawn = drawn_of(fading, task, quantity, signed=True)
    assert drawn.has_own_scales and len({panel.scale for panel in drawn.truth}) == 5
    assert not drawn_of(case, task, quantity, signed=True).has_own_scales
    shared = drawn_of(fading, task, quantity, signed=True, shares_scales=True)
    assert not shared.has_own_scales  # a moving picture must not flicker
    gallery(tmp_path / "fading.png", task, [fading])
    gallery(tmp_path / "steady.png", task, [case])
    heights = [pixels(tmp_path / f"{name}.png").shape[0] for name in ("fading", "steady")]
    assert heights[0] > heights[1]  # bars below the columns


def test_drawing_leaves_matplotlibs_global_state_alone() -> None:
    script = "import sys, gsnobench.runs.gallery; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
