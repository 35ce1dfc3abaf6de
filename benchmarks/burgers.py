"""Burgers in the flower and in the pyramid: CPU seconds per sample, error against finer meshes.

    OMP_NUM_THREADS=1 python benchmarks/burgers.py [--datasets burgers2d,burgers3d] [--samples 2]
        [--resolutions 1168] [--splits test,test_ood] [--variants default,lively] [--until 0.1]
        [--json FILE]

The reference is extrapolated from the two meshes refined once more, marched by rk4 without modes.
Errors are relative L2 over the published nodes of all frames that are alive (norm above 1 % of the
initial one) and not the first, which is exact; `worst` is the worst single frame of any sample. CPU
time is the least of the samples: a busy machine does not count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import gsnobench as gb
from gsnobench.data import Array, Split
from gsnobench_plugins.datasets import burgers2d, burgers3d
from gsnobench_plugins.solvers.equations.nested_burgers import solve

MODULES: dict[str, ModuleType] = {"burgers2d": burgers2d, "burgers3d": burgers3d}
BARS = {
    "burgers2d": {"nodes": 1168, "cpu_s": 1.5, "error": 0.005},
    "burgers3d": {"nodes": 1867, "cpu_s": 1.0, "error": 0.01},
    "burgers2d_lively": {"nodes": 450, "cpu_s": 0.5, "error": 0.01},
    "burgers3d_lively": {"nodes": 533, "cpu_s": 4.0, "error": 0.01},
}
ALIVE = 0.01  # of the initial norm
# time of the reference
UNTIL = {"burgers2d": {"default": 1.0, "lively": 1.0}, "burgers3d": {"default": 0.1, "lively": 1.0}}


def main() -> int:
    """Print one line per case; the exit code is 1 if a configuration misses its bar.

    Bars apply to the test split.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", default="burgers2d,burgers3d")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--resolutions", default="", help="node counts; default: that of the bar")
    parser.add_argument("--splits", default="test")
    parser.add_argument("--variants", default="default")
    parser.add_argument(
        "--until",
        type=float,
        help="end of the reference; by default burgers3d stops at 0.1, one minute per sample",
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [
        measure(
            name, variant, int(nodes), split, options.samples, options.until or UNTIL[name][variant]
        )
        for name in options.datasets.split(",")
        for variant in options.variants.split(",")
        for nodes in (options.resolutions or str(BARS[task_of(name, variant)]["nodes"])).split(",")
        for split in options.splits.split(",")
    ]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["verdict"] == "MISSED" for row in rows))


def measure(
    name: str, variant: str, nodes: int, split: Split, samples: int, until: float
) -> dict[str, Any]:
    """Costs and errors of one configuration."""
    module, cache = MODULES[name], gb.Cache()
    knobs = module.gsnobench_dataset().variants.get(variant, {})
    began = time.process_time()
    shared = module.setup(module.Params(**knobs), nodes, cache)
    setup_s = time.process_time() - began
    finer = module.setup(
        replace(shared.params, refinements=shared.params.refinements + 1), nodes, cache
    )
    errors, worst, seconds, left = [], [], [], []
    next(module.generate(shared, 1, split, [0]))  # compiled before it is timed
    for index in range(samples):
        began = time.process_time()
        frames = next(module.generate(shared, 0, split, [index])).frames
        seconds.append(time.process_time() - began)
        exact = reference(module, finer, split, index, alive_times(module, frames, until))
        apart, norm = frame_norms(frames[: len(exact)] - exact), frame_norms(exact)
        errors.append(float(np.sqrt(np.sum(apart[1:] ** 2) / np.sum(norm[1:] ** 2))))
        worst.append(float(np.max(apart[1:] / norm[1:])))
        left.append(float(frame_norms(frames)[-1] / frame_norms(frames)[0]))
    row = {
        "dataset": task_of(name, variant),
        "nodes": nodes,
        "split": split,
        "solved": finer.nested.meshes[0].size,
        "reference": finer.nested.meshes[1].size,
        "until": until,
        "setup_s": round(setup_s, 2),
        "cpu_s": round(min(seconds), 3),
        "error": round(float(np.mean(errors)), 5),
        "worst": round(max(worst), 5),
        "left": float(f"{np.mean(left):.3g}"),
    }
    row["verdict"] = verdict(row)
    print(show(row), flush=True)
    return row


def task_of(name: str, variant: str) -> str:
    """The id of a variant."""
    return name if variant == "default" else f"{name}_{variant}"


def verdict(row: dict[str, Any]) -> str:
    """ok or MISSED for the configuration that has bars, empty for the others."""
    bar = BARS.get(row["dataset"], {"nodes": 0})
    if row["nodes"] != bar["nodes"] or row["split"] != "test":
        return ""
    return "ok" if row["error"] <= bar["error"] and row["cpu_s"] <= bar["cpu_s"] else "MISSED"


def alive_times(module: ModuleType, frames: Array, until: float) -> tuple[float, ...]:
    """The first times, up to `until` and to the last frame that is alive."""
    norm = frame_norms(frames)
    alive = int(np.flatnonzero(norm > ALIVE * norm[0])[-1]) + 1
    return tuple(t for t in module.TIMES[:alive] if t <= until + 1e-12)


def reference(
    module: ModuleType, finer: Any, split: Split, index: int, times: tuple[float, ...]
) -> Array:
    """The same sample from finer meshes, (T, N, d)."""
    field = module.draw_field(finer, 0, split, index)
    if module is burgers2d:
        initial = [at_nodes @ field for at_nodes in finer.evaluations]
    else:
        initial = [field(mesh.points) for mesh in finer.nested.meshes]
    return solve(finer.nested, initial, times, viscosity=finer.params.viscosity)


def frame_norms(frames: Array) -> Array:
    """Euclidean norm of every frame, (T,)."""
    return np.asarray(np.sqrt(np.sum(frames**2, axis=(1, 2))))


def show(row: dict[str, Any]) -> str:
    """One line of the table."""
    return (
        f"{row['dataset']:16s} {row['nodes']:5d} nodes, {row['split']:8s} solved on "
        f"{row['solved']:6d}, "
        f"reference {row['reference']:6d} to t = {row['until']:g}: setup {row['setup_s']:5.2f} s, "
        f"{row['cpu_s']:6.3f} CPU-s per sample; error {100 * row['error']:.3f} %, worst frame "
        f"{100 * row['worst']:.3f} %; "
        f"{row['left']:.3g} of the norm left at the end {row['verdict']}"
    )


if __name__ == "__main__":
    sys.exit(main())
