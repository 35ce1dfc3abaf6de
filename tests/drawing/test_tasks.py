"""Pictures of tasks: every kind of task is drawn, small, and the same each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from problems import square, steady, unsteady

from gsnobench.data import Field, Mesh, Samples, Task
from gsnobench.drawing.page import ticks
from gsnobench.drawing.scales import Scale
from gsnobench.drawing.tasks import Shown, draw_moving, draw_task, draw_tile, draw_tiles


def shown(samples: Samples) -> Shown:
    return Shown.of(samples, 0, title="A title", time_unit="s")


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def coloured(path: Path) -> float:
    image = pixels(path)
    return float(((image.max(-1) - image.min(-1)) > 60).mean())


def test_steady_and_unsteady_tasks_are_drawn_small_and_always_the_same(tmp_path: Path) -> None:
    for name, samples in {"steady": steady(), "unsteady": unsteady()}.items():
        for number in range(2):
            draw_task(tmp_path / f"{name}{number}.png", shown(samples["test"]))
        first, second = ((tmp_path / f"{name}{n}.png").read_bytes() for n in range(2))
        assert first == second and len(first) < 60_000
        assert coloured(tmp_path / f"{name}0.png") > 0.05
        assert pixels(tmp_path / f"{name}0.png").shape[1] <= 930  # fits the column of a README


def test_a_uniform_input_gets_no_panel(tmp_path: Path) -> None:
    varied = steady()["test"]
    uniform = Samples(
        varied.task, varied.meshes, varied.frames, np.ones(varied.static.shape), varied.scalars
    )
    for name, samples in {"varied": varied, "uniform": uniform}.items():
        draw_task(tmp_path / f"{name}.png", shown(samples))
    widths = [pixels(tmp_path / f"{name}.png").shape[1] for name in ("varied", "uniform")]
    assert widths[1] < 0.8 * widths[0]


def test_a_strip_begins_with_the_last_given_frame_that_shows_something() -> None:
    mesh = square()
    frames = np.ones((1, 6, mesh.size, 1))
    frames[0, 1:, :, 0] += mesh.points[:, 0]
    task = Task(
        id="flow@1-1",
        dataset="flow",
        fields=(Field("u"),),
        dim=2,
        t_in=1,
        t_out=1,
        times=tuple(range(6)),
        starts=(0, 1, 2, 3, 4),
    )
    empty = np.zeros((1, mesh.size, 0))
    samples = Samples(task, (mesh,), frames, empty, np.zeros((1, 0)))
    assert shown(samples).last_given == 1
    assert shown(samples).strip(3) == [1, 3, 5]


def test_a_cloud_in_space_is_drawn(tmp_path: Path) -> None:
    points = np.random.default_rng(0).uniform(-1, 1, (600, 3))
    task = Task(id="cloud", dataset="cloud", fields=(Field("p", "Pa"),), dim=3)
    frames = points[None, None, :, :1].copy()
    samples = Samples(task, (Mesh(points),), frames, np.zeros((1, 600, 0)), np.zeros((1, 0)))
    draw_task(tmp_path / "cloud.png", shown(samples))
    assert coloured(tmp_path / "cloud.png") > 0.1


def test_tiles_and_a_moving_picture(tmp_path: Path) -> None:
    moving = shown(unsteady()["test"])
    draw_tiles(tmp_path / "tiles.png", [moving, shown(steady()["test"])])
    assert coloured(tmp_path / "tiles.png") > 0.1
    draw_tile(tmp_path / "tile.png", moving)
    assert coloured(tmp_path / "tile.png") > 0.1
    draw_moving(tmp_path / "moving.gif", moving)
    with Image.open(tmp_path / "moving.gif") as gif:
        assert gif.n_frames == len(moving.task.times)
    assert (tmp_path / "moving.gif").stat().st_size <= 400_000


@pytest.mark.parametrize("inches", [0.6, 1.0, 2.0])
@pytest.mark.parametrize(
    "scale",
    [
        Scale(0.0, 0.0134, "viridis", ""),
        Scale(4.6, 5.4, "RdBu_r", ""),
        Scale(0.65, 0.7785, "RdBu_r", ""),
        Scale(-237.0, 237.0, "RdBu_r", ""),
        Scale(3e-16, 2.1e-15, "viridis", ""),
    ],
)
def test_ticks_are_inside_and_apart_and_at_least_two(scale: Scale, inches: float) -> None:
    for is_upright in (True, False):
        found = ticks(scale, inches, is_upright=is_upright)
        assert len(found) >= 2 and found == sorted(found)
        assert scale.low <= found[0] + 1e-12 and found[-1] <= scale.high + 1e-12
        apart = min(np.diff(found)) / (scale.high - scale.low) * inches
        assert apart >= (0.15 if is_upright else 0.2)
