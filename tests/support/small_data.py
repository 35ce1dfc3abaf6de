"""The board's tasks in sizes of a few seconds, made by their own solvers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gsnobench.data import Samples
from gsnobench.datasets.ensure import ensure
from gsnobench.datasets.store import open_file
from gsnobench.datasets.tasks import resolve
from gsnobench.declare import Sizes
from gsnobench.plugins import dataset_named

TASKS = (
    *("darcy", "darcy_threshold", "swe", "nse", "burgers2d", "burgers3d"),
    *("elasticity", "pipe", "airfoil", "airfoil_family", "car"),
)


def tiny_data(name: str, home: Path) -> tuple[Samples, Samples]:
    """Training and validation samples in the tiny size of the dataset: a few samples."""
    return _made(name, home, dataset_named(name).tiny)


def smoke_data(name: str, home: Path) -> tuple[Samples, Samples]:
    """Training and validation samples in the size of the track smoke: enough to fit something."""
    return _made(name, home, dataset_named(name).sizes["smoke"])


def _made(name: str, home: Path, sizes: Sizes) -> tuple[Samples, Samples]:
    sizes = replace(sizes, test=1, test_ood=0)  # nobody reads these here
    dataset = replace(dataset_named(name), sizes={"small": sizes})
    file = ensure(dataset, resolve(dataset, name, track="small"), home=home, jobs=1)
    with open_file(file) as opened:
        return opened.read("train"), opened.read("valid")
