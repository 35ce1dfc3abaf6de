"""How the preparation of a large mesh grows with its nodes: CPU-seconds and peak memory.

    OMP_NUM_THREADS=1 python benchmarks/growth.py [--sides 128,181,256,316]

What `gsno@plus` computes once per mesh on a triangulated square of SIDE x SIDE nodes: modes that
vanish on the boundary, modes that smooth its inputs, and distances. Each mesh has a process of its
own; the memory is that of the whole process. The bars are 30 CPU-s and 1.5 GB at 99,856 nodes.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
import scipy.spatial

import gsnobench as gb
from gsnobench.meshes.operators import lumped_mass
from gsnobench.plugins import load

SIDES = (128, 181, 256, 316)


def square(side: int) -> gb.Mesh:
    axis = np.linspace(0, 1, side)
    points = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    inside = ((points > 0) & (points < 1)).all(axis=1)
    points[inside] += np.random.default_rng(0).uniform(-0.2, 0.2, (inside.sum(), 2)) / side
    cells = scipy.spatial.Delaunay(points).simplices.astype(np.int64)
    return gb.Mesh(points, cells, {"boundary": ~inside})


def measure(side: int) -> None:
    """One line: what one mesh costs this process."""
    head, source = gb.Field("head", boundary={"boundary": "dirichlet"}), gb.Field("source")
    task = gb.Task(
        id="poisson", dataset="poisson", fields=(head,), static=(source,), dim=2, tags=("boundary",)
    )
    model, mesh = load("model", "gsno"), square(side)
    assert model.geometry is not None
    params = model.params(**model.presets["plus"].model)
    summary = {"length": np.array([float(lumped_mass(mesh).sum()) ** 0.5])}
    begun = time.process_time()
    model.geometry(mesh, task, params, summary)
    spent = time.process_time() - begun
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{mesh.size:>7} nodes  {spent:6.1f} CPU-s  {peak / 1e9:5.2f} GB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sides", default=",".join(map(str, SIDES)))
    parser.add_argument("--one", action="store_true", help="measure in this process")
    chosen = parser.parse_args()
    sides = [int(word) for word in chosen.sides.split(",")]
    for side in sides:
        if chosen.one:
            measure(side)
        else:
            words = [sys.executable, __file__, "--one", "--sides", str(side)]
            subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
