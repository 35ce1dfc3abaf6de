"""Pictures: what is drawn is what was given, on scales that are shared or symmetric as they say."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from problems import square

from gsnobench.data import Array, Field, Mesh, Task
from gsnobench.runs.drawing import Scale, view_of
from gsnobench.runs.gallery import Case, draw_curve, gallery, panels

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


def ring() -> Mesh:
    """Two circles of 24 nodes with triangles between them."""
    angle = np.arange(24) * math.pi / 12
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    inner, after = np.arange(24), (np.arange(24) + 1) % 24
    cells = np.concatenate(
        [
            np.column_stack([inner, inner + 24, after]),
            np.column_stack([after, inner + 24, after + 24]),
        ]
    )
    return Mesh(np.concatenate([0.5 * circle, circle]), cells, {"hull": np.arange(48) >= 24})


def pixels(path: Path) -> Array:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def saturation(image: Array) -> Array:
    return image.max(-1) - image.min(-1)


def test_one_picture_for_each_scored_quantity(tmp_path: Path) -> None:
    cases = [make_case(square(), FLOW)]
    written = gallery(tmp_path / "cases.png", FLOW, cases, title="gsno@plus on flow@1-7")
    assert sorted(path.name for path in written) == ["cases_p.png", "cases_velocity.png"]
    assert all(pixels(path).shape[0] > 300 for path in written)
    assert gallery(tmp_path / "one.png", STEADY, [make_case(square(), STEADY)]) == (
        tmp_path / "one.png",
    )


def test_a_right_prediction_looks_like_the_truth_and_leaves_the_error_white(tmp_path: Path) -> None:
    task = Task(id="poisson", dataset="poisson", fields=(Field("head", "m"),), dim=2)
    right, off = make_case(square(), task, wrong=0.0), make_case(square(), task, wrong=0.2)
    for case in (right, off):
        object.__setattr__(case, "inputs", {})
    gallery(tmp_path / "right.png", task, [right])
    gallery(tmp_path / "off.png", task, [off])
    first, second = pixels(tmp_path / "right.png"), pixels(tmp_path / "off.png")
    width = first.shape[1]
    error = slice(int(0.70 * width), int(0.86 * width))  # the column of the error
    rows = slice(int(0.4 * first.shape[0]), int(0.85 * first.shape[0]))
    assert saturation(first[rows, error]).max() < 12
    assert saturation(second[rows, error]).max() > 90
    assert not np.array_equal(first, second)


def test_a_picture_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        gallery(tmp_path / f"{name}.png", STEADY, [make_case(square(), STEADY)])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_error_colours_are_symmetric_about_zero_and_outliers_do_not_hide_the_rest() -> None:
    values = np.concatenate([np.linspace(-1, 2, 2000), [1e6]])
    scale = Scale.symmetric(values, "error")
    assert scale.low == -scale.high and 1.9 < scale.high < 2.1
    assert scale.cut_above and not scale.cut_below
    assert Scale.rising(np.abs(values), "error").low == 0


def test_a_constant_field_has_a_scale_of_some_width() -> None:
    scale = Scale.spanning(np.full(10, 5.0), "h")
    assert scale.low < 5.0 < scale.high
    assert Scale.spanning(np.zeros(3), "h").low < 0


def test_the_outline_of_a_ring_is_two_circles() -> None:
    mesh = ring()
    view = view_of(mesh, np.ones(mesh.size, dtype=bool))
    assert len(view.outline) == 48
    assert set(np.round(np.linalg.norm(view.outline.reshape(-1, 2), axis=1), 6)) == {0.5, 1.0}


def test_nodes_outside_the_support_are_not_drawn() -> None:
    mesh = ring()
    view = view_of(mesh, mesh.tags["hull"])
    assert view.nodes.tolist() == list(range(24, 48))
    assert view.triangles is None


def test_a_crowd_of_nodes_in_a_wide_domain_is_shown_large() -> None:
    draw = np.random.default_rng(0)
    crowd = np.concatenate([draw.normal(0, 0.1, (1000, 2)), draw.uniform(-20, 20, (50, 2))])
    x0, x1, _, _ = view_of(Mesh(crowd), np.ones(1050, dtype=bool)).box
    assert x1 - x0 < 2
    even = draw.uniform(-20, 20, (1000, 2))
    x0, x1, _, _ = view_of(Mesh(even), np.ones(1000, dtype=bool)).box
    assert x1 - x0 > 39


def test_the_far_side_of_a_body_in_space_is_hidden() -> None:
    draw = np.random.default_rng(0)
    sphere = draw.normal(size=(3000, 3))
    sphere /= np.linalg.norm(sphere, axis=1)[:, None]
    view = view_of(Mesh(sphere), np.ones(3000, dtype=bool))
    assert 1200 < len(view.nodes) < 2200
    corner = np.radians(25.0)
    towards = -np.array(
        [
            np.sin(np.radians(-60.0)) * np.cos(corner),
            np.cos(np.radians(-60.0)) * np.cos(corner),
            -np.sin(corner),
        ]
    )
    front = sphere @ towards > 0.5
    assert np.isin(np.flatnonzero(front), view.nodes).mean() > 0.99
    assert not np.isin(np.flatnonzero(sphere @ towards < -0.5), view.nodes).any()


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


def test_a_curve_is_drawn_from_any_history(tmp_path: Path) -> None:
    point = {"phase": "fit", "epoch": 1, "step": 4, "loss": 0.5, "lr": 1e-3}
    histories = {
        "none": [],
        "closed": [{"phase": "fit", "epoch": 1, "step": 0, "valid": 0.3}],
        "two": [
            point,
            {**point, "phase": "tune", "valid": 0.1},
            {**point, "phase": "tune", "step": 8, "loss": math.nan},
        ],
    }
    for name, history in histories.items():
        draw_curve(tmp_path / f"{name}.png", history)
    shown = {name: (saturation(pixels(tmp_path / f"{name}.png")) > 60).sum() for name in histories}
    assert shown["none"] == 0 < shown["closed"] < shown["two"]


def test_panels_show_every_column(tmp_path: Path) -> None:
    mesh = square()
    for count in (1, 3):
        panels(
            mesh,
            {f"f{number}": mesh.points[:, 0] * number for number in range(1, count + 1)},
            "square",
            tmp_path / f"{count}.png",
        )
    assert pixels(tmp_path / "3.png").shape[1] > 2.5 * pixels(tmp_path / "1.png").shape[1]


def test_drawing_leaves_matplotlibs_global_state_alone() -> None:
    script = "import sys, gsnobench.runs.gallery; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
