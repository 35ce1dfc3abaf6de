"""Makes the samples of a dataset in worker processes, shard by shard.

A shard is a file of consecutive samples; a finished one is never made again. The shards of all
splits are joined into the file of the task.
"""

from __future__ import annotations

import os
import pickle
import shutil
import traceback
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.data import Array, Mesh, Samples, Split, Task
from gsnobench.datasets.store import open_file, task_from_json, task_to_json, write
from gsnobench.declare import Dataset, Sample
from gsnobench.errors import DataError, GsnobenchError, PluginError
from gsnobench.files import Cache
from gsnobench.plugins import listed, load
from gsnobench.processes import Child, Parent, ready, start_fresh, stopped_at_end

Progress = Callable[[int, int], None]  # samples done, samples in all
# of a worker: the last bits of a sum depend on the number of BLAS threads, and the other workers
# use the other cores
THREADS = 1


@dataclass(frozen=True)
class Shard:
    """Samples `start` to `stop` of a split, in a file of their own."""

    split: Split
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.split}-{self.start:06d}-{self.stop:06d}.nc"


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes shards of one task into a folder; what all samples share is set up once."""

    dataset: Dataset
    task: Task
    folder: Path
    cache: Cache

    @cached_property
    def setup(self) -> Any:
        params = self.dataset.params.make(self.task.data, label="data")
        return self.dataset.setup(params, self.task.resolution, self.cache)

    def make(self, shard: Shard) -> None:
        """Write one shard; an error of the plugin is one line that names it."""
        dataset = self.dataset
        indices = list(range(shard.start, shard.stop))
        try:
            made = list(dataset.generate(self.setup, self.task.data_seed, shard.split, indices))
            samples = gathered(dataset, self.task, made, dataset.mesh(self.setup))
            _check_finite(dataset, shard, samples)
        except GsnobenchError:
            raise
        except Exception as error:
            label = f"{shard.split} samples {shard.start} to {shard.stop - 1}"
            raise PluginError(
                f"{dataset.name}: making {label} failed ({_in_one_line(error)}); report it to its "
                "author"
            ) from error
        if len(made) != len(indices):
            raise PluginError(
                f"{dataset.name}: generate() gave {len(made)} samples for {len(indices)} indices"
            )
        write(self.folder / shard.name, {shard.split: samples}, provenance={}, level=0)


def single_sample(dataset: Dataset, task: Task, split: Split, index: int, cache: Cache) -> Samples:
    """One sample alone, the same as in the whole set: a sample depends on its number only."""
    maker = Maker(dataset, task, Path(), cache)
    made = list(dataset.generate(maker.setup, task.data_seed, split, [index]))
    return gathered(dataset, task, made, dataset.mesh(maker.setup))


def _in_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def gathered(dataset: Dataset, task: Task, made: Sequence[Sample], shared: Mesh | None) -> Samples:
    """Samples as padded arrays of float32."""
    if (shared is not None) != task.fixed_mesh:
        is_wrong = "mesh() gives a shared mesh" if shared is not None else "mesh() gives none"
        raise PluginError(
            f"{dataset.name}: {is_wrong}, but fixed_mesh is {task.fixed_mesh}; make both say the "
            "same"
        )
    if shared is not None:
        meshes: tuple[Mesh, ...] = (shared,)
    else:
        meshes = tuple(_own_mesh(dataset, sample) for sample in made)
    count, nodes = len(made), max(mesh.size for mesh in meshes)
    frames_shape = (count, len(task.times), nodes, len(task.fields))
    frames = np.zeros(frames_shape, dtype=np.float32)  # (S, T, N, C)
    static = np.zeros((count, nodes, len(task.static)), dtype=np.float32)  # (S, N, F)
    scalars = np.zeros((count, len(task.scalars)), dtype=np.float32)  # (S, P)
    for index, sample in enumerate(made):
        size = meshes[0 if shared is not None else index].size
        targets = {
            "frames": frames[index, :, :size],
            "static": static[index, :size],
            "scalars": scalars[index],
        }
        for name, target in targets.items():
            values = np.asarray(getattr(sample, name))
            if values.shape != target.shape:
                raise PluginError(
                    f"{dataset.name}: a sample has {name} of shape {values.shape}; expected "
                    f"{target.shape}"
                )
            target[...] = values
    return Samples(task, meshes, frames, static, scalars)


def _check_finite(dataset: Dataset, shard: Shard, samples: Samples) -> None:
    task = samples.task
    declared = {"frames": task.fields, "static": task.static, "scalars": task.scalars}
    for kind, fields in declared.items():
        is_bad = ~np.isfinite(getattr(samples, kind))
        if is_bad.any():
            index, *_, channel = np.argwhere(is_bad)[0]
            label = f"{fields[channel].name} of {shard.split} sample {shard.start + index}"
            raise PluginError(
                f"{dataset.name}: {label} is not finite as a 32-bit number; its solver diverged "
                "there"
            )


def _own_mesh(dataset: Dataset, sample: Sample) -> Mesh:
    if sample.mesh is None:
        raise PluginError(
            f"{dataset.name}: a sample has no mesh and there is no shared one; give every Sample "
            "its mesh"
        )
    return sample.mesh


# ---------------------------------------------------------------------------------------- processes


def generate_shards(
    maker: Maker, sizes: Mapping[str, int], *, jobs: int = 0, progress: Progress | None = None
) -> tuple[Shard, ...]:
    """All shards of a task; those that are missing are made by `jobs` processes.

    `jobs=0` is one process per core, `jobs=1` this process. The shards do not depend on `jobs`, so
    that the samples are the same in every case; only this process may have more than one BLAS
    thread, which can change the last bits of a sum.
    """
    chunk = max(1, maker.dataset.chunk)
    shards = tuple(
        Shard(split, start, min(start + chunk, size))  # type: ignore[arg-type]
        for split, size in sizes.items()
        for start in range(0, size, chunk)
    )
    missing = [shard for shard in shards if not (maker.folder / shard.name).exists()]
    total = sum(sizes.values())
    done = total - sum(shard.stop - shard.start for shard in missing)
    workers = min(jobs or len(os.sched_getaffinity(0)), len(missing))
    if progress is not None:
        progress(done, total)
    is_alone = jobs == 1
    made = _in_this_process(maker, missing) if is_alone else _in_processes(maker, missing, workers)
    with closing(made):
        for shard in made:
            done += shard.stop - shard.start
            if progress is not None:
                progress(done, total)
    return shards


def _in_this_process(maker: Maker, missing: Sequence[Shard]) -> Generator[Shard, None, None]:
    for shard in missing:
        maker.make(shard)
        yield shard


def _in_processes(
    maker: Maker, missing: Sequence[Shard], workers: int
) -> Generator[Shard, None, None]:
    """Shards as they are finished; a worker that has finished one gets the next."""
    waiting = deque(missing)
    dataset, task = _portable(maker.dataset), task_to_json(maker.task)
    args = (dataset, task, maker.folder, maker.cache.folder)
    children: list[Child] = []
    with stopped_at_end(children):
        for _ in range(workers):
            children.append(start_fresh(_make_shards, *args, threads=THREADS))
            children[-1].send(waiting.popleft())
        while children:
            for child in ready(children):
                yield _finished(maker.dataset, child.receive())
                if waiting:
                    child.send(waiting.popleft())
                else:
                    child.stop()
                    children.remove(child)


def _finished(dataset: Dataset, message: Any) -> Shard:
    """The shard that a worker has made, or its error."""
    if message is None:
        raise DataError(
            f"{dataset.name}: a worker process died, perhaps for want of memory; run again with "
            "fewer --jobs, finished samples are kept"
        )
    shard, error, trace = message
    if error is not None:
        raise error from RuntimeError(f"in a worker process:\n{trace}")
    return shard  # type: ignore[no-any-return]


def _make_shards(
    parent: Parent, dataset: bytes | str, task: str, folder: Path, cache: Path | None
) -> None:
    """What a worker process does: it makes the shards that its parent sends."""
    make = _maker_of(dataset, task, folder, cache)
    while True:
        shard: Shard = parent.receive()
        try:
            make(shard)
            parent.send((shard, None, ""))
        except GsnobenchError as error:
            parent.send((shard, error, traceback.format_exc()))


def _maker_of(
    portable: bytes | str, task: str, folder: Path, cache: Path | None
) -> Callable[[Shard], None]:
    """Makes shards in a worker; raises the reason if the dataset cannot be loaded there."""
    try:
        dataset = load("dataset", portable) if isinstance(portable, str) else pickle.loads(portable)
    except Exception as error:
        failure = PluginError(f"a worker process cannot load its dataset ({_in_one_line(error)})")

        def refuse(shard: Shard) -> None:
            raise failure

        return refuse
    return Maker(dataset, task_from_json(task), folder, Cache(cache)).make


def _portable(dataset: Dataset) -> bytes | str:
    """A dataset for another process: its functions by reference, or the name of its plugin."""
    functions = (dataset.setup, dataset.generate, dataset.mesh, dataset.params)
    advice = "define it in a module of its own or use --jobs 1"
    if any(function.__module__ == "__main__" for function in functions):
        raise PluginError(
            f"{dataset.name}: is defined in the main script, which other processes cannot import; "
            f"{advice}"
        )
    try:
        return pickle.dumps(dataset)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        if dataset.name in {entry.name for entry in listed("dataset")}:
            return dataset.name
        raise PluginError(
            f"{dataset.name}: cannot be sent to another process ({error}); {advice}"
        ) from error


# ----------------------------------------------------------------------------------------- assembly


@dataclass(frozen=True, eq=False)
class Joined:
    """One array of all shards of a split, padded to the largest node count.

    A shard is opened when it is read.
    """

    folder: Path
    shards: tuple[Shard, ...]
    name: str  # frames, static or scalars
    shape: tuple[int, ...]

    def __getitem__(self, index: Any) -> Array:
        rows = np.arange(self.shape[0])[index]
        block = np.zeros((len(rows), *self.shape[1:]), dtype=np.float32)
        for shard in self.shards:
            is_here = (rows >= shard.start) & (rows < shard.stop)
            if is_here.any():
                with open_file(self.folder / shard.name) as opened:
                    array = getattr(opened.split(shard.split), self.name)
                    values = array[rows[is_here] - shard.start]
                block[(is_here, *map(slice, values.shape[1:]))] = values
        return block


def join_shards(maker: Maker, shards: Sequence[Shard]) -> dict[Split, Samples]:
    """The splits of finished shards, ready to be written as one file."""
    task, samples = maker.task, {}
    for split in dict.fromkeys(shard.split for shard in shards):
        parts = tuple(shard for shard in shards if shard.split == split)
        meshes = _joined_meshes(maker, parts)
        count, nodes = parts[-1].stop, max(mesh.size for mesh in meshes)
        shapes = {
            "frames": (count, len(task.times), nodes, len(task.fields)),
            "static": (count, nodes, len(task.static)),
            "scalars": (count, len(task.scalars)),
        }
        arrays = {name: Joined(maker.folder, parts, name, shape) for name, shape in shapes.items()}
        samples[split] = Samples(task, meshes, **arrays)
    return samples


def _joined_meshes(maker: Maker, shards: Sequence[Shard]) -> tuple[Mesh, ...]:
    meshes: list[Mesh] = []
    for shard in shards:
        with open_file(maker.folder / shard.name) as opened:
            meshes += opened.split(shard.split).meshes
    if not maker.task.fixed_mesh:
        return tuple(meshes)
    if len({mesh.key for mesh in meshes}) > 1:
        raise PluginError(
            f"{maker.dataset.name}: setup() does not give the same mesh each time; it must depend "
            "on its arguments alone"
        )
    return (meshes[0],)


def discard_shards(maker: Maker) -> None:
    """Remove the shards of a file that is whole."""
    shutil.rmtree(maker.folder, ignore_errors=True)
