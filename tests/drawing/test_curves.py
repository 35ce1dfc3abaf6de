"""Training curves: any history is drawn, floors are level lines."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from PIL import Image

from gsnobench.drawing.curves import draw_curve

POINT = {"phase": "fit", "epoch": 1, "step": 4, "loss": 0.5, "lr": 1e-3}
TWO_PHASES = [
    POINT,
    {**POINT, "phase": "tune", "valid": 0.1},
    {**POINT, "phase": "tune", "step": 8, "loss": math.nan},
]


def coloured(path: Path) -> int:
    image = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return int(((image.max(-1) - image.min(-1)) > 60).sum())


def dark(path: Path) -> int:
    return int((np.asarray(Image.open(path).convert("L")) < 140).sum())


def test_a_curve_is_drawn_from_any_history(tmp_path: Path) -> None:
    histories = {
        "none": [],
        "closed": [{"phase": "fit", "epoch": 1, "step": 0, "valid": 0.3}],
        "two": TWO_PHASES,
    }
    for name, history in histories.items():
        draw_curve(tmp_path / f"{name}.png", history)
    shown = {name: coloured(tmp_path / f"{name}.png") for name in histories}
    assert shown["none"] == 0 < shown["closed"] < shown["two"]


def test_floors_are_lines_and_those_that_failed_are_left_out(tmp_path: Path) -> None:
    floors = {"none": {}, "failed": {"mean": math.nan}, "one": {"ridge": 0.2}}
    for name, errors in floors.items():
        draw_curve(tmp_path / f"{name}.png", TWO_PHASES, title="a", facts="b", floors=errors)
    assert (tmp_path / "none.png").read_bytes() == (tmp_path / "failed.png").read_bytes()
    assert dark(tmp_path / "one.png") > dark(tmp_path / "none.png") + 200


def test_the_printed_error_is_a_line(tmp_path: Path) -> None:
    for name, printed in {"none": None, "some": 0.05}.items():
        draw_curve(tmp_path / f"{name}.png", TWO_PHASES, printed=printed)
    assert dark(tmp_path / "some.png") > dark(tmp_path / "none.png") + 100
