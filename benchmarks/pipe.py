"""The pipe's solver at every resolution: CPU seconds per sample, and error of the velocity.

The error is against a much finer solution.

    OMP_NUM_THREADS=1 python benchmarks/pipe.py [--samples 4] [--resolutions 1089,4225]
    [--linear-solver superlu] [--json FILE]

The reference has 256 elements along and 128 across. Errors are relative L2 of the horizontal
velocity over the published nodes; CPU time is the mean of the samples after a first one that is not
counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import gsnobench as gb
from gsnobench.data import Array, Split
from gsnobench_plugins.datasets import pipe

REFERENCE = {"along": 256, "across": 128}
BARS = {"error": 0.02, "cpu_s": 8.0, "nodes": 4225}


def main() -> int:
    """Print one line per resolution and split; the exit code is 1 if 4225 nodes miss the bars."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--resolutions", default="1089,4225,16641")
    parser.add_argument("--splits", default="test,test_ood")
    parser.add_argument("--linear-solver", default="superlu", choices=("superlu", "pardiso"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    setups = {
        nodes: pipe.setup(pipe.Params(linear_solver=options.linear_solver), nodes, gb.Cache())
        for nodes in map(int, options.resolutions.split(","))
    }
    rows = [
        row
        for split in options.splits.split(",")
        for row in measure(setups, split, options.samples)
    ]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    judged = [row for row in rows if row["nodes"] == BARS["nodes"] and row["split"] == "test"]
    is_missed = [row["worst"] > BARS["error"] or row["cpu_s"] > BARS["cpu_s"] for row in judged]
    print(
        f"bars at {BARS['nodes']} nodes: {BARS['cpu_s']} CPU-s, {100 * BARS['error']} %: "
        f"{'MISSED' if any(is_missed) else 'ok'}"
    )
    return int(any(is_missed))


def measure(setups: dict[int, pipe.Setup], split: Split, samples: int) -> list[dict]:
    """Costs and errors of the default configuration at each resolution."""
    fine = pipe.setup(pipe.Params(**REFERENCE), max(pipe.RESOLUTIONS), gb.Cache())
    exact = [velocity(fine, split, index) for index in range(samples)]
    rows = []
    for nodes, setup in setups.items():
        velocity(setup, "valid", 0)
        began = time.process_time()
        computed = [velocity(setup, split, index) for index in range(samples)]
        cpu_s = (time.process_time() - began) / samples
        stride = (fine.side - 1) // (setup.side - 1)
        errors = [
            relative(coarse, fine[::stride, ::stride])
            for coarse, fine in zip(computed, exact, strict=True)
        ]
        grid = setup.levels[-1].grid
        rows.append(
            {
                "nodes": nodes,
                "split": split,
                "elements": [grid.along, grid.across],
                "unknowns": grid.size,
                "cpu_s": round(cpu_s, 3),
                "mean": round(float(np.mean(errors)), 6),
                "worst": round(float(np.max(errors)), 6),
            }
        )
        print(show(rows[-1]), flush=True)
    return rows


def velocity(setup: pipe.Setup, split: Split, index: int) -> Array:
    """Horizontal velocity at the published nodes, (side, side)."""
    sample = next(pipe.generate(setup, 0, split, [index]))
    return sample.frames[0, :, 0].reshape(setup.side, setup.side)


def relative(computed: Array, exact: Array) -> float:
    return float(np.linalg.norm(computed - exact) / np.linalg.norm(exact))


def show(row: dict) -> str:
    """One line of the table."""
    along, across = row["elements"]
    return (
        f"{row['nodes']:6d} nodes, {row['split']:8s} solved with {along} x {across} elements "
        f"({row['unknowns']} unknowns): "
        f"{row['cpu_s']:.3f} CPU-s per sample; error {100 * row['mean']:.3f} % (mean), "
        f"{100 * row['worst']:.3f} % (worst)"
    )


if __name__ == "__main__":
    sys.exit(main())
