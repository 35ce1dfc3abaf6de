"""What every floor scores and what validation chose for it, as one table.

    OMP_NUM_THREADS=1 python benchmarks/floors.py [--tasks a,b] [--floors a,b] [--track laptop]

Runs that exist in the home are read, not repeated. A board shows the errors; it cannot show the
choices: field or change, features, kernel (linear, or Gaussian with its rank and width), strength.
A strength at an end of its range is marked with `!`. The upper end is right where inputs say
nothing: the prediction is then the mean. At the lower end the range should be wider.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from torch import nn

import gsnobench as gb
from gsnobench.registry import read_registry
from gsnobench_plugins.models.floors.choices import STRENGTHS

FLOORS = ("mean", "persistence", "pod", "ridge", "modal", "nearest")
TASKS = (*read_registry().board_tasks, "burgers2d", "burgers3d", "airfoil")  # and the printed ones
ROUNDING = 1e-14
SPLITS = ("valid", "test", "test_ood")


def choices(module: nn.Module) -> str:
    """What the buffers of a fitted floor say, in words."""
    buffers = dict(module.named_buffers())
    words = []
    if "adds_last" in buffers:
        words.append("change" if bool(buffers["adds_last"]) else "field")
    if "anchors" in buffers:
        anchors, precision = buffers["anchors"], float(buffers["precision"])
        is_linear = anchors.shape[0] == 0
        distance = 2 * float(anchors.square().sum(1).mean())  # of two samples, squared
        unused = buffers["axes"].abs().amax(1) < ROUNDING  # (N*F,)
        words.append("plain" if bool(unused.any()) else "transformed")
        width = 0.0 if is_linear else (2 * precision * distance) ** -0.5
        words.append("linear" if is_linear else f"rank {anchors.shape[1]} width {width:g}")
    if "strength" in buffers:
        strength = float(buffers["strength"])
        is_inside = STRENGTHS[0] < strength < STRENGTHS[-1]
        words.append(f"strength {strength:.0e}{'' if is_inside else '!'}")
    return ", ".join(words)


def row(floor: str, task: str, track: str, home: Path | None) -> str:
    result = gb.run(floor, task, track=track, home=home, device="cpu")
    if result.status != "done":
        return f"| {task} | {floor} | {result.status}: {result.reason} |"
    errors = [result.scores[split]["headline"]["rel_l2"] for split in SPLITS]
    module = gb.load(result.spec.short, home=home, device="cpu").setup.module
    cells = [*(f"{error:.4g}" for error in errors), choices(module)]
    costs = result.costs
    cells += [f"{costs[name]:.1f}" for name in ("prepare_cold_s", "train_cpu_s")]
    cells.append(f"{costs['peak_mb']:.0f}")
    return f"| {task} | {floor} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--floors", default=",".join(FLOORS))
    parser.add_argument("--track", default="laptop")
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("GSNOBENCH_TRACKING_URI", "none")
    print("| task | floor | valid | test | test_ood | chosen | prepare s | solve CPU-s | peak MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for task in options.tasks.split(","):
        for floor in options.floors.split(","):
            print(row(floor, task, options.track, options.home), flush=True)


if __name__ == "__main__":
    main()
