"""Darcy generator: CPU seconds per sample and accuracy at the published nodes.

For both permeability laws, in one run.

    OMP_NUM_THREADS=1 python benchmarks/darcy.py [--nodes 1184] [--samples 16] [--json FILE]

The error of the default configuration is its distance from a solution on a mesh refined once more
than any knob allows. The prepared multigrid solver is timed against a sparse direct solver on the
same matrices, interleaved.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

import gsnobench as gb
from gsnobench.data import Array
from gsnobench.meshes.interpolation import evaluation_matrix
from gsnobench.meshes.operators import factorise
from gsnobench_plugins.datasets import darcy
from gsnobench_plugins.solvers.methods.multigrid import NestedDiffusion

BARS = {"cpu_s": 0.15, "error": 3e-3}
REFERENCE = 4  # refinements of the reference solution


def reference_heads(setup: darcy.Setup, nested: NestedDiffusion, samples: int) -> Array:
    """Heads at the published nodes from a much finer mesh, (samples, N)."""
    at_quarters = evaluation_matrix(setup.basis.mesh, darcy.quarter_centres(nested.finest))
    heads = []
    for index in range(samples):
        field = darcy.draw_field(setup, 1, "test", index)
        quarters = darcy.permeability(setup, at_quarters @ field).reshape(-1, 4)
        heads.append(nested.solve(4.0 / np.sum(1.0 / quarters, axis=1))[: setup.mesh.size])
    return np.stack(heads)


def direct_ratio(setup: darcy.Setup, repeats: int = 3) -> float:
    """CPU time of a sparse direct solve over that of the multigrid solve, least of several."""
    form, nested = setup.nested.forms[-1], setup.nested
    coefficient = np.exp(np.sin(9 * nested.finest.points[nested.finest.cells].mean(axis=1)[:, 0]))
    direct, multigrid = [], []
    for _ in range(repeats):
        start = time.process_time()
        factorise(form.matrix(coefficient).tocsc()).solve(nested.unit_load)
        middle = time.process_time()
        nested.solve(coefficient)
        direct.append(middle - start)
        multigrid.append(time.process_time() - middle)
    return min(direct) / min(multigrid)


def measure(
    psi: str, nodes: int, samples: int, cache: gb.Cache, nested: NestedDiffusion
) -> dict[str, float]:
    """Cost and error of one permeability law."""
    start = time.process_time()
    setup = darcy.setup(darcy.Params.make({"psi": psi}), nodes, cache)
    ready = time.process_time()
    heads = np.stack(
        [sample.frames[0, :, 0] for sample in darcy.generate(setup, 1, "test", range(samples))]
    )
    done = time.process_time()
    few = min(samples, 4)
    exact = reference_heads(setup, nested, few)
    errors = np.linalg.norm(heads[:few] - exact, axis=1) / np.linalg.norm(exact, axis=1)
    return {
        "setup_s": ready - start,
        "cpu_s": (done - ready) / samples,
        "error": float(errors.mean()),
        "worst_error": float(errors.max()),
        "direct_over_multigrid": direct_ratio(setup),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1184, choices=darcy.RESOLUTIONS)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = gb.Cache(Path(folder))
        mesh = darcy.setup(darcy.Params(refinements=0), options.nodes, cache).mesh
        nested = NestedDiffusion.of(mesh, refinements=REFERENCE)
        table = {
            psi: measure(psi, options.nodes, options.samples, cache, nested)
            for psi in ("exp", "threshold")
        }
    for psi, row in table.items():
        print(psi, *(f"{name}={value:.3g}" for name, value in row.items()), sep="  ")
        for name, bar in BARS.items():
            print(
                f"  {name}: {row[name]:.3g} (bar {bar:g}): {'ok' if row[name] <= bar else 'MISSED'}"
            )
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
