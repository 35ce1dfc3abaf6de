"""Makes the samples of a dataset in worker processes, chunk by chunk; a finished chunk is a file
and is never made twice.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.data import Array, Mesh, Samples, Split, Task
from gsnobench.datasets.store import open_file, task_from_json, task_to_json, write
from gsnobench.declare import Dataset, Sample
from gsnobench.errors import DataError, GsnobenchError, PluginError
from gsnobench.files import Cache
from gsnobench.plugins import listed, load

Progress = Callable[[int, int], None]  # samples done, samples in all

# BLAS on one thread: the last bits of a sum depend on the number of threads, and the cores are
# taken by the other workers
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1"
    for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "NUMBA")
}


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
    """Makes shards of one task into a folder; what all samples share is set up once, before the
    first of them.
    """

    dataset: Dataset
    task: Task
    folder: Path
    cache: Cache

    @cached_property
    def setup(self) -> Any:
        return self.dataset.setup(
            self.dataset.params.make(self.task.data, label="data"), self.task.resolution, self.cache
        )

    def make(self, shard: Shard) -> None:
        """Write one shard; what a plugin does wrong is one line that names it."""
        try:
            indices = list(range(shard.start, shard.stop))
            made = list(
                self.dataset.generate(self.setup, self.task.data_seed, shard.split, indices)
            )
            samples = _gathered(self.dataset, self.task, made, self.dataset.mesh(self.setup))
            _check_finite(self.dataset, shard, samples)
        except GsnobenchError:
            raise
        except Exception as error:
            label = f"{shard.split} samples {shard.start} to {shard.stop - 1}"
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise PluginError(
                f"{self.dataset.name}: making {label} failed ({reason}); report it to its author"
            ) from error
        if len(made) != len(indices):
            raise PluginError(
                f"{self.dataset.name}: generate() gave {len(made)} samples for {len(indices)} "
                "indices"
            )
        write(self.folder / shard.name, {shard.split: samples}, provenance={}, level=0)


def _gathered(dataset: Dataset, task: Task, made: Sequence[Sample], shared: Mesh | None) -> Samples:
    """Samples as padded arrays of float32."""
    if (shared is not None) != task.fixed_mesh:
        is_wrong = "mesh() gives a shared mesh" if shared is not None else "mesh() gives none"
        raise PluginError(
            f"{dataset.name}: {is_wrong}, but fixed_mesh is {task.fixed_mesh}; make both say the "
            "same"
        )
    meshes = (
        (shared,) if shared is not None else tuple(_own_mesh(dataset, sample) for sample in made)
    )
    nodes = max(mesh.size for mesh in meshes)
    # (S, T, N, C)
    frames = np.zeros((len(made), len(task.times), nodes, len(task.fields)), dtype=np.float32)
    static = np.zeros((len(made), nodes, len(task.static)), dtype=np.float32)  # (S, N, F)
    scalars = np.zeros((len(made), len(task.scalars)), dtype=np.float32)  # (S, P)
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
    for kind, declared in (
        ("frames", dataset.fields),
        ("static", dataset.static),
        ("scalars", dataset.scalars),
    ):
        is_bad = ~np.isfinite(getattr(samples, kind))
        if is_bad.any():
            index, *_, channel = np.argwhere(is_bad)[0]
            where = f"{declared[channel].name} of {shard.split} sample {shard.start + index}"
            raise PluginError(
                f"{dataset.name}: {where} is not finite as a 32-bit number; its solver diverged "
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
    """All shards of a task, those made before included; `jobs` processes work on the rest (0: one a
    core; 1: this one).

    The cuts do not depend on `jobs`, so that the samples are the same whoever makes them; only this
    process may have more than one BLAS thread, which can change the last bits of a sum.
    """
    chunk = max(1, maker.dataset.chunk)
    cuts = [
        (split, start, min(start + chunk, size))
        for split, size in sizes.items()
        for start in range(0, size, chunk)
    ]
    shards = tuple(Shard(split, start, stop) for split, start, stop in cuts)  # type: ignore[arg-type]
    todo = [shard for shard in shards if not (maker.folder / shard.name).exists()]
    total = sum(sizes.values())
    done = total - sum(shard.stop - shard.start for shard in todo)
    workers = min(jobs or len(os.sched_getaffinity(0)), len(todo))
    if progress is not None:
        progress(done, total)
    with closing(
        _in_this_process(maker, todo) if jobs == 1 else _in_processes(maker, todo, workers)
    ) as finished:
        for shard in finished:
            done += shard.stop - shard.start
            if progress is not None:
                progress(done, total)
    return shards


def _in_this_process(maker: Maker, todo: Sequence[Shard]) -> Generator[Shard, None, None]:
    for shard in todo:
        maker.make(shard)
        yield shard


def _in_processes(
    maker: Maker, todo: Sequence[Shard], workers: int
) -> Generator[Shard, None, None]:
    """Shards as they are finished; each worker gets the next one when it has done its last."""
    waiting = deque(todo)
    order = (_portable(maker.dataset), task_to_json(maker.task), maker.folder, maker.cache.folder)
    with ExitStack() as stack:
        busy = [stack.enter_context(_worker(order)) for _ in range(workers)]
        for connection in busy:
            connection.send(waiting.popleft())
        while busy:
            ready = wait(busy)
            for connection in [one for one in busy if one in ready]:
                yield _answer(maker.dataset, connection)
                if waiting:
                    connection.send(waiting.popleft())
                else:
                    busy.remove(connection)


def _answer(dataset: Dataset, connection: Connection) -> Shard:
    try:
        shard, error, trace = connection.recv()
    except EOFError as error:
        raise DataError(
            f"{dataset.name}: a worker process died, perhaps for want of memory; run again with "
            "fewer --jobs, "
            "finished samples are kept"
        ) from error
    if error is not None:
        raise error from RuntimeError(f"in a worker process:\n{trace}")
    return shard


@contextmanager
def _worker(order: tuple[Any, ...]) -> Iterator[Connection]:
    """A fresh interpreter that serves shards over a pipe; it ends when the pipe does, so none
    outlives a killed parent.
    """
    ours, theirs = Pipe()
    command = [
        sys.executable,
        "-P",
        "-c",
        f"from gsnobench.datasets.generate import serve; serve({theirs.fileno()})",
    ]
    environment = {
        **os.environ,
        **ONE_THREAD,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    process = subprocess.Popen(
        command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
    )
    theirs.close()
    try:
        ours.send(order)
        yield ours
    finally:
        ours.close()
        process.terminate()
        process.wait()


def serve(descriptor: int) -> None:
    """The life of a worker: make the shards that are asked for until the other end of the pipe is
    closed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    os.dup2(2, 1)  # what a plugin prints must not mix with a JSON document on standard output
    connection = Connection(descriptor)
    try:
        plugin, task, folder, cache = connection.recv()
        make = _maker_of(plugin, Path(folder), task, cache)
        while True:
            shard: Shard = connection.recv()
            try:
                make(shard)
                connection.send((shard, None, ""))
            except GsnobenchError as error:
                connection.send((shard, error, traceback.format_exc()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _maker_of(
    plugin: bytes | str, folder: Path, task: str, cache: Path | None
) -> Callable[[Shard], None]:
    """What makes shards in a worker; if the dataset cannot be loaded there, what says so."""
    try:
        dataset = load("dataset", plugin) if isinstance(plugin, str) else pickle.loads(plugin)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        failure = PluginError(f"a worker process cannot load its dataset ({reason})")

        def refuse(shard: Shard) -> None:
            raise failure

        return refuse
    return Maker(dataset, task_from_json(task), folder, Cache(cache)).make


def _portable(dataset: Dataset) -> bytes | str:
    """A dataset as another process can have it: its functions by reference, or else the name of its
    plugin.
    """
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
    """One array of all shards of a split, padded to the largest node count; shards are opened when
    they are read.
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
                    values = getattr(opened.split(shard.split), self.name)[
                        rows[is_here] - shard.start
                    ]
                block[(is_here, *map(slice, values.shape[1:]))] = values
        return block


def join_shards(maker: Maker, shards: Sequence[Shard]) -> dict[Split, Samples]:
    """The splits of finished shards, ready to be written as one file."""
    task, splits = maker.task, dict.fromkeys(shard.split for shard in shards)
    held = {split: tuple(shard for shard in shards if shard.split == split) for split in splits}
    meshes = {split: _joined_meshes(maker, held[split]) for split in splits}
    samples = {}
    for split, parts in held.items():
        count, nodes = parts[-1].stop, max(mesh.size for mesh in meshes[split])
        shapes = {
            "frames": (count, len(task.times), nodes, len(task.fields)),
            "static": (count, nodes, len(task.static)),
            "scalars": (count, len(task.scalars)),
        }
        arrays = {name: Joined(maker.folder, parts, name, shape) for name, shape in shapes.items()}
        samples[split] = Samples(task, meshes[split], **arrays)
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
    """Remove the chunks of a file that is whole."""
    shutil.rmtree(maker.folder, ignore_errors=True)
