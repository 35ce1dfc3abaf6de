"""The file with the data of a task; a missing one is made by the solver, in parallel, resumable."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gsnobench.data import Task
from gsnobench.datasets.generate import (
    Maker,
    Progress,
    discard_shards,
    generate_shards,
    join_shards,
)
from gsnobench.datasets.store import FORMAT, write
from gsnobench.datasets.tasks import default_window, with_window
from gsnobench.declare import Dataset
from gsnobench.files import Cache, digest, lock


def data_path(task: Task, home: Path) -> Path:
    """The file of a task, whether it exists or not; all windows of a task read the same file."""
    recipe = {
        "dataset": task.dataset,
        "version": task.version,
        "knobs": dict(task.data),
        "resolution": task.resolution,
        "sizes": dict(task.sizes),
        "data_seed": task.data_seed,
        "format": FORMAT,
    }
    return home / "data" / task.base / f"v{task.version}" / f"{digest(recipe)[:12]}.nc"


def ensure(
    dataset: Dataset, task: Task, *, home: Path, jobs: int = 0, progress: Progress | None = None
) -> Path:
    """The file with the data of a task, made if it is missing.

    Samples are made by `jobs` processes (0: one per core; 1: this one) in chunks that are kept
    until the file is complete, so that a killed run continues. Two processes that need the file at
    the same time make it once.
    """
    path = data_path(task, home)
    if path.exists():
        return path
    with lock(path.with_suffix(".lock")):
        if path.exists():  # another process was faster
            return path
        for left_over in path.parent.glob(f".{path.name}.*.part"):
            left_over.unlink()  # of a killed process: whoever holds the lock is alone
        # all windows read this file, so it states the default one
        stated = with_window(dataset, task, default_window(dataset, task.id))
        maker = Maker(dataset, stated, path.with_suffix(".parts"), Cache(home / "cache"))
        shards = generate_shards(maker, task.sizes, jobs=jobs, progress=progress)
        write(
            path,
            join_shards(maker, shards),
            provenance=provenance(dataset, task),
            time_unit=dataset.time_unit,
            length_unit=dataset.length_unit,
        )
        discard_shards(maker)
    return path


def provenance(dataset: Dataset, task: Task) -> dict[str, str]:
    """Where the data come from, as attributes of the file."""
    knobs = [f"{name}={value}" for name, value in task.data.items()]
    version, seed = f"{dataset.name} revision {dataset.revision}", f"data seed {task.data_seed}"
    made = ", ".join([version, seed, f"resolution {task.resolution}", *knobs])
    return {
        "title": dataset.title or dataset.name,
        "source": dataset.solver,
        "references": " ".join(part for part in (dataset.cites, dataset.url) if part),
        "licence": dataset.licence,
        "history": f"made by gsnobench: {made}",
        "origin": "generated",
        "data_knobs": json.dumps(dict(task.data), sort_keys=True),
        "data_seed": str(task.data_seed),
        "resolution": str(task.resolution),
        "dataset_revision": str(dataset.revision),
    }


@dataclass(frozen=True)
class Estimate:
    """The size of the data of a task, before they are made."""

    samples: int
    disk_bytes: int  # before compression
    memory_bytes: int  # all splits in memory, as in training


def estimate(dataset: Dataset, task: Task) -> Estimate:
    """The size of the data of a task, from its shapes alone."""
    samples, nodes = sum(task.sizes.values()), task.resolution
    per_node = len(dataset.times) * len(task.fields) + len(task.static)
    values = nodes * per_node + len(task.scalars)  # of one sample, float32
    cells = nodes * (2 if task.dim == 2 else 6)  # usual numbers of triangles and of tetrahedra
    mesh = nodes * (8 * task.dim + len(task.tags)) + 4 * cells * (task.dim + 1)
    total = 4 * samples * values + mesh * (1 if task.fixed_mesh else samples)
    return Estimate(samples, total, total)
