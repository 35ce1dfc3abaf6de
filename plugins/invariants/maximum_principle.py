"""Maximum principle: where walls are at 0, no component of Burgers' velocity exceeds its start."""

from __future__ import annotations

import numpy as np

import gsnobench as gb

GSNOBENCH_API = 1
DATASETS = ("burgers2d", "burgers3d")


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """To Burgers' equation; with a pressure the principle does not hold."""
    return task.dataset in DATASETS


def measure(sample: gb.Sample, mesh: gb.Mesh, task: gb.Task) -> float:
    """By how much a component exceeds its largest value at the start, relative."""
    largest = np.abs(sample.frames).max(axis=1)  # (T, C)
    return float(max((largest / largest[0]).max() - 1.0, 0.0))


@gb.hookimpl
def gsnobench_invariant() -> gb.Invariant:
    """The principle; on 533 nodes in space the start looks a tenth too small."""
    help = "by how much a component exceeds its largest value at the start, relative"
    return gb.Invariant("maximum_principle", measure, limit=0.2, help=help, applies=applies)
