"""Darcy energy: with a unit source, the integral of a |grad u|^2 is the integral of u."""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.operators import diffusion_matrix, lumped_mass

GSNOBENCH_API = 1
HEAD, PERMEABILITY = "head", "permeability"


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """Where a head is known together with the permeability that made it."""
    fields, static = ([field.name for field in part] for part in (task.fields, task.static))
    return fields == [HEAD] and PERMEABILITY in static and mesh.cells is not None


def measure(sample: gb.Sample, mesh: gb.Mesh, task: gb.Task) -> float:
    """Residual of the equation tested with its own solution, relative."""
    channel = [field.name for field in task.static].index(PERMEABILITY)
    head, cells = sample.frames[0, :, 0], np.asarray(mesh.cells)
    # the harmonic mean is better where the permeability jumps inside a cell
    permeability = 1.0 / np.mean(1.0 / sample.static[cells, channel], axis=1)
    energy = head @ (diffusion_matrix(mesh, permeability) @ head)
    return float(abs(energy / (lumped_mass(mesh) @ head) - 1.0))


@gb.hookimpl
def gsnobench_invariant() -> gb.Invariant:
    """The balance of energy; linear elements on published nodes see it to about 2 %."""
    help = "residual of the equation, tested with the head itself, relative to the source"
    return gb.Invariant("darcy_energy", measure, limit=0.06, help=help, applies=applies)
